// Convolutions with few channels, which do not fill the blocks of other kernels. A band of lines is copied with its
// padding, and the taps read that copy in place. Positions include the gaps between lines, so that neighbours are
// contiguous; results in the gaps are dropped.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/convolution/few_channels.cpp"
#include <hwy/foreach_target.h>
#include "../simd/blocks-inl.hpp"

#include <algorithm>
#include <cmath>

#include "../thread_pool.hpp"
#include "../workspace.hpp"
#include "few_channels.hpp"

#ifndef WEFT_CPU_FEW_CHANNELS_ONCE
#define WEFT_CPU_FEW_CHANNELS_ONCE
namespace weft::cpu {
namespace {

/// Room behind a copy, so that whole registers may be read there.
constexpr int64_t slack = 64;
/// Positions of a band: its sums stay in the nearest cache.
constexpr int64_t most_positions = 512;

/// The layout of the padded lines under `rows` lines of outputs. Every stride-th line and column forms a separate
/// phase: the inputs of one tap for neighbouring outputs are contiguous.
struct Band {
  const ConvolutionShape& s;
  int64_t width;  ///< of a line of a phase; outputs are so far apart, too
  int64_t rows, lines, count;

  explicit Band(const ConvolutionShape& shape) : s(shape) {
    const auto span = [&](int d) { return (s.kernel[d] - 1) * s.steps.dilation[d] / s.steps.stride[d]; };
    width = s.out[2] + span(2);
    const int64_t most = std::clamp<int64_t>(most_positions / width, 1, s.out[1]);
    count = (s.out[1] + most - 1) / most;
    rows = (s.out[1] + count - 1) / count;
    lines = rows + span(1);
  }
  int64_t phase() const { return lines * width; }
  int64_t plane() const { return s.steps.stride[1] * s.steps.stride[2] * phase(); }
  int64_t positions() const { return rows * width; }
  /// Lines of band number i.
  int64_t rows_of(int64_t i) const { return std::min(rows, s.out[1] - i * rows); }

  /// The place of a line and a column of the padded input, counted from the first under the band.
  int64_t at(int64_t line, int64_t column) const {
    const auto& stride = s.steps.stride;
    return (line % stride[1] * stride[2] + column % stride[2]) * phase() + line / stride[1] * width +
           column / stride[2];
  }
  /// The line of the input, or of its padding, under the first of band number i.
  int64_t first_line(int64_t i) const { return i * rows * s.steps.stride[1] - s.steps.padding[1]; }
  /// Of the taps along a column those that meet the input, from one of the lines of outputs [first, last] of band i.
  std::pair<int64_t, int64_t> taps_inside(int64_t i, int64_t first, int64_t last) const {
    const int64_t dilation = s.steps.dilation[1], low = first_line(i) + first * s.steps.stride[1];
    const int64_t high = first_line(i) + last * s.steps.stride[1];
    const int64_t begin = high >= 0 ? 0 : std::min((-high + dilation - 1) / dilation, s.kernel[1]);
    const int64_t left = (s.in[1] - low + dilation - 1) / dilation;
    return {begin, std::clamp(left, begin, s.kernel[1])};
  }
  /// The place under each weight of the first output.
  void find_taps(int64_t* to) const {
    for (int64_t c = 0; c < s.channels; ++c) {
      for (int64_t i = 0; i < s.kernel[1]; ++i) {
        for (int64_t j = 0; j < s.kernel[2]; ++j) {
          *to++ = c * plane() + at(i * s.steps.dilation[1], j * s.steps.dilation[2]);
        }
      }
    }
  }
};

/// Where the weights of a convolution are, by strides.
struct Weights {
  const float* first;
  int64_t group, output, channel, tap;
};

}  // namespace
}  // namespace weft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(D()));

// Outputs of a block of sums, and weights of one of gradients: as many as registers hold.
#if HWY_TARGET <= HWY_AVX3
constexpr int most_outputs = 12, gradient_outputs = 6, gradient_taps = 4;
#else
constexpr int most_outputs = 6, gradient_outputs = 3, gradient_taps = 3;
#endif

/// memcpy of a short line, without a call.
HWY_INLINE void copy_line(const float* from, int64_t n, float* to) {
  const D d;
  if (n < lanes) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i + lanes < n; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  hn::StoreU(hn::LoadU(d, from + n - lanes), d, to + n - lanes);
}

/// Copies the lines of all channels under band number i, with zeros for padding.
void fill_lines(const Band& band, int64_t i, const float* x, float* to) {
  const ConvolutionShape& s = band.s;
  const auto &stride = s.steps.stride, &padding = s.steps.padding;
  const int64_t columns = std::min(s.in[2], s.reach(2) - padding[2]), first = band.first_line(i);
  const int64_t begin = std::max<int64_t>(first, 0), end = std::min(s.in[1], first + band.lines * stride[1]);
  std::fill_n(to, s.channels * band.plane() + slack, 0.0f);
  for (int64_t c = 0; c < s.channels; ++c, x += s.in_size(), to += band.plane()) {
    for (int64_t line = begin; line < end; ++line) {
      const float* const from = x + line * s.in[2];
      for (int64_t phase = 0; phase < stride[2]; ++phase) {
        float* element = to + band.at(line - first, padding[2] + phase);
        if (stride[2] == 1) copy_line(from, columns, element);
        else {
          for (int64_t j = phase; j < columns; j += stride[2]) *element++ = from[j];
        }
      }
    }
  }
}

/// Copies the outputs of band number i, each `size` numbers and as far apart as positions are, with zeros between.
void fill_outputs(const Band& band, int64_t i, const float* y, float* to, int64_t size) {
  const ConvolutionShape& s = band.s;
  std::fill_n(to, s.outputs * size, 0.0f);
  for (int64_t o = 0; o < s.outputs; ++o, y += s.out_size(), to += size) {
    const float* from = y + i * band.rows * s.out[2];
    for (int64_t row = 0; row < band.rows_of(i); ++row, from += s.out[2])
      copy_line(from, s.out[2], to + row * band.width);
  }
}

/// The weights of every channel that count: those outside meet nothing but padding.
struct Part {
  int64_t channels, taps, begin, end;
};

/// Outputs at some registers of positions: to[o][p] = bias[o] + sum over k of w[k][o] x[at[k] + p].
template <int outputs, int vectors>
HWY_INLINE void sum_block(const Part& part, const int64_t* at, const float* w, const float* bias, const float* x,
                          float* to, int64_t apart) {
  const D d;
  V sum[outputs][vectors];
#pragma GCC unroll 16
  for (int o = 0; o < outputs; ++o) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) sum[o][v] = hn::Set(d, bias[o]);
  }
  for (int64_t c = 0; c < part.channels; ++c) {
    for (int64_t k = c * part.taps + part.begin; k < c * part.taps + part.end; ++k) {
      V right[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) right[v] = hn::LoadU(d, x + at[k] + v * lanes);
#pragma GCC unroll 16
      for (int o = 0; o < outputs; ++o) {
        const V left = hn::Set(d, w[k * outputs + o]);
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) sum[o][v] = hn::MulAdd(left, right[v], sum[o][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int o = 0; o < outputs; ++o) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) hn::StoreU(sum[o][v], d, to + o * apart + v * lanes);
  }
}

template <int outputs>
HWY_NOINLINE void sum_positions(const Band& band, int64_t i, const int64_t* at, const float* w, const float* bias,
                                const float* x, float* to, int64_t apart) {
  const ConvolutionShape& s = band.s;
  const int64_t n = (band.rows_of(i) - 1) * band.width + s.out[2];
  for (int64_t p = 0; p < n;) {
    const int64_t count = p + lanes < n ? 2 * lanes : lanes;
    const auto [begin, end] = band.taps_inside(i, p / band.width, (p + count - 1) / band.width);
    const Part part{s.channels, s.taps(), begin * s.kernel[2], end * s.kernel[2]};
    if (count > lanes) sum_block<outputs, 2>(part, at, w, bias, x + p, to + p, apart);
    else sum_block<outputs, 1>(part, at, w, bias, x + p, to + p, apart);
    p += count;
  }
}

/// to[k][o] for each block of outputs.
void pack_weights(const ConvolutionShape& s, const Weights& from, float* to) {
  const int64_t taps = s.taps();
  for (int64_t group = 0; group < s.groups; ++group) {
    for_blocks(s.outputs, most_outputs, [&](int64_t begin, int64_t count) {
      for (int64_t k = 0; k < s.depth(); ++k) {
        const float* const w = from.first + group * from.group + k / taps * from.channel + k % taps * from.tap;
        for (int64_t o = begin; o < begin + count; ++o) *to++ = w[o * from.output];
      }
    });
  }
}

/// `w` as pack_weights leaves them.
void run_forward(const ConvolutionShape& s, const Band& band, const int64_t* at, float* y, const float* x,
                 const float* w, const float* bias) {
  const int64_t depth = s.depth(), apart = (band.positions() + 2 * lanes - 1) / lanes * lanes;
  parallel_for(s.batch * s.groups * band.count, 1, [&](int64_t first, int64_t last) {
    const Workspace memory(static_cast<size_t>(s.channels * band.plane() + slack + most_outputs * apart) *
                           sizeof(float));
    float* const lines = memory.as<float>();
    float* const sums = lines + s.channels * band.plane() + slack;
    for (int64_t task = first; task < last; ++task) {
      const int64_t image = task / band.count, i = task % band.count, group = image % s.groups;
      const int64_t rows = band.rows_of(i);
      fill_lines(band, i, x + image * s.channels * s.in_size(), lines);
      for_blocks(s.outputs, most_outputs, [&](int64_t begin, int64_t count) {
        const int64_t o = group * s.outputs + begin;
        with_count<most_outputs>(count, [&](auto outputs) {
          float zeros[most_outputs] = {};
          sum_positions<outputs>(band, i, at, w + o * depth, bias != nullptr ? bias + o : zeros, lines, sums, apart);
        });
        float* const to = y + (image * s.outputs + begin) * s.out_size() + i * band.rows * s.out[2];
        for (int64_t k = 0; k < count; ++k) {
          for (int64_t row = 0; row < rows; ++row) {
            copy_line(sums + k * apart + row * band.width, s.out[2], to + k * s.out_size() + row * s.out[2]);
          }
        }
      });
    }
  });
}

/// Of some bands side by side: dw[o][k] += sum over p of g[o][p] x[at[k] + p].
template <int outputs, int taps>
HWY_INLINE void gradient_block(int64_t bands, int64_t n, const int64_t* at, const float* x, int64_t x_apart,
                               const float* g, int64_t g_apart, double* dw, int64_t depth) {
  const D d;
  V sum[outputs][taps];
#pragma GCC unroll 8
  for (int o = 0; o < outputs; ++o) {
#pragma GCC unroll 8
    for (int k = 0; k < taps; ++k) sum[o][k] = hn::Zero(d);
  }
  const float* under[taps];
#pragma GCC unroll 8
  for (int k = 0; k < taps; ++k) under[k] = x + at[k];
  for (int64_t band = 0; band < bands; ++band, g += g_apart) {
    for (int64_t p = 0; p < n; p += lanes) {
      V left[outputs];
#pragma GCC unroll 8
      for (int o = 0; o < outputs; ++o) left[o] = hn::LoadU(d, g + o * n + p);
#pragma GCC unroll 8
      for (int k = 0; k < taps; ++k) {
        const V right = hn::LoadU(d, under[k] + p);
#pragma GCC unroll 8
        for (int o = 0; o < outputs; ++o) sum[o][k] = hn::MulAdd(left[o], right, sum[o][k]);
      }
    }
#pragma GCC unroll 8
    for (int k = 0; k < taps; ++k) under[k] += x_apart;
  }
#pragma GCC unroll 8
  for (int o = 0; o < outputs; ++o) {
#pragma GCC unroll 8
    for (int k = 0; k < taps; ++k) {
      dw[o * depth + k] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum[o][k])));
    }
  }
}

/// sums[share][weight], of all bands of a share.
void run_gradient(const ConvolutionShape& s, const Band& band, const int64_t* at, double* sums, int64_t shares,
                  const float* x, const float* g) {
  const int64_t depth = s.depth(), n = (band.positions() + lanes - 1) / lanes * lanes;
  const int64_t x_apart = s.channels * band.plane() + slack, g_apart = s.outputs * n, all = s.batch * band.count;
  constexpr int64_t most_numbers = 48 * 1024;  // copied at once
  const int64_t together = std::clamp<int64_t>(most_numbers / (x_apart + g_apart), 1, (all + shares - 1) / shares);
  parallel_for(shares * s.groups, 1, [&](int64_t first, int64_t last) {
    const Workspace memory(static_cast<size_t>(together * (x_apart + g_apart)) * sizeof(float));
    float* const lines = memory.as<float>();
    float* const outputs = lines + together * x_apart;
    for (int64_t task = first; task < last; ++task) {
      const int64_t share = task / s.groups, group = task % s.groups, end = all * (share + 1) / shares;
      double* const dw = sums + (share * s.groups + group) * s.outputs * depth;
      std::fill_n(dw, s.outputs * depth, 0.0);
      for (int64_t from = all * share / shares; from < end; from += together) {
        const int64_t bands = std::min(together, end - from);
        for (int64_t k = 0; k < bands; ++k) {
          const int64_t image = (from + k) / band.count * s.groups + group, i = (from + k) % band.count;
          fill_lines(band, i, x + image * s.channels * s.in_size(), lines + k * x_apart);
          fill_outputs(band, i, g + image * s.outputs * s.out_size(), outputs + k * g_apart, n);
        }
        for_blocks(s.outputs, gradient_outputs, [&](int64_t o, int64_t rows) {
          for_blocks(depth, gradient_taps, [&](int64_t k, int64_t columns) {
            with_count<gradient_outputs>(rows, [&](auto some) {
              with_count<gradient_taps>(columns, [&](auto taps) {
                gradient_block<some, taps>(bands, n, at + k, lines, x_apart, outputs + o * n, g_apart,
                                           dw + o * depth + k, depth);
              });
            });
          });
        });
      }
    }
  });
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(run_forward);
HWY_EXPORT(run_gradient);
HWY_EXPORT(pack_weights);

namespace {

void forward(const ConvolutionShape& s, float* y, const float* x, const float* bias, const Weights& w) {
  const Band band(s);
  const int64_t weights = s.groups * s.outputs * s.depth();
  const Workspace memory(static_cast<size_t>(s.depth()) * sizeof(int64_t) +
                         static_cast<size_t>(weights) * sizeof(float));
  int64_t* const at = memory.as<int64_t>();
  float* const packed = reinterpret_cast<float*>(at + s.depth());
  band.find_taps(at);
  HWY_DYNAMIC_DISPATCH(pack_weights)(s, w, packed);
  HWY_DYNAMIC_DISPATCH(run_forward)(s, band, at, y, x, packed, bias);
}

/// The gradient of the data as a convolution of the output gradient: with flipped weights, and with the padding
/// cropped.
ConvolutionShape turned(const ConvolutionShape& s) {
  ConvolutionShape t = s;
  std::swap(t.channels, t.outputs);
  std::swap(t.in, t.out);
  for (int d = 0; d < 3; ++d) t.steps.padding[d] = (s.kernel[d] - 1) * s.steps.dilation[d] - s.steps.padding[d];
  return t;
}

bool by_weight(const ConvolutionShape& s, float* dw, const float* x, const float* g) {
  const Band band(s);
  const int64_t weights = s.groups * s.outputs * s.depth(), shares = std::min<int64_t>(s.batch * band.count, 8);
  const Workspace memory(static_cast<size_t>(s.depth()) * sizeof(int64_t) +
                         static_cast<size_t>(shares * weights) * sizeof(double));
  int64_t* const at = memory.as<int64_t>();
  double* const sums = reinterpret_cast<double*>(at + s.depth());
  band.find_taps(at);
  HWY_DYNAMIC_DISPATCH(run_gradient)(s, band, at, sums, shares, x, g);
  bool finite = true;
  for (int64_t i = 0; i < weights; ++i) {
    for (int64_t share = 1; share < shares; ++share) sums[i] += sums[share * weights + i];
    finite = finite && std::isfinite(sums[i]);
  }
  // A zero between lines times an infinity is no zero.
  if (!finite) return false;
  std::transform(sums, sums + weights, dw, [](double sum) { return static_cast<float>(sum); });
  return true;
}

bool fits(const ConvolutionShape& s) {
  if (s.in[0] != 1 || s.kernel[0] != 1 || s.steps.padding[0] != 0 || s.taps() == 1) return false;
  for (int d = 0; d < 3; ++d) {
    if (s.steps.padding[d] < 0 || s.steps.stride[d] > 4 || s.reach(d) > 65536) return false;
  }
  const Band band(s);
  return s.channels * band.plane() <= 1 << 17 && band.positions() <= 16 * most_positions &&
         band.plane() <= 4 * std::max(band.positions(), most_positions);
}

/// Where this is faster than blocks of channels and than columns, as measured.
bool is_worthwhile(Convolution product, const ConvolutionShape& s) {
  switch (product) {
    case Convolution::forward:
      return s.outputs < 8 || s.channels < 3 || (s.channels == 3 && s.outputs <= 64 && s.out[2] <= 128) ||
             (s.outputs == 8 && s.out[2] > 8);
    case Convolution::by_data:
      return s.outputs <= 8 || (s.channels >= 6 && s.channels <= 8);
    case Convolution::by_weight:
      return s.outputs <= 8 || (s.outputs <= 16 && s.channels >= 6);
  }
  return false;
}

}  // namespace

bool few_channels(Convolution product, const ConvolutionShape& s, float* out, const float* a, const float* b,
                  const float* bias) {
  if (is_depthwise(s) || !is_worthwhile(product, s)) return false;
  const int64_t taps = s.taps(), depth = s.depth(), group = s.outputs * depth;
  if (product == Convolution::by_weight) return fits(s) && by_weight(s, out, a, b);
  if (!std::all_of(b, b + s.groups * group, [](float w) { return std::isfinite(w); })) return false;
  if (product == Convolution::forward) {
    if (!fits(s)) return false;
    forward(s, out, a, bias, {b, group, depth, taps, 1});
    return true;
  }
  const ConvolutionShape t = turned(s);
  if (s.steps.stride[1] != 1 || s.steps.stride[2] != 1 || !fits(t)) return false;
  forward(t, out, a, nullptr, {b + taps - 1, group, taps, depth, -1});
  return true;
}

}  // namespace weft::cpu
#endif
