// What fills the memory: every tensor by the line that made it and by what it is for, where it stood highest, and which
// line keeps more from step to step.
//
//   MemoryHistory history(model);                       // from here on
//   for (…) { …; optimizer.step(); history.step(); }
//   fmt::print("{}{}", history.snapshot().text(), history.growth_text());
//
// While no history lives nothing is noted but tensors of a megabyte and more. Tensors of up to 64 bytes on the CPU lie
// in their own heads: neither memory_stats nor this counts them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../autograd/hooks.hpp"
#include "../tensor/allocator.hpp"
#include "../tensor/location.hpp"
#include "../tensor/shared.hpp"
#include "named.hpp"

namespace weft {

enum class MemoryKind : uint8_t {
  parameter,   ///< of those that were named
  gradient,    ///< of those, and what backward made
  activation,  ///< made forward while gradients are recorded, batches too
  optimizer,   ///< made by an optimizer's step
  other        ///< results that nothing records, and without a history all of the rest
};
inline constexpr int memory_kind_count = 5;
WEFT_API std::string_view to_string(MemoryKind kind);

struct LiveMemory {
  size_t bytes = 0;
  MemoryKind kind = MemoryKind::other;
  std::string name = {};  ///< of a named parameter, and "NAME.grad"; else empty
  std::string op = {};    ///< that made it; empty where no op did
  Location where = Location::none();
  std::string module = {};  ///< the path of the module that ran then, where the history knows the model
  int64_t step = -1;        ///< of the history; -1 before it
};

/// All that lives on one device. The sum of `tensors` and `unknown` is `stats.allocated`.
struct MemorySnapshot {
  Device device;
  MemoryStats stats;
  std::vector<LiveMemory> tensors;  ///< the largest first

  size_t known() const;
  size_t of(MemoryKind kind) const;
  /// Of running kernels' workspaces, and of tensors that nothing noted.
  size_t unknown() const;
  /// Held for tensors to come.
  size_t cached() const;
  /// Lines for people: sums by kind, then tensors of one line, op, module and kind together, the most bytes first.
  std::string text(size_t most_lines = 20) const;
  /// One object of JSON, with each tensor.
  std::string json() const;
};

/// What was noted of a device: without a history tensors of a megabyte and more. Parameters and their gradients are
/// known however small they are. DeviceError where there is no such device.
WEFT_API MemorySnapshot memory_snapshot(Device device = {}, const NamedTensors& parameters = {}, Location where = {});

/// A line whose tensors take more bytes from step to step: in number in three steps in a row, in bytes in seven, or as
/// a trend over 15 steps or more in which some fall. What fills up to a limit, or again after it was emptied, is none.
struct MemoryGrowth {
  std::string op = {};
  Location where = Location::none();
  MemoryKind kind = MemoryKind::other;
  int64_t steps = 0;           ///< that were looked at
  double bytes_each_step = 0;  ///< on average over those
  size_t bytes = 0, tensors = 0;
};

/// What lay in memory at one moment of a step, by kind.
struct MemoryMoment {
  double at = 0;  ///< from 0, the step's begin, to 1
  size_t bytes[memory_kind_count] = {};
  size_t sum() const;
};

/// Notes every tensor on every device from construction to destruction. One lives at a time; ValueError for a second.
/// Functions may be called by any thread.
class WEFT_API MemoryHistory {
 public:
  explicit MemoryHistory(Location where = {});
  explicit MemoryHistory(NamedTensors parameters, Location where = {});
  /// Knows the model's parameters, and says by which module a tensor was made.
  template <class Module>
    requires requires(const Module& m) { m.named_parameters(); }
  explicit MemoryHistory(const Module& module, Location where = {}) : MemoryHistory(names_of(module), where) {
    follow(module, "");
  }
  ~MemoryHistory();
  MemoryHistory(const MemoryHistory&) = delete;

  /// Ends a step; to be called after the optimizer's step.
  void step();
  /// With names of more parameters.
  MemorySnapshot snapshot(Device device = {}, const NamedTensors& more = {}) const;
  /// Lines that keep more from step to step, the fastest first.
  std::vector<MemoryGrowth> growth() const;
  /// The same for people: empty where nothing grows.
  std::string growth_text() const;

  /// The last step that ended, on one device: at most so many moments, with the highest among them.
  std::vector<MemoryMoment> curve(Device device = {}, size_t most = 500) const;
  /// What lay there when it was highest.
  MemorySnapshot peak(Device device = {}) const;
  /// Those on which something lay in it, and how many steps ended.
  std::vector<Device> devices() const;
  int64_t steps() const;
  /// The curve as a picture, with the lines that hold most of its peak.
  std::string svg(Device device = {}) const;

 private:
  template <class Module>
  void follow(Module module, const std::string& path) {
    const auto see = [ weak = Weak(state_), path ](const auto& event) requires requires { event.outputs; }
    {
      if (event.phase == decltype(event.phase)::before) enter(weak, path);
      else leave(weak);
    };
    own(module.register_call_hook(see));
    for (auto& [name, child] : module.named_children()) follow(child, path.empty() ? name : path + "." + name);
  }
  struct State;
  static void enter(const Weak<State>& weak, const std::string& path);
  static void leave(const Weak<State>& weak);
  void own(HookHandle hook);

  Shared<State> state_;
};

}  // namespace weft
