#include "../detail/corrected.hpp"
#include "../detail/records.hpp"
#include "../reduce.hpp"
#include "../detail/parts.hpp"

namespace weft {

namespace {

using Typed = Tensor (*)(const Tensor&, const Dims&, bool, std::optional<DType>, Location);
using Plain = Tensor (*)(const Tensor&, const Dims&, bool, Location);

// var(x, dim, unbiased, keepdim), var(x, unbiased) and var(x, dim, *, correction, keepdim), as PyTorch has them.
template <Tensor (*reduction)(const Tensor&, const Dims&, double, bool, Location)>
Tensor call_corrected(const Tensor& x, const Value& dim, std::optional<bool> unbiased, bool keepdim,
                      std::optional<double> correction) {
  const Corrected given = corrected("var", dim, unbiased, correction);
  return reduction(x, given.dims, given.correction, keepdim, {});
}

template <Tensor (*whole)(const Tensor&, Location), ValuesAndIndices (*along)(const Tensor&, int, bool, Location),
          Tensor (*of_two)(const Tensor&, const Tensor&, Location)>
std::vector<Tensor> call_extreme(const Tensor& x, const Value& dim, bool keepdim) {
  if (std::holds_alternative<std::monostate>(dim)) return {whole(x, {})};
  if (const auto* other = std::get_if<Tensor>(&dim)) return {of_two(x, *other, {})};
  auto [values, index] = along(x, detail::unboxed<int>(dim, 1), keepdim, {});
  return {std::move(values), std::move(index)};
}

std::vector<Values> sum_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})},
          {make.tensor({2, 3, 2}), Dims{0, -1}},
          {make.tensor({2, 3}), Dims(1), true},
          {make.tensor({})},
          {make.tensor({0, 2}), Dims(0)}};
}
std::vector<Values> extreme_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})},
          {make.tensor({2, 3, 2}), Dims{0, -1}},
          {make.tensor({2, 3}), Dims(1), true},
          {make.tensor({})},
          {make.tensor({0, 2}), Dims(1)}};
}
std::vector<Values> along_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})},
          {make.tensor({2, 3, 2}), int64_t{1}},
          {make.tensor({2, 3}), int64_t{-2}, true},
          {make.tensor({}), int64_t{0}},
          {make.tensor({0, 2}), int64_t{1}}};
}
std::vector<Values> larger_samples(SampleMaker& make) {
  std::vector<Values> samples = along_samples(make);
  samples.push_back({make.tensor({2, 3}, -2, 0), make.tensor({3}, 0.1, 2)});
  return samples;
}
std::vector<Values> variance_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})},
          {make.tensor({2, 3}), false},
          {make.tensor({2, 3, 2}), Dims{0, 2}, false},
          {make.tensor({2, 3}), Dims(-1), true, true},
          {make.tensor({2, 3}), Dims(-1), std::monostate{}, true, 0.5},
          {make.tensor({0, 2}), Dims(1)}};
}
std::vector<Values> listed_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), Dims(1)},
          {make.tensor({2, 3, 2}), Dims{0, 2}, true},
          {make.tensor({}), Dims(0)},
          {make.tensor({0, 2}), Dims(1)}};
}

constexpr PartitionRule sum_parts = parts::reduced<ReduceOp::sum>, mean_parts = parts::averaged,
                        prod_parts = parts::reduced<ReduceOp::prod>, amax_parts = parts::reduced<ReduceOp::max>,
                        amin_parts = parts::reduced<ReduceOp::min>, any_parts = parts::reduced<ReduceOp::any>,
                        all_parts = parts::reduced<ReduceOp::all>, logsumexp_parts = parts::along;

/// The second argument is a dimension, or the other operand.
Partition along_or_beside(const WholeCall& call) {
  return call.inputs().size() > 1 ? parts::pointwise(call) : parts::along(call);
}

#define WEFT_TYPED(op, autocast, domain, samples, document)                                              \
  OpRecord {                                                                                             \
#op, #op "(x, dim=None, keepdim=False, *, dtype=None)", document, OpFacts(true, Autocast::autocast), \
        OpRecord::Domain::domain, samples, op##_parts, detail::boxed < static_cast < Typed>(&weft::op)>  \
  }
#define WEFT_PLAIN(op, facts, domain, samples, document)                                                     \
  OpRecord {                                                                                                 \
#op, #op "(x, dim=None, keepdim=False)", document, facts, OpRecord::Domain::domain, samples, op##_parts, \
        detail::boxed < static_cast < Plain>(&weft::op)>                                                     \
  }

constexpr OpRecord records[] = {
    WEFT_TYPED(sum, full, any, sum_samples,
               "Sum over dim, or over all dimensions. Integers and bool give int64, uint64 itself; 16-bit floats "
               "accumulate in float32."),
    WEFT_TYPED(mean, as_given, floating, extreme_samples, "Arithmetic mean over dim, or over all dimensions."),
    WEFT_TYPED(
        prod, full, any, sum_samples,
        "Product over dim, or over all dimensions; dtypes as sum, complex64 multiplies in complex128. The gradient is "
        "exact at zeros."),
    WEFT_PLAIN(amax, true, numeric, extreme_samples, "The largest over dim; NaN wins, equal ones share the gradient."),
    WEFT_PLAIN(amin, true, numeric, extreme_samples, "The smallest over dim; NaN wins, equal ones share the gradient."),
    WEFT_PLAIN(any, false, any, sum_samples, "Whether any element is non-zero."),
    WEFT_PLAIN(all, false, any, sum_samples, "Whether all elements are non-zero."),
    WEFT_PLAIN(logsumexp, OpFacts(true, Autocast::full), floating, listed_samples,
               "log(sum(exp(x))) over dim, without overflow."),
    {"max", "max(x, dim|other=None, keepdim=False) -> (values, indices)",
     "The largest element, or with dim the largest along it and their first indices (int64). NaN wins. With a tensor "
     "for dim as maximum.",
     true, OpRecord::Domain::numeric, larger_samples, along_or_beside,
     detail::boxed<call_extreme<weft::max, weft::max, weft::max>>},
    {"min", "min(x, dim|other=None, keepdim=False) -> (values, indices)",
     "The smallest element, or with dim the smallest along it and their first indices (int64). NaN wins. With a tensor "
     "for dim as minimum.",
     true, OpRecord::Domain::numeric, larger_samples, along_or_beside,
     detail::boxed<call_extreme<weft::min, weft::min, weft::min>>},
    {"argmax", "argmax(x, dim=None, keepdim=False)",
     "Index of the first largest element along dim, or of the flattened tensor; NaN counts as largest.", false,
     OpRecord::Domain::numeric, along_samples, parts::along, detail::boxed<weft::argmax>},
    {"argmin", "argmin(x, dim=None, keepdim=False)",
     "Index of the first smallest element along dim, or of the flattened tensor; NaN counts as smallest.", false,
     OpRecord::Domain::numeric, along_samples, parts::along, detail::boxed<weft::argmin>},
    {"var", "var(x, dim=None, unbiased=None, keepdim=False, *, correction=None)",
     "Sum of squared deviations from the mean over max(0, n - correction); the correction is 1, or 0 where unbiased is "
     "False.",
     true, OpRecord::Domain::floating, variance_samples, parts::along, detail::boxed<call_corrected<weft::var>>},
    {"std", "std(x, dim=None, unbiased=None, keepdim=False, *, correction=None)",
     "The root of var; where it is 0 so is the gradient.", true, OpRecord::Domain::floating, variance_samples,
     parts::along, detail::boxed<call_corrected<weft::std>>},
};

}  // namespace

std::span<const OpRecord> reduce_records() { return records; }

}  // namespace weft
