// The core of every attention: by ops and by the kernel. Not public.
#pragma once

#include <string>
#include <vector>

#include "../attention.hpp"
#include "../../backends/dispatch.hpp"

namespace weft::detail {

/// A sequence of packed operands: first row and number of queries, first row and number of keys.
struct PackedSequence {
  int64_t query, queries, key, keys;
};

/// Operands as [batch, heads, length, width], or [batch, length, heads, width] where heads are inside; the heads of k
/// and v divide those of q.
struct AttentionOperands {
  Tensor q, k, v;
  /// [batch, heads, queries, keys], additive, compute type, maybe expanded; undefined where absent.
  Tensor mask = {};
  /// [batch or sequences, heads], compute type; undefined where absent.
  Tensor slopes = {};
  /// Without its views.
  AttentionPlan plan = {};
  bool heads_inside = false;
  /// Where not empty, the batch is 1, and `table` has the same numbers beside q.
  std::vector<PackedSequence> sequences = {};
  Tensor table = {};
  /// i64 [sequences, blocks]: block numbers of paged keys and values; undefined without paging.
  Tensor blocks = {};
};

/// Sequences of these counts, and their table on the device.
void pack_sequences(AttentionOperands& in, std::vector<PackedSequence> sequences);

struct AttentionOutput {
  Tensor output, weights;
};
/// Recorded, to any order. Operands are of the compute type.
AttentionOutput attention_by_ops(const AttentionOperands& in, double dropout);
/// Recorded for q, k and v. The output has the compute type.
Tensor attention_by_kernel(const AttentionOperands& in);
AttentionPlan kernel_plan(const AttentionOperands& in);
/// 4-d operands as kernels read them.
View heads_first(const AttentionOperands& in, const Tensor& t);

/// Operands of another type than the compute type converted to it.
AttentionOperands in_compute_type(const AttentionOperands& in);

/// Dtypes and devices of attention's operands.
void check_attention_types(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask);
[[noreturn]] void raise_attention_shapes(const std::string& problem, const std::string& layout, const Tensor& q,
                                         const Tensor& k, const Tensor& v);
void check_probability(const char* what, double p);
/// A mask of either kind as numbers that are added to scores.
Tensor additive_mask(const Tensor& mask, DType dtype);
double attention_scale(std::optional<double> scale, int64_t width);

// ---- arguments of attention() and its kin ----
/// The sizes of operands [..., length, heads, width].
struct HeadSizes {
  int64_t queries, keys, heads;
};
/// ShapeError with this layout unless they fit, but for their batches where rank is 3.
HeadSizes check_heads(const Tensor& q, const Tensor& k, const Tensor& v, int rank, const char* layout);
/// Slopes [heads] or [batch, heads] as [batch, heads] in the compute type.
Tensor checked_slopes(const Tensor& slopes, const Tensor& q, int64_t batch, int64_t heads);
/// ValueError for a window of other negative sizes than -1.
void set_band(AttentionPlan& plan, bool causal, const AttentionWindow& window);

// ---- choice of a backend ----
/// Reasons against a backend.
struct AttentionDemands {
  bool weights = false, dropout = false, mask_gradient = false, slope_gradient = false;
};
std::vector<AttentionBackendState> attention_backends(const Tensor& q, const AttentionDemands& demands);
/// Whether the kernel computes it; ValueError where the chosen backend is not eligible.
bool takes_kernel(AttentionBackend chosen, const AttentionOperands& in, const AttentionDemands& demands);

}  // namespace weft::detail
