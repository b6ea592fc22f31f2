// A device without hardware, written against plugin.h alone, with adverse behaviour: queued work runs late or only at a
// wait, fresh memory contains 0xFF and freed memory 0xDD, and forbidden calls of the host end the program. The host
// computes its kernels. These variables change it:
//   STUB_DEVICES=2         so many devices; their numbers are 10, 11, …
//   STUB_MEM_MB=4096       memory of each
//   STUB_JITTER_US=200     queued work is delayed by up to so many microseconds; 0 at once
//   STUB_LAZY=1            it runs at the next wait, or after some milliseconds
//   STUB_KERNELS=all       or none, or a list: which kernels there are
//   STUB_RECIPES=1         kernels run by recipes; 2: but for `binary`, which has none
//   STUB_WITHOUT=a,b       entries of the table that are null
//   STUB_FAIL=entry:7:2    the entry (or any) gives code 7 after 2 calls; STUB_THROW=entry:0:2 throws
//   STUB_ALIGN, STUB_PADDING, STUB_MAX_CHUNK   requirements of its memory
//   STUB_GARBAGE=name      one of those in `garbage`
// stub_told() returns the events of its profiler.
#include "profile.hpp"
#include "rules.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace {

using namespace stub;

const WeftHost* host = nullptr;

// ---- devices --------------------------------------------------------------------------------------------------------

constexpr int32_t first_number = 10;

struct Stream;
struct Device {
  std::mutex mutex;
  bool initialised = false;
  std::map<char*, size_t> memory, pinned;
  std::set<Stream*> streams;
  size_t used = 0;
};
Device devices[300];
thread_local int32_t selected = -1;

bool is_device(int32_t number) {
  return number >= first_number && number < first_number + static_cast<int32_t>(::number("STUB_DEVICES", 2));
}
Device& device_of(int32_t number) {
  require(is_device(number), "there is no such device");
  return devices[number - first_number];
}
/// A device that a call names: it must be the thread's.
Device& current(int32_t number) {
  Device& device = device_of(number);
  require(device.initialised, "a device was used before init_device or after deinit_device");
  require(selected == number, "the calling thread had not selected the device");
  return device;
}

/// Whether [data, data + bytes) is inside an allocation.
bool is_live(Device& device, const void* data, size_t bytes) {
  const std::lock_guard lock(device.mutex);
  for (auto* blocks : {&device.memory, &device.pinned}) {
    auto next = blocks->upper_bound(static_cast<char*>(const_cast<void*>(data)));
    if (next == blocks->begin()) continue;
    --next;
    if (static_cast<const char*>(data) + bytes <= next->first + next->second) return true;
  }
  return false;
}

// ---- events and streams ---------------------------------------------------------------------------------------------

/// A place in a stream. An event that is recorded again has another one.
struct Point {
  std::mutex mutex;
  std::condition_variable reached;
  bool is_reached = false;
  std::chrono::steady_clock::time_point time;
  Stream* stream = nullptr;
};

struct Task {
  std::function<void()> run;
};

std::mutex handles_mutex;
std::set<void*> live_streams, live_events;
std::atomic<int> kept_calls = 0, live_recipes = 0;

struct Stream {
  explicit Stream(int32_t number) : device(number), worker([this] { loop(); }) {}
  ~Stream() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
      changed.notify_all();
    }
    worker.join();
  }
  void add(std::function<void()> run) {
    const std::lock_guard lock(mutex);
    tasks.push_back({std::move(run)});
    changed.notify_all();
  }
  /// Everything that is queued by now shall run without delay.
  void hurry() {
    const std::lock_guard lock(mutex);
    urgent = queued_tasks();
    changed.notify_all();
  }
  bool idle() {
    const std::lock_guard lock(mutex);
    return tasks.empty() && !running;
  }
  void wait() {
    hurry();
    std::unique_lock lock(mutex);
    const uint64_t all = queued_tasks();
    changed.wait(lock, [&] { return done >= all; });
  }

  const int32_t device;
  std::vector<std::function<void()>> late_callbacks;

 private:
  uint64_t queued_tasks() const { return done + (running ? 1 : 0) + tasks.size(); }
  void loop() {
    std::mt19937 random(static_cast<unsigned>(reinterpret_cast<uintptr_t>(this)));
    const bool lazy = number("STUB_LAZY", 0) != 0;
    const auto jitter = static_cast<int64_t>(number("STUB_JITTER_US", 200));
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ending || !tasks.empty(); });
      if (tasks.empty()) return;
      const int64_t delay = lazy          ? 5000 + static_cast<int64_t>(random() % 20000)
                            : jitter == 0 ? 0
                                          : static_cast<int64_t>(random()) % (jitter + 1);
      if (delay > 0 && (lazy || random() % 4 == 0)) {
        changed.wait_for(lock, std::chrono::microseconds(delay), [&] { return ending || urgent > done; });
      }
      Task task = std::move(tasks.front());
      tasks.pop_front();
      running = true;
      lock.unlock();
      task.run();
      task.run = nullptr;
      lock.lock();
      running = false;
      ++done;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> tasks;
  uint64_t done = 0, urgent = 0;
  bool running = false, ending = false;
  std::thread worker;
};

struct Event {
  std::mutex mutex;
  std::shared_ptr<Point> point;
};

Stream& stream_of(WeftStream handle) {
  const std::lock_guard lock(handles_mutex);
  require(live_streams.contains(handle), "a stream was used that is destroyed, or never was");
  return *reinterpret_cast<Stream*>(handle);
}
Event& event_of(WeftEvent handle) {
  const std::lock_guard lock(handles_mutex);
  require(live_events.contains(handle), "an event was used that is destroyed, or never was");
  return *reinterpret_cast<Event*>(handle);
}
std::shared_ptr<Point> point_of(WeftEvent handle) {
  Event& event = event_of(handle);
  const std::lock_guard lock(event.mutex);
  require(event.point != nullptr, "an event was waited for that was never recorded");
  return event.point;
}
void wait_for(const std::shared_ptr<Point>& point) {
  {
    const std::lock_guard lock(handles_mutex);
    if (live_streams.contains(point->stream)) point->stream->hurry();
  }
  std::unique_lock lock(point->mutex);
  point->reached.wait(lock, [&] { return point->is_reached; });
}

// ---- entries: lifecycle ---------------------------------------------------------------------------------------------

int initialize() {
  ENTER(initialize);
  life = Life::initialised;
  return WEFT_OK;
}
int finalize() {
  ENTER(finalize);
  require(live_streams.empty(), "finalize came before destroy_stream");
  require(live_events.empty(), "finalize came before destroy_event");
  require(kept_calls == 0, "finalize came while calls were kept");
  require(live_recipes == 0, "finalize came before the recipes were destroyed");
  for (Device& device : devices) {
    require(device.memory.empty(), "finalize came before device_free");
    require(!device.initialised, "finalize came before deinit_device");
  }
  life = Life::finalised;
  return WEFT_OK;
}
int init_device(int32_t number) {
  ENTER(init_device);
  require(!device_of(number).initialised, "init_device came twice");
  device_of(number).initialised = true;
  return WEFT_OK;
}
int deinit_device(int32_t number) {
  ENTER(deinit_device);
  Device& device = current(number);
  require(device.memory.empty(), "deinit_device came before device_free");
  device.initialised = false;
  return WEFT_OK;
}
int set_device(int32_t number) {
  ENTER(set_device);
  require(is_device(number), "a device was selected that is not there");
  if (!garbage("set_device_does_nothing")) selected = number;
  return WEFT_OK;
}
int get_device(int32_t* number) {
  ENTER(get_device);
  *number = selected;
  return WEFT_OK;
}
int get_device_count(int32_t* count) {
  ENTER(get_device_count);
  *count = garbage("minus_devices")     ? -3
           : garbage("million_devices") ? 1000000
                                        : static_cast<int32_t>(number("STUB_DEVICES", 2));
  return WEFT_OK;
}
int get_device_list(int32_t* numbers) {
  ENTER(get_device_list);
  const auto count = static_cast<int32_t>(number("STUB_DEVICES", 2));
  for (int32_t i = 0; i < count; ++i) numbers[i] = garbage("same_devices") ? first_number : first_number + i;
  return WEFT_OK;
}

// ---- entries: streams and events ------------------------------------------------------------------------------------

int create_stream(int32_t number, WeftStream* out) {
  ENTER(create_stream);
  current(number);
  if (garbage("null_stream")) return WEFT_OK;
  auto* const stream = new Stream(number);
  const std::lock_guard lock(handles_mutex);
  *out = reinterpret_cast<WeftStream>(stream);
  live_streams.insert(stream);
  return WEFT_OK;
}
int destroy_stream(int32_t number, WeftStream handle) {
  ENTER(destroy_stream);
  current(number);
  Stream& stream = stream_of(handle);
  require(stream.idle(), "a stream was destroyed while it had work");
  {
    const std::lock_guard lock(handles_mutex);
    live_streams.erase(handle);
  }
  for (const auto& callback : stream.late_callbacks) callback();
  delete &stream;
  return WEFT_OK;
}
int synchronize_stream(int32_t number, WeftStream handle) {
  ENTER(synchronize_stream);
  current(number);
  stream_of(handle).wait();
  return WEFT_OK;
}
int query_stream(int32_t number, WeftStream handle) {
  ENTER(query_stream);
  current(number);
  return stream_of(handle).idle() ? WEFT_OK : WEFT_NOT_READY;
}
int add_callback(int32_t number, WeftStream handle, void (*callback)(void*), void* data) {
  ENTER(add_callback);
  current(number);
  Stream& stream = stream_of(handle);
  if (garbage("late_callbacks")) stream.late_callbacks.push_back([=] { callback(data); });
  else stream.add([=] { callback(data); });
  return WEFT_OK;
}
int create_event(int32_t number, WeftEvent* out) {
  ENTER(create_event);
  current(number);
  auto* const event = new Event;
  const std::lock_guard lock(handles_mutex);
  *out = reinterpret_cast<WeftEvent>(event);
  live_events.insert(event);
  return WEFT_OK;
}
int destroy_event(int32_t number, WeftEvent handle) {
  ENTER(destroy_event);
  current(number);
  Event& event = event_of(handle);
  {
    const std::lock_guard lock(handles_mutex);
    live_events.erase(handle);
  }
  delete &event;
  return WEFT_OK;
}
int record_event(int32_t number, WeftStream handle, WeftEvent event) {
  ENTER(record_event);
  current(number);
  Stream& stream = stream_of(handle);
  const auto point = std::make_shared<Point>();
  point->stream = &stream;
  {
    Event& recorded = event_of(event);
    const std::lock_guard lock(recorded.mutex);
    recorded.point = point;
  }
  stream.add([point] {
    const std::lock_guard lock(point->mutex);
    point->is_reached = true;
    point->time = std::chrono::steady_clock::now();
    point->reached.notify_all();
  });
  return WEFT_OK;
}
int query_event(int32_t number, WeftEvent event) {
  ENTER(query_event);
  current(number);
  const auto point = point_of(event);
  const std::lock_guard lock(point->mutex);
  return point->is_reached ? WEFT_OK : WEFT_NOT_READY;
}
int synchronize_event(int32_t number, WeftEvent event) {
  ENTER(synchronize_event);
  current(number);
  wait_for(point_of(event));
  return WEFT_OK;
}
int stream_wait_event(int32_t number, WeftStream handle, WeftEvent event) {
  ENTER(stream_wait_event);
  current(number);
  stream_of(handle).add([point = point_of(event)] { wait_for(point); });
  return WEFT_OK;
}
int synchronize_device(int32_t number) {
  ENTER(synchronize_device);
  current(number);
  return WEFT_OK;
}
int elapsed_time(int32_t number, WeftEvent begin, WeftEvent end, double* milliseconds) {
  ENTER(elapsed_time);
  current(number);
  *milliseconds = std::chrono::duration<double, std::milli>(point_of(end)->time - point_of(begin)->time).count();
  return WEFT_OK;
}

// ---- entries: memory and copies -------------------------------------------------------------------------------------

size_t alignment() { return std::max<size_t>(64, number("STUB_ALIGN", 64)); }

int take(Device& device, std::map<char*, size_t>& blocks, void** out, size_t bytes) {
  require(bytes > 0, "memory of 0 bytes was asked for");
  const std::lock_guard lock(device.mutex);
  const bool limited = &blocks == &device.memory;
  if (limited && device.used + bytes > number("STUB_MEM_MB", 4096) << 20) return WEFT_OUT_OF_MEMORY;
  const size_t most = number("STUB_MAX_CHUNK", 0);
  require(!limited || most == 0 || bytes <= most, "more was asked for than max_chunk_size");
  require(!limited || bytes % alignment() == 0, "a request was not rounded up to min_chunk_size");
  auto* const data =
      static_cast<char*>(std::aligned_alloc(alignment(), (bytes + alignment() - 1) / alignment() * alignment()));
  if (data == nullptr) return WEFT_OUT_OF_MEMORY;
  std::memset(data, 0xFF, bytes);
  blocks[data] = bytes;
  if (limited) device.used += bytes;
  *out = garbage("null_memory") ? nullptr : data;
  if (garbage("crooked_memory")) *out = data + 1;
  return WEFT_OK;
}
void give(Device& device, std::map<char*, size_t>& blocks, void* data, size_t bytes) {
  if (garbage("crooked_memory")) data = static_cast<char*>(data) - 1;
  const std::lock_guard lock(device.mutex);
  const auto found = blocks.find(static_cast<char*>(data));
  require(found != blocks.end(), "memory was freed that was not given out, or twice");
  require(found->second == bytes, "memory was freed with another size");
  std::memset(data, 0xDD, bytes);
  if (&blocks == &device.memory) device.used -= bytes;
  blocks.erase(found);
  std::free(data);
}
int device_alloc(int32_t number, void** data, size_t bytes) {
  ENTER(device_alloc);
  Device& device = current(number);
  return take(device, device.memory, data, bytes);
}
int device_free(int32_t number, void* data, size_t bytes) {
  ENTER(device_free);
  Device& device = current(number);
  give(device, device.memory, data, bytes);
  return WEFT_OK;
}
int pinned_host_alloc(int32_t number, void** data, size_t bytes) {
  ENTER(pinned_host_alloc);
  Device& device = current(number);
  return take(device, device.pinned, data, bytes);
}
int pinned_host_free(int32_t number, void* data, size_t bytes) {
  ENTER(pinned_host_free);
  Device& device = current(number);
  give(device, device.pinned, data, bytes);
  return WEFT_OK;
}
int memory_stats(int32_t number, size_t* total, size_t* free) {
  ENTER(memory_stats);
  Device& device = current(number);
  const std::lock_guard lock(device.mutex);
  *total = ::number("STUB_MEM_MB", 4096) << 20;
  *free = *total - device.used;
  return WEFT_OK;
}
int min_chunk_size(int32_t, size_t* bytes) {
  ENTER(min_chunk_size);
  *bytes = garbage("crooked_chunks") ? 48 : garbage("no_chunks") ? 0 : number("STUB_ALIGN", 1);
  return WEFT_OK;
}
int max_chunk_size(int32_t, size_t* bytes) {
  ENTER(max_chunk_size);
  *bytes = number("STUB_MAX_CHUNK", 0);
  return WEFT_OK;
}
int extra_padding_size(int32_t, size_t* bytes) {
  ENTER(extra_padding_size);
  *bytes = garbage("absurd_padding") ? ~size_t{0} : number("STUB_PADDING", 0);
  return WEFT_OK;
}
int memory_set(int32_t number, WeftStream stream, void* data, uint8_t value, size_t bytes) {
  ENTER(memory_set);
  Device& device = current(number);
  stream_of(stream).add([=, &device] {
    require(is_live(device, data, bytes), "memory was set that is not the device's");
    std::memset(data, value, bytes);
  });
  return WEFT_OK;
}

enum Ends { to_device = 1, from_device = 2 };
void copy_now(Device& device, int ends, void* to, const void* from, size_t bytes) {
  require(bytes > 0, "0 bytes were copied");
  require(!(ends & to_device) || is_live(device, to, bytes), "a copy goes where no memory of the device is");
  require(!(ends & from_device) || is_live(device, from, bytes), "a copy comes from where no memory of the device is");
  std::memmove(to, from, bytes);
}
template <int ends>
int copy(int32_t number, void* to, const void* from, size_t bytes) {
  ENTER(copy);
  copy_now(current(number), ends, to, from, bytes);
  return WEFT_OK;
}
template <int ends>
int async_copy(int32_t number, WeftStream stream, void* to, const void* from, size_t bytes) {
  ENTER(async_copy);
  Device& device = current(number);
  stream_of(stream).add([=, &device] { copy_now(device, ends, to, from, bytes); });
  return WEFT_OK;
}
int p2p(int32_t to_number, void* to, int32_t from_number, const void* from, size_t bytes) {
  ENTER(p2p);
  require(is_live(current(to_number), to, bytes), "a copy between devices goes to no memory of the device");
  require(is_live(device_of(from_number), from, bytes), "a copy between devices comes from no memory of the device");
  std::memcpy(to, from, bytes);
  return WEFT_OK;
}

// ---- entries: properties, kernels -----------------------------------------------------------------------------------

int driver_version(int32_t* version) {
  ENTER(driver_version);
  *version = 7;
  return WEFT_OK;
}

int32_t has_kernel(const char* kernel) {
  if (injected("has_kernel") != WEFT_OK) return 0;
  const std::string kernels = setting("STUB_KERNELS", "all");
  return kernels == "all" || in_list(kernels, kernel);
}

/// Every element of the view must be in memory of the device.
void check_view(Device& device, const WeftView& view, const WeftKernelCall& call) {
  if (view.data == nullptr || view.layout.numel == 0 || view.layout.host_scalar != 0) return;
  static const int64_t sizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 1, 1, 1, 8, 16};
  static_assert(sizeof sizes == (WEFT_C128 + 1) * sizeof(int64_t));
  int64_t low = 0, high = sizes[view.layout.dtype];
  for (int d = 0; d < view.layout.rank; ++d) {
    const int64_t reach = (view.layout.sizes[d] - 1) * view.layout.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  if (is_live(device, static_cast<char*>(view.data) + low, static_cast<size_t>(high - low))) return;
  std::fprintf(stderr, "view %d of the kernel %s, of %s at %s:%u\n", static_cast<int>(&view - call.views), call.kernel,
               call.op != nullptr ? call.op : "no op", call.file != nullptr ? call.file : "", call.line);
  violation("a kernel's operand does not lie in memory of the device");
}

int run_kernel(int32_t number, WeftStream stream, const WeftKernelCall* call) {
  ENTER(run_kernel);
  Device& device = current(number);
  const WeftKernelCall* kept = host->keep(call);
  if (kept == nullptr) return WEFT_OUT_OF_MEMORY;
  ++kept_calls;
  stream_of(stream).add([=, &device] {
    for (int32_t i = 0; i < kept->view_count; ++i) check_view(device, kept->views[i], *kept);
    const uint64_t begin = now_ns();
    host->compute(kept);
    note_run(*kept, stream, begin);
    host->release(kept);
    --kept_calls;
  });
  return WEFT_OK;
}

/// A program for calls that look like the one it was compiled for.
struct Recipe {
  const WeftKernelCall* like;
  std::atomic<int> in_flight = 0;
};

int first_with_address(const WeftKernelCall& call, int view) {
  int first = 0;
  while (call.views[first].data != call.views[view].data || call.views[first].layout.numel == 0) {
    if (++first > view) return -1;
  }
  return first;
}
void check_signature(const WeftKernelCall& made_for, const WeftKernelCall& call) {
  const auto same = [](bool holds) { require(holds, "a recipe was launched for a call of another signature"); };
  same(std::strcmp(made_for.kernel, call.kernel) == 0 && made_for.variant == call.variant);
  same(made_for.view_count == call.view_count && made_for.attribute_count == call.attribute_count);
  for (int i = 0; i < call.view_count; ++i) {
    const WeftLayout &a = made_for.views[i].layout, &b = call.views[i].layout;
    same((made_for.views[i].data == nullptr) == (call.views[i].data == nullptr));
    if (call.views[i].data == nullptr) continue;
    same(a.dtype == b.dtype && a.rank == b.rank && a.host_scalar == b.host_scalar);
    for (int d = 0; d < a.rank; ++d) same(a.sizes[d] == b.sizes[d] && (a.contiguous == b.contiguous));
    if (a.numel != 0) same(first_with_address(made_for, i) == first_with_address(call, i));
  }
  for (int i = 0; i < call.attribute_count; ++i) {
    const WeftAttribute &a = made_for.attributes[i], &b = call.attributes[i];
    same(a.kind == b.kind && a.count == b.count);
    if (a.kind < WEFT_ATTRIBUTE_I64_LIST) same(a.value.i64 == b.value.i64);
    else same(std::memcmp(a.value.i64s, b.value.i64s, static_cast<size_t>(a.count) * 8) == 0);
  }
}

int compile(int32_t number, const WeftKernelCall* call, WeftRecipe* out) {
  ENTER(compile);
  current(number);
  if (setting("STUB_RECIPES") == "2" && std::strcmp(call->kernel, "binary") == 0) return WEFT_UNSUPPORTED;
  *out = reinterpret_cast<WeftRecipe>(new Recipe{host->keep(call)});
  ++live_recipes;
  return WEFT_OK;
}
int launch(WeftRecipe handle, WeftStream stream, const WeftKernelCall* call) {
  ENTER(launch);
  auto& recipe = *reinterpret_cast<Recipe*>(handle);
  check_signature(*recipe.like, *call);
  const WeftKernelCall* kept = host->keep(call);
  ++kept_calls;
  ++recipe.in_flight;
  stream_of(stream).add([=, &recipe] {
    host->compute(kept);
    host->release(kept);
    --kept_calls;
    --recipe.in_flight;
  });
  return WEFT_OK;
}
int destroy(WeftRecipe handle) {
  ENTER(destroy);
  auto* const recipe = reinterpret_cast<Recipe*>(handle);
  require(recipe->in_flight == 0, "a recipe was destroyed before its last launch had run");
  host->release(recipe->like);
  delete recipe;
  --live_recipes;
  return WEFT_OK;
}
const WeftRecipes recipes = {sizeof recipes, compile, launch, destroy};

const char* error_text(int code) { return code == 77 ? "the stub was told to fail" : nullptr; }

int unique_id_size(size_t* bytes) {
  *bytes = 128;
  return WEFT_OK;
}
WeftCollectives collectives = {};

void leave_out(WeftDeviceInterface& t, const std::string& entries) {
#define LEAVE_OUT(entry) \
  if (in_list(entries, #entry)) t.entry = nullptr
  LEAVE_OUT(finalize);
  LEAVE_OUT(create_stream);
  LEAVE_OUT(h2d);
  LEAVE_OUT(query_stream);
  LEAVE_OUT(query_event);
  LEAVE_OUT(add_callback);
  LEAVE_OUT(pinned_host_alloc);
  LEAVE_OUT(pinned_host_free);
  LEAVE_OUT(memory_set);
  LEAVE_OUT(max_chunk_size);
  LEAVE_OUT(extra_padding_size);
  LEAVE_OUT(p2p);
  LEAVE_OUT(async_h2d);
  LEAVE_OUT(async_d2h);
  LEAVE_OUT(async_d2d);
  LEAVE_OUT(driver_version);
  LEAVE_OUT(has_kernel);
  LEAVE_OUT(run_kernel);
  LEAVE_OUT(elapsed_time);
  LEAVE_OUT(error_text);
  LEAVE_OUT(collectives);
  LEAVE_OUT(profiler);
#undef LEAVE_OUT
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int weft_plugin_init(WeftPluginParams* params) {
  host = params->host;
  params->device_type = garbage("built_in_kind") ? "hpu"
                        : garbage("bad_kind")    ? "My Device"
                        : garbage("no_kind")     ? nullptr
                                                 : STUB_KIND;
  params->sub_type = "Stub of host memory";
  params->struct_size = garbage("struct_size") ? 24 : sizeof *params;
  params->abi_major = garbage("major") ? WEFT_PLUGIN_ABI_MAJOR + 1 : WEFT_PLUGIN_ABI_MAJOR;
  params->abi_minor = garbage("new_minor")   ? WEFT_PLUGIN_ABI_MINOR + 1
                      : garbage("old_minor") ? 0
                                             : WEFT_PLUGIN_ABI_MINOR;
  if (garbage("init_fails")) return 42;
  if (garbage("init_throws")) throw std::runtime_error("no");
  WeftDeviceInterface& t = *params->table;
  // A newer plug-in has a longer table, and writes all of it.
  if (garbage("new_minor")) std::memset(params->table, 0x5A, sizeof t + 512);
  t.size = garbage("table_size")  ? 8
           : garbage("new_minor") ? sizeof t + 512
           : garbage("old_minor") ? offsetof(WeftDeviceInterface, elapsed_time)
                                  : sizeof t;
  t.initialize = initialize;
  t.finalize = finalize;
  t.init_device = init_device;
  t.deinit_device = deinit_device;
  t.set_device = set_device;
  t.get_device = get_device;
  t.get_device_count = get_device_count;
  t.get_device_list = get_device_list;
  t.create_stream = create_stream;
  t.destroy_stream = destroy_stream;
  t.synchronize_stream = synchronize_stream;
  t.query_stream = query_stream;
  t.add_callback = add_callback;
  t.create_event = create_event;
  t.destroy_event = destroy_event;
  t.record_event = record_event;
  t.query_event = query_event;
  t.synchronize_event = synchronize_event;
  t.stream_wait_event = stream_wait_event;
  t.synchronize_device = synchronize_device;
  t.device_alloc = device_alloc;
  t.device_free = device_free;
  t.pinned_host_alloc = pinned_host_alloc;
  t.pinned_host_free = pinned_host_free;
  t.memory_set = memory_set;
  t.memory_stats = memory_stats;
  t.min_chunk_size = min_chunk_size;
  t.max_chunk_size = max_chunk_size;
  t.extra_padding_size = extra_padding_size;
  t.h2d = copy<to_device>;
  t.d2h = copy<from_device>;
  t.d2d = copy<to_device | from_device>;
  t.p2p = p2p;
  t.async_h2d = async_copy<to_device>;
  t.async_d2h = async_copy<from_device>;
  t.async_d2d = async_copy<to_device | from_device>;
  t.driver_version = driver_version;
  t.has_kernel = has_kernel;
  t.run_kernel = run_kernel;
  collectives.size = sizeof collectives;
  collectives.unique_id_size = unique_id_size;
  t.collectives = &collectives;
  t.profiler = vendor_profiler();
  // An old plug-in lacks the following fields; their memory must not be read.
  t.elapsed_time = garbage("old_minor") ? reinterpret_cast<decltype(t.elapsed_time)>(uintptr_t{16}) : elapsed_time;
  t.error_text = garbage("old_minor") ? reinterpret_cast<decltype(t.error_text)>(uintptr_t{16}) : error_text;
  if (number("STUB_RECIPES", 0) != 0) t.recipes = &recipes;
  leave_out(t, setting("STUB_WITHOUT"));
  return WEFT_OK;
}
