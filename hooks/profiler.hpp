// Measures the time of kernels, forward and backward.
//
//   Profiler profiler;
//   profiler.start();
//   loss = model(x); loss.backward(); optimizer.step();
//   profiler.stop();
//   std::puts(profiler.table().c_str());
//   std::ofstream("trace.json") << profiler.chrome_trace();   // for chrome://tracing or ui.perfetto.dev
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../tensor/device.hpp"
#include "../tensor/index.hpp"
#include "../tensor/pimpl.hpp"

namespace weft {

struct ProfilerOptions {
  /// Synchronises with a device after each of its kernels, so that times measure execution, not queueing.
  bool synchronize = true;
  /// Also records when each kernel ran on its device's stream, with or without `synchronize`.
  bool device_spans = true;
  /// Further events are counted but not kept.
  size_t most_events = 1000000;
};

enum class ProfiledKind : uint8_t {
  kernel,  ///< one kernel, on the host
  node,    ///< one backward node, around its kernels
  span,    ///< the execution of a kernel on its device's stream
  /// An event of a plug-in vendor's profiler: `op` is the vendor's name, `device` and `stream` its location; `stream`
  /// is -1 for a stream that Weft does not own.
  measured,
};

struct ProfiledEvent {
  ProfiledKind kind = ProfiledKind::kernel;
  bool backward = false;
  /// The op that the program called, or the name of the optimizer or Function around all ops that it runs; in backward,
  /// the op of the node.
  std::string op;
  /// The outer op that the program called and that runs `op`; otherwise equal to `op`.
  std::string called = {};
  /// Slot of the kernel table; empty for a node.
  const char* kernel = "";
  Location where = Location::none();
  /// Nanoseconds since `start`.
  int64_t begin = 0, end = 0;
  /// Bytes that the thread allocated on the CPU since its previous event; blocks of up to 64 bytes are not counted.
  int64_t allocated = 0;
  /// Of the first output.
  DType dtype = DType::f32;
  Dims shape = {};
  int thread = 0;
  /// For a span: its stream; `begin` and `end` are device times, converted to the host's clock. For another kind: the
  /// device of the kernel, without a stream.
  Device device = {};
  int stream = -1;
  /// For a node: the index of the forward kernel's event that created it, if any.
  std::optional<size_t> forward = {};
};

struct TableOptions {
  /// One row for each op and line of the program, instead of one for each op.
  bool by_line = false;
  size_t rows = 25;
};

/// Records the kernels of all threads, and the backward nodes that run on the thread that started it. Only one can run
/// at a time. It must be stopped by the same thread, while no other thread computes; the destructor stops it.
class WEFT_API Profiler {
 public:
  explicit Profiler(ProfilerOptions options = {});
  ~Profiler();
  Profiler(const Profiler&) = delete;

  /// Drops earlier events and starts. Also starts the profilers of plug-ins, which are notified of each op. Raises
  /// ValueError while a profiler runs; DeviceError if a plug-in's profiler fails.
  void start(Location where = {});
  /// Raises ValueError unless it runs; DeviceError if a plug-in's profiler fails, after all others have stopped.
  void stop(Location where = {});

  /// Host events in order of their end, then spans in queueing order, then events of plug-ins; may be empty.
  const std::vector<ProfiledEvent>& events() const;
  /// Returns a table of ops by kernel time, for a terminal.
  std::string table(const TableOptions& options = {}) const;
  /// Returns Chrome's trace format: a row for each thread and each device stream. Kernels of a composite op are
  /// enclosed in a slice with the name of the called op. Arrows connect a forward op with its node in backward.
  std::string chrome_trace() const;

 private:
  struct State;
  detail::Pimpl<State> state_;
};

}  // namespace weft
