// The storages of a .pt file, and the tensors in them. Not public.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "zip-inl.hpp"
#include "../../tensor/callback.hpp"
#include "../../tensor/dims.hpp"

namespace weft::io {

/// A window into a storage, in elements of the tensor's dtype, as the file has it: nothing is checked yet.
struct PtWindow {
  DType dtype;
  int64_t offset;
  Dims sizes, strides;
};

class PtStorages {
 public:
  using Name = Callback<std::string()>;

  /// Of the archive whose entries are `root`/data/KEY.
  PtStorages(const ZipReader& archive, std::string root, Device device);

  /// Counts the windows to come, so that a storage with one that fills it becomes that tensor.
  void expect(std::string_view key) { ++loaded_[std::string(key)].windows; }

  /// A tensor in the storage `key`, which is said to have `bytes` bytes. All tensors of one storage share its memory.
  /// FormatError, which calls the tensor `name()`, where the window leaves the storage or the entry has another size.
  Tensor view(std::string_view key, int64_t bytes, const PtWindow& window, const Name& name);

 private:
  struct Storage {
    int windows = 0;
    bool loaded = false;
    DType dtype = DType::u8;
    /// One dimension, on the device.
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
