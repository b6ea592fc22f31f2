// One adapter: what is added to a weight, and the weight's bits while it is merged. Internal to nn/.
#pragma once

#include <cstdio>
#include <memory>
#include <unordered_map>

#include "../lora.hpp"
#include "../module_state-inl.hpp"
#include "../registry.hpp"

namespace weft::nn::detail {

/// The bits of a merged weight, as LoraBase says. A copy shares them.
class KeptBits {
 public:
  KeptBits() = default;
  /// Of `weight`, in whose place `merged` will stand; `recomputed` is what merged less the delta gives, and undefined
  /// unless that is asked for.
  KeptBits(LoraBase base, const Tensor& weight, const Tensor& recomputed);
  /// On the CPU where they are kept; for `recompute` the given tensor on the CPU, mended.
  Tensor restored(const Tensor& recomputed) const;

 private:
  LoraBase base_ = LoraBase::cpu;
  Tensor values_;
  Shared<std::unique_ptr<std::FILE, int (*)(std::FILE*)>> file_;
  DType dtype_ = DType::f32;
  Dims shape_;
  // Those that would drift by more than one unit in the last place.
  std::vector<int64_t> places_;
};

class LowRank {
 public:
  /// For a weight [out, in], or this process's part of one.
  LowRank(const ModuleTensor& weight, const LoraOptions& options, bool of_embedding, const LayerInParts* parts,
          Location where);

  /// x · (w + s B A)ᵀ + bias, where w is the layer's own handle of the weight.
  Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias, bool training, Location where,
                const LayerInParts* parts = nullptr) const;
  /// Rows of w + s B A.
  Tensor embedding(const Tensor& w, const Tensor& indices, int64_t padding, bool training, Location where) const;

  void merge(Location where);
  void unmerge(Location where);
  /// W as it is without the adapter.
  Tensor unmerged() const;
  /// Of a module that holds the adapter.
  void set_training(bool on);

  double scale() const;

  LoraOptions options;
  // The same tensors that the layer holds.
  ModuleTensor weight;
  Linear a, b;
  Buffer merged_flag;
  weft::detail::Flag<false> merged;
  bool of_embedding = false;
  /// Whether a layer without this adapter holds the weight.
  bool has_others = false;

 private:
  struct Part;
  /// The rows of W that are adapted, with the rows of A and B that do it.
  std::vector<Part> parts() const;
  void check_not_training(bool training, Location where) const;
  /// y + u · Bᵀ, where u is x · Aᵀ.
  Tensor adapted(const Tensor& y, const Tensor& u, const Tensor& b) const;
  /// from + by · B A, in float32 or float64, rounded to the weight's dtype.
  Tensor shifted(const Tensor& from, double by) const;

  KeptBits kept_;
};

/// A Linear or an Embedding that is to get an adapter.
struct LoraTarget {
  std::string name;
  Module module;
  LoraOptions options;
};
/// Gives each its adapter, or none of them where one is refused; all that hold one of their weights in `model` get it.
/// The names of those whose adapter it is.
std::vector<std::string> attach(const Module& model, const std::vector<LoraTarget>& targets, Location where);
/// Drops the adapters of a model; weights stay as they are.
void detach(const Module& model);
/// Adds what attach_described reads.
void write_options(Config& config, const LoraOptions& options);
/// Makes the adapters that a description has.
void attach_described(const ModuleDescription& description, const Module& model, Location where);
/// Null for a layer without an adapter. The adapter is the layer's own where its parts are children there.
const LowRank* adapter_of(const Module& module);
bool is_own(const Module& module, const LowRank& adapter);
/// Those of a model, each once, with the names of the layers that they are children of.
std::vector<std::pair<std::string, LowRank*>> adapters_of(const Module& model);

/// By the weights in whose places they stand.
std::unordered_map<const TensorImpl*, const LowRank*> merged_adapters(const Module& model);

/// Takes merged weights apart, so that others can be put in their place.
class TakenApart {
 public:
  explicit TakenApart(const Module& model);
  /// Merges those that were, or what the flags say that were among the values just loaded.
  void put_together(const StateDict& loaded) const;

 private:
  std::vector<std::pair<std::string, LowRank*>> adapters_;
  std::vector<LowRank*> were_merged_;
};

}  // namespace weft::nn::detail
