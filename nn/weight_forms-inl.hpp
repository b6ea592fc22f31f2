// The forms of a layer's weight. Internal to nn/.
//
// A plain layer computes with the float tensors that it stores. Its state has a null pointer to WeightForms, and
// forward tests that pointer only. In other layers the weight passes a chain, always in this order:
//
//   stored        a float parameter, the originals of parametrizations, or codes of 8 or 4 bits (nn::quantize)
//   decoded       codes · scale + zero. nn::convert_to_fp8 rounds a float weight within each product instead
//   parametrized  the steps of register_parametrization, applied to the originals
//   adapted       + s B A of LoRA, which is computed as x · Aᵀ · Bᵀ beside x · Wᵀ
//   sharded       the shard of this rank, with communication before and after its product
//
// The order of conversions does not matter: a layer that is quantized and then adapted is the same as one that is
// adapted and then quantized. Gradients follow from the ops of each form. Rules for combinations:
//
// - Float weights, codes and adapters are stored as shards. A parametrization is a function of a whole tensor, so each
//   rank stores all originals and takes its shard of the computed weight. Gradients of the originals are summed over
//   ranks.
// - An adapter freezes the forms below it. merge_lora overwrites a float parameter by the sum and keeps its bits. For
//   other weights, and for those that other layers hold, it computes the sum from the decoded or parametrized weight
//   and keeps it beside the stored form. merge_and_unload_lora makes that sum the weight of a plain layer.
// - state_dict has the stored form: codes or originals, adapters, and in a sharded layer the shards of this rank.
// - A Linear can have all forms. An Embedding can be parametrized, adapted and sharded, other layers parametrized.
//
// `check_form` refuses the combinations without a meaning. Its table has the reasons:
//   codes of a parametrized weight (it is computed in each call), or of the sum with a merged adapter;
//   a parametrization of a shard, or of a merged weight; shards of a merged weight.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "parametrize/parametrized-inl.hpp"
#include "quantize/weight_format-inl.hpp"
#include "sharded_layer-inl.hpp"

namespace weft::nn::detail {

class LowRank;

/// The LoRA adapter of a layer (nn/lora/low_rank-inl.hpp): copies of the module share it, a clone has its own.
class AdapterSlot {
 public:
  AdapterSlot() = default;
  AdapterSlot(const AdapterSlot& other);
  AdapterSlot& operator=(const AdapterSlot&) = default;

  Shared<LowRank> held;
};

struct WeightForms {
  /// Null for a float tensor.
  Shared<const WeightFormat> format;
  std::vector<ParametrizedTensor> parametrized;
  AdapterSlot adapter;
  Shared<const ShardedLayer> sharding;

  bool is_empty() const {
    return format == nullptr && parametrized.empty() && adapter.held == nullptr && sharding == nullptr;
  }
};

/// The forms in a module's state; null in a plain layer. A copy has its own.
class FormsSlot {
 public:
  FormsSlot() = default;
  FormsSlot(const FormsSlot& other)
      : held_(other.held_ == nullptr ? nullptr : std::make_unique<WeightForms>(*other.held_)) {}

  WeightForms* get() const { return held_.get(); }
  WeightForms& get_or_make() {
    if (held_ == nullptr) held_ = std::make_unique<WeightForms>();
    return *held_;
  }
  /// Called after a form was removed.
  void drop_if_empty() {
    if (held_ != nullptr && held_->is_empty()) held_.reset();
  }

 private:
  std::unique_ptr<WeightForms> held_;
};

/// Null for a plain layer.
WEFT_API WeightForms* forms_of(const Module& layer);
/// Null for a layer without an adapter.
WEFT_API LowRank* adapter_of(const Module& layer);

/// The parametrized tensors of a module.
WEFT_API const std::vector<ParametrizedTensor>& parametrized_of(const Module& module);

/// x · Wᵀ + b of a Linear with forms.
WEFT_API Tensor linear_with_forms(const Module& layer, const Tensor& x, Location where);
/// Rows of W of an Embedding. Undefined unless it is adapted or sharded.
WEFT_API Tensor embedding_with_forms(const Module& layer, const Tensor& indices, int64_t padding, Location where);
/// The current parameter, or value of the parametrized tensor, of that name, as its shard; undefined if there is none.
WEFT_API Tensor current_tensor(const Module& layer, std::string_view name, Location where);
/// The value of a parametrized tensor, as its shard. Notes that forward requested it.
Tensor parametrized_shard(const Module& layer, const ParametrizedTensor& p, Location where);
/// The float weight below the adapter, as its shard: decoded, parametrized or stored.
Tensor base_weight(const Module& layer, Location where);
/// Whether base_weight exists and is a matrix, without computing it.
WEFT_API bool has_weight_matrix(const Module& layer);
/// Names of Linear layers that take no adapter and no format, because another module reads their weights: the out_proj
/// of MultiheadAttention.
std::unordered_set<std::string> layers_without_forms(const Module& model);
/// Requires has_weight_matrix.
WEFT_API BaseWeight describe_base(const Module& layer, Location where);

/// Replaces the parameter of that name, in all members.
void set_stored(const Module& layer, std::string_view name, const Tensor& value);

enum class Form : uint8_t { codes, parametrized, sharded };
/// Raises ValueError if the layer's present forms have no meaning together with `added`.
void check_form(const char* op, const Module& layer, const std::string& name, Form added, Location where);

}  // namespace weft::nn::detail
