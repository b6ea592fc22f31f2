// A backward pass in two. Not public.
#pragma once

#include <vector>

#include "../../autograd/node.hpp"

namespace weft::distributed::detail {

/// First the gradients of some leaves, later those of all others: each node's backward runs for the edges that lead to
/// those leaves, and once more for the rest. Together they are one backward pass, bit for bit; hooks run once.
class SplitBackward {
 public:
  /// Of outputs that require gradients, with a seed for each. Computes the gradients of `leaves`.
  SplitBackward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                const std::vector<Tensor>& leaves);
  /// Undefined where no output depends on the leaf.
  const std::vector<Tensor>& gradients() const { return gradients_; }
  /// Adds to the gradients of all other leaves; once.
  void finish();

 private:
  /// A node on the way to the leaves, with edges to others.
  struct Fork {
    Edge node;  ///< a reference
    std::vector<Tensor> incoming = {};
  };
  struct Watch;

  bool leads_on(const Edge& edge) const;
  void find_forks(const std::vector<Tensor>& outputs, const std::vector<Tensor>& leaves);
  void add_rest(Fork& fork);

  /// Nodes on the way to the leaves, which `outputs_` keep alive; sorted.
  std::vector<const Node*> leading_;
  /// In the order in which their gradients came.
  std::vector<Fork> forks_;
  std::vector<Tensor> outputs_, gradients_;
  /// Where the rest begins, and its seeds.
  std::vector<Tensor> roots_, seeds_;
};

}  // namespace weft::distributed::detail
