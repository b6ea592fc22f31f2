// Convolutions as matrix products: what lies under each weight is copied into columns, a block at a time that stays in
// the cache (Chellapilla, Puri, Simard 2006).
#include <algorithm>
#include <cstring>

#include "../kernels.hpp"
#include "../lines.hpp"
#include "../matmul/gemm.hpp"
#include "../thread_pool.hpp"
#include "shape.hpp"

namespace weft::cpu {
namespace {

/// Positions of the result in one block, and bytes of its columns.
constexpr int64_t most_positions = 128, column_bytes = 1 << 18;

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Splits n into equal blocks of at most `most`, multiples of 16 but for the last.
int64_t block_of(int64_t n, int64_t most) { return std::min(n, (divided_up(n, divided_up(n, most)) + 15) / 16 * 16); }

/// Calls f(row of the columns, channel, tap along 0, 1 and 2) for the weights [begin, end) of an output.
template <class F>
void for_weights(const ConvolutionShape& s, int64_t begin, int64_t end, F&& f) {
  for (int64_t p = begin; p < end; ++p) {
    int64_t rest = p;
    const int64_t k2 = rest % s.kernel[2];
    rest /= s.kernel[2];
    const int64_t k1 = rest % s.kernel[1];
    rest /= s.kernel[1];
    f(p - begin, rest / s.kernel[0], rest % s.kernel[0], k1, k2);
  }
}

/// Calls f(offset in the block, offset in a channel of the input or -1 where all of it is padding, first inner output,
/// count, range that is inside) for the runs along the last dimension that make up the outputs [begin, end).
template <class F>
void for_runs(const ConvolutionShape& s, int64_t begin, int64_t end, int64_t k0, int64_t k1, int64_t k2, F&& f) {
  for (int64_t position = begin; position < end;) {
    const int64_t o2 = position % s.out[2], line = position / s.out[2];
    const int64_t count = std::min(s.out[2] - o2, end - position);
    const int64_t i0 = s.under(0, line / s.out[1], k0), i1 = s.under(1, line % s.out[1], k1);
    const bool there = i0 >= 0 && i0 < s.in[0] && i1 >= 0 && i1 < s.in[1];
    const auto range = s.inside(2, k2, o2, o2 + count);
    f(position - begin, there ? (i0 * s.in[1] + i1) * s.in[2] : -1, o2, count, range);
    position += count;
  }
}

/// columns[weight p - from][position - begin] = the input under it.
template <class T>
void gather_columns(const ConvolutionShape& s, const T* x, int64_t from, int64_t to, int64_t begin, int64_t end,
                    T* columns, int64_t row) {
  const int64_t size = s.in_size(), stride = s.steps.stride[2];
  for_weights(s, from, to, [&](int64_t p, int64_t c, int64_t k0, int64_t k1, int64_t k2) {
    for_runs(s, begin, end, k0, k1, k2, [&](int64_t at, int64_t line, int64_t o2, int64_t count, auto range) {
      T* const run = columns + p * row + at - o2;
      if (line < 0) return void(std::fill_n(run + o2, count, T(0)));
      const T* const under = x + c * size + line;
      std::fill(run + o2, run + range.begin, T(0));
      if (stride == 1) {
        if (range.end > range.begin) {
          std::memcpy(run + range.begin, under + s.under(2, range.begin, k2),
                      static_cast<size_t>(range.end - range.begin) * sizeof(T));
        }
      } else {
        for (int64_t o = range.begin; o < range.end; ++o) run[o] = under[s.under(2, o, k2)];
      }
      std::fill(run + range.end, run + o2 + count, T(0));
    });
  });
}

/// The inverse: adds the columns to the input's gradient.
template <class T>
void scatter_columns(const ConvolutionShape& s, const T* columns, int64_t row, int64_t from, int64_t to, int64_t begin,
                     int64_t end, T* dx) {
  const int64_t size = s.in_size(), stride = s.steps.stride[2];
  for_weights(s, from, to, [&](int64_t p, int64_t c, int64_t k0, int64_t k1, int64_t k2) {
    for_runs(s, begin, end, k0, k1, k2, [&](int64_t at, int64_t line, int64_t o2, int64_t, auto range) {
      if (line < 0) return;
      const T* const run = columns + p * row + at - o2;
      T* const under = dx + c * size + line + s.under(2, 0, k2);
      if (stride == 1) {
        for (int64_t o = range.begin; o < range.end; ++o) under[o] += run[o];
      } else {
        for (int64_t o = range.begin; o < range.end; ++o) under[o * stride] += run[o];
      }
    });
  });
}

/// c += a b, or c = a b where it is the first part.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool adds, T* c, int64_t row) {
  gemm<T>(GemmCode::native, m, n, k, a, b, adds ? Addend<T>{c, row} : Addend<T>{}, c, row);
}

/// Weights whose columns lie in memory at once, for blocks of n positions.
template <class T>
int64_t weights_at_once(const ConvolutionShape& s, int64_t n) {
  return block_of(s.depth(), std::max<int64_t>(16, column_bytes / static_cast<int64_t>(sizeof(T)) / n));
}

/// Whether the input itself is the columns: kernels of one weight that touch every position once.
bool is_product(const ConvolutionShape& s) {
  for (int d = 0; d < 3; ++d) {
    if (s.kernel[d] != 1 || s.steps.stride[d] != 1 || s.steps.padding[d] != 0 || s.in[d] != s.out[d]) return false;
  }
  return true;
}

template <class T>
void forward(const ConvolutionShape& s, T* y, const T* x, const T* w, const T* bias) {
  const int64_t depth = s.depth(), positions = s.out_size(), n = block_of(positions, most_positions);
  const int64_t weights = weights_at_once<T>(s, n), blocks = divided_up(positions, n);
  const bool direct = is_product(s);
  parallel_for(s.batch * s.groups * blocks, 1, [&](int64_t first, int64_t last) {
    const Scratch memory(weights * n * static_cast<int64_t>(sizeof(T)), !direct);
    for (int64_t task = first; task < last; ++task) {
      const int64_t group = task / blocks, g = group % s.groups, begin = task % blocks * n;
      const int64_t count = std::min(n, positions - begin);
      const T* const from = x + group * s.channels * s.in_size();
      T* const to = y + group * s.outputs * positions + begin;
      for (int64_t o = 0; bias != nullptr && o < s.outputs; ++o) {
        std::fill_n(to + o * positions, count, bias[g * s.outputs + o]);
      }
      for (int64_t p = 0; p < depth; p += weights) {
        const int64_t end = std::min(p + weights, depth);
        Matrix<T> columns{from + p * s.in_size() + begin, positions, 1};
        if (!direct) {
          gather_columns(s, from, p, end, begin, begin + count, memory.as<T>(), n);
          columns = {memory.as<T>(), n, 1};
        }
        multiply<T>(s.outputs, count, end - p, {w + g * s.outputs * depth + p, depth, 1}, columns,
                    p > 0 || bias != nullptr, to, positions);
      }
    }
  });
}

template <class T>
void by_data(const ConvolutionShape& s, T* dx, const T* g, const T* w) {
  const int64_t positions = s.out_size(), n = block_of(positions, most_positions), taps = s.taps();
  // Whole channels, so that no two tasks add to one element.
  const int64_t channels = std::max<int64_t>(1, weights_at_once<T>(s, n) / taps);
  const int64_t parts = divided_up(s.channels, channels);
  const bool direct = is_product(s);
  parallel_for(s.batch * s.groups * parts, 1, [&](int64_t first, int64_t last) {
    const Scratch memory(channels * taps * n * static_cast<int64_t>(sizeof(T)), !direct);
    for (int64_t task = first; task < last; ++task) {
      const int64_t group = task / parts, c = task % parts * channels, end = std::min(c + channels, s.channels);
      const Matrix<T> weights{w + group % s.groups * s.outputs * s.depth() + c * taps, 1, s.depth()};
      T* const to = dx + group * s.channels * s.in_size();
      if (!direct) std::fill(to + c * s.in_size(), to + end * s.in_size(), T(0));
      for (int64_t begin = 0; begin < positions; begin += n) {
        const int64_t count = std::min(n, positions - begin);
        const Matrix<T> gradient{g + group * s.outputs * positions + begin, positions, 1};
        if (direct) {
          multiply<T>(end - c, count, s.outputs, weights, gradient, false, to + c * positions + begin, positions);
          continue;
        }
        multiply<T>((end - c) * taps, count, s.outputs, weights, gradient, false, memory.as<T>(), n);
        scatter_columns(s, memory.as<T>(), n, c * taps, end * taps, begin, begin + count, to);
      }
    }
  });
}

template <class T>
void by_weight(const ConvolutionShape& s, T* dw, const T* x, const T* g) {
  const int64_t depth = s.depth(), positions = s.out_size(), n = block_of(positions, most_positions);
  const int64_t weights = weights_at_once<T>(s, n), blocks = divided_up(depth, weights);
  // Each share of the batch has a sum of its own; they are added in order, whoever computed them.
  const bool direct = is_product(s);
  const int64_t shares = std::min<int64_t>(s.batch, 8), size = s.groups * s.outputs * depth;
  const Scratch sums((shares - 1) * size * static_cast<int64_t>(sizeof(T)), shares > 1);
  const auto sum_of = [&](int64_t share) { return share == 0 ? dw : sums.as<T>() + (share - 1) * size; };
  parallel_for(shares * s.groups * blocks, 1, [&](int64_t first, int64_t last) {
    const Scratch memory(weights * n * static_cast<int64_t>(sizeof(T)), !direct);
    for (int64_t task = first; task < last; ++task) {
      const int64_t share = task / blocks / s.groups, group = task / blocks % s.groups, p = task % blocks * weights;
      const int64_t end = std::min(p + weights, depth);
      T* const to = sum_of(share) + group * s.outputs * depth + p;
      bool adds = false;
      for (int64_t i = s.batch * share / shares; i < s.batch * (share + 1) / shares; ++i) {
        const T* const from = x + (i * s.groups + group) * s.channels * s.in_size();
        const T* const gradient = g + (i * s.groups + group) * s.outputs * positions;
        for (int64_t begin = 0; begin < positions; begin += n, adds = true) {
          const int64_t count = std::min(n, positions - begin);
          Matrix<T> columns{from + p * positions + begin, positions, 1};
          if (!direct) {
            gather_columns(s, from, p, end, begin, begin + count, memory.as<T>(), n);
            columns = {memory.as<T>(), n, 1};
          }
          multiply<T>(s.outputs, end - p, count, {gradient + begin, positions, 1}, columns.transposed(), adds, to,
                      depth);
        }
      }
    }
  });
  for (int64_t share = 1; share < shares; ++share) {
    const T* const part = sum_of(share);
    for (int64_t i = 0; i < size; ++i) dw[i] += part[i];
  }
}

template <class T>
T* data_of(const View& view) {
  return static_cast<T*>(view.data);
}

template <class T>
void convolve(Convolution product, const View& out, const View& a, const View& b, const View& bias,
              const ConvolutionSteps& steps) {
  using enum Convolution;
  const ConvolutionShape s(product == by_data ? out : a, product == by_weight ? out : b,
                           product == forward   ? out
                           : product == by_data ? a
                                                : b,
                           steps);
  if (s.batch == 0 || s.depth() == 0 || s.out_size() == 0 || s.outputs == 0) {
    for (int64_t i = 0; i < out.layout.numel; ++i) {
      data_of<T>(out)[i] = bias.data != nullptr ? data_of<T>(bias)[i / s.out_size() % bias.layout.numel] : T(0);
    }
    return;
  }
  switch (product) {
    case forward:
      return cpu::forward(s, data_of<T>(out), data_of<T>(a), data_of<T>(b), data_of<T>(bias));
    case by_data:
      return cpu::by_data(s, data_of<T>(out), data_of<T>(a), data_of<T>(b));
    case by_weight:
      return cpu::by_weight(s, data_of<T>(out), data_of<T>(a), data_of<T>(b));
  }
}

}  // namespace

void convolution(Convolution product, const View& out, const View& a, const View& b, const View& bias,
                 const ConvolutionSteps& steps) {
  if (out.layout.numel == 0) return;
  if (out.layout.dtype == DType::f64) convolve<double>(product, out, a, b, bias, steps);
  else if (out.layout.dtype == DType::f32) convolve<float>(product, out, a, b, bias, steps);
  else unsupported("convolution", out);
}

}  // namespace weft::cpu
