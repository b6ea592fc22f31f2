// Temporary names of AtomicFile and AtomicFolder, with locks that mark names in use. Internal to io/.
//
// The lock distinguishes files of a running process from remains of a killed one, which the next save removes.
// Process ids cannot: they are not unique between containers.
#pragma once

#include <string>
#include <vector>

namespace weft::io {

/// Returns a random name in the target's folder.
std::string new_temporary_name(const std::string& target);

/// Marks a new temporary file as in use until it is closed or its process ends. Returns false if the file system has no
/// locks; files there are never treated as leftovers.
bool lock_in_use(int file);

/// Whether the name refers to this open file.
bool is_named(int file, const std::string& name);

/// Returns the existing temporary names of this target.
std::vector<std::string> temporary_names_of(const std::string& target);

/// Removes the temporary files of this target that are not in use. Files that cannot be checked stay.
void remove_leftovers(const std::string& target);

}  // namespace weft::io
