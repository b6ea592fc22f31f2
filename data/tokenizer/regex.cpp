#include "regex-inl.hpp"

#include <cstdlib>

#include <fmt/format.h>

#include "../../io/json/utf8-inl.hpp"
#include "../../tensor/error.hpp"

#if WEFT_HAS_ONIG
#include <oniguruma.h>
#endif

namespace weft::data {

#if WEFT_HAS_ONIG

namespace {

const OnigUChar* bytes_of(const char* text) { return reinterpret_cast<const OnigUChar*>(text); }

std::string message_of(int code, OnigErrorInfo* info = nullptr) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = onig_error_code_to_str(text, code, info);
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(length)};
}

struct Region {
  OnigRegion* held = onig_region_new();
  ~Region() { onig_region_free(held, 1); }
};

}  // namespace

bool Regex::is_there() { return true; }

Regex::Regex(std::string_view expression, const char* op, Location where) {
  static const int started = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    return onig_initialize(encodings, 1);
  }();
  OnigRegex made = nullptr;
  OnigErrorInfo info;
  const OnigUChar *begin = bytes_of(expression.data()), *end = begin + expression.size();
  int code = started;
  if (code == ONIG_NORMAL) {
    code = onig_new(&made, begin, end, ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
  }
  if (code != ONIG_NORMAL) {
    raise<FormatError>(
        {.op = op, .problem = fmt::format("the expression {}: {}", io::quoted(expression), message_of(code, &info))},
        where);
  }
  held_ = std::shared_ptr<void>(made, [](void* regex) { onig_free(static_cast<OnigRegex>(regex)); });
}

bool Regex::find(std::string_view text, size_t from, size_t& begin, size_t& end, Location where) const {
  const Region region;
  const OnigUChar *first = bytes_of(text.data()), *last = first + text.size();
  const int code =
      onig_search(static_cast<OnigRegex>(held_.get()), first, last, first + from, last, region.held, ONIG_OPTION_NONE);
  if (code == ONIG_MISMATCH) return false;
  if (code < 0) {
    raise<ValueError>({.op = "Tokenizer.encode", .problem = "an expression of the tokenizer: " + message_of(code)},
                      where);
  }
  begin = static_cast<size_t>(region.held->beg[0]);
  end = static_cast<size_t>(region.held->end[0]);
  return true;
}

#else

bool Regex::is_there() { return false; }
Regex::Regex(std::string_view, const char*, Location) { std::abort(); }
bool Regex::find(std::string_view, size_t, size_t&, size_t&, Location) const { std::abort(); }

#endif

}  // namespace weft::data
