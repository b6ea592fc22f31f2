// CIFAR-10 and CIFAR-100 in their binary form (Krizhevsky 2009): for each image a byte with its class, or two, and 3072
// bytes of colours.
#pragma once

#include <vector>

#include "labelled_images.hpp"
#include "../io/path.hpp"

namespace weft::data {

/// The images [n, 3, 32, 32] of one or several files, one after the other, with classes from 0 to 9. IoError where one
/// cannot be read; FormatError where its length is no multiple of 3073 bytes or a class is beyond 9.
WEFT_API LabelledImages read_cifar10(const std::vector<io::Path>& files, Location where = {});

struct Cifar100 {
  Tensor images;         ///< u8 [n, 3, 32, 32]
  Tensor labels;         ///< i64 [n], from 0 to 99
  Tensor coarse_labels;  ///< i64 [n], from 0 to 19
};
/// The same for CIFAR-100, whose images have 3074 bytes.
WEFT_API Cifar100 read_cifar100(const std::vector<io::Path>& files, Location where = {});

/// The published files in a folder, or in "cifar-10-batches-bin" and "cifar-100-binary" in it: five and one for
/// CIFAR-10, "train.bin" and "test.bin" for CIFAR-100.
WEFT_API LabelledImages load_cifar10(const io::Path& folder, bool train = true, Location where = {});
WEFT_API Cifar100 load_cifar100(const io::Path& folder, bool train = true, Location where = {});

}  // namespace weft::data
