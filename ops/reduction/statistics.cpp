#include "../statistics.hpp"

#include "../complex.hpp"
#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/complex.hpp"
#include "../detail/corrected.hpp"
#include "../detail/indices.hpp"
#include "../detail/records.hpp"
#include "../linalg/common.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

Tensor nansum(const Tensor& x, const Dims& dims, bool keepdim, std::optional<DType> dtype, Location where) {
  const CallScope call("nansum", where);
  WEFT_IN_FULL(nansum, x, dims, keepdim, dtype, where);
  const Tensor total = sum(checked(x), dims, keepdim, dtype);
  // Where no sum is NaN no term was, and one pass was enough; on a device nobody waits to see, nor in a recorded step.
  const bool looks = x.device().is_cpu() && detail::capture_recorder == nullptr && 8 * total.numel() <= x.numel();
  if (looks && !any(isnan(total)).item<bool>()) return total;
  return sum(masked_fill(x, isnan(x), 0), dims, keepdim, dtype);
}

Tensor nanmean(const Tensor& x, const Dims& dims, bool keepdim, std::optional<DType> dtype, Location where) {
  const CallScope call("nanmean", where);
  check_floating(checked(x));
  const Tensor count = sum(logical_not(isnan(x)), dims, keepdim);
  const DType result = dtype.value_or(x.dtype()), wide = compute_type(result);
  const Tensor total = nansum(x.to(wide), dims, keepdim);
  return (total / count.to(wide)).to(result);
}

MinMax aminmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim, Location where) {
  const CallScope call("aminmax", where);
  const Dims dims = dim ? Dims(*dim) : Dims();
  if (checked(x).dtype() != DType::boolean) return {amin(x, dims, keepdim), amax(x, dims, keepdim)};
  const Tensor bits = x.to(DType::u8);
  return {amin(bits, dims, keepdim).to(DType::boolean), amax(bits, dims, keepdim).to(DType::boolean)};
}

DispersionAndMean var_mean(const Tensor& x, const Dims& dims, double correction, bool keepdim, Location where) {
  const CallScope call("var_mean", where);
  return {var(x, dims, correction, keepdim), mean(x, dims, keepdim)};
}
DispersionAndMean std_mean(const Tensor& x, const Dims& dims, double correction, bool keepdim, Location where) {
  const CallScope call("std_mean", where);
  return {weft::std(x, dims, correction, keepdim), mean(x, dims, keepdim)};
}

Tensor dist(const Tensor& x, const Tensor& y, double p, Location where) {
  const CallScope call("dist", where);
  WEFT_IN_FULL(dist, x, y, p, where);
  return vector_norm(checked(x) - checked(y), p);
}

Tensor renorm(const Tensor& x, double p, int dim, double maxnorm, Location where) {
  const CallScope call("renorm", where);
  WEFT_IN_FULL(renorm, x, p, dim, maxnorm, where);
  linalg::check_numbers(x);
  expect_rank_at_least("x", x, 2);
  const int along = wrap_dim(dim, x.dim());
  if (!(p > 0)) raise_value("p", "a number above 0", p);
  expect_at_least("maxnorm", maxnorm, 0);
  Dims others;
  for (int i = 0; i < x.dim(); ++i) {
    if (i != along) others.push_back(i);
  }
  const Tensor wide = to_compute_type(x);
  const Tensor length = vector_norm(wide, p, others, true);
  const Tensor factor = weft::where(length > maxnorm, maxnorm / (length + 1e-7), 1.0);
  return (wide * factor).to(x.dtype());
}

// ---- covariances ----------------------------------------------------------------------------------------------------

namespace {

void check_weights(const Tensor& weights, bool fits, int64_t count) {
  if (!fits) raise<DTypeError>({.problem = "fweights are integers and aweights floats"});
  if (weights.dim() > 1 || weights.numel() != count) {
    raise_shapes(fmt::format("weights of shape {} for {} observations", weights.shape().text(), count));
  }
  if (is_meta(weights) || weights.numel() == 0) return;
  check_elements([weights] {
    if (min(weights).item<double>() < 0) raise<ValueError>({.problem = "weights cannot be negative"});
  });
}

// The product of the weights that are given; undefined where none are.
Tensor product_of(const Tensor& fweights, const Tensor& aweights) {
  if (!fweights.defined()) return aweights;
  return aweights.defined() ? fweights * aweights : fweights;
}

Tensor covariance(const Tensor& given, int64_t correction, const Tensor& fweights, const Tensor& aweights) {
  const Tensor x = checked(given).dtype() == DType::u64 ? given.to(default_dtype()) : given;
  if (x.dim() > 2) raise_rank("x", "at most 2 dimensions", x);
  if (x.dtype() == DType::boolean) raise<DTypeError>({.problem = "there is no covariance of bool"});
  const Tensor rows = x.dim() < 2 ? x.reshape({1, -1}) : x;
  const int64_t count = rows.sizes()[1];
  check_same_device({&x, &fweights, &aweights});
  if (fweights.defined()) check_weights(fweights, is_integer(fweights.dtype()), count);
  if (aweights.defined()) check_weights(aweights, is_floating(aweights.dtype()), count);
  check_room(x.sizes(), x.dtype(), x.device());
  const Tensor w = product_of(fweights.defined() ? fweights.to(DType::i64) : fweights, aweights);
  const auto weighted = [&](const Tensor& t) { return w.defined() ? t * w : t; };
  const Tensor total = w.defined() ? sum(w) : full({}, count, {DType::i64, x.device()});
  const Tensor average = sum(weighted(rows), {1}) / total;
  Tensor divisor = total - correction;
  if (aweights.defined() && correction != 0) divisor = total - correction * sum(w * aweights) / total;
  const Tensor centred = rows - average.unsqueeze(1), other = weighted(centred);
  const Tensor safe = clip(divisor, Scalar(int64_t{0}), {});
  const DType common = result_type(centred, other);
  return (matmul(centred.to(common), conjugate(other.to(common)).t()) / safe).squeeze();
}

}  // namespace

Tensor cov(const Tensor& x, int64_t correction, const Tensor& fweights, const Tensor& aweights, Location where) {
  const CallScope call("cov", where);
  WEFT_IN_FULL(cov, x, correction, fweights, aweights, where);
  return covariance(x, correction, fweights, aweights);
}

Tensor corrcoef(const Tensor& x, Location where) {
  const CallScope call("corrcoef", where);
  WEFT_IN_FULL(corrcoef, x, where);
  const Tensor c = covariance(x, 1, {}, {});
  if (c.dim() == 0) return c / c;
  const Tensor variance = c.diagonal(), deviation = sqrt(is_complex(c.dtype()) ? real(variance) : variance);
  const Tensor scaled = c / deviation.unsqueeze(1) / deviation.unsqueeze(0);
  const auto bounded = [](const Tensor& t) { return clip(t, Scalar(-1.0), Scalar(1.0)); };
  return is_complex(c.dtype()) ? complex(bounded(real(scaled)), bounded(imag(scaled))) : bounded(scaled);
}

// ---- records --------------------------------------------------------------------------------------------------------

namespace {

std::vector<Tensor> call_aminmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  auto [least, highest] = aminmax(x, dim, keepdim);
  return {std::move(least), std::move(highest)};
}

template <DispersionAndMean (*function)(const Tensor&, const Dims&, double, bool, Location)>
std::vector<Tensor> call_spread(const Tensor& x, const Value& dim, std::optional<bool> unbiased, bool keepdim,
                                std::optional<double> correction) {
  const Corrected given = corrected("var_mean", dim, unbiased, correction);
  auto [spread, average] = function(x, given.dims, given.correction, keepdim, {});
  return {std::move(spread), std::move(average)};
}

std::vector<Values> sum_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})},
          {make.tensor({2, 3, 2}), Dims{0, -1}},
          {make.tensor({2, 3}), Dims(1), true},
          {make.tensor({})},
          {make.tensor({0, 2}), Dims(1)}};
}
std::vector<Values> extremes_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})},
          {make.tensor({2, 3, 2}), int64_t{-2}},
          {make.tensor({2, 3}), int64_t{1}, true},
          {make.tensor({}), int64_t{0}},
          {make.tensor({0, 2}), int64_t{1}}};
}
std::vector<Values> spread_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})},
          {make.tensor({2, 3}), false},
          {make.tensor({2, 3, 2}), Dims{0, 2}, false},
          {make.tensor({2, 3}), Dims(-1), std::monostate{}, true, 0.5},
          {make.tensor({0, 2}), Dims(1)}};
}
std::vector<Values> dist_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({2, 3})},
          {make.tensor({2, 3}), make.tensor({3}), 1.5},
          {make.tensor({3}), make.tensor({3}), 1.0},
          {make.tensor({}), make.tensor({})},
          {make.tensor({0, 2}), make.tensor({2})}};
}
std::vector<Values> renorm_samples(SampleMaker& make) {
  return {{make.tensor({3, 4}), 2.0, int64_t{0}, 2.5},
          {make.tensor({2, 3, 2}), 1.0, int64_t{-2}, 3.0},
          {make.tensor({2, 3}), 3.0, int64_t{1}, 100.0},
          {make.tensor({0, 3}), 2.0, int64_t{1}, 1.0}};
}
std::vector<Values> cov_samples(SampleMaker& make) {
  const auto floats = [&](const Dims& shape) {
    SampleMaker other(is_floating(make.dtype()) ? make.dtype() : DType::f32, make.device(), 5);
    return other.tensor(shape, 0.2, 2);
  };
  return {{make.tensor({3, 5})},
          {make.tensor({6}), int64_t{0}},
          {make.tensor({2, 4}), int64_t{1}, make.indices({4}, 3) + 1},
          {make.tensor({2, 4}), int64_t{0}, std::monostate{}, floats({4})},
          {make.tensor({2, 4}), int64_t{1}, make.indices({4}, 3) + 1, floats({4})}};
}
std::vector<Values> corrcoef_samples(SampleMaker& make) { return {{make.tensor({2, 5})}, {make.tensor({3, 6})}}; }

using Typed = Tensor (*)(const Tensor&, const Dims&, bool, std::optional<DType>, Location);
Partition summed(const WholeCall& call) {
  Partition rule = parts::reduced<ReduceOp::sum>(call);
  rule.linearity = Linearity::none;
  return rule;
}

Partition along_others(const WholeCall& call) {
  const Tensor& x = call.inputs()[0];
  std::string word = parts::uncut(x);
  word[static_cast<size_t>(wrap_dim(detail::integer_in(call["dim"]), x.dim()))] = 'a';
  return {.letters = word + "->" + word};
}

constexpr auto any_type = OpRecord::Domain::any;
constexpr auto numeric = OpRecord::Domain::numeric;
constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"nansum", "nansum(x, dim=None, keepdim=False, *, dtype=None)",
     "Sum over dim of the elements that are not NaN; dtypes as sum.", OpFacts(true, Autocast::full), any_type,
     sum_samples, summed, detail::boxed<static_cast<Typed>(&weft::nansum)>},
    {"nanmean", "nanmean(x, dim=None, keepdim=False, *, dtype=None)",
     "Mean over dim of the elements that are not NaN; NaN where there are none.", true, floating,
     [](SampleMaker& make) {
       std::vector<Values> samples = sum_samples(make);
       samples.pop_back();
       return samples;
     },
     parts::along, detail::boxed<static_cast<Typed>(&weft::nanmean)>},
    {"aminmax", "aminmax(x, *, dim=None, keepdim=False) -> (min, max)",
     "The smallest and the largest element, or those along dim; equal ones share the gradient.", true, any_type,
     extremes_samples, parts::along, detail::boxed<call_aminmax>},
    {"var_mean", "var_mean(x, dim=None, unbiased=None, keepdim=False, *, correction=None) -> (var, mean)",
     "var and mean over dim.", true, floating, spread_samples, parts::along,
     detail::boxed<call_spread<weft::var_mean>>},
    {"std_mean", "std_mean(x, dim=None, unbiased=None, keepdim=False, *, correction=None) -> (std, mean)",
     "std and mean over dim.", true, floating, spread_samples, parts::along,
     detail::boxed<call_spread<weft::std_mean>>},
    {"dist", "dist(x, y|other, p=2)", "The p-norm of x - y.", OpFacts(true, Autocast::full), floating, dist_samples,
     parts::whole, detail::boxed<&weft::dist>},
    {"renorm", "renorm(x, p, dim, maxnorm)",
     "x with each slice along dim whose p-norm is above maxnorm scaled down to it.", OpFacts(true, Autocast::full),
     floating, renorm_samples, along_others, detail::boxed<&weft::renorm>},
    {"cov", "cov(x, *, correction=1, fweights=None, aweights=None)",
     "Covariances of the rows of x, whose columns are observations, with counts and weights of these.",
     OpFacts(true, Autocast::full), numeric, cov_samples, parts::whole, detail::boxed<&weft::cov>},
    {"corrcoef", "corrcoef(x)", "Pearson's correlations of the rows of x.", OpFacts(true, Autocast::full), numeric,
     corrcoef_samples, parts::whole, detail::boxed<&weft::corrcoef>},
};

}  // namespace

std::span<const OpRecord> statistics_records() { return records; }

}  // namespace weft
