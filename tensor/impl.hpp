// TensorImpl: the head of a tensor. Users hold it through Tensor; ops and the engine look inside.
#pragma once

#include <span>

#include "storage.hpp"
#include "view.hpp"

namespace weft {

struct Node;

struct TensorImpl {
  explicit TensorImpl(Storage* storage_) : storage(storage_) {}
  TensorImpl(Storage* storage_, const Layout& layout, void* data) : view{data, layout}, storage(storage_) {}

  View view;
  RefCount refs;
  /// True for leaves that collect a gradient and for results recorded in the graph.
  bool requires_grad = false;
  /// A C++ number used as an operand: 0-d, and weak in type promotion.
  bool wrapped_number = false;
  /// `node` is the accumulation node of this leaf, which points back weakly.
  bool accumulates = false;
  /// Made under InferenceGuard: never recorded, and its views are not followed.
  bool inference = false;
  /// Head and storage share one block; otherwise this is a view of another tensor's storage.
  bool owns_block = false;
  /// The memory under this head may be replaced (nn::Module). Its views have the flag too: each holds a reference of
  /// its own to the storage it was made over.
  bool movable = false;
  /// Which of the node's outputs this tensor is.
  uint16_t output_number = 0;
  /// For views: the storage version that `node` belongs to.
  Atomic<uint32_t> node_version{0};
  Storage* storage = nullptr;
  /// The producer of this value, or the leaf's accumulation node; counted.
  Node* node = nullptr;
  /// For views that autograd follows: the tensor they look into, never itself a view; counted. Unless it is movable,
  /// the view holds no reference to the storage: the base does.
  TensorImpl* base = nullptr;
};

/// Bytes that fit beside the head and need no allocator.
inline constexpr size_t inline_bytes = 64;

struct TensorBlock {
  TensorImpl impl;
  Storage storage;
  alignas(64) unsigned char inline_data[inline_bytes];
};

namespace detail {

/// A new head with its own storage for `layout`, whose strides are contiguous, on its device. OutOfMemoryError.
WEFT_API TensorImpl* new_tensor(const Layout& layout);
/// As above for a contiguous layout of these sizes. ShapeError as contiguous_layout.
WEFT_API TensorImpl* new_tensor(std::span<const int64_t> sizes, DType dtype, Device device);
/// As above on the CPU, in memory of `allocator`.
TensorImpl* new_tensor(std::span<const int64_t> sizes, DType dtype, Allocator& allocator);
/// A new head over the storage of `source` with another layout and data address. Autograd fields stay empty.
WEFT_API TensorImpl* new_alias(const TensorImpl* source, const Layout& layout, void* data);
/// As new_alias, for a view that autograd follows; a view of an inference tensor is not followed.
WEFT_API TensorImpl* new_view(TensorImpl* source, const Layout& layout, void* data);
/// The same at the address of `source`, with its layout except the sizes and strides, which the caller sets.
WEFT_API TensorImpl* new_view(TensorImpl* source);
/// Drops the counted node of a dying tensor. Defined in autograd/.
void release_node(TensorImpl* impl);
/// Live heads, for leak tests.
WEFT_API int64_t live_tensors();

inline void retain(TensorImpl* impl) { impl->refs.increment(); }
/// Drops a reference; the tensor goes with the last.
WEFT_API void release(TensorImpl* impl);

}  // namespace detail
}  // namespace weft
