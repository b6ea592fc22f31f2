#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/rows/rotary.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "../kernels.hpp"
#include "../lines.hpp"
#include "../simd/lanes-inl.hpp"
#include "../thread_pool.hpp"
#include "rotary.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

/// Rotates a pair (a, b); the two halves of cos and sin need not be equal.
template <bool inverse, class V>
HWY_INLINE V first_of_pair(V a, V b, V cos_a, V sin_a, V sin_b) {
  return inverse ? a * cos_a + b * sin_b : a * cos_a - b * sin_a;
}
template <bool inverse, class V>
HWY_INLINE V second_of_pair(V a, V b, V cos_b, V sin_a, V sin_b) {
  return inverse ? b * cos_b - a * sin_a : b * cos_b + a * sin_b;
}

template <class A, bool inverse>
void rotate_halves(A* y, const A* x, const A* cos, const A* sin, int64_t n) {
  using L = Lanes<A>;
  const int64_t half = n / 2;
  each_step(half, [&](int64_t i, int64_t left) HWY_ATTR {
    const L a = L::load(x + i, left, A(0)), b = L::load(x + half + i, left, A(0));
    const L sin_a = L::load(sin + i, left, A(0)), sin_b = L::load(sin + half + i, left, A(0));
    first_of_pair<inverse>(a, b, L::load(cos + i, left, A(0)), sin_a, sin_b).store(y + i, left);
    second_of_pair<inverse>(a, b, L::load(cos + half + i, left, A(0)), sin_a, sin_b).store(y + half + i, left);
  });
}

template <class A, bool inverse>
void rotate_neighbours(A* y, const A* x, const A* cos, const A* sin, int64_t n) {
  for (int64_t i = 0; i < n; i += 2) {
    const A a = x[i], b = x[i + 1];
    y[i] = first_of_pair<inverse>(a, b, cos[i], sin[i], sin[i + 1]);
    y[i + 1] = second_of_pair<inverse>(a, b, cos[i + 1], sin[i], sin[i + 1]);
  }
}

template <class A>
void rotate(A* y, const A* x, const A* cos, const A* sin, int64_t n, bool interleaved, bool inverse) {
  if (interleaved) return (inverse ? rotate_neighbours<A, true> : rotate_neighbours<A, false>)(y, x, cos, sin, n);
  (inverse ? rotate_halves<A, true> : rotate_halves<A, false>)(y, x, cos, sin, n);
}

void rotate_f32(float* y, const float* x, const float* cos, const float* sin, int64_t n, bool interleaved,
                bool inverse) {
  rotate(y, x, cos, sin, n, interleaved, inverse);
}
void rotate_f64(double* y, const double* x, const double* cos, const double* sin, int64_t n, bool interleaved,
                bool inverse) {
  rotate(y, x, cos, sin, n, interleaved, inverse);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(rotate_f32);
HWY_EXPORT(rotate_f64);

void rotate_line(float* y, const float* x, const float* cos, const float* sin, int64_t n, bool interleaved,
                 bool inverse) {
  HWY_DYNAMIC_DISPATCH(rotate_f32)(y, x, cos, sin, n, interleaved, inverse);
}
void rotate_line(double* y, const double* x, const double* cos, const double* sin, int64_t n, bool interleaved,
                 bool inverse) {
  HWY_DYNAMIC_DISPATCH(rotate_f64)(y, x, cos, sin, n, interleaved, inverse);
}

namespace {

/// Lines of an operand along its last dimension as numbers of type A; a line that comes again is not converted anew.
template <class A>
class LastLines {
 public:
  explicit LastLines(const View& view)
      : data_(bytes(view)),
        step_(view.layout.strides[view.layout.rank - 1]),
        n_(view.layout.sizes[view.layout.rank - 1]),
        dtype_(view.layout.dtype),
        line_(n_ * static_cast<int64_t>(sizeof(A)), needs_scratch<A>(view.layout, view.layout.rank - 1)) {}
  const A* read(int64_t offset) {
    if (read_ == nullptr || offset != at_) read_ = read_line(line_.template as<A>(), data_ + offset, step_, n_, dtype_);
    at_ = offset;
    return read_;
  }
  A* write(int64_t offset) { return write_line(line_.template as<A>(), data_ + offset, step_, n_, dtype_); }
  void finish(const A* computed, int64_t offset) { finish_line(computed, data_ + offset, step_, n_, dtype_); }

 private:
  char* data_;
  int64_t step_, n_;
  DType dtype_;
  Scratch line_;
  const A* read_ = nullptr;
  int64_t at_ = 0;
};

template <class A>
void rotate_all(const View& out, const View& x, const View& cos, const View& sin, bool interleaved, bool inverse) {
  const int last = out.layout.rank - 1;
  const int64_t n = out.layout.sizes[last];
  const Walk<4> walk = walk_of<4>({&out.layout, &x.layout, &cos.layout, &sin.layout}, 0, last);
  parallel_for(walk.count, rows_per_chunk(n), [&](int64_t begin, int64_t end) {
    LastLines<A> to(out), from(x), c(cos), s(sin);
    Cursor<4> at(walk, begin);
    for (int64_t row = begin; row < end; ++row, at.next()) {
      A* y = to.write(at.offset[0]);
      rotate_line(y, from.read(at.offset[1]), c.read(at.offset[2]), s.read(at.offset[3]), n, interleaved, inverse);
      to.finish(y, at.offset[0]);
    }
  });
}

}  // namespace

void rotary(const View& out, const View& x, const View& cos, const View& sin, bool interleaved, bool inverse) {
  for (const View* v : {&out, &x, &cos, &sin}) {
    if (!is_computable_float(v->layout.dtype)) unsupported("rotary", *v);
  }
  if (out.layout.numel == 0) return;
  if (out.layout.dtype == DType::f64) rotate_all<double>(out, x, cos, sin, interleaved, inverse);
  else rotate_all<float>(out, x, cos, sin, interleaved, inverse);
}

}  // namespace weft::cpu
#endif
