// Joining tensors, and repeating one. Results are new contiguous tensors of the operands' common dtype. IndexError for
// a dimension that the result lacks, DeviceError where the operands' devices differ.
#pragma once

#include <initializer_list>
#include <span>

#include "../tensor/index.hpp"

namespace weft {

/// The tensors one after the other along dim. 1-d tensors without elements are passed over. ShapeError where another
/// size differs and for 0-d tensors, ValueError for no tensors at all.
WEFT_API Tensor cat(std::span<const Tensor> tensors, int dim = 0, Location where = {});
/// Tensors of one shape (else ShapeError) side by side along a new dimension dim. ValueError for no tensors at all.
WEFT_API Tensor stack(std::span<const Tensor> tensors, int dim = 0, Location where = {});

WEFT_API Tensor cat(std::initializer_list<Tensor> tensors, int dim = 0, Location where = {});
WEFT_API Tensor stack(std::initializer_list<Tensor> tensors, int dim = 0, Location where = {});

/// x repeated repeats[i] times along dimension i. `repeats` may have more entries than x has dimensions (the new ones
/// come first); ShapeError for fewer. ValueError for a negative one.
WEFT_API Tensor repeat(const Tensor& x, const Dims& repeats, Location where = {});
/// As repeat, with missing leading entries taken as 1.
WEFT_API Tensor tile(const Tensor& x, const Dims& repeats, Location where = {});

}  // namespace weft
