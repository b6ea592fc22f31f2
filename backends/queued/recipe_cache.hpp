// Programs that a device compiled, found again by all that they depend on.
//
// A key lists each value with its type and length, never the raw bytes of a struct, and which operands share an
// address. A hit allocates nothing. An evicted program is destroyed after the queues that launched it have passed
// that point.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../queue.hpp"
#include "../../tensor/atomic.hpp"
#include "../../tensor/config.hpp"
#include "../../tensor/shared.hpp"
#include "../../tensor/view.hpp"

namespace weft {

/// The key of a compiled program, as bytes that are unique for each list of parts. Operands and attributes are in the
/// order of the op's arguments. It lives on the stack, and allocates only beyond 512 bytes or 16 operands.
class WEFT_API RecipeKey {
 public:
  RecipeKey(std::string_view op, Device device, std::string_view compiler_flags = {});
  RecipeKey(const RecipeKey&) = delete;

  /// Rank, sizes, dtype and the strides where they are not dense; of an operand with the address of an earlier one,
  /// also of which. The value of a host scalar is no part of it.
  RecipeKey& input(const View& view) { return operand('<', view); }
  RecipeKey& output(const View& view) { return operand('>', view); }
  /// An optional operand or attribute that is not there.
  RecipeKey& absent() { return put('-', nullptr, 0); }
  /// One field; a struct's are given one by one, since its padding has no value.
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T> RecipeKey& attribute(T value) {
    if constexpr (std::same_as<T, DType>) return number('t', static_cast<int64_t>(value));
    else if constexpr (std::same_as<T, bool> || std::is_enum_v<T>) return number('e', static_cast<int64_t>(value));
    else if constexpr (std::is_floating_point_v<T>) return number('f', std::bit_cast<int64_t>(double{value}));
    else return number(std::is_signed_v<T> ? 'i' : 'u', static_cast<int64_t>(value));
  }
  RecipeKey& attribute(std::string_view text);
  RecipeKey& attribute(std::span<const int64_t> values);
  template <class T>
  RecipeKey& attribute(const std::optional<T>& value) {
    return value ? attribute(*value) : absent();
  }
  /// Says that the op writes into its input, whatever the addresses are.
  RecipeKey& in_place() { return put('!', nullptr, 0); }

  std::string_view bytes() const { return {data_, size_}; }
  /// For people: "add(float32[2, 3], same as 0: float32[2, 3]) -> float32[2, 3] on hpu:0".
  std::string text() const;

 private:
  RecipeKey& operand(char role, const View& view);
  RecipeKey& number(char kind, int64_t value) { return put(kind, &value, sizeof value); }
  RecipeKey& put(char kind, const void* content, size_t bytes);
  void append(const void* content, size_t bytes);
  uint32_t alias_of(const View& view);

  static constexpr size_t near_bytes = 512, near_operands = 16;
  char* data_ = near_;
  size_t size_ = 0, capacity_ = near_bytes;
  uint32_t operands_ = 0;
  std::unique_ptr<char[]> far_;
  std::vector<const void*> far_addresses_;
  std::array<const void*, near_operands> addresses_;
  char near_[near_bytes];
};

struct RecipeStats {
  uint64_t hits = 0;
  uint64_t misses = 0;  ///< those that waited for another thread's compilation included
  uint64_t evictions = 0;
  uint64_t compiles = 0;  ///< failed ones included
};

/// WEFT_RECIPE_CACHE, or 1024.
WEFT_API size_t default_recipe_capacity();

namespace detail {

struct RecipeEntry {
  explicit RecipeEntry(std::string_view k) : key(k) {}
  void note(Queue& queue);

  const std::string key;
  enum class State : uint8_t { compiling, ready, failed } state = State::compiling;
  Shared<void> recipe;
  std::exception_ptr failure;
  Atomic<Queue*> last{nullptr};
  std::mutex mutex;
  std::vector<Queue*> queues;  ///< that were given work with it
};

/// The cache, whatever the recipes are.
class WEFT_API RecipeTable {
 public:
  using Compile = Shared<void> (*)(void* context);

  explicit RecipeTable(size_t capacity) : capacity_(capacity) {}
  ~RecipeTable();
  RecipeTable(const RecipeTable&) = delete;

  Shared<RecipeEntry> find(const RecipeKey& key, Compile compile, void* context);
  RecipeStats stats() const;
  size_t size() const;
  void clear() noexcept;

 private:
  using Entries = std::list<Shared<RecipeEntry>>;
  struct Resting {
    Shared<RecipeEntry> entry;
    bool marked = false;
    std::vector<Shared<Fence>> fences;
  };

  Shared<RecipeEntry> wait_for(std::unique_lock<std::mutex>& lock, Shared<RecipeEntry> entry);
  void fail(Entries::iterator entry, std::exception_ptr failure);
  void evict_beyond(size_t count);
  bool is_done(Resting& resting, bool wait);
  void release(bool wait) noexcept;

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable compiled_;
  Entries recent_;     ///< the last used one first
  Entries compiling_;  ///< by some thread, now
  Entries evicted_;
  std::list<Resting> resting_;
  std::unordered_map<std::string_view, Entries::iterator> entries_;
  RecipeStats stats_;
};

}  // namespace detail

/// Keeps a recipe while it is launched.
template <class Recipe>
class RecipeHandle {
 public:
  RecipeHandle() = default;
  Recipe* get() const { return static_cast<Recipe*>(entry_->recipe.get()); }
  Recipe* operator->() const { return get(); }
  Recipe& operator*() const { return *get(); }
  explicit operator bool() const { return static_cast<bool>(entry_); }
  /// `queue` was given work with it: the recipe lives until that has run, although this handle is dropped.
  void used_on(Queue& queue) const { entry_->note(queue); }

 private:
  template <class>
  friend class RecipeCache;
  explicit RecipeHandle(Shared<detail::RecipeEntry> entry) : entry_(std::move(entry)) {}

  Shared<detail::RecipeEntry> entry_;
};

/// The recipes used last. Thread-safe. An evicted recipe is destroyed when no handle refers to it and each recorded
/// queue has passed its last use, or at once if its device was lost. A hit takes a lock and allocates nothing.
template <class Recipe>
class RecipeCache {
 public:
  explicit RecipeCache(size_t capacity = default_recipe_capacity()) : table_(capacity) {}

  /// The recipe of `key`. On a miss `compile` returns a Shared<Recipe> or a Recipe; threads that miss at the same time
  /// wait for one of them. A failure is not cached, and is raised in all these threads: OutOfMemoryError unchanged,
  /// other errors as DeviceError with the op, the key and the error of `compile`. `compile` must not request its own
  /// key.
  template <class F>
  RecipeHandle<Recipe> find(const RecipeKey& key, F&& compile) {
    const auto call = [](void* context) -> Shared<void> {
      auto& make = *static_cast<std::remove_reference_t<F>*>(context);
      if constexpr (std::convertible_to<decltype(make()), Shared<Recipe>>) return Shared<Recipe>(make());
      else return Shared<Recipe>::make(make());
    };
    return RecipeHandle<Recipe>(table_.find(key, call, const_cast<void*>(static_cast<const void*>(&compile))));
  }
  RecipeStats stats() const { return table_.stats(); }
  /// Of recipes that can be found.
  size_t size() const { return table_.size(); }
  /// Forgets all, and waits for the work with those that no handle keeps.
  void clear() noexcept { table_.clear(); }

 private:
  detail::RecipeTable table_;
};

}  // namespace weft
