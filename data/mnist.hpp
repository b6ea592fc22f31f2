// MNIST, Fashion-MNIST and similar data sets: a folder with IDX files of images and labels for each split.
#pragma once

#include "labelled_images.hpp"
#include "../io/path.hpp"

namespace weft::data {

/// Returns the images u8 [n, 1, height, width] of the training split, or of the split named "t10k". Accepted file names
/// are "train-images-idx3-ubyte", with "." for its second "-", or with ".idx" at its end. Raises IoError if a file is
/// missing, and FormatError if one is malformed or their lengths differ.
WEFT_API LabelledImages load_mnist(const io::Path& folder, bool train = true, Location where = {});

}  // namespace weft::data
