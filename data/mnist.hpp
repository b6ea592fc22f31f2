// MNIST, Fashion-MNIST and others in their form: a folder with an IDX file of images and one of labels for each part.
#pragma once

#include "labelled_images.hpp"
#include "../io/path.hpp"

namespace weft::data {

/// The images u8 [n, 1, height, width] for training, or the part named "t10k". Files are found under the names that are
/// in use, "train-images-idx3-ubyte" with "." for its second "-" or ".idx" at its end. IoError where one is missing,
/// FormatError where one is malformed or their lengths differ.
WEFT_API LabelledImages load_mnist(const io::Path& folder, bool train = true, Location where = {});

}  // namespace weft::data
