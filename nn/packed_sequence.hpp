// Packed sequences of different lengths, for recurrent layers.
#pragma once

#include <tuple>
#include <vector>

#include "../ops/packed.hpp"

namespace weft::nn {

/// Sequences in decreasing order of length, stored step by step (ops/packed.hpp). `sorted_indices` maps sorted
/// positions to sequences, `unsorted_indices` is its inverse; both are undefined if the sequences were already sorted.
struct PackedSequence {
  Tensor data, batch_sizes, sorted_indices, unsorted_indices;

  auto tensors() { return std::tie(data, batch_sizes, sorted_indices, unsorted_indices); }
};

struct PackOptions {
  bool batch_first = false;
  /// Require sorted lengths. If false, sequences are stably sorted by length.
  bool enforce_sorted = true;
};
struct UnpackOptions {
  bool batch_first = false;
  double padding_value = 0;
  std::optional<int64_t> total_length = {};
};
/// The sequences in their original order, and their lengths (i64 on the CPU).
struct PaddedSequence {
  Tensor data, lengths;
};

/// x is [steps, batch, ...] or [batch, steps, ...], padded. Errors as weft::pack_padded_sequence.
WEFT_API PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths, const PackOptions& options = {},
                                             Location where = {});
WEFT_API PaddedSequence pad_packed_sequence(const PackedSequence& packed, const UnpackOptions& options = {},
                                            Location where = {});
/// Packs tensors [length, ...].
WEFT_API PackedSequence pack_sequence(std::span<const Tensor> sequences, bool enforce_sorted = true,
                                      Location where = {});
/// Returns the tensors [length, ...].
WEFT_API std::vector<Tensor> unpack_sequence(const PackedSequence& packed, Location where = {});

}  // namespace weft::nn
