// The metadata of a sharded state: conversion between JSON and values. Internal to io/.
#pragma once

#include <string_view>

#include "../sharded_state.hpp"

namespace weft::io {

/// "3_1.safetensors"
std::string rank_file(int64_t rank, int64_t id);
/// Returns the rank and the id, or nothing.
std::optional<std::pair<int64_t, int64_t>> numbers_of_file(std::string_view name);
/// Parses decimal digits without leading zeros.
std::optional<int64_t> number_in(std::string_view digits);

/// Raises ValueError for a name that is not UTF-8.
std::string metadata_text(const StateMetadata& metadata, Location where);
/// Raises FormatError, with the byte or the JSON path, for malformed text and for shards that do not fit their tensors,
/// but does not check that shards cover them. Raises VersionError if a newer version wrote it. `path` is only used in
/// messages.
StateMetadata parse_metadata(std::string_view text, int64_t id, const Path& path, Location where);

}  // namespace weft::io
