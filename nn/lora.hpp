// LoRA: fine-tuning a model by small adapters beside its frozen weights (Hu et al. 2021).
//
//   nn::apply_lora(model, {.r = 8, .alpha = 16, .targets = {"attention\\.qkv$", "down$"}});
//   nn::mark_only_lora_trainable(model);
//   optim::AdamW optimizer(nn::lora_parameters(model), {.lr = 1e-3});
//   ... train ...
//   nn::merge_lora(model);  // W + s B A in place of W: calls cost what they did before
//
// An adapter stands in the state that all copies of a Linear or an Embedding share, so any module that has one can be
// adapted and no class changes; a layer without an adapter pays one comparison. For a weight W [out, in] it is
// lora_A [r, in] and lora_B [out, r], children of the layer with a `weight` each, and adds s · drop(x) · Aᵀ · Bᵀ to
// x · Wᵀ + b, where s = alpha / r. No tensor of W's size is made for it, forward or backward. The names of W and b
// stay, so what was saved of the model fits it still, with `strict` = false.
//
// io/adapter.hpp saves adapters alone. docs/finetuning.md goes through a whole run.
#pragma once

#include "layers.hpp"

namespace weft::nn {

/// Where the bits of W are while a merged weight stands in its place.
enum class LoraBase : uint8_t {
  cpu,       ///< in host memory
  disk,      ///< in a file without a name, which goes with the process
  recompute  ///< nowhere: W is W + s B A less s B A, at most one unit in the last place off; what would be more is kept
};

struct LoraOptions {
  int64_t r = 8;
  /// r where it is not given.
  std::optional<double> alpha = {};
  /// Of what goes into A, in training.
  double dropout = 0;
  /// s = alpha / √r (Kalajdzievski 2023).
  bool rslora = false;
  /// Of LoRALinear: whether it has a bias.
  bool bias = true;
  /// B's learning rate is so many times that of A (LoRA+, Hayou et al. 2024), by lora_parameter_groups.
  double lora_plus_scale = 1;
  /// Of apply_lora: regular expressions (ECMAScript's) that find the names of modules.
  std::vector<std::string> targets = {};
  /// For a Linear that computes several parts in one, such as queries, keys and values: which of the equal parts of its
  /// outputs are adapted. Each has r rows of A and a block of B; the others stay as they are, bit for bit.
  std::vector<bool> enable = {};
  /// Every layer that holds W computes with its adapter, and W gets one. Without it each named layer has its own, as in
  /// PEFT; where others hold W too it is not merged.
  bool share = true;
  /// Of A and B; by default W's, and float32 where that has 16 bits.
  std::optional<DType> dtype = {};
  /// `eval()` merges, `train()` takes the weights apart.
  bool merge_on_eval = false;
  LoraBase base = LoraBase::cpu;
};

/// A Linear with an adapter: A starts uniform in ±1/√in, B at 0, so that at first it computes what the Linear does.
/// weight and bias are frozen. ValueError for r < 1, a size, dropout, alpha or scale out of range, and where `enable`
/// has no true or does not divide `out`.
class WEFT_API LoRALinear : public Linear {
 public:
  LoRALinear(int64_t in, int64_t out, const LoraOptions& options = {}, Location where = {});
};

/// Gives every Linear and Embedding that a pattern finds an adapter and freezes its weight and bias; returns their
/// names. A weight that several of them hold gets one adapter, under the first name; whatever layer holds it then
/// computes with it, unless `share` is off. Layers that have an adapter are passed over. ValueError where nothing is
/// found, for a pattern that is none, and as LoRALinear; then nothing was changed.
WEFT_API std::vector<std::string> apply_lora(const Module& model, const LoraOptions& options, Location where = {});

/// An adapter of a model: the name of its layer, and what it was made with.
struct LoraLayer {
  std::string name;
  LoraOptions options;
  /// s
  double scale;
  bool merged;
  /// [r, in] and [out, r], or with `enable` [k r, in] and [k out / n, r] for k of n parts.
  Tensor a, b;
  bool embedding;
};
WEFT_API std::vector<LoraLayer> lora_layers(const Module& model);

/// Puts round(W + s B A) in the place of each W, the sum in float32 (float64 for float64); a second call does nothing.
/// A call of a merged layer costs nothing more, and is a ValueError in training while gradients are recorded. Whatever
/// is saved meanwhile, `state_dict` included, has W, and the flag `lora_merged`. Where memory is short the layers
/// before stay merged.
WEFT_API void merge_lora(const Module& model, Location where = {});
/// Brings back the bits of each W. IoError where LoraBase::disk cannot be read.
WEFT_API void unmerge_lora(const Module& model, Location where = {});
/// Merges and drops the adapters: what is left is the model that apply_lora found, with W + s B A for W, and its
/// state_dict has the names and the values of a model that never had any. Weights stay frozen.
WEFT_API void merge_and_unload_lora(const Module& model, Location where = {});
/// Whether any adapter is merged.
WEFT_API bool is_lora_merged(const Module& model);

/// Which biases are trained besides the adapters: those of adapted layers alone with `lora_only`.
enum class LoraBias : uint8_t { none, all, lora_only };
/// Switches gradients of all parameters off but for adapters and these biases. ValueError without an adapter.
WEFT_API void mark_only_lora_trainable(const Module& model, LoraBias bias = LoraBias::none, Location where = {});
/// The parameters that require gradients, in order.
WEFT_API std::vector<Tensor> lora_parameters(const Module& model);

/// Parameters that share a learning rate.
struct LoraGroup {
  std::vector<Tensor> parameters;
  double lr;
};
/// What requires gradients, in groups by learning rate, those of `lr` first: every B has lora_plus_scale times it.
///
///   const auto groups = nn::lora_parameter_groups(model, 1e-3);
///   optim::AdamW optimizer(groups[0].parameters, {.lr = groups[0].lr});
///   for (size_t i = 1; i < groups.size(); ++i) optimizer.add_group(groups[i].parameters, {.lr = groups[i].lr});
WEFT_API std::vector<LoraGroup> lora_parameter_groups(const Module& model, double lr, Location where = {});

/// The adapters alone, as PEFT names them: base_model.model.<path>.lora_A.weight [r, in] and lora_B.weight [out, r]; of
/// an Embedding lora_embedding_A [r, count] and lora_embedding_B [width, r]. With biases, also those that `bias` names:
/// <path>.base_layer.bias of a layer with an adapter, else <path>.bias.
/// The tensors share memory with the model, but for those of embeddings.
WEFT_API StateDict lora_state_dict(const Module& model, LoraBias bias = LoraBias::none);
/// Copies the values in, with biases and, under <path>.base_layer.weight, weights of adapted layers that are among
/// them; merged layers are merged anew. ShapeError where shapes differ, as for another rank, and ValueError where names
/// are missing or unknown; both name them, and nothing was changed.
WEFT_API void load_lora_state_dict(const Module& model, const StateDict& values, Location where = {});

}  // namespace weft::nn
