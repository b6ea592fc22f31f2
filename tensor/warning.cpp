#include "warning.hpp"

#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>

#include "settings.hpp"

namespace weft {

namespace {

struct Said {
  std::mutex mutex;
  std::set<std::tuple<std::string, std::string, unsigned>> places;
  std::shared_ptr<const WarningHandler> handler = std::make_shared<const WarningHandler>();
};

// Never destroyed: static objects may warn at program exit.
Said& said() {
  static Said& all = *new Said;
  return all;
}

bool warnings_on() {
  static const bool on = !detail::is_switched_off("WEFT_WARNINGS");
  return on;
}

}  // namespace

WarningHandler set_warning_handler(WarningHandler handler) {
  auto fresh = std::make_shared<const WarningHandler>(std::move(handler));
  const std::lock_guard lock(said().mutex);
  said().handler.swap(fresh);
  return *fresh;
}

void warn(const ErrorText& text, Location where) {
  if (!warnings_on()) return;
  where = detail::place_of(where);
  const char* const op = text.op != nullptr ? text.op : detail::current_call.entry;
  std::shared_ptr<const WarningHandler> handler;
  {
    const std::lock_guard lock(said().mutex);
    if (!said().places.emplace(op != nullptr ? op : "", where.known() ? where.file() : "", where.line()).second) return;
    handler = said().handler;
  }
  const std::string words = format_error(text, where);
  const OutsideCalls users_code;
  if (*handler) (*handler)({words, where});
  else std::fprintf(stderr, "warning: %s\n", words.c_str());
}

}  // namespace weft
