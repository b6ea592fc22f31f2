// The loops that weft::map makes of formulas.hpp, all in this file, or of WEFT_FORMULA alone; maps_main.cpp runs them.
#include <string_view>

#include <weft/map/map.hpp>

#include "formulas.hpp"
#include "maps.hpp"

namespace weft::testing {
namespace {

template <bool wanted, int n, class F>
void add(const char* name, int value, int gradient, int second, const F&) {
  if constexpr (wanted) {
    static_assert(std::is_empty_v<F>);
    const detail::MapProgram& program = detail::map_program<F, n>;
    map_cases().push_back({std::string(name) + ".value", value, &program.value[0]});
    map_cases().push_back({std::string(name) + ".gradient", gradient, &program.gradient[0]});
    map_cases().push_back({std::string(name) + ".second", second, &program.second[0]});
  }
}
constexpr bool wanted([[maybe_unused]] std::string_view name) {
#if defined(WEFT_FORMULA)
  return name == WEFT_FORMULA;
#else
  return true;
#endif
}

const bool added = [] {
#define WEFT_ADD(name, n, value, gradient, second, ...) \
  add<wanted(#name), n>(#name, value, gradient, second, __VA_ARGS__);
  WEFT_MAP_FORMULAS(WEFT_ADD)
  return true;
}();

}  // namespace
}  // namespace weft::testing
