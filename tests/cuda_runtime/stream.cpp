#include <set>
#include <utility>

#include "runtime.hpp"

namespace weft::testing::cuda {

namespace {

std::mutex mutex;
std::set<const void*>& streams() {
  static auto* const all = new std::set<const void*>;
  return *all;
}

struct Event {
  bool timed;
  int gpu;
  weft::Shared<Fence> last;  ///< null before it is recorded
};
std::set<const void*>& events() {
  static auto* const all = new std::set<const void*>;
  return *all;
}

Event* event_of(cudaEvent_t handle) {
  const std::lock_guard lock(mutex);
  return events().contains(handle) ? reinterpret_cast<Event*>(handle) : nullptr;
}

}  // namespace

Stream* stream_of(cudaStream_t handle) {
  const std::lock_guard lock(mutex);
  return streams().contains(handle) ? reinterpret_cast<Stream*>(handle) : nullptr;
}

void drain(int gpu) {
  std::set<const void*> all;
  {
    const std::lock_guard lock(mutex);
    all = streams();
  }
  for (const void* handle : all) {
    auto* const stream = static_cast<Stream*>(const_cast<void*>(handle));
    if (stream->gpu == gpu) stream->queue.drain();
  }
}

}  // namespace weft::testing::cuda

using namespace weft;
using namespace weft::testing::cuda;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return serve(__func__, [=] {
    if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;  // Weft wants no other
    static int made = 0;
    const std::lock_guard lock(mutex);
    auto* const stream = new Stream(current_gpu(), made++);
    streams().insert(stream);
    *out = reinterpret_cast<cudaStream_t>(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return serve(__func__, [=] {
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    stream->queue.drain();
    const std::lock_guard lock(mutex);
    streams().erase(handle);
    stream->queue.close();
    delete stream;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return serve(__func__, [=] {
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->captured != nullptr) return cudaErrorStreamCaptureUnsupported;
    stream->queue.drain();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return serve(__func__, [=] {
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return stream->queue.idle() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  return serve(__func__, [=] {
    Stream* const stream = stream_of(handle);
    const Event* const event = event_of(event_handle);
    if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->captured != nullptr) return cudaErrorStreamCaptureUnsupported;
    if (event->last) stream->queue.wait(event->last);
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return serve(__func__, [=] {
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    stream->add([=](hpu::HpuQueue& queue) {
      queue.call([=] {
        in_host_function = true;
        function(data);
        in_host_function = false;
      });
    });
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  return serve(__func__, [=] {
    const std::lock_guard lock(mutex);
    auto* const event = new Event{(flags & cudaEventDisableTiming) == 0, current_gpu(), {}};
    events().insert(event);
    *out = reinterpret_cast<cudaEvent_t>(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return serve(__func__, [=] {
    Event* const event = event_of(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    const std::lock_guard lock(mutex);
    events().erase(handle);
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  return serve(__func__, [=] {
    Event* const event = event_of(handle);
    Stream* const stream = stream_of(stream_handle);
    if (event == nullptr || stream == nullptr || event->gpu != stream->gpu) return cudaErrorInvalidResourceHandle;
    if (stream->captured != nullptr) return cudaErrorStreamCaptureUnsupported;
    event->last = stream->queue.record(event->timed);
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return serve(__func__, [=] {
    const Event* const event = event_of(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    return !event->last || event->last->reached() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return serve(__func__, [=] {
    const Event* const event = event_of(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->last) event->last->wait();
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second) {
  return serve(__func__, [=] {
    const Event *const begin = event_of(first), *const end = event_of(second);
    if (begin == nullptr || end == nullptr || !begin->timed || !end->timed) return cudaErrorInvalidResourceHandle;
    if (!begin->last || !end->last) return cudaErrorInvalidResourceHandle;
    if (!begin->last->reached() || !end->last->reached()) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(end->last->milliseconds_since(*begin->last));
    return cudaSuccess;
  });
}

}  // extern "C"
