// The stream of a GPU. It orders all commands; another thread's stream, or the default one, is never used.
#include <algorithm>
#include <cstring>

#include "device.hpp"

namespace weft::cuda {

void CudaDevice::create_queue() {
  WEFT_CUDA(index(), cudaStreamCreateWithFlags, &stream_, cudaStreamNonBlocking);
  WEFT_CUDA(index(), cudaEventCreateWithFlags, &reached_, cudaEventDisableTiming);
  void* memory = nullptr;
  WEFT_CUDA(index(), cudaHostAlloc, &memory, slot_bytes * slot_count, cudaHostAllocDefault);
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].data = static_cast<char*>(memory) + i * slot_bytes;
    WEFT_CUDA(index(), cudaEventCreateWithFlags, &slots_[i].done, cudaEventDisableTiming);
  }
  WEFT_CUDA(index(), cudaHostAlloc, &memory, sizeof(portable::BadIndex), cudaHostAllocMapped);
  bad_index_ = static_cast<portable::BadIndex*>(memory);
  *bad_index_ = {};
}

void CudaDevice::after_command() {
  if (synchronous_) WEFT_CUDA(index(), cudaStreamSynchronize, stream_);
}

void CudaDevice::synchronize() {
  open();
  WEFT_CUDA(index(), cudaStreamSynchronize, stream_);
  const std::lock_guard lock(mutex_);
  raise_bad_index();
}

bool CudaDevice::drain() noexcept {
  if (closed_) return false;
  return stream_ == nullptr || cudaStreamSynchronize(stream_) == cudaSuccess;
}

CudaDevice::StagingSlot& CudaDevice::next_slot() {
  StagingSlot& slot = slots_[static_cast<size_t>(next_slot_)];
  next_slot_ = (next_slot_ + 1) % slot_count;
  if (slot.busy) WEFT_CUDA(index(), cudaEventSynchronize, slot.done);
  slot.busy = false;
  return slot;
}

void CudaDevice::upload(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  open();
  const std::lock_guard lock(mutex_);
  const CurrentDevice current(index());
  for (size_t done = 0; done < bytes; done += slot_bytes) {
    const size_t size = std::min(slot_bytes, bytes - done);
    StagingSlot& slot = next_slot();
    std::memcpy(slot.data, static_cast<const char*>(from) + done, size);
    WEFT_CUDA(index(), cudaMemcpyAsync, static_cast<char*>(to) + done, slot.data, size, cudaMemcpyHostToDevice,
              stream_);
    WEFT_CUDA(index(), cudaEventRecord, slot.done, stream_);
    slot.busy = true;
  }
  after_command();
}

void CudaDevice::download(void* to, const void* from, size_t bytes) {
  open();
  if (bytes != 0) {
    const CurrentDevice current(index());
    WEFT_CUDA(index(), cudaMemcpyAsync, to, from, bytes, cudaMemcpyDeviceToHost, stream_);
  }
  synchronize();
}

void CudaDevice::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0 || to == from) return;
  open();
  const CurrentDevice current(index());
  WEFT_CUDA(index(), cudaMemcpyAsync, to, from, bytes, cudaMemcpyDeviceToDevice, stream_);
  after_command();
}

void CudaDevice::copy_from(CudaDevice& source, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  open();
  source.open();
  // The copy waits for what made its source, and what comes after it there waits for the copy.
  const std::scoped_lock lock(mutex_, source.mutex_);
  {
    const CurrentDevice current(source.index());
    WEFT_CUDA(source.index(), cudaEventRecord, source.reached_, source.stream_);
  }
  {
    const CurrentDevice current(index());
    WEFT_CUDA(index(), cudaStreamWaitEvent, stream_, source.reached_, 0);
    WEFT_CUDA(index(), cudaMemcpyPeerAsync, to, index(), from, source.index(), bytes, stream_);
    WEFT_CUDA(index(), cudaEventRecord, reached_, stream_);
  }
  const CurrentDevice current(source.index());
  WEFT_CUDA(source.index(), cudaStreamWaitEvent, source.stream_, reached_, 0);
  after_command();
}

bool CudaDevice::fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) {
  const auto* first = static_cast<const unsigned char*>(pattern);
  const bool same = std::all_of(first, first + pattern_bytes, [&](unsigned char byte) { return byte == *first; });
  if (!same) return false;
  if (bytes == 0) return true;
  open();
  const CurrentDevice current(index());
  WEFT_CUDA(index(), cudaMemsetAsync, to, *first, bytes, stream_);
  after_command();
  return true;
}

}  // namespace weft::cuda
