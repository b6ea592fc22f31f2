#include "tf32.hpp"

#include <cstdlib>
#include <string_view>

#include "atomic.hpp"

namespace weft {

namespace detail {

constinit thread_local std::optional<Tf32> thread_tf32 = {};

std::optional<bool> tf32_override_from(const char* text) {
  const std::string_view said = text == nullptr ? "" : text;
  if (said == "0") return false;
  return said == "1" ? std::optional(true) : std::nullopt;
}

std::optional<bool> tf32_override() {
  static const std::optional<bool> said = tf32_override_from(std::getenv("NVIDIA_TF32_OVERRIDE"));
  return said;
}

}  // namespace detail

namespace {

Atomic<bool> process_matmul{false};

}  // namespace

void set_tf32(Tf32 state) { process_matmul.store(state.matmul, MemoryOrder::relaxed); }

Tf32 tf32_state() {
  if (const auto said = detail::tf32_override()) return {.matmul = *said};
  if (detail::thread_tf32) return *detail::thread_tf32;
  return {.matmul = process_matmul.load(MemoryOrder::relaxed)};
}

}  // namespace weft
