// Folders and the names in them. Internal to io/ and data/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../path.hpp"
#include "../../tensor/error.hpp"

namespace weft::io {

/// "." where the name has no folder.
std::string folder_of(const std::string& path);

/// Names in a folder, sorted; empty where it cannot be read.
std::vector<std::string> names_in(const std::string& folder);
/// The same; IoError where it cannot be read.
std::vector<std::string> checked_names_in(const Path& folder, const char* op, Location where);

/// Whether anything has this name.
bool exists(const Path& path);
/// Links are followed.
bool is_folder(const Path& path);
bool is_link(const Path& path);
/// False where nothing has this name. IoError where the folder cannot be read.
bool is_empty_folder(const Path& path, const char* op, Location where);
/// In bytes; -1 where it is no file.
int64_t size_of_file(const Path& path);

/// Removes a file that may be gone already. IoError.
void remove_file(const Path& path, const char* op, Location where);

/// Makes a folder, and those above it, unless they are there. IoError.
void make_folder(const Path& path, const char* op, Location where);
/// Makes a folder below one that is there; false where the name is taken. IoError.
bool make_new_folder(const Path& path, const char* op, Location where);

/// The end of a chain of symbolic links, which need not exist yet. False with the error's number where the name is
/// empty or the links form a cycle.
bool follow_links(const std::string& path, std::string& target, int& error);

/// Brings a folder's names to the disk, where its file system can promise that.
void flush_folder(const std::string& folder);

}  // namespace weft::io
