// Elementwise steps. Each parameter has a cached slot of views; each kernel call processes the longest possible run of
// slots. Parameters without a kernel are updated by the same formula over symbolic tensors. All that may run out of
// memory is computed before the first write.
#include <algorithm>

#include "../autograd/program_watch.hpp"
#include "../autograd/gradient_rows.hpp"
#include "../autograd/mode.hpp"
#include "../backends/functors/optimizers.hpp"
#include "../backends/watch/observe.hpp"
#include "../ops/complex.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/detail/symbolic.hpp"
#include "../ops/index.hpp"
#include "../ops/masked.hpp"
#include "../ops/pointwise.hpp"
#include "../ops/reduce.hpp"
#include "../tensor/memory_use.hpp"
#include "rule-inl.hpp"

namespace weft::optim {

struct ElementwiseOptimizer::Cache {
  enum class Readiness : uint8_t { absent, computed, fused };
  std::vector<OptimizerSlot> slots;
  std::vector<Readiness> readiness;  ///< of each parameter in the present step
  bool has_all_states = false;
};

namespace {

template <class... Names>
constexpr std::array<const char*, sizeof...(Names)> names(Names... n) {
  return {n...};
}
#define WEFT_ROW(row, F, ...) constexpr auto names_of_##row = names(__VA_ARGS__);
WEFT_OPTIMIZER_STEPS(WEFT_ROW)
#undef WEFT_ROW

constexpr std::span<const char* const> step_states[] = {
#define WEFT_ROW(row, F, ...) std::span<const char* const>(names_of_##row).first(functors::F::states),
    WEFT_OPTIMIZER_STEPS(WEFT_ROW)
#undef WEFT_ROW
};

/// All states that the optimizer may keep with any options, in an order consistent with all its steps.
std::vector<std::string> all_states(const Rule& rule) {
  std::vector<std::string> out;
  const auto add = [&](OptimizerStep step) {
    for (const char* name : states_of(step)) {
      if (std::find(out.begin(), out.end(), name) == out.end()) out.emplace_back(name);
    }
  };
  std::vector<double> values;
  for (const OptionInfo& option : rule.options) values.push_back(option.least);
  // Flags and momentum determine the step: all their combinations are tried.
  std::vector<size_t> switches;
  for (size_t i = 0; i < values.size(); ++i) {
    const OptionInfo& option = rule.options[i];
    if (option.kind == OptionInfo::Kind::flag || std::string_view(option.name) == "momentum") switches.push_back(i);
  }
  for (size_t bits = 0; bits < size_t{1} << switches.size(); ++bits) {
    for (size_t k = 0; k < switches.size(); ++k) values[switches[k]] = static_cast<double>(bits >> k & 1);
    add(rule.kind(values));
  }
  return out;
}

bool has_kernel(const Tensor& parameter) {
  const DType t = parameter.dtype();
  return parameter.is_contiguous() && kernels(parameter.raw_view()).optimizer_step != nullptr &&
         (t == f32 || t == f64 || t == f16 || t == bf16);
}

/// Values of a parameter and its states that were computed and are not written yet.
struct NewValues {
  /// Each state, then the parameter.
  std::vector<Tensor> targets, values;
  /// The rows to write; undefined for all elements.
  Tensor rows = {};

  void write() const {
    for (size_t k = 0; k < targets.size(); ++k) {
      if (rows.defined()) index_copy_(targets[k], 0, rows, values[k]);
      else targets[k].copy_(values[k]);
    }
  }
};

/// Evaluates the formula over tensors: the new value of each state, then that of the parameter.
template <class F>
std::vector<Tensor> composite(const Tensor& parameter, const Tensor& gradient, std::span<const Tensor> state,
                              const OptimizerSettings& settings) {
  const DType wide = compute_type(parameter.dtype());
  const auto factors = factors_in<Symbolic>(settings, [](double x) { return Symbolic(x); });
  const auto old = [&](size_t k) { return k < state.size() ? Symbolic(state[k]) : Symbolic(0.0); };
  Symbolic value(parameter.to(wide)), s[3] = {old(0), old(1), old(2)};
  F::template step<Symbolic>(value, Symbolic(gradient.to(wide)), s[0], s[1], s[2], factors);
  std::vector<Tensor> values;
  for (size_t k = 0; k < state.size(); ++k) values.push_back(s[k].tensor);
  values.push_back(value.tensor.to(parameter.dtype()));
  return values;
}
using Composite = std::vector<Tensor> (*)(const Tensor&, const Tensor&, std::span<const Tensor>,
                                          const OptimizerSettings&);
constexpr Composite composites[] = {
#define WEFT_ROW(row, F, ...) composite<functors::F>,
    WEFT_OPTIMIZER_STEPS(WEFT_ROW)
#undef WEFT_ROW
};

}  // namespace

std::span<const char* const> states_of(OptimizerStep step) { return step_states[static_cast<int>(step)]; }

ElementwiseOptimizer::ElementwiseOptimizer(const Rule& rule) : Optimizer(rule, all_states(rule)), cache_(new Cache) {}
ElementwiseOptimizer::ElementwiseOptimizer(ElementwiseOptimizer&&) noexcept = default;
ElementwiseOptimizer& ElementwiseOptimizer::operator=(ElementwiseOptimizer&&) noexcept = default;
ElementwiseOptimizer::~ElementwiseOptimizer() = default;

std::vector<size_t> ElementwiseOptimizer::kept_states(std::span<const double> values) const {
  std::vector<size_t> out;
  for (const char* name : states_of(rule_->kind(values))) {
    const auto found = std::find(state_names_.begin(), state_names_.end(), name);
    out.push_back(static_cast<size_t>(found - state_names_.begin()));
  }
  return out;
}

void ElementwiseOptimizer::forget() {
  cache_->slots.assign(states_.size(), {});
  cache_->readiness.assign(states_.size(), Cache::Readiness::absent);
  cache_->has_all_states = false;
}

/// A step of one group. Parameter indices count over all groups.
struct ElementwiseOptimizer::Steps {
  ElementwiseOptimizer& self;
  const Group& group;
  size_t begin;
  OptimizerStep kind;
  Location where;

  using Readiness = Cache::Readiness;
  /// The results of one parameter, and its progress after the step.
  struct Computed {
    size_t parameter;
    Progress at;
    NewValues values;
  };

  size_t end() const { return begin + group.parameters.size(); }
  const Tensor& parameter(size_t i) const { return group.parameters[i - begin]; }
  State& state(size_t i) const { return self.states_[i]; }
  OptimizerSlot& slot(size_t i) const { return self.cache_->slots[i]; }

  /// Progress for the next step; the first momentum is the gradient itself.
  Progress progress(size_t i) const { return {state(i).steps + 1, state(i).steps == 0, state(i).product}; }
  bool alike(size_t a, size_t b) const {
    const View &p = slot(a).parameter, &q = slot(b).parameter;
    return state(a).steps == state(b).steps && state(a).product == state(b).product &&
           p.layout.device_type == q.layout.device_type && p.layout.device_index == q.layout.device_index;
  }

  /// Whether the slot refers to the current parameter, and the kernel supports this gradient.
  bool is_current(size_t i, const View& gradient) const {
    const View &kept = slot(i).parameter, &now = parameter(i).raw_view();
    return kept.data == now.data && kept.layout.dtype == now.layout.dtype &&
           kept.layout.device_type == now.layout.device_type && kept.layout.device_index == now.layout.device_index &&
           same_sizes(kept.layout, now.layout) && now.layout.contiguous != 0 &&
           same_sizes(gradient.layout, now.layout) && gradient.layout.contiguous != 0 &&
           gradient.layout.dtype == now.layout.dtype;
  }
  /// Moves the state to the parameter's device and rebuilds the slot. Its address is null if no kernel can update the
  /// parameter.
  void rebuild(size_t i, const View& gradient) const {
    const Tensor& p = parameter(i);
    OptimizerSlot& s = slot(i);
    s.parameter.data = nullptr;
    const std::vector<Tensor> now = present_state(i);
    if (!has_kernel(p) || gradient.layout.contiguous == 0 || gradient.layout.dtype != p.dtype()) return;
    s = {p.raw_view(), gradient, {}};
    for (size_t k = 0; k < now.size(); ++k) s.state[k] = now[k].raw_view();
  }
  std::vector<Tensor> present_state(size_t i) const {
    const std::vector<Tensor>& all = self.present_state(group, parameter(i), state(i), where);
    std::vector<Tensor> now;
    for (const size_t k : self.kept_states(group.values)) now.push_back(all[k]);
    return now;
  }
  Readiness readiness(size_t i) const {
    const AccumulationNode* node = accumulation_node(parameter(i).impl());
    if (node == nullptr || !node->grad.defined() || parameter(i).raw_view().layout.numel == 0) return Readiness::absent;
    const View& gradient = node->grad.raw_view();
    if (WEFT_UNLIKELY(!is_current(i, gradient))) {
      rebuild(i, gradient);
      if (slot(i).parameter.data == nullptr) return Readiness::computed;
    }
    slot(i).gradient.data = gradient.data;
    return Readiness::fused;
  }

  void done(size_t i, const Progress& at) const {
    if (!states_of(kind).empty()) state(i).steps = at.step, state(i).product = at.product;
    note_write(parameter(i));
  }
  void step_fused(size_t first, size_t end) const {
    Progress at = progress(first);
    const OptimizerSettings settings = self.rule_->settings(group.values, at);
    kernels(slot(first).parameter).optimizer_step(kind, {&slot(first), end - first}, settings);
    for (size_t i = first; i < end; ++i) done(i, at);
  }
  Computed compute_all(size_t i) const {
    Computed out{i, progress(i), {}};
    const OptimizerSettings settings = self.rule_->settings(group.values, out.at);
    const NoGradGuard unrecorded;
    const auto parts = [](const Tensor& t) { return is_complex(t.dtype()) ? view_as_real(t) : t; };
    std::vector<Tensor>& targets = out.values.targets;
    for (const Tensor& t : present_state(i)) targets.push_back(parts(t));
    const Tensor p = parts(parameter(i));
    out.values.values = composites[static_cast<int>(kind)](p, parts(parameter(i).grad()), targets, settings);
    targets.push_back(p);
    return out;
  }
  /// The rows that this step updates, if it does not change the others.
  std::optional<GradientRows> rows_to_step(size_t i) const {
    AccumulationNode* const node = accumulation_node(parameter(i).impl());
    const Rule& rule = *self.rule_;
    if (WEFT_LIKELY(node == nullptr || (node->rows == nullptr && !rule.is_lazy))) return {};
    if (node->rows != nullptr) {
      const bool alone = rule.steps_rows != nullptr && rule.steps_rows(group.values);
      auto rows = alone ? detail::gradient_rows(*node) : std::nullopt;
      if (rows) return rows;
      detail::settle_rows(*node);
    }
    const Tensor& gradient = node->grad;
    if (!rule.is_lazy || !gradient.defined() || gradient.dim() == 0 || gradient.numel() == 0) return {};
    const NoGradGuard unrecorded;
    const Tensor moves = any(gradient.reshape({gradient.size(0), -1}) != 0, {1});
    const Tensor ids = nonzero(moves).select(1, 0);
    return GradientRows{ids, index_select(gradient, 0, ids), true};
  }
  /// Updates copies of the rows, as a parameter with its own state.
  Computed compute_rows(size_t i, const GradientRows& rows) const {
    Computed out{i, progress(i), {}};
    const NoGradGuard unrecorded;
    const OptimizerSettings settings = self.rule_->settings(group.values, out.at);
    std::vector<Tensor> whole = present_state(i);
    if (rows.ids.numel() == 0) return out;
    const Tensor moved = index_select(parameter(i), 0, rows.ids), gradient = rows.values.contiguous();
    OptimizerSlot slot{moved.raw_view(), gradient.raw_view(), {}};
    std::vector<Tensor> states;
    for (size_t k = 0; k < whole.size(); ++k) {
      states.push_back(index_select(whole[k], 0, rows.ids));
      slot.state[k] = states[k].raw_view();
    }
    std::vector<Tensor> values;
    if (has_kernel(moved)) {
      kernels(slot.parameter).optimizer_step(kind, {&slot, 1}, settings);
      values = states;
      values.push_back(moved);
    } else {
      values = composites[static_cast<int>(kind)](moved, gradient, states, settings);
    }
    whole.push_back(parameter(i));
    out.values = {std::move(whole), std::move(values), rows.ids};
    return out;
  }
  /// Creates missing state of this step. Returns false if some parameters have none yet.
  bool make_states(std::vector<State>& states) const {
    bool all = true;
    for (size_t i = begin; i < end(); ++i) {
      if (!states[i].tensors.empty()) continue;
      const AccumulationNode* node = accumulation_node(parameter(i).impl());
      const bool steps = node != nullptr && (node->grad.defined() || node->rows != nullptr);
      if (steps && parameter(i).numel() != 0) self.present_state(group, parameter(i), states[i], where);
      all &= !states[i].tensors.empty();
    }
    return all;
  }
  /// Computes the results that need memory, and finds the parameters that a kernel updates.
  void prepare(std::vector<Computed>& computed) const {
    for (size_t i = begin; i < end(); ++i) {
      Readiness& r = self.cache_->readiness[i];
      if (const auto rows = rows_to_step(i); WEFT_UNLIKELY(rows.has_value())) {
        computed.push_back(compute_rows(i, *rows));
        r = Readiness::computed;
        continue;
      }
      r = readiness(i);
      if (WEFT_UNLIKELY(r == Readiness::computed)) computed.push_back(compute_all(i));
    }
  }
  /// Writes the results of this group's parameters.
  void write(const std::vector<Computed>& computed) const {
    const NoGradGuard unrecorded;
    for (const Computed& c : computed) {
      if (c.parameter < begin || c.parameter >= end()) continue;
      c.values.write();
      done(c.parameter, c.at);
    }
  }
  /// Calls the kernel once for each maximal run of compatible parameters.
  void run() const {
    const size_t last = end();
    size_t first = begin;
    for (size_t i = begin; i < last; ++i) {
      const bool is_fused = self.cache_->readiness[i] == Readiness::fused;
      if (is_fused && (first == i || alike(first, i))) continue;
      if (first < i) step_fused(first, i);
      first = is_fused ? i : i + 1;
    }
    if (first < last) step_fused(first, last);
  }
};

/// Creates all state or none, before the first parameter changes, because memory may run out.
void ElementwiseOptimizer::make_states(Location where) {
  std::vector<State> states = states_;
  size_t begin = 0;
  bool all = true;
  for (const Group& group : groups_) {
    all &= Steps{*this, group, begin, rule_->kind(group.values), where}.make_states(states);
    begin += group.parameters.size();
  }
  states_ = std::move(states);
  cache_->has_all_states = all;
}

void ElementwiseOptimizer::step(Location where) {
  if (is_repeated(where)) return;
  if (WEFT_UNLIKELY(detail::program_watch != nullptr)) tell_watch_of_step(*this, *rule_, where);
  const KernelScope scope(name_, where);
  const CallScope call(name_, where);
  const detail::MemoryUseScope use(detail::MemoryUse::optimizer);
  if (WEFT_UNLIKELY(!cache_->has_all_states)) make_states(where);
  std::vector<Steps::Computed> computed;
  const auto each_group = [&](auto&& act) {
    size_t begin = 0;
    for (const Group& group : groups_) {
      act(Steps{*this, group, begin, rule_->kind(group.values), where});
      begin += group.parameters.size();
    }
  };
  each_group([&](const Steps& steps) { steps.prepare(computed); });
  each_group([&](const Steps& steps) { steps.write(computed); });
  each_group([](const Steps& steps) { steps.run(); });
}

}  // namespace weft::optim
