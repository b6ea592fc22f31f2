#include "pt_storage-inl.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../files/byte_order-inl.hpp"
#include "../json/utf8-inl.hpp"
#include "../../ops/create.hpp"
#include "../../tensor/checked.hpp"

namespace weft::io {

namespace {

// Whether the archive is big-endian. PyTorch before 2.1 does not record it.
bool is_swapped(const ZipReader& archive, const std::string& root) {
  const ZipEntry* entry = archive.find(root + "/byteorder");
  if (entry == nullptr) return false;
  const std::string order = entry->size <= 16 ? archive.read(*entry) : "";
  if (order != "little" && order != "big") archive.fail("the entry byteorder says neither little nor big");
  return order == "big";
}

bool fills(const PtWindow& window, int64_t elements) {
  Checked next = 1;
  bool dense = window.offset == 0;
  for (int i = window.sizes.size() - 1; i >= 0; --i) {
    dense = dense && (window.sizes[i] == 1 || window.strides[i] == next.value());
    next *= window.sizes[i];
  }
  return dense && next.fits() && next.value() == elements;
}

// Returns null if the window is within a storage of this number of elements.
const char* problem_of(const PtWindow& window, int64_t elements) {
  if (window.sizes.size() != window.strides.size()) return "has not one stride for each size";
  const int64_t item = itemsize(window.dtype);
  Checked last = window.offset, numel = 1;
  for (int i = 0; i < window.sizes.size(); ++i) {
    const int64_t size = window.sizes[i], stride = window.strides[i];
    if (size < 0 || stride < 0) return "has a negative size or stride";
    numel *= size;
    last += Checked(std::max<int64_t>(size, 1) - 1) * stride;
    if (!(Checked(stride) * item).fits()) return "has a stride beyond 2^63 - 1 bytes";
  }
  if (window.offset < 0) return "starts before its storage";
  if (numel.fits() && numel.value() == 0) return nullptr;
  if (!last.fits() || last.value() >= elements) return "leaves its storage";
  return (numel * item).fits() ? nullptr : "has more than 2^63 - 1 bytes";
}

}  // namespace

PtStorages::PtStorages(const ZipReader& archive, std::string root, Device device)
    : archive_(archive), root_(std::move(root)), device_(device), swapped_(is_swapped(archive, root_)) {}

Tensor PtStorages::read(const ZipEntry& entry, const Dims& sizes, DType dtype, const Name& name) const {
  Tensor out = empty(sizes, dtype, archive_.where());
  const auto bytes = static_cast<size_t>(out.nbytes());
  auto* data = static_cast<std::byte*>(out.data_ptr());
  ZipStream stream(archive_, entry);
  stream.read(data, bytes);
  stream.finish();
  if (swapped_) swap_bytes(data, bytes, static_cast<size_t>(itemsize(dtype)));
  const auto is_bool = [](std::byte b) { return b <= std::byte{1}; };
  if (dtype == DType::boolean && !std::all_of(data, data + bytes, is_bool)) {
    archive_.fail(fmt::format("{} holds bools other than 0 and 1", name()));
  }
  return device_.is_cpu() ? out : out.to(device_, archive_.where());
}

Tensor PtStorages::view(std::string_view key, int64_t bytes, const PtWindow& window, const Name& name) {
  const Location where = archive_.where();
  const ZipEntry* entry = archive_.find(fmt::format("{}/data/{}", root_, key));
  if (entry == nullptr) archive_.fail(fmt::format("{} is in the storage {}, which is missing", name(), quoted(key)));
  if (entry->size != static_cast<uint64_t>(bytes)) {
    archive_.fail(fmt::format("{} is in a storage of {} bytes, its entry has {}", name(), bytes, entry->size));
  }
  const int64_t item = itemsize(window.dtype), elements = bytes / item;
  const char* problem = bytes % item != 0 ? "is in a storage with a part of an element" : problem_of(window, elements);
  if (problem != nullptr) archive_.fail(fmt::format("{} {}", name(), problem));
  Storage& storage = loaded_[std::string(key)];
  if (storage.windows == 1 && fills(window, elements)) return read(*entry, window.sizes, window.dtype, name);
  if (!storage.loaded) {
    storage.base = read(*entry, elements, window.dtype, name);
    storage.dtype = window.dtype;
    storage.loaded = true;
  }
  Tensor base = storage.base;
  if (storage.dtype != window.dtype) {
    const bool one_order = !swapped_ || itemsize(storage.dtype) == item;
    if (window.dtype == DType::boolean || !one_order)
      archive_.fail(fmt::format("{} shares memory of another dtype", name()));
    base = base.view_bytes(window.dtype, where);
  }
  return base.as_strided(window.sizes, window.strides, window.offset, where);
}

}  // namespace weft::io
