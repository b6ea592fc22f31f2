#include "regex-inl.hpp"

#include <cstdlib>

#include <dlfcn.h>
#include <fmt/format.h>

#include "../../io/json/utf8-inl.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/find_symbol-inl.hpp"

#if WEFT_HAS_ONIG
#include <oniguruma.h>
#endif

namespace weft::data {

#if WEFT_HAS_ONIG

namespace {

// Oniguruma also exports POSIX's regcomp and regexec, which would replace those of libc in a program that links it. So
// it is opened with dlopen and RTLD_LOCAL.
#define WEFT_ONIG_FUNCTIONS(X) \
  X(onig_initialize)           \
  X(onig_new) X(onig_free) X(onig_search) X(onig_region_new) X(onig_region_free) X(onig_error_code_to_str)

struct Oniguruma {
#define WEFT_ONIG_DECLARE(name) decltype(&::name) name = nullptr;
  WEFT_ONIG_FUNCTIONS(WEFT_ONIG_DECLARE)
#undef WEFT_ONIG_DECLARE
  OnigEncoding utf8 = nullptr;
  OnigSyntaxType* syntax = nullptr;
};

/// Returns null if the library is missing or lacks a function.
const Oniguruma* find_library() {
  void* const library = dlopen("libonig.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  static Oniguruma found;
  using detail::find_symbol;
#define WEFT_ONIG_FIND(name) &&find_symbol(library, #name, found.name)
  const bool whole = find_symbol(library, "OnigEncodingUTF8", found.utf8) &&
                     find_symbol(library, "OnigSyntaxOniguruma", found.syntax) WEFT_ONIG_FUNCTIONS(WEFT_ONIG_FIND);
#undef WEFT_ONIG_FIND
  return whole && found.onig_initialize(&found.utf8, 1) == ONIG_NORMAL ? &found : nullptr;
}
const Oniguruma* library() {
  static const Oniguruma* const found = find_library();
  return found;
}

const OnigUChar* bytes_of(const char* text) { return reinterpret_cast<const OnigUChar*>(text); }

std::string message_of(int code, OnigErrorInfo* info = nullptr) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = library()->onig_error_code_to_str(text, code, info);
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(length)};
}

struct Region {
  OnigRegion* held = library()->onig_region_new();
  ~Region() { library()->onig_region_free(held, 1); }
};

}  // namespace

bool Regex::is_there() { return library() != nullptr; }

Regex::Regex(std::string_view expression, const char* op, Location where) {
  OnigRegex made = nullptr;
  OnigErrorInfo info;
  const OnigUChar *begin = bytes_of(expression.data()), *end = begin + expression.size();
  const Oniguruma& onig = *library();
  const int code = onig.onig_new(&made, begin, end, ONIG_OPTION_NONE, onig.utf8, onig.syntax, &info);
  if (code != ONIG_NORMAL) {
    raise<FormatError>(
        {.op = op, .problem = fmt::format("the expression {}: {}", io::quoted(expression), message_of(code, &info))},
        where);
  }
  held_ = std::shared_ptr<void>(made, [](void* regex) { library()->onig_free(static_cast<OnigRegex>(regex)); });
}

bool Regex::find(std::string_view text, size_t from, size_t& begin, size_t& end, Location where) const {
  const Region region;
  const OnigUChar *first = bytes_of(text.data()), *last = first + text.size();
  const int code = library()->onig_search(static_cast<OnigRegex>(held_.get()), first, last, first + from, last,
                                          region.held, ONIG_OPTION_NONE);
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
