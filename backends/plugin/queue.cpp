#include "queue.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "../dispatch.hpp"
#include "../../tensor/error.hpp"

namespace weft::plugin {

#define WEFT_ON_QUEUE(entry, ...) WEFT_PLUGIN(library_, device_.index(), entry, number_, __VA_ARGS__)

PluginQueue::PluginQueue(PluginDevice& device, int number)
    : CommandQueue(device, number),
      device_(device),
      library_(device.library()),
      table_(device.table()),
      number_(device.number()) {
  device.select();
  WEFT_ON_QUEUE(create_stream, &stream_);
  if (stream_ == nullptr) library_.raise_garbage(device.index(), "create_stream", "gave a null pointer");
}

void PluginQueue::begin() {
  device_.require_open();
  device_.select();
  note_command();
  ++queued_;
}

void PluginQueue::after_command() {
  if (device_.is_synchronous()) drain();
}

void PluginQueue::drain() {
  device_.select();
  const uint64_t queued = queued_;
  const int code = library_.status(device_.index(), "synchronize_stream", table_.synchronize_stream, number_, stream_);
  if (code != WEFT_OK) library_.raise_failure(device_.index(), "synchronize_stream", code, queued_text());
  for (uint64_t before = finished_; before < queued && !finished_.compare_exchange_weak(before, queued);) {
  }
  forget_commands();
}

bool PluginQueue::idle() {
  device_.require_open();
  if (table_.query_stream == nullptr) return finished_ == queued_ || record(false)->reached();
  device_.select();
  const int code = library_.status(device_.index(), "query_stream", table_.query_stream, number_, stream_);
  if (code != WEFT_OK && code != WEFT_NOT_READY) {
    library_.raise_failure(device_.index(), "query_stream", code, queued_text());
  }
  return code == WEFT_OK;
}

void PluginQueue::close() noexcept {
  for (Shared<Fence>& slot : slots_) slot = nullptr;
  if (staging_ != nullptr) device_.return_pinned(staging_, slot_bytes * slot_count);
  library_.quietly(table_.destroy_stream, number_, stream_);
}

// ---- fences and calls -----------------------------------------------------------------------------------------------

Shared<Fence> PluginQueue::record(bool) {
  device_.require_open();
  auto fence = Shared<PluginFence>::make(*this);
  const std::lock_guard lock(mutex_);
  WEFT_ON_QUEUE(record_event, stream_, fence->event());
  return fence;
}

void PluginQueue::wait(const Shared<Fence>& fence) {
  if (&fence->queue() == this) return;
  device_.require_open();
  device_.select();
  ++queued_;
  const std::lock_guard lock(mutex_);
  WEFT_ON_QUEUE(stream_wait_event, stream_, static_cast<const PluginFence&>(*fence).event());
}

bool PluginFence::reached() {
  PluginDevice& device = queue_.plugin_device();
  if (device.closed()) return true;
  if (device.table().query_event == nullptr) {  // no function of the host's stands in a stream then: this may wait
    wait();
    return true;
  }
  device.select();
  const int code =
      device.library().status(device.index(), "query_event", device.table().query_event, device.number(), event_);
  if (code != WEFT_OK && code != WEFT_NOT_READY) {
    device.library().raise_failure(device.index(), "query_event", code, queue_.queued_text());
  }
  return code == WEFT_OK;
}

void PluginFence::wait() {
  PluginDevice& device = queue_.plugin_device();
  device.require_open();
  device.select();
  const int code = device.library().status(device.index(), "synchronize_event", device.table().synchronize_event,
                                           device.number(), event_);
  if (code != WEFT_OK) {
    device.library().raise_failure(device.index(), "synchronize_event", code, queue_.queued_text());
  }
}

double PluginFence::milliseconds_since(const Fence& earlier) const {
  PluginDevice& device = queue_.plugin_device();
  device.require_open();
  if (device.table().elapsed_time == nullptr) {
    raise<NotImplementedError>({.problem = fmt::format("{} has no clock for events", device.device().name()),
                                .details = fmt::format("its plug-in {} has no elapsed_time", device.library().path()),
                                .remedy = "measure on the host, after a wait"});
  }
  device.select();
  double milliseconds = 0;
  WEFT_PLUGIN(device.library(), device.index(), elapsed_time, device.number(),
              static_cast<const PluginFence&>(earlier).event_, event_, &milliseconds);
  return milliseconds;
}

struct PluginQueue::HostCall {
  PluginQueue& queue;
  Callback<void()> function;
  HostCall* next = nullptr;

  static void run(void* self) noexcept {
    auto* const call = static_cast<HostCall*>(self);
    try {
      call->function();
    } catch (...) {
      call->queue.keep_failure(std::current_exception());
    }
    call->next = call->queue.called_.load(std::memory_order_relaxed);
    while (!call->queue.called_.compare_exchange_weak(call->next, call, std::memory_order_release)) {
    }
  }
};

void PluginQueue::call(Callback<void()> function) {
  begin();
  if (table_.add_callback == nullptr || table_.query_event == nullptr) {
    drain();
    try {
      const OutsideCalls users_code;
      function();
    } catch (...) {
      keep_failure(std::current_exception());
    }
    return;
  }
  for (HostCall* done = called_.exchange(nullptr, std::memory_order_acquire); done != nullptr;) {
    delete std::exchange(done, done->next);
  }
  auto* const next = new HostCall{*this, std::move(function)};
  try {
    const std::lock_guard lock(mutex_);
    WEFT_ON_QUEUE(add_callback, stream_, &HostCall::run, static_cast<void*>(next));
  } catch (...) {
    delete next;
    throw;
  }
  after_command();
}

// ---- copies ---------------------------------------------------------------------------------------------------------

void PluginQueue::queue_copy(const char* entry, QueuedCopy queued, const char* waiting_entry, Copy waiting, void* to,
                             const void* from, size_t bytes) {
  if (bytes == 0 || to == from) return;
  begin();
  if (queued == nullptr) {
    drain();
    return library_.run(device_.index(), waiting_entry, waiting, number_, to, from, bytes);
  }
  {
    const std::lock_guard lock(mutex_);
    library_.run(device_.index(), entry, queued, number_, stream_, to, from, bytes);
  }
  after_command();
}

void PluginQueue::copy(void* to, const void* from, size_t bytes) {
  queue_copy("async_d2d", table_.async_d2d, "d2d", table_.d2d, to, from, bytes);
}
void PluginQueue::copy_in(void* to, const void* from, size_t bytes) {
  queue_copy("async_h2d", table_.async_h2d, "h2d", table_.h2d, to, from, bytes);
}
void PluginQueue::copy_out(void* to, const void* from, size_t bytes) {
  queue_copy("async_d2h", table_.async_d2h, "d2h", table_.d2h, to, from, bytes);
}

void PluginQueue::copy_peer(void* to, QueuedDevice& source, const void* from, size_t bytes) {
  begin();
  drain();
  WEFT_ON_QUEUE(p2p, to, static_cast<PluginDevice&>(source).number(), from, bytes);
}

void PluginQueue::download(void* to, const void* from, size_t bytes) {
  copy_out(to, from, bytes);
  synchronize();
}

/// Memory for a part of an upload; nullptr where there is none. Its number is the caller's to guard by a fence.
char* PluginQueue::next_slot(size_t& slot) {
  if (staging_ == nullptr) staging_ = static_cast<char*>(device_.take_pinned(slot_bytes * slot_count));
  if (staging_ == nullptr) return nullptr;
  slot = next_slot_;
  next_slot_ = (next_slot_ + 1) % slot_count;
  if (slots_[slot] != nullptr) std::exchange(slots_[slot], nullptr)->wait();
  return staging_ + slot * slot_bytes;
}

void PluginQueue::upload(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (table_.async_h2d == nullptr) return copy_in(to, from, bytes);
  begin();
  const std::lock_guard lock(upload_mutex_);
  for (size_t done = 0; done < bytes; done += slot_bytes) {
    const size_t size = std::min(slot_bytes, bytes - done);
    const char* const part = static_cast<const char*>(from) + done;
    size_t number = 0;
    char* const slot = next_slot(number);
    if (slot == nullptr) {
      drain();
      return WEFT_ON_QUEUE(h2d, static_cast<char*>(to) + done, part, bytes - done);
    }
    std::memcpy(slot, part, size);
    {
      const std::lock_guard queue_lock(mutex_);
      WEFT_ON_QUEUE(async_h2d, stream_, static_cast<char*>(to) + done, slot, size);
    }
    slots_[number] = record(false);
  }
  after_command();
}

bool PluginQueue::fill(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) {
  const auto* first = static_cast<const unsigned char*>(pattern);
  const bool same = std::all_of(first, first + pattern_bytes, [&](unsigned char byte) { return byte == *first; });
  if (!same || table_.memory_set == nullptr) return false;
  if (bytes == 0) return true;
  begin();
  {
    const std::lock_guard lock(mutex_);
    WEFT_ON_QUEUE(memory_set, stream_, to, *first, bytes);
  }
  after_command();
  return true;
}

// ---- kernels --------------------------------------------------------------------------------------------------------

int PluginQueue::queue_kernel(const WeftKernelCall& call) {
  if (table_.recipes != nullptr) {
    if (const RecipeHandle<Recipe> recipe = device_.recipe_for(call)) {
      int code = WEFT_OK;
      {
        const std::lock_guard lock(mutex_);
        code = library_.status(device_.index(), "recipes.launch", table_.recipes->launch, recipe->handle(), stream_,
                               &call);
      }
      recipe.used_on(*this);
      return code;
    }
    if (table_.run_kernel == nullptr) return WEFT_UNSUPPORTED;
  }
  const std::lock_guard lock(mutex_);
  return library_.status(device_.index(), "run_kernel", table_.run_kernel, number_, stream_, &call);
}

void PluginQueue::run(WeftKernelCall& call) {
  begin();
  const CallPlace place = detail::current_call;
  call.op = place.op != nullptr ? place.entry : nullptr;
  call.file = place.where.known() ? place.where.file() : nullptr;
  call.line = place.where.line();
  call.origin[0] = reinterpret_cast<uintptr_t>(static_cast<CommandQueue*>(this));
  call.origin[1] = std::bit_cast<uint64_t>(place.where);
  call.origin[2] = reinterpret_cast<uintptr_t>(place.op);
  const int code = queue_kernel(call);
  if (code == WEFT_UNSUPPORTED) {
    View view;
    std::memcpy(static_cast<void*>(&view), &call.views[call.output_count < call.view_count ? call.output_count : 0],
                sizeof view);
    view.layout.device_type = device().type;
    view.layout.device_index = device().index;
    unsupported(call.kernel, view);
  }
  if (code != WEFT_OK) raise_kernel_failure(call.kernel, code);
  if (call.result != nullptr) synchronize();
  after_command();
}

void PluginQueue::raise_kernel_failure(const char* kernel, int code) {
  const std::string problem = fmt::format("the kernel {} failed on {} with code {}", kernel, device().name(), code);
  switch (code) {
    case WEFT_INDEX_ERROR:
      raise<IndexError>({.problem = problem});
    case WEFT_SHAPE_ERROR:
      raise<ShapeError>({.problem = problem});
    case WEFT_DTYPE_ERROR:
      raise<DTypeError>({.problem = problem});
    case WEFT_VALUE_ERROR:
      raise<ValueError>({.problem = problem});
    case WEFT_NOT_IMPLEMENTED:
      raise<NotImplementedError>({.problem = problem});
    default:
      library_.raise_failure(device().index, "run_kernel", code, fmt::format("kernel {}", kernel));
  }
}

}  // namespace weft::plugin
