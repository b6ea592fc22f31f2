// Tables of positions in texts of different lengths, which dynamic_ntk alone reads. Not public.
#pragma once

#include <span>
#include <vector>

#include "../rotary.hpp"

namespace weft {

/// Of sequences with a cache, one after the other: counts[i] new positions behind the before[i] that were read. The
/// positions of a first reading are of a text that ends with it, later ones each end theirs, however many are read at
/// once.
std::vector<int64_t> rope_lengths(std::span<const int64_t> positions, std::span<const int64_t> counts,
                                  std::span<const int64_t> before);

/// rope_table of positions [n] in texts of `lengths`: [2, 1, n, 1, dim].
Tensor rope_table_of_lengths(const Tensor& positions, std::span<const int64_t> lengths, int64_t dim,
                             const RopeOptions& options, bool interleaved, DType dtype);

}  // namespace weft
