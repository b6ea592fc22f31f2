#include "config.hpp"

#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "../autograd/engine.hpp"
#include "../backends/backend.hpp"
#include "../tensor/determinism.hpp"
#include "../tensor/index_checks.hpp"
#include "../tensor/settings.hpp"
#include "../tensor/tf32.hpp"
#include "../tensor/threads.hpp"

namespace weft {

namespace {

std::string devices() {
  std::string text;
  for (int type = 0; type < device_type_count; ++type) {
    const auto kind = static_cast<DeviceType>(type);
    for (int i = 0; is_numbered(kind) && i < device_count(kind); ++i) {
      const Device device(kind, i);
      text += fmt::format("\n  {}: {}", device.name(), find_backend(kind)->describe(i));
    }
  }
  return text.empty() ? " the CPU alone" : text;
}

std::string modes() {
  constexpr const char* names[] = {"off", "warn", "on"};
  return fmt::format(
      "deterministic {}, gradients share memory: {}, indices on devices checked at the call: {}, "
      "TF32 in products: {}{}",
      names[static_cast<int>(deterministic())], gradient_sharing() ? "yes" : "no", index_checks() ? "yes" : "no",
      tf32_state().matmul ? "on" : "off", detail::tf32_override() ? " by NVIDIA_TF32_OVERRIDE" : "");
}

// Skip patterns such as WEFT_TEST_*, which are not single variables.
std::string values_of_settings() {
  std::string text;
  for (const Setting& s : settings()) {
    if (std::string_view(s.name).find('*') != std::string_view::npos) continue;
    const char* const said = std::getenv(s.name);
    text += said != nullptr ? fmt::format("\n  {}={}", s.name, said)
                            : fmt::format("\n  {} is not set{}{}", s.name, *s.otherwise ? ": " : "", s.otherwise);
  }
  return text;
}

}  // namespace

std::string config() {
  return fmt::format(
      "weft {}, compiled by {} with{}\n"
      "vectors: {}, threads: {}\n"
      "devices:{}\n"
      "modes: {}\n"
      "settings:{}\n",
      version(), WEFT_COMPILER, WEFT_FEATURES, cpu_vectors(), num_threads(), devices(), modes(), values_of_settings());
}

}  // namespace weft
