// Plan of a safetensors file, made before anything is written. Internal to io/.
#pragma once

#include <optional>
#include <span>

#include "../file.hpp"
#include "safetensors_header-inl.hpp"

namespace weft::io {

/// Aliases, and for each the name of the stored tensor.
using Aliases = std::map<std::string, std::string>;
using NamedTensor = std::pair<std::string, Tensor>;

/// Raises an error for tensors that cannot be saved. Tied tensors become aliases of the first, if `tie` allows it.
Aliases checked_aliases(std::span<const NamedTensor> tensors, Tie tie, const char* op, Location where);

class SavePlan {
 public:
  SavePlan(const std::vector<TensorEntry>& entries, const Metadata& metadata, const Aliases& aliases, const char* op,
           Location where);

  /// Calls put(data, bytes) for consecutive chunks of the whole file.
  void write(const TensorSource& source, size_t buffer_bytes, const Callback<void(const void*, size_t)>& put,
             Location where) const;
  /// Writes the file without committing it.
  void write(const TensorSource& source, size_t buffer_bytes, AtomicFile& file, Location where) const;

 private:
  Tensor checked(const HeaderEntry& entry, Tensor tensor, Location where) const;
  /// Describes the location of a byte in the file.
  std::string place_of(size_t byte) const;
  friend class StreamWriter;

  const char* op_;
  std::vector<HeaderEntry> entries_;
  std::string header_;
};

}  // namespace weft::io
