#include "determinism.hpp"

#include <cstring>

#include "error.hpp"
#include "settings.hpp"
#include "warning.hpp"

namespace weft::detail {

Atomic<Determinism> process_determinism{[] {
  const char* text = setting("WEFT_DETERMINISTIC");
  if (text != nullptr && std::strcmp(text, "warn") == 0) return Determinism::warn;
  return is_switched_on("WEFT_DETERMINISTIC") ? Determinism::on : Determinism::off;
}()};
constinit thread_local std::optional<Determinism> thread_determinism = {};

void refuse_nondeterministic() {
  const Determinism mode = deterministic();
  if (mode == Determinism::off) return;
  const ErrorText text{.problem = "the op is not deterministic",
                       .remedy = "leave deterministic mode for it, by DeterministicGuard(Determinism::off)"};
  if (mode == Determinism::on) raise<NotImplementedError>(text);
  warn(text);
}

}  // namespace weft::detail
