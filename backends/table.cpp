#include <type_traits>

#include "cpu/kernels.hpp"
#include "watch/dispatch_log.hpp"
#include "watch/nan_check.hpp"
#include "../tensor/settings.hpp"

namespace weft {

namespace {

// The meta device computes shapes and dtypes only: its kernels take anything and do nothing, and none counts values.
struct Nothing {
  template <class R, class... A>
  using Function = R(A...);
  template <class R, class... A>
  constexpr operator Function<R, A...>*() const {
    if constexpr (std::is_void_v<R>) return [](A...) {};
    else return nullptr;
  }
};

}  // namespace

constinit KernelTable kernel_tables[device_type_count] = {
    {
#define WEFT_KERNEL_ROW(result, name, ...) .name = cpu::name,
#include "kernel_rows.hpp"
    },
    {},
    {},
    {
#define WEFT_KERNEL_ROW(result, name, ...) .name = Nothing{},
#include "kernel_rows.hpp"
    },
};

#define WEFT_ACTIVE(type) &kernel_tables[type]
constinit Atomic<const KernelTable*> detail::active_tables[device_type_count] = {
    WEFT_ACTIVE(0), WEFT_ACTIVE(1), WEFT_ACTIVE(2), WEFT_ACTIVE(3), WEFT_ACTIVE(4),  WEFT_ACTIVE(5),
    WEFT_ACTIVE(6), WEFT_ACTIVE(7), WEFT_ACTIVE(8), WEFT_ACTIVE(9), WEFT_ACTIVE(10), WEFT_ACTIVE(11)};
#undef WEFT_ACTIVE
static_assert(device_type_count == 12);

namespace {
// Here because every program holds this file.
[[maybe_unused]] const bool checks_nan = [] {
  detail::warn_of_unknown_settings();
  detail::logs_dispatch();
  const bool on = detail::is_switched_on("WEFT_CHECK_NAN");
  static auto* const check = on ? new detail::KernelCheck : nullptr;
  static auto* const guard = on ? new ObserverGuard(*check, ObserverScope::process) : nullptr;
  return guard != nullptr;
}();
}  // namespace

}  // namespace weft
