// Loops over lines of indices, for each SIMD target.
#pragma once

#include <cstdint>

#include "../../../tensor/view.hpp"

namespace weft::cpu {

/// Whether n indices, `step` bytes apart, are all in [0, size), or with `wraps` in [-size, size).
bool all_in_range(const char* index, DType type, int64_t step, int64_t n, int64_t size, bool wraps);

/// offset[i] = (or +=, with `more`) wrapped index i times `stride`; the indices are valid.
void index_offsets(int64_t* offset, const char* index, DType type, int64_t step, int64_t n, int64_t size,
                   int64_t stride, bool more);

/// Offsets of indices that are not checked yet; false where one is out of range.
bool checked_offsets(int64_t* offset, const char* index, DType type, int64_t step, int64_t n, int64_t size,
                     int64_t stride, bool wraps);

/// A line of elements to read: out[i] = x[i * x_step + wrapped index i * x_stride], all in bytes.
struct GatherLine {
  char* out;
  const char *x, *index;
  int64_t n, size, out_step, x_step, x_stride, index_step;
  bool wraps;  ///< whether negative indices count from the end
};
/// False where an index is out of range; nothing is read by that one.
using GatherLoop = bool (*)(const GatherLine&);
GatherLoop gather_loop(DType element, DType index);
/// For a single line, which is shared between threads.
bool gather_list(const GatherLine& line, DType element, DType index);

}  // namespace weft::cpu
