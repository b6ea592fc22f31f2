// A memory limit for building a model from a file. Not public.
#pragma once

#include "../backends/watch/recorded_kernel.hpp"
#include "../tensor/allocator.hpp"
#include "../tensor/location.hpp"

namespace weft::nn::detail {

/// Limits the CPU memory and the number of tensors that this thread allocates until destruction, including freed ones.
/// The limits are far above the need of a model whose files have `tensors` tensors with `elements` elements in total,
/// in any dtype. Exceeding one raises FormatError of `op`: the description does not match the weights. No limit applies
/// inside a recorded step.
class WEFT_API MemoryBudget final : private weft::detail::KernelRecorder {
 public:
  MemoryBudget(int64_t elements, int64_t tensors, const char* op, std::string what, Location where);
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

  size_t bytes_left_, tensors_left_;
  const size_t bytes_, tensors_;
  const char* op_;
  std::string what_;
  Location where_;
  bool limits_;
};

}  // namespace weft::nn::detail
