// Numbers without a formula: those that take the place of NaN and the infinities, and the neighbours of each.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/pointwise/non_finite.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "../kernels.hpp"
#include "../simd/lanes-inl.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t chunk = 32768;

template <class T>
void replace(const View& out, const View& x, double nan, double positive, double negative) {
  using D = typename Lanes<T>::D;
  const auto* const from = static_cast<const T*>(x.data);
  auto* const to = static_cast<T*>(out.data);
  parallel_for(out.layout.numel, chunk, [&](int64_t begin, int64_t end) HWY_ATTR {
    const auto for_nan = hn::Set(D(), static_cast<T>(nan)), for_positive = hn::Set(D(), static_cast<T>(positive));
    const auto for_negative = hn::Set(D(), static_cast<T>(negative));
    each_step(end - begin, [&](int64_t i, int64_t left) HWY_ATTR {
      auto numbers = Lanes<T>::load(from + begin + i, left, T(0));
      WEFT_EACH_PART(Lanes<T>::count) {
        const auto v = numbers.part[k];
        const auto above = hn::IfThenElse(hn::Eq(v, hn::Set(D(), infinity<T>)), for_positive, v);
        const auto inside = hn::IfThenElse(hn::Eq(v, hn::Set(D(), -infinity<T>)), for_negative, above);
        numbers.part[k] = hn::IfThenElse(hn::IsNaN(v), for_nan, inside);
      }
      numbers.store(to + begin + i, left);
    });
  });
}

template <class T>
void step_towards(const View& out, const View& a, const View& b) {
  using D = typename Lanes<T>::D;
  const auto *const from = static_cast<const T*>(a.data), *const towards = static_cast<const T*>(b.data);
  auto* const to = static_cast<T*>(out.data);
  parallel_for(out.layout.numel, chunk, [&](int64_t begin, int64_t end) HWY_ATTR {
    const D d;
    const hn::RebindToSigned<D> whole;
    const auto zero = hn::Zero(d), smallest = hn::BitCast(d, hn::Set(whole, 1));
    each_step(end - begin, [&](int64_t i, int64_t left) HWY_ATTR {
      auto x = Lanes<T>::load(from + begin + i, left, T(0));
      const auto y = Lanes<T>::load(towards + begin + i, left, T(0));
      WEFT_EACH_PART(Lanes<T>::count) {
        const auto v = x.part[k], target = y.part[k];
        // Bits of numbers of one sign are in the order of their sizes: towards zero they are counted down.
        const auto rises = hn::RebindMask(whole, hn::Lt(v, target)), positive = hn::RebindMask(whole, hn::Gt(v, zero));
        const auto inwards = hn::Xor(hn::VecFromMask(whole, rises), hn::VecFromMask(whole, positive));
        const auto step = hn::Add(hn::Set(whole, 1), hn::Add(inwards, inwards));
        const auto moved = hn::BitCast(d, hn::Add(hn::BitCast(whole, v), step));
        const auto off_zero = hn::CopySign(smallest, target);
        const auto next = hn::IfThenElse(hn::Eq(v, zero), off_zero, moved);
        const auto known = hn::IfThenElse(hn::Eq(v, target), target, next);
        x.part[k] = hn::IfThenElse(hn::Or(hn::IsNaN(v), hn::IsNaN(target)), hn::Add(v, target), known);
      }
      x.store(to + begin + i, left);
    });
  });
}

void replace_any(const View& out, const View& x, double nan, double positive, double negative) {
  if (x.layout.dtype == DType::f32) replace<float>(out, x, nan, positive, negative);
  else replace<double>(out, x, nan, positive, negative);
}
void step_any(const View& out, const View& a, const View& b) {
  if (a.layout.dtype == DType::f32) step_towards<float>(out, a, b);
  else step_towards<double>(out, a, b);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(replace_any);
HWY_EXPORT(step_any);

void nan_to_num(const View& out, const View& x, double nan, double positive, double negative) {
  if (x.layout.dtype != DType::f32 && x.layout.dtype != DType::f64) unsupported("nan_to_num", x);
  HWY_DYNAMIC_DISPATCH(replace_any)(out, x, nan, positive, negative);
}
void nextafter(const View& out, const View& a, const View& b) {
  if (a.layout.dtype != DType::f32 && a.layout.dtype != DType::f64) unsupported("nextafter", a);
  HWY_DYNAMIC_DISPATCH(step_any)(out, a, b);
}

}  // namespace weft::cpu
#endif
