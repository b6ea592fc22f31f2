// Fourier transforms along one dimension.
#include <algorithm>

#include "../kernels.hpp"
#include "../lines.hpp"
#include "../thread_pool.hpp"
#include "../workspace.hpp"
#include "plan.hpp"

namespace weft::cpu {

namespace fft {
namespace {

/// Numbers that are worth a thread.
constexpr int64_t grain = 16384;

template <class T>
void split_line(const Plan<T>& plan, const Complex<T>* in, Complex<T>* out, bool inverse, T factor) {
  const int64_t rows = plan.columns->n, columns = plan.rows->n, group = lanes<T>();
  const Workspace between(static_cast<size_t>(plan.n) * sizeof(Complex<T>));
  Complex<T>* const middle = between.as<Complex<T>>();
  const auto for_groups = [&](const Plan<T>& part, int64_t count, auto&& body) {
    const int64_t groups = (count + group - 1) / group;
    parallel_for(groups, std::max<int64_t>(1, grain / (part.n * group)), [&](int64_t begin, int64_t end) {
      const Workspace scratch(static_cast<size_t>(scratch_bytes<T>(part.n)));
      for (int64_t g = begin; g < end; ++g) {
        body(g * group, std::min(group, count - g * group), scratch.as<T>());
      }
    });
  };
  for_groups(*plan.columns, columns, [&](int64_t c, int64_t count, T* scratch) {
    transform_lines<T>(*plan.columns, {in + c, 1, columns}, {middle + c, 1, columns}, count,
                       {.inverse = inverse, .twist = {&plan, c}}, scratch);
  });
  for_groups(*plan.rows, rows, [&](int64_t r, int64_t count, T* scratch) {
    transform_lines<T>(*plan.rows, {middle + r * columns, columns, 1}, {out + r, 1, rows}, count,
                       {.inverse = inverse, .factor = factor}, scratch);
  });
}

template <class T>
Complex<T> exchanged(Complex<T> z, bool wanted) {
  return wanted ? Complex<T>(z.im, z.re) : z;
}

template <class T>
void convolve_line(const Plan<T>& plan, const Complex<T>* in, Complex<T>* out, bool inverse, T factor) {
  const int64_t n = plan.n, length = plan.power->n;
  const Workspace memory(static_cast<size_t>(length) * sizeof(Complex<T>));
  Complex<T>* const a = memory.as<Complex<T>>();
  for (int64_t k = 0; k < n; ++k) a[k] = exchanged(in[k], inverse) * plan.chirp[static_cast<size_t>(k)];
  std::fill(a + n, a + length, Complex<T>(0));
  transform_line(*plan.power, a, a, false, T(1));
  for (int64_t k = 0; k < length; ++k) a[k] = a[k] * plan.response[static_cast<size_t>(k)];
  transform_line(*plan.power, a, a, true, T(1));
  for (int64_t k = 0; k < n; ++k) {
    const Complex<T> z = a[k] * plan.chirp[static_cast<size_t>(k)];
    out[k] = exchanged(Complex<T>(z.re * factor, z.im * factor), inverse);
  }
}

}  // namespace

template <class T>
void transform_line(const Plan<T>& plan, const Complex<T>* in, Complex<T>* out, bool inverse, T factor) {
  if (plan.rows != nullptr) return split_line(plan, in, out, inverse, factor);
  if (plan.power != nullptr) return convolve_line(plan, in, out, inverse, factor);
  const Workspace scratch(static_cast<size_t>(scratch_bytes<T>(plan.n)));
  transform_lines<T>(plan, {in, 0, 1}, {out, 0, 1}, 1, {.inverse = inverse, .factor = factor}, scratch.as<T>());
}
template void transform_line(const Plan<float>&, const complex64*, complex64*, bool, float);
template void transform_line(const Plan<double>&, const complex128*, complex128*, bool, double);

namespace {

/// Calls body(out address, in address, count, line steps) for groups of lines along `dim`; steps count bytes.
template <class F>
void for_lines(const View& out, const View& in, int dim, int64_t n, int64_t group, F&& body) {
  const Layout* const layouts[] = {&out.layout, &in.layout};
  Walk<2> walk = walk_of(layouts, 0, out.layout.rank, dim);
  int64_t step[2];
  const int64_t count = walk.pop(step), groups = (count + group - 1) / group;
  parallel_for(walk.count * groups, std::max<int64_t>(1, grain / (n * group)), [&](int64_t begin, int64_t end) {
    Cursor<2> at(walk, begin / groups);
    int64_t g = begin % groups;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = g * group;
      body(bytes(out) + at.offset[0] + first * step[0], bytes(in) + at.offset[1] + first * step[1],
           std::min(group, count - first), step);
      if (++g == groups) g = 0, at.next();
    }
  });
}

template <class T>
int64_t numbers(int64_t bytes) {
  return bytes / static_cast<int64_t>(sizeof(T));
}

/// Lines of any steps through contiguous memory, one after the other.
template <class T>
void one_by_one(const Plan<T>& plan, const Lines<const Complex<T>>& in, const Lines<Complex<T>>& out, int64_t count,
                bool inverse, T factor) {
  const int64_t n = plan.n;
  const Workspace memory(static_cast<size_t>(n) * sizeof(Complex<T>));
  Complex<T>* const dense = memory.as<Complex<T>>();
  for (int64_t l = 0; l < count; ++l) {
    const Complex<T>* from = in.data + l * in.line;
    Complex<T>* const to = out.data + l * out.line;
    if (in.step != 1) {
      for (int64_t i = 0; i < n; ++i) dense[i] = from[i * in.step];
      from = dense;
    }
    transform_line(plan, from, out.step == 1 ? to : dense, inverse, factor);
    if (out.step == 1) continue;
    for (int64_t i = 0; i < n; ++i) to[i * out.step] = dense[i];
  }
}

/// Whether lines are transformed side by side: where the plan has that and there are enough of them.
template <class T>
bool together(const Plan<T>& plan, int64_t count) {
  return plan.is_small() && (4 * count >= lanes<T>() || plan.rows == nullptr);
}
template <class T>
void side_by_side(const Plan<T>& plan, const Lines<const Complex<T>>& in, const Lines<Complex<T>>& out, int64_t count,
                  const Passes<T>& passes) {
  const Workspace scratch(static_cast<size_t>(scratch_bytes<T>(plan.n)));
  transform_lines<T>(plan, in, out, count, passes, scratch.as<T>());
}
template <class T>
void some_lines(const Plan<T>& plan, const Lines<const Complex<T>>& in, const Lines<Complex<T>>& out, int64_t count,
                bool inverse, T factor) {
  if (!together(plan, count)) return one_by_one(plan, in, out, count, inverse, factor);
  side_by_side(plan, in, out, count, {.inverse = inverse, .factor = factor});
}

template <class T>
void complex_typed(const View& out, const View& in, int dim, bool inverse, T factor) {
  const int64_t n = out.layout.sizes[dim];
  const auto plan = plan_of<T>(n);
  using Z = Complex<T>;
  const int64_t in_step = numbers<Z>(in.layout.strides[dim]), out_step = numbers<Z>(out.layout.strides[dim]);
  for_lines(out, in, dim, n, plan->is_small() ? lanes<T>() : 1,
            [&](char* to, const char* from, int64_t count, const int64_t(&step)[2]) {
              some_lines<T>(*plan, {reinterpret_cast<const Z*>(from), numbers<Z>(step[1]), in_step},
                            {reinterpret_cast<Z*>(to), numbers<Z>(step[0]), out_step}, count, inverse, factor);
            });
}

/// Lines of real numbers, steps in numbers.
template <class T>
void pack(const T* from, int64_t line, int64_t step, int64_t count, int64_t n, T* to) {
  for (int64_t l = 0; l < count; ++l) {
    for (int64_t i = 0; i < n; ++i) to[l * n + i] = from[l * line + i * step];
  }
}

/// From the transform Z of the pairs (x[2j], x[2j + 1]), h of them, to that of the 2h real numbers: in place.
template <class T>
void unmix(Complex<T>* line, int64_t step, int64_t h, const std::vector<Complex<T>>& roots) {
  const Complex<T> first = line[0];
  line[0] = {first.re + first.im, T(0)};
  line[h * step] = {first.re - first.im, T(0)};
  for (int64_t k = 1; 2 * k <= h; ++k) {
    const Complex<T> a = line[k * step], b = conj(line[(h - k) * step]);
    const Complex<T> even((a.re + b.re) / 2, (a.im + b.im) / 2), difference((a.re - b.re) / 2, (a.im - b.im) / 2);
    const Complex<T> turned(difference.im, -difference.re), odd = turned * roots[static_cast<size_t>(k)];
    line[k * step] = even + odd;
    line[(h - k) * step] = conj(even - odd);
  }
}

/// The inverse of unmix, times 2, from h + 1 numbers of `in` to h of `out`.
template <class T>
void mix(const Complex<T>* in, int64_t step, int64_t h, const std::vector<Complex<T>>& roots, Complex<T>* out) {
  const T low = in[0].re, high = in[h * step].re;
  out[0] = {low + high, low - high};
  for (int64_t k = 1; 2 * k <= h; ++k) {
    const Complex<T> a = in[k * step], b = conj(in[(h - k) * step]);
    const Complex<T> even = a + b, odd = (a - b) * conj(roots[static_cast<size_t>(k)]), turned(-odd.im, odd.re);
    out[k] = even + turned;
    out[h - k] = conj(even - turned);
  }
}

template <class T>
void real_typed(const View& out, const View& in, int dim, T factor) {
  using Z = Complex<T>;
  const int64_t n = in.layout.sizes[dim], in_step = numbers<T>(in.layout.strides[dim]);
  const int64_t out_step = numbers<Z>(out.layout.strides[dim]);
  const bool even = n % 2 == 0;
  const int64_t h = even ? n / 2 : n;
  const auto plan = plan_of<T>(h);
  for_lines(out, in, dim, n, plan->is_small() ? lanes<T>() : 1,
            [&](char* to_bytes, const char* from_bytes, int64_t count, const int64_t(&step)[2]) {
              const T* from = reinterpret_cast<const T*>(from_bytes);
              Z* const to = reinterpret_cast<Z*>(to_bytes);
              const int64_t line = numbers<T>(step[1]), out_line = numbers<Z>(step[0]);
              if (even) {
                const bool pairs = in_step == 1 && line % 2 == 0;
                const Workspace memory(pairs ? 64 : static_cast<size_t>(count * n) * sizeof(T));
                if (!pairs) pack(from, line, in_step, count, n, memory.as<T>());
                const Z* const packed = reinterpret_cast<const Z*>(pairs ? from : memory.as<T>());
                const Lines<const Z> in_lines = {packed, pairs ? line / 2 : h, 1};
                const Lines<Z> out_lines = {to, out_line, out_step};
                if (together(*plan, count)) {
                  side_by_side(*plan, in_lines, out_lines, count,
                               {.factor = factor, .half_roots = plan->half_roots.data()});
                  return;
                }
                one_by_one(*plan, in_lines, out_lines, count, false, factor);
                for (int64_t l = 0; l < count; ++l) unmix(to + l * out_line, out_step, h, plan->half_roots);
                return;
              }
              const Workspace memory(static_cast<size_t>(count * n) * sizeof(Z));
              Z* const whole = memory.as<Z>();
              for (int64_t l = 0; l < count; ++l) {
                for (int64_t i = 0; i < n; ++i) whole[l * n + i] = Z(from[l * line + i * in_step]);
              }
              some_lines<T>(*plan, {whole, n, 1}, {whole, n, 1}, count, false, factor);
              for (int64_t l = 0; l < count; ++l) {
                for (int64_t i = 0; i <= n / 2; ++i) to[l * out_line + i * out_step] = whole[l * n + i];
              }
            });
}

template <class T>
void to_real_typed(const View& out, const View& in, int dim, T factor) {
  using Z = Complex<T>;
  const int64_t n = out.layout.sizes[dim], in_step = numbers<Z>(in.layout.strides[dim]);
  const int64_t out_step = numbers<T>(out.layout.strides[dim]);
  const bool even = n % 2 == 0;
  const int64_t h = even ? n / 2 : n;
  const auto plan = plan_of<T>(h);
  for_lines(out, in, dim, n, plan->is_small() ? lanes<T>() : 1,
            [&](char* to_bytes, const char* from_bytes, int64_t count, const int64_t(&step)[2]) {
              const Z* const from = reinterpret_cast<const Z*>(from_bytes);
              T* const to = reinterpret_cast<T*>(to_bytes);
              const int64_t line = numbers<Z>(step[1]), out_line = numbers<T>(step[0]);
              if (even && out_step == 1 && out_line % 2 == 0 && together(*plan, count)) {
                side_by_side(*plan, {from, line, in_step}, {reinterpret_cast<Z*>(to), out_line / 2, 1}, count,
                             {.inverse = true, .factor = factor, .half_roots = plan->half_roots.data()});
                return;
              }
              const Workspace memory(static_cast<size_t>(count * h) * sizeof(Z));
              Z* const whole = memory.as<Z>();
              for (int64_t l = 0; l < count; ++l) {
                const Z* const given = from + l * line;
                Z* const row = whole + l * h;
                if (even) {
                  mix(given, in_step, h, plan->half_roots, row);
                  continue;
                }
                row[0] = Z(given[0].re);
                for (int64_t i = 1; i <= n / 2; ++i) {
                  row[i] = given[i * in_step];
                  row[n - i] = conj(given[i * in_step]);
                }
              }
              some_lines<T>(*plan, {whole, h, 1}, {whole, h, 1}, count, true, factor);
              for (int64_t l = 0; l < count; ++l) {
                for (int64_t i = 0; i < h; ++i) {
                  const Z z = whole[l * h + i];
                  if (!even) {
                    to[l * out_line + i * out_step] = z.re;
                    continue;
                  }
                  to[l * out_line + 2 * i * out_step] = z.re;
                  to[l * out_line + (2 * i + 1) * out_step] = z.im;
                }
              }
            });
}

}  // namespace
}  // namespace fft

void fourier(const View& out, const View& in, int dim, bool inverse, double factor) {
  if (out.layout.numel == 0) return;
  const DType to = out.layout.dtype, from = in.layout.dtype;
  const bool wide = to == DType::c128 || to == DType::f64;
  if (to == from && wide) return fft::complex_typed<double>(out, in, dim, inverse, factor);
  if (to == from) return fft::complex_typed<float>(out, in, dim, inverse, static_cast<float>(factor));
  if (is_complex(to) && wide) return fft::real_typed<double>(out, in, dim, factor);
  if (is_complex(to)) return fft::real_typed<float>(out, in, dim, static_cast<float>(factor));
  if (wide) return fft::to_real_typed<double>(out, in, dim, factor);
  fft::to_real_typed<float>(out, in, dim, static_cast<float>(factor));
}

}  // namespace weft::cpu
