#include "../cifar.hpp"

#include <cstring>
#include <string>

#include <fmt/format.h>

#include "../../io/file.hpp"
#include "../../io/files/folder-inl.hpp"
#include "../../ops/create.hpp"

namespace weft::data {

namespace {

constexpr size_t pixels = 3 * 32 * 32;

struct Kind {
  const char* op;
  std::vector<int> classes;  ///< number of classes of each label byte
};

/// The images, and one label tensor for each label byte.
std::pair<Tensor, std::vector<Tensor>> read(const Kind& kind, const std::vector<io::Path>& paths, Location where) {
  const io::ReadScope reading;
  const size_t record = kind.classes.size() + pixels;
  std::vector<io::MappedFile> files;
  int64_t count = 0;
  for (const io::Path& path : paths) {
    const size_t bytes = files.emplace_back(io::MappedFile::open(path, kind.op, where)).bytes().size();
    count += static_cast<int64_t>(bytes / record);
    if (bytes % record == 0) continue;
    raise<FormatError>(
        {.op = kind.op, .problem = fmt::format("{}: {} bytes are no multiple of {}", path.string(), bytes, record)},
        where);
  }
  const Tensor images = empty({count, 3, 32, 32}, {.dtype = DType::u8});
  std::vector<Tensor> labels;
  for (size_t i = 0; i < kind.classes.size(); ++i) labels.push_back(empty({count}, {.dtype = DType::i64}));
  auto* to = static_cast<std::byte*>(images.data_ptr());
  size_t n = 0;
  for (size_t f = 0; f < files.size(); ++f) {
    const std::span<const std::byte> bytes = files[f].bytes();
    for (size_t at = 0; at < bytes.size(); at += record, ++n) {
      for (size_t i = 0; i < kind.classes.size(); ++i) {
        const int label = std::to_integer<int>(bytes[at + i]);
        if (label >= kind.classes[i]) {
          raise<FormatError>({.op = kind.op,
                              .problem = fmt::format("{}: byte {} is class {} of {}", paths[f].string(), at + i, label,
                                                     kind.classes[i])},
                             where);
        }
        static_cast<int64_t*>(labels[i].data_ptr())[n] = label;
      }
      std::memcpy(to + n * pixels, bytes.data() + at + kind.classes.size(), pixels);
    }
  }
  reading.check(kind.op, where);
  return {images, labels};
}

io::Path inside(const io::Path& folder, const char* published) {
  return io::is_folder(folder / published) ? folder / published : folder;
}

}  // namespace

LabelledImages read_cifar10(const std::vector<io::Path>& files, Location where) {
  const CallScope call("read_cifar10", where);
  const auto [images, labels] = read({"read_cifar10", {10}}, files, where);
  return {images, labels[0]};
}

Cifar100 read_cifar100(const std::vector<io::Path>& files, Location where) {
  const CallScope call("read_cifar100", where);
  const auto [images, labels] = read({"read_cifar100", {20, 100}}, files, where);
  return {images, labels[1], labels[0]};
}

LabelledImages load_cifar10(const io::Path& folder, bool train, Location where) {
  const io::Path from = inside(folder, "cifar-10-batches-bin");
  if (!train) return read_cifar10({from / "test_batch.bin"}, where);
  std::vector<io::Path> files;
  for (int i = 1; i <= 5; ++i) files.push_back(from / fmt::format("data_batch_{}.bin", i));
  return read_cifar10(files, where);
}

Cifar100 load_cifar100(const io::Path& folder, bool train, Location where) {
  return read_cifar100({inside(folder, "cifar-100-binary") / (train ? "train.bin" : "test.bin")}, where);
}

}  // namespace weft::data
