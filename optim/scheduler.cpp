#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "../tensor/error.hpp"
#include "../tensor/warning.hpp"
#include "schedules.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::optim {

namespace {

[[noreturn]] void refuse(const char* op, const std::string& problem, Location where) {
  raise<ValueError>({.op = op, .problem = problem}, where);
}

/// A number of a saved state. Raises ValueError if it is missing.
double number_in(const SchedulerState& state, const std::string& name, const char* op, Location where) {
  const auto found = state.find(name);
  if (found == state.end()) refuse(op, fmt::format("the state lacks \"{}\"", name), where);
  return found->second;
}
int64_t count_in(const SchedulerState& state, const std::string& name, const char* op, Location where) {
  const double value = number_in(state, name, op, where);
  if (!(value >= 0 && value < 0x1p53 && value == std::floor(value))) {
    refuse(op, mismatch_text(fmt::format("\"{}\" of the state", name), "a count", value), where);
  }
  return static_cast<int64_t>(value);
}

/// The option of this optimizer that a schedule's momentum sets, or null.
const char* momentum_option(const Optimizer& optimizer) {
  return optimizer.has_option("beta1") ? "beta1" : (optimizer.has_option("momentum") ? "momentum" : nullptr);
}

}  // namespace

Scheduler::Scheduler(Optimizer& optimizer, Schedule schedule, Location where)
    : Scheduler(optimizer, std::vector<Schedule>(optimizer.groups().size(), std::move(schedule)), where) {}

Scheduler::Scheduler(Optimizer& optimizer, std::vector<Schedule> schedules, Location where)
    : optimizer_(&optimizer), schedules_(std::move(schedules)) {
  const size_t groups = optimizer.groups().size();
  if (schedules_.size() != groups) {
    refuse("Scheduler", fmt::format("there are {} schedules for {} groups", schedules_.size(), groups), where);
  }
  const char* option = momentum_option(optimizer);
  for (size_t i = 0; i < groups; ++i) {
    if (schedules_[i].has_momentum() && option == nullptr) {
      refuse("Scheduler", fmt::format("{} has no momentum to cycle", optimizer.name()), where);
    }
    bases_.push_back(optimizer.lr(i));
    base_momenta_.push_back(option != nullptr ? optimizer.option(option, i) : 0);
  }
  seek(0, where);
}

void Scheduler::step(Location where) {
  seek(step_ + 1, where);
  if (step_ != 1 || optimizer_->has_stepped()) return;
  warn({.op = "Scheduler::step",
        .problem = "the scheduler steps before the optimizer: the schedule's first rate is never used",
        .remedy = "call optimizer.step() before scheduler.step()"},
       where);
}

void Scheduler::seek(int64_t step, Location where) {
  const size_t groups = optimizer_->groups().size();
  if (groups != schedules_.size()) {
    refuse("Scheduler", fmt::format("there are {} groups now, {} when it was made", groups, schedules_.size()), where);
  }
  std::vector<double> rates, momenta(groups);
  for (size_t i = 0; i < groups; ++i) {
    rates.push_back(schedules_[i].rate(step, bases_[i], where));
    const bool fits = std::isfinite(rates[i]) && rates[i] >= 0;
    if (!fits) refuse("Scheduler", fmt::format("the rate of step {} is {}", step, rates[i]), where);
    if (schedules_[i].has_momentum()) momenta[i] = schedules_[i].momentum(step, base_momenta_[i], where);
  }
  const char* option = momentum_option(*optimizer_);
  std::vector<double> before;
  try {
    for (size_t i = 0; i < groups; ++i) {
      before.push_back(schedules_[i].has_momentum() ? optimizer_->option(option, i) : 0);
      if (schedules_[i].has_momentum()) optimizer_->set_option(option, momenta[i], i, where);
    }
  } catch (...) {  // all groups change, or none
    before.pop_back();
    for (size_t i = 0; i < before.size(); ++i) {
      if (schedules_[i].has_momentum()) optimizer_->set_option(option, before[i], i, where);
    }
    throw;
  }
  for (size_t i = 0; i < groups; ++i) optimizer_->set_lr(rates[i], i, where);
  step_ = step;
}

SchedulerState Scheduler::state() const {
  SchedulerState out = {{"step", static_cast<double>(step_)}};
  for (size_t i = 0; i < bases_.size(); ++i) {
    out.emplace(fmt::format("base_lr.{}", i), bases_[i]);
    out.emplace(fmt::format("base_momentum.{}", i), base_momenta_[i]);
  }
  return out;
}

void Scheduler::restore(const SchedulerState& state, Location where) {
  const char* op = "Scheduler";
  const int64_t step = count_in(state, "step", op, where);
  if (state.size() != 1 + 2 * bases_.size()) {
    refuse(op, fmt::format("the state is not of {} groups", bases_.size()), where);
  }
  std::vector<double> bases, momenta;
  for (size_t i = 0; i < bases_.size(); ++i) {
    bases.push_back(number_in(state, fmt::format("base_lr.{}", i), op, where));
    momenta.push_back(number_in(state, fmt::format("base_momentum.{}", i), op, where));
  }
  bases_.swap(bases), base_momenta_.swap(momenta);
  try {
    seek(step, where);
  } catch (...) {
    bases_.swap(bases), base_momenta_.swap(momenta);
    throw;
  }
}

// ---- plateau --------------------------------------------------------------------------------------------------------

namespace {

constexpr const char* plateau = "ReduceOnPlateau";
double worst(const PlateauOptions& o) {
  const double infinity = std::numeric_limits<double>::infinity();
  return o.maximize ? -infinity : infinity;
}

}  // namespace

ReduceOnPlateau::ReduceOnPlateau(Optimizer& optimizer, PlateauOptions options, Location where)
    : optimizer_(&optimizer), options_(options), best_(worst(options)) {
  const auto require = [&](bool holds, const char* name, double value, const char* expected) {
    if (!holds) refuse(plateau, mismatch_text(name, expected, value), where);
  };
  const PlateauOptions& o = options;
  require(o.factor > 0 && o.factor < 1, "factor", o.factor, "a number in (0, 1)");
  require(o.patience >= 0, "patience", static_cast<double>(o.patience), "at least 0");
  require(o.cooldown >= 0, "cooldown", static_cast<double>(o.cooldown), "at least 0");
  require(std::isfinite(o.threshold) && o.threshold >= 0, "threshold", o.threshold, "a finite number of at least 0");
  require(std::isfinite(o.min_lr) && o.min_lr >= 0, "min_lr", o.min_lr, "a finite number of at least 0");
  require(std::isfinite(o.eps) && o.eps >= 0, "eps", o.eps, "a finite number of at least 0");
}

bool ReduceOnPlateau::is_better(double value) const {
  const double by = options_.absolute ? options_.threshold : options_.threshold * best_;
  if (options_.maximize) return value > (std::isfinite(best_) ? best_ + by : best_);
  return value < (std::isfinite(best_) ? best_ - by : best_);
}

void ReduceOnPlateau::step(double value, Location where) {
  int64_t bad = bad_ + 1, cooldown = cooldown_;
  double best = best_;
  if (is_better(value)) best = value, bad = 0;
  if (cooldown > 0) --cooldown, bad = 0;
  if (bad > options_.patience) {
    for (size_t i = 0; i < optimizer_->groups().size(); ++i) {
      const double now = optimizer_->lr(i), next = std::max(now * options_.factor, options_.min_lr);
      if (now - next > options_.eps) optimizer_->set_lr(next, i, where);
    }
    cooldown = options_.cooldown, bad = 0;
  }
  best_ = best, bad_ = bad, cooldown_ = cooldown;
  ++step_;
}

SchedulerState ReduceOnPlateau::state() const {
  return {{"step", static_cast<double>(step_)},
          {"best", best_},
          {"bad_steps", static_cast<double>(bad_)},
          {"cooldown_left", static_cast<double>(cooldown_)}};
}

void ReduceOnPlateau::restore(const SchedulerState& state, Location where) {
  const int64_t step = count_in(state, "step", plateau, where), bad = count_in(state, "bad_steps", plateau, where);
  const int64_t cooldown = count_in(state, "cooldown_left", plateau, where);
  const double best = number_in(state, "best", plateau, where);
  if (state.size() != 4) refuse(plateau, "the state holds other names than these", where);
  step_ = step, best_ = best, bad_ = bad, cooldown_ = cooldown;
}

}  // namespace weft::optim
