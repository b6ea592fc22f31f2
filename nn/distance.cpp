#include "distance.hpp"

#include "../ops/distance.hpp"
#include "description-inl.hpp"

namespace weft::nn {

static auto describe(Of<CosineSimilarity>) {
  return described("CosineSimilarity", "cosine_similarity", option("dim", 1).hidden(), option("eps", 1e-8).hidden());
}
static auto describe(Of<PairwiseDistance>) {
  return described("PairwiseDistance", "pairwise_distance", option("p", 2.0).hidden(), option("eps", 1e-6).hidden(),
                   option("keepdim", false).hidden());
}

CosineSimilarity::CosineSimilarity(int dim, double eps, Location where) : dim_(dim), eps_(eps) {
  set_options(*this, where, dim, eps);
  forward(with_dim(dim), with_dim(dim), where);
}

Tensor CosineSimilarity::forward(const Tensor& a, const Tensor& b, Location where) const {
  return cosine_similarity(a, b, dim_, eps_, where);
}

PairwiseDistance::PairwiseDistance(double p, double eps, bool keepdim, Location where)
    : p_(p), eps_(eps), keepdim_(keepdim) {
  set_options(*this, where, p, eps, keepdim);
  forward(empty_batch(0), empty_batch(0), where);
}

Tensor PairwiseDistance::forward(const Tensor& a, const Tensor& b, Location where) const {
  return pairwise_distance(a, b, p_, eps_, keepdim_, where);
}

void detail::describe_distances(LayerList& list) { list.add<CosineSimilarity, PairwiseDistance>(); }

}  // namespace weft::nn
