// The families of op records. Not public: use op_records().
#pragma once

#include "../../backends/functors/lists.hpp"
#include "../create.hpp"
#include "../record.hpp"

namespace weft {

std::span<const OpRecord> unary_records();
std::span<const OpRecord> binary_records();
std::span<const OpRecord> ternary_records();
std::span<const OpRecord> copy_records();
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
std::span<const OpRecord> softmax_records();
std::span<const OpRecord> norm_records();
std::span<const OpRecord> loss_records();
std::span<const OpRecord> random_records();
std::span<const OpRecord> attention_records();

/// What a call with these keywords makes, and one that makes a tensor like x unless they say otherwise.
TensorOptions options_of(std::optional<DType> dtype, std::optional<Device> device, bool requires_grad);
TensorOptions options_like(const Tensor& x, std::optional<DType> dtype, std::optional<Device> device,
                           bool requires_grad);

/// The dtypes that a pointwise op takes.
constexpr OpRecord::Domain domain_of(PointwiseKind kind) {
  using enum OpRecord::Domain;
  if (kind == PointwiseKind::floating) return floating;
  return kind == PointwiseKind::numeric || kind == PointwiseKind::division ? numeric : any;
}

OpRecord& find_in(std::vector<OpRecord>& records, std::string_view name);
/// Gives the record of that name more arguments than its table has.
void widen(std::vector<OpRecord>& records, const char* name, const char* schema, const char* document,
           std::vector<Values> (*samples)(SampleMaker&), BoxedFunction function);

}  // namespace weft
