// A stream of a GPU. The default one of the runtime is never used.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "device.hpp"

namespace weft::cuda {

struct CudaKernel final : Kernel {
  const void* function;

  /// The device is the thread's current one.
  void launch_on(cudaStream_t stream, int device, const Grid& grid, const Argument* arguments, size_t count);
};

class CudaQueue final : public portable::host::DeviceQueue {
 public:
  CudaQueue(CudaDevice& device, int number);

  cudaStream_t stream() const { return stream_; }
  CudaDevice& cuda_device() const { return cuda_; }
  /// Memory for a library's intermediate results, of use in the stream's order; nullptr where there is none.
  void* workspace();
  static constexpr size_t workspace_bytes = size_t{32} << 20;
  /// Commands that a library queues, now and whenever they are repeated: by functions of the stream that queue the same
  /// each time. The device is the thread's current one.
  template <class F>
  void run_library(F queue) {
    cuda_.require_open();
    if (portable::host::CommandNotes* const notes = portable::host::notes_of(*this)) {
      notes->commands.emplace_back(
          portable::host::NotedCall{[queue](void* stream) { queue(static_cast<cudaStream_t>(stream)); }});
    }
    note_command();
    queue(stream_);
    after_command();
  }

  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  bool fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) override;
  void launch(Kernel& kernel, const Grid& grid, const Argument* arguments, size_t count) override;

  Shared<Fence> record(bool timed) override;
  void wait(const Shared<Fence>& fence) override;
  void call(Callback<void()> function) override;
  bool idle() override;
  void drain() override;
  std::unique_ptr<CommandBatch> make_batch(portable::host::CommandNotes notes) override;
  void* native_handle() override { return stream_; }

 private:
  void after_command();
  static constexpr size_t slot_bytes = size_t{256} << 10;
  static constexpr int slot_count = 32;
  struct StagingSlot {
    char* data = nullptr;
    cudaEvent_t done = nullptr;
    bool busy = false;
  };
  struct HostCall;

  StagingSlot& next_slot();

  CudaDevice& cuda_;
  cudaStream_t stream_ = nullptr;
  std::mutex mutex_;  ///< of what follows
  char* staging_ = nullptr;
  std::array<StagingSlot, slot_count> slots_;
  int next_slot_ = 0;
  void* workspace_ = nullptr;
  /// Functions that have run. Their captures must not be destroyed on a thread of the runtime.
  std::vector<HostCall*> called_;
};

class CudaFence final : public Fence {
 public:
  CudaFence(CudaQueue& queue, bool timed);
  ~CudaFence() override;

  Queue& queue() const override { return queue_; }
  bool reached() override;
  void wait() override;
  double milliseconds_since(const Fence& earlier) const override;
  cudaEvent_t event() const { return event_; }

 private:
  CudaQueue& queue_;
  cudaEvent_t event_ = nullptr;
};

/// The calling thread's queue of the GPU of `view`.
inline CudaQueue& cuda_queue_of(const View& view) {
  return static_cast<CudaQueue&>(portable::host::device_of(view).queue());
}

}  // namespace weft::cuda
