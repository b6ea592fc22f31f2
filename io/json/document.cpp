#include "document-inl.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace weft::io {

namespace {

bool is_plain(const std::string& name) {
  return !name.empty() && name.size() <= 100 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

std::string document_file(const std::string& name) { return name + ".json"; }

void check_document(const std::string& name, const std::string& text, std::span<const std::string_view> own_files,
                    const char* op, Location where) {
  if (!is_plain(name) || std::ranges::find(own_files, document_file(name)) != own_files.end()) {
    raise<ValueError>({.op = op, .problem = fmt::format("a document cannot be named \"{}\"", name)}, where);
  }
  // The parser would treat a zero byte as the end.
  if (text.find('\0') == text.npos && nlohmann::json::accept(text)) return;
  raise<ValueError>({.op = op, .problem = fmt::format("the document \"{}\" is no JSON", name)}, where);
}

}  // namespace weft::io
