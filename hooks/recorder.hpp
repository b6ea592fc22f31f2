// Records the gradients of a training run, step by step.
//
//   GradientRecorder recorder(model);
//   io::GradientLog log(recorder, "runs/first");   // JSON lines, TensorBoard events and a page; optional
//   for (…) {
//     optimizer.zero_grad();
//     Tensor loss = cross_entropy(model(x), y);
//     loss.backward();
//     optimizer.step();
//     recorder.step(loss.item<double>());
//   }
//   for (const Suspect& s : recorder.suspects()) std::puts(s.text.c_str());
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../autograd/hooks.hpp"
#include "history.hpp"
#include "named.hpp"
#include "report.hpp"
#include "suspects.hpp"

namespace weft {

struct RecorderOptions {
  /// Records every n-th step; other steps cost nothing.
  int64_t every = 1;
  /// Makes histograms in every n-th recorded step.
  int64_t histogram_every = 10;
  /// Watches the outputs of a model's modules, and their gradients.
  bool activations = true;
  /// Traces the backward pass op by op in the first steps, then in every n-th recorded step; 0 disables tracing.
  int64_t trace_every = 10;
  /// Approximate number of evenly spread steps kept in memory in a long run; `on_step` receives all of them.
  int64_t kept_steps = 512;
};

/// Adds x to the recorders of this thread (those that it constructed or last stepped), like their `watch`.
/// Can be called deep inside a forward without a reference to the recorder. Returns x; without a recorder it has no
/// effect. Raises ValueError if x is undefined.
WEFT_API Tensor watch(const Tensor& x, const std::string& name, Location where = {});

/// Watches the gradients of parameters through post-accumulate hooks, before clipping. Copies share one recorder; the
/// hooks are removed with the last copy. Not for several training loops at once.
class WEFT_API GradientRecorder {
 public:
  /// Raises ValueError for a parameter that is undefined or not a leaf, and for intervals or kept_steps below 1. If a
  /// parameter requires no gradient, only its values are watched.
  explicit GradientRecorder(NamedTensors parameters, RecorderOptions options = {}, Location where = {});

  /// Watches all parameters of a module, the outputs of its submodules by path, and the calls of the module.
  template <class Module>
    requires requires(const Module& m) { m.named_parameters(); }
  explicit GradientRecorder(const Module& module, RecorderOptions options = {}, Location where = {})
      : GradientRecorder(names_of(module), options, where) {
    if (!options.activations) return;
    watch_modules(module, "");
    if constexpr (requires { module.named_modules(); }) watch_model(module.named_modules());
  }

  /// Records any tensor of the forward and, if one flows, its gradient. Tensors with the same name in one step are
  /// combined. Raises ValueError if it is undefined; ignores tensors that are not floating-point.
  void watch(const std::string& name, const Tensor& activation, Location where = {});
  /// Ends a step; call it after the optimizer's step.
  void step(std::optional<double> loss = {}, Location where = {});
  /// Sets the number of the next step, for a resumed run; such numbers start at 1. By default steps are counted from 0.
  /// Raises ValueError for a number below 1.
  void set_step(int64_t step, Location where = {});
  /// Prepends the steps of an earlier process. Tensors that are not watched any more are kept.
  void remember(const History& earlier);

  /// False once a recorded value or gradient contained NaN or infinity.
  bool finite() const;
  const History& history() const;
  std::vector<Suspect> suspects() const { return find_suspects(history()); }
  /// Calls `call` at the end of every recorded step, with all observations of the step.
  void on_step(Callback<void(const History&, const HistoryStep&)> call);

 private:
  struct State;
  /// One call of a module.
  struct ModuleCall {
    std::span<const Tensor> inputs, outputs;
    bool training;
    Location where;
  };
  template <class Module>
  void watch_modules(const Module& module, const std::string& path) {
    for (auto& [name, child] : module.named_children()) {
      const std::string name_here = path + name;
      const bool is_norm = child.class_name().starts_with("BatchNorm");
      const auto see = [ weak = Weak(state_), name_here, is_norm ](const auto& event) requires requires {
        event.outputs;
      }
      {
        if (event.outputs.empty()) return;
        if (is_norm && event.module.is_training()) see_norm(weak, name_here, call_of(event));
        see_output(weak, name_here, event.output());
      };
      own(child.register_forward_hook(see));
      watch_modules(child, name_here + ".");
    }
  }
  /// `modules`: the model and all submodules, with their paths.
  template <class Modules>
  void watch_model(Modules modules) {
    for (auto& [name, module] : modules) note_part(name, module.class_name(), module.extra_repr());
    const auto see = [weak = Weak(state_)](const auto& event) requires requires { event.outputs; }
    {
      if (!event.outputs.empty()) see_model(weak, call_of(event));
    };
    own(modules.front().second.register_forward_hook(see));
    find_shared(modules.front().second, "", modules);
  }
  /// Notes modules that are reachable by more than one path.
  template <class Module, class Modules>
  void find_shared(const Module& module, const std::string& path, const Modules& modules) {
    for (auto& [name, child] : module.named_children()) {
      const std::string here = path + name;
      bool known = false;
      for (auto& [first, other] : modules) {
        if (first == here || known || !child.same_as(other)) continue;
        known = true;
        if (!child.parameters().empty()) note_shared(first, here, child.class_name());
      }
      if (!known) find_shared(child, here + ".", modules);
    }
  }
  template <class Event>
  static ModuleCall call_of(const Event& event) {
    return {event.inputs, event.outputs, event.module.is_training(), event.location};
  }
  friend Tensor watch(const Tensor& x, const std::string& name, Location where);
  static void see_output(const Weak<State>& weak, const std::string& name, const Tensor& output);
  static void see_norm(const Weak<State>& weak, const std::string& name, const ModuleCall& call);
  static void see_model(const Weak<State>& weak, const ModuleCall& call);
  void note_part(const std::string& name, const std::string& kind, const std::string& options);
  void note_shared(const std::string& first, const std::string& second, const std::string& kind);
  void own(HookHandle hook);

  Shared<State> state_;
};

}  // namespace weft
