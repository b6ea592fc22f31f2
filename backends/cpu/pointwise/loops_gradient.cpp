// Loops of the gradients of unary formulas over f32 and f64.
#include "loops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/pointwise/loops_gradient.cpp"
#include "../simd/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"
#include "../simd/simd_loops-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

template <class F, class T>
void gradient_loop(void* out, const void* g, const void* saved, int64_t n) {
  for_vectors<T>(
      static_cast<T*>(out), n, [](Vec<T> x, Vec<T> s) HWY_ATTR WEFT_INLINE { return F::gradient(x, s); }, Array<T>(g),
      Array<T>(saved));
}

void fill_gradient(GradientLoops& loops) {
#define WEFT_ROW(name, F, ...)                                                                  \
  loops.loop[static_cast<int>(UnaryOp::name)][slot_f32][0] = gradient_loop<functors::F, float>; \
  loops.loop[static_cast<int>(UnaryOp::name)][slot_f64][0] = gradient_loop<functors::F, double>;
  WEFT_UNARY_OPS(WEFT_ROW)
#undef WEFT_ROW
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(fill_gradient);
void choose_gradient_loops() { HWY_DYNAMIC_DISPATCH(fill_gradient)(gradient_loops); }
}  // namespace weft::cpu
#endif
