// The storages of a .pt file, and their tensors. Not public.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "zip-inl.hpp"
#include "../../tensor/callback.hpp"
#include "../../tensor/dims.hpp"

namespace weft::io {

/// A window of a storage, in elements of the tensor's dtype, as given by the file and not yet validated.
struct PtWindow {
  DType dtype;
  int64_t offset;
  Dims sizes, strides;
};

class PtStorages {
 public:
  using Name = Callback<std::string()>;

  /// `root` is the prefix of the archive's entries `root`/data/KEY.
  PtStorages(const ZipReader& archive, std::string root, Device device);

  /// Counts the windows of a storage. If there is only one and it covers the storage, its tensor becomes the storage.
  void expect(std::string_view key) { ++loaded_[std::string(key)].windows; }

  /// Returns a tensor in the storage `key`, with a declared size of `bytes`. Tensors of one storage share its memory.
  /// Raises FormatError, which calls the tensor `name()`, if the window exceeds the storage or the entry has another
  /// size.
  Tensor view(std::string_view key, int64_t bytes, const PtWindow& window, const Name& name);

 private:
  struct Storage {
    int windows = 0;
    bool loaded = false;
    DType dtype = DType::u8;
    /// 1-d, on the device.
    Tensor base;
  };
  Tensor read(const ZipEntry& entry, const Dims& sizes, DType dtype, const Name& name) const;

  const ZipReader& archive_;
  std::string root_;
  Device device_;
  bool swapped_ = false;
  std::map<std::string, Storage> loaded_;
};

}  // namespace weft::io
