#include "unicode-inl.hpp"

#include <algorithm>
#include <cstdlib>

#include "characters-inl.hpp"

#if WEFT_HAS_UTF8PROC
#include <utf8proc.h>
#endif

namespace weft::data::unicode {

#if WEFT_HAS_UTF8PROC

namespace {

constexpr uint32_t code_points = 0x110000;
constexpr ptrdiff_t longest_form = 32;  // the longest has 18 characters

bool is_compatible(NormalForm form) { return form == NormalForm::nfkc || form == NormalForm::nfkd; }
bool composes(NormalForm form) { return form == NormalForm::nfc || form == NormalForm::nfkc; }

const utf8proc_property_t& property(int32_t point) { return *utf8proc_get_property(point); }

ptrdiff_t decompose(uint32_t point, NormalForm form, int32_t* to) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (is_compatible(form) ? UTF8PROC_COMPAT : 0));
  return utf8proc_decompose_char(static_cast<int32_t>(point), to, longest_form, options, nullptr);
}

utf8proc_category_t category(uint32_t point) {
  return point < code_points ? utf8proc_category(static_cast<int32_t>(point)) : UTF8PROC_CATEGORY_CN;
}
bool is_between(utf8proc_category_t category, utf8proc_category_t first, utf8proc_category_t last) {
  return category >= first && category <= last;
}

}  // namespace

bool is_there() { return true; }

bool starts_anew(uint32_t point, NormalForm form) {
  int32_t parts[longest_form];
  if (decompose(point, form, parts) < 1) return true;
  // Marks, and vowels and final consonants of Hangul syllables, combine with the character before them.
  const int32_t first = parts[0];
  const bool joins = (first >= 0x1161 && first <= 0x1175) || (first >= 0x11A8 && first <= 0x11C2);
  return property(first).combining_class == 0 && !joins && !is_mark(static_cast<uint32_t>(first));
}

std::vector<int32_t> normal_form(const std::vector<int32_t>& points, NormalForm form) {
  std::vector<int32_t> out;
  for (const int32_t point : points) {
    int32_t parts[longest_form];
    const ptrdiff_t count = decompose(static_cast<uint32_t>(point), form, parts);
    if (count < 1) out.push_back(point);
    else out.insert(out.end(), parts, parts + count);
  }
  // Sort marks by combining class with std::stable_sort; utf8proc's quadratic sort would allow denial of service.
  const auto of_class = [](int32_t point) { return property(point).combining_class; };
  for (auto first = out.begin(); first != out.end();) {
    first = std::find_if(first, out.end(), [&](int32_t point) { return of_class(point) != 0; });
    const auto last = std::find_if(first, out.end(), [&](int32_t point) { return of_class(point) == 0; });
    std::ranges::stable_sort(first, last, {}, of_class);
    first = last;
  }
  if (composes(form)) {
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    const ptrdiff_t count = utf8proc_normalize_utf32(out.data(), std::ssize(out), options);
    if (count >= 0) out.resize(static_cast<size_t>(count));
  }
  return out;
}

std::string lowercase(uint32_t point) {
  std::string out;
  if (point == 0x130) return "i\xCC\x87";
  append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<int32_t>(point))));
  return out;
}

bool is_mark(uint32_t point) { return is_between(category(point), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME); }

bool is_punctuation(uint32_t point) {
  if (point < 0x80) return point > ' ' && point < 0x7F && category(point) > UTF8PROC_CATEGORY_NO;
  return is_between(category(point), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_word(uint32_t point) {
  const utf8proc_category_t kind = category(point);
  if (is_between(kind, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) || kind == UTF8PROC_CATEGORY_PC) return true;
  // The joiners, and letters in circles and squares, which are alphabetic symbols.
  return point == 0x200C || point == 0x200D || (point >= 0x24B6 && point <= 0x24E9) ||
         (point >= 0x1F130 && point <= 0x1F149) || (point >= 0x1F150 && point <= 0x1F169) ||
         (point >= 0x1F170 && point <= 0x1F189);
}

#else

bool is_there() { return false; }
bool starts_anew(uint32_t, NormalForm) { std::abort(); }
std::vector<int32_t> normal_form(const std::vector<int32_t>&, NormalForm) { std::abort(); }
std::string lowercase(uint32_t) { std::abort(); }
bool is_mark(uint32_t) { std::abort(); }
bool is_punctuation(uint32_t) { std::abort(); }
bool is_word(uint32_t) { std::abort(); }

#endif

}  // namespace weft::data::unicode
