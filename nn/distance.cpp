#include "distance.hpp"

#include "../ops/distance.hpp"

namespace weft::nn {

Tensor CosineSimilarity::forward(const Tensor& a, const Tensor& b, Location where) const {
  return cosine_similarity(a, b, dim_, eps_, where);
}

Tensor PairwiseDistance::forward(const Tensor& a, const Tensor& b, Location where) const {
  return pairwise_distance(a, b, p_, eps_, keepdim_, where);
}

}  // namespace weft::nn
