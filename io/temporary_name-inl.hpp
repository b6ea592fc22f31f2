// The temporary files that AtomicFile writes: their names, and whether a process still writes one. Internal to io/.
#pragma once

#include <string>

namespace weft::io {

/// "." where the name has no folder.
std::string folder_of(const std::string& path);

/// What a chain of symbolic links ends in, which need not exist yet. False with the error's number where the name is
/// empty or the links go in a circle.
bool follow_links(const std::string& path, std::string& target, int& error);

/// A name beside the target that no file is likely to have.
std::string new_temporary_name(const std::string& target);

/// Marks a new temporary file as in use, until it is closed or its process ends. False where the file system has no
/// locks: then its files are never taken for leftovers.
bool lock_in_use(int file);

/// Whether this open file is what the name leads to.
bool is_named(int file, const std::string& name);

/// Removes the temporary files of this target that nobody writes any more. What cannot be looked at stays.
void remove_leftovers(const std::string& target);

}  // namespace weft::io
