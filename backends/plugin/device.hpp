// One device of a plug-in: its memory, and its queues.
#pragma once

#include <unordered_set>

#include "library.hpp"
#include "../queued/device.hpp"
#include "../queued/recipe_cache.hpp"

namespace weft::plugin {

/// A program that the plug-in compiled for one signature of a kernel.
class Recipe {
 public:
  Recipe(const Library& library, WeftRecipe handle) : library_(library), handle_(handle) {}
  ~Recipe() { library_.quietly(library_.table().recipes->destroy, handle_); }
  Recipe(const Recipe&) = delete;

  WeftRecipe handle() const { return handle_; }

 private:
  const Library& library_;
  const WeftRecipe handle_;
};

class PluginDevice final : public QueuedDevice {
 public:
  /// Queries the rules of its memory.
  PluginDevice(const Library& library, Device device);

  const Library& library() const { return library_; }
  const WeftDeviceInterface& table() const { return library_.table(); }
  /// Its name in the plug-in.
  int32_t number() const { return number_; }
  /// Initialises it at the first call; makes it the thread's current one.
  void select();
  void select_quietly() noexcept;
  bool is_synchronous() const { return synchronous_; }

  std::string describe() override;
  bool reaches(QueuedDevice&) override { return table().p2p != nullptr; }
  void* take_memory(size_t bytes) override;
  void return_memory(void* data, size_t bytes) noexcept override;
  void* take_pinned(size_t bytes) override;
  void return_pinned(void* data, size_t bytes) noexcept override;
  size_t total_memory() override { return memory().total; }
  size_t free_memory() override { return memory().free; }

  /// Which of its streams this is; -1 for none.
  int number_of(WeftStream stream);

  /// A new event, which is destroyed by `drop`, or when the device closes.
  WeftEvent make_event();
  void drop(WeftEvent event) noexcept;

  /// The recipe for such a call, compiled unless there is one. Null where the plug-in says WEFT_UNSUPPORTED.
  RecipeHandle<Recipe> recipe_for(const WeftKernelCall& call);

  /// Waits for its queues, and releases all resources of the plug-in. Nothing is called on it afterwards.
  void close() noexcept;

 protected:
  std::unique_ptr<CommandQueue> make_queue(int number) override;

 private:
  struct Memory {
    size_t total, free;
  };
  Memory memory();
  void open();
  size_t size_rule(const char* entry, int (*function)(int32_t, size_t*), size_t otherwise) const;

  const Library& library_;
  const int32_t number_;
  std::mutex mutex_;
  std::atomic<bool> opened_ = false;
  std::mutex event_mutex_;
  std::unordered_set<WeftEvent> events_;
  RecipeCache<Recipe> recipes_;
};

}  // namespace weft::plugin
