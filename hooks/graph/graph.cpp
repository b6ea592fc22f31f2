#include "../graph.hpp"

#include <algorithm>
#include <new>
#include <queue>
#include <unordered_map>

#include <fmt/format.h>

#include "../../autograd/accumulation.hpp"
#include "../../autograd/from_ops.hpp"
#include "../../autograd/node.hpp"
#include "../detail/graph_text.hpp"
#include "../detail/text.hpp"

namespace weft {

namespace {

struct Form {
  DType dtype;
  Dims shape;
  Device device;
};
Form form_of(const Tensor& t) { return {t.dtype(), t.shape(), t.device()}; }

class Collector {
 public:
  Collector(const Tensor& tensor, const GraphOptions& options) : options_(options) {
    collect(tensor.impl()->node);
    for (Node* node : nodes_) graph_.nodes.push_back(described(*node));
    connect();
    find_depths();
    find_saved();
    if (options.shapes) {
      results_[{nodes_[0], tensor.impl()->output_number}] = form_of(tensor);
      find_shapes();
    }
  }
  Graph take() { return std::move(graph_); }

 private:
  using Result = std::pair<Node*, uint16_t>;
  struct HashResult {
    size_t operator()(const Result& r) const { return std::hash<Node*>()(r.first) * 31 + r.second; }
  };

  // Highest order first visits consumers before producers.
  void collect(Node* root) {
    const auto lower = [](Node* a, Node* b) { return a->order < b->order; };
    std::priority_queue<Node*, std::vector<Node*>, decltype(lower)> waiting(lower);
    std::unordered_map<Node*, bool> seen;
    const auto add = [&](Node* node) {
      if (seen.try_emplace(node, true).second) waiting.push(node);
    };
    for (add(root); !waiting.empty();) {
      Node* node = waiting.top();
      waiting.pop();
      if (nodes_.size() < options_.most_nodes) {
        index_[node] = nodes_.size();
        nodes_.push_back(node);
      } else {
        ++graph_.left_out;
      }
      for (int i = 0; i < node->edge_count; ++i) {
        if (node->wants(i)) add(node->edges[i].node());
      }
    }
  }

  GraphNode described(Node& node) const {
    GraphNode out{.op = node.op, .where = node.where, .released = node.released()};
    if (!node.accumulates) return out;
    out.leaf = true, out.op = "leaf";
    if (TensorImpl* leaf = static_cast<AccumulationNode&>(node).leaf) {
      out.dtype = leaf->view.layout.dtype;
      out.shape = Dims(std::span(leaf->view.layout.sizes, leaf->view.layout.rank));
      for (const auto& [name, tensor] : options_.names) {
        if (tensor.defined() && tensor.impl() == leaf) out.name = name;
      }
    }
    return out;
  }

  void connect() {
    for (size_t to = 0; to < nodes_.size(); ++to) {
      for (int i = 0; i < nodes_[to]->edge_count; ++i) {
        const auto from = index_.find(nodes_[to]->edges[i].node());
        if (from != index_.end()) graph_.edges.emplace_back(from->second, to);
      }
    }
  }

  void find_depths() {
    for (const auto& [from, to] : graph_.edges) {
      int& depth = graph_.nodes[from].depth;
      depth = std::max(depth, graph_.nodes[to].depth + 1);
    }
  }

  void find_saved() {
    std::unordered_map<const Storage*, bool> leaves;
    for (Node* node : nodes_) {
      if (!node->accumulates) continue;
      if (const TensorImpl* leaf = static_cast<AccumulationNode*>(node)->leaf) leaves[leaf->storage] = true;
    }
    std::unordered_map<const Storage*, size_t> known;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      auto& saved = graph_.nodes[i].saved;
      detail::visit_saved(*nodes_[i], [&](const Tensor& t) {
        const Storage* storage = t.impl()->storage;
        const auto [entry, fresh] = known.try_emplace(storage, graph_.buffers.size());
        if (fresh) {
          // A small tensor's elements are stored inside the tensor object, and its storage has size 0.
          const int64_t bytes = std::max<int64_t>(static_cast<int64_t>(storage->bytes), t.nbytes());
          graph_.buffers.push_back({.bytes = bytes, .of_leaf = leaves.contains(storage)});
        }
        if (std::find(saved.begin(), saved.end(), entry->second) != saved.end()) return;
        saved.push_back(entry->second);
        ++graph_.buffers[entry->second].users;
      });
    }
  }

  void find_shapes() {
    const NoGradGuard unrecorded;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = *nodes_[i];
      if (const auto form = results_.find({&node, 0}); form != results_.end()) {
        graph_.nodes[i].dtype = form->second.dtype, graph_.nodes[i].shape = form->second.shape;
      }
      if (!node.accumulates && !node.released()) pass_zeros(node, graph_.nodes[i]);
    }
  }

  void pass_zeros(Node& node, GraphNode& shown) {
    std::vector<Tensor> incoming(node.output_count), outgoing(node.edge_count);
    bool any = false;
    for (uint16_t k = 0; k < node.output_count; ++k) {
      const auto form = results_.find({&node, k});
      if (form == results_.end()) continue;
      incoming[k] = detail::zeros_unrecorded(form->second.shape, form->second.dtype, form->second.device);
      any = true;
    }
    if (!any) return;
    try {
      node.functions->run(node, incoming.data(), outgoing.data());
    } catch (const AutogradError&) {
      shown.overwritten = true;
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {
      // A custom backward may not accept zeros; then the inputs stay without shapes.
    }
    for (int k = 0; k < node.edge_count; ++k) {
      if (!outgoing[k].defined() || !node.wants(k)) continue;
      results_.try_emplace({node.edges[k].node(), node.edges[k].output()}, form_of(outgoing[k]));
    }
  }

  const GraphOptions& options_;
  std::vector<Node*> nodes_;
  std::unordered_map<Node*, size_t> index_;
  std::unordered_map<Result, Form, HashResult> results_;
  Graph graph_;
};

}  // namespace

Graph draw_graph(const Tensor& tensor, const GraphOptions& options, Location where) {
  if (!tensor.defined() || !needs_gradient(tensor.impl()) || tensor.impl()->node == nullptr) {
    raise<AutogradError>({.op = "draw_graph",
                          .problem = "the tensor has no graph",
                          .remedy = "it needs a leaf that requires a gradient, and recording must be on"},
                         where);
  }
  return Collector(tensor, options).take();
}

int64_t Graph::saved_bytes() const {
  int64_t sum = 0;
  for (const SavedBuffer& b : buffers) sum += b.of_leaf ? 0 : b.bytes;
  return sum;
}

std::string detail::bytes_text(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double v = static_cast<double>(bytes);
  const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  int unit = -1;
  while (v >= 1024 && unit < 3) v /= 1024, ++unit;
  return fmt::format("{:.3g} {}", v, units[unit]);
}

std::string detail::buffer_letter(const Graph& graph, size_t buffer) {
  const auto named = [](const SavedBuffer& b) { return b.users > 1 && !b.of_leaf; };
  if (!named(graph.buffers[buffer])) return "";
  const int64_t n = std::count_if(graph.buffers.begin(), graph.buffers.begin() + static_cast<ptrdiff_t>(buffer), named);
  const std::string out(1, static_cast<char>('A' + n % 26));
  return n < 26 ? out : out + std::to_string(n / 26);
}

std::vector<std::string> detail::node_lines(const Graph& graph, const GraphNode& node) {
  std::vector<std::string> lines = {node.name.empty() ? node.op : node.name};
  if (node.shape) lines.push_back(std::string(weft::name(*node.dtype)) + " " + node.shape->text());
  if (node.where.known() && !node.leaf) {
    const std::string text = node.where.text();
    lines.push_back(text.substr(text.find_last_of('/') + 1));
  }
  int64_t bytes = 0;
  bool leaf_only = true;
  std::string shared;
  for (size_t b : node.saved) {
    leaf_only = leaf_only && graph.buffers[b].of_leaf;
    if (!graph.buffers[b].of_leaf) bytes += graph.buffers[b].bytes;
    const std::string letter = buffer_letter(graph, b);
    if (!letter.empty()) shared += (shared.empty() ? "" : ", ") + letter;
  }
  if (!node.saved.empty()) {
    std::string line = leaf_only ? "keeps a leaf" : "keeps " + bytes_text(bytes);
    if (!shared.empty()) line += ", shared: " + shared;
    lines.push_back(line);
  }
  if (node.released) lines.push_back("freed");
  if (node.overwritten) lines.push_back("OVERWRITTEN: backward would fail");
  return lines;
}

std::string detail::graph_summary(const Graph& graph) {
  int64_t shared = 0, kept = 0, leaves = 0;
  for (const SavedBuffer& b : graph.buffers) {
    if (b.of_leaf) continue;
    ++kept;
    shared += b.users > 1;
  }
  for (const GraphNode& n : graph.nodes) leaves += n.leaf;
  const auto count = [](int64_t n, const char* one, const char* many) {
    return fmt::format("{} {}", n, n == 1 ? one : many);
  };
  std::string out = fmt::format(
      "{} and {}; backward keeps {} in {}", count(static_cast<int64_t>(graph.nodes.size()) - leaves, "op", "ops"),
      count(leaves, "leaf", "leaves"), bytes_text(graph.saved_bytes()), count(kept, "buffer", "buffers"));
  if (shared > 0) out += fmt::format(", {} of them shared", shared);
  if (graph.left_out > 0) out += fmt::format("; {} further nodes are not shown", graph.left_out);
  return out;
}

std::string Graph::dot() const {
  std::string out = "digraph weft {\n  rankdir=TB;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n";
  out += fmt::format("  label={};\n", detail::json_text(detail::graph_summary(*this)));
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::string label;
    for (const std::string& line : detail::node_lines(*this, nodes[i])) {
      const std::string quoted = detail::json_text(line);
      label += (label.empty() ? "" : "\\n") + quoted.substr(1, quoted.size() - 2);
    }
    const char* look = nodes[i].leaf          ? ", style=\"rounded,filled\", fillcolor=\"#ddf4ff\""
                       : nodes[i].overwritten ? ", color=\"#cf222e\", penwidth=2"
                                              : "";
    out += fmt::format("  n{} [label=\"{}\"{}];\n", i, label, look);
  }
  for (const auto& [from, to] : edges) out += fmt::format("  n{} -> n{};\n", from, to);
  return out + "}\n";
}

}  // namespace weft
