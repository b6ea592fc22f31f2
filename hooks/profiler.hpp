// Measures a program's time kernel by kernel, forward and backward.
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
  /// Waits for a device after each of its kernels, so that times are of execution, not of queueing.
  bool synchronize = true;
  /// Records also when the work of each kernel ran on its device's stream, whether that is waited for or not.
  bool device_spans = true;
  /// Events beyond this many are counted but not kept.
  size_t most_events = 1000000;
};

enum class ProfiledKind : uint8_t {
  kernel,  ///< one kernel, on the host
  node,    ///< a node of the graph that backward ran, around its kernels
  span,    ///< the work of a kernel on its device's stream
  /// What the profiler of a plug-in's vendor measured: `op` is its name of it, `device` and `stream` where it ran, the
  /// stream -1 where that is none of Weft's.
  measured,
};

struct ProfiledEvent {
  ProfiledKind kind = ProfiledKind::kernel;
  bool backward = false;
  /// The op that the program called, or the name of the optimizer or Function for all that it runs; in backward the op
  /// whose gradient is computed.
  std::string op;
  /// The op that the program called, of which `op` is a part; `op` itself where it is none's.
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
  /// Of a span: from when the stream came to this kernel, by the device's clock, to when it was done, both in the
  /// host's time. Of another kind, where the kernel runs; no stream.
  Device device = {};
  int stream = -1;
  /// For a node: the index of the event of the forward kernel that made it, if there is one.
  std::optional<size_t> forward = {};
};

struct TableOptions {
  /// A row for each op and line of the program, instead of one for each op.
  bool by_line = false;
  size_t rows = 25;
};

/// Records the kernels of all threads, and the graph's nodes that run on the thread that started it. Only one runs at a
/// time. It must be stopped by the thread that started it, while no other computes; its destructor stops it.
class WEFT_API Profiler {
 public:
  explicit Profiler(ProfilerOptions options = {});
  ~Profiler();
  Profiler(const Profiler&) = delete;

  /// Drops the events of an earlier run. ValueError while a profiler runs; DeviceError where that of a plug-in fails,
  /// which runs and is told of each op as long as this one does.
  void start(Location where = {});
  /// ValueError unless it runs; DeviceError where a plug-in's fails, when all others have stopped.
  void stop(Location where = {});

  /// In order of their end on the host, then spans in order of their queueing, then what plug-ins measured; may be
  /// empty.
  const std::vector<ProfiledEvent>& events() const;
  /// Ops by the time of their kernels, for a terminal.
  std::string table(const TableOptions& options = {}) const;
  /// Chrome's trace format: a row for each thread, and for each stream of a device; around the kernels of an op that is
  /// made of others a slice with the name that the program called. Arrows lead from an op of the forward to its node in
  /// backward.
  std::string chrome_trace() const;

 private:
  struct State;
  detail::Pimpl<State> state_;
};

}  // namespace weft
