#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../fused.hpp"
#include "activate-inl.hpp"

namespace weft {

namespace {

std::vector<Tensor> call_norm(const Tensor& x, const Tensor& residual, const std::optional<Tensor>& bias,
                              const Tensor& weight, double eps) {
  const auto [normed, sum] = fused_rms_norm_residual(x, residual, bias.value_or(Tensor()), weight, eps);
  return {normed, sum};
}

Tensor call_mlp(const Tensor& x, const Tensor& proj, const std::optional<Tensor>& up, const Tensor& down,
                bool transposed_weights, const std::string& activation) {
  return fused_mlp(x, proj, up.value_or(Tensor()), down, transposed_weights, activation_named(activation));
}

Tensor call_rms_mlp(const Tensor& x, const Tensor& ln_weight, const Tensor& proj, const Tensor& down, double eps,
                    bool transposed_weights) {
  return fused_rms_mlp(x, ln_weight, proj, down, eps, transposed_weights);
}

std::vector<Tensor> call_rms_mlp_res(const Tensor& x, const Tensor& ln_weight, const Tensor& proj, const Tensor& down,
                                     const Tensor& residual, double eps, bool transposed_weights) {
  const auto [out, sum] = fused_rms_mlp_res(x, ln_weight, proj, down, residual, eps, transposed_weights);
  return {out, sum};
}

template <auto function>
std::vector<Tensor> call_qkv(const Tensor& src, const Tensor& ln_weight, const Tensor& qkv_weight, const Tensor& rope,
                             double eps, int64_t head_dim, int64_t num_heads, bool interleaved) {
  const auto parts = function(src, ln_weight, qkv_weight, rope, eps, head_dim, num_heads, interleaved, Location());
  return std::apply([](const auto&... t) { return std::vector<Tensor>{t...}; }, parts);
}

// ---- samples --------------------------------------------------------------------------------------------------------

std::vector<Values> norm_samples(SampleMaker& make) {
  const std::monostate none;
  return {{make.tensor({2, 5}), make.tensor({2, 5}), make.tensor({5}), make.tensor({5}), 1e-3},
          {make.tensor({2, 3, 4}), make.tensor({2, 3, 4}), none, make.tensor({4}), 1e-5},
          {make.tensor({0, 3}), make.tensor({0, 3}), none, make.tensor({3}), 1e-5}};
}
std::vector<Values> mlp_samples(SampleMaker& make) {
  // Values of one sign, so that rounding errors of 16-bit floats are not amplified by cancellation.
  const auto t = [&](const Dims& shape) { return make.tensor(shape, 0.2, 1); };
  const std::monostate none;
  return {{t({2, 3}), t({3, 8}), none, t({4, 2})},
          {t({2, 2, 3}), t({4, 3}), t({4, 3}), t({2, 4}), true, std::string("gelu")},
          {t({3}), t({3, 2}), t({3, 2}), t({2, 2})},
          {t({0, 3}), t({3, 8}), none, t({4, 2})}};
}
std::vector<Values> rms_mlp_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({3}), make.tensor({3, 8}), make.tensor({4, 2}), 1e-3},
          {make.tensor({2, 2, 3}), make.tensor({3}), make.tensor({4, 3}), make.tensor({3, 2}), 1e-3, true}};
}
std::vector<Values> rms_mlp_res_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({3}), make.tensor({3, 8}), make.tensor({4, 2}), make.tensor({2, 3}), 1e-3}};
}
std::vector<Values> qkv_samples(SampleMaker& make) {
  return {{make.tensor({2, 3, 4}), make.tensor({4}), make.tensor({16, 4}, -1, 1), make.tensor({2, 2, 3, 1, 4}, -1, 1),
           1e-3, int64_t{4}, int64_t{2}},
          {make.tensor({1, 2, 3}), make.tensor({3}), make.tensor({8, 3}, -1, 1), make.tensor({2, 1, 2, 1, 2}, -1, 1),
           1e-3, int64_t{2}, int64_t{2}, true}};
}

// ---- on parts -------------------------------------------------------------------------------------------------------

/// Letters of every axis of x but the last, which is never cut.
std::string lines(const Tensor& x) { return parts::letters(x.dim() - 1) + '1'; }
std::string and_uncut(std::string word, const WholeCall& call, size_t from) {
  for (size_t i = from; i < call.inputs().size(); ++i) word += ',' + parts::uncut(call.inputs()[i]);
  return word;
}

Partition normed(const WholeCall& call) {
  const std::string x = lines(call.tensor("x"));
  return {.letters = and_uncut(x + ',' + x, call, 2) + "->" + x + ',' + x};
}
/// Shards by rows and, if the gate is separate, by hidden features: the results of feature shards are summed.
Partition multiplied(const WholeCall& call) {
  const std::string x = lines(call.tensor("x"));
  if (!call.tensor("up").defined()) return {.letters = and_uncut(x, call, 1) + "->" + x};
  const bool transposed = call.flag("transposed_weights");
  return {.letters = x + (transposed ? ",y1,y1,zy->" : ",1y,1y,yz->") + x.substr(0, x.size() - 1) + 'z'};
}
Partition normed_and_multiplied(const WholeCall& call) {
  const std::string x = lines(call.tensor("x"));
  return {.letters = and_uncut(x, call, 1) + "->" + x};
}
Partition with_residual(const WholeCall& call) {
  const std::string x = lines(call.tensor("x"));
  return {.letters = x + ",1,11,11," + x + "->" + x + ',' + x};
}
/// Texts and places by themselves.
Partition projected(const WholeCall& call, const char* results) {
  const Tensor rope = call.tensor("rope");
  const std::string waves = std::string(rope.size(1) == 1 ? "1" : "b") + (rope.size(2) == 1 ? "1" : "s");
  return {.letters = "bs1,1,11,1" + waves + "11->" + results};
}
Partition plain_heads(const WholeCall& call) { return projected(call, "bs11,bs11,bs11"); }
Partition heads_first(const WholeCall& call) { return projected(call, "b1s1,b1s1,b1s1"); }
Partition heads_stacked(const WholeCall& call) { return projected(call, "bs11,1bs11"); }

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"fused_rms_norm_residual",
     "fused_rms_norm_residual(x, residual, bias=None, weight=None, eps=1e-05) -> (normed, sum)",
     "sum = x + residual (+ bias [H]), rounded to x's dtype, and its rms_norm with weight [H] over the last dimension.",
     OpFacts(true, Autocast::full), floating, norm_samples, normed, detail::boxed<call_norm>},
    {"fused_mlp", "fused_mlp(x, proj, up=None, down=None, transposed_weights=False, activation='silu')",
     "(activation(x gate) * (x up)) down for x [..., H]; proj is the gate [H, F] beside up [H, F] or, without up, both "
     "[H, 2 F], the gate first; down [F, H']. Transposed weights are [out, in] (Shazeer 2020).",
     OpFacts(true, Autocast::lower), floating, mlp_samples, multiplied, detail::boxed<call_mlp>},
    {"fused_rms_mlp", "fused_rms_mlp(x, ln_weight, proj, down, eps, transposed_weights=False)",
     "fused_mlp of rms_norm(x, ln_weight, eps), proj with gate and up.", OpFacts(true, Autocast::lower), floating,
     rms_mlp_samples, normed_and_multiplied, detail::boxed<call_rms_mlp>},
    {"fused_rms_mlp_res",
     "fused_rms_mlp_res(x, ln_weight, proj, down, residual, eps, transposed_weights=False) -> (output, sum)",
     "sum = x + residual, and fused_rms_mlp of it.", OpFacts(true, Autocast::lower), floating, rms_mlp_res_samples,
     with_residual, detail::boxed<call_rms_mlp_res>},
    {"fused_rms_qkv_rope",
     "fused_rms_qkv_rope(src, ln_weight, qkv_weight, rope, eps, head_dim, num_heads, interleaved=False) -> (q, k, v)",
     "rms_norm(src [B, S, H]) times the transpose of qkv_weight, in heads, q and k rotated by rope [2, B, S, 1, "
     "head_dim]: "
     "q [B, S, heads, head_dim], k and v [B, S, fewer, head_dim].",
     OpFacts(true, Autocast::lower), floating, qkv_samples, plain_heads,
     detail::boxed<call_qkv<&weft::fused_rms_qkv_rope>>},
    {"fused_rms_qkv_rope_transposed",
     "fused_rms_qkv_rope_transposed(src, ln_weight, qkv_weight, rope, eps, head_dim, num_heads, interleaved=False) -> "
     "(q, k, v)",
     "fused_rms_qkv_rope with heads before S.", OpFacts(true, Autocast::lower), floating, qkv_samples, heads_first,
     detail::boxed<call_qkv<&weft::fused_rms_qkv_rope_transposed>>},
    {"fused_rms_qkv_rope_stacked",
     "fused_rms_qkv_rope_stacked(src, ln_weight, qkv_weight, rope, eps, head_dim, num_heads, interleaved=False) -> (q, "
     "kv)",
     "fused_rms_qkv_rope with k and v in one tensor [2, B, S, fewer, head_dim].", OpFacts(true, Autocast::lower),
     floating, qkv_samples, heads_stacked, detail::boxed<call_qkv<&weft::fused_rms_qkv_rope_stacked>>},
};

}  // namespace

std::span<const OpRecord> fused_records() { return records; }

}  // namespace weft
