#include "normalizer-inl.hpp"

#include "characters-inl.hpp"

namespace weft::data {

Aligned::Aligned(std::string_view part, int64_t at, bool wanted) : text(part), with_origin(wanted) {
  if (!wanted) return;
  origin.reserve(part.size());
  for (size_t i = 0; i < part.size(); ++i, ++at) origin.emplace_back(at, at + 1);
}

namespace {

/// Builds an aligned text from another one, piece by piece.
class Rewriting {
 public:
  explicit Rewriting(Aligned& text) : from_(text) { to_.with_origin = text.with_origin; }
  std::string_view text() const { return from_.text; }

  void keep(size_t begin, size_t end) {
    to_.text.append(from_.text, begin, end - begin);
    if (!to_.with_origin) return;
    const auto first = from_.origin.begin();
    to_.origin.insert(to_.origin.end(), first + static_cast<ptrdiff_t>(begin), first + static_cast<ptrdiff_t>(end));
  }
  void replace(size_t begin, size_t end, std::string_view bytes) {
    to_.text += bytes;
    if (!to_.with_origin) return;
    const auto place = [&](size_t i) { return i < from_.origin.size() ? from_.origin[i].first : last(); };
    const Aligned::Span span = {place(begin), begin < end ? from_.origin[end - 1].second : place(begin)};
    to_.origin.insert(to_.origin.end(), bytes.size(), span);
  }
  void finish() { std::swap(from_, to_); }

 private:
  int64_t last() const { return from_.origin.empty() ? 0 : from_.origin.back().second; }
  Aligned& from_;
  Aligned to_;
};

/// Normalizes one segment after the other; segments begin at characters that do not interact with earlier ones.
void normal_form(Rewriting& text, NormalForm form) {
  const std::string_view all = text.text();
  std::vector<int32_t> points;
  std::string bytes;
  for (size_t begin = 0; begin < all.size();) {
    const Character first = character_at(character_kinds(), all, begin);
    size_t end = begin + first.length;
    if (first.point >= 0x110000) {
      text.keep(begin, end);
      begin = end;
      continue;
    }
    points.assign(1, static_cast<int32_t>(first.point));
    for (;;) {
      const Character next = character_at(character_kinds(), all, end);
      if (next.length == 0 || next.point < 0x80 || next.point >= 0x110000) break;
      if (unicode::starts_anew(next.point, form)) break;
      points.push_back(static_cast<int32_t>(next.point));
      end += next.length;
    }
    if (points.size() == 1 && first.point < 0x80) {
      text.keep(begin, end);
    } else {
      bytes.clear();
      for (const int32_t point : unicode::normal_form(points, form)) append_utf8(bytes, static_cast<uint32_t>(point));
      if (bytes == all.substr(begin, end - begin)) text.keep(begin, end);
      else text.replace(begin, end, bytes);
    }
    begin = end;
  }
}

template <class Each>
void characters(std::string_view text, Each&& each) {
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(character_kinds(), text, at);
    each(at, c);
    at += c.length;
  }
}

void lowercase(Rewriting& text) {
  characters(text.text(), [&](size_t at, Character c) {
    if (c.point >= 0x110000) return text.keep(at, at + c.length);
    const std::string lower = unicode::lowercase(c.point);
    if (lower == text.text().substr(at, c.length)) text.keep(at, at + c.length);
    else text.replace(at, at + c.length, lower);
  });
}

void strip_accents(Rewriting& text) {
  characters(text.text(), [&](size_t at, Character c) {
    if (!unicode::is_mark(c.point)) text.keep(at, at + c.length);
  });
}

void strip(Rewriting& text, bool left, bool right) {
  size_t begin = text.text().size(), end = 0;
  characters(text.text(), [&](size_t at, Character c) {
    if (c.kind == CharacterKind::space) return;
    begin = std::min(begin, at);
    end = at + c.length;
  });
  const bool blank = begin > end;
  if (!left) begin = 0;
  if (!right) end = text.text().size();
  if (!blank) text.keep(begin, end);
  else if (!left && !right) text.keep(0, text.text().size());
}

void replace(Rewriting& text, const Pattern& pattern, std::string_view content, Location where) {
  for (const Part& part : pattern.parts(text.text(), where)) {
    if (part.matched) text.replace(part.begin, part.end, content);
    else text.keep(part.begin, part.end);
  }
}

}  // namespace

void Normalizer::apply(Aligned& text, Location where) const {
  Rewriting rewriting(text);
  switch (kind) {
    case Kind::form:
      normal_form(rewriting, form);
      break;
    case Kind::lowercase:
      lowercase(rewriting);
      break;
    case Kind::strip_accents:
      strip_accents(rewriting);
      break;
    case Kind::strip:
      strip(rewriting, left, right);
      break;
    case Kind::prepend:
      if (!text.text.empty()) rewriting.replace(0, 0, content);
      rewriting.keep(0, text.text.size());
      break;
    case Kind::replace:
      replace(rewriting, pattern, content, where);
  }
  rewriting.finish();
}

// ---- reading --------------------------------------------------------------------------------------------------------

namespace {

using io::JsonNode;
using Kind = Normalizer::Kind;

void read_one(const JsonNode& place, std::vector<Normalizer>& out, const char* op, Location where) {
  const std::string type = place.at("type").text();
  if (type == "Sequence") {
    return place.at("normalizers").each([&](const JsonNode& each) { read_one(each, out, op, where); });
  }
  if (type == "Strip") {
    return out.push_back({.kind = Kind::strip,
                          .left = read_flag(place, "strip_left", true),
                          .right = read_flag(place, "strip_right", true)});
  }
  if (type == "Prepend") return out.push_back({.kind = Kind::prepend, .content = place.at("prepend").text()});
  if (type == "Replace") {
    return out.push_back({.kind = Kind::replace,
                          .content = place.at("content").text(),
                          .pattern = read_pattern(place.at("pattern"), op, where)});
  }
  const size_t before = out.size();
  constexpr std::pair<const char*, NormalForm> forms[] = {
      {"NFC", NormalForm::nfc}, {"NFD", NormalForm::nfd}, {"NFKC", NormalForm::nfkc}, {"NFKD", NormalForm::nfkd}};
  for (const auto& [name, form] : forms) {
    if (type == name) out.push_back({.kind = Kind::form, .form = form});
  }
  if (type == "Lowercase") out.push_back({.kind = Kind::lowercase});
  if (type == "StripAccents") out.push_back({.kind = Kind::strip_accents});
  if (out.size() == before) refuse_part("the normalizer " + type, op, where);
  if (!unicode::is_there()) refuse_without("the normalizer " + type, "utf8proc", op, where);
}

}  // namespace

std::vector<Normalizer> read_normalizers(const JsonNode& place, const char* op, Location where) {
  std::vector<Normalizer> out;
  if (!place.json().is(io::JsonTree::Kind::null)) read_one(place, out, op, where);
  return out;
}

}  // namespace weft::data
