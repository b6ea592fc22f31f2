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

struct Known {
  std::mutex mutex;
  std::unordered_map<const Storage*, CallPlace> makers;
};

// Never destroyed: static tensors die after any static of ours.
Known& known() {
  static Known* instance = [] {
    // A child of fork() must not find the mutex locked by a thread that it does not have.
    pthread_atfork([] { known().mutex.lock(); }, [] { known().mutex.unlock(); }, [] { known().mutex.unlock(); });
    return new Known;
  }();
  return *instance;
}

using Maker = std::pair<const Storage*, CallPlace>;

std::string text_of(const Maker& maker) {
  const auto& [storage, place] = maker;
  const std::string op = place.op == nullptr ? "" : fmt::format(" of {}", place.entry);
  return fmt::format("{}{} at {}", storage->bytes, op, place.where.text());
}

}  // namespace

void note_large_storage(const Storage* storage) noexcept {
  try {
    Known& all = known();
    const std::lock_guard lock(all.mutex);
    all.makers[storage] = current_call;
  } catch (const std::exception&) {
  }
}

void forget_large_storage(const Storage* storage) noexcept {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  all.makers.erase(storage);
}

void raise_out_of_memory(Device device, size_t bytes, const char* purpose) {
  const MemoryStats stats = memory_stats(device);
  // What the system calls free leaves out what it would give back.
  const std::string free = device.is_cpu() ? "" : fmt::format("{} free, ", stats.free);
  const std::string largest = largest_storages(device);
  const ErrorText text{.op = current_call.op != nullptr ? current_call.entry : "allocate",
                       .problem = fmt::format("no {} bytes{} on {}", bytes, purpose, device.name()),
                       .details = fmt::format("{} allocated, {} reserved, {}limit {}{}{}", stats.allocated,
                                              stats.reserved, free, stats.limit, largest.empty() ? "" : "; ", largest),
                       .remedy = "free tensors, use smaller batches or raise set_memory_limit"};
  throw OutOfMemoryError(format_error(text), bytes, stats.allocated, stats.reserved, stats.limit);
}

std::string largest_storages(Device device) {
  Known& all = known();
  const std::lock_guard lock(all.mutex);  // none of them goes meanwhile
  std::vector<Maker> largest;
  for (const auto& [storage, place] : all.makers) {
    if (storage->device == device) largest.emplace_back(storage, place);
  }
  const size_t count = std::min(largest.size(), most_in_a_text);
  std::partial_sort(largest.begin(), largest.begin() + static_cast<std::ptrdiff_t>(count), largest.end(),
                    [](const Maker& a, const Maker& b) { return a.first->bytes > b.first->bytes; });
  std::string text;
  for (size_t i = 0; i < count; ++i) text += (i == 0 ? "the largest: " : ", ") + text_of(largest[i]);
  return text;
}

}  // namespace weft::detail
