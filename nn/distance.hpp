// Similarity and distance layers of two tensors.
#pragma once

#include "module.hpp"

namespace weft::nn {

/// weft::cosine_similarity along `dim`.
class WEFT_API CosineSimilarity : public Layer<CosineSimilarity> {
 public:
  explicit CosineSimilarity(int dim = 1, double eps = 1e-8, Location where = {});
  Tensor forward(const Tensor& a, const Tensor& b, Location where) const;

 private:
  int dim_;
  double eps_;
};

/// weft::pairwise_distance: the p-norm of a - b + eps along the last dimension. ValueError for a p of NaN.
class WEFT_API PairwiseDistance : public Layer<PairwiseDistance> {
 public:
  explicit PairwiseDistance(double p = 2, double eps = 1e-6, bool keepdim = false, Location where = {});
  Tensor forward(const Tensor& a, const Tensor& b, Location where) const;

 private:
  double p_, eps_;
  bool keepdim_;
};

}  // namespace weft::nn
