#include "../packed_sequence.hpp"

#include "../../ops/create.hpp"
#include "../../ops/index.hpp"
#include "../../ops/sort.hpp"

namespace weft::nn {

PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths, const PackOptions& options,
                                    Location where) {
  if (options.enforce_sorted || !x.defined() || !lengths.defined()) {
    const PackedRows rows = weft::pack_padded_sequence(x, lengths, options.batch_first, where);
    return {rows.data, rows.batch_sizes, {}, {}};
  }
  const Tensor order = argsort(lengths, -1, true, where), back = argsort(order, -1, false, where);
  const Tensor sorted = index_select(x, options.batch_first ? 0 : 1, order.to(x.device()), where);
  const PackedRows rows =
      weft::pack_padded_sequence(sorted, index_select(lengths, 0, order, where), options.batch_first, where);
  return {rows.data, rows.batch_sizes, order.to(x.device()), back.to(x.device())};
}

PaddedSequence pad_packed_sequence(const PackedSequence& packed, const UnpackOptions& options, Location where) {
  const auto [data, lengths] = weft::pad_packed_sequence(packed.data, packed.batch_sizes, options.batch_first,
                                                         options.padding_value, options.total_length, where);
  if (!packed.unsorted_indices.defined()) return {data, lengths};
  const Tensor& back = packed.unsorted_indices;
  return {index_select(data, options.batch_first ? 0 : 1, back, where),
          index_select(lengths, 0, back.to(Device()), where)};
}

PackedSequence pack_sequence(std::span<const Tensor> sequences, bool enforce_sorted, Location where) {
  std::vector<int64_t> lengths;
  for (const Tensor& t : sequences) lengths.push_back(t.defined() && t.dim() > 0 ? t.size(0) : 0);
  const Tensor padded = pad_sequence(sequences, false, 0, "right", where);
  return pack_padded_sequence(padded, tensor(std::span<const int64_t>(lengths), Dims(padded.size(1))),
                              {.enforce_sorted = enforce_sorted}, where);
}

std::vector<Tensor> unpack_sequence(const PackedSequence& packed, Location where) {
  const PaddedSequence padded = pad_packed_sequence(packed, {.batch_first = true}, where);
  std::vector<Tensor> sequences;
  const std::vector<int64_t> lengths = padded.lengths.to_vector<int64_t>(where);
  for (size_t i = 0; i < lengths.size(); ++i) {
    sequences.push_back(padded.data.select(0, static_cast<int64_t>(i), where).narrow(0, 0, lengths[i], where));
  }
  return sequences;
}

}  // namespace weft::nn
