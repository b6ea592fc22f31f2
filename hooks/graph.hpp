// The autograd graph of a tensor, as data and as an image.
//
//   std::ofstream("graph.svg") << draw_graph(loss).svg();
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "named.hpp"
#include "../tensor/index.hpp"

namespace weft {

struct GraphOptions {
  /// Names of leaves, such as `names_of(model)`.
  NamedTensors names = {};
  /// Finds the shapes of the nodes' results by running every node's backward once on zeros. No hook is called and no
  /// `.grad` changes, but it takes the time of a backward and calls custom `backward` functions.
  bool shapes = true;
  /// In a larger graph only the nodes nearest to the tensor are kept; the image says so.
  size_t most_nodes = 300;
};

/// Memory kept for backward.
struct SavedBuffer {
  int64_t bytes = 0;
  /// Number of nodes that keep it.
  int users = 0;
  /// It is the memory of a leaf (a weight, an input), which exists anyway.
  bool of_leaf = false;
};

struct GraphNode {
  /// The op's name, as in errors; "leaf" for a leaf.
  std::string op;
  /// A leaf's name from `GraphOptions::names`.
  std::string name = {};
  Location where = Location::none();
  bool leaf = false;
  /// A backward without retain_graph released the saved tensors.
  bool released = false;
  /// Its backward would raise, since a saved tensor was modified.
  bool overwritten = false;
  /// dtype and shape of the (first) result; unknown if no gradient arrives.
  std::optional<DType> dtype = {};
  std::optional<Dims> shape = {};
  /// Indices into `Graph::buffers`.
  std::vector<size_t> saved = {};
  /// Length of the longest path to the drawn tensor, in edges.
  int depth = 0;
};

struct WEFT_API Graph {
  /// In topological order: the tensor's node first, each node before those of its inputs.
  std::vector<GraphNode> nodes;
  /// From a producer to the node that reads its result.
  std::vector<std::pair<size_t, size_t>> edges;
  std::vector<SavedBuffer> buffers;
  /// Number of nodes beyond `most_nodes`.
  size_t left_out = 0;

  /// Bytes kept only for backward; each buffer counts once.
  int64_t saved_bytes() const;
  /// Returns a graph for Graphviz' `dot`.
  std::string dot() const;
  /// Returns a self-contained SVG, legible on light and dark backgrounds: inputs at the top, the tensor at the bottom.
  std::string svg() const;
};

/// Returns the graph that leads to `tensor`, which is not changed. Raises AutogradError if the tensor requires no
/// gradient.
WEFT_API Graph draw_graph(const Tensor& tensor, const GraphOptions& options = {}, Location where = {});

}  // namespace weft
