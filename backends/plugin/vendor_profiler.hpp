// The profiler of a plug-in: it runs while the program's profiler does, and receives ops with name and line.
//
// The plug-in is called only while a `Profiler` runs. Its measurements are listed beside the host's, because the two
// need not agree.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plugin.h"
#include "../../tensor/device.hpp"
#include "../../tensor/location.hpp"

namespace weft::plugin {

class Library;
class PluginDevice;

/// A device's measurement of its work, in nanoseconds of the host's monotonic clock.
struct MeasuredSpan {
  std::string name;
  Device device;
  int stream;  ///< -1 where it is none of Weft's
  int64_t begin, end;
};

class VendorProfiler {
 public:
  VendorProfiler(const Library& library, std::vector<PluginDevice*> devices);

  // By one thread, while no other computes; DeviceError where the plug-in fails.
  void start();
  std::vector<MeasuredSpan> stop();
  /// Stops, and drops the measurements.
  void abandon() noexcept;

  /// On the thread that queues. Nothing happens while it does not run.
  void begin_span(const char* name, Location where) const noexcept;
  void end_span() const noexcept;

  void finalize() noexcept;

 private:
  /// In a child of fork() it does not: its locks may be held by threads that the child does not have.
  bool runs() const;
  Device device_of(WeftStream stream, int& number) const;
  std::vector<MeasuredSpan> collect() const;

  const Library& library_;
  const std::vector<PluginDevice*> devices_;
  bool initialised_ = false, started_ = false;
  pid_t process_ = 0;  ///< that started it
};

/// Those of the plug-ins that are loaded.
std::vector<VendorProfiler*> vendor_profilers();
/// nullptr where that kind of device brings none.
VendorProfiler* vendor_profiler(DeviceType type);

}  // namespace weft::plugin
