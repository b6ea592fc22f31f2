// Joining tensors, and repeating one. Results are new contiguous tensors of the operands' common dtype. IndexError for
// a dimension that the result lacks, DeviceError where the operands' devices differ.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>

#include "../tensor/index.hpp"

namespace weft {

/// The tensors one after the other along dim. 1-d tensors without elements are passed over. ShapeError where another
/// size differs and for 0-d tensors, ValueError for no tensors at all.
[[nodiscard]] WEFT_API Tensor cat(std::span<const Tensor> tensors, int dim = 0, Location where = {});
/// Tensors of one shape (else ShapeError) side by side along a new dimension dim. ValueError for no tensors at all.
[[nodiscard]] WEFT_API Tensor stack(std::span<const Tensor> tensors, int dim = 0, Location where = {});

[[nodiscard]] WEFT_API Tensor cat(std::initializer_list<Tensor> tensors, int dim = 0, Location where = {});
[[nodiscard]] WEFT_API Tensor stack(std::initializer_list<Tensor> tensors, int dim = 0, Location where = {});
template <class = void>
Tensor cat(const Tensor&, const Tensor&, ...) = delete;  // tensors in braces: cat({a, b})
template <class = void>
Tensor stack(const Tensor&, const Tensor&, ...) = delete;  // tensors in braces: stack({a, b})

/// cat along dimension 1, or 0 for 1-d tensors; 0-d tensors count as [1]. Errors as cat.
[[nodiscard]] WEFT_API Tensor hstack(std::span<const Tensor> tensors, Location where = {});
[[nodiscard]] WEFT_API Tensor hstack(std::initializer_list<Tensor> tensors, Location where = {});
/// cat along dimension 0 after atleast_2d: 1-d tensors are rows. Errors as cat.
[[nodiscard]] WEFT_API Tensor vstack(std::span<const Tensor> tensors, Location where = {});
[[nodiscard]] WEFT_API Tensor vstack(std::initializer_list<Tensor> tensors, Location where = {});
[[nodiscard]] WEFT_API Tensor row_stack(std::span<const Tensor> tensors, Location where = {});
[[nodiscard]] WEFT_API Tensor row_stack(std::initializer_list<Tensor> tensors, Location where = {});
/// cat along dimension 2 after atleast_3d. Errors as cat.
[[nodiscard]] WEFT_API Tensor dstack(std::span<const Tensor> tensors, Location where = {});
[[nodiscard]] WEFT_API Tensor dstack(std::initializer_list<Tensor> tensors, Location where = {});
/// cat along dimension 1, where 1-d and 0-d tensors are columns. Errors as cat.
[[nodiscard]] WEFT_API Tensor column_stack(std::span<const Tensor> tensors, Location where = {});
[[nodiscard]] WEFT_API Tensor column_stack(std::initializer_list<Tensor> tensors, Location where = {});
/// Matrices along the diagonal of one that is 0 elsewhere; 1-d tensors are rows, 0-d ones [1, 1]. [1, 0] for no
/// tensors at all, ShapeError for one of more than two dimensions.
[[nodiscard]] WEFT_API Tensor block_diag(std::span<const Tensor> tensors, Location where = {});
[[nodiscard]] WEFT_API Tensor block_diag(std::initializer_list<Tensor> tensors, Location where = {});

/// x repeated repeats[i] times along dimension i. `repeats` may have more entries than x has dimensions (the new ones
/// come first); ShapeError for fewer. ValueError for a negative one.
[[nodiscard]] WEFT_API Tensor repeat(const Tensor& x, const Dims& repeats, Location where = {});
/// As repeat, with missing leading entries taken as 1. Raises ValueError for a negative entry.
[[nodiscard]] WEFT_API Tensor tile(const Tensor& x, const Dims& repeats, Location where = {});

/// Each slice along dim `repeats` times, one after the other; without a dim, each element of x flattened. ValueError
/// for a negative number, IndexError for a dim of a 0-d tensor.
[[nodiscard]] WEFT_API Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<int64_t> dim = {},
                                                Location where = {});
/// Slice i along dim repeats[i] times; `repeats` is 0-d or 1-d and has one number or one for each slice (else
/// ShapeError), of any integer type (else DTypeError). ValueError unless the numbers add up to `output_size`, where
/// that is given. The host waits for the numbers; on the meta device `output_size` must be given (NotImplementedError).
[[nodiscard]] WEFT_API Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim = {},
                                                std::optional<int64_t> output_size = {}, Location where = {});
/// 0 repeats[0] times, 1 repeats[1] times, … in the dtype of 1-d `repeats`, which is i32 or i64. Raises DTypeError for
/// other dtypes, ValueError for a negative entry.
[[nodiscard]] WEFT_API Tensor repeat_interleave(const Tensor& repeats, Location where = {});

}  // namespace weft
