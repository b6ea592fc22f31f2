// Pooling over windows at random places, and putting pooled elements back.
#include "../pool.hpp"

#include <algorithm>

#include "../create.hpp"
#include "../detail/reducing.hpp"
#include "../detail/windows.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../random.hpp"
#include "../scatter.hpp"
#include "../../tensor/checked.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// ---- windows at random places ---------------------------------------------------------------------------------------

Dims fractional_size(const Tensor& x, int rank, const FractionalPoolOptions& o) {
  if (!o.output_size.empty()) return for_each_dim(o.output_size, rank, "output_size", 1);
  const auto given = static_cast<int>(o.output_ratio.size());
  if (WEFT_UNLIKELY(given != rank && given != 1)) {
    raise<ValueError>({.problem = given == 0 ? "needs an output_size or an output_ratio"
                                             : fmt::format("{} output ratios for {} dimensions", given, rank)});
  }
  Dims size;
  for (int i = 0; i < rank; ++i) {
    const double ratio = o.output_ratio[static_cast<size_t>(given == 1 ? 0 : i)];
    if (WEFT_UNLIKELY(!(ratio > 0 && ratio < 1))) {
      raise<ValueError>({.problem = fmt::format("output_ratio {} is not between 0 and 1", ratio)});
    }
    size.push_back(static_cast<int64_t>(static_cast<double>(x.size(i - rank)) * ratio));
  }
  return for_each_dim(size, rank, "output_size", 1);
}

// Where the windows of each plane begin along one dimension: [planes, count], from a sample for each plane.
Tensor begins(const Tensor& sample, int64_t room, int64_t count) {
  const Tensor last = full({sample.numel(), 1}, room, {DType::i64, sample.device()});
  if (count == 1) return last;
  const double apart = static_cast<double>(room) / static_cast<double>(count - 1);
  const Tensor u = sample.unsqueeze(1), i = arange(0, count - 1, 1, {sample.dtype(), sample.device()});
  const Tensor first = ((i + u) * apart).to(DType::i64) - (u * apart).to(DType::i64);
  return cat({clip(first, 0, room), last}, 1);
}

// The flat places of each window's elements: [planes, windows, elements].
Tensor window_places(const Tensor& samples, const Dims& sizes, const Dims& counts, const Dims& kernel) {
  const int rank = sizes.size();
  const int64_t planes = samples.sizes()[0];
  Tensor places;
  for (int i = 0; i < rank; ++i) {
    // As PyTorch: the columns' sample comes first of two, and last of three.
    const Tensor sample = samples.select(1, rank == 2 ? 1 - i : i);
    Dims along = Dims::filled(1 + 2 * rank, 1), within = along;
    along[0] = planes;
    along[1 + i] = counts[i];
    within[1 + rank + i] = kernel[i];
    const Tensor at = begins(sample, sizes[i] - kernel[i], counts[i]).reshape(along) +
                      arange(0, kernel[i], 1, {DType::i64, samples.device()}).reshape(within);
    places = places.defined() ? places * sizes[i] + at : at;
  }
  return places.reshape({planes, counts.product(), kernel.product()});
}

ValuesAndIndices fractional_max_pool(int rank, const Tensor& x, const Dims& kernel_size,
                                     const FractionalPoolOptions& o) {
  check_pooled(x, rank);
  check_floating(x);
  const Dims kernel = for_each_dim(kernel_size, rank, "kernel_size", 1), counts = fractional_size(x, rank, o);
  const Dims first = leading(x, rank), sizes = x.sizes().last(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    if (WEFT_LIKELY(kernel[i] <= sizes[i] && counts[i] <= sizes[i] - kernel[i] + 1)) continue;
    raise<ShapeError>(
        {.problem = fmt::format("{} windows of {} do not fit {} elements", counts[i], kernel[i], sizes[i]),
         .remedy = "output_size + kernel_size - 1 is at most the input's size"});
  }
  const Dims wanted = first.size() == 1 ? Dims{1, first[0], rank} : Dims{first[0], first[1], rank};
  if (o.random_samples.defined()) expect_shape("random_samples", o.random_samples, wanted);
  check_same_device({&x, &o.random_samples});
  const Dims shape = joined(first, counts);
  const int64_t planes = first.product();
  const Tensor planes_of_x = x.reshape({planes, sizes.product()});
  Tensor index;
  {
    const NoGradGuard unrecorded;
    const Tensor samples =
        o.random_samples.defined() ? o.random_samples : rand(wanted, {x.dtype(), x.device()}, o.generator);
    check_floating(samples);
    const Tensor places = window_places(to_compute_type(samples).reshape({planes, rank}), sizes, counts, kernel);
    const Tensor elements = gather(planes_of_x, 1, places.flatten(1)).reshape(places.shape());
    index = take_along_dim(places, max(elements, 2, true).indices, 2).squeeze(2);
  }
  return {gather(planes_of_x, 1, index).reshape(shape), index.reshape(shape)};
}

// ---- max_unpool -----------------------------------------------------------------------------------------------------

Dims unpooled_sizes(const Tensor& x, int rank, const Dims& kernel_size, const UnpoolOptions& o) {
  const Dims kernel = for_each_dim(kernel_size, rank, "kernel_size", 1);
  const Dims stride = o.stride.empty() ? kernel : for_each_dim(o.stride, rank, "stride", 1);
  const Dims padding = for_each_dim(o.padding, rank, "padding", 0);
  Dims sizes;
  for (int i = 0; i < rank; ++i) {
    const Checked size = Checked(x.size(i - rank) - 1) * stride[i] + kernel[i] - Checked(2) * padding[i];
    if (WEFT_UNLIKELY(!size.fits() || size.value() < 0)) {
      raise<ShapeError>({.problem = fmt::format("windows of {}, {} apart, with padding {} give no size", kernel[i],
                                                stride[i], padding[i])});
    }
    sizes.push_back(size.value());
  }
  if (o.output_size.empty()) return sizes;
  Dims given = o.output_size;
  if (given.size() == rank + 2) given = std::span<const int64_t>(given).last(static_cast<size_t>(rank));
  if (WEFT_UNLIKELY(given.size() != rank)) {
    raise<ValueError>({.problem = fmt::format("output_size {} is not for {} dimensions", given.text(), rank)});
  }
  for (int i = 0; i < rank; ++i) {
    const bool fits = given[i] > sizes[i] - stride[i] && (Checked(given[i]) - sizes[i] - stride[i]).value() < 0;
    if (WEFT_LIKELY(fits && given[i] >= 0)) continue;
    raise<ValueError>({.problem = fmt::format("output_size {} is not within a stride of {} from {}", given.text(),
                                              stride[i], sizes[i])});
  }
  return given;
}

Tensor max_unpool(int rank, const Tensor& x, const Tensor& indices, const Dims& kernel_size, const UnpoolOptions& o) {
  check_pooled(x, rank);
  if (WEFT_UNLIKELY(!(checked(indices).shape() == x.shape()))) {
    raise<ShapeError>({.problem = fmt::format("indices of shape {} for elements of shape {}", indices.shape().text(),
                                              x.shape().text())});
  }
  const Dims shape = joined(leading(x, rank), unpooled_sizes(x, rank, kernel_size, o));
  const Tensor empty = flat(zeros(shape, {x.dtype(), x.device()}), rank);
  return scatter(empty, -1, flat(indices, rank), flat(x, rank)).reshape(shape);
}

}  // namespace

ValuesAndIndices fractional_max_pool2d(const Tensor& x, const Dims& kernel_size, const FractionalPoolOptions& options,
                                       Location where) {
  const CallScope call("fractional_max_pool2d", where);
  return fractional_max_pool(2, x, kernel_size, options);
}
ValuesAndIndices fractional_max_pool3d(const Tensor& x, const Dims& kernel_size, const FractionalPoolOptions& options,
                                       Location where) {
  const CallScope call("fractional_max_pool3d", where);
  return fractional_max_pool(3, x, kernel_size, options);
}

#define WEFT_UNPOOL(rank, n)                                                                                          \
  Tensor max_unpool##n(const Tensor& x, const Tensor& indices, const Dims& kernel_size, const UnpoolOptions& options, \
                       Location where) {                                                                              \
    const CallScope call("max_unpool" #n, where);                                                                     \
    return max_unpool(rank, x, indices, kernel_size, options);                                                        \
  }
WEFT_UNPOOL(1, 1d)
WEFT_UNPOOL(2, 2d)
WEFT_UNPOOL(3, 3d)
#undef WEFT_UNPOOL

}  // namespace weft
