#include <cstdlib>
#include <string_view>
#include <type_traits>

#include "cpu/kernels.hpp"
#include "nan_check.hpp"

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

#define WEFT_CPU_ROW(name, ...) .name = cpu::name,
#define WEFT_META_ROW(name, ...) .name = Nothing{},
constinit KernelTable kernel_tables[device_type_count] = {
    {WEFT_KERNELS(WEFT_CPU_ROW)},
    {},
    {},
    {WEFT_KERNELS(WEFT_META_ROW)},
};
#undef WEFT_CPU_ROW
#undef WEFT_META_ROW

#define WEFT_COUNT(...) +1
static_assert(sizeof(KernelTable) == sizeof(void (*)()) * (0 WEFT_KERNELS(WEFT_COUNT)),
              "a kernel is not in WEFT_KERNELS");
#undef WEFT_COUNT

constinit Atomic<const KernelTable*> detail::active_tables[device_type_count] = {&kernel_tables[0], &kernel_tables[1],
                                                                                 &kernel_tables[2], &kernel_tables[3]};

namespace {
// Here because every program holds this file.
[[maybe_unused]] const bool checks_nan = [] {
  const char* setting = std::getenv("WEFT_CHECK_NAN");
  const bool on = setting != nullptr && std::string_view(setting) != "0" && *setting != '\0';
  static auto* const check = on ? new detail::KernelCheck : nullptr;
  static auto* const guard = on ? new ObserverGuard(*check, ObserverScope::process) : nullptr;
  return guard != nullptr;
}();
}  // namespace

}  // namespace weft
