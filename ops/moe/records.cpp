#include <fmt/format.h>

#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../fused/activate-inl.hpp"
#include "../moe.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

std::vector<Tensor> call_permute(const Tensor& x, const Tensor& routing, const Tensor& probs, int64_t num_experts,
                                 const Value& tokens_per_expert, int64_t align, const std::optional<Tensor>& scale,
                                 bool gather) {
  const std::vector<int64_t> counts = integers_in(tokens_per_expert, 4);
  MoePermuteOut out = moe_permute(x, scale, routing, probs, num_experts, counts, align, gather);
  return {out.tokens, out.rowmap, out.probs, out.scale};
}

std::vector<Tensor> call_unpermute(const Tensor& tokens, const Tensor& rowmap, const Tensor& routing,
                                   const Tensor& probs, int64_t s, int64_t e, bool f32_accumulate) {
  const auto [y, back] = moe_unpermute(tokens, rowmap, routing, probs, s, e, f32_accumulate);
  return {y, back};
}

std::vector<Tensor> call_gate_dispatch(const Tensor& x, const Tensor& scores, int64_t k, int64_t capacity, bool pad,
                                       const std::optional<Tensor>& bias) {
  MoeGateDispatchOut out = moe_gate_dispatch(x, scores, bias, k, capacity, pad);
  return {out.y, out.weights, out.scatter, out.offset, out.expert_id};
}

Tensor call_combine(const Tensor& y, const Tensor& weights, const Tensor& scatter) {
  return moe_combine(y, weights, scatter);
}

Tensor call_grouped_linear(const Tensor& x, const Tensor& weight, const Value& counts) {
  return grouped_linear(x, weight, integers_in(counts, 2));
}

ExpertQuantisation quantisation_named(const std::string& name) {
  if (name == "none") return ExpertQuantisation::none;
  if (name == "per_tensor") return ExpertQuantisation::per_tensor;
  if (name == "block") return ExpertQuantisation::block;
  raise_value("quantisation", "none, per_tensor or block", in_quotes(name));
}

MoeOptions expert_options(const std::string& activation, bool transposed_weights, int64_t experts_min,
                          std::optional<int64_t> experts_max, std::optional<int64_t> total_experts, bool measure_amax,
                          const std::string& quantisation) {
  return {.activation = activation_named(activation),
          .transposed_weights = transposed_weights,
          .experts_min = experts_min,
          .experts_max = experts_max,
          .total_experts = total_experts,
          .measure_amax = measure_amax,
          .quantisation = quantisation_named(quantisation)};
}

std::vector<Tensor> call_mixture(const Tensor& h, const Tensor& routing, const Tensor& weights,
                                 const std::vector<Tensor>& gate_up, const std::vector<Tensor>& down,
                                 const std::string& activation, bool transposed, int64_t first,
                                 std::optional<int64_t> last, std::optional<int64_t> total, bool measure_amax,
                                 const std::string& quantisation) {
  const auto [out, amax] =
      mixture_of_experts(h, routing, weights, gate_up, down,
                         expert_options(activation, transposed, first, last, total, measure_amax, quantisation));
  return {out, amax};
}

std::vector<Tensor> call_topk_gate(const Tensor& gate_out, int64_t top_k, bool norm_topk,
                                   const std::optional<Tensor>& bias) {
  const auto [weights, ids] = moe_topk_gate(gate_out, bias, top_k, norm_topk);
  return {weights, ids};
}

std::vector<Tensor> call_gate_moe(const Tensor& h, const Tensor& gate_out, const std::vector<Tensor>& gate_up,
                                  const std::vector<Tensor>& down, int64_t top_k, bool norm_topk,
                                  const std::optional<Tensor>& bias, const std::string& activation, bool transposed,
                                  int64_t first, std::optional<int64_t> last, std::optional<int64_t> total,
                                  bool measure_amax, const std::string& quantisation) {
  const auto [out, amax] =
      fused_gate_moe(h, gate_out, bias, gate_up, down, top_k, norm_topk,
                     expert_options(activation, transposed, first, last, total, measure_amax, quantisation));
  return {out, amax};
}

// ---- samples --------------------------------------------------------------------------------------------------------

Tensor integers(SampleMaker& make, const std::vector<int64_t>& values, const Dims& shape) {
  return tensor(values).reshape(shape).to(make.device());
}

std::vector<Values> permute_samples(SampleMaker& make) {
  const auto routing = [&] { return integers(make, {0, 2, 2, -1, 1, 0}, {3, 2}); };
  const std::monostate none;
  return {{make.tensor({3, 2}), routing(), make.tensor({3, 2}), int64_t{3}, Dims{2, 1, 2}, int64_t{2}},
          {make.tensor({3, 2}), routing(), make.tensor({3, 2}), int64_t{4}, Dims{2, 1, 2, 0}, int64_t{1}, none, false},
          {make.tensor({0, 2}), integers(make, {}, {0, 2}), make.tensor({0, 2}), int64_t{2}, Dims{0, 0}, int64_t{8}}};
}

std::vector<Values> unpermute_samples(SampleMaker& make) {
  const auto rowmap = [&] { return integers(make, {0, -1, 4, -1, -1, 5, 1, 2, -1}, {3, 3}).to(DType::i32); };
  const auto routing = [&] { return integers(make, {0, 2, 2, -1, 1, 0}, {3, 2}); };
  const auto values = [&](bool wide) {
    return Values{make.tensor({6, 2}), rowmap(), routing(), make.tensor({6}), int64_t{3}, int64_t{3}, wide};
  };
  return {values(true), values(false)};
}

/// Scores with a fixed order in every draw, so that finite differences do not change the choice.
Tensor scores(SampleMaker& make) {
  const Tensor order = tensor({{0.1, 0.6, 0.3}, {0.5, 0.2, 0.35}, {0.2, 0.7, 0.05}, {0.3, 0.45, 0.15}});
  return order.to(make.dtype()).to(make.device());
}

std::vector<Values> gate_samples(SampleMaker& make) {
  const Tensor bias = tensor({0.0, -0.5, 1.0}).to(make.dtype()).to(make.device());
  return {{make.tensor({4, 2}), scores(make), int64_t{2}, int64_t{2}, true},
          {make.tensor({4, 2}), scores(make), int64_t{2}, int64_t{2}, false},
          {make.tensor({4, 3}), scores(make), int64_t{1}, int64_t{4}, false, bias}};
}

std::vector<Values> combine_samples(SampleMaker& make) {
  return {{make.tensor({5, 2}), make.tensor({3, 2}), integers(make, {0, 4, -1, 2, 1, 3}, {2, 3})},
          {make.tensor({0, 2}), make.tensor({2, 1}), integers(make, {-1, -1}, {1, 2})}};
}

std::vector<Values> grouped_samples(SampleMaker& make) {
  return {{make.tensor({5, 3}), make.tensor({4, 2, 3}), Dims{2, 0, 1, 2}},
          {make.tensor({0, 3}), make.tensor({2, 2, 3}), Dims{0, 0}}};
}

std::vector<Tensor> of_shape(SampleMaker& make, size_t n, const Dims& shape) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < n; ++i) out.push_back(make.tensor(shape));
  return out;
}

std::vector<Values> mixture_samples(SampleMaker& make) {
  return {{make.tensor({3, 2}), integers(make, {0, 1, 1, -1, 0, 0}, {3, 2}), make.tensor({3, 2}),
           of_shape(make, 2, {2, 6}), of_shape(make, 2, {3, 2})},
          {make.tensor({2, 3}), integers(make, {1, 2, 3, 1}, {2, 2}), make.tensor({2, 2}), of_shape(make, 4, {2, 3}),
           of_shape(make, 2, {4, 2}), std::string("gelu"), true, int64_t{1}, int64_t{2}, int64_t{4}}};
}
std::vector<Values> topk_gate_samples(SampleMaker& make) {
  const Tensor bias = tensor({0.0, -0.5, 1.0}).to(make.dtype()).to(make.device());
  return {{scores(make), int64_t{2}}, {scores(make), int64_t{1}, false, bias}, {scores(make), int64_t{3}, true}};
}
std::vector<Values> gate_moe_samples(SampleMaker& make) {
  return {{make.tensor({4, 2}), scores(make), of_shape(make, 3, {2, 4}), of_shape(make, 3, {2, 3}), int64_t{2}, true}};
}

// ---- on parts: features are cut, tokens and experts have to be seen at once -----------------------------------------

/// Results without features come from the rank with the first ones.
Value first_has_the_rest(PartCall& part) {
  auto results = std::get<std::vector<Tensor>>(part.run());
  for (size_t i = 1; i < results.size(); ++i) results[i] = parts::added_once(part, results[i], 0, 1);
  return results;
}

Partition permuted(const WholeCall& call) {
  if (call.tensor("scale").defined() || !call.flag("gather")) return parts::whole(call);
  return {.letters = "1h,11,11->1h,11,1,11", .on_parts = first_has_the_rest};
}
Partition unpermuted(const WholeCall&) { return {.letters = "1h,11,11,1->1h,11", .on_parts = first_has_the_rest}; }
Partition dispatched(const WholeCall& call) {
  if (!call.flag("pad")) return parts::whole(call);
  const char* const letters = call.tensor("bias").defined() ? "1h,11,1->1h,11,11,1,11" : "1h,11->1h,11,11,1,11";
  return {.letters = letters, .on_parts = first_has_the_rest};
}
Partition combined(const WholeCall&) { return {.letters = "1h,sk,ks->sh"}; }
Partition grouped(const WholeCall&) { return {.letters = "1k,1nk->1n", .linearity = Linearity::each}; }

/// Tokens by themselves, where no largest number of all is asked for, and features of the result. Lists of weights
/// follow on `words`, those of the other inputs.
Partition mixed(const WholeCall& call, std::vector<std::string> words, const char* after) {
  const bool transposed = call.flag("transposed_weights"), measures = call.flag("measure_amax");
  if (measures) {
    for (std::string& word : words) word[0] = '1';
  }
  const size_t gates = std::get<std::vector<Tensor>>(call["gate_up"]).size(), first_down = words.size() + gates;
  words.insert(words.end(), gates, "11");
  words.insert(words.end(), std::get<std::vector<Tensor>>(call["down"]).size(), transposed ? "n1" : "1n");
  if (*after != '\0') words.emplace_back(after);
  return {.letters = parts::notation(words, std::vector<std::string>{measures ? "1n" : "tn", "1"}),
          .on_parts = [first_down, transposed](PartCall& part) -> Value {
            auto results = std::get<std::vector<Tensor>>(part.run());
            results[1] = parts::added_once(part, results[1], first_down, transposed ? 0 : 1);
            return results;
          }};
}
Partition mixed_by_routing(const WholeCall& call) { return mixed(call, {"t1", "t1", "t1"}, ""); }
Partition mixed_by_gate(const WholeCall& call) {
  return mixed(call, {"t1", "t1"}, call.tensor("bias").defined() ? "1" : "");
}

/// Rows by themselves.
Partition gated(const WholeCall& call) {
  return {.letters = call.tensor("bias").defined() ? "t1,1->t1,t1" : "t1->t1,t1"};
}

#define WEFT_EXPERT_KEYWORDS                                                                           \
  "activation='silu', transposed_weights=False, experts_min=0, experts_max=None, total_experts=None, " \
  "measure_amax=False, quantisation='none'"

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"moe_permute",
     "moe_permute(x, routing, probs, num_experts, tokens_per_expert, align, *, scale=None, gather=True) -> (tokens, "
     "rowmap, probs, scale)",
     "Tokens x [S, H] by expert, each expert's block filled up with zeros to a multiple of align, and where each went; "
     "routing [S, K] names experts, -1 none. 8-bit floats have a scale.",
     OpFacts(true, OpFacts::reads_values), floating, permute_samples, permuted, detail::boxed<call_permute>},
    {"moe_unpermute", "moe_unpermute(tokens, rowmap, routing, probs, S, E, f32_accumulate=True) -> (y, probs)",
     "For each token the sum of its rows by rowmap [S, E], in ascending order of expert, and the probs of those that "
     "routing [S, K] names.",
     OpFacts(true, OpFacts::reads_values), floating, unpermute_samples, unpermuted, detail::boxed<call_unpermute>},
    {"moe_gate_dispatch",
     "moe_gate_dispatch(x, scores, k, capacity, pad, *, bias=None) -> (y, weights, scatter, offset, expert_id)",
     "The k experts of each token whose scores plus bias are largest, and the tokens by expert, as many as the "
     "capacity; first choices go before second ones. Weights are scores without bias.",
     OpFacts(true, OpFacts::reads_values), floating, gate_samples, dispatched, detail::boxed<call_gate_dispatch>},
    {"moe_combine", "moe_combine(y, weights, scatter)",
     "For each token the sum over j of weights[s, j] * y[scatter[j, s]]; a scatter of -1 counts for nothing.", true,
     floating, combine_samples, combined, detail::boxed<call_combine>},
    {"grouped_linear", "grouped_linear(x, weight, counts)",
     "Each block of counts[e] rows of x [R, in] times the transpose of weight[e], of weight [E, out, in].",
     OpFacts(true, Autocast::lower), floating, grouped_samples, grouped, detail::boxed<call_grouped_linear>},
    {"mixture_of_experts",
     "mixture_of_experts(h, routing, weights, gate_up, down, " WEFT_EXPERT_KEYWORDS ") -> (output, amax)",
     "For each token h [T, H] the sum of weights[t, k] times what expert routing[t, k] makes of it, (activation(h "
     "gate) "
     "* (h up)) down, over the experts experts_min to experts_max, which are here; amax [N] is the largest magnitude "
     "between, where it is measured. gate_up has [H, 2 F] of each, or all gates and then all ups.",
     OpFacts(true, OpFacts::reads_values), floating, mixture_samples, mixed_by_routing, detail::boxed<call_mixture>},
    {"moe_topk_gate", "moe_topk_gate(gate_out, top_k, norm_topk=False, *, bias=None) -> (weights, ids)",
     "The top_k experts of each row of gate_out [T, E] whose softmax plus bias is largest, of equal ones the first; "
     "weights are the softmax without bias, divided by their sum with norm_topk.",
     true, floating, topk_gate_samples, gated, detail::boxed<call_topk_gate>},
    {"fused_gate_moe",
     "fused_gate_moe(h, gate_out, gate_up, down, top_k, norm_topk=False, *, bias=None, " WEFT_EXPERT_KEYWORDS
     ") -> (output, amax)",
     "mixture_of_experts by the choice of moe_topk_gate.", OpFacts(true, OpFacts::reads_values), floating,
     gate_moe_samples, mixed_by_gate, detail::boxed<call_gate_moe>},
};

}  // namespace

std::span<const OpRecord> moe_records() { return records; }

}  // namespace weft
