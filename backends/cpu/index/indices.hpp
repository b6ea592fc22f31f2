// Tensors of indices, i32 or i64. Errors are raised on the thread that called the kernel, because only it has the op
// and its location.
#pragma once

#include "index_loops.hpp"
#include "../lines.hpp"
#include "../../index_plan.hpp"

namespace weft::cpu {

/// Calls body(I{}) with the type of the indices.
template <class F>
decltype(auto) with_index_type(const View& index, F&& body) {
  return index.layout.dtype == DType::i64 ? body(int64_t{}) : body(int32_t{});
}
template <class I>
int64_t index_at(const char* base, int64_t offset) {
  return *reinterpret_cast<const I*>(base + offset);
}

/// Brings an index into [0, size); false where it is out of range. With `wraps` negative ones count from the end.
inline bool wraps_into(int64_t& index, int64_t size, bool wraps) {
  if (index < 0 && wraps) index += size;
  return static_cast<uint64_t>(index) < static_cast<uint64_t>(size);
}

/// IndexError for the first index, in row-major order, that is out of range; returns where there is none.
void raise_first_invalid(const View& index, int dim, int64_t size, bool wraps);
/// The same for the indices of a plan, one after the other; DTypeError unless they are i32 or i64.
void check_plan(const char* kernel, const IndexPlan& plan);

/// out[i] = x[i * x_step + index[i] * x_stride] for lists, in bytes, checked as they are read: IndexError for
/// the first index that is out of range.
inline void read_list(const View& out, const View& x, int64_t x_step, const View& index, int dim, int64_t size,
                      int64_t x_stride, bool wraps) {
  const GatherLine line = {.out = bytes(out),
                           .x = bytes(x),
                           .index = bytes(index),
                           .n = out.layout.numel,
                           .size = size,
                           .out_step = out.layout.strides[0],
                           .x_step = x_step,
                           .x_stride = x_stride,
                           .index_step = index.layout.strides[0],
                           .wraps = wraps};
  if (!gather_list(line, out.layout.dtype, index.layout.dtype)) raise_first_invalid(index, dim, size, wraps);
}

}  // namespace weft::cpu
