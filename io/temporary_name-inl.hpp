// Names in folders, and the temporary ones that AtomicFile writes: what they are, and whether a process still writes
// one. Internal to io/.
#pragma once

#include <string>
#include <vector>

#include "path.hpp"
#include "../tensor/error.hpp"

namespace weft::io {

/// "." where the name has no folder.
std::string folder_of(const std::string& path);

/// Names in a folder, sorted; empty where it cannot be read.
std::vector<std::string> names_in(const std::string& folder);

/// Whether anything has this name.
bool exists(const Path& path);
/// Removes a file that may be gone already. IoError.
void remove_file(const Path& path, const char* op, Location where);

/// Brings a folder's names to the disk, where its file system can promise that.
void flush_folder(const std::string& folder);

/// The end of a chain of symbolic links, which need not exist yet. False with the error's number where the name is
/// empty or the links form a cycle.
bool follow_links(const std::string& path, std::string& target, int& error);

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
