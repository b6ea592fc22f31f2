// JSON texts that a user keeps in a folder of Weft's, each in a file of its name. Internal to io/.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "../../tensor/error.hpp"

namespace weft::io {

/// "config.json" for "config".
std::string document_file(const std::string& name);
/// ValueError for a text that is no JSON, a name of other characters than letters, digits, "_" and "-", and one whose
/// file is Weft's own.
void check_document(const std::string& name, const std::string& text, std::span<const std::string_view> own_files,
                    const char* op, Location where);

}  // namespace weft::io
