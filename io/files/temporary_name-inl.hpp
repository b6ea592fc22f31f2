// The temporary names that AtomicFile and AtomicFolder write under, and whether a process still writes one. Internal to
// io/.
#pragma once

#include <string>
#include <vector>

namespace weft::io {

/// A random name beside the target.
std::string new_temporary_name(const std::string& target);

/// Marks a new temporary file as in use, until it is closed or its process ends. False where the file system has no
/// locks; files there are never treated as leftovers.
bool lock_in_use(int file);

/// Whether the name refers to this open file.
bool is_named(int file, const std::string& name);

/// The temporary names of this target that its folder holds.
std::vector<std::string> temporary_names_of(const std::string& target);

/// Removes the temporary files of this target that are not in use. Those that cannot be checked stay.
void remove_leftovers(const std::string& target);

}  // namespace weft::io
