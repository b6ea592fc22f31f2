// Named tensors in memory or in one or more files, read on demand.
#pragma once

#include "safetensors.hpp"

namespace weft::io {

/// Names, dtypes and shapes are known; elements are read by `get`, `get_slice` and the methods that use them. A store
/// derived from another one, such as a mapped one, reads only the elements that a request needs. Copies share
/// everything.
class WEFT_API TensorStore {
 public:
  struct Info {
    DType dtype;
    Dims shape;
  };
  using Entries = std::map<std::string, Info>;
  /// Returns the elements from `starts` to `ends`, with the entry's dtype; the range is within the tensor. Must be safe
  /// to call from several threads.
  using Reader = Callback<Tensor(const std::string& name, const Dims& starts, const Dims& ends, Location where)>;

  /// An empty store.
  TensorStore();
  /// Raises ShapeError for an entry of more than 2^63 - 1 bytes.
  TensorStore(Entries entries, Reader read, Location where = {});
  /// Every tensor of the file, including aliases.
  TensorStore(const SafeFile& file, Location where = {});
  /// Raises ValueError for a tensor that is undefined or on meta.
  TensorStore(const TensorMap& tensors, Location where = {});

  const Entries& entries() const;
  bool contains(const std::string& name) const { return entries().contains(name); }
  /// Raises KeyError for an unknown name.
  const Info& info(const std::string& name, Location where = {}) const;
  /// Returns the tensor: a view of the underlying memory if the elements are contiguous there, else new memory. Raises
  /// KeyError for an unknown name, and the errors of the reader.
  Tensor get(const std::string& name, Device device = {}, Location where = {}) const;
  /// Returns the elements from `starts` to `ends`, with one entry per dimension. Memory and errors as get; ShapeError
  /// for another number of starts or ends, IndexError unless 0 <= start <= end <= size.
  Tensor get_slice(const std::string& name, const Dims& starts, const Dims& ends, Device device = {},
                   Location where = {}) const;
  /// As get, but always in new contiguous memory.
  Tensor copy(const std::string& name, Device device = {}, Location where = {}) const;
  /// Returns a copy of every tensor.
  TensorMap tensors(Device device = {}, Location where = {}) const;

  /// Returns a store of the tensors with `wanted(name)`.
  TensorStore only(const Callback<bool(const std::string& name)>& wanted) const;

  /// Arguments for save_file, save_stream and save_sharded, with one tensor at a time in memory:
  /// `save_file(store.list(), store.source(), path)`.
  std::vector<TensorEntry> list() const;
  TensorSource source() const;

 private:
  struct Contents;
  Shared<const Contents> contents_;
};

/// Copies the store's tensors into destinations of the same names, such as a module's state_dict, one at a time,
/// converted to their dtypes and devices. The store must not read from the destinations' memory. Raises KeyError for a
/// destination that the store lacks and, with `strict`, for a tensor without a destination; ShapeError if a shape
/// differs. All errors are found before anything is written.
WEFT_API void load_into(const TensorMap& destinations, const TensorStore& store, bool strict = true,
                        Location where = {});

}  // namespace weft::io
