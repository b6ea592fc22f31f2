#include "anomaly.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../autograd/engine.hpp"
#include "../autograd/node.hpp"
#include "../backends/nan_check.hpp"
#include "../backends/observe.hpp"

namespace weft {

using detail::find_non_finite;
using detail::is_input_too;
using detail::list_of;
using detail::shape_text;
using detail::text_of;
using detail::values_text;

namespace {

// ---- backward ---------------------------------------------------------------------------------------------------

// The nodes from a root down to `target`, by edges.
std::vector<const Node*> path_to(const Node& target, std::span<const Edge> roots) {
  std::vector<std::pair<const Node*, int>> stack;
  std::unordered_set<const Node*> seen;
  for (const Edge& root : roots) {
    if (!seen.insert(root.node()).second) continue;
    stack.assign(1, {root.node(), 0});
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (node == &target) {
        std::vector<const Node*> path;
        for (const auto& step : stack) path.push_back(step.first);
        return path;
      }
      // A node's inputs have lower orders: below the target's there is no way to it.
      if (next == node->edge_count || node->order <= target.order) {
        stack.pop_back();
        continue;
      }
      const Node* child = node->edges[next++].node();
      if (child != nullptr && seen.insert(child).second) stack.emplace_back(child, 0);
    }
  }
  return {&target};
}

std::string path_text(const Node& target, std::span<const Edge> roots) {
  constexpr size_t shown = 3;
  const std::vector<const Node*> path = path_to(target, roots);
  std::vector<std::string> steps;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path.size() > 2 * shown && i == shown) steps.push_back(fmt::format("({} more)", path.size() - 2 * shown));
    if (path.size() > 2 * shown && i >= shown && i < path.size() - shown) continue;
    const std::string place = path[i]->where.text();
    steps.push_back(fmt::format("{} at {}", path[i]->op, place.substr(place.rfind('/') + 1)));
  }
  return fmt::format("path from the loss: {}", fmt::join(steps, " -> "));
}

// What the first kernel of a backward formula that makes something not finite reads.
class ReadByKernel final : public KernelObserver {
 public:
  void after(const KernelCall& call) override {
    if (!texts.empty()) return;
    const bool bad = std::ranges::any_of(call.outputs, [](const View* v) { return find_non_finite(*v).any(); });
    if (!bad) return;
    for (const View* in : call.inputs) {
      if (!is_input_too(*in, call.outputs)) texts.push_back(values_text(*in));
    }
  }
  std::vector<std::string> texts;
};

class GradientCheck final : public BackwardWatch {
 public:
  void after(const BackwardPass& pass, Node& node, std::span<const Tensor> incoming,
             std::span<const Tensor> outgoing) override {
    for (size_t i = 0; i < outgoing.size(); ++i) {
      const Tensor& g = outgoing[i];
      if (!g.defined() || passed_on(g, incoming)) continue;
      const cpu::NonFinite found = find_non_finite(g.raw_view());
      if (WEFT_UNLIKELY(found.any())) report(pass, node, incoming, outgoing, i, found);
    }
  }

 private:
  // The same memory was looked at when it was made.
  static bool passed_on(const Tensor& g, std::span<const Tensor> incoming) {
    return std::ranges::any_of(incoming, [&](const Tensor& in) {
      return in.defined() && (in.impl() == g.impl() || (in.shares_storage(g) && in.version() == 0));
    });
  }

  [[noreturn]] static void report(const BackwardPass& pass, Node& node, std::span<const Tensor> incoming,
                                  std::span<const Tensor> outgoing, size_t input, cpu::NonFinite found) {
    std::vector<std::string> shapes, arrived;
    for (const Tensor& g : outgoing) shapes.push_back(g.defined() ? shape_text(g.raw_view()) : "no gradient");
    bool arrived_bad = false;
    for (const Tensor& g : incoming) {
      if (!g.defined()) continue;
      arrived.push_back(values_text(g.raw_view()));
      arrived_bad |= find_non_finite(g.raw_view()).any();
    }
    const auto problem =
        arrived_bad
            ? fmt::format("the first {} in backward: the gradients that meet in its result sum to it", text_of(found))
            : fmt::format("the first {} in backward, in the gradient for input {}", text_of(found), input);
    const auto details = fmt::format(
        "inputs {}; gradient {}; arrived {}{}; {}", fmt::join(shapes, ", "), values_text(outgoing[input].raw_view()),
        fmt::join(arrived, "; "), list_of("; its kernel read ", read_by(node, incoming)), path_text(node, pass.roots));
    raise<NonFiniteError>({.op = node.op,
                           .problem = problem,
                           .details = details,
                           .remedy = "keep the values it read where its derivative is finite",
                           .event = "called"},
                          node.where);
  }

  // Runs the formula once more, now that it is known to be the one, and looks at what its kernels read.
  static std::vector<std::string> read_by(Node& node, std::span<const Tensor> incoming) {
    ReadByKernel read;
    try {
      const ObserverGuard observing(read);
      const GradModeGuard unrecorded({.enabled = false, .inference = false});
      std::vector<Tensor> gradients(incoming.begin(), incoming.end()), ignored(node.edge_count);
      node.functions->run(node, gradients.data(), ignored.data());
    } catch (const std::exception&) {  // the first error is the one to tell
    }
    return read.texts;
  }
};

}  // namespace

struct AnomalyGuard::State {
  explicit State(AnomalyOptions options) {
    if (options.backward) backward.emplace(gradients);
    if (options.forward) forward.emplace(kernels);
  }
  GradientCheck gradients;
  detail::KernelCheck kernels;
  std::optional<BackwardWatchGuard> backward;
  std::optional<ObserverGuard> forward;
};

AnomalyGuard::AnomalyGuard(AnomalyOptions options) : state_(new State(options)) {}
AnomalyGuard::~AnomalyGuard() = default;

}  // namespace weft
