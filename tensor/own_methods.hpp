// Methods of Tensor and x[…] that no free function has: Tensor defines them in ops/. methods.hpp includes this file.
// The methods of x[…] are made from these declarations, as for those of methods.hpp.
#if !defined(WEFT_WRITES)
#include "tensor.hpp"
#else

// ---- views: same dtype and device; storage and version counter are shared. Negative dimensions count from the end.
// IndexError for a dimension that x does not have, ShapeError if the result would have more than 8 dimensions ----
/// The elements in row-major order with another shape. One size may be -1: it is inferred. Raises ShapeError if the
/// element count differs, or if the strides require a copy.
[[nodiscard]] Tensor view(const Dims& shape, Location where = {}) const;
/// The same bytes as elements of another dtype, not recorded; PyTorch's view(dtype). If the element size differs, the
/// last dimension grows or shrinks. Raises ShapeError if that dimension is not contiguous or its size is not divisible,
/// if another stride is not divisible, or if x is 0-d.
[[nodiscard]] Tensor view_bytes(DType dtype, Location where = {}) const;
/// As view, but returns a contiguous copy if the strides do not allow a view.
[[nodiscard]] Tensor reshape(const Dims& shape, Location where = {}) const;
/// Swaps two dimensions.
[[nodiscard]] Tensor transpose(int dim0, int dim1, Location where = {}) const;
/// Transpose: [m, n] -> [n, m]. Returns a tensor of rank 0 or 1 unchanged. Raises ShapeError above rank 2.
[[nodiscard]] Tensor t(Location where = {}) const;
/// Dimension i of the result is x's dimension dims[i]. Raises ShapeError unless `dims` contains each dimension once.
[[nodiscard]] Tensor permute(const Dims& dims, Location where = {}) const;
/// Elements start, start + step, … before stop along dim, with Python's rules for bounds (see Slice); the step may be
/// negative. Raises ValueError for a step of 0, IndexError for a 0-d tensor.
[[nodiscard]] Tensor slice(int dim, std::optional<int64_t> start = {}, std::optional<int64_t> stop = {},
                           int64_t step = 1, Location where = {}) const;
/// `length` elements along dim, beginning at `start`; a negative start counts from the end. Raises IndexError unless
/// all of them exist.
[[nodiscard]] Tensor narrow(int dim, int64_t start, int64_t length, Location where = {}) const;
/// As above, with a one-element integer tensor as start; the host waits for its value. Raises DTypeError for another
/// dtype, ValueError for another number of elements.
[[nodiscard]] Tensor narrow(int dim, const Tensor& start, int64_t length, Location where = {}) const;
/// Element `index` along dim, with that dimension removed; a negative index counts from the end. Raises IndexError if
/// it is out of range, and for a 0-d tensor.
[[nodiscard]] Tensor select(int dim, int64_t index, Location where = {}) const;
/// Inserts a dimension of size 1 before dimension dim, in [-rank - 1, rank].
[[nodiscard]] Tensor unsqueeze(int dim, Location where = {}) const;
/// Removes all dimensions of size 1, or only dim, which stays if its size is not 1.
[[nodiscard]] Tensor squeeze(Location where = {}) const;
[[nodiscard]] Tensor squeeze(int dim, Location where = {}) const;
/// Repeats dimensions of size 1 with stride 0 and adds leading dimensions to match `shape`; -1 keeps a size. Raises
/// ShapeError if any other size would change. Writing to repeated elements raises ValueError.
[[nodiscard]] Tensor expand(const Dims& shape, Location where = {}) const;
/// The diagonal of dim0 and dim1, elements (i, i + offset), as the last dimension in place of those two. Empty if the
/// offset is outside of the matrix. Raises ShapeError if dim0 and dim1 are the same.
[[nodiscard]] Tensor diagonal(int64_t offset = 0, int dim0 = 0, int dim1 = 1, Location where = {}) const;
/// Merges dimensions start_dim to end_dim, both included; [1] for a 0-d tensor. Returns a contiguous copy if the
/// strides do not allow a view. Raises ValueError if end_dim is before start_dim.
[[nodiscard]] Tensor flatten(int start_dim = 0, int end_dim = -1, Location where = {}) const;
/// The storage with any shape, strides and offset, in elements; the default offset is that of x. Raises ShapeError if
/// an element is outside of the storage, or if the number of strides differs from that of sizes.
[[nodiscard]] Tensor as_strided(const Dims& shape, const Dims& strides, std::optional<int64_t> storage_offset = {},
                                Location where = {}) const;
/// Consecutive pieces of `size` elements along dim. The last one is smaller if the size does not divide the dimension;
/// an empty dimension gives one empty piece. Raises ValueError unless size > 0, and for a 0-d tensor. This and the next
/// two raise ShapeError for more than 2^24 pieces, AutogradError for more than 65535 recorded pieces.
[[nodiscard]] std::vector<Tensor> split(int64_t size, int dim = 0, Location where = {}) const;
/// Splits into pieces of ceil(size(dim) / chunks) elements, so at most `chunks` pieces. Raises ValueError unless chunks
/// > 0, and for a 0-d tensor.
[[nodiscard]] std::vector<Tensor> chunk(int64_t chunks, int dim = 0, Location where = {}) const;
/// select(dim, i) for every i. Raises ShapeError for a 0-d tensor.
[[nodiscard]] std::vector<Tensor> unbind(int dim = 0, Location where = {}) const;
/// The same elements outside of the graph: no gradient flows through the result.
[[nodiscard]] Tensor detach(Location where = {}) const;

// ---- copies: new contiguous tensors, recorded ----
[[nodiscard]] Tensor clone(Location where = {}) const;
/// Returns x itself if it is contiguous.
[[nodiscard]] Tensor contiguous(Location where = {}) const;
/// Converts to another dtype or device; returns x itself if nothing changes. Conversions to floating point round to
/// nearest even, conversions to integers truncate. Gradients flow between floating-point dtypes. Raises DeviceError if
/// the device does not exist, and for a copy from meta.
[[nodiscard]] Tensor to(DType dtype, Location where = {}) const;
[[nodiscard]] Tensor to(Device device, Location where = {}) const;
[[nodiscard]] Tensor to(Device device, DType dtype, Location where = {}) const;
/// As `to(device)`. With .non_blocking, and pinned memory on the CPU's side, the copy is only queued on the current
/// streams of both devices. A CPU source must not change until the device has read it. A CPU result is pinned and valid
/// after `synchronize` or an event.
[[nodiscard]] Tensor to(Device device, CopyOptions options, Location where = {}) const;
/// A copy in pinned CPU memory, which devices of one type access directly: the type of `device`, or the first type that
/// has a device. Returns x itself if it is already pinned. Raises DeviceError if the device does not exist.
[[nodiscard]] Tensor pin_memory(std::optional<Device> device = {}, Location where = {}) const;
/// Whether x is pinned for the type of `device`, or for any type if none is given.
bool is_pinned(std::optional<Device> device = {}, Location where = {}) const;

#endif
