#include "../detail/autocast.hpp"
#include "../differences.hpp"

#include <algorithm>

#include "../create.hpp"
#include "../detail/indices.hpp"
#include "../detail/records.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../scan.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// Views without the last and without the first element along dim.
struct Neighbours {
  Tensor left, right;
};
Neighbours neighbours(const Tensor& x, int dim) {
  const int64_t steps = std::max<int64_t>(size_along(x, dim) - 1, 0);
  const int64_t size = size_along(x, dim);
  return {x.narrow(dim, 0, steps), x.narrow(dim, size - steps, steps)};
}

void check_has_dims(const Tensor& x) {
  if (WEFT_UNLIKELY(checked(x).dim() == 0)) raise_shapes("a 0-d tensor has no neighbours");
}

// x between the parts that are given.
Tensor joined(const Tensor& x, int dim, const Tensor& before, const Tensor& after) {
  std::vector<Tensor> parts;
  for (const Tensor* part : {&before, &x, &after}) {
    if (!part->defined()) continue;
    if (WEFT_UNLIKELY(part->dim() != x.dim())) {
      raise_shapes(fmt::format("a part of shape {} does not go with {}", part->shape().text(), x.shape().text()),
                   "both have one rank");
    }
    parts.push_back(*part);
  }
  return parts.size() == 1 ? x : cat(parts, dim);
}

// ---- integrals ------------------------------------------------------------------------------------------------------

void check_samples(const Tensor& y) {
  check_has_dims(y);
  if (y.dtype() == DType::boolean) raise<DTypeError>({.problem = "there is no integral of bool"});
}

// The distances of the points, to be broadcast to the samples' neighbours.
Tensor distances(const Tensor& y, const Tensor& x, int dim) {
  check_has_dims(x);
  if (x.dtype() == DType::boolean) raise<DTypeError>({.problem = "points cannot be bool"});
  Dims shape;
  if (x.dim() == 1) {
    if (x.numel() != size_along(y, dim)) {
      raise_shapes(fmt::format("{} points for {} samples", x.numel(), size_along(y, dim)));
    }
    shape = Dims::filled(y.dim(), 1);
    shape[dim] = x.numel();
  } else {
    shape = Dims::filled(std::max(y.dim() - x.dim(), 0), 1);
    for (const int64_t size : x.sizes()) shape.push_back(size);
  }
  const auto [left, right] = neighbours(x.reshape(shape), dim);
  return right - left;
}

Tensor sums_of_neighbours(const Tensor& y, int dim) {
  const auto [left, right] = neighbours(y, dim);
  return left + right;
}

// No samples have the integral 0.
Tensor no_integral(const Tensor& y, int dim) {
  Dims shape = y.shape();
  shape.erase(dim);
  return zeros(shape, {y.dtype(), y.device()});
}

}  // namespace

Tensor diff(const Tensor& x, int64_t n, int dim, const Tensor& prepend, const Tensor& append, Location where) {
  const CallScope call("diff", where);
  check_has_dims(x);
  expect_at_least("n", n, 0);
  const int along = wrap_dim(dim, x.dim());
  if (n == 0) return x.clone();
  Tensor out = joined(x, along, prepend, append);
  n = std::min(n, std::max<int64_t>(size_along(out, along), 1));
  if (is_meta(out)) {  // at once, however many
    Dims shape = out.shape();
    shape[along] = std::max<int64_t>(shape[along] - n, 0);
    return without_elements(out, shape);
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto [left, right] = neighbours(out, along);
    out = out.dtype() == DType::boolean ? logical_xor(right, left) : right - left;
  }
  return out;
}

Tensor trapezoid(const Tensor& y, double dx, int dim, Location where) {
  const CallScope call("trapezoid", where);
  WEFT_IN_FULL(trapezoid, y, dx, dim, where);
  check_samples(y);
  const int along = wrap_dim(dim, y.dim());
  if (size_along(y, along) == 0) return no_integral(y, along);
  const Tensor ends = y.select(along, 0) + y.select(along, -1);
  return (sum(y, {along}) - ends * 0.5) * dx;
}
Tensor trapezoid(const Tensor& y, const Tensor& x, int dim, Location where) {
  const CallScope call("trapezoid", where);
  WEFT_IN_FULL(trapezoid, y, x, dim, where);
  check_samples(y);
  const int along = wrap_dim(dim, y.dim());
  if (size_along(y, along) == 0) return no_integral(y, along);
  const Tensor areas = sums_of_neighbours(y, along) * distances(y, x, along);
  return sum(areas, {along}) / 2.0;
}
Tensor cumulative_trapezoid(const Tensor& y, double dx, int dim, Location where) {
  const CallScope call("cumulative_trapezoid", where);
  WEFT_IN_FULL(cumulative_trapezoid, y, dx, dim, where);
  check_samples(y);
  const int along = wrap_dim(dim, y.dim());
  return cumsum(sums_of_neighbours(y, along) * (dx / 2), along);
}
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int dim, Location where) {
  const CallScope call("cumulative_trapezoid", where);
  WEFT_IN_FULL(cumulative_trapezoid, y, x, dim, where);
  check_samples(y);
  const int along = wrap_dim(dim, y.dim());
  const Tensor areas = sums_of_neighbours(y, along) * distances(y, x, along);
  return cumsum(areas, along) / 2.0;
}

namespace {

template <Tensor (*evenly)(const Tensor&, double, int, Location),
          Tensor (*at_points)(const Tensor&, const Tensor&, int, Location)>
Tensor call_integral(const Tensor& y, const Tensor& x, std::optional<double> dx, int dim) {
  if (!x.defined()) return evenly(y, dx.value_or(1), dim, {});
  if (dx) raise_value("x and dx", "one of them", "both");
  return at_points(y, x, dim, {});
}

std::vector<Values> diff_samples(SampleMaker& make) {
  return {{make.tensor({5})},
          {make.tensor({2, 5}), int64_t{2}},
          {make.tensor({3, 2}), int64_t{1}, int64_t{0}, make.tensor({1, 2}), make.tensor({2, 2})},
          {make.tensor({2, 3}), int64_t{4}, int64_t{-1}},
          {make.tensor({2, 3}), int64_t{0}},
          {make.tensor({0, 2}), int64_t{1}, int64_t{0}}};
}
std::vector<Values> integral_samples(SampleMaker& make) {
  return {{make.tensor({5})},
          {make.tensor({2, 3}), make.tensor({3})},
          {make.tensor({3, 2, 4}), std::monostate{}, 0.5, int64_t{0}},
          {make.tensor({2, 3, 2}), make.tensor({3, 2}), std::monostate{}, int64_t{-2}},
          {make.tensor({2, 1}), make.tensor({2, 1})}};
}

constexpr const char* integral_schema = "trapezoid(y, x=None, *, dx=None, dim=-1)";
/// Points of fewer dimensions, but for those along dim alone, broadcast from the right.
Partition integrated(const WholeCall& call) {
  const Tensor x = call.tensor("x");
  const bool broadcasts = x.defined() && x.dim() > 1 && x.dim() != call.inputs()[0].dim();
  return broadcasts ? parts::whole(call) : parts::along(call);
}

constexpr OpRecord records[] = {
    {"diff", "diff(x, n=1, dim=-1, prepend=None, append=None)",
     "Each element less the one before it along dim, n times over; of bool whether they differ. prepend and append are "
     "joined to x first.",
     true, OpRecord::Domain::any, diff_samples, parts::along, detail::boxed<&weft::diff>},
    {"trapezoid", integral_schema,
     "The integral of y along dim by the trapezoidal rule, for samples dx = 1 apart or at the points x.",
     OpFacts(true, Autocast::full), OpRecord::Domain::numeric, integral_samples, integrated,
     detail::boxed<call_integral<weft::trapezoid, weft::trapezoid>>},
    {"cumulative_trapezoid", "cumulative_trapezoid(y, x=None, *, dx=None, dim=-1)",
     "The integrals of y up to each sample but the first, as trapezoid.", OpFacts(true, Autocast::full),
     OpRecord::Domain::numeric, integral_samples, integrated,
     detail::boxed<call_integral<weft::cumulative_trapezoid, weft::cumulative_trapezoid>>},
};

}  // namespace

std::span<const OpRecord> difference_records() { return records; }

}  // namespace weft
