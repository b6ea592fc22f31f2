// TensorImpl: the head of a tensor. Users hold it through Tensor; ops and the autograd engine use it directly.
#pragma once

#include <span>

#include "storage.hpp"
#include "view.hpp"

namespace weft {

struct Node;

/// Whether a head may get another storage. Unless it is fixed, each of its views is loose too and holds its own
/// reference to the storage that it was created from. A head in the block of its first storage then holds one more
/// reference to that storage, which keeps the block alive.
enum class Mobility : uint8_t {
  fixed,
  loose,
  movable  ///< by a module, too (nn::Module)
};

struct TensorImpl {
  explicit TensorImpl(Storage* storage_) : storage(storage_) {}
  TensorImpl(Storage* storage_, const Layout& layout, void* data) : view{data, layout}, storage(storage_) {}

  View view;
  RefCount refs;
  /// True for leaves that accumulate a gradient and for results recorded in the graph.
  bool requires_grad = false;
  /// A C++ number used as an operand: 0-d, and weak in type promotion.
  bool wrapped_number = false;
  /// `node` is the accumulation node of this leaf; it holds a weak pointer to the leaf.
  bool accumulates = false;
  /// Created under InferenceGuard: never recorded, and autograd does not track its views.
  bool inference = false;
  /// Head and first storage share one block; otherwise this is a view of another tensor's storage.
  bool owns_block = false;
  Mobility mobility = Mobility::fixed;
  /// Index of this tensor among the node's outputs.
  uint16_t output_number = 0;
  /// For views: the storage version for which `node` is valid.
  Atomic<uint32_t> node_version{0};
  Storage* storage = nullptr;
  /// The node that produced this tensor, or the leaf's accumulation node; counted reference.
  Node* node = nullptr;
  /// For views that autograd tracks: the base tensor, never itself a view; counted reference. Unless the view is
  /// loose, it holds no reference to the storage: the base does.
  TensorImpl* base = nullptr;
  /// The living object of another language for this tensor, which owns a reference to it: Python's `x.grad is x.grad`.
  /// Read and written under that language's lock.
  void* foreign = nullptr;
};

/// Data of up to this size is stored beside the head, without an allocator.
inline constexpr size_t inline_bytes = 64;

struct TensorBlock {
  TensorImpl impl;
  Storage storage;
  alignas(64) unsigned char inline_data[inline_bytes];
};

namespace detail {

/// Returns a new head with its own storage for `layout`, which must be contiguous, on the layout's device. Raises
/// OutOfMemoryError.
WEFT_API TensorImpl* new_tensor(const Layout& layout);
/// As above, for a contiguous layout of these sizes. Raises ShapeError in the same cases as contiguous_layout.
WEFT_API TensorImpl* new_tensor(std::span<const int64_t> sizes, DType dtype, Device device);
/// As above on the CPU, with memory from `allocator`.
TensorImpl* new_tensor(std::span<const int64_t> sizes, DType dtype, Allocator& allocator);
/// Returns a new head over the storage of `source`, with another layout and data address. Its autograd fields are
/// empty.
WEFT_API TensorImpl* new_alias(const TensorImpl* source, const Layout& layout, void* data);
/// As new_alias, for a view that autograd tracks. Views of inference tensors are not tracked.
WEFT_API TensorImpl* new_view(TensorImpl* source, const Layout& layout, void* data);
/// As above, with the address and layout of `source`; the caller sets sizes and strides.
WEFT_API TensorImpl* new_view(TensorImpl* source);
/// Puts the memory and layout of `source` under `impl`, in a storage of its own that borrows it: saved tensors over the
/// memory of `source` see no change of their version. Earlier views of `impl` keep the storage that they were created
/// from; a view is none any more. Autograd fields stay.
WEFT_API void put_memory(TensorImpl* impl, const TensorImpl* source);
/// The storage that owns the memory: another one after put_memory.
WEFT_API const Storage& owning_storage(const Storage& storage);
/// Exchanges storage, address and layout of two heads that are no views.
WEFT_API void exchange_memory(TensorImpl* a, TensorImpl* b);
/// The name of the recorded op that produced this result. Defined in autograd/.
WEFT_API const char* producing_op(const TensorImpl* result);
/// Releases the node of a tensor that is being destroyed. Defined in autograd/.
void release_node(TensorImpl* impl);
/// Number of live heads, for leak tests.
WEFT_API int64_t live_tensors();

inline void retain(TensorImpl* impl) { impl->refs.increment(); }
/// Drops a reference; the last one destroys the tensor.
WEFT_API void release(TensorImpl* impl);

}  // namespace detail
}  // namespace weft
