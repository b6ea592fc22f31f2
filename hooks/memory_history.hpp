// Attributes memory to lines and purposes: every tensor with the line that created it, the peak of a step, and the
// lines that keep more memory from step to step.
//
//   MemoryHistory history(model);                       // from here on
//   for (…) { …; optimizer.step(); history.step(); }
//   fmt::print("{}{}", history.snapshot().text(), history.growth_text());
//
// Without a history, only tensors of a megabyte and more are tracked. CPU tensors of up to 64 bytes are stored inside
// the tensor object; neither memory_stats nor this counts them.
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
  parameter,   ///< a named parameter
  gradient,    ///< gradient of a named parameter, or created by backward
  activation,  ///< created by a recorded forward; includes batches
  optimizer,   ///< created by an optimizer's step
  other        ///< results without a graph; without a history everything else
};
inline constexpr int memory_kind_count = 5;
/// "parameter", "gradient", …: the name of the enumerator.
WEFT_API std::string_view to_string(MemoryKind kind);

struct LiveMemory {
  size_t bytes = 0;
  MemoryKind kind = MemoryKind::other;
  std::string name = {};  ///< of a named parameter, or "NAME.grad"; else empty
  std::string op = {};    ///< the op that created it; empty if none
  Location where = Location::none();
  std::string module = {};  ///< path of the module that created it, if the history has the model
  int64_t step = -1;        ///< step of the history; -1 before it
};

/// All memory of one device. The sum of `tensors` and `unknown` is `stats.allocated`.
struct MemorySnapshot {
  Device device;
  MemoryStats stats;
  std::vector<LiveMemory> tensors;  ///< largest first

  size_t known() const;
  size_t of(MemoryKind kind) const;
  /// Bytes of running kernels' workspaces and of untracked tensors.
  size_t unknown() const;
  /// Bytes held by the allocator for later tensors.
  size_t cached() const;
  /// Returns lines for people: sums by kind, then groups of tensors with the same line, op, module and kind, largest
  /// first.
  std::string text(size_t most_lines = 20) const;
  /// Returns one JSON object that lists each tensor.
  std::string json() const;
};

/// Returns the tracked memory of a device; without a history, tensors of a megabyte and more. Parameters and their
/// gradients are included regardless of size. Raises DeviceError if the device does not exist.
WEFT_API MemorySnapshot memory_snapshot(Device device = {}, const NamedTensors& parameters = {}, Location where = {});

/// A line that keeps more memory from step to step: the number of tensors grew in three consecutive steps, the
/// bytes grew in seven, or there is a trend over at least 15 steps despite some decreases. Buffers that fill up to a
/// limit, or refill after being emptied, do not count.
struct MemoryGrowth {
  std::string op = {};
  Location where = Location::none();
  MemoryKind kind = MemoryKind::other;
  int64_t steps = 0;           ///< number of steps considered
  double bytes_each_step = 0;  ///< average over these steps
  size_t bytes = 0, tensors = 0;
};

/// Memory at one moment of a step, by kind.
struct MemoryMoment {
  double at = 0;  ///< from 0, the start of the step, to 1
  size_t bytes[memory_kind_count] = {};
  size_t sum() const;
};

/// Tracks every tensor on every device during its lifetime. Only one can exist; raises ValueError for a second one.
/// Thread-safe.
class WEFT_API MemoryHistory {
 public:
  explicit MemoryHistory(Location where = {});
  explicit MemoryHistory(NamedTensors parameters, Location where = {});
  /// Includes the model's parameters, and records which module created a tensor.
  template <class Module>
    requires requires(const Module& m) { m.named_parameters(); }
  explicit MemoryHistory(const Module& module, Location where = {}) : MemoryHistory(names_of(module), where) {
    follow(module, "");
  }
  ~MemoryHistory();
  MemoryHistory(const MemoryHistory&) = delete;

  /// Ends a step; call it after the optimizer's step.
  void step();
  /// `more` names further parameters.
  MemorySnapshot snapshot(Device device = {}, const NamedTensors& more = {}) const;
  /// Returns the lines that keep more memory from step to step, the fastest growth first.
  std::vector<MemoryGrowth> growth() const;
  /// Returns the same for people; empty if nothing grows.
  std::string growth_text() const;

  /// Returns the last completed step on one device: at most `max_moments` moments, including the peak.
  std::vector<MemoryMoment> curve(Device device = {}, size_t max_moments = 500) const;
  /// Returns the memory at the peak of the last completed step.
  MemorySnapshot peak(Device device = {}) const;
  /// Devices that held memory in the last completed step, and the number of completed steps.
  std::vector<Device> devices() const;
  int64_t steps() const;
  /// Returns the curve as SVG, with the lines that hold most memory at the peak.
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
