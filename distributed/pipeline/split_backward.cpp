// Nodes compute only the gradients that their edges request. So a node runs once without its edges to weights and
// once with only those, and ops need no support for it.
#include <algorithm>
#include <memory>
#include <unordered_set>

#include "../../autograd/autocast.hpp"
#include "../../autograd/engine.hpp"
#include "../../autograd/saved_hooks.hpp"
#include "split_backward-inl.hpp"

namespace weft::distributed::detail {

namespace {

/// While one exists, the node has only those edges for which `keeps` returns true.
class HiddenEdges {
 public:
  template <class Keeps>
  HiddenEdges(Node& node, Keeps keeps) : node_(node) {
    hidden_.resize(node.edge_count);
    for (size_t i = 0; i < hidden_.size(); ++i) {
      if (!keeps(node.edges[i])) hidden_[i] = std::move(node.edges[i]);
    }
  }
  ~HiddenEdges() {
    for (size_t i = 0; i < hidden_.size(); ++i) {
      if (hidden_[i]) node_.edges[i] = std::move(hidden_[i]);
    }
  }
  HiddenEdges(const HiddenEdges&) = delete;

 private:
  Node& node_;
  std::vector<Edge> hidden_;
};

class StreamsOf {
 public:
  explicit StreamsOf(const Node& node) : outer_(weft::detail::current_streams) { go_to(node.streams); }
  ~StreamsOf() { go_to(outer_); }
  StreamsOf(const StreamsOf&) = delete;

 private:
  static void go_to(uint16_t streams) {
    if (streams != weft::detail::current_streams) weft::detail::switch_streams(streams);
  }
  uint16_t outer_;
};

}  // namespace

/// Stores the gradients that arrive at the forks.
struct SplitBackward::Watch final : BackwardWatch {
  explicit Watch(std::vector<Fork>& forks_) : forks(forks_) {}
  void before(const BackwardPass&, Node& node, std::span<const Tensor> incoming) override {
    const auto found = std::ranges::find(forks, &node, [](const Fork& fork) { return fork.node.node(); });
    if (found == forks.end()) return;
    found->incoming.assign(incoming.begin(), incoming.end());
    came.push_back(std::move(*found));
    forks.erase(found);
  }
  std::vector<Fork>& forks;
  std::vector<Fork> came;
};

SplitBackward::SplitBackward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                             const std::vector<Tensor>& leaves)
    : outputs_(outputs), gradients_(leaves.size()) {
  find_forks(outputs, leaves);
  std::vector<Tensor> leading, leading_seeds;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool leads = leads_on(gradient_edge(outputs[i].impl()));
    (leads ? leading : roots_).push_back(outputs[i]);
    (leads ? leading_seeds : seeds_).push_back(seeds[i]);
  }
  if (leading.empty() || leaves.empty()) return;
  Watch watch(forks_);
  {
    std::vector<std::unique_ptr<HiddenEdges>> hidden;
    for (const Fork& fork : forks_) {
      hidden.push_back(std::make_unique<HiddenEdges>(*fork.node.node(), [&](const Edge& e) { return leads_on(e); }));
    }
    const BackwardWatchGuard watched(watch);
    gradients_ = grad(leading, leaves, leading_seeds, {.retain_graph = true, .allow_unused = true});
  }
  forks_ = std::move(watch.came);
}

bool SplitBackward::leads_on(const Edge& edge) const { return std::ranges::binary_search(leading_, edge.node()); }

void SplitBackward::find_forks(const std::vector<Tensor>& outputs, const std::vector<Tensor>& leaves) {
  std::unordered_set<const Node*> leading, seen;
  for (const Tensor& leaf : leaves) leading.insert(gradient_edge(leaf.impl()).node());
  std::vector<std::pair<Node*, int>> stack;
  const auto visit = [&](Node* node) {
    if (node != nullptr && seen.insert(node).second) stack.emplace_back(node, 0);
  };
  for (const Tensor& output : outputs) {
    visit(gradient_edge(output.impl()).node());
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node->edge_count) {
        visit(node->edges[next++].node());
        continue;
      }
      const auto leads = [&](const Edge& e) { return e && leading.contains(e.node()); };
      const auto strays = [&](const Edge& e) { return e && !leading.contains(e.node()); };
      const std::span<const Edge> edges(node->edges, node->edge_count);
      if (std::ranges::any_of(edges, leads)) {
        leading.insert(node);
        if (std::ranges::any_of(edges, strays)) forks_.push_back({Edge(node, 0)});
      }
      stack.pop_back();
    }
  }
  leading_.assign(leading.begin(), leading.end());
  std::ranges::sort(leading_);
}

void SplitBackward::add_rest(Fork& fork) {
  Node& node = *fork.node.node();
  std::vector<Tensor> outgoing(node.edge_count);
  const HiddenEdges hidden(node, [&](const Edge& e) { return !leads_on(e); });
  {
    const StreamsOf streams(node);
    std::vector<Tensor> incoming = fork.incoming;  // a copy, since run() may move from it or write to it
    node.functions->run(node, incoming.data(), outgoing.data());
    weft::detail::drop_unpacked(node);
  }
  for (size_t i = 0; i < outgoing.size(); ++i) {
    const Edge& edge = node.edges[i];
    if (!edge || !outgoing[i].defined()) continue;
    roots_.push_back(outgoing[i].detach());
    edge.node()->refs.increment();
    set_history(roots_.back().impl(), edge.node(), edge.output());
    seeds_.push_back(std::move(outgoing[i]));
  }
}

void SplitBackward::finish() {
  {
    const GradModeGuard unrecorded({.enabled = false, .inference = false});
    const weft::detail::AutocastModeGuard as_recorded({});
    const OutsideCalls outside;
    for (Fork& fork : forks_) add_rest(fork);
  }
  forks_.clear();
  if (!roots_.empty()) weft::backward(roots_, seeds_);
  roots_.clear();
}

}  // namespace weft::distributed::detail
