// The recorded graph of a tensor, as data and as a picture.
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
  /// Nodes do not know the shapes of their results. To find them, every node's backward runs once on zeros: no hook is
  /// called and no `.grad` changes, but it takes the time of a backward and calls the user's own `backward` functions.
  bool shapes = true;
  /// Of a larger graph only the nodes nearest to the tensor are taken, and the picture says so.
  size_t most_nodes = 300;
};

/// Memory kept for backward.
struct SavedBuffer {
  int64_t bytes = 0;
  /// How many nodes keep it.
  int users = 0;
  /// It is the memory of a leaf (a weight, an input), which exists anyway.
  bool of_leaf = false;
};

struct GraphNode {
  /// The name that errors give; "leaf" for a leaf.
  std::string op;
  /// A leaf's name from `GraphOptions::names`.
  std::string name = {};
  Location where = Location::none();
  bool leaf = false;
  /// A backward without retain_graph freed what it saved.
  bool released = false;
  /// Its backward would raise, since what it saved was written to.
  bool overwritten = false;
  /// dtype and shape of the (first) result; unknown where no gradient arrives.
  std::optional<DType> dtype = {};
  std::optional<Dims> shape = {};
  /// Indices into `Graph::buffers`.
  std::vector<size_t> saved = {};
  /// Length of the longest path to the tensor that was drawn, in edges.
  int depth = 0;
};

struct WEFT_API Graph {
  /// The tensor's own node first; a node comes before those that its inputs come from.
  std::vector<GraphNode> nodes;
  /// From a producer to the node that reads its result.
  std::vector<std::pair<size_t, size_t>> edges;
  std::vector<SavedBuffer> buffers;
  /// Nodes beyond `most_nodes`.
  size_t left_out = 0;

  /// Bytes kept for backward alone, each buffer once.
  int64_t saved_bytes() const;
  /// A graph for Graphviz' `dot`.
  std::string dot() const;
  /// A self-contained picture, readable on light and dark backgrounds: inputs at the top, the tensor at the bottom.
  std::string svg() const;
};

/// The graph that leads to `tensor`, which is not changed. AutogradError where the tensor requires no gradient.
WEFT_API Graph draw_graph(const Tensor& tensor, const GraphOptions& options = {}, Location where = {});

}  // namespace weft
