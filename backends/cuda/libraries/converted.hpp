// A view's numbers in another type, for libraries and kernels that take no other.
#pragma once

#include <algorithm>
#include <optional>

#include "../../portable/host/host.hpp"
#include "../../portable/host/launch.hpp"
#include "../../portable/host/scratch_memory.hpp"

namespace weft::cuda {

/// For the duration of a kernel's host code: the view itself where it has that type already, else as much dense memory;
/// none where the view has none.
class Converted {
 public:
  Converted(const View& given, DType type) : given_(given), view_(given) {
    Layout& l = view_.layout;
    if (l.dtype == type) return;
    if (given.data != nullptr) {
      const int64_t bytes = std::max<int64_t>(l.numel, 1) * itemsize(type);
      memory_.emplace(portable::host::device_of(given), static_cast<size_t>(bytes));
      view_.data = memory_->data();
    }
    l.dtype = type;
    set_contiguous(l, sizes_of(given.layout), itemsize(type));
    l.contiguous = 1;
  }

  const View& view() const { return view_; }
  void read() const {
    if (memory_) portable::host::copy(view_, given_);
  }
  void write_back() const {
    if (memory_) portable::host::copy(given_, view_);
  }

 private:
  View given_, view_;
  std::optional<portable::host::ScratchMemory> memory_;
};

}  // namespace weft::cuda
