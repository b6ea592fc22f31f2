#include "memory_budget-inl.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "../tensor/error.hpp"

namespace weft::nn::detail {

namespace {

constexpr size_t bytes_of_an_element = 64, bytes_of_any_model = size_t{1} << 28, bytes_of_a_tensor = 512;

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

size_t MemoryBudget::bytes_for(int64_t elements) {
  const auto count = std::min(static_cast<size_t>(elements), size_t{1} << 50);
  return count * bytes_of_an_element + bytes_of_any_model;
}

MemoryBudget::MemoryBudget(size_t bytes, const char* op, std::string what, Location where)
    : left_(bytes),
      bytes_(bytes),
      op_(op),
      what_(std::move(what)),
      where_(where),
      limits_(weft::detail::step_recorder == nullptr) {
  if (limits_) weft::detail::step_recorder = this, budget = this;
}

MemoryBudget::~MemoryBudget() {
  if (limits_) weft::detail::step_recorder = nullptr, budget = nullptr;
}

Allocator& MemoryBudget::memory(Device device, Allocator& below) { return device.is_cpu() ? Limited::get() : below; }

void MemoryBudget::take(size_t bytes) {
  const size_t wanted = std::max(bytes, bytes + bytes_of_a_tensor);
  if (wanted <= left_) {
    left_ -= wanted;
    return;
  }
  raise<FormatError>(
      {.op = op_,
       .problem =
           fmt::format("{} describes a model of more than {} bytes, but its weights are far smaller", what_, bytes_)},
      where_);
}

}  // namespace weft::nn::detail
