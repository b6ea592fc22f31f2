#include "workspace.hpp"

#include <algorithm>
#include <string>

#include "../../tensor/allocator.hpp"
#include "../../tensor/error.hpp"

namespace weft::cpu {

namespace {

void* allocate_work(size_t bytes) {
  if (void* const data = cpu_allocator().allocate(bytes)) return data;
  const MemoryStats stats = cpu_allocator().stats();
  const ErrorText text{.problem = std::to_string(bytes) + " bytes of working memory do not fit",
                       .remedy = "free tensors or raise the memory limit"};
  throw OutOfMemoryError(format_error(text), bytes, stats.allocated, stats.reserved, stats.limit);
}

}  // namespace

Workspace::Workspace(size_t bytes) : data_(nullptr), bytes_(std::max<size_t>(bytes, 64)) {
  data_ = allocate_work(bytes_);
}
Workspace::~Workspace() {
  if (data_ != nullptr) cpu_allocator().free(data_, bytes_);
}

void* Scratch::allocate(int64_t size) { return allocate_work(static_cast<size_t>(size)); }
void Scratch::release(void* data, int64_t size) { cpu_allocator().free(data, static_cast<size_t>(size)); }

}  // namespace weft::cpu
