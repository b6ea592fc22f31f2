#include "layout.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "checked.hpp"
#include "error.hpp"

namespace weft {

void Dims::raise_too_many(Location where) {
  raise<ShapeError>({.op = "shape", .problem = fmt::format("a tensor has at most {} dimensions", max_rank)},
                    detail::place_of(where));
}

std::string Dims::text() const { return fmt::format("[{}]", fmt::join(begin(), end(), ", ")); }

bool set_contiguous(Layout& layout, std::span<const int64_t> sizes, int64_t item) {
  Checked stride = item;
  uint64_t numel = 1;
  bool negative = false;
  layout.rank = static_cast<uint8_t>(sizes.size());
  for (int i = layout.rank - 1; i >= 0; --i) {
    const int64_t n = sizes[static_cast<size_t>(i)];
    layout.sizes[i] = n;
    layout.strides[i] = stride.value();
    numel *= static_cast<uint64_t>(n);
    negative |= n < 0;
    stride *= n == 0 ? 1 : n;
  }
  layout.numel = static_cast<int64_t>(numel);
  return !negative && stride.fits();
}

Layout contiguous_layout(std::span<const int64_t> sizes, DType dtype) {
  Layout layout;
  layout.dtype = dtype;
  if (WEFT_LIKELY(set_contiguous(layout, sizes, itemsize(dtype)))) return layout;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] >= 0) continue;
    raise<ShapeError>({.problem = fmt::format("size {} of dimension {} is negative", sizes[i], i)});
  }
  raise<ShapeError>({.problem = fmt::format("shape {} has more bytes than 63 bits can count", Dims(sizes).text())});
}

Layout strided_layout(std::span<const int64_t> sizes, std::span<const int64_t> strides, DType dtype) {
  if (sizes.size() != strides.size()) {
    raise<ShapeError>({.problem = fmt::format("{} strides for {} dimensions", strides.size(), sizes.size())});
  }
  Layout layout = contiguous_layout(sizes, dtype);
  if (layout.numel == 0) return layout;
  // The largest offset or stride of a view is one step along each dimension beyond the last element.
  Checked reach = 0;
  for (int i = 0; i < layout.rank; ++i) {
    const Checked stride = Checked(strides[static_cast<size_t>(i)]) * itemsize(dtype);
    layout.strides[i] = stride.value();
    const Checked backward = Checked(0) - stride;
    reach += Checked(layout.sizes[i]) * (stride.value() < 0 ? backward : stride);
  }
  if (!reach.fits()) {
    raise<ShapeError>({.problem = fmt::format("strides {} of shape {} reach further than 63 bits can count bytes",
                                              Dims(strides).text(), Dims(sizes).text())});
  }
  finish_layout(layout);
  return layout;
}

void finish_layout(Layout& layout) {
  // Unsigned arithmetic: sizes may overflow here before the layout is rejected as too large.
  uint64_t numel = 1;
  uint64_t expected = static_cast<uint64_t>(itemsize(layout.dtype));
  bool contiguous = true;
  for (int i = layout.rank - 1; i >= 0; --i) {
    const auto size = static_cast<uint64_t>(layout.sizes[i]);
    numel *= size;
    if (size == 1) continue;
    contiguous &= static_cast<uint64_t>(layout.strides[i]) == expected;
    expected *= size;
  }
  layout.numel = static_cast<int64_t>(numel);
  layout.contiguous = contiguous || numel == 0;
}

bool broadcast_in_place(Dims& shape, std::span<const int64_t> other) {
  if (static_cast<size_t>(shape.size()) < other.size()) {
    const Dims shorter = shape;
    shape = Dims(other);
    return broadcast_in_place(shape, shorter);
  }
  int64_t* last = shape.data() + shape.size() - other.size();
  for (const int64_t n : other) {
    int64_t& own = *last++;
    if (own == n || n == 1) continue;
    if (own != 1) return false;
    own = n;
  }
  return true;
}

std::optional<Dims> broadcast(std::span<const int64_t> a, std::span<const int64_t> b) {
  std::optional<Dims> out(a);
  if (!broadcast_in_place(*out, b)) out.reset();
  return out;
}

void broadcast_view(View& out, const View& view, std::span<const int64_t> sizes) {
  const Layout& from = view.layout;
  if (std::ranges::equal(sizes_of(from), sizes)) {
    out = view;
    return;
  }
  Layout& to = out.layout;
  out.data = view.data;
  to.dtype = from.dtype;
  to.device_type = from.device_type;
  to.device_index = from.device_index;
  to.host_scalar = from.host_scalar;
  to.rank = static_cast<uint8_t>(sizes.size());
  const int shift = to.rank - from.rank;
  for (int i = 0; i < to.rank; ++i) {
    to.sizes[i] = sizes[static_cast<size_t>(i)];
    const bool own = i >= shift && from.sizes[i - shift] == to.sizes[i];
    to.strides[i] = own ? from.strides[i - shift] : 0;
  }
  finish_layout(to);
}

View broadcast_view(const View& view, std::span<const int64_t> sizes) {
  View out;
  broadcast_view(out, view, sizes);
  return out;
}

void detail::raise_no_dim(int64_t dim, int rank) {
  const int range = rank == 0 ? 1 : rank;
  raise<IndexError>({.problem = fmt::format("dimension {} is out of range for a tensor of rank {}", dim, rank),
                     .remedy = fmt::format("use dimensions from {} to {}", -range, range - 1)});
}

std::optional<Dims> view_strides(const Layout& layout, std::span<const int64_t> sizes) {
  const int rank = static_cast<int>(sizes.size());
  Dims strides = Dims::filled(rank, itemsize(layout.dtype));
  if (layout.contiguous || layout.numel <= 1) {
    int64_t step = itemsize(layout.dtype);
    for (int i = rank - 1; i >= 0; --i) {
      strides[i] = step;
      // Only a shape without elements can be that large, and then any stride is valid.
      if (__builtin_mul_overflow(step, std::max<int64_t>(sizes[i], 1), &step)) step = itemsize(layout.dtype);
    }
    return strides;
  }
  // Walks both shapes from the end, in chunks of old dimensions that are contiguous with each other.
  int next = rank - 1;
  int64_t chunk_stride = layout.strides[layout.rank - 1];
  int64_t old_count = 1;
  int64_t new_count = 1;
  for (int i = layout.rank - 1; i >= 0; --i) {
    old_count *= layout.sizes[i];
    // A meta tensor may be larger than any memory: an overflow ends the chunk.
    int64_t next_stride = 0;
    const bool is_beyond = __builtin_mul_overflow(old_count, chunk_stride, &next_stride);
    const bool continues = !is_beyond && i > 0 && layout.strides[i - 1] == next_stride;
    const bool chunk_ends = i == 0 || (layout.sizes[i - 1] != 1 && !continues);
    if (!chunk_ends) continue;
    while (next >= 0 && (new_count < old_count || sizes[next] == 1)) {
      if (__builtin_mul_overflow(new_count, chunk_stride, &strides[next])) return {};
      if (__builtin_mul_overflow(new_count, sizes[next], &new_count)) return {};
      --next;
    }
    if (new_count != old_count) return {};
    if (i > 0) {
      chunk_stride = layout.strides[i - 1];
      old_count = 1;
      new_count = 1;
    }
  }
  if (next >= 0) return {};
  return strides;
}

ByteSpan byte_span(const Layout& layout) {
  if (layout.numel == 0) return {0, 0};
  ByteSpan span{0, itemsize(layout.dtype)};
  for (int i = 0; i < layout.rank; ++i) {
    const int64_t reach = (layout.sizes[i] - 1) * layout.strides[i];
    (reach < 0 ? span.low : span.high) += reach;
  }
  return span;
}

View part_view(const View& complex, int part) {
  View out = complex;
  const int64_t bytes = itemsize(complex.layout.dtype) / 2;
  out.data = static_cast<char*>(complex.data) + part * bytes;
  out.layout.dtype = real_type(complex.layout.dtype);
  finish_layout(out.layout);
  return out;
}

}  // namespace weft
