// A backward pass in two parts. Not public.
#pragma once

#include <vector>

#include "../../autograd/node.hpp"

namespace weft::distributed::detail {

/// Computes first the gradients of some leaves, later those of all others: each node's backward runs for the edges that
/// lead to the first leaves, and again for the rest. Together they equal one backward pass bit for bit; hooks run once.
class SplitBackward {
 public:
  /// Computes the gradients of `leaves`, from outputs that require gradients, with a seed for each.
  SplitBackward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                const std::vector<Tensor>& leaves);
  /// Undefined for a leaf that no output depends on.
  const std::vector<Tensor>& gradients() const { return gradients_; }
  /// Accumulates the gradients of all other leaves; called once.
  void finish();

 private:
  /// A node on a path to the leaves that also has edges to other nodes.
  struct Fork {
    Edge node;  // a reference to the node
    std::vector<Tensor> incoming = {};
  };
  struct Watch;

  bool leads_on(const Edge& edge) const;
  void find_forks(const std::vector<Tensor>& outputs, const std::vector<Tensor>& leaves);
  void add_rest(Fork& fork);

  /// Nodes on paths to the leaves, sorted; `outputs_` keep them alive.
  std::vector<const Node*> leading_;
  /// In the order in which their gradients arrived.
  std::vector<Fork> forks_;
  std::vector<Tensor> outputs_, gradients_;
  /// Start nodes of the second part, and their seeds.
  std::vector<Tensor> roots_, seeds_;
};

}  // namespace weft::distributed::detail
