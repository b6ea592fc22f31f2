// Pooling over windows that are lists of places for each dimension: sliding, or covering x evenly.
//
// Each spatial dimension has a list of windows, computed on the host. The composite body pools one dimension after
// the other from these lists, on every device; kernels handle sliding windows.
#include "../pool.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "../create.hpp"
#include "../detail/reducing.hpp"
#include "../detail/zero_slopes.hpp"
#include "../detail/windows.hpp"
#include "../index.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../scatter.hpp"
#include "../../tensor/checked.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

// ---- windows --------------------------------------------------------------------------------------------------------

Dims for_each_dim(const Dims& given, int rank, std::string_view what, int64_t least) {
  const Dims values = given.size() == 1 ? Dims::filled(rank, given[0]) : given;
  if (WEFT_UNLIKELY(values.size() != rank)) {
    raise_value(what, fmt::format("1 or {} numbers", rank), given.text());
  }
  for (const int64_t v : values) {
    expect_at_least(what, v, least);
  }
  return values;
}

void check_pooled(const Tensor& x, int rank) {
  const int given = checked(x).dim();
  bool fits = given == rank + 1 || given == rank + 2;
  for (int i = 1; fits && i <= rank; ++i) fits = x.size(-i) != 0;
  if (WEFT_LIKELY(fits)) return;
  raise<ShapeError>({.problem = mismatch_text("x", "shape [C, ...] or [N, C, ...]", x.shape()),
                     .details = fmt::format("with {} spatial dimensions that are not empty", rank)});
}

Dims leading(const Tensor& x, int rank) { return x.sizes().first(static_cast<size_t>(x.dim() - rank)); }

Tensor flat(const Tensor& x, int rank) { return x.flatten(x.dim() - rank, -1); }

Dims joined(Dims first, std::span<const int64_t> last) {
  for (const int64_t size : last) first.push_back(size);
  return first;
}

int64_t count_windows(int64_t size, const Sliding& s) {
  const Checked padded = Checked(size) + Checked(2) * s.padding;
  const Checked room = padded - (Checked(s.dilation) * (s.size - 1) + 1);  // for the begins after the first
  const bool fits = padded.fits() && room.fits() && room.value() >= 0;
  if (WEFT_UNLIKELY(!fits)) {
    raise<ShapeError>(
        {.problem = fmt::format("a window of {} elements, {} apart, does not fit {} elements with padding "
                                "{}",
                                s.size, s.dilation, size, s.padding)});
  }
  const int64_t steps = room.value() / s.stride;
  const bool rest = s.ceil_mode && room.value() % s.stride != 0;
  const bool begins_inside =
      rest && (Checked(steps + 1) * s.stride).fits() && (steps + 1) * s.stride < size + s.padding;
  return steps + 1 + (begins_inside ? 1 : 0);
}

namespace {

Dims spatial(const Tensor& x, int rank) { return x.sizes().last(static_cast<size_t>(rank)); }

struct SlidingOptions {
  const Dims &kernel_size, &stride, &padding, &dilation;
  bool ceil_mode;
};

std::vector<Sliding> sliding(int rank, const SlidingOptions& options) {
  const Dims size = for_each_dim(options.kernel_size, rank, "kernel_size", 1);
  const Dims stride = options.stride.empty() ? size : for_each_dim(options.stride, rank, "stride", 1);
  const Dims padding = for_each_dim(options.padding, rank, "padding", 0);
  const Dims dilation = for_each_dim(options.dilation, rank, "dilation", 1);
  std::vector<Sliding> out;
  for (int i = 0; i < rank; ++i) {
    if (WEFT_UNLIKELY(padding[i] > size[i] / 2)) {
      raise<ValueError>(
          {.problem = fmt::format("padding {} is more than half of kernel_size {}", padding[i], size[i])});
    }
    out.push_back({size[i], stride[i], padding[i], dilation[i], options.ceil_mode});
  }
  return out;
}

// With room for the result made once, before lists of its size.
Grid grid_of(const Tensor& x, const Dims& counts) {
  Grid grid{joined(leading(x, counts.size()), counts), {}};
  check_room(grid.shape, DType::i64, x.device());
  return grid;
}
// On meta nothing is computed, and a result of no elements may have more windows than memory holds.
bool needs_windows(const Tensor& x, const Grid& grid) { return !is_meta(x) && grid.shape.product() != 0; }

// Places behind the end count in no window; those before the beginning are stepped over.
Window cut(int64_t begin, const Sliding& s, int64_t size) {
  const int64_t skipped = begin < 0 ? (-begin + s.dilation - 1) / s.dilation : 0;
  const int64_t last = begin + (s.size - 1) * s.dilation;  // fits, since such a window fits x
  return {begin + skipped * s.dilation, std::min(last + 1, size), s.dilation};
}

Grid sliding_grid(const Tensor& x, const std::vector<Sliding>& all, bool count_padding) {
  const Dims sizes = spatial(x, static_cast<int>(all.size()));
  Dims counts;
  for (size_t i = 0; i < all.size(); ++i) counts.push_back(count_windows(sizes[static_cast<int>(i)], all[i]));
  Grid grid = grid_of(x, counts);
  grid.sliding = all;
  for (size_t i = 0; needs_windows(x, grid) && i < all.size(); ++i) {
    const Sliding& s = all[i];
    const int64_t size = sizes[static_cast<int>(i)];
    Windows windows;
    for (int64_t w = 0; w < counts[static_cast<int>(i)]; ++w) {
      const int64_t begin = w * s.stride - s.padding;
      Window window = cut(begin, s, size);
      if (WEFT_UNLIKELY(window.begin >= window.end)) {
        raise<ValueError>({.problem = fmt::format("padding {} and dilation {} leave window {} without an element",
                                                  s.padding, s.dilation, w)});
      }
      window.extent = count_padding ? std::min(s.size, size + s.padding - begin) : window.count();
      windows.push_back(window);
    }
    grid.dims.push_back(std::move(windows));
  }
  return grid;
}

Grid even_grid(const Tensor& x, const Dims& output_size, int rank) {
  const Dims counts = for_each_dim(output_size, rank, "output_size", 0), sizes = spatial(x, rank);
  Grid grid = grid_of(x, counts);
  for (int i = 0; needs_windows(x, grid) && i < rank; ++i) {
    const int64_t n = sizes[i], count = counts[i];
    const auto begin = [&](int64_t w) { return w / count * n + w % count * n / count; };
    const auto end = [&](int64_t w) { return begin(w + 1) + ((w + 1) % count * n % count != 0 ? 1 : 0); };
    Windows windows;
    for (int64_t w = 0; w < count; ++w) {
      windows.push_back({begin(w), end(w)});
      windows.back().extent = windows.back().count();
    }
    grid.dims.push_back(std::move(windows));
    if (count != 0 && n % count == 0) grid.sliding.push_back({n / count, n / count, 0, 1, false});
  }
  if (static_cast<int>(grid.sliding.size()) != rank) grid.sliding.clear();
  return grid;
}

int64_t most_elements(const Windows& windows) {
  int64_t max_elements = 1;
  for (const Window& w : windows) max_elements = std::max(max_elements, w.count());
  return max_elements;
}

// The places of all windows, one window after the other, each with `count` of them: `missing` where it has fewer.
template <class Missing>
Tensor places(const Windows& windows, int64_t count, Device device, Missing&& missing) {
  std::vector<int64_t> at;
  at.reserve(windows.size() * static_cast<size_t>(count));
  for (const Window& w : windows) {
    for (int64_t k = 0; k < count; ++k) at.push_back(k < w.count() ? w.begin + k * w.step : missing(w));
  }
  return tensor(at).to(device);
}

// Whether unfold gives the windows: `count` elements each, equally spaced.
bool are_alike(const Windows& windows, int64_t count) {
  const int64_t apart = windows.size() < 2 ? 1 : windows[1].begin - windows[0].begin;
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& w = windows[i];
    const int64_t begin = windows[0].begin + static_cast<int64_t>(i) * apart;
    if (w.count() != count || w.step != windows[0].step || w.begin != begin) return false;
  }
  return !windows.empty() && apart > 0;
}

// The windows' elements along `dim`: [..., windows, count, ...]; `missing` selects the substitute for elements that a
// window lacks.
template <class Missing>
Tensor by_window(const Tensor& x, int dim, const Windows& windows, int64_t count, Missing&& missing) {
  if (are_alike(windows, count)) {
    const Window& first = windows.front();
    const int64_t apart = windows.size() < 2 ? 1 : windows[1].begin - first.begin, span = (count - 1) * first.step + 1;
    const Tensor used = x.narrow(dim, first.begin, windows.back().begin + span - first.begin);
    const Tensor elements = used.unfold(dim, span, apart).slice(-1, {}, {}, first.step);
    Dims order;
    for (int i = 0; i < x.dim(); ++i) {
      order.push_back(i);
      if (i == dim) order.push_back(x.dim());
    }
    return elements.permute(order);
  }
  Dims shape = x.shape();
  shape[dim] = static_cast<int64_t>(windows.size());
  shape.insert(dim + 1, count);
  return index_select(x, dim, places(windows, count, x.device(), missing)).reshape(shape);
}

// Whether there is one window: all of x.
bool is_whole(const Tensor& x, const std::vector<Windows>& grid) {
  bool whole = true;
  for (size_t i = 0; i < grid.size(); ++i) {
    const int64_t n = x.size(static_cast<int>(i) - static_cast<int>(grid.size()));
    whole = whole && grid[i].size() == 1 && grid[i][0].count() == n;
  }
  return whole;
}

// ---- extremes -------------------------------------------------------------------------------------------------------

// Along one dimension after the other, the last first. A window's first element replaces missing ones, which changes
// neither the maximum nor its first index.
ValuesAndIndices largest(const Tensor& x, const std::vector<Windows>& grid) {
  Tensor values = x, index;
  int64_t stride = 1;  // of the dimension, in spatial elements
  for (int i = static_cast<int>(grid.size()) - 1; i >= 0; --i) {
    const Windows& windows = grid[static_cast<size_t>(i)];
    const int dim = x.dim() - static_cast<int>(grid.size()) + i;
    const auto number = static_cast<int64_t>(windows.size());
    const int64_t count = most_elements(windows);
    const auto first = [](const Window& w) { return w.begin; };
    auto [best, place] = max(by_window(values, dim, windows, count, first), dim + 1, true);
    Dims one = Dims::filled(x.dim() + 1, 1);
    one[dim] = number;
    one[dim + 1] = count;
    const Tensor coordinates = (places(windows, count, x.device(), first) * stride).reshape(one);
    Tensor found = take_along_dim(coordinates, place, dim + 1);
    if (index.defined()) {
      found = found + take_along_dim(by_window(index, dim, windows, count, first), place, dim + 1);
    }
    index = found.squeeze(dim + 1);
    values = best.squeeze(dim + 1);
    stride *= x.sizes()[static_cast<size_t>(dim)];
  }
  return {values, index};
}

struct MaxPoolBackward {
  Dims shape;
  int rank;
  Saved index;

  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor wide = to_compute_type(g), sums = zeros(shape, {wide.dtype(), g.device()});
    scatter_add_(flat(sums, rank), -1, flat(index.get(self), rank), flat(wide, rank));
    return with_zero_slopes(sums.to(g.dtype()), self, {&shape, 1});
  }
};

// Indices are undefined where they are neither asked for nor recorded, and cost something.
ValuesAndIndices max_over(const Tensor& x, const Grid& grid, bool indices) {
  if (!needs_windows(x, grid)) return {without_elements(x, grid.shape), make(grid.shape, DType::i64, x.device())};
  ValuesAndIndices out;
  {
    const bool recorded = should_record(x);
    const NoGradGuard unrecorded;
    if (pools_by_kernel(x, grid)) {
      std::tie(out.values, out.indices) = max_by_kernel(x, grid, indices || recorded);
    } else if (is_whole(x, grid.dims)) {
      const auto [values, places] = max(flat(x, static_cast<int>(grid.dims.size())), -1);
      out = {values.reshape(grid.shape), places.reshape(grid.shape)};
    } else {
      out = largest(x, grid.dims);
    }
  }
  const auto rank = static_cast<int>(grid.dims.size());
  if (should_record(x)) record(out.values, MaxPoolBackward{x.shape(), rank, Saved(out.indices)}, x);
  return out;
}

void check_number(const Tensor& x) { expect_dtype("x", x, x.dtype() != DType::boolean, "numbers"); }

ValuesAndIndices max_pool(int rank, const Tensor& x, const Dims& kernel_size, const MaxPoolOptions& o,
                          bool indices = false) {
  check_pooled(x, rank);
  check_number(x);
  const auto all = sliding(rank, {kernel_size, o.stride, o.padding, o.dilation, o.ceil_mode});
  return max_over(x, sliding_grid(x, all, false), indices);
}

ValuesAndIndices adaptive_max_pool(int rank, const Tensor& x, const Dims& output_size, bool indices = false) {
  check_pooled(x, rank);
  check_number(x);
  return max_over(x, even_grid(x, output_size, rank), indices);
}

// ---- averages -------------------------------------------------------------------------------------------------------

Tensor with_zero_behind(const Tensor& x, int dim) {
  Dims shape = x.shape();
  shape[dim] = 1;
  return cat({x, zeros(shape, {x.dtype(), x.device()})}, dim);
}

Tensor sum_over(Tensor x, const std::vector<Windows>& grid) {
  for (int i = static_cast<int>(grid.size()) - 1; i >= 0; --i) {
    const Windows& windows = grid[static_cast<size_t>(i)];
    const int dim = x.dim() - static_cast<int>(grid.size()) + i;
    const int64_t n = x.size(dim), count = most_elements(windows);
    const auto is_short = [&](const Window& w) { return w.count() < count; };
    if (std::ranges::any_of(windows, is_short)) x = with_zero_behind(x, dim);
    x = sum(by_window(x, dim, windows, count, [&](const Window&) { return n; }), dim + 1);
  }
  return x;
}

// The product of the windows' extents, for each element of the result's spatial dimensions.
Tensor extents(const std::vector<Windows>& grid, DType dtype, Device device) {
  Tensor out = ones({}, {DType::f64});
  for (const Windows& windows : grid) {
    std::vector<double> along;
    for (const Window& w : windows) along.push_back(static_cast<double>(w.extent));
    out = out.unsqueeze(-1) * tensor(along, DType::f64);
  }
  return out.to(dtype).to(device);
}

Tensor mean_over(const Tensor& x, const Grid& grid, std::optional<int64_t> divisor) {
  if (!needs_windows(x, grid)) return without_elements(x, grid.shape);
  if (pools_by_kernel(x, grid)) return mean_by_kernel(x, grid, divisor);
  const Tensor wide = to_compute_type(x);
  const Tensor total = is_whole(x, grid.dims)
                           ? sum(flat(wide, static_cast<int>(grid.dims.size())), -1).reshape(grid.shape)
                           : sum_over(wide, grid.dims);
  const Tensor mean =
      divisor ? total / static_cast<double>(*divisor) : total / extents(grid.dims, total.dtype(), total.device());
  return mean.to(x.dtype());
}

/// Means of int64, without their fractions.
Tensor integer_means(const Tensor& x, const Grid& grid, std::optional<int64_t> divisor) {
  if (!needs_windows(x, grid)) return without_elements(x, grid.shape);
  const Tensor total = sum_over(x, grid.dims);
  const Tensor counts =
      divisor ? full({}, *divisor, {DType::i64, x.device()}) : extents(grid.dims, DType::i64, x.device());
  return trunc_divide(total, counts);
}

Tensor avg_pool(int rank, const Tensor& x, const Dims& kernel_size, const AveragePoolOptions& o) {
  check_pooled(x, rank);
  const bool whole = x.dtype() == DType::i64;
  if (!whole) check_floating(x);
  if (o.divisor_override == 0) raise<ValueError>({.problem = "divisor_override is 0"});
  const auto all = sliding(rank, {kernel_size, o.stride, o.padding, 1, o.ceil_mode});
  const Grid grid = sliding_grid(x, all, o.count_include_pad);
  return whole ? integer_means(x, grid, o.divisor_override) : mean_over(x, grid, o.divisor_override);
}

Tensor adaptive_avg_pool(int rank, const Tensor& x, const Dims& output_size) {
  check_pooled(x, rank);
  check_floating(x);
  return mean_over(x, even_grid(x, output_size, rank), {});
}

Tensor lp_pool(int rank, const Tensor& x, double order, const Dims& kernel_size, const Dims& stride, bool ceil_mode) {
  check_pooled(x, rank);
  check_floating(x);
  if (order == 0) raise<ValueError>({.problem = "norm_type is 0"});
  if (std::isinf(order)) {
    const auto sign = order > 0 ? 1 : -1;
    return max_pool(rank, abs(x) * sign, kernel_size, {.stride = stride, .ceil_mode = ceil_mode}).values * sign;
  }
  const Tensor wide = to_compute_type(x);
  const Tensor mean = avg_pool(rank, pow(wide, order), kernel_size, {.stride = stride, .ceil_mode = ceil_mode});
  double size = 1;
  for (const int64_t n : for_each_dim(kernel_size, rank, "kernel_size", 1)) size *= static_cast<double>(n);
  const Tensor total = mean * size, zero = total == 0;  // where the root's gradient would be infinite, it is 0
  const Tensor root = order == 1 ? total : masked_fill(pow(masked_fill(total, zero, 1), 1 / order), zero, 0);
  return root.to(x.dtype());
}

}  // namespace

#define WEFT_POOLS(rank, n)                                                                                            \
  ValuesAndIndices max_pool##n##_with_indices(const Tensor& x, const Dims& kernel_size, const MaxPoolOptions& options, \
                                              Location where) {                                                        \
    const CallScope call("max_pool" #n, where);                                                                        \
    return max_pool(rank, x, kernel_size, options, true);                                                              \
  }                                                                                                                    \
  Tensor max_pool##n(const Tensor& x, const Dims& kernel_size, const MaxPoolOptions& options, Location where) {        \
    const CallScope call("max_pool" #n, where);                                                                        \
    return max_pool(rank, x, kernel_size, options).values;                                                             \
  }                                                                                                                    \
  ValuesAndIndices adaptive_max_pool##n##_with_indices(const Tensor& x, const Dims& output_size, Location where) {     \
    const CallScope call("adaptive_max_pool" #n, where);                                                               \
    return adaptive_max_pool(rank, x, output_size, true);                                                              \
  }                                                                                                                    \
  Tensor adaptive_max_pool##n(const Tensor& x, const Dims& output_size, Location where) {                              \
    const CallScope call("adaptive_max_pool" #n, where);                                                               \
    return adaptive_max_pool(rank, x, output_size).values;                                                             \
  }                                                                                                                    \
  Tensor avg_pool##n(const Tensor& x, const Dims& kernel_size, const AveragePoolOptions& options, Location where) {    \
    const CallScope call("avg_pool" #n, where);                                                                        \
    return avg_pool(rank, x, kernel_size, options);                                                                    \
  }                                                                                                                    \
  Tensor adaptive_avg_pool##n(const Tensor& x, const Dims& output_size, Location where) {                              \
    const CallScope call("adaptive_avg_pool" #n, where);                                                               \
    return adaptive_avg_pool(rank, x, output_size);                                                                    \
  }                                                                                                                    \
  Tensor lp_pool##n(const Tensor& x, double norm_type, const Dims& kernel_size, const Dims& stride, bool ceil_mode,    \
                    Location where) {                                                                                  \
    const CallScope call("lp_pool" #n, where);                                                                         \
    return lp_pool(rank, x, norm_type, kernel_size, stride, ceil_mode);                                                \
  }
WEFT_POOLS(1, 1d)
WEFT_POOLS(2, 2d)
WEFT_POOLS(3, 3d)
#undef WEFT_POOLS

}  // namespace weft
