// JSON documents of the user in one of Weft's folders, one file each. Internal to io/.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "../../tensor/error.hpp"

namespace weft::io {

/// "config.json" for "config".
std::string document_file(const std::string& name);
/// Raises ValueError for a text that is not JSON, a name with other characters than letters, digits, "_" and "-", and a
/// name with a file in `own_files`.
void check_document(const std::string& name, const std::string& text, std::span<const std::string_view> own_files,
                    const char* op, Location where);

}  // namespace weft::io
