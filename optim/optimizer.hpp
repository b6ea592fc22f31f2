// What all optimizers share: groups of parameters with their options, state, and the step.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "option.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/index.hpp"
#include "../tensor/pimpl.hpp"
#include "../tensor/step_recorder.hpp"

namespace weft::optim {

/// Parameters that share their options: a value for each of Optimizer::option_info, the learning rate first.
struct Group {
  std::vector<Tensor> parameters;
  std::vector<double> values;
  double lr() const { return values.front(); }
};

/// Parameters with options of their own, to construct an optimizer from; what is not given is the optimizer's.
template <class Options>
struct ParameterGroup {
  std::vector<Tensor> parameters;
  Options options = {};
};

/// Computes a loss anew, with its gradients: zero_grad, forward, backward.
using Closure = Callback<Tensor()>;

struct Rule;

/// Base of all optimizers. Movable, but not copyable: copies would share part of their state.
class WEFT_API Optimizer {
 public:
  using StateDict = std::map<std::string, Tensor>;

  virtual ~Optimizer();
  Optimizer(Optimizer&&) noexcept = default;
  Optimizer& operator=(Optimizer&&) noexcept = default;

  /// Updates every parameter that has a gradient. Where a kernel raises, its parameters' step counts stay as they were.
  virtual void step(Location where = {}) = 0;
  /// Calls the closure with gradients enabled, steps, and returns the loss. LBFGS calls it as often as it needs.
  virtual Tensor step(const Closure& closure, Location where = {});
  /// Drops the gradients: `.grad()` is undefined until the next backward. Otherwise those that are there become zeros.
  void zero_grad(bool set_to_none = true);
  /// Whether it has stepped, or a GradScaler has left a step out. A Scheduler that goes first warns.
  bool has_stepped() const;
  void note_step() { stepped_ = true; }

  std::span<const Group> groups() const { return {groups_.data(), groups_.size()}; }
  /// All parameters, group by group.
  std::vector<Tensor> parameters() const;
  /// More parameters, with options by name. ValueError where there are none, where one is undefined, not a leaf, not
  /// floating or present already, for an option that there is not, and for a value that is out of its range.
  void add_named_group(std::vector<Tensor> parameters, const NamedOptions& options, Location where = {});

  /// Other parameters in the place of each group's, which keep its options; a group may get none. ValueError for
  /// another number of groups, for what add_named_group refuses, and where a parameter was updated already; nothing is
  /// changed then.
  void replace_parameters(std::vector<std::vector<Tensor>> groups, Location where = {});

  /// Its options, in the order of Group::values.
  std::span<const OptionInfo> option_info() const;
  bool has_option(std::string_view name) const;
  /// A group's option as a number. ValueError where there is no such option, IndexError where there is no such group.
  double option(std::string_view name, size_t group = 0, Location where = {}) const;
  /// Sets an option of one group. Also ValueError for a value that is out of its range.
  void set_option(std::string_view name, double value, size_t group, Location where = {});
  /// Several at once, or none where one of them is refused.
  void set_options(const NamedOptions& options, size_t group, Location where = {});

  /// The first group's learning rate, or that of another.
  double lr(size_t group = 0) const { return groups_[group].lr(); }
  /// Sets the learning rate of all groups, or of one. ValueError unless finite and not negative; IndexError where there
  /// is no such group.
  void set_lr(double lr, Location where = {});
  void set_lr(double lr, size_t group, Location where = {});

  /// "AdamW", and the names of what it may keep of a parameter besides the step: "exp_avg", "exp_avg_sq".
  const char* name() const { return name_; }
  std::span<const std::string> state_names() const { return state_names_; }

  /// Whether a state may hold a value of this name for a parameter: "step" too, and "mu_product" of NAdam.
  bool keeps(std::string_view name) const;
  /// The names that a parameter with state must have in `values`, whose options count before the group's own.
  std::vector<std::string> needed_states(size_t parameter, const StateDict& values) const;

  /// State by number of the parameter, "3.exp_avg" and "3.step"; the options of the groups, "group.0.lr" and
  /// "group.0.beta1", as 0-d float64, and how many parameters each has, "group.0.params", 0-d int64. Names of state as
  /// in PyTorch. State tensors share memory with the optimizer. Parameters that were never updated are absent.
  virtual StateDict state_dict() const;
  /// Copies the values in, options too; those that are absent stay, but for the rates. ValueError for another number of
  /// groups or of a group's parameters (a state without "params" may have any), an unknown or missing name and an
  /// option out of its range, ShapeError for another shape; nothing is changed then.
  virtual void load_state_dict(const StateDict& values, Location where = {});
  /// Moves what is kept of the parameters to a device, or back to the parameter's own where none is given: there a step
  /// needs it. Between two steps it may lie on the CPU. OutOfMemoryError, and nothing is moved then.
  void move_state(std::optional<Device> device = {}, Location where = {});

 protected:
  /// State of one parameter: `tensors` are named by `state_names`, and undefined where its group keeps none.
  struct State {
    int64_t steps = 0;
    double product = 1;  ///< "mu_product" of NAdam
    std::vector<Tensor> tensors;
  };

  Optimizer(const Rule& rule, std::vector<std::string> state_names);
  void add_values(std::vector<Tensor> parameters, std::vector<double> values, Location where);
  /// What an optimizer asks of a group besides: matrices, being the only one.
  virtual void check_group(const Group& group, Location where) const;
  /// Which of `state_names` a group with these options keeps.
  virtual std::vector<size_t> kept_states(std::span<const double> values) const;
  /// Of these, whether this parameter has it: a vector has no rows. And in which shape.
  virtual bool is_kept(const Tensor&, size_t) const { return true; }
  virtual Dims state_shape(const Tensor& parameter, size_t state) const;
  /// Called when state or parameters are other tensors now, so that cached views are stale.
  virtual void forget() {}
  /// The parameter's state by `state_names`, where it is to be: made where it is missing, all of it or nothing, and
  /// undefined where its group keeps none.
  const std::vector<Tensor>& present_state(const Group& group, const Tensor& parameter, State& state,
                                           Location where) const;
  /// Values by name, each of which somebody has to ask for.
  class Wanted;
  void check_groups(const StateDict& values, Location where) const;
  std::vector<double> loaded_options(size_t group, Wanted& wanted, Location where) const;
  State loaded_state(size_t number, const Tensor& parameter, std::span<const size_t> kept, Wanted& wanted,
                     Location where) const;
  /// What a step made of ops gives: a value for each defined tensor of the state.
  struct Update {
    Tensor parameter;
    std::vector<Tensor> states;
  };
  /// Steps every parameter that has a gradient: update_of(group, parameter, its state, number of the step) works all
  /// new values out before the first is written. Defined in step_by_ops-inl.hpp.
  template <class UpdateOf>
  void step_by_ops(const UpdateOf& update_of, Location where);
  /// While a step is recorded: notes that it is to be repeated, and runs it. False where nobody records.
  bool is_repeated(Location where);

  const Rule* rule_;
  const char* name_;
  std::vector<std::string> state_names_;
  std::vector<Group> groups_;
  std::vector<State> states_;
  std::vector<double> defaults_;
  detail::RepeatOwner repeat_owner_;
  bool stepped_ = false;
};

}  // namespace weft::optim
