// The metadata of a sharded state: JSON text to and from values. Internal to io/.
#pragma once

#include <string_view>

#include "../sharded_state.hpp"

namespace weft::io {

/// "3_1.safetensors"
std::string rank_file(int64_t rank, int64_t id);
/// The rank and the id, or nothing.
std::optional<std::pair<int64_t, int64_t>> numbers_of_file(std::string_view name);
/// A number of decimal digits without leading zeros.
std::optional<int64_t> number_in(std::string_view digits);

/// ValueError for a name that is not UTF-8.
std::string metadata_text(const StateMetadata& metadata, Location where);
/// FormatError, with the byte or the JSON path, for anything malformed, shards that do not fit their tensors included;
/// whether they make wholes is not looked at. VersionError where a newer program wrote it. `path` is for messages.
StateMetadata parse_metadata(std::string_view text, int64_t id, const Path& path, Location where);

}  // namespace weft::io
