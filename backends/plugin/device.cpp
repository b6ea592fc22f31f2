#include "device.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "queue.hpp"
#include "../queued/allocator.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/settings.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::plugin {

namespace {

constexpr size_t largest_rule = size_t{1} << 30;

/// The thread's selected device of each plug-in, by device type; -1 if none.
struct Selected {
  int32_t numbers[plugin_type_count];
  Selected() { std::fill(std::begin(numbers), std::end(numbers), -1); }
};
int32_t& selected(Device device) {
  static thread_local Selected of_thread;
  return of_thread.numbers[static_cast<int>(device.type) - static_cast<int>(DeviceType::first_plugin)];
}

std::string sync_variable(std::string kind) {
  for (char& c : kind) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return "WEFT_" + kind + "_SYNC";
}

}  // namespace

PluginDevice::PluginDevice(const Library& library, Device device)
    : QueuedDevice(device), library_(library), number_(library.numbers()[device.index]) {
  synchronous_ = detail::is_variable_on(sync_variable(library.kind()).c_str());
  const size_t alignment = size_rule("min_chunk_size", table().min_chunk_size, 1);
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > largest_rule) {
    library_.raise_garbage(index(), "min_chunk_size", fmt::format("gave {}, which is no power of two", alignment));
  }
  memory_rules_.alignment = std::max(memory_rules_.alignment, alignment);
  const size_t largest = size_rule("max_chunk_size", table().max_chunk_size, 0);
  if (largest != 0 && largest < memory_rules_.alignment) {
    library_.raise_garbage(index(), "max_chunk_size", fmt::format("gave {}, less than a chunk", largest));
  }
  if (largest != 0) memory_rules_.largest = std::min(memory_rules_.largest, largest);
  memory_rules_.padding = size_rule("extra_padding_size", table().extra_padding_size, 0);
  if (memory_rules_.padding > largest_rule) {
    library_.raise_garbage(index(), "extra_padding_size", fmt::format("gave {}", memory_rules_.padding));
  }
}

size_t PluginDevice::size_rule(const char* entry, int (*function)(int32_t, size_t*), size_t otherwise) const {
  size_t bytes = otherwise;
  if (function != nullptr) library_.run(index(), entry, function, number_, &bytes);
  return bytes;
}

void PluginDevice::open() {
  require_open();
  if (opened_.load(std::memory_order_acquire)) [[likely]]
    return;
  const std::lock_guard lock(mutex_);
  if (opened_.load(std::memory_order_relaxed)) return;
  WEFT_PLUGIN(library_, index(), init_device, number_);
  opened_.store(true, std::memory_order_release);
}

void PluginDevice::select() {
  open();
  int32_t& now = selected(device());
  if (now == number_) [[likely]]
    return;
  now = -1;
  WEFT_PLUGIN(library_, index(), set_device, number_);
  int32_t answer = -1;
  WEFT_PLUGIN(library_, index(), get_device, &answer);
  if (answer != number_) {
    library_.raise_garbage(index(), "set_device", "selected the wrong device: " + mismatch_text("", number_, answer));
  }
  now = number_;
}

std::string PluginDevice::describe() {
  std::string text = library_.sub_type().empty() ? library_.kind() : library_.sub_type();
  int32_t major = 0, minor = 0, version = 0;
  select();
  if (table().compute_capability != nullptr) {
    WEFT_PLUGIN(library_, index(), compute_capability, number_, &major, &minor);
    text += fmt::format(", capability {}.{}", major, minor);
  }
  if (table().driver_version != nullptr) {
    WEFT_PLUGIN(library_, index(), driver_version, &version);
    text += fmt::format(", driver {}", version);
  }
  if (table().runtime_version != nullptr) {
    WEFT_PLUGIN(library_, index(), runtime_version, &version);
    text += fmt::format(", runtime {}", version);
  }
  return text + fmt::format(", {:.1f} GiB", static_cast<double>(total_memory()) / (1 << 30));
}

PluginDevice::Memory PluginDevice::memory() {
  if (closed()) return {};
  select();
  Memory memory = {};
  WEFT_PLUGIN(library_, index(), memory_stats, number_, &memory.total, &memory.free);
  return memory;
}

void* PluginDevice::take_memory(size_t bytes) {
  select();
  void* data = nullptr;
  const int code = library_.status(index(), "device_alloc", table().device_alloc, number_, &data, bytes);
  if (code == WEFT_OUT_OF_MEMORY) return nullptr;
  if (code != WEFT_OK) library_.raise_failure(index(), "device_alloc", code);
  if (data == nullptr) library_.raise_garbage(index(), "device_alloc", "gave a null pointer");
  if (reinterpret_cast<uintptr_t>(data) % memory_rules_.alignment != 0) {
    return_memory(data, bytes);
    library_.raise_garbage(index(), "device_alloc",
                           fmt::format("gave an address that is no multiple of {}", memory_rules_.alignment));
  }
  return data;
}

void PluginDevice::select_quietly() noexcept {
  if (std::exchange(selected(device()), number_) != number_) library_.quietly(table().set_device, number_);
}

void PluginDevice::return_memory(void* data, size_t bytes) noexcept {
  select_quietly();
  library_.quietly(table().device_free, number_, data, bytes);
}

void* PluginDevice::take_pinned(size_t bytes) {
  if (table().pinned_host_alloc == nullptr) return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  select();
  void* data = nullptr;
  const int code = library_.status(index(), "pinned_host_alloc", table().pinned_host_alloc, number_, &data, bytes);
  return code == WEFT_OK ? data : nullptr;
}

void PluginDevice::return_pinned(void* data, size_t bytes) noexcept {
  if (table().pinned_host_free == nullptr) return std::free(data);
  select_quietly();
  library_.quietly(table().pinned_host_free, number_, data, bytes);
}

int PluginDevice::number_of(WeftStream stream) {
  for (CommandQueue* queue : queues()) {
    if (queue->native_handle() == stream) return queue->number();
  }
  return -1;
}

WeftEvent PluginDevice::make_event() {
  select();
  const std::lock_guard lock(event_mutex_);
  const auto place = events_.emplace(nullptr).first;  // room, before there is an event that could be lost
  auto node = events_.extract(place);
  WEFT_PLUGIN(library_, index(), create_event, number_, &node.value());
  const WeftEvent event = node.value();
  if (event == nullptr) library_.raise_garbage(index(), "create_event", "gave a null pointer");
  if (!events_.insert(std::move(node)).inserted) {
    library_.raise_garbage(index(), "create_event", "gave an event that is in use");
  }
  return event;
}

void PluginDevice::drop(WeftEvent event) noexcept {
  if (closed()) return;
  const std::lock_guard lock(event_mutex_);
  if (events_.erase(event) == 0) return;
  select_quietly();
  library_.quietly(table().destroy_event, number_, event);
}

RecipeHandle<Recipe> PluginDevice::recipe_for(const WeftKernelCall& call) {
  RecipeKey key(call.kernel, device());
  key.attribute(call.variant);
  for (int i = 0; i < call.view_count; ++i) {
    View view;
    std::memcpy(static_cast<void*>(&view), &call.views[i], sizeof view);
    if (view.data == nullptr) key.absent();
    else if (i < call.output_count) key.output(view);
    else key.input(view);
  }
  for (int i = 0; i < call.attribute_count; ++i) {
    const WeftAttribute& a = call.attributes[i];
    key.attribute(a.kind);
    if (a.kind == WEFT_ATTRIBUTE_F64) key.attribute(a.value.f64);
    else if (a.kind < WEFT_ATTRIBUTE_I64_LIST) key.attribute(a.value.i64);
    else key.attribute(std::span<const int64_t>(a.value.i64s, static_cast<size_t>(a.count)));
  }
  int code = WEFT_OK;
  try {
    return recipes_.find(key, [&] {
      WeftRecipe handle = nullptr;
      code = library_.status(index(), "recipes.compile", table().recipes->compile, number_, &call, &handle);
      if (code != WEFT_OK) library_.raise_failure(index(), "recipes.compile", code);
      if (handle == nullptr) library_.raise_garbage(index(), "recipes.compile", "gave a null pointer");
      return Shared<Recipe>::make(library_, handle);
    });
  } catch (const DeviceError&) {
    if (code != WEFT_UNSUPPORTED) throw;
    return {};
  }
}

std::unique_ptr<CommandQueue> PluginDevice::make_queue(int number) {
  return std::make_unique<PluginQueue>(*this, number);
}

void PluginDevice::close() noexcept {
  if (closed_) return;
  if (drain()) recipes_.clear();
  const bool idle = drain();
  closed_ = true;
  if (!idle || !opened_) return;
  select_quietly();
  library_.quietly(table().synchronize_device, number_);
  for (CommandQueue* queue : queues()) static_cast<PluginQueue*>(queue)->close();
  {
    const std::lock_guard lock(event_mutex_);
    for (WeftEvent event : events_) library_.quietly(table().destroy_event, number_, event);
    events_.clear();
  }
  allocator().abandon();
  library_.quietly(table().deinit_device, number_);
}

}  // namespace weft::plugin
