// Common layers. Parameters are f32 on the CPU, initialised as in PyTorch from the default generator; `to` moves and
// converts them. Errors of a call have the location of the call.
#pragma once

#include <concepts>
#include <optional>

#include "activations.hpp"
#include "containers.hpp"
#include "dropout.hpp"
#include "../ops/embedding_bag.hpp"
#include "../ops/index.hpp"

namespace weft::nn {

/// x [..., in] -> x · weightᵀ + bias [..., out]. weight is [out, in], bias [out]; both are initialised uniformly in
/// ±1/√in. Raises ValueError for negative sizes.
class WEFT_API Linear : public Layer<Linear> {
 public:
  Linear(int64_t in, int64_t out, bool bias = true, Location where = {});
  template <class = void>
  Linear(int64_t, int64_t, ...) = delete;  // bias is a bool: Linear(2, 16, false)
  Tensor forward(const Tensor& x, Location where) const;

  Parameter weight, bias;
};

/// Rows of weight [count, width] at integer indices of any shape: [..., width]. weight is initialised normally with
/// mean 0 and standard deviation `deviation`. The row `padding_idx`, if given, is initialised to 0 and gets no
/// gradient; a negative number counts from the end. Options are those of weft::embedding: nn::Embedding(1000000, 64,
/// {.sparse = true}). Raises ValueError for negative sizes or deviations and for a padding_idx out of range.
class WEFT_API Embedding : public Layer<Embedding> {
 public:
  Embedding(int64_t count, int64_t width, std::optional<int64_t> padding_idx = {}, Location where = {})
      : Embedding(count, width, EmbeddingOptions{padding_idx}, 1, where) {}
  Embedding(int64_t count, int64_t width, const EmbeddingOptions& options, double deviation = 1, Location where = {});
  /// Deleted: a third number is padding_idx, as in PyTorch. To set the deviation, pass it after the options.
  template <std::floating_point F>
  Embedding(int64_t count, int64_t width, F deviation, Location where = {}) = delete;
  Tensor forward(const Tensor& indices, Location where) const;

  Parameter weight;

 private:
  EmbeddingOptions options_;
};

/// weft::embedding_bag as a layer, with weight [count, width], initialised normally with mean 0 and standard deviation
/// 1, and the row `options.padding_idx` with 0. The options offsets and per_sample_weights are arguments of a call, not
/// of the layer. Raises ValueError for negative sizes and for a padding_idx out of range.
class WEFT_API EmbeddingBag : public Layer<EmbeddingBag> {
 public:
  EmbeddingBag(int64_t count, int64_t width, const EmbeddingBagOptions& options = {}, Location where = {});
  /// indices are [bags, n].
  Tensor forward(const Tensor& indices, Location where) const { return forward(indices, {}, {}, where); }
  /// indices are 1-d; `offsets` are the starts of the bags.
  Tensor forward(const Tensor& indices, const Tensor& offsets, Location where) const {
    return forward(indices, offsets, {}, where);
  }
  Tensor forward(const Tensor& indices, const Tensor& offsets, const Tensor& per_sample_weights, Location where) const;

  Parameter weight;

 private:
  EmbeddingBagOptions options_;
};

/// weft::layer_norm over the last dimensions, of sizes `shape`. weight is initialised to 1, bias to 0. Without `affine`
/// there is neither; without `bias` there is only the weight.
class WEFT_API LayerNorm : public Layer<LayerNorm> {
 public:
  explicit LayerNorm(const Dims& shape, double eps = 1e-5, bool affine = true, bool bias = true, Location where = {});
  explicit LayerNorm(std::initializer_list<int64_t> shape, double eps = 1e-5, bool affine = true, bool bias = true,
                     Location where = {})
      : LayerNorm(Dims(shape), eps, affine, bias, where) {}
  Tensor forward(const Tensor& x, Location where) const;

  Parameter weight, bias;

 private:
  Dims shape_;
  double eps_;
};

/// weft::rms_norm over the last dimensions, of sizes `shape`. weight is initialised to 1. The default `eps` is the
/// machine epsilon of x's dtype, or of f32 for 16-bit floats.
class WEFT_API RMSNorm : public Layer<RMSNorm> {
 public:
  explicit RMSNorm(const Dims& shape, std::optional<double> eps = {}, bool affine = true, Location where = {});
  explicit RMSNorm(std::initializer_list<int64_t> shape, std::optional<double> eps = {}, bool affine = true,
                   Location where = {})
      : RMSNorm(Dims(shape), eps, affine, where) {}
  Tensor forward(const Tensor& x, Location where) const;

  Parameter weight;

 private:
  Dims shape_;
  std::optional<double> eps_;
};

}  // namespace weft::nn
