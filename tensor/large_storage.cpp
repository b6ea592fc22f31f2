#include "large_storage.hpp"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "allocator.hpp"
#include "error.hpp"
#include "storage.hpp"

namespace weft::detail {

namespace {

constexpr size_t most_in_a_text = 3;

struct Maker {
  CallPlace place;
  MemoryUse use;
};
struct Known {
  std::mutex mutex;
  std::unordered_map<const Storage*, Maker> makers;
  StorageWatch* watch = nullptr;
};

// Never destroyed: static tensors are destroyed after any static object of this file.
Known& known() {
  static Known* instance = [] {
    auto* const made = new Known;  // may throw; the handlers must be registered once
    // Otherwise the child of a fork() could inherit a mutex locked by a thread that it does not have.
    pthread_atfork([] { known().mutex.lock(); }, [] { known().mutex.unlock(); }, [] { known().mutex.unlock(); });
    return made;
  }();
  return *instance;
}

std::string text_of(const StorageNote& note) {
  const std::string op = note.place.op == nullptr ? "" : fmt::format(" of {}", note.place.entry);
  return fmt::format("{}{} at {}", note.bytes, op, note.place.where.text());
}

}  // namespace

constinit Atomic<size_t> noted_bytes{large_storage_bytes};
constinit thread_local MemoryUse memory_use = MemoryUse::forward;

StorageWatch::~StorageWatch() = default;

void set_storage_watch(StorageWatch* watch) {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  all.watch = watch;
  noted_bytes.store(watch != nullptr ? 1 : large_storage_bytes, MemoryOrder::relaxed);
}

void note_storage(const Storage* storage) noexcept {
  try {
    Known& all = known();
    const std::lock_guard lock(all.mutex);
    if (all.watch != nullptr) all.watch->made(*storage);
    if (storage->bytes >= large_storage_bytes) all.makers[storage] = {current_call, memory_use};
  } catch (const std::exception&) {
  }
}

void forget_storage(const Storage* storage) noexcept {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  if (all.watch != nullptr) all.watch->freed(*storage);
  if (storage->bytes >= large_storage_bytes) all.makers.erase(storage);
}

std::vector<StorageNote> large_storages(Device device) {
  Known& all = known();
  const std::lock_guard lock(all.mutex);  // keeps the storages alive meanwhile
  std::vector<StorageNote> notes;
  for (const auto& [storage, maker] : all.makers) {
    if (storage->device == device) notes.push_back({storage, device, storage->bytes, maker.place, maker.use});
  }
  return notes;
}

void raise_out_of_memory(Device device, size_t bytes, const char* purpose) {
  const MemoryStats stats = memory_stats(device);
  // On the CPU, the system's figure leaves out memory that it could reclaim.
  const std::string free = device.is_cpu() ? "" : fmt::format(", {} free", stats.free);
  const std::string limit = stats.limit == 0 ? "" : fmt::format(", limit {}", stats.limit);
  const std::string largest = largest_storages(device);
  const ErrorText text{.op = current_call.op != nullptr ? current_call.entry : "allocate",
                       .problem = fmt::format("no {} bytes{} on {}", bytes, purpose, device.name()),
                       .details = fmt::format("{} allocated, {} reserved{}{}{}{}", stats.allocated, stats.reserved,
                                              free, limit, largest.empty() ? "" : "; ", largest),
                       .remedy = stats.limit == 0 ? "free tensors or use smaller batches"
                                                  : "free tensors, use smaller batches or raise set_memory_limit"};
  throw OutOfMemoryError(format_error(text), device, bytes, stats.free, stats.allocated, stats.reserved, stats.limit);
}

std::string largest_storages(Device device) {
  std::vector<StorageNote> largest = large_storages(device);
  const size_t count = std::min(largest.size(), most_in_a_text);
  std::partial_sort(largest.begin(), largest.begin() + static_cast<std::ptrdiff_t>(count), largest.end(),
                    [](const StorageNote& a, const StorageNote& b) { return a.bytes > b.bytes; });
  std::string text;
  for (size_t i = 0; i < count; ++i) text += (i == 0 ? "the largest: " : ", ") + text_of(largest[i]);
  return text;
}

}  // namespace weft::detail
