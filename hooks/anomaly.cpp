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
#include "../backends/backend.hpp"
#include "../backends/cpu/reduce/finite.hpp"
#include "../backends/cpu/kernels.hpp"
#include "../backends/cpu/reduce/statistics.hpp"
#include "../backends/observe.hpp"
#include "../tensor/layout.hpp"

namespace weft {

namespace {

// ---- looking at values ------------------------------------------------------------------------------------------

// A view of the same elements in host memory.
class HostView {
 public:
  explicit HostView(const View& view) : view_(view) {
    if (view.layout.host_scalar || view.layout.device_type == DeviceType::cpu) return;
    const ByteSpan span = byte_span(view.layout);
    bytes_.resize(static_cast<size_t>(span.high - span.low));
    Backend* backend = find_backend(view.layout.device_type);
    if (backend != nullptr && !bytes_.empty()) {
      backend->download(view.layout.device_index, bytes_.data(), static_cast<char*>(view.data) + span.low,
                        bytes_.size());
    }
    view_.data = bytes_.data() - span.low;
    view_.layout.device_type = DeviceType::cpu;
    view_.layout.device_index = 0;
  }
  const View& operator*() const { return view_; }

 private:
  View view_;
  std::vector<char> bytes_;
};

bool may_be_non_finite(const View& view) {
  return view.data != nullptr && is_floating(view.layout.dtype) && view.layout.device_type != DeviceType::meta;
}

cpu::NonFinite look(const View& view) {
  if (!may_be_non_finite(view)) return {};
  return cpu::find_non_finite(*HostView(view));
}

const char* text_of(cpu::NonFinite found) { return found.nan ? (found.inf ? "NaN and Inf" : "NaN") : "Inf"; }

std::string shape_text(const View& view) {
  if (view.layout.host_scalar) return fmt::format("{} number", name(view.layout.dtype));
  return fmt::format("{} {} on {}", name(view.layout.dtype), Dims(sizes_of(view.layout)).text(),
                     Device(view.layout.device_type, view.layout.device_index).name());
}

cpu::ElementStatistics statistics_of(const View& view) {
  const HostView host(view);
  if ((*host).layout.contiguous && !(*host).layout.host_scalar) return cpu::element_statistics(*host);
  const auto sizes = (*host).layout.host_scalar ? std::span<const int64_t>() : sizes_of((*host).layout);
  View plain{nullptr, contiguous_layout(sizes, view.layout.dtype)};
  std::vector<double> elements(static_cast<size_t>(plain.layout.numel));  // of any dtype: at most 8 bytes each
  plain.data = elements.data();
  if ((*host).layout.host_scalar)
    std::memcpy(plain.data, (*host).data, static_cast<size_t>(itemsize(view.layout.dtype)));
  else cpu::copy(plain, *host);
  return cpu::element_statistics(plain);
}

// "float32 [3] on cpu: 0 to 2, mean 1, 1 zero, 1 of 3 not finite"
std::string values_text(const View& view) {
  std::string text = shape_text(view);
  if (view.layout.numel == 0 || view.layout.device_type == DeviceType::meta) return text;
  const cpu::ElementStatistics s = statistics_of(view);
  const char* separator = ": ";
  const auto say = [&](const std::string& part) { text += std::exchange(separator, ", ") + part; };
  if (s.finite() == 1 && s.count == 1) say(fmt::format("{:.4g}", s.mean));
  else if (s.finite() > 0) say(fmt::format("{:.4g} to {:.4g}, mean {:.4g}", s.low, s.high, s.mean));
  if (s.zeros > 0 && s.count > 1) say(fmt::format("{} zero", s.zeros));
  if (s.non_finite > 0) say(fmt::format("{} of {} not finite", s.non_finite, s.count));
  return text;
}

std::string list_of(const char* label, const std::vector<std::string>& texts) {
  return texts.empty() ? std::string() : fmt::format("{}{}", label, fmt::join(texts, "; "));
}

// ---- forward ----------------------------------------------------------------------------------------------------

bool is_input_too(const View& output, std::span<const View* const> inputs) {
  return std::ranges::any_of(inputs, [&](const View* in) { return in->data == output.data; });
}

// Raises where a kernel made a NaN or infinity from inputs that explain none.
class KernelCheck final : public KernelObserver {
 public:
  void before(const KernelCall& call) override {
    // What is overwritten can only be looked at now.
    overwritten_ = {};
    for (const View* out : call.outputs) {
      if (!is_input_too(*out, call.inputs)) continue;
      const cpu::NonFinite found = look(*out);
      overwritten_.nan |= found.nan, overwritten_.inf |= found.inf;
    }
  }

  void after(const KernelCall& call) override {
    if (std::string_view(call.kernel) == "fill") return;
    for (const View* out : call.outputs) {
      const cpu::NonFinite found = look(*out);
      if (WEFT_LIKELY(!found.any())) continue;
      cpu::NonFinite read = overwritten_;
      for (const View* in : call.inputs) {
        if (is_input_too(*in, call.outputs)) continue;
        const cpu::NonFinite there = look(*in);
        read.nan |= there.nan, read.inf |= there.inf;
      }
      if (read.nan || (read.inf && !found.nan)) continue;
      report(call, *out, found);
    }
  }

 private:
  [[noreturn]] static void report(const KernelCall& call, const View& out, cpu::NonFinite found) {
    std::vector<std::string> inputs;
    for (const View* in : call.inputs) {
      inputs.push_back(is_input_too(*in, call.outputs) ? shape_text(*in) + " (overwritten)" : values_text(*in));
    }
    raise<NonFiniteError>({.op = call.op != nullptr ? call.op : call.kernel,
                           .problem = fmt::format("the first {}, made by kernel {}", text_of(found), call.kernel),
                           .details = fmt::format("output {}{}", values_text(out), list_of("; inputs ", inputs)),
                           .remedy = "keep its inputs where the result is finite"},
                          call.where);
  }

  static constinit thread_local cpu::NonFinite overwritten_;
};
constinit thread_local cpu::NonFinite KernelCheck::overwritten_ = {};

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
    const bool bad = std::ranges::any_of(call.outputs, [](const View* v) { return look(*v).any(); });
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
      const cpu::NonFinite found = look(g.raw_view());
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
      arrived_bad |= look(g.raw_view()).any();
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
  KernelCheck kernels;
  std::optional<BackwardWatchGuard> backward;
  std::optional<ObserverGuard> forward;
};

AnomalyGuard::AnomalyGuard(AnomalyOptions options) : state_(new State(options)) {}
AnomalyGuard::~AnomalyGuard() = default;

void detail::check_all_kernels_for_nan() {
  static auto* check = new KernelCheck;
  static auto* guard = new ObserverGuard(*check, ObserverScope::process);
  (void)guard;
}

}  // namespace weft
