// Tokens and the rows that copies of them have among those of all experts. Not public.
#pragma once

#include <exception>
#include <vector>

#include "../../tensor/tensor.hpp"

namespace weft {

using Sizes = std::vector<int64_t>;

/// Which token each row is of, and which rows each token has.
struct TokenRows {
  int64_t tokens = 0, rows = 0;
  Tensor token_of_row;   ///< [rows], i64; any token in a gap
  Tensor rows_of_token;  ///< [tokens, n], i64: in the order in which they are added; `rows` where there is none
  struct Gap {
    int64_t begin, size;
  };
  std::vector<Gap> gaps;  ///< rows of no token
};

/// From the rows of each token, [tokens, n] with -1 for none, of which no two are equal.
TokenRows token_rows(const Sizes& rows_of_token, int64_t tokens, int64_t rows, Device device);
/// The same with indices that have no values.
TokenRows token_rows_on_meta(int64_t tokens, int64_t n, int64_t rows);

/// [rows, width] of x [tokens, width], any dtype: each token's elements in its rows, 0 in gaps. Recorded, to any order.
Tensor to_rows(const Tensor& x, const TokenRows& map);
/// [tokens, width] of y [rows, width], floating: sums of each token's rows, in f32 or f64 or, with `rounds_each`, in
/// y's dtype. Recorded, to any order.
Tensor to_tokens(const Tensor& y, const TokenRows& map, bool rounds_each = false);

/// n times `value`. OutOfMemoryError.
template <class T>
std::vector<T> table(int64_t n, T value) {
  try {
    return std::vector<T>(static_cast<size_t>(n), value);
  } catch (const std::exception&) {
    detail::raise_no_room(n, sizeof(T));
  }
}
/// Integers of any dtype, read on the host.
Sizes integers_of(const Tensor& t);

}  // namespace weft
