// The header of a safetensors file: conversion between JSON and entries, with every check of the format. Internal to
// io/.
#pragma once

#include <string_view>

#include "../safetensors.hpp"

namespace weft::io {

struct SafeHeader {
  std::map<std::string, SafeFile::Info> entries;
  /// Without the alias entries.
  Metadata metadata;
  std::map<std::string, std::string> aliases;
};

/// Prefix of an alias in the metadata.
inline constexpr std::string_view alias_prefix = "weft.alias.";

[[noreturn]] void malformed(std::string problem, const Path& path, Location where);

/// `text` is the header without its 8-byte length, `data_bytes` the number of bytes after it in the file; `path` is
/// only used in messages.
SafeHeader parse_header(std::string_view text, size_t data_bytes, const Path& path, Location where);

struct HeaderEntry {
  std::string name;
  SafeFile::Info info;
};
/// Returns the header's text, padded so that the data starts at a multiple of eight bytes.
std::string header_text(const std::vector<HeaderEntry>& entries, const Metadata& metadata, const char* op,
                        Location where);

}  // namespace weft::io
