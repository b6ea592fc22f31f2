#include "../stepper.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "../../autograd/engine.hpp"
#include "../../autograd/gradient_rows.hpp"
#include "../../autograd/mode.hpp"
#include "../../hooks/anomaly.hpp"
#include "../../hooks/recorder.hpp"
#include "../../nn/auxiliary_loss.hpp"
#include "../../optim/gradients-inl.hpp"
#include "../../ops/create.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/foreach.hpp"
#include "../../ops/join.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/reduce.hpp"
#include "step-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::train {

namespace {

constexpr const char* name = "Trainer";

// The finding of an AnomalyGuard when the computation is repeated, without the statistics below its three lines. Empty
// if it finds nothing.
template <class F>
std::string found_anew(AnomalyOptions options, F&& again) {
  try {
    options.repro.clear();
    const AnomalyGuard guard(options);
    again();
  } catch (const NonFiniteError& error) {
    const std::string text = error.what();
    return text.substr(0, text.find("\n    "));
  } catch (const std::exception&) {  // the first error is already propagating
  }
  return {};
}

// Combines three lines: the problem with the op's, then the shapes, values and location of `found`.
[[noreturn]] void raise_non_finite(const std::string& problem, const std::string& found, Location where) {
  if (found.empty()) raise<NonFiniteError>({.op = name, .problem = problem}, where);
  throw NonFiniteError(fmt::format("[{}] {}: {}", name, problem, found));
}

std::string not_finite_text(double v) { return std::isnan(v) ? "NaN" : v > 0 ? "infinite" : "-infinite"; }

}  // namespace

Stepper::Stepper(nn::Module& model, optim::Optimizer& optimizer, StepOptions options, Location where)
    : model_(&model), optimizer_(&optimizer), options_(std::move(options)) {
  const auto refuse = [&](const std::string& problem) { raise<ValueError>({.op = name, .problem = problem}, where); };
  if (options_.accumulate < 1) refuse(mismatch_text("accumulate", "at least 1", options_.accumulate));
  if (!(options_.clip_norm >= 0)) refuse(mismatch_text("clip_norm", "at least 0", options_.clip_norm));
  if (foreign_parameters(model, optimizer, options_.masters).size() < optimizer.parameters().size()) return;
  raise<ValueError>({.op = name,
                     .problem = "the optimizer has other parameters than the model's, which it would not train",
                     .remedy = options_.masters != nullptr ? "make the optimizer of masters.parameters()"
                                                           : "make it of model.parameters(); where it is of "
                                                             "optim::MasterWeights, give these as .masters"},
                    where);
}

std::string Stepper::place() const { return fmt::format("step {}, rank {}", steps_ + 1, options_.rank); }

void Stepper::drop_gradients() {
  optimizer_->zero_grad();
  if (options_.masters != nullptr) options_.masters->zero_grad();
}

BatchLoss Stepper::forward(const Callback<BatchLoss()>& loss_of) const {
  std::optional<AutocastGuard> mixed;
  if (options_.autocast) mixed.emplace(*options_.autocast);
  return loss_of();
}

void Stepper::check_finite(const Tensor& loss, const Callback<BatchLoss()>& loss_of, Location where) const {
  if (!options_.halt_on_nan) return;
  const double value = loss.item<double>();
  if (std::isfinite(value)) return;
  const std::string found = found_anew({.backward = false, .forward = true}, [&] {
    for (const auto& [device, state] : generators_) default_generator(device).set_state(state);
    (void)forward(loss_of);
  });
  raise_non_finite(fmt::format("{}: the loss is {}", place(), not_finite_text(value)), found, where);
}

std::vector<Tensor> Stepper::model_parameters() const {
  return options_.masters != nullptr ? options_.masters->model_parameters() : optimizer_->parameters();
}

double Stepper::units() const { return std::accumulate(weights_.begin(), weights_.end(), 0.0); }
// The divisor of the weighted sum of gradients, in units. Called once per step, on all processes.
double Stepper::divisor_of_step(double own, double unit) const {
  if (!options_.mean_weight) return own;
  const double mean = options_.mean_weight(own * unit);
  return unit > 0 ? mean / unit : mean;
}

namespace {

// Other processes may wait in this backward, for example for the gradients of experts on this rank.
void backward_without_weight(const Tensor& loss, Location where) {
  const nn::AuxiliaryLossScale none(0);
  loss.backward(zeros_like(loss), {}, where);
}

}  // namespace

// Gradients accumulate as sums of weight · gradient / accumulate, in units of the first weight, so equal weights are 1.
void Stepper::backward(const Callback<BatchLoss()>& loss_of, Location where) {
  generators_.clear();
  for (const Device device : devices_with_generators()) {
    generators_.emplace_back(device, default_generator(device).state());
  }
  if (options_.recorder != nullptr) options_.recorder->set_step(steps_ + 1);
  const auto here = [this] { return place(); };
  const BatchLoss given = at(here, [&] { return forward(loss_of); });
  const Tensor& loss = given.mean;
  const double weight = given.weight.value_or(1);
  const auto refuse = [&]<class E>(const E*, const std::string& problem, const char* remedy = "") {
    raise<E>({.op = name,
              .problem = fmt::format("{}: the loss {}", place(), problem),
              .details = loss.defined() ? describe(loss) : "",
              .remedy = remedy},
             where);
  };
  if (!(weight >= 0 && std::isfinite(weight))) {
    refuse(static_cast<ValueError*>(nullptr),
           "has a wrong weight: " + mismatch_text("", "a finite number of at least 0", weight));
  }
  if (!loss.defined()) refuse(static_cast<ValueError*>(nullptr), "is undefined");
  if (!is_floating(loss.dtype())) refuse(static_cast<DTypeError*>(nullptr), "is not floating");
  if (loss.numel() != 1) refuse(static_cast<ShapeError*>(nullptr), "is not one number");
  if (weight > 0 && !loss.requires_grad()) {
    refuse(static_cast<AutogradError*>(nullptr), "does not require a gradient",
           "it was detached, computed under NoGradGuard, or of a model whose parameters are all frozen");
  }
  if (weight > 0) check_finite(loss, loss_of, where);
  const double unit = unit_ > 0 ? unit_ : weight, units_here = weight > 0 ? weight / unit : 0;
  const bool is_last = waiting_ + 1 == options_.accumulate;
  const double divisor =
      is_last ? divisor_of_step(units() + units_here, unit) : static_cast<double>(options_.accumulate);
  if (is_last && divisor > 0) scale_waiting(static_cast<double>(options_.accumulate) / divisor);
  if (weight == 0) {
    if (options_.mean_weight && loss.requires_grad()) at(here, [&] { backward_without_weight(loss, where); });
    ++waiting_;
    return;
  }
  at(here, [&] {
    Tensor scaled = loss.numel() == 1 && loss.dim() > 0 ? loss.sum() : loss;
    if (units_here != 1) scaled = scaled * units_here;
    if (divisor != 1) scaled = scaled / divisor;
    if (options_.scaler != nullptr) scaled = options_.scaler->scale(scaled, where);
    const nn::AuxiliaryLossScale scale(options_.scaler != nullptr ? options_.scaler->get_scale() : 1);
    const nn::AuxiliaryLossScale share(units_here / divisor);
    scaled.backward(where);
  });
  ++waiting_;
  unit_ = unit;
  losses_.push_back(loss.detach());
  weights_.push_back(units_here);
}

// Called before the last backward, which may send the gradients.
void Stepper::scale_waiting(double factor) const {
  if (factor != 1 && waiting_ > 0) optim::detail::scale_gradients(model_parameters(), factor);
}

std::optional<StepResult> Stepper::step(const Callback<BatchLoss()>& loss_of, Location where) {
  backward(loss_of, where);
  if (waiting_ < options_.accumulate) return {};
  return update(
      [&] {
        drop_gradients();
        for (const auto& [device, state] : generators_) default_generator(device).set_state(state);
        Tensor loss = forward(loss_of).mean;
        if (options_.scaler != nullptr) loss = options_.scaler->scale(loss);
        const nn::AuxiliaryLossScale scale(options_.scaler != nullptr ? options_.scaler->get_scale() : 1);
        loss.sum().backward();
      },
      1, where);
}

std::optional<StepResult> Stepper::flush(Location where) {
  if (waiting_ == 0) return {};
  const double divisor = divisor_of_step(units(), unit_), factor = static_cast<double>(options_.accumulate) / divisor;
  if (!options_.mean_weight || !(divisor > 0)) return update({}, factor, where);
  scale_waiting(factor);
  return update({}, 1, where);
}

// The model's name of the first parameter with a gradient that is not finite.
std::string Stepper::name_of_bad_gradient() const {
  const optim::MasterWeights* masters = options_.masters;
  const std::vector<Tensor> stepped = masters != nullptr ? masters->parameters() : optimizer_->parameters();
  const std::vector<Tensor> own = masters != nullptr ? masters->model_parameters() : stepped;
  const auto bad = std::ranges::find_if(
      stepped, [](const Tensor& p) { return p.grad().defined() && !std::isfinite(norm(p.grad()).item<double>()); });
  if (bad == stepped.end()) return "all parameters together";
  const TensorImpl* impl = own[static_cast<size_t>(bad - stepped.begin())].impl();
  const auto named = model_->named_parameters();
  const auto found = std::ranges::find(named, impl, [](const auto& p) { return p.tensor.impl(); });
  return found == named.end() ? "a parameter" : found->name;
}

std::optional<double> Stepper::norm_of_gradients(const Callback<void()>& explain, bool may_be_infinite,
                                                 Location where) {
  if (options_.clip_norm == 0 && !options_.halt_on_nan) return {};
  const std::vector<Tensor> parameters = optimizer_->parameters();
  const bool halts = options_.halt_on_nan && !may_be_infinite;
  double value = NAN;
  if (options_.clip_norm > 0) {
    try {
      value =
          optim::clip_grad_norm_(parameters, options_.clip_norm, {.error_if_nonfinite = halts}, where).item<double>();
    } catch (const ValueError&) {
      if (!halts) throw;
    }
  } else {
    value = optim::total_grad_norm(parameters, 2, where).item<double>();
  }
  if (std::isfinite(value) || !halts) return value;
  const std::string parameter = name_of_bad_gradient();  // before repeating the backward replaces the gradients
  const std::string found = explain ? found_anew({.backward = true, .forward = true}, explain) : std::string();
  raise_non_finite(fmt::format("{}: the gradient of {} is not finite", place(), parameter), found, where);
}

void Stepper::begin_anew() {
  waiting_ = 0;
  unit_ = 0;
  losses_.clear();
  weights_.clear();
}

// `factor` remains to be applied to the gradients that the optimizer reads.
StepResult Stepper::update(const Callback<void()>& explain, double factor, Location where) {
  const NoGradGuard unrecorded;
  if (losses_.empty() && !options_.mean_weight) {
    drop_gradients();
    begin_anew();
    return {false, NAN, {}, 0};
  }
  if (options_.reduce) options_.reduce();
  if (options_.masters != nullptr) options_.masters->take_gradients(where);
  bool overflowed = false;
  if (options_.scaler != nullptr) {
    options_.scaler->unscale_(*optimizer_, where);
    overflowed = options_.scaler->found_inf();
  }
  if (factor != 1) optim::detail::scale_gradients(optimizer_->parameters(), factor);
  const std::optional<double> norm = norm_of_gradients(explain ? Callback<void()>([&] {
                                                         const EnableGradGuard recorded;
                                                         explain();
                                                       })
                                                               : Callback<void()>(),
                                                       overflowed, where);
  StepResult result{true, losses_.empty() ? NAN : 0, norm, units() * unit_};
  for (size_t i = 0; i < losses_.size(); ++i) result.loss += losses_[i].item<double>() * weights_[i] / units();
  if (options_.offload_optimizer) optimizer_->move_state({}, where);
  if (options_.scaler != nullptr) {
    result.updated = options_.scaler->step(*optimizer_, where);
    options_.scaler->update(where);
  } else {
    optimizer_->step(where);
  }
  if (result.updated && options_.masters != nullptr) options_.masters->write_back(where);
  const int64_t step = steps_ + 1;
  if (result.updated) ++steps_;
  if (options_.offload_optimizer) optimizer_->move_state(Device(), where);
  if (result.updated && options_.schedule) {
    at([&] { return fmt::format("step {}, rank {}", step, options_.rank); }, options_.schedule);
  }
  if (options_.recorder != nullptr) options_.recorder->step(result.loss, where);
  drop_gradients();
  begin_anew();
  return result;
}

}  // namespace weft::train
