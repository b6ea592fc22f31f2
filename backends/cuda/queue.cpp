#include "queue.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "../queued/allocator.hpp"

namespace weft::cuda {

CudaQueue::CudaQueue(CudaDevice& device, int number) : DeviceQueue(device, number), cuda_(device) {
  const CurrentDevice current(cuda_.index());
  WEFT_CUDA(cuda_.index(), cudaStreamCreateWithFlags, &stream_, cudaStreamNonBlocking);
  void* memory = nullptr;
  WEFT_CUDA(cuda_.index(), cudaHostAlloc, &memory, sizeof(portable::BadIndex), cudaHostAllocMapped);
  bad_index_ = static_cast<portable::BadIndex*>(memory);
  *bad_index_ = {};
}

void* CudaQueue::workspace() {
  const std::lock_guard lock(mutex_);
  if (workspace_ == nullptr) workspace_ = cuda_.allocator().reserve(workspace_bytes);
  return workspace_;
}

void CudaQueue::after_command() {
  if (cuda_.is_synchronous()) drain();
}

void CudaQueue::drain() {
  if (const cudaError_t code = cudaStreamSynchronize(stream_); code != cudaSuccess) {
    raise_failure("cudaStreamSynchronize", code, cuda_.index(), queued_text());
  }
  forget_commands();
}

bool CudaQueue::idle() {
  const cudaError_t code = cudaStreamQuery(stream_);
  if (code == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  if (code != cudaSuccess) raise_failure("cudaStreamQuery", code, cuda_.index(), queued_text());
  return true;
}

// ---- fences and calls -----------------------------------------------------------------------------------------------

CudaFence::CudaFence(CudaQueue& queue, bool timed) : queue_(queue) {
  const int index = queue.device().index;
  const CurrentDevice current(index);
  WEFT_CUDA(index, cudaEventCreateWithFlags, &event_, timed ? cudaEventDefault : cudaEventDisableTiming);
  const cudaError_t code = cudaEventRecord(event_, queue.stream());
  if (code == cudaSuccess) return;
  cudaEventDestroy(event_);
  raise_failure("cudaEventRecord", code, index);
}

CudaFence::~CudaFence() {
  if (!queue_.cuda_device().closed()) cudaEventDestroy(event_);
}

bool CudaFence::reached() {
  if (queue_.cuda_device().closed()) return true;
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  if (code != cudaSuccess) raise_failure("cudaEventQuery", code, queue_.device().index, queue_.queued_text());
  return true;
}

void CudaFence::wait() {
  queue_.cuda_device().require_open();
  if (const cudaError_t code = cudaEventSynchronize(event_); code != cudaSuccess) {
    raise_failure("cudaEventSynchronize", code, queue_.device().index, queue_.queued_text());
  }
}

double CudaFence::milliseconds_since(const Fence& earlier) const {
  queue_.cuda_device().require_open();
  float milliseconds = 0;
  WEFT_CUDA(queue_.device().index, cudaEventElapsedTime, &milliseconds, static_cast<const CudaFence&>(earlier).event_,
            event_);
  return milliseconds;
}

Shared<Fence> CudaQueue::record(bool timed) {
  cuda_.require_open();
  refuse_notes();
  return Shared<CudaFence>::make(*this, timed);
}

void CudaQueue::wait(const Shared<Fence>& fence) {
  if (&fence->queue() == this) return;
  cuda_.require_open();
  refuse_notes();
  const CurrentDevice current(cuda_.index());
  WEFT_CUDA(cuda_.index(), cudaStreamWaitEvent, stream_, static_cast<const CudaFence&>(*fence).event(), 0);
}

struct CudaQueue::HostCall {
  CudaQueue& queue;
  Callback<void()> function;

  static void run(void* self) {
    auto* const call = static_cast<HostCall*>(self);
    try {
      call->function();
    } catch (...) {
      call->queue.keep_failure(std::current_exception());
    }
    const std::lock_guard lock(call->queue.mutex_);
    call->queue.called_.push_back(call);
  }
};

void CudaQueue::call(Callback<void()> function) {
  cuda_.require_open();
  refuse_notes();
  note_command();
  std::vector<HostCall*> finished;
  {
    const std::lock_guard lock(mutex_);
    finished.swap(called_);
  }
  for (HostCall* call : finished) delete call;
  auto* const next = new HostCall{*this, std::move(function)};
  const CurrentDevice current(cuda_.index());
  if (const cudaError_t code = cudaLaunchHostFunc(stream_, &HostCall::run, next); code != cudaSuccess) {
    delete next;
    raise_failure("cudaLaunchHostFunc", code, cuda_.index());
  }
  after_command();
}

// ---- commands -------------------------------------------------------------------------------------------------------

CudaQueue::StagingSlot& CudaQueue::next_slot() {
  if (staging_ == nullptr) {
    void* memory = nullptr;
    WEFT_CUDA(cuda_.index(), cudaHostAlloc, &memory, slot_bytes * slot_count, cudaHostAllocDefault);
    staging_ = static_cast<char*>(memory);
  }
  const auto number = static_cast<size_t>(next_slot_);
  StagingSlot& slot = slots_[number];
  if (slot.done == nullptr) WEFT_CUDA(cuda_.index(), cudaEventCreateWithFlags, &slot.done, cudaEventDisableTiming);
  slot.data = staging_ + number * slot_bytes;
  next_slot_ = (next_slot_ + 1) % slot_count;
  if (slot.busy) WEFT_CUDA(cuda_.index(), cudaEventSynchronize, slot.done);
  slot.busy = false;
  return slot;
}

void CudaQueue::upload(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  cuda_.require_open();
  refuse_notes();
  note_command();
  const CurrentDevice current(cuda_.index());
  {
    const std::lock_guard lock(mutex_);
    for (size_t done = 0; done < bytes; done += slot_bytes) {
      const size_t size = std::min(slot_bytes, bytes - done);
      StagingSlot& slot = next_slot();
      std::memcpy(slot.data, static_cast<const char*>(from) + done, size);
      WEFT_CUDA(cuda_.index(), cudaMemcpyAsync, static_cast<char*>(to) + done, slot.data, size, cudaMemcpyHostToDevice,
                stream_);
      WEFT_CUDA(cuda_.index(), cudaEventRecord, slot.done, stream_);
      slot.busy = true;
    }
  }
  after_command();
}

void CudaQueue::download(void* to, const void* from, size_t bytes) {
  copy(to, from, bytes);
  synchronize();
}

void CudaQueue::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0 || to == from) return;
  cuda_.require_open();
  note_copy(to, from, bytes);
  note_command();
  const CurrentDevice current(cuda_.index());
  WEFT_CUDA(cuda_.index(), cudaMemcpyAsync, to, from, bytes, cudaMemcpyDefault, stream_);
  after_command();
}

bool CudaQueue::fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) {
  const auto* first = static_cast<const unsigned char*>(pattern);
  const bool same = std::all_of(first, first + pattern_bytes, [&](unsigned char byte) { return byte == *first; });
  if (!same) return false;
  if (bytes == 0) return true;
  cuda_.require_open();
  note_fill(to, pattern, pattern_bytes, bytes);
  note_command();
  const CurrentDevice current(cuda_.index());
  WEFT_CUDA(cuda_.index(), cudaMemsetAsync, to, *first, bytes, stream_);
  after_command();
  return true;
}

void CudaKernel::launch_on(cudaStream_t stream, int device, const Grid& grid, const Argument* arguments, size_t count) {
  constexpr uint32_t most_x = 0x7fffffff, most = 65535;
  const auto& groups = grid.groups;
  if (groups[0] > most_x || groups[1] > most || groups[2] > most) [[unlikely]] {
    const std::string text = fmt::format("a grid of {} x {} x {} groups is too large", groups[0], groups[1], groups[2]);
    raise_failure("cudaLaunchKernel", cudaErrorInvalidConfiguration, text.c_str(), device);
  }
  void* pointers[24];
  for (size_t i = 0; i < count; ++i) pointers[i] = const_cast<void*>(arguments[i].value);
  const dim3 blocks(groups[0], groups[1], groups[2]);
  const dim3 threads(grid.group_size[0], grid.group_size[1], grid.group_size[2]);
  WEFT_CUDA(device, cudaLaunchKernel, function, blocks, threads, pointers, 0, stream);
}

void CudaQueue::launch(Kernel& kernel, const Grid& grid, const Argument* arguments, size_t count) {
  cuda_.require_open();
  note_launch(kernel, grid, arguments, count);
  note_command();
  const CurrentDevice current(cuda_.index());
  static_cast<CudaKernel&>(kernel).launch_on(stream_, cuda_.index(), grid, arguments, count);
  after_command();
}

}  // namespace weft::cuda
