// A limit to the memory that building a model may take. Not public.
#pragma once

#include "../backends/watch/recorded_kernel.hpp"
#include "../tensor/allocator.hpp"
#include "../tensor/location.hpp"

namespace weft::nn::detail {

/// While it lives, tensors that this thread makes on the CPU take at most `bytes` in all, freed ones included; then
/// FormatError of `op`: a description is untrue to the weights beside it. Inside a recorded step there is no limit.
class WEFT_API MemoryBudget final : private weft::detail::KernelRecorder {
 public:
  /// For a model whose files hold `elements` elements: far more than it takes in any dtype.
  static size_t bytes_for(int64_t elements);

  MemoryBudget(size_t bytes, const char* op, std::string what, Location where);
  ~MemoryBudget() override;
  MemoryBudget(const MemoryBudget&) = delete;

 private:
  class Limited;
  void take(size_t bytes);

  Allocator& memory(Device device, Allocator& below) override;
  void refuse(const char*) override {}
  void repeat(const char*, const void*, Callback<void()> act) override { act(); }
  void wrote(Storage&) override {}
  void drew(Generator&, GeneratorState) override {}
  void moved(Generator&, GeneratorState, GeneratorState) override {}
  void adds_gradient(const TensorImpl*, const Tensor&) override {}
  void put_gradient(const TensorImpl*, const Tensor&) override {}
  void record(std::unique_ptr<RecordedKernel>) override {}

  size_t left_;
  const size_t bytes_;
  const char* op_;
  std::string what_;
  Location where_;
  bool limits_;
};

}  // namespace weft::nn::detail
