// Learning rate schedules, with PyTorch's names.
//
//   optim::Scheduler rates(optimizer, optim::sequential({optim::linear_lr({.total_iters = 10}),
//                                                        optim::cosine_annealing_lr(990)}, {10}));
//   ... optimizer.step(); rates.step();
//
// A schedule is a pure function of the step, counted from 0, and of the group's base rate: its rate when the scheduler
// was constructed. A rate that the program sets in between is therefore overwritten by the scheduler's next step;
// PyTorch's recursive forms would continue from it.
//
// A schedule is a function of step and base rate, not a recursion on the current rate. So it can be evaluated for
// any step, and resuming needs only the position.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "optimizer.hpp"

namespace weft::optim {

/// The rate of each step, and optionally the momentum.
class WEFT_API Schedule {
 public:
  using Function = Callback<double(int64_t step, double base)>;
  /// Any function of the step and the base rate.
  Schedule(Function rate, Function momentum = {}) : rate_(std::move(rate)), momentum_(std::move(momentum)) {}
  template <class F>
    requires(std::is_invocable_r_v<double, F&, int64_t, double> && !std::is_same_v<F, Function>)
  Schedule(F rate) : rate_(std::move(rate)) {}

  /// Raises ValueError for a negative step, and for a step beyond the end of the schedule.
  double rate(int64_t step, double base, Location where = {}) const;
  bool has_momentum() const { return static_cast<bool>(momentum_); }
  double momentum(int64_t step, double base, Location where = {}) const;

 private:
  Function rate_, momentum_;
};

/// base · gamma^⌊t / step_size⌋. Raises ValueError for step_size < 1 and gamma ≤ 0.
WEFT_API Schedule step_lr(int64_t step_size, double gamma = 0.1, Location where = {});
/// base · gamma^(number of milestones up to t). Raises ValueError for no milestones, a negative one, and gamma ≤ 0.
WEFT_API Schedule multi_step_lr(std::vector<int64_t> milestones, double gamma = 0.1, Location where = {});
/// base · factor until step total_iters, then base. Raises ValueError for a factor outside [0, 1] and total_iters < 0.
WEFT_API Schedule constant_lr(double factor = 1.0 / 3, int64_t total_iters = 5, Location where = {});

struct LinearOptions {
  double start_factor = 1.0 / 3, end_factor = 1;
  int64_t total_iters = 5;
};
/// base times a factor that changes linearly. Raises ValueError for factors outside (0, 1] and [0, 1], and total_iters
/// < 1.
WEFT_API Schedule linear_lr(LinearOptions options = {}, Location where = {});
/// base · gamma^t. Raises ValueError for gamma ≤ 0.
WEFT_API Schedule exponential_lr(double gamma, Location where = {});
/// base · (1 - t / total_iters)^power, then 0. Raises ValueError for total_iters < 1 and a negative power.
WEFT_API Schedule polynomial_lr(int64_t total_iters = 5, double power = 1, Location where = {});
/// Half a cosine from base to eta_min at T_max, and back, repeatedly (Loshchilov and Hutter 2017). Raises ValueError
/// for T_max < 1 and a negative eta_min.
WEFT_API Schedule cosine_annealing_lr(int64_t T_max, double eta_min = 0, Location where = {});
/// Half a cosine from base to eta_min, restarted after T_0 steps, then after T_0 · T_mult, and so on. Raises ValueError
/// for T_0 < 1, T_mult < 1 and a negative eta_min.
WEFT_API Schedule cosine_annealing_warm_restarts(int64_t T_0, int64_t T_mult = 1, double eta_min = 0,
                                                 Location where = {});

enum class Anneal : uint8_t { cos, linear };
struct OneCycleOptions {
  double max_lr = 0.1;
  int64_t total_steps = 0;
  /// The fraction of the steps in which the rate rises.
  double pct_start = 0.3;
  Anneal anneal_strategy = Anneal::cos;
  /// Vary momentum inversely to the rate, from max_momentum to base_momentum and back.
  bool cycle_momentum = true;
  double base_momentum = 0.85, max_momentum = 0.95;
  /// The first rate is max_lr / div_factor, the last is the first / final_div_factor.
  double div_factor = 25, final_div_factor = 1e4;
  bool three_phase = false;
};
/// One cycle (Smith and Topin 2018), independent of the base. Raises ValueError for options out of range. A step beyond
/// the last is also an error.
WEFT_API Schedule one_cycle_lr(OneCycleOptions options, Location where = {});

enum class Cycle : uint8_t { triangular, triangular2, exp_range };
struct CyclicOptions {
  double base_lr = 1e-3, max_lr = 1e-2;
  int64_t step_size_up = 2000;
  /// Default: step_size_up.
  std::optional<int64_t> step_size_down = {};
  Cycle mode = Cycle::triangular;
  double gamma = 1;
  /// Replaces the mode: the height of a cycle by its number from 1, or of a step.
  Callback<double(double)> scale_fn = {};
  bool scale_by_iterations = false;
  bool cycle_momentum = true;
  double base_momentum = 0.8, max_momentum = 0.9;
};
/// Alternates between two rates (Smith 2017), independent of the base. Raises ValueError for options out of range.
WEFT_API Schedule cyclic_lr(CyclicOptions options, Location where = {});

/// From base to swa_lr within anneal_epochs steps, then constant (Izmailov et al. 2018). Raises ValueError for negative
/// numbers.
WEFT_API Schedule swa_lr(double swa_lr, int64_t anneal_epochs = 10, Anneal anneal_strategy = Anneal::cos,
                         Location where = {});

/// base · factor(t).
WEFT_API Schedule lambda_lr(Callback<double(int64_t step)> factor, Location where = {});
/// base · factor(1) · … · factor(t). Consecutive steps call the factor once each.
WEFT_API Schedule multiplicative_lr(Callback<double(int64_t step)> factor, Location where = {});

/// The product of all factors: the rate of each schedule is the base of the next. Raises ValueError for an empty list.
WEFT_API Schedule chained(std::vector<Schedule> schedules, Location where = {});
/// Each schedule begins at its milestone with step 0. Raises ValueError for an empty list, and unless the milestones
/// are one fewer, above 0 and in ascending order.
WEFT_API Schedule sequential(std::vector<Schedule> schedules, std::vector<int64_t> milestones, Location where = {});

/// The rate at `step` (from 0): rises linearly to `lr` in `warmup` steps, then falls as 1/√step (Vaswani et al. 2017).
/// It has no last step, so a run can always be continued. Raises ValueError for warmup < 1.
WEFT_API double warmup_inverse_sqrt(int64_t step, double lr, int64_t warmup, Location where = {});
WEFT_API Schedule warmup_inverse_sqrt(int64_t warmup, Location where = {});

struct WarmupCosine {
  /// The highest rate, reached after `warmup` steps.
  double lr = 1e-3;
  int64_t warmup = 0;
  /// From this step on the rate is `minimum`.
  int64_t steps = 1000;
  double minimum = 0;
};
/// The rate at `step` (from 0): linear from lr / warmup to lr, then half a cosine down to the minimum (Loshchilov and
/// Hutter 2017).
WEFT_API double warmup_cosine(int64_t step, const WarmupCosine& schedule);
/// As above, independent of the base. Raises ValueError for negative numbers and for steps below warmup.
WEFT_API Schedule warmup_cosine(const WarmupCosine& schedule, Location where = {});

/// The saved state of a scheduler: numbers by name, "step" and "base_lr.0".
using SchedulerState = std::map<std::string, double>;

/// Sets an optimizer's rates from a schedule: those of step 0 at construction, and of the next step with each `step`.
/// The optimizer must outlive it.
class WEFT_API Scheduler {
 public:
  /// One schedule for all groups, or one for each. Raises ValueError for another number of schedules.
  Scheduler(Optimizer& optimizer, Schedule schedule, Location where = {});
  Scheduler(Optimizer& optimizer, std::vector<Schedule> schedules, Location where = {});

  /// Advances by one step; call it after the optimizer's step. Raises ValueError, before any change, beyond the end of
  /// the schedule.
  void step(Location where = {});
  /// Number of steps so far.
  int64_t position() const { return step_; }
  /// Jumps to a step.
  void seek(int64_t step, Location where = {});

  SchedulerState state() const;
  /// Restores position and base rates, and sets the resulting rates. Raises ValueError if the state does not match the
  /// groups.
  void restore(const SchedulerState& state, Location where = {});

 private:
  Optimizer* optimizer_;
  std::vector<Schedule> schedules_;
  std::vector<double> bases_, base_momenta_;
  int64_t step_ = 0;
};

struct PlateauOptions {
  /// Larger values are better.
  bool maximize = false;
  double factor = 0.1;
  /// Number of steps without improvement before a reduction.
  int64_t patience = 10;
  /// Minimum improvement, relative to the best value, or with `absolute` as a difference.
  double threshold = 1e-4;
  bool absolute = false;
  /// Number of steps after a reduction that are not counted.
  int64_t cooldown = 0;
  double min_lr = 0;
  /// Smaller changes of a rate are skipped.
  double eps = 1e-8;
};

/// Multiplies the rates by a factor when a value has stopped improving. NaN is never an improvement. The optimizer must
/// outlive it.
class WEFT_API ReduceOnPlateau {
 public:
  /// Raises ValueError for options out of range.
  explicit ReduceOnPlateau(Optimizer& optimizer, PlateauOptions options = {}, Location where = {});

  void step(double value, Location where = {});
  double best() const { return best_; }
  int64_t bad_steps() const { return bad_; }

  /// "step", "best", "bad_steps" and "cooldown_left". The rates are saved with the optimizer.
  SchedulerState state() const;
  void restore(const SchedulerState& state, Location where = {});

 private:
  bool is_better(double value) const;

  Optimizer* optimizer_;
  PlateauOptions options_;
  double best_;
  int64_t step_ = 0, bad_ = 0, cooldown_ = 0;
};

}  // namespace weft::optim
