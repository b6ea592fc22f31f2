#include "../detail/backward_trace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "../../autograd/accumulation.hpp"
#include "../../autograd/engine.hpp"
#include "../../autograd/mode.hpp"
#include "../../backends/watch/observe.hpp"
#include "../../backends/watch/recorded_kernel.hpp"
#include "../../ops/detail/broadcast_watch.hpp"
#include "../../tensor/memory_range.hpp"

namespace weft::detail {

namespace {

constexpr size_t most_passages = 16384;
constexpr size_t most_traces = 16;

// Activations for which zero slopes of all inputs mean that nothing is learned. Excludes activations with a parameter
// for the negative slope, and other functions.
constexpr std::array<std::string_view, 17> activations = {
    "relu", "relu6",    "sigmoid", "tanh",      "hardsigmoid", "hardswish", "hardtanh", "clamp", "softsign",
    "silu", "softplus", "gelu",    "gelu_tanh", "elu",         "selu",      "celu",     "mish"};

bool is_activation(std::string_view op) {
  if (op.ends_with('_')) op.remove_suffix(1);
  return std::ranges::find(activations, op) != activations.end();
}

bool has_values(const Tensor& t) {
  return t.defined() && is_floating(t.dtype()) && t.device().type != DeviceType::meta && t.numel() > 0;
}

double norm_of(const Tensor& t) {
  if (!has_values(t)) return 0;
  const Statistics s = statistics(t);
  return s.non_finite > 0 ? NAN : s.norm;
}

/// Whether two tensors are the same memory, as for a gradient that passes a view or a sum.
bool same_elements(const Tensor& a, const Tensor& b) {
  return a.shares_storage(b) && a.numel() == b.numel() && a.dtype() == b.dtype() &&
         range_of(a.raw_view()) == range_of(b.raw_view());
}

void measure_slopes(const Tensor& arrived, const Tensor& left, Passage& p) {
  if (!has_values(arrived) || !has_values(left) || arrived.numel() != left.numel()) return;
  const NoGradGuard unrecorded;
  const Tensor in = sampled(arrived, 4096), out = sampled(left, 4096);
  const auto *g = static_cast<const float*>(in.raw_view().data), *d = static_cast<const float*>(out.raw_view().data);
  int64_t seen = 0, closed = 0, flat = 0;
  for (int64_t i = 0; i < in.numel(); ++i) {
    if (!std::isfinite(g[i]) || !std::isfinite(d[i]) || std::abs(g[i]) < 1e-30f) continue;
    ++seen;
    closed += d[i] == 0;
    flat += std::abs(d[i]) < 0.01f * std::abs(g[i]);
  }
  if (seen == 0) return;
  p.slopes = seen;
  p.closed = static_cast<double>(closed) / static_cast<double>(seen);
  p.flat = static_cast<double>(flat) / static_cast<double>(seen);
}

void measure_range(const Node& node, Passage& p) {
  bool first = true;
  visit_saved(node, [&](const Tensor& kept) {
    if (!has_values(kept) || !std::exchange(first, false)) return;
    const Statistics s = statistics(kept);
    p.low = s.low, p.high = s.high;
  });
}

}  // namespace

size_t BackwardTracer::site_of(const Node& node) {
  const auto [entry, fresh] = numbers_.try_emplace({node.op, short_place(node.where)}, sites_.size());
  if (fresh) {
    sites_.push_back({.op = entry->first.first, .place = entry->first.second});
    feeding_parameters(node, is_activation(node.op) ? 3 : 1, sites_.back().parameters);
  }
  return entry->second;
}

// Searches the nearest ops that read parameters, and stops at other activations.
void BackwardTracer::feeding_parameters(const Node& node, int depth, std::vector<size_t>& out) const {
  std::vector<const Node*> behind;
  for (int i = 0; i < node.edge_count; ++i) {
    const Node* const child = node.edges[i].node();
    if (child == nullptr) continue;
    if (!child->accumulates) {
      behind.push_back(child);
      continue;
    }
    const auto found = parameters_.find(static_cast<const AccumulationNode*>(child)->leaf);
    if (found != parameters_.end() && std::ranges::find(out, found->second) == out.end()) out.push_back(found->second);
  }
  for (const Node* child : behind) {
    if (depth > 1 && !is_activation(child->op)) feeding_parameters(*child, depth - 1, out);
  }
}

void BackwardTracer::saw_node(const Node& node, std::span<const Tensor> incoming, std::span<const Tensor> outgoing) {
  if (trace_.passages.size() >= most_passages) return;
  const auto number = static_cast<int32_t>(trace_.passages.size());
  Passage p{.site = site_of(node)};
  Waiting before;
  if (const auto entry = waiting_.extract(&node)) before = entry.mapped();
  p.from = before.from;
  for (const Tensor& g : incoming) p.count += g.defined() ? g.numel() : 0;
  if (before.senders == 1 && incoming.size() == 1) p.arrived = before.last_norm;
  else
    for (const Tensor& g : incoming) p.arrived = std::hypot(p.arrived, norm_of(g));
  for (size_t i = 0; i < outgoing.size(); ++i) {
    const Node* const child = node.edges[i].node();
    if (child == nullptr || !outgoing[i].defined()) continue;
    const bool passes = incoming.size() == 1 && incoming[0].defined() && same_elements(incoming[0], outgoing[i]);
    const double norm = passes ? p.arrived : norm_of(outgoing[i]);
    p.left = std::max(p.left, norm);
    if (std::isnan(norm)) p.left = norm;
    Waiting& waiting = waiting_[child];
    ++waiting.senders;
    waiting.last_norm = norm;
    if (waiting.senders == 1 || norm > waiting.largest_norm) waiting.largest_norm = norm, waiting.from = number;
  }
  if (is_activation(node.op) && !outgoing.empty()) {
    measure_slopes(incoming[0], outgoing[0], p);
    if (p.slopes > 0) measure_range(node, p);
  }
  trace_.passages.push_back(p);
}

void BackwardTracer::saw_leaf(const Node& node) {
  const auto found = parameters_.find(static_cast<const AccumulationNode&>(node).leaf);
  const auto entry = waiting_.extract(&node);
  if (found == parameters_.end() || entry.empty()) return;
  trace_.arrivals.push_back({found->second, entry.mapped().from, entry.mapped().largest_norm});
}

void BackwardTracer::saw_broadcast(const Tensor& a, const Tensor& b, const Tensor& result) {
  const Tensor &lower_rank = a.dim() < b.dim() ? a : b, &higher_rank = a.dim() < b.dim() ? b : a;
  if (lower_rank.dim() == 0 || lower_rank.dim() == higher_rank.dim() ||
      result.numel() <= std::max(a.numel(), b.numel()))
    return;
  // Equal sizes in a common dimension: in an intended outer product the sides are rarely equal.
  bool alike = false;
  const auto few = lower_rank.sizes(), many = higher_rank.sizes();
  for (size_t i = 0; i < few.size(); ++i) {
    const size_t at = many.size() - few.size() + i;
    alike |= many[at] == 1 && few[i] > 1 && std::ranges::find(many, few[i]) != many.end();
  }
  if (!alike) return;
  MutualBroadcast seen{.op = current_call.op, .place = short_place(current_call.where)};
  seen.left = a.shape().text(), seen.right = b.shape().text(), seen.result = result.shape().text();
  seen.steps = 1;
  const auto same = [&](const MutualBroadcast& m) { return m.op == seen.op && m.place == seen.place; };
  if (std::ranges::none_of(broadcasts_, same)) broadcasts_.push_back(std::move(seen));
}

// Sites that backward never passed do not lead to a loss.
void BackwardTracer::finish(int64_t step, History& history) {
  waiting_.clear();
  std::set<std::string> passed;
  if (program.searches()) {
    for (const Passage& p : trace_.passages) passed.insert(sites_[p.site].place);
  }
  program.finish(step, passed, history);
  for (MutualBroadcast& seen : std::exchange(broadcasts_, {})) {
    if (!numbers_.contains({seen.op, seen.place})) continue;
    const auto same = [&](const MutualBroadcast& m) { return m.op == seen.op && m.place == seen.place; };
    const auto known = std::ranges::find_if(history.broadcasts, same);
    if (known == history.broadcasts.end()) history.broadcasts.push_back(std::move(seen));
    else ++known->steps;
  }
  history.sites = sites_;
  Trace done = std::exchange(trace_, {});
  if (done.passages.empty()) return;
  done.step = step;
  keep_trace(std::move(done), history);
}

void keep_trace(Trace&& trace, History& history) {
  auto& traces = history.traces;
  traces.push_back(std::move(trace));
  if (traces.size() <= most_traces) return;
  size_t kept = 0;
  for (size_t i = 0; i < traces.size(); ++i) {
    if (i % 2 == 0) std::swap(traces[kept++], traces[i]);
  }
  traces.resize(kept);
}

namespace {

/// The tracers of a thread; forwards all events to each.
class ThreadTracing final : public BackwardWatch, public ProgramWatch, public KernelObserver {
 public:
  ~ThreadTracing() override { broadcast_watch = nullptr, program_watch = nullptr; }

  void before(const BackwardPass&, Node&, std::span<const Tensor>) override {
    each([](BackwardTracer& t) { t.program.in_node(true); });
  }
  void after(const BackwardPass&, Node& node, std::span<const Tensor> incoming,
             std::span<const Tensor> outgoing) override {
    const UnrecordedScope unrecorded;
    each([&](BackwardTracer& t) {
      t.program.in_node(false);
      if (node.accumulates) t.saw_leaf(node);
      else t.saw_node(node, incoming, outgoing);
    });
  }

  void on_detach(const Tensor& x, const Tensor& result) override {
    each([&](BackwardTracer& t) { t.program.on_detach(x, result); });
  }
  void converted(const Tensor& x, const Tensor& result) override {
    each([&](BackwardTracer& t) { t.program.converted(x, result); });
  }
  void mode_set(GradMode mode) override {
    each([&](BackwardTracer& t) { t.program.mode_set(mode); });
  }
  void compared(const Tensor& predictions, const Tensor& targets) override {
    each([&](BackwardTracer& t) { t.program.compared(predictions, targets); });
  }
  void hook_begins(const Hook& hook, const Tensor& gradient) override {
    each([&](BackwardTracer& t) { t.program.hook_begins(hook, gradient); });
  }
  void hook_changed(const Hook& hook, const Node& node, const Tensor& gradient) override {
    each([&](BackwardTracer& t) { t.program.hook_changed(hook, node, gradient); });
  }
  void clipped(double norm, double limit, Location where) override {
    each([&](BackwardTracer& t) { t.program.clipped(norm, limit, where); });
  }
  void rate_set(double rate, Location where) override {
    each([&](BackwardTracer& t) { t.program.rate_set(rate, where); });
  }
  void stepping(const char* optimizer, const SteppedGroup& group, Location where) override {
    each([&](BackwardTracer& t) { t.program.stepping(optimizer, group, where); });
  }
  void after(const KernelCall& call) override {
    const UnrecordedScope unrecorded;
    each([&](BackwardTracer& t) { t.program.after_kernel(call); });
  }

  void update() {
    if (tracers.empty()) {
      guard.reset(), kernels.reset();
      broadcast_watch = nullptr, program_watch = nullptr;
      return;
    }
    if (!guard) guard.emplace(*this);
    broadcast_watch = &broadcasts;
    program_watch = this;
    bool searches = false;
    each([&](BackwardTracer& t) { searches |= t.program.searches(); });
    if (!searches) kernels.reset();
    else if (!kernels) kernels.emplace(*this);
  }

  std::vector<Weak<BackwardTracer>> tracers;

 private:
  template <class F>
  void each(const F& tell) {
    for (const auto& weak : tracers) {
      if (const auto tracer = weak.lock()) tell(*tracer);
    }
  }
  const BroadcastWatch broadcasts = [this](const Tensor& a, const Tensor& b, const Tensor& result) {
    each([&](BackwardTracer& t) { t.saw_broadcast(a, b, result); });
  };
  std::optional<BackwardWatchGuard> guard;
  std::optional<ObserverGuard> kernels;
};

// Static recorders are destroyed after thread-local objects.
constinit thread_local ThreadTracing* of_thread = nullptr;
constinit thread_local bool is_over = false;

struct ThreadExit {
  ~ThreadExit() {
    delete std::exchange(of_thread, nullptr);
    is_over = true;
  }
};

/// Returns null while the thread ends.
ThreadTracing* tracing() {
  static thread_local const ThreadExit exit;
  if (of_thread == nullptr && !is_over) of_thread = new ThreadTracing;
  return of_thread;
}

}  // namespace

void start_tracing(const Shared<BackwardTracer>& tracer) {
  stop_tracing(tracer.get());
  ThreadTracing* const here = tracing();
  if (here == nullptr) return;
  tracer->program.begin(grad_mode().enabled);
  here->tracers.push_back(tracer);
  here->update();
}

void stop_tracing(const BackwardTracer* tracer) {
  if (of_thread == nullptr) return;
  std::erase_if(of_thread->tracers, [&](const Weak<BackwardTracer>& weak) {
    const auto alive = weak.lock();
    return alive == nullptr || alive.get() == tracer;
  });
  of_thread->update();
}

}  // namespace weft::detail
