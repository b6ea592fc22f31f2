#include "../detail/numbers.hpp"
#include "../detail/records.hpp"
#include "../pool.hpp"
#include "../detail/parts.hpp"

namespace weft {

namespace {

using IndexedMaxPool = ValuesAndIndices (*)(const Tensor&, const Dims&, const MaxPoolOptions&, Location);
using MaxPool = Tensor (*)(const Tensor&, const Dims&, const MaxPoolOptions&, Location);
using Adaptive = Tensor (*)(const Tensor&, const Dims&, Location);
using MeanPool = Tensor (*)(const Tensor&, const Dims&, const AveragePoolOptions&, Location);
using IndexedAdaptive = ValuesAndIndices (*)(const Tensor&, const Dims&, Location);
using Fractional = ValuesAndIndices (*)(const Tensor&, const Dims&, const FractionalPoolOptions&, Location);
using Unpool = Tensor (*)(const Tensor&, const Tensor&, const Dims&, const UnpoolOptions&, Location);

std::vector<Tensor> wanted(ValuesAndIndices found, bool return_indices) {
  if (!return_indices) return {std::move(found.values)};
  return {std::move(found.values), std::move(found.indices)};
}

template <MaxPool pool, IndexedMaxPool indexed>
std::vector<Tensor> call_max(const Tensor& x, const Dims& size, const Dims& stride, const Dims& padding,
                             const Dims& dilation, bool ceil_mode, bool return_indices) {
  const MaxPoolOptions options = {stride, padding, dilation, ceil_mode};
  if (!return_indices) return {pool(x, size, options, {})};
  return wanted(indexed(x, size, options, {}), true);
}
template <Adaptive pool, IndexedAdaptive indexed>
std::vector<Tensor> call_adaptive(const Tensor& x, const Dims& size, bool return_indices) {
  if (!return_indices) return {pool(x, size, {})};
  return wanted(indexed(x, size, {}), true);
}
template <MeanPool pool>
Tensor call_line_mean(const Tensor& x, const Dims& size, const Dims& stride, const Dims& padding, bool ceil_mode,
                      bool count_include_pad) {
  return pool(x, size, {stride, padding, ceil_mode, count_include_pad, {}}, {});
}
template <MeanPool pool>
Tensor call_mean(const Tensor& x, const Dims& size, const Dims& stride, const Dims& padding, bool ceil_mode,
                 bool count_include_pad, std::optional<int64_t> divisor) {
  return pool(x, size, {stride, padding, ceil_mode, count_include_pad, divisor}, {});
}

template <Fractional pool>
std::vector<Tensor> call_fractional(const Tensor& x, const Dims& size, const Dims& output_size, const Value& ratio,
                                    bool return_indices, const Tensor& samples, Generator* generator) {
  return wanted(pool(x, size, {output_size, numbers_in(ratio, 3), samples, generator}, {}), return_indices);
}
template <Unpool pool>
Tensor call_unpool(const Tensor& x, const Tensor& indices, const Dims& size, const Dims& stride, const Dims& padding,
                   const Dims& output_size) {
  return pool(x, indices, size, {stride, padding, output_size}, {});
}

// ---- samples --------------------------------------------------------------------------------------------------------

const std::monostate none;

// [2, 1, 5, …] with `rank` spatial dimensions.
Tensor pooled(SampleMaker& make, int rank, bool batched = true, double low = -2) {
  constexpr int64_t sizes[] = {5, 4, 3};
  Dims shape(2);
  if (batched) shape.push_back(1);
  for (int i = 0; i < rank; ++i) shape.push_back(sizes[i]);
  return make.tensor(shape, low, 2);
}
Tensor no_batch(SampleMaker& make, int rank) {
  Dims shape{0, 2};
  for (int i = 0; i < rank; ++i) shape.push_back(3);
  return make.tensor(shape);
}
template <int rank>
std::vector<Values> max_samples(SampleMaker& make) {
  return {{pooled(make, rank), int64_t{2}},
          {pooled(make, rank, false), int64_t{3}, int64_t{2}, int64_t{1}, int64_t{1}, true, true},
          {pooled(make, rank), int64_t{2}, int64_t{1}, int64_t{1}, int64_t{2}, false, true},
          {no_batch(make, rank), int64_t{2}}};
}
template <int rank>
std::vector<Values> line_mean_samples(SampleMaker& make) {
  return {{pooled(make, rank), int64_t{2}},
          {pooled(make, rank, false), int64_t{3}, int64_t{2}, int64_t{1}, true},
          {pooled(make, rank), int64_t{3}, int64_t{1}, int64_t{1}, false, false},
          {no_batch(make, rank), int64_t{2}}};
}
template <int rank>
std::vector<Values> mean_samples(SampleMaker& make) {
  auto samples = line_mean_samples<rank>(make);
  samples.push_back({pooled(make, rank), int64_t{2}, int64_t{1}, int64_t{1}, false, true, int64_t{-3}});
  return samples;
}
template <int rank>
std::vector<Values> lp_samples(SampleMaker& make) {
  return {{pooled(make, rank, true, 0.5), 2.0, int64_t{2}},
          {pooled(make, rank, false, 0.5), 3.0, int64_t{2}, int64_t{1}, true},
          {no_batch(make, rank), 1.0, int64_t{2}}};
}
template <int rank>
std::vector<Values> adaptive_samples(SampleMaker& make) {
  return {{pooled(make, rank), int64_t{2}},
          {pooled(make, rank, false), int64_t{7}},
          {pooled(make, rank), int64_t{1}},
          {no_batch(make, rank), int64_t{2}}};
}
template <int rank>
std::vector<Values> adaptive_max_samples(SampleMaker& make) {
  auto samples = adaptive_samples<rank>(make);
  samples.push_back({pooled(make, rank), int64_t{3}, true});
  return samples;
}
template <int rank>
std::vector<Values> fractional_samples(SampleMaker& make) {
  return {{pooled(make, rank), int64_t{2}, int64_t{2}, none, true, make.tensor({2, 1, rank}, 0, 1)},
          {pooled(make, rank, false), int64_t{1}, none, 0.7, false, make.tensor({1, 2, rank}, 0, 1)}};
}
// Every window has a place of its own: a place that several share goes to the last.
Tensor own_places(SampleMaker& make, const Dims& shape, int rank) {
  const Dims last = std::span<const int64_t>(shape).last(static_cast<size_t>(rank));
  return arange(0, last.product(), 1, {DType::i64, make.device()}).reshape(last).expand(shape);
}
template <int rank>
std::vector<Values> unpool_samples(SampleMaker& make) {
  const Tensor x = pooled(make, rank);
  return {{x, own_places(make, x.shape(), rank), int64_t{2}},
          {x, own_places(make, x.shape(), rank), int64_t{2}, int64_t{3}, int64_t{0}}};
}

#define WEFT_SIZES "x, kernel_size, stride=None, padding=0, "
#define WEFT_POOL_RECORDS(rank, n, mean_arguments, call_mean_of, mean_samples_of)                                     \
  {"max_pool" #n,                                                                                                     \
   "max_pool" #n "(" WEFT_SIZES "dilation=1, ceil_mode=False, return_indices=False) -> (values, indices)",            \
   "The largest element of each window and, where asked for, its place among x's spatial elements. x is [C, ...] or " \
   "[N, C, ...]. NaN wins; of equal elements the first counts.",                                                      \
   true,                                                                                                              \
   numeric,                                                                                                           \
   max_samples<rank>,                                                                                                 \
   parts::all_but_last<rank>,                                                                                         \
   detail::boxed<call_max<max_pool##n, max_pool##n##_with_indices>>},                                                 \
      {"avg_pool" #n,                                                                                                 \
       "avg_pool" #n "(" WEFT_SIZES "ceil_mode=False, count_include_pad=True" mean_arguments ")",                     \
       "The mean of each window; padding counts as 0, or not at all.",                                                \
       true,                                                                                                          \
       floating,                                                                                                      \
       mean_samples_of<rank>,                                                                                         \
       parts::all_but_last<rank>,                                                                                     \
       detail::boxed<call_mean_of<avg_pool##n>>},                                                                     \
      {"lp_pool" #n,                                                                                                  \
       "lp_pool" #n "(x, norm_type, kernel_size, stride=None, ceil_mode=False)",                                      \
       "sum(x^norm_type)^(1 / norm_type) of each window.",                                                            \
       true,                                                                                                          \
       floating,                                                                                                      \
       lp_samples<rank>,                                                                                              \
       parts::all_but_last<rank>,                                                                                     \
       detail::boxed<lp_pool##n>},                                                                                    \
      {"adaptive_avg_pool" #n,                                                                                        \
       "adaptive_avg_pool" #n "(x, output_size)",                                                                     \
       "The means of output_size windows that cover x evenly.",                                                       \
       true,                                                                                                          \
       floating,                                                                                                      \
       adaptive_samples<rank>,                                                                                        \
       parts::all_but_last<rank>,                                                                                     \
       detail::boxed<adaptive_avg_pool##n>},                                                                          \
      {"adaptive_max_pool" #n,                                                                                        \
       "adaptive_max_pool" #n "(x, output_size, return_indices=False) -> (values, indices)",                          \
       "The largest elements of output_size windows that cover x evenly.",                                            \
       true,                                                                                                          \
       numeric,                                                                                                       \
       adaptive_max_samples<rank>,                                                                                    \
       parts::all_but_last<rank>,                                                                                     \
       detail::boxed<call_adaptive<adaptive_max_pool##n, adaptive_max_pool##n##_with_indices>>},                      \
  {                                                                                                                   \
    "max_unpool" #n, "max_unpool" #n "(x, indices, kernel_size, stride=None, padding=0, output_size=None)",           \
        "Zeros with x's elements at the indices that max_pool" #n " gave.", true, any_type, unpool_samples<rank>,     \
        parts::all_but_last<rank>, detail::boxed<call_unpool<max_unpool##n>>                                          \
  }
#define WEFT_FRACTIONAL_RECORD(rank, n)                                                                              \
  {                                                                                                                  \
    "fractional_max_pool" #n,                                                                                        \
        "fractional_max_pool" #n                                                                                     \
        "(x, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples|random_samples" \
        "=None, *, generator=None) -> (values, indices)",                                                            \
        "The largest elements of windows at random, increasing places (Graham 2014), drawn from the generator or "   \
        "given as [N, C, " #rank "] numbers in [0, 1).",                                                             \
        true, floating, fractional_samples<rank>, parts::all_but_last<rank>,                                         \
        detail::boxed<call_fractional<fractional_max_pool##n>>                                                       \
  }

using enum OpRecord::Domain;
constexpr auto any_type = OpRecord::Domain::any;
constexpr OpRecord records[] = {
    WEFT_POOL_RECORDS(1, 1d, "", call_line_mean, line_mean_samples),
    WEFT_POOL_RECORDS(2, 2d, ", divisor_override=None", call_mean, mean_samples),
    WEFT_POOL_RECORDS(3, 3d, ", divisor_override=None", call_mean, mean_samples),
    WEFT_FRACTIONAL_RECORD(2, 2d),
    WEFT_FRACTIONAL_RECORD(3, 3d),
};

}  // namespace

std::span<const OpRecord> pool_records() { return records; }

}  // namespace weft
