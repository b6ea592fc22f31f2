// Folders and file names. Internal to io/ and data/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../path.hpp"
#include "../../tensor/error.hpp"

namespace weft::io {

/// "." if the path has no folder.
std::string folder_of(const std::string& path);

/// Names in a folder, sorted; empty if it cannot be read.
std::vector<std::string> names_in(const std::string& folder);
/// Same; raises IoError if it cannot be read.
std::vector<std::string> checked_names_in(const Path& folder, const char* op, Location where);

bool exists(const Path& path);
/// Follows links.
bool is_folder(const Path& path);
bool is_link(const Path& path);
/// False if the path does not exist. Raises IoError if the folder cannot be read.
bool is_empty_folder(const Path& path, const char* op, Location where);
/// Size in bytes; -1 if it is not a file.
int64_t size_of_file(const Path& path);

/// Removes a file; a missing file is not an error. Raises IoError.
void remove_file(const Path& path, const char* op, Location where);

/// Creates a folder and its parents if they are missing. Raises IoError.
void make_folder(const Path& path, const char* op, Location where);
/// Creates a folder in an existing one; returns false if the name exists. Raises IoError.
bool make_new_folder(const Path& path, const char* op, Location where);

/// Resolves a chain of symbolic links; the target need not exist. Returns false, with errno in `error`, if the name is
/// empty or the links form a cycle.
bool follow_links(const std::string& path, std::string& target, int& error);

/// Flushes a folder's entries to disk, if the file system supports it.
void flush_folder(const std::string& folder);

}  // namespace weft::io
