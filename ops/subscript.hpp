// x[…] as functions: reading and writing by any mix of integers, slices, None, Ellipsis, bools, masks and tensors of
// indices, as PyTorch and NumPy do. In C++ write x[{0, Slice(1, none, 2), mask}]; these functions are for bindings and
// for code that has its indices in a container.
//
// Integers, slices, None, Ellipsis and 0-d integer tensors give a view, negative steps included. Masks and integer
// tensors (8 to 64 bits, negative ones counting from the end) of any rank, lists and bools select elements: reading
// copies. Masks become the coordinates where they hold; the shapes of all tensors of indices broadcast together, and
// their dimensions take the place of the first index, or come first where a slice or None separates the indices.
// Kernels read i32 and i64: indices of other types are converted to i64 first, 8 bytes each.
//
// IndexError: too many indices, one out of range, a mask that does not fit, indices that do not broadcast. DTypeError:
// an index that is neither integer nor bool. ValueError: a step of 0. ShapeError: more than 8 dimensions in the result.
// Everything is checked before anything is written.
#pragma once

#include <optional>
#include <span>

#include "../tensor/index.hpp"

namespace weft {

/// x[index]: a view or a copy, as above. Errors as above.
[[nodiscard]] WEFT_API Tensor getitem(const Tensor& x, std::span<const Index> index, Location where = {});

/// x[index] = value; returns x. The value is broadcast to the selection (leading sizes of 1 beyond its rank are
/// allowed) and cast to x's dtype: C++ numbers keep their exact value, floats lose their fraction in integers. A value
/// that shares memory with x is read before anything is written; where an element is selected twice, the last value
/// stays. ShapeError where the value does not broadcast, ValueError where an integer dtype does not hold a number, and
/// the errors of in-place writes in <weft/tensor/methods.hpp>.
WEFT_API const Tensor& setitem(const Tensor& x, std::span<const Index> index, const Operand& value,
                               Location where = {});

/// x[index], where an undefined tensor is a full slice. Errors as above.
[[nodiscard]] WEFT_API Tensor index(const Tensor& x, const IndexList& index);
[[nodiscard]] WEFT_API Tensor index(const Tensor& x, std::span<const std::optional<Tensor>> index, Location where = {});

/// A copy of x with x[index] = value, or with `accumulate` x[index] += value where every duplicate adds, in row-major
/// order of the indices; bools are combined by or. The gradient of x is that of the result, without `accumulate` 0
/// where something was written; each value gets the gradient at its position, unless a later one replaced it.
/// Errors as setitem.
[[nodiscard]] WEFT_API Tensor index_put(const Tensor& x, const IndexList& index, const Operand& value,
                                        bool accumulate = false);
[[nodiscard]] WEFT_API Tensor index_put(const Tensor& x, std::span<const std::optional<Tensor>> index,
                                        const Operand& value, bool accumulate = false, Location where = {});
/// In place; returns x. Errors as setitem.
WEFT_API const Tensor& index_put_(const Tensor& x, const IndexList& index, const Operand& value,
                                  bool accumulate = false);
WEFT_API const Tensor& index_put_(const Tensor& x, std::span<const std::optional<Tensor>> index, const Operand& value,
                                  bool accumulate = false, Location where = {});

/// A copy of x with `value` in the slices from starts to ends by steps (1 where empty) along `axes`; bounds as in
/// x[Slice(start, end, step)]. ValueError for lists of different length, an axis named twice or a step of 0, IndexError
/// for an axis that x lacks.
[[nodiscard]] WEFT_API Tensor set_value(const Tensor& x, const Operand& value, const Dims& starts, const Dims& ends,
                                        const Dims& steps, const Dims& axes, Location where = {});
/// The in-place form of set_value, with its errors. Returns x.
WEFT_API const Tensor& set_value_(const Tensor& x, const Operand& value, const Dims& starts, const Dims& ends,
                                  const Dims& steps, const Dims& axes, Location where = {});

/// A view of x from starts to ends along `axes`, bounds as in x[Slice(start, end)]; errors as set_value.
[[nodiscard]] WEFT_API Tensor slice(const Tensor& x, const Dims& axes, const Dims& starts, const Dims& ends,
                                    Location where = {});
/// The same with steps, negative ones included. Errors as set_value.
[[nodiscard]] WEFT_API Tensor strided_slice(const Tensor& x, const Dims& axes, const Dims& starts, const Dims& ends,
                                            const Dims& steps, Location where = {});

}  // namespace weft
