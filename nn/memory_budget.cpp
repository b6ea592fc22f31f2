#include "memory_budget-inl.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "../tensor/error.hpp"

namespace weft::nn::detail {

namespace {

constexpr size_t bytes_of_an_element = 64, bytes_of_any_model = size_t{1} << 28;
constexpr size_t allocations_of_a_tensor = 32, allocations_of_any_model = 4096;

size_t limit(int64_t count, size_t for_each, size_t for_any) {
  return static_cast<size_t>(std::clamp<int64_t>(count, 0, int64_t{1} << 50)) * for_each + for_any;
}

constinit thread_local MemoryBudget* budget = nullptr;

}  // namespace

/// Allocates CPU memory and counts it against the budget. Outlives all tensors.
class MemoryBudget::Limited final : public Allocator {
 public:
  static Limited& get() {
    static Limited* const only = new Limited;
    return *only;
  }
  void* allocate(size_t bytes) override {
    if (budget != nullptr) budget->take(bytes);
    return cpu_allocator().allocate(bytes);
  }
  void free(void* data, size_t bytes) override { cpu_allocator().free(data, bytes); }
  MemoryStats stats() override { return cpu_allocator().stats(); }
  void reset_peak() override { cpu_allocator().reset_peak(); }
  void empty_cache() override { cpu_allocator().empty_cache(); }
  void set_limit(size_t bytes) override { cpu_allocator().set_limit(bytes); }
};

MemoryBudget::MemoryBudget(int64_t elements, int64_t tensors, const char* op, std::string what, Location where)
    : bytes_left_(limit(elements, bytes_of_an_element, bytes_of_any_model)),
      tensors_left_(limit(tensors, allocations_of_a_tensor, allocations_of_any_model)),
      bytes_(bytes_left_),
      tensors_(tensors_left_),
      op_(op),
      what_(std::move(what)),
      where_(where),
      limits_(weft::detail::capture_recorder == nullptr) {
  if (limits_) weft::detail::capture_recorder = this, budget = this;
}

MemoryBudget::~MemoryBudget() {
  if (limits_) weft::detail::capture_recorder = nullptr, budget = nullptr;
}

Allocator& MemoryBudget::memory(Device device, Allocator& below) { return device.is_cpu() ? Limited::get() : below; }

void MemoryBudget::take(size_t bytes) {
  const bool has_memory = bytes <= bytes_left_;
  if (has_memory && tensors_left_ > 0) {
    bytes_left_ -= bytes;
    --tensors_left_;
    return;
  }
  raise<FormatError>({.op = op_,
                      .problem = fmt::format("{} describes a model of more than {} {}, but its weights are far smaller",
                                             what_, has_memory ? tensors_ : bytes_, has_memory ? "tensors" : "bytes")},
                     where_);
}

}  // namespace weft::nn::detail
