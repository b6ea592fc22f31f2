// Arithmetic on layouts: sizes, strides, contiguity, broadcasting. No tensors, no memory.
#pragma once

#include <optional>
#include <span>

#include "dims.hpp"
#include "dtype.hpp"
#include "view.hpp"

namespace weft {

namespace detail {
[[noreturn]] WEFT_API void raise_no_dim(int64_t dim, int rank);
}

/// A contiguous layout. Raises ShapeError for a negative size, and if the elements or bytes exceed 2^63 - 1.
WEFT_API Layout contiguous_layout(std::span<const int64_t> sizes, DType dtype);
/// Sets the sizes of a contiguous layout with elements of `item` bytes. Returns false where contiguous_layout would
/// raise.
WEFT_API bool set_contiguous(Layout& layout, std::span<const int64_t> sizes, int64_t item);
/// Sets `numel` and `contiguous` from sizes and strides.
WEFT_API void finish_layout(Layout& layout);
inline bool same_sizes(const Layout& a, const Layout& b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.sizes[i] != b.sizes[i]) return false;
  }
  return true;
}
inline std::span<const int64_t> sizes_of(const Layout& layout) { return {layout.sizes, layout.rank}; }

/// The broadcast shape by NumPy's rules, or nothing if the shapes are incompatible.
WEFT_API std::optional<Dims> broadcast(std::span<const int64_t> a, std::span<const int64_t> b);
/// Broadcasts `other` into `shape`. Returns false, and leaves `shape` unspecified, if the shapes are incompatible.
WEFT_API bool broadcast_in_place(Dims& shape, std::span<const int64_t> other);
/// `view` expanded to `sizes`, with stride 0 in repeated dimensions. The sizes must be compatible.
WEFT_API View broadcast_view(const View& view, std::span<const int64_t> sizes);
/// As above, stored in `out`.
WEFT_API void broadcast_view(View& out, const View& view, std::span<const int64_t> sizes);
/// A view for kernels that work along a dimension: a 0-d view becomes [1], others are unchanged.
class AtLeast1d {
 public:
  explicit AtLeast1d(const View& view) : view_(view.layout.rank == 0 ? changed_ : view) {
    if (WEFT_LIKELY(view.layout.rank != 0)) return;
    changed_ = view;
    changed_.layout.rank = 1;
    changed_.layout.sizes[0] = 1;
    changed_.layout.strides[0] = itemsize(view.layout.dtype);
  }
  AtLeast1d(const AtLeast1d&) = delete;
  operator const View&() const { return view_; }

 private:
  View changed_;
  const View& view_;
};
inline AtLeast1d at_least_1d(const View& view) { return AtLeast1d(view); }
/// Converts a dimension that may count from the end to [0, rank). Rank 0 counts as 1. Raises IndexError if it is out of
/// range.
inline int wrap_dim(int64_t dim, int rank) {
  const int range = rank == 0 ? 1 : rank;
  if (WEFT_UNLIKELY(dim < -range || dim >= range)) detail::raise_no_dim(dim, rank);
  return static_cast<int>(dim < 0 ? dim + range : dim);
}
/// Strides (in bytes) for viewing `layout` with `sizes`, or nothing if that needs a copy.
WEFT_API std::optional<Dims> view_strides(const Layout& layout, std::span<const int64_t> sizes);
/// Byte offsets of all elements, relative to the first: [low, high). {0, 0} for an empty layout.
struct ByteSpan {
  int64_t low, high;
};
WEFT_API ByteSpan byte_span(const Layout& layout);

/// View of the real (0) or imaginary (1) parts of a complex view.
View part_view(const View& complex, int part);

}  // namespace weft
