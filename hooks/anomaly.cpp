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
#include "../backends/watch/nan_check.hpp"
#include "../backends/watch/non_finite_cause.hpp"
#include "../backends/watch/observe.hpp"
#include "../tensor/memory_use.hpp"
#include "detail/kernel_faults.hpp"

namespace weft {

using detail::find_non_finite;
using detail::is_input_too;
using detail::text_of;
using detail::values_text;

namespace {

// ---- backward ---------------------------------------------------------------------------------------------------

// Returns the nodes from a root down to `target`, along edges.
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
      // A node's inputs have lower orders, so no path leads to the target from below it.
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

class GradientCheck final : public BackwardWatch {
 public:
  explicit GradientCheck(detail::KernelFaults& faults) : faults_(faults) {}
  /// Whether the running node's gradients are checked afterwards. A node that threw is not reported again.
  bool inside() const { return inside_ && detail::memory_use == detail::MemoryUse::backward; }

  void before(const BackwardPass&, Node& node, std::span<const Tensor>) override { inside_ = !node.accumulates; }
  void after(const BackwardPass& pass, Node& node, std::span<const Tensor> incoming,
             std::span<const Tensor> outgoing) override {
    inside_ = false;
    const auto bad = detail::first_non_finite(incoming, outgoing);
    if (WEFT_UNLIKELY(bad.has_value())) report(pass, node, incoming, outgoing, bad->input, bad->found);
  }

 private:
  [[noreturn]] void report(const BackwardPass& pass, Node& node, std::span<const Tensor> incoming,
                           std::span<const Tensor> outgoing, size_t input, cpu::NonFinite found) {
    std::vector<std::string> arrived;
    bool arrived_bad = false;
    for (const Tensor& g : incoming) {
      if (!g.defined()) continue;
      arrived.push_back(values_text(g.raw_view()));
      arrived_bad |= find_non_finite(g.raw_view()).any();
    }
    const detail::NonFiniteCause cause =
        arrived_bad ? detail::NonFiniteCause{"the gradients that meet in its result sum to it",
                                             "scale the loss down, or the parts of it that are large"}
                    : cause_at(node, incoming, outgoing[input], found);
    std::vector<std::string> figures = {
        fmt::format("gradient for input {}: {}", input, values_text(outgoing[input].raw_view()))};
    for (const std::string& text : arrived) figures.push_back("arrived " + text);
    detail::KernelFaults::InFormula formula = faults_.in_formula(node, incoming);
    figures.insert(figures.end(), formula.read.begin(), formula.read.end());
    figures.push_back(path_text(node, pass.roots));
    if (!formula.left.empty()) figures.push_back(std::move(formula.left));
    throw NonFiniteError(
        detail::with_figures(format_error({.op = node.op,
                                           .problem = fmt::format("the first {} in backward", text_of(found)),
                                           .details = cause.what,
                                           .remedy = cause.remedy,
                                           .event = "called"},
                                          node.where),
                             figures));
  }

  static detail::NonFiniteCause cause_at(const Node& node, std::span<const Tensor> incoming, const Tensor& gradient,
                                         cpu::NonFinite found) {
    std::vector<View> arrived, kept;
    for (const Tensor& g : incoming) {
      if (g.defined()) arrived.push_back(g.raw_view());
    }
    std::vector<Tensor> alive;
    detail::visit_saved(node, [&](const Tensor& t) {
      if (t.defined()) alive.push_back(t);
    });
    for (const Tensor& t : alive) kept.push_back(t.raw_view());
    return detail::cause_of_gradient(node.op, gradient.raw_view(), arrived, kept, found);
  }

  detail::KernelFaults& faults_;
  bool inside_ = false;
};

}  // namespace

// In backward, gradients are checked by node, if at all; kernels are not checked separately.
struct AnomalyGuard::State final : KernelObserver {
  explicit State(AnomalyOptions options) : faults(std::move(options.repro)) {
    if (options.backward) backward.emplace(gradients);
    if (options.forward) forward.emplace(*this);
  }
  void before(const KernelCall& call) override {
    if (!gradients.inside()) faults.before(call);
  }
  void after(const KernelCall& call) override {
    if (gradients.inside()) return;
    const auto fault = faults.after(call);
    if (WEFT_UNLIKELY(fault.has_value())) detail::raise_non_finite(call, fault->made, fault->left);
  }
  detail::KernelFaults faults;
  GradientCheck gradients{faults};
  std::optional<BackwardWatchGuard> backward;
  std::optional<ObserverGuard> forward;
};

AnomalyGuard::AnomalyGuard(AnomalyOptions options) : state_(new State(std::move(options))) {}
AnomalyGuard::~AnomalyGuard() = default;

}  // namespace weft
