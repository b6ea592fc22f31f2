// The base class of optimizers: parameter groups with options, state, and the step.
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
#include "../tensor/capture_recorder.hpp"

namespace weft::optim {

/// Parameters that share their options: a value for each entry of Optimizer::option_info, the learning rate first.
struct Group {
  std::vector<Tensor> parameters;
  std::vector<double> values;
  double lr() const { return values.front(); }
};

/// Parameters with options, to construct an optimizer from. Options that are not set default to the optimizer's.
template <class Options>
struct ParameterGroup {
  std::vector<Tensor> parameters;
  Options options = {};
};

/// Recomputes the loss and its gradients: zero_grad, forward, backward.
using Closure = Callback<Tensor()>;

struct Rule;

/// Base of all optimizers. Movable, but not copyable: copies would share part of their state.
class WEFT_API Optimizer {
 public:
  using StateDict = std::map<std::string, Tensor>;

  virtual ~Optimizer();
  Optimizer(Optimizer&&) noexcept = default;
  Optimizer& operator=(Optimizer&&) noexcept = default;

  /// Updates every parameter that has a gradient. Memory is allocated before the first write, so a step that raises
  /// OutOfMemoryError changes nothing. If a kernel raises, the step counts of its parameters do not change.
  virtual void step(Location where = {}) = 0;
  /// Calls the closure with gradients enabled, steps, and returns the loss. LBFGS may call it several times.
  virtual Tensor step(const Closure& closure, Location where = {});
  /// Clears the gradients: `.grad()` is undefined until the next backward. With false, sets existing gradients to zero.
  void zero_grad(bool set_to_none = true);
  /// Whether it has stepped, or a GradScaler has skipped a step. A Scheduler that steps before warns.
  bool has_stepped() const;
  void note_step() { stepped_ = true; }

  std::span<const Group> groups() const { return {groups_.data(), groups_.size()}; }
  /// All parameters, group by group.
  std::vector<Tensor> parameters() const;
  /// Adds a group with options by name. Raises ValueError if there are no parameters, if one is undefined, not a leaf,
  /// not floating-point or already present, for an unknown option, and for a value out of range.
  void add_named_group(std::vector<Tensor> parameters, const NamedOptions& options, Location where = {});

  /// Replaces the parameters of each group, which keeps its options; a group may become empty. Raises ValueError,
  /// before any change, for another number of groups, for parameters that add_named_group rejects, and if a parameter
  /// was already updated.
  void replace_parameters(std::vector<std::vector<Tensor>> groups, Location where = {});

  /// The options, in the order of Group::values.
  std::span<const OptionInfo> option_info() const;
  bool has_option(std::string_view name) const;
  /// A group's option as a number. Raises ValueError for an unknown option, IndexError for an unknown group.
  double option(std::string_view name, size_t group = 0, Location where = {}) const;
  /// Sets an option of one group. Also raises ValueError for a value out of range.
  void set_option(std::string_view name, double value, size_t group, Location where = {});
  /// Sets several options, or none if one of them is invalid.
  void set_options(const NamedOptions& options, size_t group, Location where = {});

  /// The learning rate of the first or the given group.
  double lr(size_t group = 0) const { return groups_[group].lr(); }
  /// Sets the learning rate of all groups, or of one. Raises ValueError unless it is finite and not negative;
  /// IndexError for an unknown group.
  void set_lr(double lr, Location where = {});
  void set_lr(double lr, size_t group, Location where = {});

  /// The class name, "AdamW", and the names of the states that it may keep besides the step: "exp_avg", "exp_avg_sq".
  const char* name() const { return name_; }
  std::span<const std::string> state_names() const { return state_names_; }

  /// Whether a saved state may have this name, including "step" and NAdam's "mu_product".
  bool keeps(std::string_view name) const;
  /// The names that `values` must contain for a parameter with state; options in `values` override those of the group.
  std::vector<std::string> needed_states(size_t parameter, const StateDict& values) const;

  /// State by index of the parameter, "3.exp_avg" and "3.step", with PyTorch's names. Options of the groups,
  /// "group.0.lr" and "group.0.beta1", as 0-d float64. Number of parameters of each group, "group.0.params", as 0-d
  /// int64. State tensors share memory with the optimizer. Parameters that were never updated are absent.
  virtual StateDict state_dict() const;
  /// Copies the values into state and options. Absent options do not change, but the learning rate of each group is
  /// required. Raises ValueError for another number of groups or of a group's parameters (a state without "params" may
  /// have any). Raises ValueError for an unknown or missing name and an option out of range, ShapeError for another
  /// shape. Then nothing is changed.
  virtual void load_state_dict(const StateDict& values, Location where = {});
  /// Moves the state to a device, or back to the parameters' devices by default, where a step requires it. Between two
  /// steps it may be kept on the CPU. Raises OutOfMemoryError, and then moves nothing.
  void move_state(std::optional<Device> device = {}, Location where = {});

 protected:
  /// State of one parameter: `tensors` in the order of `state_names`; undefined if its group keeps none.
  struct State {
    int64_t steps = 0;
    double product = 1;  ///< "mu_product" of NAdam
    std::vector<Tensor> tensors;
  };

  Optimizer(const Rule& rule, std::vector<std::string> state_names);
  void add_values(std::vector<Tensor> parameters, std::vector<double> values, Location where);
  /// Checks a group for further requirements of an optimizer: only matrices, or a single group.
  virtual void check_group(const Group& group, Location where) const;
  /// Indices in `state_names` of the states that a group with these options keeps.
  virtual std::vector<size_t> kept_states(std::span<const double> values) const;
  /// Whether this parameter has one of these states (a vector has no rows), and the state's shape.
  virtual bool is_kept(const Tensor&, size_t) const { return true; }
  virtual Dims state_shape(const Tensor& parameter, size_t state) const;
  /// Called after state or parameters were replaced, so that cached views are stale.
  virtual void forget() {}
  /// The parameter's state in the order of `state_names`, on its device; undefined tensors for states that its group
  /// does not keep. Creates missing state, all of it or nothing.
  const std::vector<Tensor>& present_state(const Group& group, const Tensor& parameter, State& state,
                                           Location where) const;
  /// A loaded state; every value must be requested once, or it is reported as unknown.
  class Wanted;
  void check_groups(const StateDict& values, Location where) const;
  std::vector<double> loaded_options(size_t group, Wanted& wanted, Location where) const;
  State loaded_state(size_t number, const Tensor& parameter, std::span<const size_t> kept, Wanted& wanted,
                     Location where) const;
  /// The result of a step computed with ops: a value for each defined tensor of the state.
  struct Update {
    Tensor parameter;
    std::vector<Tensor> states;
  };
  /// Steps every parameter that has a gradient. update_of(group, parameter, state, step) computes all new values before
  /// the first is written. Defined in step_by_ops-inl.hpp.
  template <class UpdateOf>
  void step_by_ops(const UpdateOf& update_of, Location where);
  /// While a step is recorded: registers the optimizer's step for replay, and runs it. Returns false if none is
  /// recorded.
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
