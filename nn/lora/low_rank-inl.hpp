// A LoRA adapter: the update of a weight, and the weight's bits while it is merged. Internal to nn/.
//
// Copies of a layer share the adapter, and forward looks for it with one comparison. So any class of layer can be
// adapted, and W and b keep their names. The bits of W are kept while it is merged, because W + d - d differs from
// W.
#pragma once

#include <cstdio>
#include <memory>
#include <unordered_map>

#include "../lora.hpp"
#include "../module_state-inl.hpp"
#include "../registry.hpp"

namespace weft::nn::detail {

/// The bits of a merged weight, stored according to LoraBase. Copies share them.
class KeptBits {
 public:
  KeptBits() = default;
  /// Keeps the bits of `weight`, which `merged` will replace. `recomputed` is merged minus the update, for
  /// LoraBase::recompute; else undefined.
  KeptBits(LoraBase base, const Tensor& weight, const Tensor& recomputed);
  /// The weight on the CPU. For LoraBase::recompute it is computed from `recomputed` and the kept elements.
  Tensor restored(const Tensor& recomputed) const;

 private:
  LoraBase base_ = LoraBase::cpu;
  Tensor values_;
  Shared<std::unique_ptr<std::FILE, int (*)(std::FILE*)>> file_;
  DType dtype_ = DType::f32;
  Dims shape_;
  // Positions of elements that recomputation would change by more than one unit in the last place.
  std::vector<int64_t> places_;
};

class LowRank {
 public:
  /// An adapter for a weight [out, in], or for this process's shard of one.
  LowRank(const ModuleTensor& weight, const LoraOptions& options, bool of_embedding, const LayerInParts* parts,
          Location where);

  /// x · (w + s B A)ᵀ + bias, where w is the layer's handle of the weight.
  Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias, bool training, Location where,
                const LayerInParts* parts = nullptr) const;
  /// Rows of w + s B A.
  Tensor embedding(const Tensor& w, const Tensor& indices, int64_t padding, bool training, Location where) const;

  void merge(Location where);
  void unmerge(Location where);
  /// W without the adapter.
  Tensor unmerged() const;
  /// Moves the merged weight of its own, if there is one.
  void to(Device device, Location where);
  void to(DType dtype, Location where);
  /// Called when the mode of a module with this adapter changes.
  void set_training(bool on);

  double scale() const;

  LoraOptions options;
  // The same tensors as in the layer.
  ModuleTensor weight;
  Linear a, b;
  Buffer merged_flag;
  weft::detail::Flag<false> merged;
  bool of_embedding = false;
  /// Whether a layer without this adapter also holds the weight. Then W does not change when the adapter is merged.
  bool has_others = false;
  /// With `has_others`: W + s B A while it is merged.
  ModuleTensor own_sum;

 private:
  struct Part;
  /// The adapted row blocks of W, with the corresponding rows of A and B.
  std::vector<Part> parts() const;
  void check_not_training(bool training, Location where) const;
  /// y + u · Bᵀ, where u is x · Aᵀ.
  Tensor adapted(const Tensor& y, const Tensor& u, const Tensor& b) const;
  /// from + by · B A, computed in float32 or float64, rounded to the weight's dtype.
  Tensor shifted(const Tensor& from, double by) const;

  KeptBits kept_;
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
/// Null for a layer without an adapter. `is_own`: whether the adapter's factors are children of this layer.
const LowRank* adapter_of(const Module& module);
bool is_own(const Module& module, const LowRank& adapter);
/// The adapters of a model without duplicates, with the names of their own layers.
std::vector<std::pair<std::string, LowRank*>> adapters_of(const Module& model);

/// The merged adapters by the weights that their sums replaced.
std::unordered_map<const TensorImpl*, const LowRank*> merged_adapters(const Module& model);

/// Unmerges the merged weights of a model while other values are loaded.
class TakenApart {
 public:
  explicit TakenApart(const Module& model);
  /// Merges adapters again. If the loaded values contain merge flags, these decide, else the previous state.
  void put_together(const StateDict& loaded) const;

 private:
  std::vector<std::pair<std::string, LowRank*>> adapters_;
  std::vector<LowRank*> were_merged_;
};

}  // namespace weft::nn::detail
