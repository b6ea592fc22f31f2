// Tensors of indices, i32 or i64, negative ones counting from the end. Errors are raised on the thread that called the
// kernel: only there the op and its place are known.
#pragma once

#include <weft/backends/cpu/lines.hpp>
#include <weft/backends/index_plan.hpp>

namespace weft::cpu {

/// Calls body(I{}) with the type of the indices.
template <class F>
void with_index_type(const View& index, F&& body) {
  if (index.layout.dtype == DType::i64) body(int64_t{});
  else body(int32_t{});
}
template <class I>
int64_t index_at(const char* base, int64_t offset) {
  return *reinterpret_cast<const I*>(base + offset);
}

/// Brings an index into [0, size); false where it is not in [-size, size).
inline bool wraps_into(int64_t& index, int64_t size) {
  if (index < 0) index += size;
  return static_cast<uint64_t>(index) < static_cast<uint64_t>(size);
}

/// IndexError for the first index, in row-major order, that is not in [-size, size); returns where there is none.
void raise_first_invalid(const View& index, int dim, int64_t size);
/// The same for the indices of a plan, one after the other; DTypeError unless they are i32 or i64.
void check_plan(const char* kernel, const IndexPlan& plan);

}  // namespace weft::cpu
