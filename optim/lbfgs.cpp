#include <algorithm>
#include <cmath>
#include <deque>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../backends/watch/observe.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/join.hpp"
#include "../ops/matmul.hpp"
#include "../ops/pointwise.hpp"
#include "../ops/reduce.hpp"
#include "../tensor/memory_use.hpp"
#include "rule-inl.hpp"
#include "strong_wolfe-inl.hpp"

namespace weft::optim {

namespace {
constexpr const char* searches[] = {nullptr, "strong_wolfe"};
}

template <>
struct Description<LBFGSOptions> {
  using O = LBFGSOptions;
  static constexpr auto fields =
      std::tuple(field("lr", &O::lr), field("max_iter", &O::max_iter).from(1, 0x1p53),
                 field("max_eval", &O::max_eval).from(1, 0x1p53), field("tolerance_grad", &O::tolerance_grad),
                 field("tolerance_change", &O::tolerance_change), field("history_size", &O::history_size).from(1, 1e6),
                 field("line_search_fn", &O::line_search_fn).one_of(searches), field("maximize", &O::maximize));
};

namespace {

constexpr Rule rule = {"LBFGS", infos<LBFGSOptions>, [](std::span<const double>) -> const char* { return nullptr; }};

double largest(const Tensor& x) { return x.numel() == 0 ? 0 : max(abs(x)).item<double>(); }
double product(const Tensor& a, const Tensor& b) { return dot(a, b).item<double>(); }

}  // namespace

/// State kept between steps, with the names of PyTorch's state.
struct QuasiNewtonOptimizer::History {
  int64_t evaluations = 0, iterations = 0;
  Tensor direction, gradient;  ///< of the last iteration
  double length = 0, loss = 0, scale = 1;
  std::deque<Tensor> changes, steps;  ///< changes of the gradient and of the parameters, oldest first
  std::deque<double> inverse;         ///< 1 / (change · step)

  void remember(const Tensor& now, int64_t history_size) {
    const Tensor change = now - gradient, step = direction * length;
    const double curvature = product(change, step);
    if (!(curvature > 1e-10)) return;
    if (std::ssize(changes) >= history_size) changes.pop_front(), steps.pop_front(), inverse.pop_front();
    changes.push_back(change), steps.push_back(step), inverse.push_back(1 / curvature);
    scale = curvature / product(change, change);
  }

  /// The descent direction: minus the approximate inverse Hessian times the gradient, by the two-loop recursion
  /// (Nocedal 1980).
  Tensor direction_from(const Tensor& now) const {
    Tensor q = -now;
    std::vector<double> weights(changes.size());
    for (size_t i = changes.size(); i-- > 0;) {
      weights[i] = product(steps[i], q) * inverse[i];
      q = q - weights[i] * changes[i];
    }
    q = q * scale;
    for (size_t i = 0; i < changes.size(); ++i) {
      q = q + (weights[i] - product(changes[i], q) * inverse[i]) * steps[i];
    }
    return q;
  }

  /// Chooses the direction and length of the next iteration, and sets the slope at its start.
  void aim(LinePoint& at, const LBFGSOptions& o) {
    const bool is_first = ++iterations == 1;
    if (is_first) {
      direction = -at.gradient;
      changes.clear(), steps.clear(), inverse.clear(), scale = 1;
    } else {
      remember(at.gradient, o.history_size);
      direction = direction_from(at.gradient);
    }
    gradient = at.gradient, loss = at.value;
    length = is_first ? std::min(1.0, 1 / sum(abs(at.gradient)).item<double>()) * o.lr : double{o.lr};
    at.slope = product(at.gradient, direction);
  }
};

namespace {

class Vector {
 public:
  explicit Vector(const std::vector<Tensor>& parameters) : parameters_(parameters) {
    wide_ = f32;
    for (const Tensor& p : parameters) {
      if (p.dtype() == f64) wide_ = f64;
    }
  }
  Tensor gradient(bool maximize) const {
    std::vector<Tensor> parts;
    for (const Tensor& p : parameters_) {
      const Tensor g = p.grad();
      parts.push_back(g.defined() ? g.to(wide_).reshape({-1}) : zeros({p.numel()}, {wide_, p.device()}));
    }
    const Tensor all = cat(std::span<const Tensor>(parts));
    return maximize ? -all : all;
  }
  std::vector<Tensor> values() const {
    std::vector<Tensor> out;
    for (const Tensor& p : parameters_) out.push_back(p.detach().clone());
    return out;
  }
  void set(const std::vector<Tensor>& values) const {
    for (size_t i = 0; i < values.size(); ++i) parameters_[i].copy_(values[i]);
  }
  void add(double length, const Tensor& direction) const {
    std::vector<Tensor> moved;
    int64_t begin = 0;
    for (const Tensor& p : parameters_) {
      const Tensor part = direction.narrow(0, begin, p.numel()).reshape(p.shape());
      moved.push_back((p.to(wide_) + length * part).to(p.dtype()));
      begin += p.numel();
    }
    set(moved);
  }
  DType dtype() const { return wide_; }

 private:
  const std::vector<Tensor>& parameters_;
  DType wide_;
};

}  // namespace

QuasiNewtonOptimizer::QuasiNewtonOptimizer(const Rule& r)
    : Optimizer(
          r, {"func_evals", "n_iter", "d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss"}),
      history_(new History) {}
QuasiNewtonOptimizer::QuasiNewtonOptimizer(QuasiNewtonOptimizer&&) noexcept = default;
QuasiNewtonOptimizer& QuasiNewtonOptimizer::operator=(QuasiNewtonOptimizer&&) noexcept = default;
QuasiNewtonOptimizer::~QuasiNewtonOptimizer() = default;

void QuasiNewtonOptimizer::check_group(const Group& group, Location where) const {
  const char* problem = groups_.empty() ? nullptr : "it has one group of parameters only";
  for (const Tensor& p : group.parameters) {
    if (!(p.device() == group.parameters[0].device())) problem = "the parameters are on several devices";
  }
  if (problem != nullptr) raise<ValueError>({.op = name_, .problem = problem}, where);
}

void QuasiNewtonOptimizer::step(Location where) {
  raise<ValueError>({.op = name_,
                     .problem = "a step needs the loss anew, several times",
                     .remedy = "call step with a function that computes the loss and its gradients, and returns it"},
                    where);
}

Tensor QuasiNewtonOptimizer::step(const Closure& closure, Location where) {
  note_step();
  detail::refuse_recording("L-BFGS reads the loss");
  const KernelScope scope(name_, where);
  const CallScope call(name_, where);
  const detail::MemoryUseScope use(detail::MemoryUse::optimizer);
  NoGradGuard unrecorded;
  const Vector all(groups_[0].parameters);
  const std::vector<Tensor> before = all.values();
  try {
    return minimize(closure);
  } catch (...) {  // an exception of the closure, at a trial point
    all.set(before);
    throw;
  }
}

Tensor QuasiNewtonOptimizer::minimize(const Closure& closure) {
  const auto o = options_of<LBFGSOptions>(groups_[0].values);
  const Vector all(groups_[0].parameters);
  const int64_t most_evaluations = static_cast<std::optional<int64_t>>(o.max_eval).value_or(o.max_iter * 5 / 4);
  Tensor first;
  const auto evaluate = [&] {
    Tensor loss;
    {
      const EnableGradGuard recorded;
      const OutsideCalls users_code;
      const detail::MemoryUseScope use(detail::MemoryUse::forward);
      loss = closure();
    }
    const double value = loss.item<double>();
    if (!first.defined()) first = loss;
    return LinePoint{0, o.maximize ? -value : value, all.gradient(o.maximize), 0};
  };

  History h = *history_;  // a copy: an exception leaves the history unchanged
  LinePoint at = evaluate();
  int64_t evaluations = 1;
  ++h.evaluations;
  bool is_flat = largest(at.gradient) <= o.tolerance_grad;
  for (int64_t i = 1; !is_flat && i <= o.max_iter; ++i) {
    h.aim(at, o);
    if (at.slope > -o.tolerance_change) break;
    if (o.line_search_fn == LineSearch::strong_wolfe) {
      const std::vector<Tensor> from = all.values();
      const auto evaluate_at = [&](double length) {
        all.add(length, h.direction);
        LinePoint point = evaluate();
        all.set(from);
        point.at = length, point.slope = product(point.gradient, h.direction);
        return point;
      };
      const LineResult found = strong_wolfe(evaluate_at, at, h.length, largest(h.direction), o.tolerance_change,
                                            most_evaluations - evaluations);
      at = found.point, h.length = found.point.at;
      evaluations += found.evaluations, h.evaluations += found.evaluations;
      all.add(h.length, h.direction);
    } else {
      all.add(h.length, h.direction);
      if (i < o.max_iter) {  // the result of the last iteration is not needed
        at = evaluate();
        ++evaluations, ++h.evaluations;
      }
    }
    is_flat = largest(at.gradient) <= o.tolerance_grad;
    if (evaluations >= most_evaluations) break;
    if (largest(h.direction) * std::abs(h.length) <= o.tolerance_change) break;
    if (i < o.max_iter && std::abs(at.value - h.loss) < o.tolerance_change) break;
  }
  *history_ = std::move(h);
  return first;
}

Optimizer::StateDict QuasiNewtonOptimizer::state_dict() const {
  StateDict out = Optimizer::state_dict();
  const History& h = *history_;
  if (h.evaluations == 0) return out;
  const auto add = [&](const char* name, Tensor value) { out.emplace(std::string("0.") + name, std::move(value)); };
  add("func_evals", tensor(h.evaluations));
  add("n_iter", tensor(h.iterations));
  if (!h.gradient.defined()) return out;
  const std::vector<Tensor> changes(h.changes.begin(), h.changes.end()), steps(h.steps.begin(), h.steps.end());
  const std::vector<double> inverse(h.inverse.begin(), h.inverse.end());
  const int64_t n = h.gradient.numel();
  const TensorOptions kind{h.gradient.dtype(), h.gradient.device()};
  add("d", h.direction), add("prev_flat_grad", h.gradient);
  add("t", tensor(h.length, f64)), add("prev_loss", tensor(h.loss, f64)), add("H_diag", tensor(h.scale, f64));
  add("old_dirs", changes.empty() ? zeros({0, n}, kind) : stack(std::span<const Tensor>(changes)));
  add("old_stps", steps.empty() ? zeros({0, n}, kind) : stack(std::span<const Tensor>(steps)));
  add("ro", tensor(std::span<const double>(inverse), {std::ssize(inverse)}, f64));
  return out;
}

QuasiNewtonOptimizer::History QuasiNewtonOptimizer::loaded_history(const StateDict& values, Location where) const {
  const auto has = [&](const char* name) { return values.contains(std::string("0.") + name); };
  const auto require = [&](const char* name) -> const Tensor& {
    const auto found = values.find(std::string("0.") + name);
    if (found != values.end()) return found->second;
    raise<ValueError>({.op = name_, .problem = fmt::format("the state lacks \"0.{}\"", name)}, where);
  };
  const std::vector<Tensor>& parameters = groups_[0].parameters;
  const auto copy = [&](const char* name, const Dims& shape) {
    const Tensor& value = require(name);
    if (value.shape() == shape)
      return value.to(Vector(parameters).dtype(), where).to(parameters[0].device(), where).clone(where);
    raise<ShapeError>({.op = name_,
                       .problem = fmt::format("0.{} has another shape than its parameters", name),
                       .details = value.shape().text() + " for " + shape.text()},
                      where);
  };
  History h;
  if (has("func_evals")) {
    h.evaluations = require("func_evals").item<int64_t>(where), h.iterations = require("n_iter").item<int64_t>(where);
  }
  if (!has("prev_flat_grad")) return h;
  int64_t n = 0;
  for (const Tensor& p : parameters) n += p.numel();
  const std::vector<double> inverse = require("ro").to_vector<double>(where);
  const int64_t kept = std::ssize(inverse);
  const Tensor changes = copy("old_dirs", {kept, n}), steps = copy("old_stps", {kept, n});
  for (int64_t i = 0; i < kept; ++i) {
    h.changes.push_back(changes.select(0, i).clone()), h.steps.push_back(steps.select(0, i).clone());
  }
  h.inverse.assign(inverse.begin(), inverse.end());
  h.direction = copy("d", {n}), h.gradient = copy("prev_flat_grad", {n});
  h.length = require("t").item<double>(where), h.loss = require("prev_loss").item<double>(where);
  h.scale = require("H_diag").item<double>(where);
  return h;
}

void QuasiNewtonOptimizer::load_state_dict(const StateDict& values, Location where) {
  const CallScope call(name_, where);
  NoGradGuard unrecorded;
  check_groups(values, where);
  History h = loaded_history(values, where);
  StateDict options = values;
  for (const std::string& name : state_names_) options.erase("0." + name);
  Optimizer::load_state_dict(options, where);
  *history_ = std::move(h);
}

template <>
const Rule& rule_of<LBFGSOptions>() {
  return rule;
}
template class OptimizerOf<LBFGSOptions, QuasiNewtonOptimizer>;
template LBFGSOptions options_named<LBFGSOptions>(const NamedOptions&, Location);

}  // namespace weft::optim
