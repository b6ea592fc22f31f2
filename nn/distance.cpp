#include "distance.hpp"

#include "../ops/distance.hpp"
#include "layer-inl.hpp"

namespace weft::nn {

CosineSimilarity::CosineSimilarity(int dim, double eps, Location where) : dim_(dim), eps_(eps) {
  set_config({{"dim", dim}, {"eps", eps}});
  set_extra_repr({});
  forward(with_dim(dim), with_dim(dim), where);
}

Tensor CosineSimilarity::forward(const Tensor& a, const Tensor& b, Location where) const {
  return cosine_similarity(a, b, dim_, eps_, where);
}

PairwiseDistance::PairwiseDistance(double p, double eps, bool keepdim, Location where)
    : p_(p), eps_(eps), keepdim_(keepdim) {
  set_config({{"p", p}, {"eps", eps}, {"keepdim", keepdim}});
  set_extra_repr({});
  forward(empty_batch(0), empty_batch(0), where);
}

Tensor PairwiseDistance::forward(const Tensor& a, const Tensor& b, Location where) const {
  return pairwise_distance(a, b, p_, eps_, keepdim_, where);
}

}  // namespace weft::nn
