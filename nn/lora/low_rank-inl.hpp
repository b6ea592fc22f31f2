// A LoRA adapter: the update of a weight, and the weight's bits while it is merged. Internal to nn/.
//
// Copies of a layer share the adapter, and forward looks for it with one comparison. So any class of layer can be
// adapted, and W and b keep their names. The bits of W are kept while it is merged, because W + d - d differs from
// W.
#pragma once

#include <cstdio>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "../lora.hpp"
#include "../module_state-inl.hpp"
#include "../registry.hpp"

namespace weft::nn::detail {

/// The bits of a merged weight, stored according to LoraBase. Copies share them.
class SavedBits {
 public:
  SavedBits() = default;
  /// Keeps the bits of `weight`, which `merged` will replace. `recomputed` is merged minus the update, for
  /// LoraBase::recompute; else undefined.
  SavedBits(LoraBase base, const Tensor& weight, const Tensor& recomputed);
  /// The weight on the CPU. For LoraBase::recompute it is computed from `recomputed` and the kept elements.
  Tensor restored(const Tensor& recomputed) const;

 private:
  LoraBase base_ = LoraBase::cpu;
  Tensor values_;
  Shared<std::unique_ptr<std::FILE, int (*)(std::FILE*)>> file_;
  DType dtype_ = DType::f32;
  Dims shape_;
  // Positions of elements that recomputation would change by more than one unit in the last place.
  std::vector<int64_t> positions_;
};

/// x · Wᵀ + bias of a Linear, with the forms of W below the adapter.
struct BaseProduct {
  const Module& layer;
  const WeightFormat* format;  ///< null for a float weight
  Tensor weight;               ///< undefined if the layer stores codes
  Location where;

  Tensor operator()(const Tensor& x, const Tensor& bias) const;
  /// With another float weight.
  Tensor merged(const Tensor& x, const Tensor& sum, const Tensor& bias) const;
};

class LowRank {
 public:
  /// An adapter for a weight [out, in], or for this process's shard of one.
  LowRank(const BaseWeight& base, const LoraOptions& options, bool of_embedding, const ShardedLayer* parts,
          Location where);

  /// base(x, bias) + s · x · Aᵀ · Bᵀ.
  Tensor linear(const BaseProduct& base, const Tensor& x, const Tensor& bias, bool training, Location where,
                const ShardedLayer* parts) const;
  /// Rows of w + s B A.
  Tensor embedding(const Tensor& w, const Tensor& indices, int64_t padding, bool training, Location where,
                   const ShardedLayer* parts) const;

  /// `layer` is the layer that has the factors as children.
  void merge(const Module& layer, Location where);
  void unmerge(Location where);
  /// Whether the sum replaces the parameter. Otherwise it is in `own_sum`.
  bool replaces_weight() const { return merged && !own_sum.defined(); }
  /// The parameter's bits before merging. Requires replaces_weight().
  Tensor unmerged() const;
  /// Moves or converts the sum, unless it replaces the parameter.
  template <class Target>
  void move_sum(Target target, Location where) {
    if (own_sum.defined()) own_sum = Buffer(own_sum.to(target, where), where);
  }

  double scale() const;

  LoraOptions options;
  // The same tensors as in the layer. `weight` is undefined if the layer's weight is decoded or parametrized.
  ModuleTensor weight;
  Linear a, b;
  Buffer merged_flag;
  weft::detail::Flag<false> merged;
  bool of_embedding = false;
  /// Whether a layer without this adapter also holds the weight. Then W does not change when the adapter is merged.
  bool has_others = false;
  /// Whether several layers that hold one weight use this adapter.
  bool is_shared = false;
  /// W + s B A while it is merged, if that does not replace `weight`.
  ModuleTensor own_sum;

 private:
  struct Part;
  /// The adapted row blocks of W, with the corresponding rows of A and B.
  std::vector<Part> parts() const;
  void check_not_training(bool training, Location where) const;
  /// y + u · Bᵀ, where u is x · Aᵀ. `may_write`: y is the result of weft::linear, which may become the sum.
  Tensor adapted(const Tensor& y, const Tensor& u, const Tensor& b, bool may_write) const;
  /// The number of outputs, or of this process's outputs.
  int64_t outputs() const;
  /// from + by · B A, computed in float32 or float64, rounded to the weight's dtype.
  Tensor shifted(const Tensor& from, double by) const;

  SavedBits saved_bits_;
};

/// The output layer of a CausalLM with tied embeddings: a Linear over the embedding's weight.
struct TiedHead {
  std::string name;
  Module model, embedding, layer;
  /// Whether the model has no such child yet.
  bool is_new;
};
std::vector<TiedHead> tied_heads(const Module& model);
/// named_modules(), and the tied heads that are no modules of the model yet.
std::vector<std::pair<std::string, Module>> layers_for_adapters(const Module& model);
/// The child that `forward_tied_head` calls; null if the CausalLM computes logits with the embedding's weight.
const Module* tied_head_of(const Module& model);
Tensor forward_tied_head(const Module& head, const Tensor& x, Location where);
/// Makes the head a child of its model, which is no longer described as tied.
void untie(const TiedHead& head);

/// A Linear or an Embedding that will get an adapter.
struct LoraTarget {
  std::string name;
  Module module;
  LoraOptions options;
};
/// Adds adapters to all targets, or to none if one raises. All layers of `model` that share one of their weights get
/// its adapter. Returns the names of the adapters' own layers.
std::vector<std::string> attach(const Module& model, const std::vector<LoraTarget>& targets, Location where);
/// Removes the adapters of a model; weights do not change.
void detach(const Module& model);
/// Adds the options that attach_described reads.
void write_options(Config& config, const LoraOptions& options);
/// Creates the adapters of a description.
void attach_described(const ModuleDescription& description, const Module& model, Location where);
/// Merges or unmerges an adapter with LoraOptions::merge_on_eval after the layer's mode changed.
void follow_mode(const Module& layer);
/// Whether the adapter's factors are children of this layer.
bool is_own(const Module& module, const LowRank& adapter);
/// An adapter and its own layer.
struct AdaptedLayer {
  std::string name;
  Module layer;
  LowRank* adapter;
};
/// The adapters of a model without duplicates.
std::vector<AdaptedLayer> adapters_of(const Module& model);
/// The names of all factors A and B, which are Linear layers.
std::unordered_set<std::string> factor_names(const Module& model);

/// The merged adapters by the weights that their sums replaced.
std::unordered_map<const TensorImpl*, const LowRank*> merged_adapters(const Module& model);

/// Unmerges the merged weights of a model while other values are loaded.
class SuspendedMerges {
 public:
  explicit SuspendedMerges(const Module& model);
  /// Merges adapters again. If the loaded values contain merge flags, these decide, else the previous state.
  void resume(const StateDict& loaded) const;

 private:
  std::vector<AdaptedLayer> adapters_;
  std::vector<LowRank*> merged_before_;
};

}  // namespace weft::nn::detail
