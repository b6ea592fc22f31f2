// Joining tensors, and repeating one. Results are new contiguous tensors of the operands' common dtype.
#pragma once

#include <initializer_list>
#include <span>

#include "../tensor/index.hpp"

namespace weft {

/// The tensors one after the other along dim; all other sizes must be equal (ShapeError). 1-d tensors without elements
/// are passed over. ValueError for no tensors at all.
WEFT_API Tensor cat(std::span<const Tensor> tensors, int dim = 0, Location where = {});
/// Tensors of one shape side by side along a new dimension.
WEFT_API Tensor stack(std::span<const Tensor> tensors, int dim = 0, Location where = {});

WEFT_API Tensor cat(std::initializer_list<Tensor> tensors, int dim = 0, Location where = {});
WEFT_API Tensor stack(std::initializer_list<Tensor> tensors, int dim = 0, Location where = {});

/// x laid side by side repeats[i] times along dimension i. `repeats` may name more dimensions than x has (they come
/// first), not fewer.
WEFT_API Tensor repeat(const Tensor& x, const Dims& repeats, Location where = {});
/// As repeat, where missing leading repeats are 1.
WEFT_API Tensor tile(const Tensor& x, const Dims& repeats, Location where = {});

}  // namespace weft
