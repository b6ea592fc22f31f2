// The families of op records. Not public: use op_records().
#pragma once

#include "../../backends/functors/lists.hpp"
#include "../create.hpp"
#include "../record.hpp"

namespace weft {

std::span<const OpRecord> unary_records();
std::span<const OpRecord> binary_records();
std::span<const OpRecord> ternary_records();
std::span<const OpRecord> predicate_records();
std::span<const OpRecord> special_records();
std::span<const OpRecord> foreach_records();
std::span<const OpRecord> activation_records();
std::span<const OpRecord> copy_records();
std::span<const OpRecord> complex_records();
std::span<const OpRecord> fft_records();
std::span<const OpRecord> stft_records();
std::span<const OpRecord> create_records();
std::span<const OpRecord> view_records();
std::span<const OpRecord> where_records();
std::span<const OpRecord> matmul_records();
std::span<const OpRecord> index_records();
std::span<const OpRecord> subscript_records();
std::span<const OpRecord> scatter_records();
std::span<const OpRecord> masked_records();
std::span<const OpRecord> search_records();
std::span<const OpRecord> rearrange_records();
std::span<const OpRecord> join_records();
std::span<const OpRecord> reduce_records();
std::span<const OpRecord> vector_norm_records();
std::span<const OpRecord> scan_records();
std::span<const OpRecord> sort_records();
std::span<const OpRecord> running_records();
std::span<const OpRecord> histogram_records();
std::span<const OpRecord> statistics_records();
std::span<const OpRecord> difference_records();
std::span<const OpRecord> softmax_records();
std::span<const OpRecord> norm_records();
std::span<const OpRecord> loss_records();
std::span<const OpRecord> pool_records();
std::span<const OpRecord> columns_records();
std::span<const OpRecord> interpolate_records();
std::span<const OpRecord> grid_records();
std::span<const OpRecord> dropout_records();
std::span<const OpRecord> channel_records();
std::span<const OpRecord> bag_records();
std::span<const OpRecord> sparse_records();
std::span<const OpRecord> moe_records();
std::span<const OpRecord> rotary_records();
std::span<const OpRecord> fused_records();
std::span<const OpRecord> likelihood_records();
std::span<const OpRecord> margin_loss_records();
std::span<const OpRecord> ctc_records();
std::span<const OpRecord> distance_records();
std::span<const OpRecord> sequence_records();
std::span<const OpRecord> distribution_records();
std::span<const OpRecord> random_records();
std::span<const OpRecord> attention_records();
std::span<const OpRecord> head_attention_records();
std::span<const OpRecord> recurrent_records();
std::span<const OpRecord> packed_records();
std::span<const OpRecord> bilinear_records();
std::span<const OpRecord> batch_norm_records();
std::span<const OpRecord> convolution_records();
std::span<const OpRecord> axes_records();
std::span<const OpRecord> pieces_records();
std::span<const OpRecord> stacks_records();
std::span<const OpRecord> combine_records();
std::span<const OpRecord> repeat_records();
std::span<const OpRecord> shuffle_records();
std::span<const OpRecord> pad_records();
std::span<const OpRecord> diagonal_records();
std::span<const OpRecord> triangle_records();
std::span<const OpRecord> tensordot_records();
std::span<const OpRecord> quantize_records();
std::span<const OpRecord> einsum_records();
std::span<const OpRecord> product_records();
std::span<const OpRecord> matrix_function_records();
std::span<const OpRecord> triangular_records();
std::span<const OpRecord> lu_records();
std::span<const OpRecord> qr_records();
std::span<const OpRecord> spectral_records();
std::span<const OpRecord> rank_records();
std::span<const OpRecord> eig_records();

/// Options from a record's keywords; options_like takes dtype and device from x where they are not given.
TensorOptions options_of(std::optional<DType> dtype, std::optional<Device> device, bool requires_grad);
TensorOptions options_like(const Tensor& x, std::optional<DType> dtype, std::optional<Device> device,
                           bool requires_grad);

/// The dtypes that a pointwise op takes.
constexpr OpRecord::Domain domain_of(PointwiseKind kind) {
  using enum OpRecord::Domain;
  if (kind == PointwiseKind::floating) return floating;
  return kind == PointwiseKind::any || kind == PointwiseKind::counting || kind == PointwiseKind::bits ? any : numeric;
}

/// The same, of i64 where the dtype is floating: for ops that take integers and bool alone.
inline SampleMaker of_integers(const SampleMaker& make) {
  return SampleMaker(is_floating(make.dtype()) ? DType::i64 : make.dtype(), make.device());
}

/// A list of integers of any length: one, Dims, 0-d tensors, or a tensor of them. BadArgument(argument) for others.
std::vector<int64_t> integers_in(const Value& v, int argument);

OpRecord& find_in(std::vector<OpRecord>& records, std::string_view name);
/// Replaces schema and function of a record, to give the op more arguments than its row has.
void widen(std::vector<OpRecord>& records, const char* name, const char* schema, const char* document,
           SampleFunction samples, BoxedFunction function);

}  // namespace weft
