// Sequences of different lengths, padded or packed.
#pragma once

#include <torch/types.h>

namespace torch::nn::utils::rnn {

/// Rows of all steps, one step after the other.
class PackedSequence {
 public:
  PackedSequence() = default;
  PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices = {}, Tensor unsorted_indices = {});

  const Tensor& data() const { return data_; }
  const Tensor& batch_sizes() const { return batch_sizes_; }
  const Tensor& sorted_indices() const { return sorted_indices_; }
  const Tensor& unsorted_indices() const { return unsorted_indices_; }
  PackedSequence to(const TensorOptions& options) const;
  PackedSequence cuda() const { return to(kCUDA); }
  PackedSequence cpu() const { return to(kCPU); }
  bool is_cuda() const { return data_.is_cuda(); }
  bool is_pinned() const { return data_.is_pinned(); }

 private:
  Tensor data_, batch_sizes_, sorted_indices_, unsorted_indices_;
};

Tensor invert_permutation(const Tensor& permutation);
PackedSequence pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first = false, bool enforce_sorted = true);
std::tuple<Tensor, Tensor> pad_packed_sequence(PackedSequence sequence, bool batch_first = false,
                                               double padding_value = 0.0, optional<int64_t> total_length = nullopt);
Tensor pad_sequence(ArrayRef<Tensor> sequences, bool batch_first = false, double padding_value = 0);
PackedSequence pack_sequence(ArrayRef<Tensor> sequences, bool enforce_sorted = true);

}  // namespace torch::nn::utils::rnn
