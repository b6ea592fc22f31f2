#include "stream.hpp"

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend.hpp"
#include "queue.hpp"
#include "queued/stream_use.hpp"
#include "../tensor/atomic.hpp"
#include "../tensor/call.hpp"
#include "../tensor/error.hpp"
#include "../tensor/tensor.hpp"

namespace weft {

Fence::~Fence() = default;
Queue::~Queue() = default;

namespace detail {
constinit thread_local uint16_t current_streams = 0;
constinit Atomic<bool> streams_in_use{false};
}  // namespace detail

namespace {

// ---- which streams are current --------------------------------------------------------------------------------------

/// The queues that are not the default of their device. A thread's are named by a number, which nodes keep too; there
/// are as many as programs combine queues, and queues are few.
using Choice = std::vector<Queue*>;
constexpr size_t most_choices = 4096;
constinit Atomic<const Choice*> choices[most_choices] = {};
std::mutex choices_mutex;
size_t choice_count = 1;

const Choice& choice(uint16_t number) {
  static const Choice defaults;
  const Choice* chosen = choices[number].load(MemoryOrder::acquire);
  return chosen == nullptr ? defaults : *chosen;
}

Queue* queue_in(const Choice& chosen, Device device) {
  for (Queue* queue : chosen) {
    if (queue->device() == device) return queue;
  }
  return nullptr;
}

uint16_t number_of(Choice wanted) {
  const std::lock_guard lock(choices_mutex);
  if (wanted.empty()) return 0;
  for (size_t i = 1; i < choice_count; ++i) {
    if (*choices[i].load(MemoryOrder::relaxed) == wanted) return static_cast<uint16_t>(i);
  }
  if (choice_count == most_choices) {
    raise<ValueError>({.op = "StreamGuard", .problem = "more than 4095 combinations of current streams"});
  }
  choices[choice_count].store(new Choice(std::move(wanted)), MemoryOrder::release);  // named until the program's end
  return static_cast<uint16_t>(choice_count++);
}

/// The thread's streams, but `queue` on its device. In order of devices, so that equal choices have one number.
uint16_t with_queue(Device device, Queue* queue) {
  Choice wanted;
  bool placed = queue == nullptr;
  const auto before = [](Device a, Device b) { return a.type != b.type ? a.type < b.type : a.index < b.index; };
  for (Queue* other : choice(detail::current_streams)) {
    if (other->device() == device) continue;
    if (!placed && before(device, other->device())) wanted.push_back(queue), placed = true;
    wanted.push_back(other);
  }
  if (!placed) wanted.push_back(queue);
  return number_of(std::move(wanted));
}

// ---- leases ---------------------------------------------------------------------------------------------------------

struct Lease {
  ~Lease() {
    if (queue != nullptr) find_backend(queue->device().type)->return_queue(*queue);
  }
  Queue* queue = nullptr;
};

Backend* backend_with_device(Device device, const char* op, Location where) {
  check_device(device, op, where);
  return find_backend(device.type);
}

/// `reader` waits for `fence`, by its own means where both are of one kind, else by a thread of the host.
void wait_for(Queue& reader, const Shared<Fence>& fence) {
  const Device device = fence->queue().device();
  if (&fence->queue() == &reader) return;
  if (device.type == reader.device().type) reader.wait(fence);
  else reader.call([fence] { fence->wait(); });
}

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

namespace detail {

Queue* chosen_queue(Device device) {
  return current_streams == 0 ? nullptr : queue_in(choice(current_streams), device);
}

void switch_streams(uint16_t streams) {
  const Choice &from = choice(current_streams), &to = choice(streams);
  const auto follow = [&](Device device) {
    Queue *before = queue_in(from, device), *after = queue_in(to, device);
    if (before == after) return;
    Backend& backend = *find_backend(device.type);
    if (before == nullptr) before = &backend.default_queue(device.index);
    if (after == nullptr) after = &backend.default_queue(device.index);
    after->wait(before->record(false));
  };
  for (Queue* queue : from) follow(queue->device());
  for (Queue* queue : to) {
    if (queue_in(from, queue->device()) == nullptr) follow(queue->device());
  }
  current_streams = streams;
}

}  // namespace detail

// ---- Stream ---------------------------------------------------------------------------------------------------------

Stream::Stream(Device device, Location where) : device_(device) {
  Backend* backend = backend_with_device(device, "Stream", where);
  if (backend == nullptr) return;
  const CallScope call("Stream", where);
  detail::streams_in_use.store(true, MemoryOrder::relaxed);
  Shared<Lease> lease = Shared<Lease>::make();
  queue_ = lease->queue = &backend->take_queue(device.index);
  lease_ = std::move(lease);
}

Stream default_stream(Device device, Location where) {
  Backend* backend = backend_with_device(device, "default_stream", where);
  return Stream(device, backend == nullptr ? nullptr : &backend->default_queue(device.index));
}

Stream current_stream(Device device, Location where) {
  if (Queue* chosen = detail::chosen_queue(device)) return Stream(device, chosen);
  return default_stream(device, where);
}

int Stream::id() const { return queue_ == nullptr ? 0 : queue_->number(); }

void Stream::synchronize(Location where) const {
  const CallScope call("synchronize", where);
  if (queue_ != nullptr) queue_->synchronize();
}

bool Stream::query() const { return queue_ == nullptr || queue_->idle(); }

void Stream::wait_event(const Event& event, Location where) const {
  if (event.fence_ == nullptr) return;
  const CallScope call("wait_event", where);
  if (queue_ == nullptr) event.fence_->wait();
  else wait_for(*queue_, event.fence_);
}

void Stream::wait_stream(const Stream& other, Location where) const {
  if (other.queue_ == nullptr || other.queue_ == queue_) return;
  wait_event(other.record_event(where), where);
}

Event Stream::record_event(Location where) const {
  Event event;
  event.record(*this, where);
  return event;
}

void Stream::call(Callback<void()> function, Location where) const {
  const CallScope call("Stream::call", where);
  if (!function) raise<ValueError>({.problem = "there is no function to call"});
  if (queue_ != nullptr) return queue_->call(std::move(function));
  const OutsideCalls users_code;
  function();
}

void* Stream::native_handle() const { return queue_ == nullptr ? nullptr : queue_->native_handle(); }

StreamGuard::StreamGuard(Stream stream) : stream_(std::move(stream)), outer_(detail::current_streams) {
  if (stream_.queue_ == nullptr) return;
  detail::current_streams = with_queue(stream_.device_, stream_.id() == 0 ? nullptr : stream_.queue_);
}
StreamGuard::~StreamGuard() { detail::current_streams = outer_; }

// ---- Event ----------------------------------------------------------------------------------------------------------

void Event::record(const Stream& stream, Location where) {
  const CallScope call("record", where);
  Shared<Fence> fence = stream.queue_ == nullptr ? nullptr : stream.queue_->record(options_.timing);
  fence_ = std::move(fence);
  device_ = stream.device_;
  recorded_ = true;
  if (fence_ == nullptr) reached_at_ = now_ns();
}

bool Event::query() const { return fence_ == nullptr || fence_->reached(); }

void Event::synchronize(Location where) const {
  const CallScope call("synchronize", where);
  if (fence_ != nullptr) fence_->wait();
}

double Event::elapsed_time(const Event& end, Location where) const {
  const CallScope call("elapsed_time", where);
  for (const Event* event : {this, &end}) {
    if (!event->options_.timing) {
      raise<ValueError>({.problem = "an event keeps no time", .remedy = "make it with {.timing = true}"});
    }
    if (!event->recorded_) raise<ValueError>({.problem = "an event was not recorded"});
  }
  if (device_ != end.device_) {
    raise<ValueError>({.problem = fmt::format("the events are of {} and {}, whose clocks differ", device_.name(),
                                              end.device_.name())});
  }
  if (fence_ == nullptr) return static_cast<double>(end.reached_at_ - reached_at_) * 1e-6;
  fence_->wait();
  end.fence_->wait();
  return end.fence_->milliseconds_since(*fence_);
}

void record_stream(const Tensor& tensor, const Stream& stream) {
  const Device device = stream.device();
  Backend* backend = find_backend(device.type);
  if (backend == nullptr || tensor.numel() == 0) return;
  Queue* const queue = stream.id() == 0 ? &backend->default_queue(device.index) : nullptr;
  detail::note_use(tensor.raw_view(), queue != nullptr ? *queue : *detail::chosen_queue(device));
}

}  // namespace weft
