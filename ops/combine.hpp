// Elements of 1-d tensors in every combination. ShapeError for tensors of another rank.
#pragma once

#include <initializer_list>
#include <span>

#include "../tensor/index.hpp"

namespace weft {

/// Every choice of one element of each tensor: [product of the sizes, number of tensors], where the last tensor varies
/// fastest; one tensor alone as it is. ValueError for no tensors, DTypeError and DeviceError where they differ.
[[nodiscard]] WEFT_API Tensor cartesian_prod(std::span<const Tensor> tensors, Location where = {});
[[nodiscard]] WEFT_API Tensor cartesian_prod(std::initializer_list<Tensor> tensors, Location where = {});

/// Every choice of r elements of x in their order, `with_replacement` repeated ones too: [count, r], or [0] for r = 0.
/// ValueError for a negative r, ShapeError for more choices than 63 bits can count.
[[nodiscard]] WEFT_API Tensor combinations(const Tensor& x, int64_t r = 2, bool with_replacement = false,
                                           Location where = {});

/// Powers of the elements of x, one row each: x^(count - 1) … x^0, or x^0 … x^(count - 1) if `increasing`; `count` is
/// the number of elements unless given (ValueError where it is negative). Integers and bool become i64.
[[nodiscard]] WEFT_API Tensor vander(const Tensor& x, std::optional<int64_t> count = {}, bool increasing = false,
                                     Location where = {});

}  // namespace weft
