// LoRA: fine-tuning of a model with small adapters beside its frozen weights (Hu et al. 2021).
//
//   nn::apply_lora(model, {.r = 8, .alpha = 16, .targets = {"attention\\.qkv$", "down$"}});
//   nn::mark_only_lora_trainable(model);
//   optim::AdamW optimizer(nn::lora_parameters(model), {.lr = 1e-3});
//   ... train ...
//   nn::merge_lora(model);  // replaces W by W + s B A: calls are as fast as without adapters
//
// An adapter is stored in the state that all copies of a Linear or an Embedding share. Any module that contains such a
// layer can be adapted without changing its class; a layer without an adapter costs one comparison. For a weight W
// [out, in] the adapter is lora_A [r, in] and lora_B [out, r], children of the layer with a `weight` each. It adds s ·
// drop(x) · Aᵀ · Bᵀ to x · Wᵀ + b, where s = alpha / r. Neither forward nor backward allocates a tensor of W's size.
// The names of W and b do not change, so saved states of the model can be loaded with `strict` = false.
//
// W may be quantized (QLoRA), computed in 8-bit floats, parametrized or sharded. Then merging leaves the stored form
// and adds the sum W + s B A beside it, and merge_and_unload_lora makes that sum the weight of a plain layer.
//
// io/adapter.hpp saves adapters alone. docs/finetuning.md explains a complete run.
#pragma once

#include "layers.hpp"

namespace weft::nn {

/// Where the bits of W are kept while the merged weight replaces it.
enum class LoraBase : uint8_t {
  cpu,       ///< in host memory
  disk,      ///< in an unnamed file, which is deleted with the process
  recompute  ///< not kept: W is W + s B A less s B A, at most one unit in the last place off; elements with larger
             ///< errors are kept
};

struct LoraOptions {
  int64_t r = 8;
  /// Default: r.
  std::optional<double> alpha = {};
  /// Dropout probability of the input of A, in training.
  double dropout = 0;
  /// Rank-stabilised scale: s = alpha / √r (Kalajdzievski 2023).
  bool rslora = false;
  /// For LoRALinear: whether it has a bias.
  bool bias = true;
  /// Ratio of B's learning rate to A's (LoRA+, Hayou et al. 2024), used by lora_parameter_groups.
  double lora_plus_scale = 1;
  /// For apply_lora: ECMAScript regular expressions for the names of modules.
  std::vector<std::string> targets = {};
  /// For a Linear with several outputs in one, such as queries, keys and values: which of its equal blocks of outputs
  /// are adapted. Each adapted block has r rows of A and a block of B; the others do not change.
  std::vector<bool> enable = {};
  /// All layers that share W use one adapter. Otherwise each named layer has its own, as in PEFT; it is merged into a
  /// copy of W if other layers also hold W. The embedding and the head of a tied CausalLM never share an adapter.
  bool share = true;
  /// Dtype of A and B. Default: W's, or float32 if that has 16 bits.
  std::optional<DType> dtype = {};
  /// `eval()` merges, `train()` unmerges.
  bool merge_on_eval = false;
  LoraBase base = LoraBase::cpu;
};

/// A Linear with an adapter. A is initialised uniformly in ±1/√in and B to 0, so that it initially computes the same as
/// the Linear. weight and bias are frozen. Raises ValueError for r < 1, for a size, dropout, alpha or scale out of
/// range, and if `enable` has no true or does not divide `out`.
class WEFT_API LoRALinear : public Linear {
 public:
  LoRALinear(int64_t in, int64_t out, const LoraOptions& options = {}, Location where = {});
};

/// Adds an adapter to every Linear and Embedding with a name that a pattern matches, and freezes its weight and bias;
/// returns the names. A weight that several layers share gets one adapter, under the first name, and all these layers
/// use it, unless `share` is off. Layers with an adapter are skipped. The head of a CausalLM with tied embeddings is
/// named "lm_head"; its adapter applies to the head only, and the weight stays shared. Raises ValueError, before any
/// change, if nothing matches, for an invalid pattern, for the out_proj of a MultiheadAttention, and as LoRALinear.
WEFT_API std::vector<std::string> apply_lora(const Module& model, const LoraOptions& options, Location where = {});

/// An adapter of a model, with its layer's name and options.
struct LoraLayer {
  std::string name;
  LoraOptions options;
  /// The factor s.
  double scale;
  bool merged;
  /// [r, in] and [out, r], or with `enable` [k r, in] and [k out / n, r] for k of n blocks.
  Tensor a, b;
  bool embedding;
};
WEFT_API std::vector<LoraLayer> lora_layers(const Module& model);

/// Replaces each W by round(W + s B A), summed in float32 (float64 for float64); a second call does nothing. The sum of
/// a quantized W has the dtype of the bias, or of the scales, and takes memory in addition to the codes. Calls of a
/// merged layer have no extra cost, and raise ValueError in training while gradients are recorded. States saved
/// meanwhile, also by `state_dict`, contain W and the flag `lora_merged`. If memory runs out, layers merged so far stay
/// merged.
WEFT_API void merge_lora(const Module& model, Location where = {});
/// Restores the bits of each W. Raises IoError if the file of LoraBase::disk cannot be read.
WEFT_API void unmerge_lora(const Module& model, Location where = {});
/// Merges and removes the adapters: the result is the original model with W + s B A in place of W, and its state_dict
/// has the names of a model without adapters. Weights stay frozen. A layer that was merged into a copy of W keeps that
/// copy, so a tied CausalLM with an adapter of its embedding or head becomes an untied one, with an own "lm_head".
/// Codes and parametrizations of W are removed.
WEFT_API void merge_and_unload_lora(const Module& model, Location where = {});
/// Whether any adapter is merged.
WEFT_API bool is_lora_merged(const Module& model);

/// Biases that are trained in addition to the adapters; `lora_only`: those of adapted layers.
enum class LoraBias : uint8_t { none, all, lora_only };
/// Turns gradients off for all parameters except adapters and these biases. Raises ValueError if there is no adapter.
WEFT_API void mark_only_lora_trainable(const Module& model, LoraBias bias = LoraBias::none, Location where = {});
/// The parameters that require gradients, in order.
WEFT_API std::vector<Tensor> lora_parameters(const Module& model);

/// Parameters that share a learning rate.
struct LoraGroup {
  std::vector<Tensor> parameters;
  double lr;
};
/// The parameters that require gradients, grouped by learning rate: first `lr`, then lora_plus_scale times it for B.
///
///   const auto groups = nn::lora_parameter_groups(model, 1e-3);
///   optim::AdamW optimizer(groups[0].parameters, {.lr = groups[0].lr});
///   for (size_t i = 1; i < groups.size(); ++i) optimizer.add_group(groups[i].parameters, {.lr = groups[i].lr});
WEFT_API std::vector<LoraGroup> lora_parameter_groups(const Module& model, double lr, Location where = {});

/// The adapters alone, with PEFT's names: base_model.model.<path>.lora_A.weight [r, in] and lora_B.weight [out, r]; for
/// an Embedding lora_embedding_A [r, count] and lora_embedding_B [width, r]. `bias` selects the biases to include:
/// <path>.base_layer.bias for an adapted layer, else <path>.bias. The tensors share memory with the model, except those
/// of embeddings.
WEFT_API StateDict lora_state_dict(const Module& model, LoraBias bias = LoraBias::none);
/// Copies the values into the adapters; also biases, and weights of adapted layers as <path>.base_layer.weight, if
/// present. Merged layers are merged again. Raises ShapeError if shapes differ, as for another rank, and ValueError for
/// missing or unknown names. Both list the names, and then nothing is changed.
WEFT_API void load_lora_state_dict(const Module& model, const StateDict& values, Location where = {});

}  // namespace weft::nn
