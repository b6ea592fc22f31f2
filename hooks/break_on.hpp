// Breakpoints at ops, for a debugger or a callback.
//
//   BreakOn stop({.op = "softmax"});                       // before each softmax of this thread, forward and backward
//   BreakOn stop({.line = "net.cpp:41"});                  // before the ops called at that line
//   BreakOn stop({.non_finite = true});                    // after the op that produces the first NaN or infinity
//   BreakOn stop(model, {.module = "blocks.2"});           // inside a module
//   BreakOn stop({.op = "exp", .call = [](const BreakEvent& e) { std::puts(e.text().c_str()); }});
//
// Under gdb (`./weft gdb PROGRAM`), `weft where` selects the frame of the program's line, and `print x` and `weft graph
// x` show tensors and the graph: docs/hooks.md.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "../autograd/hooks.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/shared.hpp"
#include "../tensor/view.hpp"

namespace weft {

/// The op at which a BreakOn stopped. References are valid only during the stop.
struct BreakEvent {
  /// The op's name in the graph, and the program's line that called it in the forward.
  const char* op;
  Location where;
  bool backward = false;
  /// The op has already run, and produced NaN or infinity.
  bool after = false;
  /// Forward: the running kernel of the op, and its operands. Outputs have values only if `after` is true.
  const char* kernel = nullptr;
  std::span<const View*const> inputs = {}, outputs = {};
  /// Backward: the op's node, the gradients of its outputs and, if `after` is true, those of its inputs; undefined if
  /// no gradient flows.
  const Node* node = nullptr;
  std::span<const Tensor> incoming = {}, outgoing = {};
  /// Describes where the reproduction was saved; null if none was.
  const char* left = nullptr;

  /// Returns a line with the op and its location, and one for each operand or gradient with dtype, shape and range.
  /// Synchronises with the device to read values.
  WEFT_API std::string text() const;
};

/// All given conditions must hold; an unset condition matches every op.
struct BreakOptions {
  /// Name of the running op, or of the op that the program called and that runs it; "log" also matches "log_".
  std::string op = {};
  /// "net.cpp:41", with as much of the path as is needed to be unique: the line that called the op in the forward.
  std::string line = {};
  /// Path of a module ("" for the model itself): the ops of its forward, and their backward.
  std::string module = {};
  /// Stops after an op that produces NaN from inputs without NaN, or infinities from finite inputs.
  bool non_finite = false;
  /// Number of matches to skip.
  int64_t skip = 0;
  /// With `non_finite`: folder for the reproduction of the first fault, as in AnomalyOptions::repro.
  std::string repro = "repro";
  /// Called instead of stopping the process. It may compute. If it throws, the exception becomes the error of the op.
  Callback<void(const BreakEvent&)> call = {};
};

/// While it exists, the matching kernels and backward passes of this thread stop: it prints a text to stderr and raises
/// SIGTRAP. If nothing handles that signal, the text says so and the program continues. An op with several kernels
/// stops at each; an op without kernels, such as a view, stops only in its backward. Several can exist at once. Must be
/// destroyed on its own thread; warns then if no op matched.
class WEFT_API BreakOn {
 public:
  /// Raises ValueError for a line without a number, a negative `skip`, and a module without its model.
  explicit BreakOn(BreakOptions options, Location where = {});
  /// Restricts stops to `options.module` of the model. Raises ValueError if there is no module with this path.
  template <class Module>
    requires requires(const Module& m) { m.named_modules(); }
  BreakOn(const Module& model, BreakOptions options, Location where = {}) : BreakOn(std::move(options), true, where) {
    for (auto& [path, module] : model.named_modules()) {
      if (path != module_path()) continue;
      watch(module);
      return;
    }
    raise_no_module(where);
  }
  ~BreakOn();
  BreakOn(const BreakOn&) = delete;

  /// Number of stops.
  int64_t stops() const;

 private:
  struct State;
  BreakOn(BreakOptions options, bool in_module, Location where);
  const std::string& module_path() const;
  [[noreturn]] void raise_no_module(Location where) const;
  static void enter(const Weak<State>& state);
  /// Without outputs if the call failed.
  static void leave(const Weak<State>& state, std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  void own(HookHandle hook);

  template <class Module>
  void watch(Module& module) {
    const auto see = [weak = Weak(state_)](const auto& event) requires requires { event.outputs; }
    {
      if (event.phase == decltype(event.phase)::before) enter(weak);
      else leave(weak, event.inputs, event.outputs);
    };
    own(module.register_call_hook(see));
  }

  Shared<State> state_;
};

}  // namespace weft
