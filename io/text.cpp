#include "text.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "file.hpp"
#include "files/folder-inl.hpp"
#include "json/hex-inl.hpp"
#include "json/utf8-inl.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/create.hpp"
#include "../ops/random.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::io {

namespace {

bool has_extension(const std::string& name, const std::vector<std::string>& extensions) {
  const size_t dot = name.rfind('.');
  const std::string found = dot == std::string::npos || dot == 0 ? "" : name.substr(dot);
  return extensions.empty() || std::ranges::find(extensions, found) != extensions.end();
}

// In name order, folder by folder. Does not follow links to folders.
void list_files(const Path& folder, const std::vector<std::string>& extensions, std::vector<Path>& files,
                Location where) {
  for (const std::string& name : checked_names_in(folder, "read_text", where)) {
    const Path path = folder / name;
    if (is_folder(path)) {
      if (!is_link(path)) list_files(path, extensions, files, where);
    } else if (has_extension(name, extensions) && size_of_file(path) >= 0) {
      files.push_back(path);
    }
  }
}

}  // namespace

std::string read_text(const Path& path, const std::vector<std::string>& extensions, Location where) {
  if (!is_folder(path)) return read_file(path, "read_text", where);
  std::vector<Path> files;
  list_files(path, extensions, files, where);
  if (files.empty()) {
    raise<ValueError>({.op = "read_text", .problem = fmt::format("no such file below {}", path.string())}, where);
  }
  std::string text;
  for (const Path& file : files) text += read_file(file, "read_text", where);
  return text;
}

Vocabulary::Vocabulary(std::string_view text) {
  std::set<std::string_view> distinct;  // UTF-8 sorts by code point
  for_each_character(text, [&](std::string_view c) { distinct.insert(c); });
  characters_.assign(distinct.begin(), distinct.end());
  for (size_t i = 0; i < characters_.size(); ++i) numbers_.emplace(characters_[i], static_cast<int64_t>(i));
}

std::string Vocabulary::text() const {
  std::string out;
  for (const std::string& c : characters_) out += c;
  return out;
}

std::string Vocabulary::hex() const { return hex_of(text()); }

Vocabulary Vocabulary::from_hex(std::string_view digits, Location where) {
  const auto text = bytes_of_hex(digits);
  if (!text) {
    raise<FormatError>({.op = "Vocabulary", .problem = "a saved vocabulary is hexadecimal digits, two for a byte"},
                       where);
  }
  return Vocabulary(*text);
}

Tensor Vocabulary::encode(std::string_view text, Location where) const {
  std::vector<int64_t> tokens;
  tokens.reserve(text.size());
  for_each_character(text, [&](std::string_view c) {
    const auto found = numbers_.find(c);
    if (found == numbers_.end()) {
      raise<ValueError>({.op = "encode", .problem = fmt::format("\"{}\" is not in the vocabulary", c)}, where);
    }
    tokens.push_back(found->second);
  });
  return tensor(tokens, i64, where);
}

std::string Vocabulary::decode(const Tensor& tokens, Location where) const {
  std::string out;
  for (int64_t t : checked(tokens, "decode", where).to_vector<int64_t>(where)) {
    if (t < 0 || t >= size()) {
      raise<IndexError>({.op = "decode", .problem = fmt::format("token {} of a vocabulary of {}", t, size())}, where);
    }
    out += characters_[static_cast<size_t>(t)];
  }
  return out;
}

std::pair<Tensor, Tensor> split_tail(const Tensor& tokens, double fraction, Location where) {
  if (!(fraction > 0 && fraction < 1)) {
    raise<ValueError>({.op = "split_tail", .problem = mismatch_text("fraction", "a number in (0, 1)", fraction)},
                      where);
  }
  const int64_t n = checked(tokens, "split_tail", where).size(0, where);
  const auto first = static_cast<int64_t>(static_cast<double>(n) * (1 - fraction));
  return {tokens.narrow(0, 0, first, where), tokens.narrow(0, first, n - first, where)};
}

}  // namespace weft::io
