// Images at the places of a grid, and grids of affine maps.
#include <limits>

#include "../../autograd/engine.hpp"
#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/bags.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../detail/windows.hpp"
#include "../interpolate.hpp"
#include "../join.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

void check_grid(const Tensor& x, const Tensor& grid) {
  check_floating(checked(x));
  check_same_device({&x, &checked(grid)});
  expect_one_dtype("x and grid", x, grid);
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

// The elements along one dimension around each place: all tensors are [N, places].
struct Along {
  std::vector<Tensor> index, inside;  ///< index is 0 where the element is not inside x
  std::vector<Tensor> weight;         ///< how much each counts; empty for one that is taken as it is
};

struct Sampler {
  const Tensor& x;
  GridSampleOptions options;

  int rank() const { return x.dim() - 2; }
  int64_t size(int i) const { return x.size(2 + i); }

  Tensor bounded(const Tensor& place, int64_t size) const {
    if (options.padding_mode == GridPadding::zeros) return place;
    if (options.padding_mode == GridPadding::border) return held(place, size);
    return held(mirrored(place, size, options.align_corners), size);
  }

  Along along(int i, const std::vector<Tensor>& whole, std::vector<Tensor> weight) const {
    Along a;
    a.weight = std::move(weight);
    int64_t apart = 1;
    for (int j = i + 1; j < rank(); ++j) apart *= size(j);
    for (const Tensor& at : whole) {
      a.inside.push_back(logical_and(at >= 0, at <= static_cast<double>(size(i) - 1)));
      const Tensor index = where(a.inside.back(), at, 0).to(DType::i64);
      a.index.push_back(apart == 1 ? index : index * apart);
    }
    return a;
  }

  // [N * elements, C]
  Tensor pixels() const {
    Dims order{0};
    int64_t rows = x.size(0);
    for (int i = 0; i < rank(); ++i) order.push_back(2 + i), rows *= size(i);
    order.push_back(1);
    return to_compute_type(x).permute(order).reshape({rows, x.size(1)});
  }

  // The weighted sums [N, C, places] of the elements around the places, for every choice of one along each dimension.
  Tensor sums(const std::vector<Along>& around) const {
    const Tensor table = pixels();
    const int64_t images = x.size(0), outside = table.size(0), places = around[0].index[0].size(1);
    const TensorOptions counting{DType::i64, x.device()};
    const Tensor first = (arange(0, images, 1, counting) * (outside / std::max<int64_t>(images, 1))).unsqueeze(1);
    std::vector<Tensor> at{first.expand({images, places})}, inside{Tensor()}, weights{Tensor()};
    for (const Along& a : around) {
      std::vector<Tensor> next_at, next_inside, next_weights;
      for (size_t n = 0; n < at.size(); ++n) {
        for (size_t k = 0; k < a.index.size(); ++k) {
          next_at.push_back(at[n] + a.index[k]);
          next_inside.push_back(inside[n].defined() ? logical_and(inside[n], a.inside[k]) : a.inside[k]);
          if (a.weight.empty()) continue;
          next_weights.push_back(weights[n].defined() ? weights[n] * a.weight[k] : a.weight[k]);
        }
      }
      at = std::move(next_at), inside = std::move(next_inside), weights = std::move(next_weights);
    }
    for (size_t n = 0; n < at.size(); ++n) at[n] = where(inside[n], at[n], outside);
    const int64_t each = std::ssize(at), count = images * places;
    const Tensor factors = weights.empty() ? Tensor() : stack(weights, -1).reshape({-1});
    const Tensor out = bag_sums(table, stack(at, -1).reshape({-1}), factors,
                                {count, arange(0, count, 1, counting) * each, each}, outside, false);
    return out.reshape({images, places, x.size(1)}).transpose(1, 2);
  }
};

Along nearest_along(const Sampler& sampler, int i, const Tensor& place) {
  return sampler.along(i, {round(sampler.bounded(place.detach(), sampler.size(i)))}, {});
}

// Each end of the cell around a place counts by how near it is.
Along linear_along(const Sampler& sampler, int i, const Tensor& place) {
  const Tensor at = sampler.bounded(place, sampler.size(i)), low = floor(at.detach()), rest = at - low;
  return sampler.along(i, {low, low + 1}, {1 - rest, rest});
}

Tensor by_corners(const Tensor& x, const Tensor& places) {
  const Sampler sampler{x, {}};
  std::vector<Along> around;
  for (int i = 0; i < sampler.rank(); ++i) around.push_back(linear_along(sampler, i, places.select(0, i)));
  return sampler.sums(around);
}

// Many channels are faster as rows of pixels on the CPU.
bool is_sampled_by_plane(const Tensor& x) {
  constexpr int64_t most_channels = 15;
  int64_t size = 1;
  for (int i = 2; i < x.dim(); ++i) size *= x.size(i);
  return kernels(x.raw_view()).sample_linear != nullptr && (x.size(1) <= most_channels || !x.device().is_cpu()) &&
         size <= std::numeric_limits<int32_t>::max();
}

struct LinearBackward {
  Saved x, places;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor g = incoming[0].contiguous(), &image = x.get(self), &at = places.get(self);
    if (should_record(g, image, at)) {
      const Tensor y = by_corners(image, at);
      const std::vector<Tensor> found = grad({y}, {image, at}, {g}, {.create_graph = true, .allow_unused = true});
      for (int i = 0; i < 2; ++i) outgoing[i] = found[static_cast<size_t>(i)];
      return;
    }
    for (int i = 0; i < 2; ++i) {
      if (self.wants(i)) outgoing[i] = make_like(i == 0 ? image : at);
    }
    const auto view = [](const Tensor& t) { return t.defined() ? t.raw_view() : View(); };
    WEFT_KERNEL(sample_linear_gradient, image)
    (view(outgoing[0]), view(outgoing[1]), g.raw_view(), image.raw_view(), at.raw_view());
  }
};

// [N, C, places] at places [dimensions, N, places]; both in the compute type.
Tensor linear_samples(const Tensor& operand, const Tensor& at) {
  const Tensor x = operand.contiguous(), places = at.contiguous();
  const Tensor out = make(Dims{x.size(0), x.size(1), places.size(2)}, x.dtype(), x.device());
  WEFT_KERNEL(sample_linear, x)(out.raw_view(), x.raw_view(), places.raw_view());
  if (should_record(x, places)) record(out, LinearBackward{Saved(x), Saved(places)}, x, places);
  return out;
}

// The cubic of Keys (1981) with -0.75: weights of the four elements around a place, from the rest of it.
std::vector<Tensor> cubic_weights(const Tensor& rest) {
  constexpr double a = -0.75;
  const auto inner = [&](const Tensor& t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
  const auto outer = [&](const Tensor& t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; };
  return {outer(rest + 1), inner(rest), inner(1 - rest), outer(2 - rest)};
}

Along cubic_along(const Sampler& sampler, int i, const Tensor& place) {
  const Tensor low = floor(place.detach());
  std::vector<Tensor> whole;
  for (int k = -1; k < 3; ++k) whole.push_back(sampler.bounded(low + k, sampler.size(i)));
  return sampler.along(i, whole, cubic_weights(place - low));
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleOptions options, Location where) {
  const CallScope call("grid_sample", where);
  WEFT_IN_FULL(grid_sample, x, grid, options, where);
  check_grid(x, grid);
  const int rank = x.dim() - 2;
  const Dims out_sizes = grid.sizes().subspan(1, static_cast<size_t>(rank));
  const Dims counts{x.size(0), out_sizes.product()}, shape = joined(leading(x, rank), out_sizes);
  const Sampler sampler{x, options};
  const Tensor wide = to_compute_type(grid);
  std::vector<Tensor> places;  // the grid names the last dimension first
  for (int i = 0; i < rank; ++i) {
    places.push_back(to_elements(wide.select(-1, rank - 1 - i).reshape(counts), x.size(2 + i), options.align_corners));
  }
  const bool is_linear = options.mode != GridMode::nearest && options.mode != GridMode::bicubic;
  if (is_linear && is_sampled_by_plane(x)) {
    for (int i = 0; i < rank; ++i) {
      Tensor& place = places[static_cast<size_t>(i)];
      place = sampler.bounded(place, x.size(2 + i));
    }
    return linear_samples(to_compute_type(x), stack(places)).to(x.dtype()).reshape(shape);
  }
  const auto along = is_linear ? linear_along : options.mode == GridMode::nearest ? nearest_along : cubic_along;
  std::vector<Along> around;
  for (int i = 0; i < rank; ++i) around.push_back(along(sampler, i, places[static_cast<size_t>(i)]));
  return sampler.sums(around).reshape(shape).to(x.dtype()).contiguous();
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

Partition sampled(const WholeCall& call) {
  const bool flat = call.inputs()[0].dim() == 4;
  return {.letters = flat ? "nc11,nxy1->ncxy" : "nc111,nxyz1->ncxyz", .linearity = Linearity::first};
}

Partition gridded(const WholeCall& call) {
  return {.letters = "n11->n" + parts::uncut(call.results().at(0)).substr(1), .on_parts = [](PartCall& part) {
            Dims size = detail::dims_in(part["size"]);
            size[0] = part.inputs[0].sizes[0];
            part["size"] = size;
            return part.run();
          }};
}

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"grid_sample", "grid_sample(x, grid, mode='bilinear', padding_mode='zeros', align_corners=None)",
     "The elements of x [N, C, H, W] or [N, C, D, H, W] at the places of grid [N, H', W', 2] or [N, D', H', W', 3], "
     "which "
     "are (column, row) from -1 to 1: bilinear, nearest or bicubic; outside are zeros, the border or a reflection.",
     OpFacts(true, Autocast::full), floating, grid_sample_samples, sampled, detail::boxed<call_grid_sample>},
    {"affine_grid", "affine_grid(theta, size, align_corners=None)",
     "The grid for grid_sample that the affine maps theta [N, 2, 3] or [N, 3, 4] make for a result of the size.", true,
     floating, affine_grid_samples, gridded, detail::boxed<call_affine_grid>},
};

}  // namespace

std::span<const OpRecord> grid_records() { return records; }

}  // namespace weft
