#include <algorithm>
#include <cmath>

#include "../ops/detail/common.hpp"
#include "../ops/detail/promote.hpp"
#include "../ops/pointwise.hpp"
#include "../ops/reduce.hpp"
#include "rule-inl.hpp"
#include "step_by_ops-inl.hpp"

namespace weft::optim {

template <>
struct Description<AdafactorOptions> {
  using O = AdafactorOptions;
  static constexpr auto fields = std::tuple(
      field("lr", &O::lr), field("beta2_decay", &O::beta2_decay).from(-highest, 0),
      field("eps1", &O::eps1).in_tuple("eps", 0), field("eps2", &O::eps2).in_tuple("eps", 1),
      field("d", &O::d).from(1, highest), field("weight_decay", &O::weight_decay), field("maximize", &O::maximize));
};

namespace {

constexpr Rule rule = {"Adafactor", infos<AdafactorOptions>,
                       [](std::span<const double>) -> const char* { return nullptr; }};

enum StateNumber : size_t { row_var, col_var, variance };

bool is_factored(const Tensor& parameter) { return parameter.dim() > 1; }

Tensor root_mean_square(const Tensor& x) { return norm(x) / std::sqrt(static_cast<double>(x.numel())); }

/// The mean of g² along a dimension, without allocating g².
Tensor mean_square(const Tensor& g, int64_t dim) {
  return square(vector_norm(g, 2, {dim}, true)) / static_cast<double>(g.size(dim));
}

struct Moved {
  Tensor parameter, states[3];
};

Moved moved_by(const AdafactorOptions& o, const Tensor& parameter, const std::vector<Tensor>& state, int64_t step) {
  const DType wide = compute_type(parameter.dtype());
  const Tensor p = parameter.to(wide), positive = parameter.grad().to(wide), g = o.maximize ? -positive : positive;
  const auto t = static_cast<double>(step);
  const double fresh = std::pow(t, double{o.beta2_decay}), rate = std::min(double{o.lr}, 1 / std::sqrt(t));
  const double eps1 = static_cast<std::optional<double>>(o.eps1).value_or(machine_epsilon(parameter.dtype()));
  const auto moved = [&](const Tensor& average, const Tensor& now) { return average + fresh * (now - average); };
  Moved u;
  Tensor estimate;
  if (is_factored(parameter)) {
    u.states[row_var] = moved(state[row_var], mean_square(g, -1));
    u.states[col_var] = moved(state[col_var], mean_square(g, -2));
    const Tensor share = u.states[row_var] / maximum(mean(u.states[row_var], {-2}, true), eps1);
    estimate = share * u.states[col_var];
  } else {
    u.states[variance] = moved(state[variance], g * g);
    estimate = u.states[variance];
  }
  const Tensor direction = rsqrt(maximum(std::move(estimate), eps1 * eps1)) * g;
  const Tensor excess = maximum(root_mean_square(direction) / double{o.d}, 1.0);
  const Tensor length = maximum(root_mean_square(p), double{o.eps2}) * rate;
  u.parameter = (p * (1 - o.lr * o.weight_decay) - (length / excess) * direction).to(parameter.dtype());
  return u;
}

}  // namespace

FactoredOptimizer::FactoredOptimizer(const Rule& r) : Optimizer(r, {"row_var", "col_var", "variance"}) {}

bool FactoredOptimizer::is_kept(const Tensor& parameter, size_t state) const {
  return is_factored(parameter) == (state != variance);
}

Dims FactoredOptimizer::state_shape(const Tensor& parameter, size_t state) const {
  Dims shape = parameter.shape();
  if (is_factored(parameter) && state == row_var) shape[shape.size() - 1] = 1;
  if (is_factored(parameter) && state == col_var) shape[shape.size() - 2] = 1;
  return shape;
}

void FactoredOptimizer::step(Location where) {
  const auto update_of = [](const Group& group, const Tensor& p, const std::vector<Tensor>& state, int64_t step) {
    const Moved u = moved_by(options_of<AdafactorOptions>(group.values), p, state, step);
    return Update{u.parameter, {std::begin(u.states), std::end(u.states)}};
  };
  step_by_ops(update_of, where);
}

template <>
const Rule& rule_of<AdafactorOptions>() {
  return rule;
}
template class OptimizerOf<AdafactorOptions, FactoredOptimizer>;
template AdafactorOptions options_named<AdafactorOptions>(const NamedOptions&, Location);

}  // namespace weft::optim
