#include "running_loops.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../../backends/observe.hpp"

namespace weft {

namespace {

// x as [outer, n, inner]: lines of n elements, `inner` apart.
struct Lines {
  int64_t outer = 1, n, inner = 1;
  Lines(const Tensor& x, int dim) : n(x.dim() == 0 ? 1 : x.size(dim)) {
    for (int d = 0; d < x.dim(); ++d) {
      if (d != dim) (d < dim ? outer : inner) *= x.size(d);
    }
  }
};

constexpr int64_t column_block = 512;

// Calls body(offset of the first element, width) for blocks of neighbouring columns.
template <class F>
void each_block(const Lines& lines, F&& body) {
  for (int64_t o = 0; o < lines.outer; ++o) {
    for (int64_t c = 0; c < lines.inner; c += column_block) {
      body(o * lines.n * lines.inner + c, std::min(column_block, lines.inner - c));
    }
  }
}

template <class F>
void observed(const char* kernel, std::initializer_list<Tensor> outputs, const Tensor& x, F&& run) {
  if (WEFT_LIKELY(!detail::kernels_are_observed())) return run();
  View written[2];
  const View* out[2];
  size_t count = 0;
  for (const Tensor& t : outputs) {
    written[count] = t.raw_view();
    out[count] = &written[count];
    ++count;
  }
  const View read = x.raw_view();
  const View* const in[] = {&read};
  detail::run_observed(kernel, {out, count}, in, [&] { run(); });
}

// ---- products -------------------------------------------------------------------------------------------------------

// Four elements at a time: one multiplication in four waits for the one before. Doubles would overflow by themselves
// where the product of all does not; four floats cannot in double.
template <class Carry, class T>
void product_line(T* y, const T* x, int64_t n) {
  Carry all = 1;
  int64_t i = 0;
  for (; !std::is_same_v<T, double> && i + 4 <= n; i += 4) {
    const Carry a = static_cast<Carry>(x[i]), ab = a * static_cast<Carry>(x[i + 1]);
    const Carry c = static_cast<Carry>(x[i + 2]), abc = ab * c, abcd = ab * (c * static_cast<Carry>(x[i + 3]));
    y[i] = static_cast<T>(all * a);
    y[i + 1] = static_cast<T>(all * ab);
    y[i + 2] = static_cast<T>(all * abc);
    all *= abcd;
    y[i + 3] = static_cast<T>(all);
  }
  for (; i < n; ++i) {
    all *= static_cast<Carry>(x[i]);
    y[i] = static_cast<T>(all);
  }
}

template <class Carry, class T>
void product_columns(T* y, const T* x, int64_t n, int64_t stride, int64_t width) {
  Carry all[column_block];
  std::fill_n(all, width, Carry(1));
  for (int64_t i = 0; i < n; ++i, x += stride, y += stride) {
    for (int64_t j = 0; j < width; ++j) {
      all[j] *= static_cast<Carry>(x[j]);
      y[j] = static_cast<T>(all[j]);
    }
  }
}

template <class Carry, class T>
void products(const Tensor& out, const Tensor& x, const Lines& lines) {
  T* const y = out.data<T>();
  const T* const given = x.data<T>();
  each_block(lines, [&](int64_t at, int64_t width) {
    if (lines.inner == 1) product_line<Carry>(y + at, given + at, lines.n);
    else product_columns<Carry>(y + at, given + at, lines.n, lines.inner, width);
  });
}

// ---- sums of exponentials -------------------------------------------------------------------------------------------

// log(sum of exp) as the largest so far and the sum relative to it.
struct LogSum {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  double add(double x) {
    if (x > most) {
      sum = sum * std::exp(most - x) + 1;
      most = x;
    } else if (x == most) {
      sum += 1;
    } else {
      sum += std::exp(x - most);
    }
    return std::isinf(most) && !std::isnan(sum) ? most : most + std::log(sum);
  }
};

template <class T>
void log_sums(const Tensor& out, const Tensor& x, const Lines& lines) {
  T* const y = out.data<T>();
  const T* const given = x.data<T>();
  for (int64_t o = 0; o < lines.outer; ++o) {
    for (int64_t c = 0; c < lines.inner; ++c) {
      LogSum so_far;
      for (int64_t i = 0; i < lines.n; ++i) {
        const int64_t at = (o * lines.n + i) * lines.inner + c;
        y[at] = static_cast<T>(so_far.add(static_cast<double>(given[at])));
      }
    }
  }
}

// ---- extremes -------------------------------------------------------------------------------------------------------

template <bool largest, class T>
bool takes_over(T x, T so_far) {
  return static_cast<bool>(static_cast<int>(largest ? x >= so_far : x <= so_far) | static_cast<int>(x != x));
}

template <bool largest, class T>
void extreme_line(T* y, int64_t* index, const T* x, int64_t n) {
  T value = x[0];
  int64_t place = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (takes_over<largest>(x[i], value)) {
      value = x[i];
      place = i;
    }
    y[i] = value;
    index[i] = place;
  }
}

template <bool largest, class T>
void extreme_columns(T* y, int64_t* index, const T* x, int64_t n, int64_t stride, int64_t width) {
  std::copy_n(x, width, y);
  std::fill_n(index, width, int64_t{0});
  for (int64_t i = 1; i < n; ++i) {
    const T *const now = x + i * stride, *const so_far = y + (i - 1) * stride;
    const int64_t* const place = index + (i - 1) * stride;
    T* const to = y + i * stride;
    int64_t* const to_index = index + i * stride;
    for (int64_t j = 0; j < width; ++j) {
      const bool takes = takes_over<largest>(now[j], so_far[j]);
      to[j] = takes ? now[j] : so_far[j];
      to_index[j] = takes ? i : place[j];
    }
  }
}

template <bool largest, class T>
void extremes(const Tensor& out, const Tensor& index, const Tensor& x, const Lines& lines) {
  T* const y = out.data<T>();
  int64_t* const places = index.data<int64_t>();
  const T* const given = x.data<T>();
  each_block(lines, [&](int64_t at, int64_t width) {
    if (lines.inner == 1) extreme_line<largest>(y + at, places + at, given + at, lines.n);
    else extreme_columns<largest>(y + at, places + at, given + at, lines.n, lines.inner, width);
  });
}

}  // namespace

void running_product(const Tensor& out, const Tensor& x, int dim) {
  const Lines lines(x, dim);
  observed("running_product", {out}, x, [&] {
    switch (x.dtype()) {
      case DType::f32:
        return products<double, float>(out, x, lines);
      case DType::f64:
        return products<double, double>(out, x, lines);
      case DType::u64:
        return products<uint64_t, uint64_t>(out, x, lines);
      default:
        return products<uint64_t, int64_t>(out, x, lines);
    }
  });
}

void running_log_sum_exp(const Tensor& out, const Tensor& x, int dim) {
  const Lines lines(x, dim);
  observed("running_log_sum_exp", {out}, x, [&] {
    if (x.dtype() == DType::f64) log_sums<double>(out, x, lines);
    else log_sums<float>(out, x, lines);
  });
}

void running_extreme(const Tensor& out, const Tensor& index, const Tensor& x, int dim, bool largest) {
  const Lines lines(x, dim);
  observed("running_extreme", {out, index}, x, [&] {
    visit_dtype(x.dtype(), [&]<class T>() {
      if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
        if (largest) extremes<true, T>(out, index, x, lines);
        else extremes<false, T>(out, index, x, lines);
      }
    });
  });
}

}  // namespace weft
