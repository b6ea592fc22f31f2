// Named tensors that lie somewhere, in memory, in a file or in many, and are read where they are asked for.
#pragma once

#include "safetensors.hpp"

namespace weft::io {

/// Names, dtypes and shapes are known; elements are read by `get`, `get_slice` and what is built on them. A store made
/// of another one, such as a mapped one, reads of that what is needed for the answer. Copies share everything.
class WEFT_API TensorStore {
 public:
  struct Info {
    DType dtype;
    Dims shape;
  };
  using Entries = std::map<std::string, Info>;
  /// Gives the elements from `starts` to `ends`, which lie within the tensor, with the entry's dtype; it may be called
  /// from several threads.
  using Reader = Callback<Tensor(const std::string& name, const Dims& starts, const Dims& ends, Location where)>;

  /// Without tensors.
  TensorStore();
  /// ShapeError for an entry of more than 2^63 - 1 bytes.
  TensorStore(Entries entries, Reader read, Location where = {});
  /// Every tensor of the file, aliases under both names.
  TensorStore(const SafeFile& file, Location where = {});
  /// ValueError for a tensor that is undefined or on meta.
  TensorStore(const TensorMap& tensors, Location where = {});

  const Entries& entries() const;
  bool contains(const std::string& name) const { return entries().contains(name); }
  /// KeyError for an unknown name.
  const Info& info(const std::string& name, Location where = {}) const;
  /// A view of what the store reads from where that has the elements in one piece, else new memory. KeyError for an
  /// unknown name, and what the reader raises.
  Tensor get(const std::string& name, Device device = {}, Location where = {}) const;
  /// The elements from `starts` to `ends`, one of each for every dimension. Memory and errors as get; ShapeError for
  /// another number of starts or ends, IndexError unless 0 <= start <= end <= size.
  Tensor get_slice(const std::string& name, const Dims& starts, const Dims& ends, Device device = {},
                   Location where = {}) const;
  /// As get, in contiguous memory that nobody else has.
  Tensor copy(const std::string& name, Device device = {}, Location where = {}) const;
  /// A copy of every tensor.
  TensorMap tensors(Device device = {}, Location where = {}) const;

  /// The tensors whose names are wanted.
  TensorStore only(const Callback<bool(const std::string& name)>& wanted) const;

  /// What save_file, save_stream and save_sharded take, so that one tensor at a time is in memory:
  /// `save_file(store.list(), store.source(), path)`.
  std::vector<TensorEntry> list() const;
  TensorSource source() const;

 private:
  struct Contents;
  Shared<const Contents> contents_;
};

/// Copies the store's tensors into those of the same names, such as a module's state_dict, one at a time and converted
/// to their dtypes and devices. The store does not read of the destinations' memory. KeyError for a destination that
/// the store has not and, with `strict`, for a tensor of the store that is no destination; ShapeError where a shape
/// differs. All of that is found before anything is written.
WEFT_API void load_into(const TensorMap& destinations, const TensorStore& store, bool strict = true,
                        Location where = {});

}  // namespace weft::io
