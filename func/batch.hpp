// Runs a function on one example while its kernels process all examples. Not public.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "../backends/watch/recorded_kernel.hpp"
#include "../tensor/allocator.hpp"
#include "../tensor/tensor.hpp"

namespace weft::func::detail {

/// Allocates CPU memory for the function's results for its example. If the examples differ in a block, a second block
/// holds the values of all examples, one after the other. It lives until the batch and all tensors in it are destroyed.
class ExampleMemory final : public Allocator {
 public:
  struct Block {
    size_t size;
    bool touched = false;   ///< a kernel has written to it
    bool is_input = false;  ///< `all` may be the caller's memory
    bool handed_out = false;
    Tensor all = {};  ///< count * size bytes if the examples differ, else undefined
  };
  explicit ExampleMemory(Allocator& below) : below_(below) {}

  void* allocate(size_t bytes) override;
  void free(void* data, size_t bytes) override;
  MemoryStats stats() override { return below_.stats(); }
  void reset_peak() override { below_.reset_peak(); }
  void empty_cache() override { below_.empty_cache(); }
  void set_limit(size_t bytes) override { below_.set_limit(bytes); }

  struct Place {
    Block* block = nullptr;  ///< null for other memory
    int64_t offset = 0;
  };
  Place find(const void* address);
  /// The blocks in which the examples differ.
  std::vector<std::pair<char*, Tensor>> spread_blocks();
  /// False if the block still has its initial contents, as far as can be determined.
  static bool was_written(const Block& block, const char* data);
  void close();

 private:
  Allocator& below_;
  std::mutex mutex_;
  std::map<const char*, Block> blocks_;
  bool closed_ = false;
};

/// While it exists, the thread's kernels run for `count` examples. An unsupported operation sets `refused`: the
/// function has then run on the first example only.
class Batch final : public weft::detail::KernelRecorder {
 public:
  Batch(int64_t count, bool draws_alike);
  ~Batch();

  /// The first example of `x` along `dim`, which represents all of them.
  Tensor example_of(const Tensor& x, int dim);
  /// [count, ...]: the values for all examples that correspond to `example`.
  Tensor all_of(const Tensor& example);
  bool refused() const { return refused_; }
  /// Whether the function wrote to its inputs: the first example is a copy, so the function must then run again.
  bool wrote_inputs() const { return wrote_inputs_; }

  weft::Allocator& memory(Device device, weft::Allocator& below) override;
  void refuse(const char*) override { refused_ = true; }
  void repeat(const char* what, const void* owner, Callback<void()> act) override;
  void wrote(Storage&) override {}
  void drew(Generator&, GeneratorState) override;
  void moved(Generator&, GeneratorState from, GeneratorState to) override;
  void adds_gradient(const TensorImpl*, const Tensor&) override { refused_ = true; }
  void put_gradient(const TensorImpl*, const Tensor&) override { refused_ = true; }
  void record(std::unique_ptr<RecordedKernel> call) override;

 private:
  void run(RecordedKernel& call, const std::vector<ExampleMemory::Place>& places);
  /// Calls `check` with each example in place of the first.
  void check_each(const Callback<void()>& check);
  /// Gives the block separate memory for each example, with its current contents.
  void spread(ExampleMemory::Block& block, const char* data);

  const int64_t count_;
  const bool draws_alike_;
  bool refused_ = false, wrote_inputs_ = false;
  ExampleMemory* memory_ = nullptr;
  weft::detail::RecordingScope scope_;
};

}  // namespace weft::func::detail
