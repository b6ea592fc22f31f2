// Helpers of the ops on tensors of indices. Not public.
#pragma once

#include "write.hpp"
#include "reducing.hpp"

namespace weft {

/// The index as kernels read it, i32 or i64. DTypeError unless it holds integers, DeviceError off the data's device.
Tensor checked_index(const Tensor& index, const Tensor& data);
/// DTypeError and DeviceError where `source` cannot be written into x as it is.
void check_source(const Tensor& x, const Tensor& source);
/// Indices that may count from the end as indices from the beginning; those out of range stay as they are.
Tensor from_beginning(const Tensor& index, int64_t size);
[[noreturn]] void raise_shapes(const std::string& problem, const std::string& remedy = {});

/// The value of a fill as a tensor of x's dtype and device, still 0-d; recorded. ShapeError where it is not 0-d.
Tensor fill_value(const Tensor& x, const Operand& value);

/// A copy of x to write into; not recorded.
Tensor target_copy(const Tensor& x);
/// Zeros of g's dtype and device.
Tensor zero_target(const Dims& shape, const Tensor& g);

inline int64_t size_along(const Tensor& t, int dim) { return t.dim() == 0 ? 1 : t.sizes()[static_cast<size_t>(dim)]; }

/// Whether the host may read indices now: those on the CPU, but in steps that are recorded.
bool reads_indices(const Tensor& index);
/// Which elements of a scatter's source survive at `index` along `dim` of `size`: the last of duplicates. bool,
/// broadcasts to index's shape; undefined without duplicates.
Tensor last_of_duplicates(int64_t size, int dim, const Tensor& index);

/// x[..., index[j], ...] for an index of rank 1 or 0 and a dimension that are checked. Recorded.
Tensor select_slices(const Tensor& x, int dim, const Tensor& index);

}  // namespace weft
