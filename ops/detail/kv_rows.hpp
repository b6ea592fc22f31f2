// Rows of keys and values in the tensors of a cache. Not public.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "../../tensor/tensor.hpp"

namespace weft::detail {

/// k [outer, inner, heads, depth] and v of its width, uninitialised; a negative width is the depth.
std::pair<Tensor, Tensor> make_cache(int64_t outer, int64_t inner, int64_t heads, int64_t depth, int64_t width,
                                     const TensorOptions& options);
/// ShapeError unless k and v have `rows` rows that fit the cache.
void check_rows(const Tensor& k, const Tensor& v, const Tensor& cache_k, const Tensor& cache_v, int64_t rows);
/// The sum of the counts, one for each sequence. ValueError for another number of them, and for a negative one.
int64_t checked_total(std::span<const int64_t> counts, size_t sequences);
/// Writes the new tokens to these rows of the cache, converted to its dtype.
void write_rows(const Tensor& cache_k, const Tensor& cache_v, const std::vector<int64_t>& rows, const Tensor& k,
                const Tensor& v);
[[noreturn]] void raise_no_sequence(int64_t sequence);

}  // namespace weft::detail
