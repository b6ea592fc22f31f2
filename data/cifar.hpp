// CIFAR-10 and CIFAR-100 in their binary form (Krizhevsky 2009): for each image one or two label bytes and 3072 bytes
// of pixels.
#pragma once

#include <vector>

#include "labelled_images.hpp"
#include "../io/path.hpp"

namespace weft::data {

/// Returns the images [n, 3, 32, 32] of one or several files, in order, with labels from 0 to 9. Raises IoError if a
/// file cannot be read, and FormatError if its length is not a multiple of 3073 bytes or a label is above 9.
WEFT_API LabelledImages read_cifar10(const std::vector<io::Path>& files, Location where = {});

struct Cifar100 {
  Tensor images;         ///< u8 [n, 3, 32, 32]
  Tensor labels;         ///< i64 [n], from 0 to 99
  Tensor coarse_labels;  ///< i64 [n], from 0 to 19
};
/// Same for CIFAR-100, with 3074 bytes per image.
WEFT_API Cifar100 read_cifar100(const std::vector<io::Path>& files, Location where = {});

/// Returns the published files of a folder, or of "cifar-10-batches-bin" or "cifar-100-binary" in it: five files and
/// one for CIFAR-10, "train.bin" and "test.bin" for CIFAR-100.
WEFT_API LabelledImages load_cifar10(const io::Path& folder, bool train = true, Location where = {});
WEFT_API Cifar100 load_cifar100(const io::Path& folder, bool train = true, Location where = {});

}  // namespace weft::data
