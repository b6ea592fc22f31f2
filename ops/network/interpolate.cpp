// Interpolation is a sparse matrix along each dimension: a table of elements and weights that the kernel `resample`
// applies. The gradient is the same kernel with the transposed table, to any order.
#include "../interpolate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/numbers.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../detail/windows.hpp"
#include "../index.hpp"
#include "../pointwise.hpp"
#include "../pool.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

using enum Interpolation;

// Of each element of the result along one dimension, the elements it is made of and their weights: tap after tap.
struct Taps {
  std::vector<std::vector<int64_t>> at;
  std::vector<std::vector<double>> weight;  // none: one tap of weight 1

  void resize(size_t count, int64_t size) {
    at.assign(count, std::vector<int64_t>(static_cast<size_t>(size), 0));
    weight.assign(count, std::vector<double>(static_cast<size_t>(size), 0));
  }
};

// Sizes along one dimension, and elements of the input for one of the result.
struct Line {
  int64_t from, to;
  double scale;
  bool align_corners;

  // The input coordinate of element i of the result.
  double place(int64_t i) const {
    const auto at = static_cast<double>(i);
    return align_corners ? scale * at : scale * (at + 0.5) - 0.5;
  }
};

// As PyTorch computes it: in f32 unless the tensor is f64, and then rounded to f32.
template <class T>
int64_t nearest_place(const Line& line, int64_t i, bool exact) {
  const T scale = static_cast<T>(line.scale), at = static_cast<T>(i);
  const T place = exact ? std::max(scale * (at + T(0.5)) - T(0.5), T(0)) + T(0.5) : scale * at;
  return std::min(static_cast<int64_t>(std::floor(static_cast<float>(place))), line.from - 1);
}

Taps nearest_taps(const Line& line, bool exact, bool wide) {
  Taps taps;
  taps.resize(1, line.to);
  taps.weight.clear();
  for (int64_t i = 0; i < line.to; ++i) {
    taps.at[0][static_cast<size_t>(i)] =
        wide ? nearest_place<double>(line, i, exact) : nearest_place<float>(line, i, exact);
  }
  return taps;
}

Taps linear_taps(const Line& line) {
  Taps taps;
  taps.resize(2, line.to);
  for (int64_t i = 0; i < line.to; ++i) {
    const auto o = static_cast<size_t>(i);
    const double place = std::max(line.place(i), 0.0);
    const int64_t low = std::min(static_cast<int64_t>(place), line.from - 1);
    const double rest = std::clamp(place - static_cast<double>(low), 0.0, 1.0);
    taps.at[0][o] = low;
    taps.at[1][o] = std::min(low + 1, line.from - 1);
    taps.weight[0][o] = 1 - rest;
    taps.weight[1][o] = rest;
  }
  return taps;
}

double cubic_filter(double x, double a) {
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

Taps cubic_taps(const Line& line) {
  Taps taps;
  taps.resize(4, line.to);
  for (int64_t i = 0; i < line.to; ++i) {
    const double place = line.place(i), low = std::floor(place), rest = place - low;
    for (int64_t k = 0; k < 4; ++k) {
      taps.at[static_cast<size_t>(k)][static_cast<size_t>(i)] =
          std::clamp<int64_t>(static_cast<int64_t>(low) + k - 1, 0, line.from - 1);
      taps.weight[static_cast<size_t>(k)][static_cast<size_t>(i)] =
          cubic_filter(rest + 1 - static_cast<double>(k), -0.75);
    }
  }
  return taps;
}

// The filter as wide as the elements of the result; weights outside x go to the others.
Taps smooth_taps(const Line& line, bool cubic) {
  const double widening = std::max(line.scale, 1.0), support = (cubic ? 2 : 1) * widening;
  const auto tap_count = static_cast<int64_t>(std::min(std::ceil(support) * 2 + 1, static_cast<double>(line.from)));
  Taps taps;
  taps.resize(static_cast<size_t>(tap_count), line.to);
  for (int64_t i = 0; i < line.to; ++i) {
    const auto o = static_cast<size_t>(i);
    const double centre = line.scale * (static_cast<double>(i) + 0.5);
    const auto bound = [&](double x) {
      return static_cast<int64_t>(std::clamp(x + 0.5, 0.0, static_cast<double>(line.from)));
    };
    const int64_t begin = std::min(bound(centre - support), line.from - 1), end = bound(centre + support);
    double total = 0;
    for (int64_t k = 0; k < tap_count; ++k) {
      const auto t = static_cast<size_t>(k);
      taps.at[t][o] = begin + k < end ? begin + k : begin;
      if (begin + k >= end) continue;
      const double distance = (static_cast<double>(begin + k) - centre + 0.5) / widening;
      taps.weight[t][o] = cubic ? cubic_filter(distance, -0.5) : std::max(1 - std::fabs(distance), 0.0);
      total += taps.weight[t][o];
    }
    for (auto& weights : taps.weight) weights[o] = total != 0 ? weights[o] / total : 0;
  }
  return taps;
}

// Of each element of x, the elements of the result that it is part of; -1 where there are no more.
Taps adjoint_of(const Taps& taps, int64_t from) {
  const auto size = static_cast<size_t>(from);
  std::vector<size_t> counts(size, 0);
  for (const auto& line : taps.at) {
    for (const int64_t i : line) {
      if (i >= 0) ++counts[static_cast<size_t>(i)];
    }
  }
  Taps out;
  out.resize(*std::ranges::max_element(counts), from);
  for (auto& line : out.at) std::ranges::fill(line, -1);
  std::ranges::fill(counts, 0);
  for (size_t t = 0; t < taps.at.size(); ++t) {
    for (size_t o = 0; o < taps.at[t].size(); ++o) {
      if (taps.at[t][o] < 0) continue;
      const auto i = static_cast<size_t>(taps.at[t][o]);
      out.at[counts[i]][i] = static_cast<int64_t>(o);
      out.weight[counts[i]++][i] = taps.weight[t][o];
    }
  }
  return out;
}

Tensor resampled(const Tensor& x, int dim, const Taps& taps);

struct ResampleBackward {
  Taps taps;
  int64_t from;
  int dim;
  Tensor operator()(Tensor&& g) { return resampled(g, dim, adjoint_of(taps, from)); }
};

template <class T>
Tensor table_of(const auto& lines, DType dtype) {
  std::vector<T> all;
  for (const auto& line : lines) {
    for (const auto number : line) all.push_back(static_cast<T>(number));
  }
  return tensor(all, dtype).reshape({std::ssize(lines), -1});
}

// By one kernel; x is f32 or f64.
Tensor resampled(const Tensor& operand, int dim, const Taps& taps) {
  const Tensor x = operand.contiguous();
  const bool wide = x.dtype() == DType::f64;
  Dims shape = x.shape();
  const int64_t from = shape[dim];
  shape[dim] = std::ssize(taps.at[0]);
  const Tensor out = make(shape, x.dtype(), x.device());
  const Tensor places = wide ? table_of<int64_t>(taps.at, DType::i64) : table_of<int32_t>(taps.at, DType::i32);
  const Tensor at = places.to(x.device()), weights = table_of<double>(taps.weight, x.dtype()).to(x.device());
  WEFT_KERNEL(resample, x)(out.raw_view(), x.raw_view(), at.raw_view(), weights.raw_view(), dim);
  if (should_record(x)) record(out, ResampleBackward{taps, from, dim}, x);
  return out;
}

bool has_kernel(const Tensor& x) {
  return kernels(x.raw_view()).resample != nullptr && x.numel() <= std::numeric_limits<int32_t>::max();
}

Tensor sampled(const Tensor& x, int dim, const Taps& taps) {
  if (!taps.weight.empty() && has_kernel(x)) return resampled(x, dim, taps);
  Tensor sum;
  for (size_t t = 0; t < taps.at.size(); ++t) {
    const auto part = [&] { return index_select(x, dim, tensor(taps.at[t]).to(x.device())); };
    if (taps.weight.empty()) return part();
    Dims shape = Dims::filled(x.dim(), 1);
    shape[dim] = static_cast<int64_t>(taps.at[t].size());
    const Tensor weight = tensor(taps.weight[t], x.dtype()).to(x.device()).reshape(shape);
    sum = sum.defined() ? addcmul(sum, part(), weight) : part() * weight;
  }
  return sum;
}

// ---- options --------------------------------------------------------------------------------------------------------

[[noreturn]] void refuse(const std::string& problem) { raise<ValueError>({.problem = problem}); }

void check_options(const Tensor& x, const InterpolateOptions& o) {
  const int rank = x.dim() - 2;
  const bool plain = o.mode == nearest || o.mode == nearest_exact || o.mode == area;
  const bool fits = plain ? rank >= 1 && rank <= 3 : rank == (o.mode == linear ? 1 : o.mode == trilinear ? 3 : 2);
  if (WEFT_UNLIKELY(!fits)) {
    raise<ShapeError>({.problem = fmt::format("x of shape {} has the wrong rank for the mode", x.shape().text()),
                       .remedy = "[N, C, L] is for linear, [N, C, H, W] for bilinear and bicubic, [N, C, D, H, W] for "
                                 "trilinear; any of them for the others"});
  }
  if (o.size.empty() == o.scale_factor.empty()) refuse("needs either size or scale_factor");
  if (plain && o.align_corners) refuse("align_corners is for linear, bilinear, bicubic and trilinear");
  if (o.antialias && o.mode != bilinear && o.mode != bicubic) refuse("antialias is for bilinear and bicubic");
  if (o.recompute_scale_factor && !o.size.empty()) refuse("recompute_scale_factor needs a scale_factor");
  if (o.mode != nearest && o.mode != nearest_exact) check_floating(x);
}

std::vector<double> factors(const InterpolateOptions& o, int rank) {
  if (o.scale_factor.size() == 1) return std::vector<double>(static_cast<size_t>(rank), o.scale_factor[0]);
  if (static_cast<int>(o.scale_factor.size()) != rank && !o.scale_factor.empty()) {
    refuse(fmt::format("scale_factor has {} values for {} spatial dimensions", o.scale_factor.size(), rank));
  }
  return o.scale_factor;
}

Dims wanted_sizes(const Tensor& x, const InterpolateOptions& o, const std::vector<double>& factor) {
  const int rank = x.dim() - 2;
  Dims sizes;
  if (!o.size.empty()) sizes = for_each_dim(o.size, rank, "size", INT64_MIN);
  for (int i = 0; o.size.empty() && i < rank; ++i) {
    const double size = std::floor(static_cast<double>(x.size(2 + i)) * factor[static_cast<size_t>(i)]);
    if (!(std::fabs(size) < 0x1p62))
      refuse(fmt::format("scale_factor {} gives no size", factor[static_cast<size_t>(i)]));
    sizes.push_back(static_cast<int64_t>(size));
  }
  for (int i = 0; i < rank; ++i) {
    if (WEFT_LIKELY(sizes[i] > 0 && x.size(2 + i) > 0)) continue;
    raise<ShapeError>(
        {.problem = mismatch_text("sizes", "numbers above 0", sizes), .details = "x " + x.shape().text()});
  }
  return sizes;
}

double scale_of(int64_t from, int64_t to, bool align_corners, std::optional<double> factor) {
  const auto n = static_cast<double>(from), m = static_cast<double>(to);
  if (align_corners) return to > 1 ? (n - 1) / (m - 1) : 0;
  return factor && *factor > 0 ? 1 / *factor : n / m;
}

Taps taps_of(const Line& line, const InterpolateOptions& o, bool wide) {
  if (o.mode == nearest || o.mode == nearest_exact) return nearest_taps(line, o.mode == nearest_exact, wide);
  if (o.antialias) return smooth_taps(line, o.mode == bicubic);
  return o.mode == bicubic ? cubic_taps(line) : linear_taps(line);
}

Tensor area_of(const Tensor& x, const Dims& sizes) {
  if (sizes.size() == 1) return adaptive_avg_pool1d(x, sizes);
  return sizes.size() == 2 ? adaptive_avg_pool2d(x, sizes) : adaptive_avg_pool3d(x, sizes);
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& o, Location where) {
  const CallScope call("interpolate", where);
  WEFT_IN_FULL(interpolate, x, o, where);
  check_options(checked(x), o);
  const int rank = x.dim() - 2;
  const std::vector<double> factor = factors(o, rank);
  const Dims sizes = wanted_sizes(x, o, factor);
  if (o.mode == area) return area_of(x, sizes);
  const Dims shape = joined(leading(x, rank), sizes);
  check_room(shape, x.dtype(), x.device());
  if (is_meta(x) || shape.product() == 0) return without_elements(x, shape);
  const bool align_corners = o.align_corners.value_or(false);
  const bool given = !factor.empty() && !o.recompute_scale_factor;
  Tensor out = o.mode == nearest || o.mode == nearest_exact ? x : to_compute_type(x);
  for (int i = rank - 1; i >= 0; --i) {
    const int64_t from = x.size(2 + i), to = sizes[i];
    const auto own = given ? std::optional(factor[static_cast<size_t>(i)]) : std::nullopt;
    const Line line{from, to, scale_of(from, to, align_corners, own), align_corners};
    if (from == to && line.scale == 1) continue;
    out = sampled(out, 2 + i, taps_of(line, o, x.dtype() == DType::f64));
  }
  out = out.to(x.dtype());
  return out.shares_storage(x) ? out.clone() : out.contiguous();
}

namespace {

Interpolation mode_named(const std::string& mode) {
  constexpr const char* names[] = {"nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"};
  const auto* const found = std::ranges::find(names, mode);
  if (found == std::end(names)) {
    raise<ValueError>({.problem = fmt::format("there is no mode '{}'", mode),
                       .remedy = "use nearest, nearest-exact, linear, bilinear, bicubic, trilinear or area"});
  }
  return static_cast<Interpolation>(found - std::begin(names));
}

Tensor call_interpolate(const Tensor& x, const Dims& size, const Value& scale_factor, const std::string& mode,
                        std::optional<bool> align_corners, std::optional<bool> recompute, bool antialias) {
  return interpolate(
      x, {size, numbers_in(scale_factor, 2), mode_named(mode), align_corners, recompute.value_or(false), antialias});
}

std::vector<Values> interpolate_samples(SampleMaker& make) {
  const std::monostate none;
  return {{make.tensor({2, 1, 5}), int64_t{8}},
          {make.tensor({1, 2, 3, 4}), none, 1.6, "nearest-exact"},
          {make.tensor({1, 2, 5}), int64_t{7}, none, "linear"},
          {make.tensor({1, 2, 3, 4}), Dims{5, 3}, none, "bilinear", true},
          {make.tensor({1, 1, 3, 4}), none, 1.7, "bicubic", false},
          {make.tensor({1, 1, 2, 3, 2}), int64_t{3}, none, "trilinear"},
          {make.tensor({1, 1, 6, 7}), Dims{3, 2}, none, "bilinear", none, none, true},
          {make.tensor({1, 1, 7, 6}), none, 0.4, "bicubic", none, true, true},
          {make.tensor({1, 1, 5, 4}), Dims{2, 3}, none, "area"},
          {make.tensor({1, 2, 3, 4}), Dims{3, 4}, none, "bilinear"},
          {make.tensor({0, 2, 3}), int64_t{5}, none, "linear"}};
}

constexpr OpRecord records[] = {
    {"interpolate",
     "interpolate(x, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None, "
     "antialias=False)",
     "x [N, C, spatial...] in another size, given as sizes or factors: nearest, nearest-exact, linear, bilinear, "
     "bicubic, "
     "trilinear or area.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, interpolate_samples, parts::leading<2>,
     detail::boxed<call_interpolate>},
};

}  // namespace

std::span<const OpRecord> interpolate_records() { return records; }

}  // namespace weft
