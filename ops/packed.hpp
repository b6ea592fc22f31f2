// Sequences of different lengths in one tensor: padded to the longest, or packed step by step, as recurrent layers read
// them.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "../tensor/index.hpp"

namespace weft {

/// data [rows of all steps, ...] has the first element of every sequence, then the second elements, and so on;
/// batch_sizes (i64 on the CPU) has the number of rows of each step.
struct PackedRows {
  Tensor data, batch_sizes;
};
/// Of x [steps, batch, ...], or [batch, steps, ...] with `batch_first`; lengths (integers) fall or stay, and are at
/// least 1. ValueError otherwise; ShapeError where their number is not the batch's.
WEFT_API PackedRows pack_padded_sequence(const Tensor& x, const Tensor& lengths, bool batch_first = false,
                                         Location where = {});
/// The inverse: x, with `padding_value` after the end of each sequence, and the lengths (i64 on the CPU). The result
/// has `total_length` steps, or the largest length. Raises ValueError if batch_sizes do not fit.
WEFT_API std::pair<Tensor, Tensor> pad_packed_sequence(const Tensor& data, const Tensor& batch_sizes,
                                                       bool batch_first = false, double padding_value = 0,
                                                       std::optional<int64_t> total_length = {}, Location where = {});
/// [longest, count, ...] of tensors [length, ...] that differ in length alone; padding_side is "right" or "left".
/// Raises ValueError for an empty list and another side, ShapeError if other sizes differ.
[[nodiscard]] WEFT_API Tensor pad_sequence(std::span<const Tensor> sequences, bool batch_first = false,
                                           double padding_value = 0, std::string_view padding_side = "right",
                                           Location where = {});

namespace detail {
/// batch_sizes as numbers that fall or stay, of at least one step, and add up to `rows`; else ValueError. DTypeError
/// unless i64, ShapeError for another rank.
std::vector<int64_t> rows_of_steps(const Tensor& batch_sizes, int64_t rows);
}  // namespace detail

}  // namespace weft
