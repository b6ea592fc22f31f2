#include "../create.hpp"
#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "blocks-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

QuantBlock block_of(const std::string& word) {
  if (word == "tensor") return QuantBlock::tensor;
  if (word == "1x128") return QuantBlock::row_1x128;
  if (word == "128x128") return QuantBlock::tile_128x128;
  raise_value("block", "'tensor', '1x128' or '128x128'", in_quotes(word));
}

std::vector<Tensor> call_quant(const Tensor& x, const std::string& block, double eps, bool pow2, bool transpose_scale,
                               bool also_transposed, std::optional<DType> dtype) {
  const QuantOut out = quant_blockwise(x, block_of(block),
                                       {eps, pow2, transpose_scale, also_transposed, dtype.value_or(DType::f8_e4m3fn)});
  return {out.q, out.scale, out.q_transposed, out.scale_transposed};
}
Tensor call_dequant(const Tensor& q, const Tensor& scale, std::optional<DType> dtype) {
  return dequant_blockwise(q, scale, dtype.value_or(DType::bf16));
}
Tensor call_act_dequant(const Tensor& q, const Tensor& scale) { return fused_act_dequant(q, scale); }
std::vector<Tensor> call_split(const Tensor& x, const Value& tokens_per_expert, const std::optional<Tensor>& scale,
                               bool pow2) {
  QuantizedSplits made = fused_transpose_split_quant(x, scale, integers_in(tokens_per_expert, 1), pow2);
  std::vector<Tensor> all = std::move(made.out);
  all.insert(all.end(), made.scale.begin(), made.scale.end());
  return all;
}
std::vector<Tensor> listed(Quantized made) { return {std::move(made.q), std::move(made.scale)}; }
std::vector<Tensor> call_stack(std::span<const Tensor> tensors, bool pow2) {
  return listed(fused_stack_quant(tensors, pow2));
}
std::vector<Tensor> call_stack_transpose(std::span<const Tensor> tensors, bool pow2) {
  return listed(fused_stack_transpose_quant(tensors, pow2));
}
std::vector<Tensor> call_requant(const Tensor& q, const Tensor& scale, bool pow2, bool pad_to_8) {
  return listed(fused_act_dequant_transpose_act_quant(q, scale, {pow2, pad_to_8}));
}
std::vector<Tensor> call_swiglu_quant(const Tensor& x, const std::optional<Tensor>& prob, bool pow2) {
  return listed(fused_weighted_swiglu_act_quant(x, prob, pow2));
}
std::vector<Tensor> call_swiglu_bwd(const Tensor& o1, const Tensor& do2, const Tensor& prob) {
  WeightedSwigluBackward out = fused_swiglu_weighted_bwd(o1, do2, prob);
  return {out.do1, out.dprob, out.o2};
}
Tensor call_gemm(const Tensor& a, const Tensor& a_scale, const Tensor& b, const Tensor& b_scale,
                 std::optional<DType> out_dtype, const std::string& a_block, const std::string& b_block,
                 const std::optional<Tensor>& start, const std::optional<Tensor>& bias) {
  BlockwiseGemmOptions options{.a_block = block_of(a_block), .b_block = block_of(b_block), .bias = bias};
  const DType dtype = out_dtype.value_or(DType::bf16);
  if (start && start->defined()) {
    options.out = start->clone();
    options.accumulate = true;
  }
  return gemm_fp8_blockwise(a, a_scale, b, b_scale, dtype, options);
}
Tensor call_fp8_mlp(const Tensor& x, const Tensor& proj, const Tensor& proj_scale, const Tensor& down,
                    const Tensor& down_scale, const std::optional<Tensor>& up, const std::optional<Tensor>& up_scale,
                    const std::optional<Tensor>& x_scale, const std::optional<Tensor>& hidden_scale,
                    bool transposed_weights, double fp8_max) {
  std::optional<Quantized> second;
  if (up || up_scale) second = {up.value_or(Tensor()), up_scale.value_or(Tensor())};
  return fused_fp8_mlp(x, {proj, proj_scale}, second, {down, down_scale},
                       {transposed_weights, x_scale, hidden_scale, fp8_max});
}
std::vector<Tensor> call_quantize_weight(const Tensor& weight, int64_t bits, int64_t group_size, bool symmetric) {
  QuantizedWeight out = quantize_weight(weight, {bits, group_size, symmetric});
  return {out.codes, out.scale, out.zero};
}
Tensor call_dequantize_weight(const Tensor& codes, const Tensor& scale, int64_t columns,
                              const std::optional<Tensor>& zero, int64_t bits, int64_t group_size,
                              std::optional<DType> dtype) {
  return dequantize_weight(codes, scale, columns, {zero, {}, bits, group_size}, dtype.value_or(DType::f32));
}
Tensor call_quantized_linear(const Tensor& x, const Tensor& codes, const Tensor& scale,
                             const std::optional<Tensor>& bias, const std::optional<Tensor>& zero, int64_t bits,
                             int64_t group_size) {
  return quantized_linear(x, codes, scale, {zero, bias, bits, group_size});
}

/// Rows of x by themselves.
Partition multiplied_rows(const WholeCall& call) {
  const std::string x = parts::letters(call.tensor("x").dim() - 1) + '1';
  std::string letters = x;
  for (size_t i = 1; i < call.inputs().size(); ++i) letters += ',' + parts::uncut(call.inputs()[i]);
  return {.letters = letters + "->" + x};
}

/// Rows of the weight by themselves.
Partition dequantized_rows(const WholeCall& call) {
  return {.letters = call.tensor("zero").defined() ? "z1,z1,z1->z1" : "z1,z1->z1"};
}

// ---- samples: of dtypes of their own where the op has one -----------------------------------------------------------

Tensor numbers(SampleMaker& make, const Dims& shape, DType dtype) { return make.tensor(shape).to(dtype); }

DType of_x(SampleMaker& make) { return make.dtype() == DType::f64 ? DType::f32 : make.dtype(); }

std::vector<Values> quant_samples(SampleMaker& make) {
  const DType t = of_x(make);
  return {{numbers(make, {3, 130}, t)},
          {numbers(make, {5, 7}, t), "128x128", 0.5, false, false, true},
          {numbers(make, {130, 3}, t), "tensor"},
          {numbers(make, {2, 260}, t), "1x128", 0.0, false, true, true},
          {numbers(make, {0, 5}, t)}};
}
/// Codes [m, n] of a part, and their scales.
Quantized codes_of(SampleMaker& make, const Dims& shape, QuantBlock block) {
  const QuantOut out = quant_blockwise(numbers(make, shape, DType::f32), block);
  return {out.q, out.scale};
}
std::vector<Values> dequant_samples(SampleMaker& make) {
  const auto of = [&](const Dims& shape, QuantBlock block, DType dtype) {
    const Quantized q = codes_of(make, shape, block);
    return Values{q.q, q.scale, dtype};
  };
  return {of({3, 130}, QuantBlock::row_1x128, DType::f32), of({130, 3}, QuantBlock::tile_128x128, DType::bf16),
          of({2, 3}, QuantBlock::tensor, DType::f64)};
}
std::vector<Values> act_dequant_samples(SampleMaker& make) {
  const Quantized q = codes_of(make, {3, 130}, QuantBlock::row_1x128);
  return {{q.q, q.scale}};
}
std::vector<Values> split_samples(SampleMaker& make) {
  const Quantized q = codes_of(make, {128, 5}, QuantBlock::row_1x128);
  return {{numbers(make, {256, 3}, of_x(make)), Dims{128, 0, 128}}, {q.q, Dims{0, 128}, q.scale, false}};
}
std::vector<Values> stack_samples(SampleMaker& make) {
  const auto matrix = [&] { return numbers(make, {128, 128}, of_x(make)); };
  return {{std::vector<Tensor>{matrix(), matrix()}}};
}
std::vector<Values> requant_samples(SampleMaker& make) {
  const Quantized q = codes_of(make, {5, 130}, QuantBlock::row_1x128);
  return {{q.q, q.scale}, {q.q, q.scale, false, true}};
}
/// Gates near 1, and integers: far from the boundaries between codes.
std::vector<Values> swiglu_quant_samples(SampleMaker& make) {
  const auto gated = [&](int64_t m, int64_t n) {
    const Tensor gate = full({m, n}, 16, {DType::f32, make.device()}), up = round(numbers(make, {m, n}, DType::f32));
    return cat({gate, up}, 1).to(of_x(make));
  };
  return {{gated(3, 6)}, {gated(2, 130), full({2}, 0.5, {DType::f32, make.device()}), false}};
}
std::vector<Values> swiglu_bwd_samples(SampleMaker& make) {
  return {{numbers(make, {3, 12}, of_x(make)), numbers(make, {3, 6}, of_x(make)), numbers(make, {3}, DType::f32)}};
}
std::vector<Values> gemm_samples(SampleMaker& make) {
  const Quantized a = codes_of(make, {3, 130}, QuantBlock::row_1x128),
                  b = codes_of(make, {5, 130}, QuantBlock::tile_128x128);
  return {{a.q, a.scale, b.q, b.scale},
          {a.q, a.scale, a.q, a.scale, DType::f32, "1x128", "1x128", numbers(make, {3, 3}, DType::f32)}};
}
/// Integers, ones and powers of two: rounded the same on every device.
std::vector<Values> fp8_mlp_samples(SampleMaker& make) {
  const TensorOptions on{DType::f32, make.device()};
  const auto codes = [&](const Dims& shape) { return round(numbers(make, shape, DType::f32)).to(DType::f8_e4m3fn); };
  const Tensor one = full({}, 1, on), gate = full({3, 4}, 8, on).to(DType::f8_e4m3fn), x = ones({2, 3}, on);
  return {{x.to(of_x(make)), cat({full({3, 4}, 8, on), round(numbers(make, {3, 4}, DType::f32))}, 1).to(gate.dtype()),
           one, codes({4, 2}), full({2}, 0.5, on)},
          {x.unsqueeze(0).to(of_x(make)), gate.t().contiguous(), full({4}, 0.25, on), codes({5, 4}), one, codes({4, 3}),
           one, one, one, true, 240.0}};
}
std::vector<Values> quantize_weight_samples(SampleMaker& make) {
  return {{make.tensor({3, 10})},
          {make.tensor({3, 10}), int64_t{4}, int64_t{4}},
          {make.tensor({2, 5}), int64_t{4}, int64_t{0}, false},
          {make.tensor({2, 5}), int64_t{8}, int64_t{2}, false}};
}
/// With scales in f64 where numbers are.
QuantizedWeight weight_of(SampleMaker& make, const Dims& shape, const WeightQuantOptions& options) {
  QuantizedWeight w = quantize_weight(numbers(make, shape, DType::f32), options);
  const DType t = make.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return {w.codes, w.scale.to(t), w.zero.to(t)};
}
std::vector<Values> dequantize_weight_samples(SampleMaker& make) {
  const QuantizedWeight w = weight_of(make, {3, 5}, {.bits = 4, .group_size = 2, .symmetric = false});
  const QuantizedWeight v = weight_of(make, {2, 5}, {});
  return {{w.codes, w.scale, int64_t{5}, w.zero, int64_t{4}, int64_t{2}}, {v.codes, v.scale, int64_t{5}}};
}
std::vector<Values> quantized_linear_samples(SampleMaker& make) {
  const QuantizedWeight w = weight_of(make, {3, 5}, {.bits = 4, .group_size = 2, .symmetric = false});
  const QuantizedWeight v = weight_of(make, {3, 5}, {}), u = weight_of(make, {2, 6}, {.bits = 4, .group_size = 0});
  const std::monostate none;
  return {{make.tensor({2, 5}), v.codes, v.scale},
          {make.tensor({2, 2, 5}), w.codes, w.scale, make.tensor({3}), w.zero, int64_t{4}, int64_t{2}},
          {make.tensor({6}), u.codes, u.scale, none, none, int64_t{4}, int64_t{0}}};
}

/// Shards by rows of x and by rows of the weight; its columns share scales. A zero of shape [0, 0] means none
/// (quantize_weight).
Partition multiplied_by_codes(const WholeCall& call) {
  const std::string rows = parts::letters(call.results()[0].dim() - 1);
  std::vector<std::string> words{rows + "1", "n1", "n1"};
  if (call.tensor("bias").defined()) words.emplace_back("n");
  if (const Tensor zero = call.tensor("zero"); zero.defined()) words.emplace_back(zero.numel() == 0 ? "11" : "n1");
  return {.letters = parts::notation(words, std::vector{rows + "n"})};
}

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"quant_blockwise",
     "quant_blockwise(x, block='1x128', eps=0.0, pow2=True, transpose_scale=False, also_transposed=False, *, "
     "dtype=None) -> (q, scale, q_transposed, scale_transposed)",
     "x [m, n] in 8-bit floats, float8_e4m3fn by default, with the scale of each 'tensor', '1x128' or '128x128' block "
     "that codes are multiplied by: max |x| / 448, 57344 in float8_e5m2, rounded up to a power of two with pow2. NaN "
     "and infinities do not count. With also_transposed the transpose, too, quantised from x.",
     false, floating, quant_samples, parts::whole, detail::boxed<call_quant>},
    {"dequant_blockwise", "dequant_blockwise(q, scale, dtype=None)",
     "q * scale, bfloat16 by default; blocks follow from scale's shape.", false, floating, dequant_samples,
     parts::whole, detail::boxed<call_dequant>},
    {"fused_act_dequant", "fused_act_dequant(q, scale)", "q * scale of 1 x 128 blocks in bfloat16.", false, floating,
     act_dequant_samples, parts::whole, detail::boxed<call_act_dequant>},
    {"fused_transpose_split_quant", "fused_transpose_split_quant(x, tokens_per_expert, *, scale=None, pow2=True)",
     "The transpose of each expert's tokens of x [m, k], quantised along 128 of them: as many matrices [k, t], then "
     "their scales [t / 128, k]. x is bfloat16, or an 8-bit float with a scale.",
     false, floating, split_samples, parts::whole, detail::boxed<call_split>},
    {"fused_stack_quant", "fused_stack_quant(tensors, pow2=True) -> (q, scale)",
     "Matrices of bfloat16 below one another in 128 x 128 blocks.", false, floating, stack_samples, parts::whole,
     detail::boxed<call_stack>},
    {"fused_stack_transpose_quant", "fused_stack_transpose_quant(tensors, pow2=True) -> (q, scale)",
     "Transposes of matrices of bfloat16 below one another in 128 x 128 blocks.", false, floating, stack_samples,
     parts::whole, detail::boxed<call_stack_transpose>},
    {"fused_act_dequant_transpose_act_quant",
     "fused_act_dequant_transpose_act_quant(q, scale, pow2=True, pad_to_8=False) -> (q, scale)",
     "The transpose of q * scale, rounded to bfloat16, in 1 x 128 blocks; with pad_to_8 filled up with columns of 0.",
     false, floating, requant_samples, parts::whole, detail::boxed<call_requant>},
    {"fused_weighted_swiglu_act_quant", "fused_weighted_swiglu_act_quant(x, prob=None, pow2=True) -> (q, scale)",
     "swiglu of x's halves times prob, rounded to bfloat16 once, in 1 x 128 blocks.", false, floating,
     swiglu_quant_samples, parts::whole, detail::boxed<call_swiglu_quant>},
    {"fused_swiglu_weighted_bwd", "fused_swiglu_weighted_bwd(o1, do2, prob) -> (do1, dprob, o2)",
     "The gradients of swiglu(o1's halves) * prob, and its value.", false, floating, swiglu_bwd_samples, parts::whole,
     detail::boxed<call_swiglu_bwd>},
    {"gemm_fp8_blockwise",
     "gemm_fp8_blockwise(a, a_scale, b, b_scale, out_dtype=None, a_block='1x128', b_block='128x128', *, start=None, "
     "bias=None)",
     "start + a times the transpose of b, of 8-bit floats with scales in blocks; sums are float32, the result is "
     "bfloat16 by default.",
     false, floating, gemm_samples, parts::whole, detail::boxed<call_gemm>},
    {"fused_fp8_mlp",
     "fused_fp8_mlp(x, proj, proj_scale, down, down_scale, up=None, up_scale=None, *, x_scale=None, hidden_scale=None, "
     "transposed_weights=False, fp8_max=448.0)",
     "(silu(x gate) * (x up)) down of weights in 8-bit floats with scales [] or one for each output; x and what stands "
     "between are quantised by x_scale and hidden_scale or, row by row, by max |x| / fp8_max.",
     false, floating, fp8_mlp_samples, multiplied_rows, detail::boxed<call_fp8_mlp>},
    {"quantize_weight", "quantize_weight(weight, bits=8, group_size=128, symmetric=True) -> (codes, scale, zero)",
     "weight [n, k] as codes of 8 or 4 bits: codes * scale + zero, each at most half a scale off; group_size columns "
     "share a scale, all of a row where it is 0.",
     false, floating, quantize_weight_samples, parts::whole, detail::boxed<call_quantize_weight>},
    {"dequantize_weight", "dequantize_weight(codes, scale, columns, *, zero=None, bits=8, group_size=128, dtype=None)",
     "The decoded weight [n, columns], float32 by default.", false, floating, dequantize_weight_samples,
     dequantized_rows, detail::boxed<call_dequantize_weight>},
    {"quantized_linear", "quantized_linear(x, codes, scale, bias=None, *, zero=None, bits=8, group_size=128)",
     "x times the transpose of a weight of 8 or 4 bits, plus bias; up to eight rows read the codes as they are.", true,
     floating, quantized_linear_samples, multiplied_by_codes, detail::boxed<call_quantized_linear>},
};

}  // namespace

std::span<const OpRecord> quantize_records() { return records; }

}  // namespace weft
