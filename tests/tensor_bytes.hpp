// The elements of a tensor on the CPU, bit for bit.
#pragma once

#include <string>

#include <weft/tensor/index.hpp>

namespace weft {

/// In row-major order.
inline std::string bytes_of(const Tensor& x) {
  const Tensor whole = x.contiguous();
  return {static_cast<const char*>(whole.data_ptr()), static_cast<size_t>(whole.numel() * itemsize(whole.dtype()))};
}

}  // namespace weft
