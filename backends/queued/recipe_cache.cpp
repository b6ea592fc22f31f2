#include "recipe_cache.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "../../tensor/dtype.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/settings.hpp"

namespace weft {

// ---- the key
// ---------------------------------------------------------------------------------------------------------

namespace {

enum class Strides : uint8_t { dense, strided, host_scalar };
constexpr uint32_t no_alias = ~uint32_t{0};

}  // namespace

RecipeKey::RecipeKey(std::string_view op, Device device, std::string_view compiler_flags) {
  attribute(op);
  const uint8_t place[] = {static_cast<uint8_t>(device.type), static_cast<uint8_t>(device.index)};
  append(place, sizeof place);
  attribute(compiler_flags);
}

void RecipeKey::append(const void* content, size_t bytes) {
  if (bytes > capacity_ - size_) {
    const size_t wanted = std::max(capacity_ * 2, size_ + bytes);
    auto larger = std::make_unique_for_overwrite<char[]>(wanted);
    std::memcpy(larger.get(), data_, size_);
    far_ = std::move(larger);
    data_ = far_.get();
    capacity_ = wanted;
  }
  if (bytes != 0) std::memcpy(data_ + size_, content, bytes);
  size_ += bytes;
}

RecipeKey& RecipeKey::put(char kind, const void* content, size_t bytes) {
  append(&kind, 1);
  append(content, bytes);
  return *this;
}

RecipeKey& RecipeKey::attribute(std::string_view text) {
  number('s', static_cast<int64_t>(text.size()));
  append(text.data(), text.size());
  return *this;
}

RecipeKey& RecipeKey::attribute(std::span<const int64_t> values) {
  number('l', static_cast<int64_t>(values.size()));
  append(values.data(), values.size_bytes());
  return *this;
}

/// The number of the first operand with this address. One without elements shares nothing.
uint32_t RecipeKey::alias_of(const View& view) {
  const void* const address = view.layout.numel == 0 ? nullptr : view.data;
  const uint32_t mine = operands_++;
  const auto known = [&](uint32_t i) { return i < near_operands ? addresses_[i] : far_addresses_[i - near_operands]; };
  uint32_t first = 0;
  while (first < mine && known(first) != address) ++first;
  if (mine < near_operands) addresses_[mine] = address;
  else far_addresses_.push_back(address);
  return address == nullptr || first == mine ? no_alias : first;
}

RecipeKey& RecipeKey::operand(char role, const View& view) {
  const Layout& layout = view.layout;
  const Strides strides = layout.host_scalar != 0  ? Strides::host_scalar
                          : layout.contiguous != 0 ? Strides::dense
                                                   : Strides::strided;
  const uint32_t alias = alias_of(view);
  put(role, &alias, sizeof alias);
  const uint8_t head[] = {static_cast<uint8_t>(layout.dtype), layout.rank, static_cast<uint8_t>(strides)};
  append(head, sizeof head);
  append(layout.sizes, layout.rank * sizeof(int64_t));
  for (int i = 0; strides == Strides::strided && i < layout.rank; ++i) {
    const int64_t stride = layout.sizes[i] > 1 ? layout.strides[i] : 0;  // where there is one element it says nothing
    append(&stride, sizeof stride);
  }
  return *this;
}

namespace {

/// Reads a key's bytes from their beginning.
class KeyReader {
 public:
  explicit KeyReader(std::string_view bytes) : left_(bytes) {}

  std::string run() {
    take<char>();
    std::string op(string());
    const auto type = take<uint8_t>(), index = take<uint8_t>();
    take<char>();
    const std::string flags(string());
    std::string inputs, outputs;
    while (!left_.empty()) add(inputs, outputs);
    std::string text = fmt::format("{}({})", op, inputs);
    if (!outputs.empty()) text += " -> " + outputs;
    text += " on " + Device(static_cast<DeviceType>(type), index).name();
    return flags.empty() ? text : text + " with " + flags;
  }

 private:
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, left_.data(), sizeof value);
    left_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view string() {
    const auto size = static_cast<size_t>(take<int64_t>());
    const std::string_view text = left_.substr(0, size);
    left_.remove_prefix(size);
    return text;
  }
  std::string list(int64_t count) {
    std::string text = "[";
    for (int64_t i = 0; i < count; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", take<int64_t>());
    return text + "]";
  }

  void add(std::string& inputs, std::string& outputs) {
    const char kind = take<char>();
    std::string& side = kind == '>' ? outputs : inputs;
    if (!side.empty()) side += ", ";
    side += kind == '<' || kind == '>' ? operand() : value(kind);
  }

  std::string operand() {
    const auto alias = take<uint32_t>();
    const auto dtype = static_cast<DType>(take<uint8_t>());
    const auto rank = take<uint8_t>();
    const auto strides = static_cast<Strides>(take<uint8_t>());
    std::string text = alias == no_alias ? "" : fmt::format("same as {}: ", alias);
    text += std::string(name(dtype)) + list(rank);
    if (strides == Strides::strided) text += " in steps of " + list(rank) + " bytes";
    return strides == Strides::host_scalar ? text + " of the host" : text;
  }

  std::string value(char kind) {
    switch (kind) {
      case '-':
        return "none";
      case '!':
        return "in place";
      case 's':
        return fmt::format("\"{}\"", string());
      case 'l':
        return list(take<int64_t>());
      case 't':
        return std::string(name(static_cast<DType>(take<int64_t>())));
      case 'f':
        return fmt::format("{}", std::bit_cast<double>(take<int64_t>()));
      case 'u':
        return fmt::format("{}", take<uint64_t>());
      default:
        return fmt::format("{}", take<int64_t>());
    }
  }

  std::string_view left_;
};

}  // namespace

std::string RecipeKey::text() const { return KeyReader(bytes()).run(); }

size_t default_recipe_capacity() {
  constexpr size_t usual = 1024;
  const char* text = detail::setting("WEFT_RECIPE_CACHE");
  if (text == nullptr || *text < '0' || *text > '9') return usual;
  return std::strtoull(text, nullptr, 10);
}

// ---- the cache
// -------------------------------------------------------------------------------------------------------

namespace detail {

void RecipeEntry::note(Queue& queue) {
  if (last.load(MemoryOrder::acquire) == &queue) return;
  const std::lock_guard lock(mutex);
  if (std::find(queues.begin(), queues.end(), &queue) == queues.end()) queues.push_back(&queue);
  last.store(&queue, MemoryOrder::release);
}

namespace {

/// Converts the exception of `compile` for the caller. Called in its handler.
std::exception_ptr failure_of(const RecipeKey& key) {
  try {
    throw;
  } catch (const OutOfMemoryError&) {
  } catch (const std::bad_alloc&) {
  } catch (const std::exception& e) {
    std::string details = e.what();
    for (char& c : details) c = c == '\n' ? ' ' : c;
    return std::make_exception_ptr(
        DeviceError(format_error({.problem = key.text() + " does not compile", .details = details})));
  } catch (...) {
  }
  return std::current_exception();
}

}  // namespace

RecipeTable::~RecipeTable() { clear(); }

Shared<RecipeEntry> RecipeTable::find(const RecipeKey& key, Compile compile, void* context) {
  std::unique_lock lock(mutex_);
  if (const auto found = entries_.find(key.bytes()); found != entries_.end()) {
    const Entries::iterator place = found->second;
    if ((*place)->state != RecipeEntry::State::ready) return wait_for(lock, *place);
    ++stats_.hits;
    recent_.splice(recent_.begin(), recent_, place);
    return *place;
  }
  ++stats_.misses;
  const Shared<RecipeEntry> entry = Shared<RecipeEntry>::make(key.bytes());
  compiling_.push_front(entry);
  const Entries::iterator place = compiling_.begin();
  try {
    entries_.emplace(entry->key, place);
  } catch (...) {
    compiling_.erase(place);
    throw;
  }
  ++stats_.compiles;
  lock.unlock();
  try {
    entry->recipe = compile(context);
  } catch (...) {
    fail(place, failure_of(key));
  }
  lock.lock();
  entry->state = RecipeEntry::State::ready;
  recent_.splice(recent_.begin(), compiling_, place);
  evict_beyond(capacity_);
  lock.unlock();
  compiled_.notify_all();
  release(false);
  return entry;
}

Shared<RecipeEntry> RecipeTable::wait_for(std::unique_lock<std::mutex>& lock, Shared<RecipeEntry> entry) {
  ++stats_.misses;
  compiled_.wait(lock, [&] { return entry->state != RecipeEntry::State::compiling; });
  if (entry->state == RecipeEntry::State::failed) std::rethrow_exception(entry->failure);
  return entry;
}

void RecipeTable::fail(Entries::iterator place, std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    (*place)->failure = failure;
    (*place)->state = RecipeEntry::State::failed;
    entries_.erase((*place)->key);
    compiling_.erase(place);
  }
  compiled_.notify_all();
  std::rethrow_exception(failure);
}

void RecipeTable::evict_beyond(size_t count) {
  while (recent_.size() > count) {
    entries_.erase(recent_.back()->key);
    evicted_.splice(evicted_.end(), recent_, std::prev(recent_.end()));
    ++stats_.evictions;
  }
}

namespace {

std::vector<Shared<Fence>> mark(const RecipeEntry& entry) {
  std::vector<Shared<Fence>> fences;
  for (Queue* queue : entry.queues) {
    try {
      fences.push_back(queue->record(false));
    } catch (const DeviceError&) {  // a device that was lost runs nothing more
    }
  }
  return fences;
}

bool passed(const Shared<Fence>& fence, bool wait) {
  try {
    if (wait) fence->wait();
    return wait || fence->reached();
  } catch (const DeviceError&) {
    return true;
  }
}

}  // namespace

/// Whether all work with an evicted recipe is done; `wait` waits for it.
bool RecipeTable::is_done(Resting& resting, bool wait) {
  // Remaining handles may launch again.
  if (!resting.entry.is_only_owner()) return false;
  if (!resting.marked) resting.fences = mark(*resting.entry);
  resting.marked = true;
  std::erase_if(resting.fences, [&](const Shared<Fence>& fence) { return passed(fence, wait); });
  return resting.fences.empty();
}

/// Destroys evicted recipes that are no longer in use. Queues are queried without a lock, since their work may request
/// recipes.
void RecipeTable::release(bool wait) noexcept {
  std::list<Resting> mine;
  try {
    {
      const std::lock_guard lock(mutex_);
      for (; !evicted_.empty(); evicted_.pop_front()) resting_.push_back({evicted_.front(), false, {}});
      mine.swap(resting_);
    }
    mine.remove_if([&](Resting& resting) { return is_done(resting, wait); });
  } catch (const std::bad_alloc&) {  // the next time
  }
  const std::lock_guard lock(mutex_);
  resting_.splice(resting_.end(), mine);
}

RecipeStats RecipeTable::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

size_t RecipeTable::size() const {
  const std::lock_guard lock(mutex_);
  return recent_.size();
}

void RecipeTable::clear() noexcept {
  {
    const std::lock_guard lock(mutex_);
    evict_beyond(0);
  }
  release(true);
}

}  // namespace detail
}  // namespace weft
