// Sequences of different lengths, packed for recurrent layers.
#pragma once

#include <tuple>
#include <vector>

#include "../ops/packed.hpp"

namespace weft::nn {

/// The rows of sequences in falling order of length, step after step (ops/packed.hpp). `sorted_indices` says which
/// sequence stands where, `unsorted_indices` where each stands; both are undefined where they were in order.
struct PackedSequence {
  Tensor data, batch_sizes, sorted_indices, unsorted_indices;

  auto tensors() { return std::tie(data, batch_sizes, sorted_indices, unsorted_indices); }
};

struct PackOptions {
  bool batch_first = false;
  /// Lengths must not rise; without it the sequences are sorted by length, stably.
  bool enforce_sorted = true;
};
struct UnpackOptions {
  bool batch_first = false;
  double padding_value = 0;
  std::optional<int64_t> total_length = {};
};
/// The sequences in the order that they had before they were packed, and their lengths (i64 on the CPU).
struct PaddedSequence {
  Tensor data, lengths;
};

/// x is [steps, batch, ...] or [batch, steps, ...], padded. Errors as weft::pack_padded_sequence.
WEFT_API PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths, const PackOptions& options = {},
                                             Location where = {});
WEFT_API PaddedSequence pad_packed_sequence(const PackedSequence& packed, const UnpackOptions& options = {},
                                            Location where = {});
/// Of tensors [length, ...].
WEFT_API PackedSequence pack_sequence(std::span<const Tensor> sequences, bool enforce_sorted = true,
                                      Location where = {});
/// The tensors [length, ...] again.
WEFT_API std::vector<Tensor> unpack_sequence(const PackedSequence& packed, Location where = {});

}  // namespace weft::nn
