// The parametrizations of weight_norm and spectral_norm. Internal to nn/ and its bindings.
#pragma once

#include "../parametrize.hpp"

namespace weft::nn::detail {

class WEFT_API WeightNorm : public Layer<WeightNorm> {
 public:
  /// `dim` must not be negative.
  explicit WeightNorm(std::optional<int> dim);
  Tensor forward(const Tensor& g, const Tensor& v, Location where) const;
  std::pair<Tensor, Tensor> right_inverse(const Tensor& weight) const;

 private:
  Tensor lengths(const Tensor& v, Location where) const;

  std::optional<int> dim_;
};

class WEFT_API SpectralNorm : public Layer<SpectralNorm> {
 public:
  SpectralNorm(const Tensor& weight, const SpectralNormOptions& options, Location where);
  Tensor forward(const Tensor& weight, Location where) const;
  Tensor right_inverse(const Tensor& value) const { return value; }

 private:
  Tensor normalized(const Tensor& x) const;
  /// The weight as a matrix with dimension dim_ as rows.
  Tensor as_matrix(const Tensor& weight) const;
  void iterate(const Tensor& matrix, int64_t times) const;

  SpectralNormOptions options_;
  int dim_;
  Buffer u_, v_;
};

}  // namespace weft::nn::detail
