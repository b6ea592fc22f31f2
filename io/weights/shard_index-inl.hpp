// The index of a sharded model: maps each tensor to its file. Internal to io/.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "../path.hpp"
#include "../../tensor/error.hpp"

namespace weft::io {

struct ShardIndex {
  /// Bytes of all tensors, if the index has it.
  std::optional<uint64_t> total_size;
  std::map<std::string, std::string> weight_map;
};

/// Raises FormatError, with the byte or the JSON path; `path` is only used in messages.
ShardIndex parse_index(std::string_view text, const Path& path, Location where);

/// Same as Python's json.dumps(index, indent=2, sort_keys=True) and a line break. Raises ValueError for a name that is
/// not UTF-8.
std::string index_text(const ShardIndex& index, const char* op, Location where);

}  // namespace weft::io
