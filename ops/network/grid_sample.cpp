// Images at the places of a grid, and grids of affine maps.
#include "../create.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../detail/windows.hpp"
#include "../interpolate.hpp"
#include "../join.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "../scatter.hpp"

namespace weft {

namespace {

void check_grid(const Tensor& x, const Tensor& grid) {
  check_floating(checked(x));
  check_same_device({&x, &checked(grid)});
  if (grid.dtype() != x.dtype()) {
    raise<DTypeError>({.problem = fmt::format("x is {}, the grid {}", name(x.dtype()), name(grid.dtype()))});
  }
  const int rank = x.dim() - 2;
  const bool fits =
      (rank == 2 || rank == 3) && grid.dim() == x.dim() && grid.size(0) == x.size(0) && grid.size(-1) == rank;
  if (WEFT_UNLIKELY(!fits)) {
    raise<ShapeError>(
        {.problem = fmt::format("x of shape {} and a grid of shape {}", x.shape().text(), grid.shape().text()),
         .remedy = "they are [N, C, H, W] and [N, H', W', 2], or [N, C, D, H, W] and [N, D', H', W', 3]"});
  }
  for (int i = 2; i < x.dim(); ++i) {
    if (x.size(i) == 0) raise<ShapeError>({.problem = fmt::format("x of shape {} is empty", x.shape().text())});
  }
}

// From [-1, 1] to elements.
Tensor to_elements(const Tensor& place, int64_t size, bool align_corners) {
  const auto n = static_cast<double>(size);
  return align_corners ? (place + 1) / 2 * (n - 1) : ((place + 1) * n - 1) / 2;
}

// No gradient flows at the edge and beyond it.
Tensor held(const Tensor& place, int64_t size) {
  const auto last = static_cast<double>(size - 1);
  return where(place <= 0, 0, where(place >= last, last, place));
}

// Mirrored at the centres of the corner elements, or at their outer edges.
Tensor mirrored(const Tensor& place, int64_t size, bool align_corners) {
  const double low = align_corners ? 0 : -0.5, span = static_cast<double>(align_corners ? size - 1 : size);
  if (span == 0) return place * 0;
  const Tensor distance = abs(place - low), rest = fmod(distance, span);
  const Tensor flips = floor(distance.detach() / span);
  return where(fmod(flips, 2) == 0, rest + low, span - rest + low);
}

struct Sampler {
  const Tensor& x;
  GridSampleOptions options;
  Tensor elements;  ///< [N, C, spatial elements]
  Dims counts;      ///< [N, 1, places]

  Tensor bounded(const Tensor& place, int64_t size) const {
    if (options.padding_mode == GridPadding::zeros) return place;
    if (options.padding_mode == GridPadding::border) return held(place, size);
    return held(mirrored(place, size, options.align_corners), size);
  }

  // The elements at whole places, one tensor [N, 1, places] for each dimension, times weights; 0 outside x.
  Tensor weighted(std::span<const Tensor> places, const Tensor& weight) const {
    Tensor index, inside;
    for (size_t i = 0; i < places.size(); ++i) {
      const int64_t size = x.size(2 + static_cast<int>(i));
      const Tensor within = logical_and(places[i] >= 0, places[i] <= static_cast<double>(size - 1));
      const Tensor at = where(within, places[i], 0).to(DType::i64);
      index = i == 0 ? at : index * size + at;
      inside = i == 0 ? within : logical_and(inside, within);
    }
    Dims shape = counts;
    shape[1] = x.size(1);
    const Tensor found = gather(elements, 2, index.expand(shape));
    return where(inside, weight.defined() ? found * weight : found, 0);
  }
};

Tensor nearest_elements(const Sampler& sampler, const std::vector<Tensor>& places) {
  std::vector<Tensor> whole;
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t size = sampler.x.size(2 + static_cast<int>(i));
    whole.push_back(round(sampler.bounded(places[i].detach(), size)));
  }
  return sampler.weighted(whole, {});
}

// Each corner of the cell around a place counts by how near it is.
Tensor linear_elements(const Sampler& sampler, const std::vector<Tensor>& places) {
  const size_t rank = places.size();
  std::vector<Tensor> low, high_share, low_share;
  for (size_t i = 0; i < rank; ++i) {
    const Tensor place = sampler.bounded(places[i], sampler.x.size(2 + static_cast<int>(i)));
    low.push_back(floor(place.detach()));
    high_share.push_back(place - low[i]);
    low_share.push_back(1 - high_share[i]);
  }
  Tensor sum;
  for (size_t corner = 0; corner < size_t{1} << rank; ++corner) {
    std::vector<Tensor> at;
    Tensor weight;
    for (size_t i = 0; i < rank; ++i) {
      const bool high = (corner >> i & 1) != 0;
      at.push_back(high ? low[i] + 1 : low[i]);
      const Tensor& share = high ? high_share[i] : low_share[i];
      weight = i == 0 ? share : weight * share;
    }
    const Tensor part = sampler.weighted(at, weight);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

// The cubic of Keys (1981) with -0.75: weights of the four elements around a place, from the rest of it.
std::vector<Tensor> cubic_weights(const Tensor& rest) {
  constexpr double a = -0.75;
  const auto near = [&](const Tensor& t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
  const auto far = [&](const Tensor& t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; };
  return {far(rest + 1), near(rest), near(1 - rest), far(2 - rest)};
}

Tensor cubic_elements(const Sampler& sampler, const std::vector<Tensor>& places) {
  std::vector<std::vector<Tensor>> at, weight;
  for (size_t i = 0; i < places.size(); ++i) {
    const Tensor low = floor(places[i].detach());
    weight.push_back(cubic_weights(places[i] - low));
    at.emplace_back();
    for (int k = -1; k < 3; ++k) at[i].push_back(sampler.bounded(low + k, sampler.x.size(2 + static_cast<int>(i))));
  }
  Tensor sum;
  for (size_t tap = 0; tap < size_t{1} << 2 * places.size(); ++tap) {  // two bits for each dimension
    std::vector<Tensor> whole;
    Tensor share;
    for (size_t i = 0; i < places.size(); ++i) {
      const size_t k = tap >> 2 * i & 3;
      whole.push_back(at[i][k]);
      share = i == 0 ? weight[i][k] : share * weight[i][k];
    }
    const Tensor part = sampler.weighted(whole, share);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleOptions options, Location where) {
  const CallScope call("grid_sample", where);
  check_grid(x, grid);
  const int rank = x.dim() - 2;
  const Dims out_sizes = grid.sizes().subspan(1, static_cast<size_t>(rank));
  const Dims counts{x.size(0), 1, out_sizes.product()};
  const Dims shape = joined(leading(x, rank), out_sizes);
  const Sampler sampler{x, options, flat(to_compute_type(x), rank), counts};
  const Tensor wide = to_compute_type(grid);
  std::vector<Tensor> places;  // the grid names the last dimension first
  for (int i = 0; i < rank; ++i) {
    places.push_back(to_elements(wide.select(-1, rank - 1 - i).reshape(counts), x.size(2 + i), options.align_corners));
  }
  const Tensor out = options.mode == GridMode::nearest   ? nearest_elements(sampler, places)
                     : options.mode == GridMode::bicubic ? cubic_elements(sampler, places)
                                                         : linear_elements(sampler, places);
  return out.reshape(shape).to(x.dtype());
}

Tensor affine_grid(const Tensor& theta, const Dims& size, bool align_corners, Location where) {
  const CallScope call("affine_grid", where);
  check_floating(checked(theta));
  const int rank = size.size() - 2;
  bool fits = (rank == 2 || rank == 3) && theta.dim() == 3 && theta.size(0) == size[0] && theta.size(1) == rank &&
              theta.size(2) == rank + 1;
  for (const int64_t n : size) fits = fits && n > 0;
  if (WEFT_UNLIKELY(!fits)) {
    raise<ShapeError>({.problem = fmt::format("theta of shape {} for the size {}", theta.shape().text(), size.text()),
                       .remedy = "they are [N, 2, 3] and N, C, H, W, or [N, 3, 4] and N, C, D, H, W, all positive"});
  }
  const DType dtype = compute_type(theta.dtype());
  const Dims sizes = std::span<const int64_t>(size).subspan(2);
  const Dims whole = joined(sizes, Dims(1));
  std::vector<Tensor> coordinates;
  for (int i = rank - 1; i >= 0; --i) {
    const int64_t n = sizes[i];
    Tensor along = n == 1 ? zeros(1, {dtype, theta.device()}) : linspace(-1, 1, n, {dtype, theta.device()});
    if (!align_corners) along = along * (static_cast<double>(n - 1) / static_cast<double>(n));
    Dims shape = Dims::filled(rank + 1, 1);
    shape[i] = n;
    coordinates.push_back(along.reshape(shape).expand(whole));
  }
  coordinates.push_back(ones(whole, {dtype, theta.device()}));
  const Tensor points = cat(coordinates, -1).reshape({1, sizes.product(), rank + 1});
  const Tensor grid = matmul(points, to_compute_type(theta).transpose(1, 2));
  return grid.reshape(joined(joined(Dims(size[0]), sizes), Dims(rank))).to(theta.dtype());
}

namespace {

template <class E, size_t n>
E named(const char* const (&names)[n], const std::string& given, const char* what) {
  for (size_t i = 0; i < n; ++i) {
    if (given == names[i]) return static_cast<E>(i);
  }
  raise<ValueError>({.problem = fmt::format("there is no {} '{}'", what, given)});
}
Tensor call_grid_sample(const Tensor& x, const Tensor& grid, const std::string& mode, const std::string& padding,
                        std::optional<bool> align_corners) {
  static constexpr const char* modes[] = {"bilinear", "nearest", "bicubic"};
  static constexpr const char* paddings[] = {"zeros", "border", "reflection"};
  return grid_sample(x, grid,
                     {named<GridMode>(modes, mode, "mode"), named<GridPadding>(paddings, padding, "padding_mode"),
                      align_corners.value_or(false)},
                     {});
}
Tensor call_affine_grid(const Tensor& theta, const Dims& size, std::optional<bool> align_corners) {
  return affine_grid(theta, size, align_corners.value_or(false));
}

std::vector<Values> grid_sample_samples(SampleMaker& make) {
  return {{make.tensor({2, 1, 3, 4}), make.tensor({2, 2, 3, 2}, -0.9, 0.9)},
          {make.tensor({1, 2, 3, 4}), make.tensor({1, 2, 2, 2}, -1.4, 1.4), "bilinear", "border", true},
          {make.tensor({1, 2, 3, 4}), make.tensor({1, 2, 2, 2}, -1.7, 1.7), "bilinear", "reflection"},
          {make.tensor({1, 2, 3, 4}), make.tensor({1, 2, 3, 2}, -1.2, 1.2), "nearest"},
          {make.tensor({1, 1, 5, 4}), make.tensor({1, 2, 2, 2}, -1.2, 1.2), "bicubic", "zeros", true},
          {make.tensor({1, 1, 3, 2, 4}), make.tensor({1, 2, 1, 2, 3}, -0.9, 0.9), "bilinear", "zeros", true},
          {make.tensor({0, 1, 3, 4}), make.tensor({0, 2, 3, 2})},
          {make.tensor({1, 2, 3, 4}), make.tensor({1, 0, 3, 2})}};
}
std::vector<Values> affine_grid_samples(SampleMaker& make) {
  return {{make.tensor({2, 2, 3}), Dims{2, 1, 3, 4}},
          {make.tensor({1, 2, 3}), Dims{1, 2, 1, 4}, true},
          {make.tensor({1, 3, 4}), Dims{1, 1, 2, 3, 2}, false}};
}

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"grid_sample", "grid_sample(x, grid, mode='bilinear', padding_mode='zeros', align_corners=None)",
     "The elements of x [N, C, H, W] or [N, C, D, H, W] at the places of grid [N, H', W', 2] or [N, D', H', W', 3], "
     "which "
     "are (column, row) from -1 to 1: bilinear, nearest or bicubic; outside are zeros, the border or a reflection.",
     true, floating, grid_sample_samples, detail::boxed<call_grid_sample>},
    {"affine_grid", "affine_grid(theta, size, align_corners=None)",
     "The grid for grid_sample that the affine maps theta [N, 2, 3] or [N, 3, 4] make for a result of the size.", true,
     floating, affine_grid_samples, detail::boxed<call_affine_grid>},
};

}  // namespace

std::span<const OpRecord> grid_records() { return records; }

}  // namespace weft
