#include "schedules.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "../tensor/error.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::optim {

namespace {

void require(bool holds, const char* op, const std::string& problem, Location where) {
  if (!holds) raise<ValueError>({.op = op, .problem = problem}, where);
}
template <class T>
void require_value(bool holds, const char* op, const char* name, const char* expected, T value, Location where) {
  if (!holds) require(false, op, mismatch_text(name, expected, value), where);
}
void require_count(const char* op, const char* name, int64_t value, int64_t least, Location where) {
  if (value < least) require(false, op, mismatch_text(name, fmt::format("at least {}", least), value), where);
}
void require_positive(const char* op, const char* name, double value, Location where) {
  require_value(std::isfinite(value) && value > 0, op, name, "a finite number above 0", value, where);
}
void require_rate(const char* op, const char* name, double value, Location where) {
  require_value(std::isfinite(value) && value >= 0, op, name, "a finite number of at least 0", value, where);
}
void require_share(const char* op, const char* name, double value, Location where) {
  require_value(value >= 0 && value <= 1, op, name, "a number in [0, 1]", value, where);
}

double real(int64_t n) { return static_cast<double>(n); }

/// Interpolates between `from` and `to` for x from 0 to 1.
double between(double from, double to, double x, Anneal by) {
  if (by == Anneal::linear) return from + (to - from) * x;
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * x));
}

}  // namespace

double Schedule::rate(int64_t step, double base, Location where) const {
  require_count("Schedule", "step", step, 0, where);
  const CallScope call("Schedule", where);
  return rate_(step, base);
}

double Schedule::momentum(int64_t step, double base, Location where) const {
  require_count("Schedule", "step", step, 0, where);
  const CallScope call("Schedule", where);
  return momentum_ ? momentum_(step, base) : base;
}

// ---- factors of the base --------------------------------------------------------------------------------------------

Schedule step_lr(int64_t step_size, double gamma, Location where) {
  require_count("step_lr", "step_size", step_size, 1, where);
  require_positive("step_lr", "gamma", gamma, where);
  return [=](int64_t t, double base) { return base * std::pow(gamma, real(t / step_size)); };
}

Schedule multi_step_lr(std::vector<int64_t> milestones, double gamma, Location where) {
  require(!milestones.empty(), "multi_step_lr", "there are no milestones", where);
  for (const int64_t m : milestones) require_count("multi_step_lr", "a milestone", m, 0, where);
  require_positive("multi_step_lr", "gamma", gamma, where);
  std::sort(milestones.begin(), milestones.end());
  return [=](int64_t t, double base) {
    const auto passed = std::upper_bound(milestones.begin(), milestones.end(), t) - milestones.begin();
    return base * std::pow(gamma, real(passed));
  };
}

Schedule constant_lr(double factor, int64_t total_iters, Location where) {
  require_share("constant_lr", "factor", factor, where);
  require_count("constant_lr", "total_iters", total_iters, 0, where);
  return [=](int64_t t, double base) { return t < total_iters ? base * factor : base; };
}

Schedule linear_lr(LinearOptions o, Location where) {
  require_value(o.start_factor > 0 && o.start_factor <= 1, "linear_lr", "start_factor", "a number in (0, 1]",
                o.start_factor, where);
  require_share("linear_lr", "end_factor", o.end_factor, where);
  require_count("linear_lr", "total_iters", o.total_iters, 1, where);
  return [=](int64_t t, double base) {
    return base * between(o.start_factor, o.end_factor, real(std::min(t, o.total_iters)) / real(o.total_iters),
                          Anneal::linear);
  };
}

Schedule exponential_lr(double gamma, Location where) {
  require_positive("exponential_lr", "gamma", gamma, where);
  return [=](int64_t t, double base) { return base * std::pow(gamma, real(t)); };
}

Schedule polynomial_lr(int64_t total_iters, double power, Location where) {
  require_count("polynomial_lr", "total_iters", total_iters, 1, where);
  require_rate("polynomial_lr", "power", power, where);
  return [=](int64_t t, double base) {
    return base * std::pow(1 - real(std::min(t, total_iters)) / real(total_iters), power);
  };
}

Schedule lambda_lr(Callback<double(int64_t)> factor, Location where) {
  require(static_cast<bool>(factor), "lambda_lr", "there is no function", where);
  return [=](int64_t t, double base) { return base * factor(t); };
}

Schedule multiplicative_lr(Callback<double(int64_t)> factor, Location where) {
  require(static_cast<bool>(factor), "multiplicative_lr", "there is no function", where);
  // Caches the product; an earlier step restarts it.
  return [factor, known = int64_t{0}, product = 1.0](int64_t t, double base) mutable {
    if (t < known) known = 0, product = 1;
    while (known < t) {
      const double next = product * factor(known + 1);
      ++known, product = next;
    }
    return base * product;
  };
}

// ---- waves ----------------------------------------------------------------------------------------------------------

Schedule cosine_annealing_lr(int64_t T_max, double eta_min, Location where) {
  require_count("cosine_annealing_lr", "T_max", T_max, 1, where);
  require_rate("cosine_annealing_lr", "eta_min", eta_min, where);
  return
      [=](int64_t t, double base) { return between(base, eta_min, real(t % (2 * T_max)) / real(T_max), Anneal::cos); };
}

Schedule cosine_annealing_warm_restarts(int64_t T_0, int64_t T_mult, double eta_min, Location where) {
  const char* op = "cosine_annealing_warm_restarts";
  require_count(op, "T_0", T_0, 1, where);
  require_count(op, "T_mult", T_mult, 1, where);
  require_rate(op, "eta_min", eta_min, where);
  return [=](int64_t t, double base) {
    int64_t length = T_0, left = t;
    if (T_mult == 1) left %= length;
    else
      while (left >= length) left -= length, length *= T_mult;
    return between(base, eta_min, real(left) / real(length), Anneal::cos);
  };
}

namespace {

/// The phases of one cycle: end of each, and the levels at its start and end. 0 is the last rate, 1 the first, 2 the
/// highest.
struct Part {
  double end;
  int from, to;
};

std::vector<Part> parts_of(const OneCycleOptions& o) {
  const double rise = o.pct_start * real(o.total_steps) - 1, last = real(o.total_steps) - 1;
  if (o.three_phase) return {{rise, 1, 2}, {2 * o.pct_start * real(o.total_steps) - 2, 2, 1}, {last, 1, 0}};
  return {{rise, 1, 2}, {last, 2, 0}};
}

double height_at(const OneCycleOptions& o, const std::vector<Part>& parts, const double (&heights)[3], int64_t t) {
  double begin = 0;
  for (const Part& part : parts) {
    const bool is_last = &part == &parts.back();
    if (is_last || real(t) <= part.end) {
      const double length = part.end - begin;
      return between(heights[part.from], heights[part.to], length == 0 ? 1 : (real(t) - begin) / length,
                     o.anneal_strategy);
    }
    begin = part.end;
  }
  return heights[0];
}

}  // namespace

Schedule one_cycle_lr(OneCycleOptions o, Location where) {
  const char* op = "one_cycle_lr";
  require_count(op, "total_steps", o.total_steps, 1, where);
  require_positive(op, "max_lr", o.max_lr, where);
  require_share(op, "pct_start", o.pct_start, where);
  require_positive(op, "div_factor", o.div_factor, where);
  require_positive(op, "final_div_factor", o.final_div_factor, where);
  require_rate(op, "base_momentum", o.base_momentum, where);
  require_rate(op, "max_momentum", o.max_momentum, where);
  const auto check = [o, op](int64_t t) {
    if (t <= o.total_steps) return;  // a loop of total_steps steps also requests the one after
    raise<ValueError>({.op = op, .problem = fmt::format("there is no step {}: the cycle has {}", t, o.total_steps)});
  };
  const std::vector<Part> parts = parts_of(o);
  const double first = o.max_lr / o.div_factor;
  Schedule::Function rate = [=](int64_t t, double) {
    check(t);
    const double heights[] = {first / o.final_div_factor, first, o.max_lr};
    return height_at(o, parts, heights, t);
  };
  if (!o.cycle_momentum) return rate;
  return Schedule(rate, [=](int64_t t, double) {
    check(t);
    const double heights[] = {o.max_momentum, o.max_momentum, o.base_momentum};
    return height_at(o, parts, heights, t);
  });
}

Schedule cyclic_lr(CyclicOptions o, Location where) {
  const char* op = "cyclic_lr";
  const int64_t down = o.step_size_down.value_or(o.step_size_up);
  require_count(op, "step_size_up", o.step_size_up, 1, where);
  require_count(op, "step_size_down", down, 1, where);
  require_rate(op, "base_lr", o.base_lr, where);
  require_rate(op, "max_lr", o.max_lr, where);
  require_positive(op, "gamma", o.gamma, where);
  require_rate(op, "base_momentum", o.base_momentum, where);
  require_rate(op, "max_momentum", o.max_momentum, where);
  /// The position of step t in the cycle, from 0 to 1, times the height of the cycle.
  const auto height = [=](int64_t t) {
    const int64_t length = o.step_size_up + down, within = t % length;
    const double up = real(o.step_size_up);
    const double position = within <= o.step_size_up ? real(within) / up : real(length - within) / real(down);
    const double cycle = real(1 + t / length);
    if (o.scale_fn) return position * o.scale_fn(o.scale_by_iterations ? real(t) : cycle);
    if (o.mode == Cycle::triangular2) return position / std::pow(2.0, cycle - 1);
    if (o.mode == Cycle::exp_range) return position * std::pow(o.gamma, real(t));
    return position;
  };
  Schedule::Function rate = [=](int64_t t, double) { return o.base_lr + (o.max_lr - o.base_lr) * height(t); };
  if (!o.cycle_momentum) return rate;
  return Schedule(rate,
                  [=](int64_t t, double) { return o.max_momentum - (o.max_momentum - o.base_momentum) * height(t); });
}

Schedule swa_lr(double swa_lr, int64_t anneal_epochs, Anneal anneal_strategy, Location where) {
  require_rate("swa_lr", "swa_lr", swa_lr, where);
  require_count("swa_lr", "anneal_epochs", anneal_epochs, 0, where);
  return [=](int64_t t, double base) {
    return between(base, swa_lr, anneal_epochs == 0 ? 1 : std::min(1.0, real(t) / real(anneal_epochs)),
                   anneal_strategy);
  };
}

// ---- combinations ---------------------------------------------------------------------------------------------------

namespace {

bool any_momentum(const std::vector<Schedule>& schedules) {
  return std::any_of(schedules.begin(), schedules.end(), [](const Schedule& s) { return s.has_momentum(); });
}

}  // namespace

Schedule chained(std::vector<Schedule> schedules, Location where) {
  require(!schedules.empty(), "chained", "there are no schedules", where);
  const bool has_momentum = any_momentum(schedules);
  Schedule::Function momentum, rate = [=](int64_t t, double base) {
    for (const Schedule& s : schedules) base = s.rate(t, base, Location::none());
    return base;
  };
  if (has_momentum) {
    momentum = [=](int64_t t, double base) {
      for (const Schedule& s : schedules) base = s.momentum(t, base, Location::none());
      return base;
    };
  }
  return Schedule(rate, momentum);
}

Schedule sequential(std::vector<Schedule> schedules, std::vector<int64_t> milestones, Location where) {
  require(!schedules.empty(), "sequential", "there are no schedules", where);
  require(milestones.size() + 1 == schedules.size(), "sequential",
          mismatch_text("milestones", fmt::format("{} for {} schedules", schedules.size() - 1, schedules.size()),
                        milestones.size()),
          where);
  for (size_t i = 0; i < milestones.size(); ++i) {
    require_count("sequential", "a milestone", milestones[i], i == 0 ? 1 : milestones[i - 1] + 1, where);
  }
  const auto piece = [milestones](int64_t t) {
    const auto passed =
        static_cast<size_t>(std::upper_bound(milestones.begin(), milestones.end(), t) - milestones.begin());
    return std::pair(passed, passed == 0 ? t : t - milestones[passed - 1]);
  };
  const bool has_momentum = any_momentum(schedules);
  Schedule::Function momentum, rate = [=](int64_t t, double base) {
    const auto [i, step] = piece(t);
    return schedules[i].rate(step, base, Location::none());
  };
  if (has_momentum) {
    momentum = [=](int64_t t, double base) {
      const auto [i, step] = piece(t);
      return schedules[i].momentum(step, base, Location::none());
    };
  }
  return Schedule(rate, momentum);
}

// ---- warmup ---------------------------------------------------------------------------------------------------------

double warmup_inverse_sqrt(int64_t step, double lr, int64_t warmup, Location where) {
  require_count("warmup_inverse_sqrt", "warmup", warmup, 1, where);
  const double done = real(step + 1), full = real(warmup);
  return lr * std::min(done / full, std::sqrt(full / done));
}
Schedule warmup_inverse_sqrt(int64_t warmup, Location where) {
  require_count("warmup_inverse_sqrt", "warmup", warmup, 1, where);
  return [=](int64_t t, double base) { return warmup_inverse_sqrt(t, base, warmup); };
}

double warmup_cosine(int64_t step, const WarmupCosine& s) {
  if (step < s.warmup) return s.lr * real(step + 1) / real(s.warmup);
  if (step >= s.steps) return s.minimum;
  return s.minimum + (s.lr - s.minimum) * 0.5 *
                         (1 + std::cos(std::numbers::pi * (real(step - s.warmup) / real(s.steps - s.warmup))));
}
Schedule warmup_cosine(const WarmupCosine& s, Location where) {
  require_rate("warmup_cosine", "lr", s.lr, where);
  require_rate("warmup_cosine", "minimum", s.minimum, where);
  require_count("warmup_cosine", "warmup", s.warmup, 0, where);
  require_count("warmup_cosine", "steps", s.steps, s.warmup, where);
  return [=](int64_t t, double) { return warmup_cosine(t, s); };
}

}  // namespace weft::optim
