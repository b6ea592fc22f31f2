// What a safetensors file will hold, planned before anything is written. Internal to io/.
#pragma once

#include <optional>
#include <span>

#include "../file.hpp"
#include "safetensors_header-inl.hpp"

namespace weft::io {

/// Names of aliases, with the tensors that stand for them.
using Aliases = std::map<std::string, std::string>;
using NamedTensor = std::pair<std::string, Tensor>;

/// Refuses what cannot be saved; tensors that are one, by `tie`, become aliases of the first.
Aliases checked_aliases(std::span<const NamedTensor> tensors, Tie tie, const char* op, Location where);

class SavePlan {
 public:
  SavePlan(const std::vector<TensorEntry>& entries, const Metadata& metadata, const Aliases& aliases, const char* op,
           Location where);

  /// Gives the whole file to put(data, bytes), piece by piece.
  void write(const TensorSource& source, size_t buffer_bytes, const Callback<void(const void*, size_t)>& put,
             Location where) const;
  /// All but the commit.
  void write(const TensorSource& source, size_t buffer_bytes, AtomicFile& file, Location where) const;

 private:
  Tensor checked(const HeaderEntry& entry, Tensor tensor, Location where) const;
  /// Where a byte of the file belongs, in words.
  std::string place_of(size_t byte) const;
  friend class StreamWriter;

  const char* op_;
  std::vector<HeaderEntry> entries_;
  std::string header_;
};

}  // namespace weft::io
