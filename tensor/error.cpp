#include "error.hpp"

#include <string_view>

#include <fmt/format.h>

#include "shortened.hpp"

namespace weft {

namespace {
// The record that a std::source_location points to in GCC's and Clang's ABI, for compilers without that class.
struct SourceRecord {
  const char* file;
  const char* function;
  unsigned line, column;
};
}  // namespace

const char* Location::file() const {
  if ((record_ & packed) != 0) return std::bit_cast<const char*>(record_ & ((uintptr_t{1} << address_bits) - 1));
  if ((record_ & foreign) != 0) return std::bit_cast<const CallSite*>(record_ & ~foreign)->file;
  return record_ == 0 ? "" : std::bit_cast<const SourceRecord*>(record_)->file;
}

unsigned Location::line() const {
  if ((record_ & packed) != 0) return static_cast<unsigned>(record_ >> address_bits & (line_limit - 1));
  if ((record_ & foreign) != 0) return std::bit_cast<const CallSite*>(record_ & ~foreign)->line;
  return record_ == 0 ? 0 : std::bit_cast<const SourceRecord*>(record_)->line;
}

std::string Location::text() const {
  return known() ? fmt::format("{}:{}", file(), line()) : std::string("an unknown place");
}

std::string shortened(std::string text, size_t most) {
  if (text.size() <= most) return text;
  constexpr std::string_view gap = " ... ";
  const auto continues = [&](size_t i) { return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80; };
  size_t head = (most - gap.size()) * 3 / 4, tail = text.size() - (most - gap.size() - head);
  while (head > 0 && continues(head)) --head;
  while (tail < text.size() && continues(tail)) ++tail;
  return text.replace(head, tail - head, gap);
}

constinit thread_local CallPlace detail::current_call = {};

std::string format_error(const ErrorText& text, Location where) {
  const char* op = text.op != nullptr ? text.op : detail::current_call.entry;
  if (op == nullptr) op = "weft";
  std::string out = fmt::format("[{}] {}", op, shortened(text.problem));
  if (!text.details.empty()) out += fmt::format("\n  {}", shortened(text.details));
  if (!text.remedy.empty()) out += fmt::format("\n  {}", shortened(text.remedy));
  const bool named = *text.event != '\0';
  if (!named) where = detail::place_of(where);
  if (!where.known()) return out;
  out += text.remedy.empty() ? "\n  " : (named ? "; " : ", ");
  out += fmt::format("{}{}at {}", text.event, named ? " " : "", where.text());
  return out;
}

}  // namespace weft
