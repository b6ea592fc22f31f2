#include "determinism.hpp"

#include <atomic>
#include <cstring>

#include "error.hpp"
#include "settings.hpp"
#include "warning.hpp"

namespace weft {

namespace {

std::atomic<Determinism>& of_process() {
  static std::atomic<Determinism> mode = [] {
    const char* text = detail::setting("WEFT_DETERMINISTIC");
    if (text != nullptr && std::strcmp(text, "warn") == 0) return Determinism::warn;
    return detail::is_switched_on("WEFT_DETERMINISTIC") ? Determinism::on : Determinism::off;
  }();
  return mode;
}

}  // namespace

constinit thread_local detail::ThreadDeterminism detail::thread_determinism = ThreadDeterminism::unset;

void detail::refuse_nondeterministic() {
  const Determinism mode = deterministic();
  if (mode == Determinism::off) return;
  const ErrorText text{.problem = "the op is not deterministic",
                       .remedy = "leave deterministic mode for it, by DeterministicGuard(Determinism::off)"};
  if (mode == Determinism::on) raise<NotImplementedError>(text);
  warn(text);
}

void set_deterministic(Determinism mode) { of_process().store(mode, std::memory_order_relaxed); }

Determinism deterministic() {
  if (detail::thread_determinism != detail::ThreadDeterminism::unset) {
    return static_cast<Determinism>(detail::thread_determinism);
  }
  return of_process().load(std::memory_order_relaxed);
}

DeterministicGuard::DeterministicGuard(Determinism mode) : outer_(detail::thread_determinism) {
  detail::thread_determinism = static_cast<detail::ThreadDeterminism>(mode);
}

}  // namespace weft
