#include "device.hpp"

#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <exception>

#include "allocator.hpp"
#include "../../tensor/error.hpp"

namespace weft {

namespace {
constinit QueuedDevice* devices[device_type_count][256] = {};
constinit std::atomic<bool> forked = false;
}  // namespace

/// A driver's threads, and locks that they may hold, stay with the parent process.
void QueuedDevice::leave_to_parent() noexcept {
  forked = true;
  for (const auto& kind : devices) {
    for (QueuedDevice* device : kind) {
      if (device != nullptr) device->closed_ = true;
    }
  }
}

QueuedDevice::QueuedDevice(Device device)
    : device_(device), allocator_(new DeviceAllocator(*this, DeviceAllocator::Memory::device)) {}
QueuedDevice::~QueuedDevice() = default;

CommandQueue& QueuedDevice::queue() {
  require_open();
  if (Queue* chosen = detail::chosen_queue(device_)) return static_cast<CommandQueue&>(*chosen);
  return default_queue();
}

CommandQueue& QueuedDevice::default_queue() {
  if (CommandQueue* known = default_queue_.load(std::memory_order_acquire)) [[likely]]
    return *known;
  const std::lock_guard lock(queue_mutex_);
  if (queues_.empty()) {
    require_open();
    queues_.push_back(make_queue(0));
    default_queue_.store(queues_[0].get(), std::memory_order_release);
  }
  return *queues_[0];
}

CommandQueue& QueuedDevice::take_queue() {
  require_open();
  default_queue();
  const std::lock_guard lock(queue_mutex_);
  require_open();
  if (unused_queues_.empty()) {
    queues_.reserve(queues_.size() + 1);
    unused_queues_.reserve(queues_.size() + 1);  // so that a queue can always be returned
    queues_.push_back(make_queue(static_cast<int>(queues_.size())));
    return *queues_.back();
  }
  CommandQueue* queue = unused_queues_.back();
  unused_queues_.pop_back();
  return *queue;
}

void QueuedDevice::return_queue(CommandQueue& queue) noexcept {
  if (closed_) return;
  const std::lock_guard lock(queue_mutex_);
  unused_queues_.push_back(&queue);
}

std::vector<CommandQueue*> QueuedDevice::queues() {
  const std::lock_guard lock(queue_mutex_);
  std::vector<CommandQueue*> list;
  for (const auto& queue : queues_) list.push_back(queue.get());
  return list;
}

void QueuedDevice::synchronize() {
  require_open();
  default_queue();
  std::exception_ptr failure;
  for (CommandQueue* queue : queues()) {
    try {
      queue->synchronize();
    } catch (...) {
      if (failure == nullptr) failure = std::current_exception();
      else queue->keep_failure(std::current_exception());
    }
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

bool QueuedDevice::drain() noexcept {
  if (closed_) return false;
  try {
    for (CommandQueue* queue : queues()) queue->drain();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void QueuedDevice::require_open() const {
  if (!closed_) [[likely]]
    return;
  if (forked) {
    raise<DeviceError>({.problem = device_.name() + " belongs to the process that forked this one",
                        .remedy = "use it in one of the two, or start the child anew by exec"});
  }
  raise<DeviceError>({.op = "device", .problem = device_.name() + " was shut down: the program is ending"},
                     Location::none());
}

void register_device(QueuedDevice& device) {
  static const int hooked = pthread_atfork(nullptr, nullptr, QueuedDevice::leave_to_parent);
  (void)hooked;
  devices[static_cast<int>(device.device().type)][device.index()] = &device;
  register_allocator(device.device(), &device.allocator());
}

std::unique_ptr<KernelNotes> note_kernels(Device device) {
  QueuedDevice* const found = find_device(device);
  return found != nullptr ? found->note_kernels() : nullptr;
}

QueuedDevice* find_device(Device device) { return devices[static_cast<int>(device.type)][device.index]; }

// ---- the backend ----------------------------------------------------------------------------------------------------

QueuedBackend::QueuedBackend(DeviceType type)
    : type_(type), pinned_(new DeviceAllocator(at(0), DeviceAllocator::Memory::pinned)) {}
QueuedBackend::~QueuedBackend() = default;

int QueuedBackend::device_count() {
  const auto& all = devices[static_cast<int>(type_)];
  int count = 0;
  while (count < 256 && all[count] != nullptr) ++count;
  return count;
}

QueuedDevice& QueuedBackend::at(int index) {
  QueuedDevice* const found = index >= 0 && index < 256 ? devices[static_cast<int>(type_)][index] : nullptr;
  if (found != nullptr) [[likely]]
    return *found;
  const std::string kind = Device(type_).name();
  raise<DeviceError>(
      {.op = "device", .problem = "there is no device " + kind.substr(0, kind.find(':') + 1) + std::to_string(index)},
      Location::none());
}

void QueuedBackend::upload(int index, void* device_data, const void* host_data, size_t bytes) {
  CommandQueue& queue = at(index).queue();
  at(index).allocator().note_use(device_data, queue);
  queue.upload(device_data, host_data, bytes);
}

void QueuedBackend::download(int index, void* host_data, const void* device_data, size_t bytes) {
  at(index).queue().download(host_data, device_data, bytes);
}

void QueuedBackend::copy(int to_index, void* to, int from_index, const void* from, size_t bytes) {
  QueuedDevice &target = at(to_index), &source = at(from_index);
  CommandQueue &writer = target.queue(), &reader = source.queue();
  target.allocator().note_use(to, writer);
  source.allocator().note_use(from, reader);
  if (to_index == from_index) return writer.copy(to, from, bytes);
  if (bytes == 0) return;
  if (!target.reaches(source)) {
    std::vector<char> host(bytes);
    reader.download(host.data(), from, bytes);
    return writer.upload(to, host.data(), bytes);
  }
  // The copy waits for the producers of its source, and later work on the source's queue waits for the copy.
  writer.wait(reader.record(false));
  writer.copy_peer(to, source, from, bytes);
  reader.wait(writer.record(false));
}

void QueuedBackend::copy_pinned(int index, void* to, const void* from, size_t bytes) {
  CommandQueue& queue = at(index).queue();
  for (const void* data : {static_cast<const void*>(to), from}) note_use(index, data, queue);
  if (pinned_->has(from)) queue.copy_in(to, from, bytes);
  else queue.copy_out(to, from, bytes);
}

void QueuedBackend::return_queue(Queue& queue) noexcept {
  at(queue.device().index).return_queue(static_cast<CommandQueue&>(queue));
}

void QueuedBackend::note_use(int index, const void* data, Queue& queue) {
  at(index).allocator().note_use(data, static_cast<CommandQueue&>(queue));
  pinned_->note_use(data, static_cast<CommandQueue&>(queue));
}

Allocator& QueuedBackend::pinned_allocator() { return *pinned_; }

}  // namespace weft
