#include "../npz.hpp"

#include <fmt/format.h>

#include "../../ops/create.hpp"
#include "../../tensor/error.hpp"
#include "npy_format-inl.hpp"
#include "../json/utf8-inl.hpp"
#include "../file.hpp"
#include "zip-inl.hpp"

namespace weft::io {

namespace {

constexpr std::string_view suffix = ".npy";
// A zip entry has 16 bits for the length of its name.
constexpr size_t longest_name = 60'000;

void check(const std::string& name, const Tensor& tensor, Location where) {
  const char* problem = nullptr;
  if (!tensor.defined()) problem = "is undefined";
  else if (tensor.device().type == DeviceType::meta) problem = "is on the meta device and has no elements";
  else if (!is_utf8(name) || name.find('\0') != name.npos) problem = "is no name in UTF-8";
  else if (name.size() > longest_name) problem = "is longer than a name may be";
  if (problem == nullptr) return;
  raise<ValueError>({.op = "save_npz", .problem = fmt::format("{} {}", quoted(name), problem)}, where);
}

Tensor read_entry(const ZipReader& archive, const ZipEntry& entry, const Path& path, Device device) {
  ZipStream stream(archive, entry);
  std::string details = fmt::format("{} in {}", quoted(entry.name), path.string());
  const auto take = [&](void* to, size_t bytes) { stream.read(to, bytes); };
  const Tensor out = read_npy({archive.op(), std::move(details), archive.where(), entry.size, take}, device);
  stream.finish();
  return out;
}

}  // namespace

void save_npz(const TensorMap& tensors, const Path& path, bool compressed, Location where) {
  std::vector<ZipItem> items;
  for (const auto& [name, tensor] : tensors) {
    check(name, tensor, where);
    items.push_back({name + std::string(suffix), npy_header(tensor, "save_npz", where), tensor});
  }
  write_zip(path, items, compressed, "save_npz", where);
}

TensorMap load_npz(const Path& path, Device device, Location where) {
  const ReadScope reading;
  const ZipReader archive(path, "load_npz", where);
  TensorMap out;
  for (const ZipEntry& entry : archive.entries()) {
    const std::string_view file = entry.name;
    const std::string name(file.ends_with(suffix) ? file.substr(0, file.size() - suffix.size()) : file);
    if (!out.emplace(name, read_entry(archive, entry, path, device)).second) {
      archive.fail(fmt::format("two arrays {}", quoted(name)));
    }
  }
  reading.check("load_npz", where);
  return out;
}

}  // namespace weft::io
