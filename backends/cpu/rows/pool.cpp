#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/rows/pool.cpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"

#include <algorithm>
#include <cstring>

#include "../index/crowd.hpp"
#include "../kernels.hpp"
#include "../lines.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Room behind a line, so that whole registers may be read and written there.
constexpr int64_t slack = 64;

/// The first `left` numbers of a register, at most all of them.
template <class D, class T>
HWY_INLINE void store_some(D d, hn::Vec<D> v, T* to, int64_t left) {
  if (left >= static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, to);
#if HWY_MEM_OPS_MIGHT_FAULT
  alignas(64) T buffer[64 / sizeof(T)];
  hn::StoreU(v, d, buffer);
  std::memcpy(to, buffer, static_cast<size_t>(left) * sizeof(T));
#else
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(left)), d, to);
#endif
}

/// One dimension of the planes, and its windows.
struct Axis {
  int64_t in, out;
  PoolPlan::Line line;

  int64_t begin(int64_t window) const { return window * line.stride - line.padding; }
  /// The elements of a window that exist: numbers first(w) to last(w).
  int64_t first(int64_t window) const {
    const int64_t missing = -begin(window);
    return missing <= 0 ? 0 : steps(missing);
  }
  int64_t last(int64_t window) const { return std::min(line.size, steps(in - begin(window))) - 1; }
  int64_t place(int64_t window, int64_t number) const { return begin(window) + number * line.dilation; }

 private:
  int64_t steps(int64_t distance) const {
    return line.dilation == 1 ? distance : (distance + line.dilation - 1) / line.dilation;
  }
};

struct Planes {
  int64_t count;
  Axis z, y, x;

  Planes(const View& input, const View& output, const PoolPlan& plan)
      : count(input.layout.sizes[0]),
        z(axis(input, output, plan, 0)),
        y(axis(input, output, plan, 1)),
        x(axis(input, output, plan, 2)) {}
  int64_t in() const { return z.in * y.in * x.in; }
  int64_t out() const { return z.out * y.out * x.out; }

 private:
  static Axis axis(const View& input, const View& output, const PoolPlan& plan, int i) {
    return {input.layout.sizes[i + 1], output.layout.sizes[i + 1], plan.lines[i]};
  }
};

/// A row with its padding, in `stride` phases: column c of the padded row is element c / stride of phase c % stride. So
/// element k of neighbouring windows is contiguous.
template <class T>
struct Phases {
  const Axis& axis;
  int64_t length;  ///< of a phase

  explicit Phases(const Axis& a)
      : axis(a),
        length(std::max(a.out + (a.line.size - 1) * a.line.dilation / a.line.stride,
                        (a.in + a.line.padding) / a.line.stride) +
               1 + slack) {}
  int64_t size() const { return length * axis.line.stride; }
  /// The offset of element k of the first window.
  int64_t at(int64_t k) const {
    const int64_t column = k * axis.line.dilation;
    return column % axis.line.stride * length + column / axis.line.stride;
  }

  HWY_INLINE void spread(T* to, const T* row) const {
    const int64_t stride = axis.line.stride, padding = axis.line.padding, n = axis.in;
    if (stride == 1) {
      std::memcpy(to + padding, row, static_cast<size_t>(n) * sizeof(T));
      return;
    }
    int64_t done = 0;
    if (stride == 2) {
      const hn::ScalableTag<T> d;
      const auto lanes = static_cast<int64_t>(hn::Lanes(d));
      T *even = place(to, padding), *odd = place(to, padding + 1);
      for (; done + 2 * lanes <= n; done += 2 * lanes) {
        hn::Vec<decltype(d)> a, b;
        hn::LoadInterleaved2(d, row + done, a, b);
        hn::StoreU(a, d, even + done / 2);
        hn::StoreU(b, d, odd + done / 2);
      }
    }
    for (int64_t phase = 0; phase < stride; ++phase) {
      T* line = place(to, done + phase + padding);
      for (int64_t c = done + phase; c < n; c += stride) *line++ = row[c];
    }
  }
  /// row += the line in phases.
  HWY_INLINE void gather(T* row, const T* from) const {
    const int64_t stride = axis.line.stride, padding = axis.line.padding, n = axis.in;
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t done = 0;
    if (stride == 1) {
      for (; done + lanes <= n; done += lanes) {
        hn::StoreU(hn::Add(hn::LoadU(d, row + done), hn::LoadU(d, from + padding + done)), d, row + done);
      }
    } else if (stride == 2) {
      const T *even = place(from, padding), *odd = place(from, padding + 1);
      for (; done + 2 * lanes <= n; done += 2 * lanes) {
        hn::Vec<decltype(d)> a, b;
        hn::LoadInterleaved2(d, row + done, a, b);
        hn::StoreInterleaved2(hn::Add(a, hn::LoadU(d, even + done / 2)), hn::Add(b, hn::LoadU(d, odd + done / 2)), d,
                              row + done);
      }
    }
    for (int64_t phase = 0; phase < stride; ++phase) {
      const T* line = place(from, done + phase + padding);
      for (int64_t c = done + phase; c < n; c += stride) row[c] += *line++;
    }
  }

 private:
  template <class P>
  P* place(P* line, int64_t column) const {
    if (axis.line.stride == 2) return line + (column & 1) * length + (column >> 1);
    return line + column % axis.line.stride * length + column / axis.line.stride;
  }
};

/// The inputs of one output row: the rows of its window, in phases unless they can be read in place.
template <class T>
class Rows {
 public:
  /// `end` is behind the planes.
  Rows(const Planes& planes, const T* end, T filler)
      : planes_(planes),
        phases_(planes.x),
        end_(end),
        most_(most(planes.z) * most(planes.y)),
        pairs(reads_pairs(planes.x)),
        direct_(pairs || reads_lines(planes.x)),
        reads_beyond_(pairs && planes.x.out < lanes()),
        lines_(most_ * phases_.size() * (int64_t)sizeof(T), !direct_ || reads_beyond_),
        tables_((2 * most_ + planes.x.line.size) * (int64_t)sizeof(int64_t)) {
    if (!direct_) std::fill_n(lines_.template as<T>(), most_ * phases_.size(), filler);
    line = tables_.as<const T*>();
    number = tables_.as<int64_t>() + most_;
    at = number + most_;
    for (int64_t k = 0; k < planes.x.line.size; ++k) at[k] = direct_ ? k * planes.x.line.dilation : phases_.at(k);
  }
  /// Reads the rows of the window (z, y) of a plane.
  HWY_INLINE void read(const T* plane, int64_t z, int64_t y) {
    count = 0;
    const int64_t last_z = planes_.z.last(z), first_y = planes_.y.first(y), last_y = planes_.y.last(y);
    for (int64_t i = planes_.z.first(z); i <= last_z; ++i) {
      for (int64_t j = first_y; j <= last_y; ++j) {
        const int64_t row = planes_.z.place(z, i) * planes_.y.in + planes_.y.place(y, j);
        const T* const from = plane + row * planes_.x.in;
        line[count] = from;
        if (!direct_ || (reads_beyond_ && end_ - from < 2 * lanes())) {
          T* const buffer = lines_.template as<T>() + count * phases_.size();
          if (direct_) std::memcpy(buffer, from, static_cast<size_t>(planes_.x.in) * sizeof(T));
          else phases_.spread(buffer, from);
          line[count] = buffer;
        }
        number[count] = row * planes_.x.in;
        ++count;
      }
    }
  }
  /// Calls step(elements, i, k) with element k of the windows from `o` on in row i of the window, for all of them.
  template <class D, class Step>
  HWY_INLINE void each(D d, int64_t o, Step&& step) const {
    for (int64_t i = 0; i < count; ++i) {
      if (pairs) {
        hn::Vec<D> even, odd;
        hn::LoadInterleaved2(d, line[i] + 2 * o, even, odd);
        step(even, i, int64_t{0});
        step(odd, i, int64_t{1});
      } else {
        for (int64_t k = 0; k < planes_.x.line.size; ++k) step(hn::LoadU(d, line[i] + at[k] + o), i, k);
      }
    }
  }
  /// Where a block of results begins that would begin at o: rows that are read as they are have nothing behind them.
  int64_t block(int64_t o, int64_t lanes) const {
    return direct_ && !reads_beyond_ ? std::min(o, planes_.x.out - lanes) : o;
  }

  int64_t count = 0;
  const T** line;
  int64_t *number, *at;  ///< of each row its first place in the plane, of each element where it stands in a line

 private:
  static int64_t lanes() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>())); }
  static bool reads_lines(const Axis& x) {
    return x.line.stride == 1 && x.line.padding == 0 && whole(x) && x.out >= lanes();
  }
  static bool reads_pairs(const Axis& x) {
    return x.line.stride == 2 && x.line.padding == 0 && x.line.size == 2 && x.line.dilation == 1 && whole(x);
  }
  /// No window is cut.
  static bool whole(const Axis& x) { return x.begin(x.out - 1) + (x.line.size - 1) * x.line.dilation < x.in; }
  static int64_t most(const Axis& axis) { return std::min(axis.line.size, axis.in); }
  const Planes& planes_;
  Phases<T> phases_;
  const T* end_;
  int64_t most_;
  const bool pairs, direct_, reads_beyond_;  ///< short rows with whole registers: the next row, too
  Scratch lines_, tables_;
};

template <class T>
HWY_INLINE void max_row(T* out, const Rows<T>& rows, const Axis& x) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t begin = 0; begin < x.out; begin += lanes) {
    const int64_t o = rows.block(begin, lanes);
    auto best = hn::Set(d, -static_cast<T>(__builtin_inf()));
    auto lost = hn::IsNaN(best);
    rows.each(d, o, [&](auto v, int64_t, int64_t) HWY_ATTR {
      lost = hn::Or(lost, hn::IsNaN(v));
      best = hn::IfThenElse(hn::Gt(v, best), v, best);
    });
    store_some(d, hn::IfThenElse(lost, hn::NaN(d), best), out + o, x.out - o);
  }
}

/// `columns` has the column of each window's first place, `exist` that of its first element.
template <class T>
HWY_INLINE void max_row_with_places(T* out, hwy::MakeSigned<T>* places, const Rows<T>& rows, const Axis& x,
                                    const hwy::MakeSigned<T>* columns, const hwy::MakeSigned<T>* exist) {
  using I = hwy::MakeSigned<T>;
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t begin = 0; begin < x.out; begin += lanes) {
    const int64_t o = rows.block(begin, lanes);
    const auto column = hn::LoadU(di, columns + o);
    auto best = hn::Set(d, -static_cast<T>(__builtin_inf()));
    auto place = hn::Add(hn::LoadU(di, exist + o), hn::Set(di, static_cast<I>(rows.number[0])));
    rows.each(d, o, [&](auto v, int64_t i, int64_t k) HWY_ATTR {
      const auto take = hn::Or(hn::Gt(v, best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(v)));
      best = hn::IfThenElse(take, v, best);
      const auto here = hn::Add(column, hn::Set(di, static_cast<I>(rows.number[i] + k * x.line.dilation)));
      place = hn::IfThenElse(hn::RebindMask(di, take), here, place);
    });
    store_some(d, best, out + o, x.out - o);
    hn::StoreU(place, di, places + o);
  }
}

template <class T>
HWY_INLINE void mean_row(T* out, const Rows<T>& rows, const Axis& x, T share, const T* shares) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t begin = 0; begin < x.out; begin += lanes) {
    const int64_t o = rows.block(begin, lanes);
    auto sum = hn::Zero(d);
    rows.each(d, o, [&](auto v, int64_t, int64_t) HWY_ATTR { sum = hn::Add(sum, v); });
    const auto mean = hn::Div(sum, hn::Mul(hn::Set(d, share), hn::LoadU(d, shares + o)));
    store_some(d, mean, out + o, x.out - o);
  }
}

/// The columns' shares of the divisors, 1 behind them.
template <class T>
void write_shares(T* to, const Axis& x) {
  for (int64_t o = 0; o < x.out + slack; ++o) {
    to[o] = o < x.out ? static_cast<T>(x.line.extents[static_cast<size_t>(o)]) : T(1);
  }
}

/// A whole register may be read behind `from`.
HWY_INLINE void widen(int64_t* to, const int64_t* from, int64_t n) {
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(int64_t));
}
HWY_INLINE void widen(int64_t* to, const int32_t* from, int64_t n) {
  const hn::ScalableTag<int64_t> d;
  const hn::Rebind<int32_t, decltype(d)> half;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) store_some(d, hn::PromoteTo(d, hn::LoadU(half, from + i)), to + i, n - i);
}

int64_t rows_at_once(const Planes& planes) {
  const int64_t rows = std::min(planes.z.line.size, planes.z.in) * std::min(planes.y.line.size, planes.y.in);
  return rows_per_chunk(planes.x.out * rows * std::min(planes.x.line.size, planes.x.in));
}

template <class T>
void pool_of(Pool how, const View& out, const View& index, const View& x, const PoolPlan& plan) {
  using I = hwy::MakeSigned<T>;
  const Planes planes(x, out, plan);
  const Axis& columns = planes.x;
  const int64_t outer = planes.z.out * planes.y.out, width = columns.out + slack;
  const bool means = how == Pool::mean, places = index.data != nullptr;
  Scratch tables(3 * width * static_cast<int64_t>(sizeof(T)));
  T* const shares = tables.as<T>();
  I* const begins = tables.as<I>() + width;
  I* const exist = begins + width;
  if (means) write_shares(shares, columns);
  for (int64_t o = 0; o < width; ++o) {
    const int64_t window = std::min(o, columns.out - 1);
    begins[o] = static_cast<I>(columns.begin(window));
    exist[o] = static_cast<I>(columns.place(window, columns.first(window)));
  }
  parallel_for(planes.count * outer, rows_at_once(planes), [&](int64_t begin, int64_t end) HWY_ATTR {
    Rows<T> rows(planes, static_cast<const T*>(x.data) + planes.count * planes.in(),
                 means ? T(0) : -static_cast<T>(__builtin_inf()));
    const Scratch found(places ? width * static_cast<int64_t>(sizeof(I)) : 1);
    int64_t window_y = begin % planes.y.out, window_z = begin % outer / planes.y.out, plane = begin / outer;
    for (int64_t r = begin; r < end; ++r) {
      rows.read(static_cast<const T*>(x.data) + plane * planes.in(), window_z, window_y);
      T* const to = static_cast<T*>(out.data) + r * columns.out;
      if (means) {
        const double share =
            planes.z.line.extents[static_cast<size_t>(window_z)] * planes.y.line.extents[static_cast<size_t>(window_y)];
        mean_row(to, rows, columns, static_cast<T>(share), shares);
      } else if (places) {
        max_row_with_places(to, found.as<I>(), rows, columns, begins, exist);
        widen(static_cast<int64_t*>(index.data) + r * columns.out, found.as<I>(), columns.out);
      } else {
        max_row(to, rows, columns);
      }
      if (++window_y < planes.y.out) continue;
      window_y = 0;
      if (++window_z < planes.z.out) continue;
      window_z = 0;
      ++plane;
    }
  });
}

template <class T>
void pool_gradient_of(const View& dx, const View& g, const PoolPlan& plan) {
  const Planes planes(dx, g, plan);
  const Axis& columns = planes.x;
  const Phases<T> phases(columns);
  Scratch table((columns.out + slack) * static_cast<int64_t>(sizeof(T)));
  T* const shares = table.as<T>();
  write_shares(shares, columns);
  const int64_t chunk = rows_per_chunk(planes.in() + planes.out());
  parallel_for(planes.count, chunk, [&](int64_t begin, int64_t end) HWY_ATTR {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const Scratch memory((phases.size() + columns.out + slack) * static_cast<int64_t>(sizeof(T)));
    T *const line = memory.as<T>(), *const quotients = line + phases.size();
    std::fill_n(quotients, columns.out + slack, T(0));
    for (int64_t plane = begin; plane < end; ++plane) {
      T* const to = static_cast<T*>(dx.data) + plane * planes.in();
      std::fill_n(to, planes.in(), T(0));
      for (int64_t r = 0; r < planes.z.out * planes.y.out; ++r) {
        const int64_t z = r / planes.y.out, y = r % planes.y.out;
        const T* const from = static_cast<const T*>(g.data) + plane * planes.out() + r * columns.out;
        const auto share = static_cast<T>(planes.z.line.extents[static_cast<size_t>(z)] *
                                          planes.y.line.extents[static_cast<size_t>(y)]);
        std::memcpy(quotients, from, static_cast<size_t>(columns.out) * sizeof(T));  // zeros stay behind the last
        for (int64_t o = 0; o < columns.out; o += lanes) {
          const auto divisor = hn::Mul(hn::Set(d, share), hn::LoadU(d, shares + o));
          hn::StoreU(hn::Div(hn::LoadU(d, quotients + o), divisor), d, quotients + o);
        }
        std::fill_n(line, phases.size(), T(0));
        for (int64_t k = 0; k < columns.line.size; ++k) {
          T* const sums = line + phases.at(k);
          for (int64_t o = 0; o < columns.out; o += lanes) {
            hn::StoreU(hn::Add(hn::LoadU(d, sums + o), hn::LoadU(d, quotients + o)), d, sums + o);
          }
        }
        for (int64_t i = planes.z.first(z); i <= planes.z.last(z); ++i) {
          for (int64_t j = planes.y.first(y); j <= planes.y.last(y); ++j) {
            const int64_t row = planes.z.place(z, i) * planes.y.in + planes.y.place(y, j);
            phases.gather(to + row * columns.in, line);
          }
        }
      }
    }
  });
}

/// Whether means have more terms than are added in float.
bool adds_many(const View& x, const PoolPlan& plan) {
  int64_t window = 1;
  for (int i = 0; i < 3; ++i) window *= std::min(plan.lines[i].size, x.layout.sizes[i + 1]);
  return window > few_terms;
}
/// One plane of `view` as doubles in `memory`.
View plane_in_double(const View& view, double* memory) {
  View plane = view;
  plane.data = memory;
  plane.layout.dtype = DType::f64;
  plane.layout.sizes[0] = 1;
  finish_layout(plane.layout);
  return plane;
}
/// Calls kernel(to, from) with one plane after the other, in double.
template <class Kernel>
void by_planes_in_double(const View& out, const View& in, Kernel&& kernel) {
  const int64_t planes = in.layout.sizes[0], reads = in.layout.numel / planes, writes = out.layout.numel / planes;
  parallel_for(planes, 1, [&](int64_t begin, int64_t end) {
    const Scratch memory((reads + writes) * static_cast<int64_t>(sizeof(double)));
    double *const from = memory.as<double>(), *const to = from + reads;
    for (int64_t p = begin; p < end; ++p) {
      load_line(from, bytes(in) + p * reads * 4, 4, reads, DType::f32);
      kernel(plane_in_double(out, to), plane_in_double(in, from));
      store_line(bytes(out) + p * writes * 4, 4, DType::f32, static_cast<const double*>(to), writes);
    }
  });
}

void pool_any(Pool how, const View& out, const View& index, const View& x, const PoolPlan& plan) {
  if (x.layout.dtype == DType::f64) return pool_of<double>(how, out, index, x, plan);
  if (how == Pool::mean && adds_many(x, plan)) {
    return by_planes_in_double(out, x,
                               [&](const View& to, const View& from) { pool_of<double>(how, to, {}, from, plan); });
  }
  pool_of<float>(how, out, index, x, plan);
}
void pool_gradient_any(const View& dx, const View& g, const PoolPlan& plan) {
  if (dx.layout.dtype == DType::f64) return pool_gradient_of<double>(dx, g, plan);
  if (adds_many(dx, plan)) {
    return by_planes_in_double(dx, g,
                               [&](const View& to, const View& from) { pool_gradient_of<double>(to, from, plan); });
  }
  pool_gradient_of<float>(dx, g, plan);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {

HWY_EXPORT(pool_any);
HWY_EXPORT(pool_gradient_any);

void pool(Pool how, const View& out, const View& index, const View& x, const PoolPlan& plan) {
  if (x.layout.dtype != DType::f32 && x.layout.dtype != DType::f64) unsupported("pool", x);
  if (out.layout.numel != 0) HWY_DYNAMIC_DISPATCH(pool_any)(how, out, index, x, plan);
}
void pool_gradient(const View& dx, const View& g, const PoolPlan& plan) {
  if (dx.layout.dtype != DType::f32 && dx.layout.dtype != DType::f64) unsupported("pool_gradient", dx);
  if (dx.layout.numel != 0) HWY_DYNAMIC_DISPATCH(pool_gradient_any)(dx, g, plan);
}

}  // namespace weft::cpu
#endif
