// A function that runs on one example while its kernels run on all of them. Not public.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "../backends/watch/recorded_kernel.hpp"
#include "../tensor/allocator.hpp"
#include "../tensor/tensor.hpp"

namespace weft::func::detail {

/// Memory on the CPU for what the function makes of its example. A block of which the examples differ has another one
/// beside it with those of all examples, one behind the other. It lives until the batch and every tensor in it are
/// gone.
class ExampleMemory final : public Allocator {
 public:
  struct Block {
    size_t size;
    bool touched = false;   ///< a kernel has written to it
    bool is_input = false;  ///< `all` may be memory of the caller's
    bool handed_out = false;
    Tensor all = {};  ///< count times size bytes where the examples differ
  };
  explicit ExampleMemory(Allocator& below) : below_(below) {}

  void* allocate(size_t bytes) override;
  void free(void* data, size_t bytes) override;
  MemoryStats stats() override { return below_.stats(); }
  void reset_peak() override { below_.reset_peak(); }
  void empty_cache() override { below_.empty_cache(); }
  void set_limit(size_t bytes) override { below_.set_limit(bytes); }

  struct Place {
    Block* block = nullptr;  ///< null for memory of others
    int64_t offset = 0;
  };
  Place find(const void* address);
  /// The blocks of which the examples differ.
  std::vector<std::pair<char*, Tensor>> spread_blocks();
  /// False for a block that holds what it held when it was made, as far as that can be told.
  static bool was_written(const Block& block, const char* data);
  void close();

 private:
  Allocator& below_;
  std::mutex mutex_;
  std::map<const char*, Block> blocks_;
  bool closed_ = false;
};

/// While it lives, the thread's kernels run for `count` examples. What a batch has no way for is refused: then the
/// function ran on the first example alone.
class Batch final : public weft::detail::KernelRecorder {
 public:
  Batch(int64_t count, bool draws_alike);
  ~Batch();

  /// The first example of `x` along `dim`, which stands for all of them.
  Tensor example_of(const Tensor& x, int dim);
  /// [count, ...]: what became of all examples where `example` was made of the first.
  Tensor all_of(const Tensor& example);
  bool refused() const { return refused_; }
  /// The function writes to its inputs, of which the first example is a copy: it has to run again.
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
  /// Gives the block a part for each example, with what it holds now.
  void spread(ExampleMemory::Block& block, const char* data);

  const int64_t count_;
  const bool draws_alike_;
  bool refused_ = false, wrote_inputs_ = false;
  ExampleMemory* memory_ = nullptr;
  weft::detail::RecordingScope scope_;
};

}  // namespace weft::func::detail
