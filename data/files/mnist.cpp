#include "../mnist.hpp"

#include <fmt/format.h>

#include "../../io/files/folder-inl.hpp"
#include "../../io/idx.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::data {

namespace {

/// Returns the first existing file of the usual names, else the first name.
io::Path file_named(const io::Path& folder, const char* part, const char* what, int dimensions) {
  for (const char* pattern : {"{}-{}-idx{}-ubyte", "{}-{}.idx{}-ubyte", "{}-{}-idx{}-ubyte.idx", "{}-{}.idx"}) {
    const io::Path path = folder / fmt::format(fmt::runtime(pattern), part, what, dimensions);
    if (io::exists(path)) return path;
  }
  return folder / fmt::format("{}-{}-idx{}-ubyte", part, what, dimensions);
}

}  // namespace

LabelledImages load_mnist(const io::Path& folder, bool train, Location where) {
  const CallScope call("load_mnist", where);
  const char* part = train ? "train" : "t10k";
  const Tensor images = io::load_idx(file_named(folder, part, "images", 3), {}, where);
  const Tensor labels = io::load_idx(file_named(folder, part, "labels", 1), {}, where);
  if (images.dim() != 3 || images.dtype() != DType::u8 || labels.dtype() != DType::u8 ||
      labels.shape() != Dims(images.size(0))) {
    raise<FormatError>(
        {.op = "load_mnist",
         .problem = mismatch_text("images and labels", "uint8 [n, height, width] and uint8 [n]",
                                  fmt::format("{} {} and {} {}", name(images.dtype()), images.shape().text(),
                                              name(labels.dtype()), labels.shape().text())),
         .details = folder.string()},
        where);
  }
  return {images.unsqueeze(1), labels.to(DType::i64)};
}

}  // namespace weft::data
