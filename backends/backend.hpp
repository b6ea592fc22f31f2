// The interface of a device type besides kernels: number of devices, copies to and from the host, queues, waiting.
#pragma once

#include <cstddef>
#include <string>

#include "../tensor/allocator.hpp"
#include "../tensor/config.hpp"
#include "../tensor/device.hpp"
#include "../tensor/location.hpp"

namespace weft {

class Queue;

/// Thread-safe. Work on a device is queued on the calling thread's current stream, in program order; these calls keep
/// to that order. A failed call raises DeviceError with the driver's function and code.
class WEFT_API Backend {
 public:
  virtual ~Backend() = default;
  virtual int device_count() = 0;
  /// Human-readable: "Intel Gaudi 2", "NVIDIA H200", with memory.
  virtual std::string describe(int index) = 0;
  /// The source may be reused as soon as the call returns.
  virtual void upload(int index, void* device_data, const void* host_data, size_t bytes) = 0;
  /// Complete on return, after all earlier work on the stream.
  virtual void download(int index, void* host_data, const void* device_data, size_t bytes) = 0;
  /// Between two devices of this kind; same-device copies are ordered with kernels.
  virtual void copy(int to_index, void* to, int from_index, const void* from, size_t bytes) = 0;
  /// Between a device and pinned memory, either way: queued only. The memory may be freed, but not written, meanwhile.
  virtual void copy_pinned(int index, void* to, const void* from, size_t bytes) = 0;
  /// Waits for all queues of the device. Raises errors on them since the last wait.
  virtual void synchronize(int index) = 0;

  virtual Queue& default_queue(int index) = 0;
  /// A queue that nobody has, until it is returned.
  virtual Queue& take_queue(int index) = 0;
  virtual void return_queue(Queue& queue) noexcept = 0;
  /// `queue` works on the memory at `data`, which is not reused before that is done. Addresses that are not the
  /// device's are passed over.
  virtual void note_use(int index, const void* data, Queue& queue) = 0;
  /// Memory of the host that all devices of this kind reach.
  virtual Allocator& pinned_allocator() = 0;
  /// Whether convolutions take f16 and bf16 as they are, sum in f32 and round once; else they get f32.
  virtual bool convolves_small_floats() { return false; }
};

/// The backend of a kind of device: initialised at the first call, nullptr where it is not built in or its driver is
/// absent. The CPU and meta have none.
WEFT_API Backend* find_backend(DeviceType type);

/// Which vector instructions the CPU's kernels use: "scalar", "avx2" or "avx512"; another name on other processors.
WEFT_API const char* cpu_vectors();

/// Number of devices of a kind that can be used now; 1 for cpu and meta.
WEFT_API int device_count(DeviceType type);
/// Why there is no such device, in words for the program's user; empty where there is one.
WEFT_API std::string why_no_device(Device device);
/// DeviceError with that reason, unless there is such a device.
WEFT_API void check_device(Device device, const char* op = nullptr, Location where = {});
/// Waits until all work queued on the device is done. DeviceError where there is no such device.
WEFT_API void synchronize(Device device, Location where = {});

namespace detail {
/// Defined by the backends that are built in: fills kernel_tables and registers allocators, or returns nullptr and says
/// why there is no device.
Backend* start_hpu(std::string& why);
Backend* start_cuda(std::string& why);
}  // namespace detail

}  // namespace weft
