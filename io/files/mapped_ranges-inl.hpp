// Where files are mapped, so that one that another program cuts short is an error rather than the end of the process.
// Internal to io/.
#pragma once

#include <csignal>
#include <cstddef>

#include <sys/stat.h>

#include "../path.hpp"

namespace weft::io {

/// Remembers a mapping of `path`; the number stands for it. No number, `no_range`, where too many are known.
inline constexpr size_t no_range = static_cast<size_t>(-1);
size_t remember_range(std::byte* data, size_t bytes, const Path& path, const struct stat& file);
/// Called before the memory is given back.
void forget_range(size_t number);

/// Whether a SIGBUS came from a mapped file that was cut short within a ReadScope: then its lost pages read as zeros
/// from now on. Async-signal-safe.
bool recover_range(int signal, const siginfo_t* info);

}  // namespace weft::io
