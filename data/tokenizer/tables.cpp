#include "tables-inl.hpp"

#include <algorithm>

#include "characters-inl.hpp"

namespace weft::data {

// ---- bytes as characters --------------------------------------------------------------------------------------------

namespace {

/// Printable bytes map to the same code point, the others, in order, to U+0100 and above.
struct ByteNames {
  std::array<std::string, 256> names;
  std::array<uint16_t, 256> points;
  std::array<int16_t, 0x200> bytes;

  ByteNames() {
    bytes.fill(-1);
    uint16_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const uint16_t point = prints ? static_cast<uint16_t>(byte) : next++;
      points[byte] = point;
      bytes[point] = static_cast<int16_t>(byte);
      if (point < 0x80) names[byte] = {static_cast<char>(point)};
      else names[byte] = {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
    }
  }
};

const ByteNames& byte_names() {
  static const ByteNames names;
  return names;
}

}  // namespace

const std::string& name_of_byte(uint8_t byte) { return byte_names().names[byte]; }

std::array<uint8_t, 256> bytes_by_name() {
  std::array<uint8_t, 256> out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(i);
  std::ranges::sort(out, {}, [](uint8_t byte) { return byte_names().points[byte]; });
  return out;
}

std::string name_of_bytes(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) out += name_of_byte(static_cast<uint8_t>(byte));
  return out;
}

std::string bytes_of_name(std::string_view name) {
  const uint8_t* kinds = character_kinds();
  std::string out;
  for (size_t i = 0; i < name.size();) {
    const Character c = character_at(kinds, name, i);
    const int byte = c.point < byte_names().bytes.size() ? byte_names().bytes[c.point] : -1;
    if (byte < 0) return std::string(name);
    out.push_back(static_cast<char>(byte));
    i += c.length;
  }
  return out;
}

// ---- tables ---------------------------------------------------------------------------------------------------------

void AddedTokens::add(AddedToken token) {
  auto& list = by_byte_[static_cast<uint8_t>(token.text[0])];
  const auto longer = [&](uint32_t i) { return all_[i].text.size() >= token.text.size(); };
  list.insert(std::ranges::find_if_not(list, longer), static_cast<uint32_t>(all_.size()));
  all_.push_back(std::move(token));
}

size_t AddedTokens::find(std::string_view text, size_t begin, const AddedToken*& found) const {
  found = nullptr;
  if (all_.empty() || begin > text.size()) return text.size();
  for (size_t i = begin; i < text.size(); ++i) {
    for (const uint32_t candidate : by_byte_[static_cast<uint8_t>(text[i])]) {
      if (!text.substr(i).starts_with(all_[candidate].text)) continue;
      found = &all_[candidate];
      return i;
    }
  }
  return text.size();
}

void Tokenizer::Tables::add_token(uint32_t id, std::string name, bool of_model) {
  if (id >= is_used.size()) {
    names.resize(id + 1);
    bytes.resize(id + 1);
    is_used.resize(id + 1);
    special.resize(id + 1);
    in_model.resize(id + 1);
  }
  is_used[id] = true;
  in_model[id] = of_model;
  bytes[id] = bytes_of_name(name);
  if (of_model && bytes[id].size() == 1) {
    const auto byte = static_cast<uint8_t>(bytes[id][0]);
    if (name == name_of_byte(byte)) byte_tokens[byte] = id;
  }
  ids.emplace(name, id);
  names[id] = std::move(name);
}

void Tokenizer::Tables::index_merges(const std::vector<uint32_t>& results) {
  merges = PairTable(merge_list.size());
  for (uint32_t rank = 0; rank < merge_list.size(); ++rank) {
    merges.set(merge_list[rank].first, merge_list[rank].second, {rank, results[rank]});
  }
}

Aligned Tokenizer::Tables::normalized(std::string_view text, int64_t at, bool with_origin, Location where) const {
  Aligned out(text, at, with_origin);
  for (const Normalizer& each : normalizers) each.apply(out, where);
  return out;
}

Tokenizer TokenizerBuilder::make(Tokenizer::Tables&& tables) {
  return Tokenizer(Shared<const Tokenizer::Tables>(Shared<Tokenizer::Tables>::make(std::move(tables))));
}

}  // namespace weft::data
