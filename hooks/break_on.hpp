// Stopping a program at an op: for a debugger, or for a function of the program's own.
//
//   BreakOn stop({.op = "softmax"});                       // before each softmax of this thread, forward and backward
//   BreakOn stop({.line = "net.cpp:41"});                  // before what that line calls
//   BreakOn stop({.non_finite = true});                    // after the op that makes the first NaN or infinity
//   BreakOn stop(model, {.module = "blocks.2"});           // inside a module
//   BreakOn stop({.op = "exp", .call = [](const BreakEvent& e) { std::puts(e.text().c_str()); }});
//
// Under gdb (`./weft gdb PROGRAM`) `weft where` then goes to the program's line, and `print x` and `weft graph x` show
// tensors and the graph: docs/hooks.md.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "../autograd/hooks.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/shared.hpp"
#include "../tensor/view.hpp"

namespace weft {

/// Where a BreakOn stopped. Its parts live as long as the stop.
struct BreakEvent {
  /// The op as the graph names it, and the program's line that called it in the forward.
  const char* op;
  Location where;
  bool backward = false;
  /// It has run already, and made something not finite.
  bool after = false;
  /// Forward: the kernel of the op that runs, and its operands. What it writes has values `after` alone.
  const char* kernel = nullptr;
  std::span<const View*const> inputs = {}, outputs = {};
  /// Backward: the op's node, the gradients of its outputs and, `after`, those of its inputs; undefined where none
  /// flows.
  const Node* node = nullptr;
  std::span<const Tensor> incoming = {}, outgoing = {};
  /// Where its reproduction was left, in words; null where none was.
  const char* left = nullptr;

  /// A line with the op and its place, and one for each operand or gradient with dtype, shape and range. A device's
  /// values are waited for.
  WEFT_API std::string text() const;
};

/// What is given must hold all at once; nothing given stands for every op.
struct BreakOptions {
  /// The name of the op that runs, or of the one that the program called, in which it runs; "log" stands for "log_",
  /// too.
  std::string op = {};
  /// "net.cpp:41", with as much of the path as tells it apart: the line that called the op in the forward.
  std::string line = {};
  /// The path of a module ("" is the model itself): ops of its forward, and their backward.
  std::string module = {};
  /// Stops after an op that makes NaN without one in its inputs, or infinities from finite inputs.
  bool non_finite = false;
  /// Passes over so many first.
  int64_t skip = 0;
  /// With `non_finite`: the folder in which the first of them leaves its reproduction, as AnomalyOptions::repro.
  std::string repro = "repro";
  /// Called instead of stopping the process. It may compute; what it throws is the error of the op, whose outputs are
  /// then not returned.
  Callback<void(const BreakEvent&)> call = {};
};

/// While it lives, the kernels and the backward passes of this thread stop at what the options say, with SIGTRAP after
/// a text on stderr; where nobody waits for that signal, the text says so and the program goes on. An op of several
/// kernels stops at each, one that runs none, such as a view, in its backward alone. Several may live at once.
/// To be destroyed on its own thread; where nothing that ran was what the options name, it warns then.
class WEFT_API BreakOn {
 public:
  /// ValueError for a line without a number, a negative `skip`, and for a module without its model.
  explicit BreakOn(BreakOptions options, Location where = {});
  /// Inside `options.module` of the model; ValueError where it has none of this path.
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

  /// How often it stopped.
  int64_t stops() const;

 private:
  struct State;
  BreakOn(BreakOptions options, bool in_module, Location where);
  const std::string& module_path() const;
  [[noreturn]] void raise_no_module(Location where) const;
  static void enter(const Weak<State>& state);
  /// Without outputs where the call failed.
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
