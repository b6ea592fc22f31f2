#include "workspace.hpp"

#include <algorithm>
#include <string>

#include "../../tensor/allocator.hpp"
#include "../../tensor/error.hpp"

namespace weft::cpu {

Workspace::Workspace(size_t bytes) : data_(nullptr), bytes_(std::max<size_t>(bytes, 64)) {
  data_ = cpu_allocator().allocate(bytes_);
  if (data_ != nullptr) return;
  const MemoryStats stats = cpu_allocator().stats();
  const ErrorText text{.problem = std::to_string(bytes_) + " bytes of working memory do not fit",
                       .remedy = stats.limit == 0 ? "free tensors" : "free tensors or raise set_memory_limit"};
  throw OutOfMemoryError(format_error(text), {}, bytes_, stats.free, stats.allocated, stats.reserved, stats.limit);
}

Workspace::~Workspace() {
  if (data_ != nullptr) cpu_allocator().free(data_, bytes_);
}

}  // namespace weft::cpu
