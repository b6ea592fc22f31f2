// Convolutions as matrix products: the elements under each weight are copied into columns, in blocks that fit the cache
// (Chellapilla, Puri, Simard 2006).
#include <algorithm>
#include <type_traits>

#include "../kernels.hpp"
#include "../lines.hpp"
#include "../matmul/gemm.hpp"
#include "../pointwise/loops.hpp"
#include "../thread_pool.hpp"
#include "few_channels.hpp"
#include "onednn_convolution.hpp"
#include "shape.hpp"

namespace weft::cpu {
namespace {

/// Positions of the result in one block, and about as many weights: their columns stay in the cache.
constexpr int64_t most_positions = 128, most_weights = 384;

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Splits n into equal blocks of at most `most`, multiples of 16 but for the last.
int64_t block_of(int64_t n, int64_t most) { return std::min(n, (divided_up(n, divided_up(n, most)) + 15) / 16 * 16); }

/// A run of results along the last dimension, under one tap: `at` is its position in the block. The outputs [begin,
/// end) of [first, last) read data, the first of them element `under` of a channel.
struct Run {
  int64_t tap, at, under, first, begin, end, last;
};

/// Calls f(run) for the runs that make up the outputs [from, to), under every tap.
template <class F>
void for_runs(const ConvolutionShape& s, int64_t from, int64_t to, F&& f) {
  int64_t tap = 0;
  for (int64_t k0 = 0; k0 < s.kernel[0]; ++k0) {
    for (int64_t k1 = 0; k1 < s.kernel[1]; ++k1) {
      for (int64_t k2 = 0; k2 < s.kernel[2]; ++k2, ++tap) {
        const auto inside = s.inside(2, k2, 0, s.out[2]);
        int64_t line = from / s.out[2], first = from % s.out[2], o0 = line / s.out[1], o1 = line % s.out[1];
        for (int64_t position = from; position < to; first = 0) {
          const int64_t last = std::min(s.out[2], first + to - position);
          const int64_t i0 = s.under(0, o0, k0), i1 = s.under(1, o1, k1);
          const bool there = i0 >= 0 && i0 < s.in[0] && i1 >= 0 && i1 < s.in[1];
          const int64_t begin = there ? std::clamp(inside.begin, first, last) : last;
          const int64_t end = there ? std::clamp(inside.end, begin, last) : last;
          const int64_t under = begin < end ? (i0 * s.in[1] + i1) * s.in[2] + s.under(2, begin, k2) : 0;
          f(Run{tap, position - from, under, first, begin, end, last});
          position += last - first;
          if (++o1 == s.out[1]) o1 = 0, ++o0;
        }
      }
    }
  }
}

/// columns[(channel, tap)][position - from] = the input under it, for `channels` channels from x on.
template <class T>
void gather_columns(const ConvolutionShape& s, const T* x, int64_t channels, int64_t from, int64_t to, T* columns,
                    int64_t row) {
  const int64_t size = s.in_size(), stride = s.steps.stride[2], apart = s.taps() * row;
  for_runs(s, from, to, [&](const Run& run) {
    T* out = columns + run.tap * row + run.at - run.first;
    const T* in = x + run.under;
    const int64_t count = run.end - run.begin;
    for (int64_t c = 0; c < channels; ++c, out += apart, in += size) {
      for (int64_t o = run.first; o < run.begin; ++o) out[o] = T(0);
      T* const to_run = out + run.begin;
      if (stride == 1) {
        for (int64_t i = 0; i < count; ++i) to_run[i] = in[i];
      } else {
        for (int64_t i = 0; i < count; ++i) to_run[i] = in[i * stride];
      }
      for (int64_t o = run.end; o < run.last; ++o) out[o] = T(0);
    }
  });
}

/// The inverse: adds the columns to the input's gradient.
template <class T>
void scatter_columns(const ConvolutionShape& s, const T* columns, int64_t row, int64_t channels, int64_t from,
                     int64_t to, T* dx) {
  const int64_t size = s.in_size(), stride = s.steps.stride[2], apart = s.taps() * row;
  for_runs(s, from, to, [&](const Run& run) {
    const T* in = columns + run.tap * row + run.at - run.first + run.begin;
    T* out = dx + run.under;
    const int64_t count = run.end - run.begin;
    for (int64_t c = 0; c < channels; ++c, in += apart, out += size) {
      if (stride == 1) {
        for (int64_t i = 0; i < count; ++i) out[i] += in[i];
      } else {
        for (int64_t i = 0; i < count; ++i) out[i * stride] += in[i];
      }
    }
  });
}

/// c += a b, or c = a b where it is the first part; rows of a and b have unit stride.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool adds, T* c, int64_t row) {
  const Addend<T> start = adds ? Addend<T>{c, row} : Addend<T>{};
  // Columns are read in place, except for weights with rows that would evict each other from the cache.
  if (m > 1 && n > 1 && a.row * static_cast<int64_t>(sizeof(T)) % 4096 != 0) {
    panels_gemm(m, n, k, a, Panels<T>{b.data, 1, b.row}, start, c, row);
  } else {
    native_gemm(m, n, k, a, b, start, c, row);
  }
}

/// The number of channels with columns in memory at the same time.
int64_t channels_at_once(const ConvolutionShape& s) {
  const int64_t most = std::max<int64_t>(1, most_weights / s.taps());
  return divided_up(s.channels, divided_up(s.channels, most));
}

/// to[j * rows + i] = from[i * row + j]
template <class T>
void transpose(int64_t rows, int64_t columns, const T* from, int64_t row, T* to) {
  constexpr int64_t item = sizeof(T);
  convert_loops.transpose[item == 8 ? 3 : 2](reinterpret_cast<char*>(to), rows * item,
                                             reinterpret_cast<const char*>(from), row * item, columns, rows);
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
  const int64_t taps = s.taps(), depth = s.depth(), positions = s.out_size(), n = block_of(positions, most_positions);
  const int64_t channels = channels_at_once(s), blocks = divided_up(positions, n);
  const bool direct = is_product(s);
  parallel_for(s.batch * s.groups * blocks, 1, [&](int64_t first, int64_t last) {
    const Scratch memory(channels * taps * n * static_cast<int64_t>(sizeof(T)), !direct);
    for (int64_t task = first; task < last; ++task) {
      const int64_t group = task / blocks, g = group % s.groups, begin = task % blocks * n;
      const int64_t count = std::min(n, positions - begin);
      T* const to = y + group * s.outputs * positions + begin;
      for (int64_t o = 0; bias != nullptr && o < s.outputs; ++o) {
        std::fill_n(to + o * positions, count, bias[g * s.outputs + o]);
      }
      for (int64_t c = 0; c < s.channels; c += channels) {
        const int64_t some = std::min(channels, s.channels - c);
        const T* const from = x + (group * s.channels + c) * s.in_size();
        Matrix<T> columns{from + begin, positions, 1};
        if (!direct) {
          gather_columns(s, from, some, begin, begin + count, memory.as<T>(), n);
          columns = {memory.as<T>(), n, 1};
        }
        multiply<T>(s.outputs, count, some * taps, {w + g * s.outputs * depth + c * taps, depth, 1}, columns,
                    c > 0 || bias != nullptr, to, positions);
      }
    }
  });
}

template <class T>
void by_data(const ConvolutionShape& s, T* dx, const T* g, const T* w) {
  const int64_t taps = s.taps(), depth = s.depth(), positions = s.out_size(), n = block_of(positions, most_positions);
  // Whole channels, so that no two tasks add to one element.
  const int64_t channels = channels_at_once(s), parts = divided_up(s.channels, channels);
  const bool direct = is_product(s);
  const Scratch turned(s.groups * s.outputs * depth * static_cast<int64_t>(sizeof(T)));
  for (int64_t group = 0; group < s.groups; ++group) {
    const int64_t at = group * s.outputs * depth;
    transpose(s.outputs, depth, w + at, depth, turned.as<T>() + at);
  }
  parallel_for(s.batch * s.groups * parts, 1, [&](int64_t first, int64_t last) {
    const Scratch memory(channels * taps * n * static_cast<int64_t>(sizeof(T)), !direct);
    for (int64_t task = first; task < last; ++task) {
      const int64_t group = task / parts, c = task % parts * channels, some = std::min(channels, s.channels - c);
      const Matrix<T> weights{turned.as<T>() + (group % s.groups * depth + c * taps) * s.outputs, s.outputs, 1};
      T* const to = dx + (group * s.channels + c) * s.in_size();
      if (!direct) std::fill_n(to, some * s.in_size(), T(0));
      for (int64_t begin = 0; begin < positions; begin += n) {
        const int64_t count = std::min(n, positions - begin);
        const Matrix<T> gradient{g + group * s.outputs * positions + begin, positions, 1};
        if (direct) {
          multiply<T>(some, count, s.outputs, weights, gradient, false, to + begin, positions);
          continue;
        }
        multiply<T>(some * taps, count, s.outputs, weights, gradient, false, memory.as<T>(), n);
        scatter_columns(s, memory.as<T>(), n, some, begin, begin + count, to);
      }
    }
  });
}

template <class T>
void by_weight(const ConvolutionShape& s, T* dw, const T* x, const T* g) {
  const int64_t taps = s.taps(), depth = s.depth(), positions = s.out_size(), n = block_of(positions, most_positions);
  const int64_t channels = channels_at_once(s), parts = divided_up(s.channels, channels);
  const bool direct = is_product(s);
  // Each share of the batch has its own sum, transposed; the sums are added in a fixed order.
  const int64_t shares = std::min<int64_t>(s.batch, 8), size = s.groups * s.outputs * depth;
  const Scratch sums(shares * size * static_cast<int64_t>(sizeof(T)));
  parallel_for(shares * s.groups * parts, 1, [&](int64_t first, int64_t last) {
    const Scratch memory((channels * taps + s.outputs) * n * static_cast<int64_t>(sizeof(T)));
    T* const turned = memory.as<T>() + channels * taps * n;
    for (int64_t task = first; task < last; ++task) {
      const int64_t share = task / parts / s.groups, group = task / parts % s.groups, c = task % parts * channels;
      const int64_t some = std::min(channels, s.channels - c);
      T* const to = sums.as<T>() + share * size + (group * depth + c * taps) * s.outputs;
      bool adds = false;
      for (int64_t i = s.batch * share / shares; i < s.batch * (share + 1) / shares; ++i) {
        const T* const from = x + ((i * s.groups + group) * s.channels + c) * s.in_size();
        const T* const gradient = g + (i * s.groups + group) * s.outputs * positions;
        for (int64_t begin = 0; begin < positions; begin += n, adds = true) {
          const int64_t count = std::min(n, positions - begin);
          transpose(s.outputs, count, gradient + begin, positions, turned);
          Matrix<T> columns{from + begin, positions, 1};
          if (!direct) {
            gather_columns(s, from, some, begin, begin + count, memory.as<T>(), n);
            columns = {memory.as<T>(), n, 1};
          }
          multiply<T>(some * taps, s.outputs, count, columns, {turned, s.outputs, 1}, adds, to, s.outputs);
        }
      }
    }
  });
  for (int64_t share = 1; share < shares; ++share) {
    T* const total = sums.as<T>();
    const T* const part = total + share * size;
    for (int64_t i = 0; i < size; ++i) total[i] += part[i];
  }
  for (int64_t group = 0; group < s.groups; ++group) {
    const int64_t at = group * s.outputs * depth;
    transpose(depth, s.outputs, sums.as<T>() + at, s.outputs, dw + at);
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
  if constexpr (std::is_same_v<T, float>) {
    const bool own = is_product(s);
    if (!own && few_channels(product, s, data_of<T>(out), data_of<T>(a), data_of<T>(b), data_of<T>(bias))) return;
    if (!own && onednn_convolution(product, s, data_of<T>(out), data_of<T>(a), data_of<T>(b), data_of<T>(bias))) return;
  }
  if (is_depthwise(s)) {
    return depthwise(product, s, data_of<T>(out), data_of<T>(a), data_of<T>(b), data_of<T>(bias));
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
