// Registry of mapped files, so that a truncated file raises an error instead of ending the process. Internal to io/.
#pragma once

#include <csignal>
#include <cstddef>

#include <sys/stat.h>

#include "../path.hpp"

namespace weft::io {

/// Registers a mapping of `path` and returns its index, or `no_range` if the registry is full.
inline constexpr size_t no_range = static_cast<size_t>(-1);
size_t remember_range(std::byte* data, size_t bytes, const Path& path, const struct stat& file);
/// Must be called before the memory is unmapped.
void forget_range(size_t number);

/// Returns whether a SIGBUS came from a mapped file that was truncated within a ReadScope. If so, maps zero pages
/// there. Async-signal-safe.
bool recover_range(int signal, const siginfo_t* info);

}  // namespace weft::io
