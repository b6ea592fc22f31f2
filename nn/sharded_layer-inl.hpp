// A layer with tensors that are sharded over several processes (distributed/tensor_parallel.hpp), the last of the forms
// in weight_forms-inl.hpp. Not public.
//
// A parallel layer is the ordinary layer with communication before and after its product. So existing models are
// sharded in place and LoRA finds the layers. Weights that this rank does not hold read as NaN, which exposes wrong
// use.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <typeinfo>

#include "../tensor/generator.hpp"
#include "module.hpp"

namespace weft::nn {
enum class ExpertKind : uint8_t;
}

namespace weft::nn::detail {

struct Routed;
struct RouterSums;

/// The operations around the product with this process's shard of a weight, and the index of the shard.
class ShardedLayer {
 public:
  ShardedLayer(int count, int index) : count(count), index(index) {}
  virtual ~ShardedLayer() = default;
  ShardedLayer(const ShardedLayer&) = delete;

  /// Whether products are partial sums, which are reduced before biases are added.
  virtual bool sums() const { return false; }
  /// The input of the product with a shard, from the input of the layer.
  virtual Tensor input(const Tensor& x) const { return x; }
  /// The output of the layer, from its product.
  virtual Tensor output(const Tensor& product) const { return product; }
  /// A replicated tensor; its gradient is summed over processes if each computes a partial gradient.
  virtual Tensor shared(const Tensor& whole) const { return whole; }
  /// A replicated tensor of which each process reads its shard: its gradient is summed over processes. Nothing if the
  /// layer stores all its tensors as shards.
  virtual std::optional<Tensor> replicated(const Tensor&) const { return {}; }
  virtual Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t padding) const;
  /// Attention weights of all heads, [..., heads, queries, keys], or their mean, from those of this process's heads.
  virtual Tensor over_heads(const Tensor& weights, bool averaged) const;
  /// Mixture of experts: whether `through_experts` runs the experts. Otherwise this process has all of them.
  virtual bool shards_experts() const { return true; }
  /// Mixture of experts: runs the experts on the routed tokens and returns the weighted sums.
  virtual Tensor through_experts(const Tensor& tokens, const Routed& routed, const Tensor& up, const Tensor& down,
                                 ExpertKind kind) const;
  /// Sums over the tokens of all processes, from those of this process.
  virtual RouterSums sums(const RouterSums& own) const;
  /// The dimension along which a tensor of the layer is sharded: "weight", "bias", "lora_A.weight", "lora_B.weight".
  virtual std::optional<int> shard_dim(std::string_view name) const = 0;
  /// Number of equal blocks along dimension 0 of a sharded tensor, such as queries, keys and values. Each block is
  /// sharded separately.
  virtual int64_t blocks_of(std::string_view) const { return 1; }

  /// Reduces the partial sums of the processes, then adds the bias.
  Tensor sum(const Tensor& term, const Tensor& bias) const;
  /// product(x, bias), which is x · Wᵀ + bias with the shard of W, and the communication around it.
  template <class Product>
  Tensor linear(const Tensor& x, const Tensor& bias, Product&& product) const {
    if (!sums()) return output(product(input(x), bias));
    return sum(product(input(x), Tensor()), bias);
  }
  /// This process's shard of a whole tensor along `dim`, of each of its equal blocks: a view if there is one block.
  Tensor shard_of(const Tensor& whole, int dim, int64_t blocks = 1) const;

  const int count, index;
};

/// Replaces each tensor by its shard; calls then compute with it. Raises ValueError unless the module's tensors can be
/// sharded this way.
WEFT_API void shard_layer(const Module& module, Shared<const ShardedLayer> parts, Location where);
/// The dimension along which a saved tensor of a sharded layer is sharded, by its name in the layer. Nothing for the
/// originals of parametrizations.
WEFT_API std::optional<int> shard_dim_of(const Module& layer, std::string_view name);
/// Number of equal blocks along dimension 0 of a tensor of the layer.
WEFT_API int64_t blocks_of(const Module& layer, std::string_view name);
/// Whether the layer is of this class or a derived one.
WEFT_API bool is_of(const Module& module, TypeId layer);
/// Null for a layer that is not sharded.
WEFT_API const ShardedLayer* sharding_of(const Module& module);

/// Makes a device's default generator draw from a subsequence of this process until destruction. All processes draw
/// equally often, so that their generators have the same state afterwards.
class WEFT_API ShardRngScope {
 public:
  ShardRngScope(int index, Device device);
  ~ShardRngScope();
  ShardRngScope(const ShardRngScope&) = delete;

 private:
  Generator& generator_;
  const uint64_t outer_;
};

}  // namespace weft::nn::detail
