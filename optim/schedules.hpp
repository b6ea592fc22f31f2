// Learning rates over time.
//
//   optim::Scheduler rates(optimizer, optim::sequential({optim::linear_lr({.total_iters = 10}),
//                                                        optim::cosine_annealing_lr(990)}, {10}));
//   ... optimizer.step(); rates.step();
//
// A schedule is a pure function of the step, counted from 0, and of the rate that a group had when the scheduler was
// made. So a rate that the program sets in between lasts until the next step of the scheduler, where PyTorch's
// recursive forms would go on from it. Names are PyTorch's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "optimizer.hpp"

namespace weft::optim {

/// A rate for each step, and a momentum too where it has one.
class WEFT_API Schedule {
 public:
  using Function = Callback<double(int64_t step, double base)>;
  /// Any function of the step and the base rate.
  Schedule(Function rate, Function momentum = {}) : rate_(std::move(rate)), momentum_(std::move(momentum)) {}
  template <class F>
    requires(std::is_invocable_r_v<double, F&, int64_t, double> && !std::is_same_v<F, Function>)
  Schedule(F rate) : rate_(std::move(rate)) {}

  /// ValueError for a negative step, and for one after the last that the schedule has.
  double rate(int64_t step, double base, Location where = {}) const;
  bool has_momentum() const { return static_cast<bool>(momentum_); }
  double momentum(int64_t step, double base, Location where = {}) const;

 private:
  Function rate_, momentum_;
};

/// base · gamma^⌊t / step_size⌋. ValueError for step_size < 1 and gamma ≤ 0.
WEFT_API Schedule step_lr(int64_t step_size, double gamma = 0.1, Location where = {});
/// base · gamma^(milestones up to t). ValueError where there are none, for one that is negative, and for gamma ≤ 0.
WEFT_API Schedule multi_step_lr(std::vector<int64_t> milestones, double gamma = 0.1, Location where = {});
/// base · factor until step total_iters, then base. ValueError for a factor outside [0, 1] and total_iters < 0.
WEFT_API Schedule constant_lr(double factor = 1.0 / 3, int64_t total_iters = 5, Location where = {});

struct LinearOptions {
  double start_factor = 1.0 / 3, end_factor = 1;
  int64_t total_iters = 5;
};
/// base times a factor that goes in a line. ValueError for factors outside (0, 1] and [0, 1], and total_iters < 1.
WEFT_API Schedule linear_lr(LinearOptions options = {}, Location where = {});
/// base · gamma^t. ValueError for gamma ≤ 0.
WEFT_API Schedule exponential_lr(double gamma, Location where = {});
/// base · (1 - t / total_iters)^power, then 0. ValueError for total_iters < 1 and a negative power.
WEFT_API Schedule polynomial_lr(int64_t total_iters = 5, double power = 1, Location where = {});
/// Half a cosine from base to eta_min at T_max, and back, over and over (Loshchilov and Hutter 2017). ValueError for
/// T_max < 1 and a negative eta_min.
WEFT_API Schedule cosine_annealing_lr(int64_t T_max, double eta_min = 0, Location where = {});
/// Half a cosine from base down, begun anew after T_0 steps, then after T_0 · T_mult, and so on. ValueError for T_0 <
/// 1, T_mult < 1 and a negative eta_min.
WEFT_API Schedule cosine_annealing_warm_restarts(int64_t T_0, int64_t T_mult = 1, double eta_min = 0,
                                                 Location where = {});

enum class Anneal : uint8_t { cos, linear };
struct OneCycleOptions {
  double max_lr = 0.1;
  int64_t total_steps = 0;
  /// The share of the steps in which the rate rises.
  double pct_start = 0.3;
  Anneal anneal_strategy = Anneal::cos;
  /// Momentum goes against the rate, from max_momentum to base_momentum and back.
  bool cycle_momentum = true;
  double base_momentum = 0.85, max_momentum = 0.95;
  /// The first rate is max_lr / div_factor, the last that / final_div_factor.
  double div_factor = 25, final_div_factor = 1e4;
  bool three_phase = false;
};
/// One cycle (Smith and Topin 2018), whatever the base. ValueError for options out of range; a step after the last is
/// an error, too.
WEFT_API Schedule one_cycle_lr(OneCycleOptions options, Location where = {});

enum class Cycle : uint8_t { triangular, triangular2, exp_range };
struct CyclicOptions {
  double base_lr = 1e-3, max_lr = 1e-2;
  int64_t step_size_up = 2000;
  /// step_size_up where it is not given.
  std::optional<int64_t> step_size_down = {};
  Cycle mode = Cycle::triangular;
  double gamma = 1;
  /// In place of the mode: the height of a cycle by its number from 1, or of a step.
  Callback<double(double)> scale_fn = {};
  bool scale_by_iterations = false;
  bool cycle_momentum = true;
  double base_momentum = 0.8, max_momentum = 0.9;
};
/// Up and down between two rates (Smith 2017), whatever the base. ValueError for options out of range.
WEFT_API Schedule cyclic_lr(CyclicOptions options, Location where = {});

/// From base to swa_lr within anneal_epochs steps, and there it stays (Izmailov et al. 2018). ValueError for negative
/// numbers.
WEFT_API Schedule swa_lr(double swa_lr, int64_t anneal_epochs = 10, Anneal anneal_strategy = Anneal::cos,
                         Location where = {});

/// base · factor(t).
WEFT_API Schedule lambda_lr(Callback<double(int64_t step)> factor, Location where = {});
/// base · factor(1) · … · factor(t). Steps in order call the factor once each.
WEFT_API Schedule multiplicative_lr(Callback<double(int64_t step)> factor, Location where = {});

/// The rate of the first is the base of the second, and so on: a product of their factors. ValueError for none.
WEFT_API Schedule chained(std::vector<Schedule> schedules, Location where = {});
/// Each begins at its milestone, with its own step 0. ValueError for none, and unless the milestones are one fewer,
/// above 0 and in ascending order.
WEFT_API Schedule sequential(std::vector<Schedule> schedules, std::vector<int64_t> milestones, Location where = {});

/// The rate of step `step` (from 0): rises linearly to `lr` in `warmup` steps, then falls as 1/√step (Vaswani et al.
/// 2017). It has no last step, so a run can always be continued. ValueError for warmup < 1.
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
/// The rate of step `step` (from 0): linear from lr / warmup to lr, then half a cosine down to the minimum (Loshchilov
/// and Hutter 2017).
WEFT_API double warmup_cosine(int64_t step, const WarmupCosine& schedule);
/// The same, whatever the base. ValueError for negative numbers and for steps below warmup.
WEFT_API Schedule warmup_cosine(const WarmupCosine& schedule, Location where = {});

/// What a scheduler is saved as: numbers by name, "step" and "base_lr.0".
using SchedulerState = std::map<std::string, double>;

/// Drives an optimizer by a schedule: sets the rates of step 0 at once, and of the next with each `step`. The optimizer
/// must outlive it.
class WEFT_API Scheduler {
 public:
  /// One schedule for all groups, or one for each. ValueError for another number of schedules.
  Scheduler(Optimizer& optimizer, Schedule schedule, Location where = {});
  Scheduler(Optimizer& optimizer, std::vector<Schedule> schedules, Location where = {});

  /// Goes on by one step, after the optimizer's. Where the schedule has none, ValueError, and nothing is changed.
  void step(Location where = {});
  /// How many there were.
  int64_t position() const { return step_; }
  /// Goes to a step at once.
  void seek(int64_t step, Location where = {});

  SchedulerState state() const;
  /// Position and base rates of a state, and the rates that follow. ValueError where it is none of these groups.
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
  /// How many steps without a better value are borne.
  int64_t patience = 10;
  /// A value is better if it is so by this share of the best, or by this much with `absolute`.
  double threshold = 1e-4;
  bool absolute = false;
  /// Steps after a reduction in which none is counted.
  int64_t cooldown = 0;
  double min_lr = 0;
  /// A change of a rate that is not larger is left out.
  double eps = 1e-8;
};

/// Multiplies the rates by a factor when a value has stopped getting better. NaN is never better. The optimizer must
/// outlive it.
class WEFT_API ReduceOnPlateau {
 public:
  /// ValueError for options out of range.
  explicit ReduceOnPlateau(Optimizer& optimizer, PlateauOptions options = {}, Location where = {});

  void step(double value, Location where = {});
  double best() const { return best_; }
  int64_t bad_steps() const { return bad_; }

  /// "step", "best", "bad_steps" and "cooldown_left"; the rates are the optimizer's.
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
