// A layer of whose tensors each of several processes has a part (distributed/tensor_parallel.hpp). Not public.
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

/// What stands around the product with this process's part of a weight, and which part that is.
class LayerInParts {
 public:
  LayerInParts(int count, int index) : count(count), index(index) {}
  virtual ~LayerInParts() = default;
  LayerInParts(const LayerInParts&) = delete;

  /// Whether products are terms of a sum; then biases are added behind it.
  virtual bool sums() const { return false; }
  /// What the part of a weight is multiplied with, of what the layer is called with.
  virtual Tensor input(const Tensor& x) const { return x; }
  /// What the layer returns, of its product.
  virtual Tensor output(const Tensor& product) const { return product; }
  /// What all processes have whole, with a gradient that is added up where each has a term of it.
  virtual Tensor shared(const Tensor& whole) const { return whole; }
  /// Of a layer that looks up rows.
  virtual Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t padding) const;
  /// Of attention: weights of all heads, [..., heads, queries, keys], or their mean, of those of this process's heads.
  virtual Tensor over_heads(const Tensor& weights, bool averaged) const;
  /// Of a mixture of experts: what these make of the tokens that were routed, weighed and added up.
  virtual Tensor through_experts(const Tensor& tokens, const Routed& routed, const Tensor& up, const Tensor& down,
                                 ExpertKind kind) const;
  /// And of all processes' tokens, of those of this one.
  virtual RouterSums sums(const RouterSums& own) const;
  /// Along which dimension a tensor of the layer is cut: "weight", "bias", "lora_A.weight", "lora_B.weight".
  virtual std::optional<int> cut(std::string_view name) const = 0;
  /// Of how many equal blocks of outputs a tensor that is cut along dimension 0 consists, such as queries, keys and
  /// values, of each of which every process has its part.
  virtual int64_t blocks_of(std::string_view) const { return 1; }

  /// Of a layer that sums: the output of this process's term, and the bias behind it.
  Tensor sum(const Tensor& term, const Tensor& bias) const;
  /// x · weightᵀ + bias.
  Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) const;
  /// This process's part of a whole tensor, along `dim`: of each of the equal blocks that it consists of there.
  Tensor part_of(const Tensor& whole, int dim, int64_t blocks = 1) const;

  const int count, index;
};

/// ValueError unless the module's tensors can be cut so; then each keeps its part, and calls compute with it.
WEFT_API void put_in_parts(const Module& module, Shared<const LayerInParts> parts, Location where);
/// How many equal blocks a tensor of such a layer consists of along dimension 0.
WEFT_API int64_t blocks_of(const Module& layer, std::string_view name);
/// Whether it is a layer of this class, or of one that is derived from it.
WEFT_API bool is_of(const Module& module, const std::type_info& layer);
/// Null for a layer that is whole.
WEFT_API const LayerInParts* parts_of(const Module& module);

/// While one lives, a device's default generator draws from this process's own subsequence. All processes draw as much,
/// so that generators stand alike behind it.
class WEFT_API DrawsOfPart {
 public:
  DrawsOfPart(int index, Device device);
  ~DrawsOfPart();
  DrawsOfPart(const DrawsOfPart&) = delete;

 private:
  Generator& generator_;
  const uint64_t outer_;
};

}  // namespace weft::nn::detail
