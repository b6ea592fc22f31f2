// The indices of x[…], parsed for a tensor of one shape. Not public.
//
// Indices are checked and parsed once, to a `Region` (integers, slices, new axes), a `Selection` (a region with
// index tensors) or a `MaskSelection`.
#pragma once

#include "../../autograd/node.hpp"
#include "../../backends/dispatch.hpp"
#include "../../tensor/index.hpp"

namespace weft {

/// The part that integers, slices and new axes select, in terms of dimensions: it applies to any strides.
struct Region {
  Dims whole;               ///< shape of the tensor that it is a part of
  int8_t rank = 0;          ///< axes of the part
  int8_t source[max_rank];  ///< the dimension behind each axis, -1 for a new one
  int64_t sizes[max_rank];  ///< of the axes
  int64_t first[max_rank];  ///< of each dimension: where the part begins
  int64_t step[max_rank];   ///< of each dimension with an axis
};

/// The rest of x[…], advanced indexing: tensors of indices that replace dimensions of a region by axes of their own.
struct AdvancedIndices {
  uint8_t count = 0;         ///< tensors of indices
  uint8_t at = 0;            ///< axes of the region before the picked ones
  bool distinct = false;     ///< known to select no element twice
  uint8_t dim[max_rank];     ///< first dimension that each replaces
  uint8_t span[max_rank];    ///< how many dimensions it replaces, merged in row-major order
  int64_t extent[max_rank];  ///< elements of those dimensions together
  Dims joined;               ///< the picked axes: the indices' shapes broadcast together
};

struct Selection {
  Region region;
  AdvancedIndices advanced;
  Tensor index[max_rank];  ///< i32 or i64, on the device of the tensor

  Dims shape() const;
};

/// Every element where a mask of the tensor's own shape holds.
struct MaskSelection {
  Tensor mask;
  int64_t count = 0;

  Dims shape() const { return Dims(count); }
};

inline Dims shape_of(const Region& region) {
  return Dims(std::span<const int64_t>(region.sizes, static_cast<size_t>(region.rank)));
}

/// The part of `whole`, which has the shape that the region was made for.
View region_view(const View& whole, const Region& region);

/// start, start + step, … within n elements by Python's rules.
struct SliceRange {
  int64_t first, count, step;
};
SliceRange slice_range(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step, int64_t n);

/// True where the indices make a view: no list, bool or tensor other than 0-d integers.
bool is_basic(std::span<const Index> items);
/// The mask, on x's device, where it is the only index and has 1 to x.dim() dimensions; its shape is checked.
Tensor only_mask(const Tensor& x, std::span<const Index> items);
/// IndexError where the indices do not fit x, DTypeError for indices of a wrong type, ValueError for a step of 0.
void parse(Region& out, const Tensor& x, std::span<const Index> items);
void parse(Selection& out, const Tensor& x, std::span<const Index> items);

/// The index where it is the only one and kernels take it as it is: integers along the first dimension, not empty. Else
/// null.
const Tensor* single_index_list(const Tensor& x, std::span<const Index> items);

/// A missing tensor is a full slice.
std::vector<Index> as_indices(std::span<const std::optional<Tensor>> list);
/// Slices along some axes, as set_value and strided_slice name them.
Region slices_region(const Tensor& x, const Dims& axes, const Dims& starts, const Dims& ends, const Dims& steps);

/// Where, along the picked axes, a value stays that is written there: of the positions of one element the last. bool.
Tensor last_positions(const Selection& selection);

/// For selections without elements, where no kernel reads the indices: IndexError for the first that is out of range.
void check_indices(const Selection& selection);

/// The stride of `span` dimensions merged into one in row-major order; nothing where their strides do not allow it.
std::optional<int64_t> merged_stride(const Layout& layout, int dim, int span);
/// A selection of `whole` as kernels take it: elements at base plus the indices' offsets. Dimensions that one index
/// spans must be mergeable (merged_stride).
void make_plan(IndexPlan& plan, View& base, const View& whole, const Selection& selection);

}  // namespace weft
