// The state of a run (pending count, gradient slot) is stored in the nodes and claimed with one compare-and-swap. A
// second run that meets a claimed node keeps its own state in a map. The last run that shares a node frees its saved
// tensors, so several threads may share a graph.
#include "engine.hpp"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "autocast.hpp"
#include "accumulation.hpp"
#include "from_ops.hpp"
#include "gradient_rows.hpp"
#include "hooks.hpp"
#include "saved_hooks.hpp"
#include "../backends/dispatch.hpp"
#include "../backends/functors/lists.hpp"
#include "../tensor/memory_use.hpp"
#include "../tensor/settings.hpp"

namespace weft {

namespace detail {
Atomic<bool> share_gradients{!is_switched_off("WEFT_GRAD_SHARE")};
constinit thread_local GradStats grad_counts = {};
}  // namespace detail

GradStats grad_stats() { return detail::grad_counts; }
void reset_grad_stats() { detail::grad_counts = {}; }

bool gradient_sharing() { return detail::share_gradients; }
void set_gradient_sharing(bool on) { detail::share_gradients = on; }

namespace {

constinit thread_local BackwardWatchGuard* newest_watch = nullptr;

bool writable(const Tensor& t) { return t.is_contiguous() && exclusively_owned(t.impl()); }

// sum += gradient, in place only where the memory belongs to the engine alone.
void add_to_sum(Tensor& sum, Tensor&& gradient, bool create_graph) {
  const CallScope call(PassScope::sums("sum of gradients"));
  if (create_graph) {
    sum = detail::recorded_add(sum, gradient);
    ++detail::grad_counts.allocated;
    return;
  }
  if (!detail::share_gradients || (!writable(sum) && !writable(gradient))) {
    Tensor fresh = detail::fresh_copy(sum);
    kernels(fresh.raw_view()).binary(BinaryOp::add, fresh.raw_view(), fresh.raw_view(), gradient.raw_view());
    sum = std::move(fresh);
    ++detail::grad_counts.allocated;
    return;
  }
  if (!writable(sum)) std::swap(sum, gradient);
  ++detail::grad_counts.accumulated_in_place;
  detail::grad_counts.bytes_saved += sum.nbytes();
  kernels(sum.raw_view()).binary(BinaryOp::add, sum.raw_view(), sum.raw_view(), gradient.raw_view());
}

struct Ready {
  uint32_t order;
  uint32_t arrival;  // equal orders run in the order they became ready: deterministic
  Node* node;
  bool operator<(const Ready& other) const {
    return order != other.order ? order < other.order : arrival > other.arrival;
  }
};

// Vectors that a thread's runs reuse.
struct Scratch {
  std::vector<Edge> roots;  // counted: they keep every node of the run alive
  std::vector<Node*> claimed;
  std::vector<Ready> heap;
  bool is_in_use = false;
};
thread_local Scratch thread_scratch;

}  // namespace

BackwardWatch::~BackwardWatch() = default;
BackwardWatchGuard::BackwardWatchGuard(BackwardWatch& watch)
    : watch_(watch), outer_(std::exchange(newest_watch, this)) {}
BackwardWatchGuard::~BackwardWatchGuard() {
  BackwardWatchGuard** place = &newest_watch;
  while (*place != this) place = &(*place)->outer_;
  *place = outer_;
}

/// One backward pass. Nodes that another pass holds at the same time keep their state of this pass in `foreign_`.
class GraphRun {
 public:
  GraphRun(BackwardOptions options, Location where)
      : options_(options), where_(detail::place_of(where)), scratch_(take_scratch()) {}
  ~GraphRun() {
    for (Node* node : scratch_.claimed) abandon(node);
    scratch_.claimed.clear();
    if (WEFT_UNLIKELY(foreign_ != nullptr)) leave_foreign();
    scratch_.heap.clear();
    scratch_.roots.clear();
    scratch_.is_in_use = false;
    if (WEFT_UNLIKELY(&scratch_ != &thread_scratch)) delete &scratch_;
  }

  struct Capture {
    Node* node;
    uint16_t output;
    Tensor gradient;
  };

  void add_root(Node* node, uint16_t output, Tensor seed) {
    meet(node);
    scratch_.roots.emplace_back(node, output);
    add_gradient(slot(node, output), std::move(seed));
  }
  void capture(Node* node, uint16_t output) { captures_.push_back({node, output, {}}); }
  std::vector<Capture>& captures() { return captures_; }

  void execute() {
    if (WEFT_UNLIKELY(detail::current_call.op != nullptr)) return execute_outside();
    if (!captures_.empty()) find_paths();
    discover();
    for (const Edge& edge : scratch_.roots) {
      Node* root = edge.node();
      if (pending(root) == 0 && !std::exchange(started(root), true)) make_ready(root);
    }
    general_ = paths_ != nullptr || newest_watch != nullptr;
    const detail::RowPassScope rows(general_ || options_.create_graph ? nullptr : &rows_);
    const PassScope place(where_);
    const CallersStreams callers;
    const detail::MemoryUseScope use(detail::MemoryUse::backward);
    Node* node = nullptr;
    try {
      while ((node = next_ready()) != nullptr) process(node);
      callers.resume();
    } catch (...) {
      if (node != nullptr) detail::drop_unpacked(*node);
      throw;
    }
  }

 private:
  /// Nodes run on the streams of their op. Afterwards the caller's streams wait for the gradients.
  struct CallersStreams {
    const uint16_t streams = detail::current_streams;
    void resume() const {
      if (WEFT_UNLIKELY(detail::current_streams != streams)) detail::switch_streams(streams);
    }
    ~CallersStreams() {
      try {
        resume();
      } catch (const std::exception&) {  // the run has failed already
        detail::current_streams = streams;
      }
    }
  };

  // Hooks have places of their own.
  [[gnu::noinline]] void execute_outside() {
    const OutsideCalls users_code;
    execute();
  }

  struct Foreign {
    explicit Foreign(size_t outputs) : slots(outputs) {}
    int32_t pending = 0;
    bool started = false;
    std::vector<Tensor> slots;
  };

  // The thread's, but for a run inside another one.
  static Scratch& take_scratch() {
    Scratch& scratch = WEFT_LIKELY(!thread_scratch.is_in_use) ? thread_scratch : *new Scratch;
    scratch.is_in_use = true;
    return scratch;
  }

  // Makes room for this run's state of the node, in its own fields where no other run holds it.
  void meet(Node* node) {
    GraphRun* holder = node->run.load(MemoryOrder::acquire);
    if (holder == this) return;
    // Met while another run held it: the state stays aside, though that run may have let go since.
    if (WEFT_UNLIKELY(foreign_ != nullptr) && foreign_->count(node) != 0) return;
    scratch_.claimed.push_back(node);  // before it is taken: memory may be short
    if (holder == nullptr && take(node)) {
      node->pending = 0;
      node->started = false;
      return;
    }
    if (foreign_ == nullptr) foreign_ = std::make_unique<std::unordered_map<Node*, Foreign>>();
    foreign_->try_emplace(node, node->output_count);
    node->saved_state.fetch_add(Node::sharer, MemoryOrder::acq_rel);
  }
  bool take(Node* node) {
    if (WEFT_SINGLE_THREADED) {
      node->run.store(this, MemoryOrder::relaxed);
      return true;
    }
    GraphRun* nobody = nullptr;
    return node->run.compare_exchange_strong(nobody, this, MemoryOrder::acq_rel);
  }
  bool own(Node* node) const { return node->run.load(MemoryOrder::relaxed) == this; }
  int32_t& pending(Node* node) { return own(node) ? node->pending : foreign_->find(node)->second.pending; }
  bool& started(Node* node) { return own(node) ? node->started : foreign_->find(node)->second.started; }
  Tensor& slot(Node* node, int output) {
    return own(node) ? node->slot(output) : foreign_->find(node)->second.slots[output];
  }
  void abandon(Node* node) {
    if (!own(node)) return;
    if (WEFT_UNLIKELY(node->gradient.defined())) node->gradient = Tensor();
    for (int i = 1; i < node->output_count; ++i) node->slot(i) = Tensor();
    node->run.store(nullptr, MemoryOrder::release);
    if (WEFT_UNLIKELY(node->saved_state.load(MemoryOrder::acquire) == Node::closed)) detail::free_saved(*node);
  }
  // The last of several runs that share a node frees its saved tensors if any of them closed it.
  void leave_foreign() {
    for (const auto& [node, state] : *foreign_) {
      const uint32_t before = node->saved_state.fetch_sub(Node::sharer, MemoryOrder::acq_rel);
      const bool held = node->run.load(MemoryOrder::acquire) != nullptr;
      if (before == (Node::sharer | Node::closed) && !held) detail::free_saved(*node);
    }
  }

  bool needed(Node* node) const { return paths_ == nullptr || paths_->count(node) != 0; }
  // For grad(): nodes that are only captured do not run, and keep their saved tensors.
  bool runs(Node* node) const { return paths_ == nullptr || paths_->find(node)->second; }

  // For grad(): only nodes on a path to an input take part. A root may be an ancestor of another, so each is traversed
  // completely before the next.
  void find_paths() {
    paths_ = std::make_unique<std::unordered_map<Node*, bool>>();
    for (const Capture& c : captures_) paths_->emplace(c.node, false);
    std::unordered_set<Node*> seen;
    std::vector<std::pair<Node*, int>> stack;
    for (const Edge& root : scratch_.roots) {
      if (seen.insert(root.node()).second) stack.emplace_back(root.node(), 0);
      while (!stack.empty()) {
        auto& [node, next] = stack.back();
        if (next == node->edge_count) {
          if (leads_on(*node)) (*paths_)[node] = true;
          stack.pop_back();
          continue;
        }
        Node* child = node->edges[next++].node();
        if (child != nullptr && seen.insert(child).second) stack.emplace_back(child, 0);
      }
    }
  }
  bool leads_on(const Node& node) const {
    return std::any_of(node.edges, node.edges + node.edge_count,
                       [&](const Edge& edge) { return edge && needed(edge.node()); });
  }

  // Counts, for every node below the roots, how many gradients will arrive.
  void discover() {
    auto& claimed = scratch_.claimed;
    for (size_t i = 0; i < claimed.size(); ++i) {
      Node* node = claimed[i];
      if (!needed(node)) continue;
      for (Edge *edge = node->edges, *end = edge + node->edge_count; edge != end; ++edge) {
        Node* child = edge->node();
        if (child == nullptr || !needed(child)) continue;
        GraphRun* holder = child->run.load(MemoryOrder::acquire);
        if (WEFT_LIKELY(holder == this)) {
          ++child->pending;
          continue;
        }
        if (WEFT_LIKELY(holder == nullptr && foreign_ == nullptr)) {
          claimed.push_back(child);  // before it is taken: memory may be short
          if (WEFT_LIKELY(take(child))) {
            child->pending = 1;
            child->started = false;
            continue;
          }
          claimed.pop_back();
        }
        meet(child);
        ++pending(child);
      }
    }
  }

  // A chain has one ready node at a time: it waits in `next_` and never sees the heap.
  void make_ready(Node* node) {
    if (WEFT_LIKELY(next_ == nullptr && scratch_.heap.empty())) {
      next_ = node;
      return;
    }
    if (next_ != nullptr) push(std::exchange(next_, nullptr));
    push(node);
  }
  Node* next_ready() {
    if (next_ != nullptr) return std::exchange(next_, nullptr);
    if (scratch_.heap.empty()) return nullptr;
    std::pop_heap(scratch_.heap.begin(), scratch_.heap.end());
    Node* node = scratch_.heap.back().node;
    scratch_.heap.pop_back();
    return node;
  }
  void push(Node* node) {
    scratch_.heap.push_back({node->order, arrivals_++, node});
    std::push_heap(scratch_.heap.begin(), scratch_.heap.end());
  }

  void process(Node* node) {
    if (WEFT_UNLIKELY(node->streams != detail::current_streams) && !node->accumulates) {
      detail::switch_streams(node->streams);
    }
    if (WEFT_UNLIKELY(node->output_count != 1 || node->hooks.load(MemoryOrder::acquire) != nullptr || general_)) {
      return process_general(node);
    }
    Tensor gradient = std::move(slot(node, 0));
    if (node->accumulates) finish_leaf(*static_cast<AccumulationNode*>(node), std::move(gradient));
    else if (gradient.defined()) run_node(node, &gradient);
    else hand_on(node, nullptr);
  }

  [[gnu::noinline]] void process_general(Node* node) {
    if (!needed(node)) return;
    const auto outputs = static_cast<size_t>(node->output_count);
    if (WEFT_LIKELY(outputs == 1)) {
      Tensor gradient = std::move(slot(node, 0));
      return settle(node, {&gradient, 1});
    }
    std::vector<Tensor> gradients(outputs);
    for (size_t i = 0; i < outputs; ++i) gradients[i] = std::move(slot(node, static_cast<int>(i)));
    settle(node, gradients);
  }

  // Hooks, captures, and then the node itself.
  void settle(Node* node, std::span<Tensor> incoming) {
    const bool hooked = node->hooks.load(MemoryOrder::acquire) != nullptr;
    bool arrived = false;
    for (size_t i = 0; i < incoming.size(); ++i) {
      if (!incoming[i].defined()) continue;
      arrived = true;
      if (hooked) run_gradient_hooks(*node, static_cast<uint16_t>(i), incoming[i]);
    }
    for (Capture& c : captures_) {
      if (c.node == node) c.gradient = incoming[c.output];
    }
    if (!runs(node)) return;
    if (!arrived && !(node->accumulates && got_rows(*node))) {
      if (!node->accumulates) hand_on(node, nullptr);
      return;
    }
    if (node->accumulates) {
      tell_before(node, incoming);
      finish_leaf(*static_cast<AccumulationNode*>(node), std::move(incoming[0]));
      tell_after(node, {}, {});  // the leaf may own the gradient now: nobody else holds it
    } else if (WEFT_LIKELY(!hooked && !watched())) {
      run_node(node, incoming.data());
    } else {
      run_watched_node(node, incoming);
      if (hooked && node->released()) drop_hooks(*node);
    }
  }

  bool got_rows(const Node& node) const {
    return WEFT_UNLIKELY(!rows_.leaves.empty()) && std::ranges::find(rows_.leaves, &node) != rows_.leaves.end();
  }

  void finish_leaf(AccumulationNode& node, Tensor&& gradient) {
    if (!gradient.defined() && !got_rows(node)) return;
    accumulate(node, std::move(gradient), options_.create_graph);
    const NodeHooks* hooks = node.hooks.load(MemoryOrder::acquire);
    if (WEFT_LIKELY(hooks == nullptr) || !hooks->may_have(GradPhase::accumulated) || hooks->manual) return;
    Tensor leaf;
    {
      AccumulationNode::Lock lock(node);
      if (node.leaf != nullptr && node.leaf->refs.try_increment()) leaf = Tensor::adopt(node.leaf);
    }
    if (leaf.defined()) run_accumulated_hooks(node, leaf);
  }

  static bool watched() { return newest_watch != nullptr; }
  BackwardPass pass() const { return {scratch_.roots, options_}; }
  void tell_before(Node* node, std::span<const Tensor> incoming) {
    for (auto* w = newest_watch; w != nullptr; w = w->outer_) w->watch_.before(pass(), *node, incoming);
  }
  void tell_after(Node* node, std::span<const Tensor> incoming, std::span<const Tensor> outgoing) {
    for (auto* w = newest_watch; w != nullptr; w = w->outer_) w->watch_.after(pass(), *node, incoming, outgoing);
  }

  // As run_node, for a node with hooks of its own or while somebody watches.
  void run_watched_node(Node* node, std::span<Tensor> incoming) {
    const NodeHooks* hooks = node->hooks.load(MemoryOrder::acquire);
    const bool before = hooks != nullptr && hooks->may_have(GradPhase::node_before);
    const bool after = hooks != nullptr && hooks->may_have(GradPhase::node_after);
    if (!before && !after && !watched()) return run_node(node, incoming.data());
    check_not_released(node);
    if (before) run_node_hooks(*node, GradPhase::node_before, incoming, {});
    tell_before(node, incoming);
    std::vector<Tensor> kept(incoming.begin(), incoming.end());  // the node moves from its own
    std::vector<Tensor> outgoing(node->edge_count);
    node->functions->run(*node, incoming.data(), outgoing.data());
    if (after) run_node_hooks(*node, GradPhase::node_after, kept, outgoing);
    tell_after(node, kept, outgoing);
    release_what_is_saved(node);
    kept.clear();
    hand_on(node, outgoing.data());
  }

  void check_not_released(Node* node) {
    if (WEFT_LIKELY(!node->released())) return;
    raise<AutogradError>({.op = node->op,
                          .problem = "backward through a graph a second time: its saved tensors were freed",
                          .remedy = "pass retain_graph to the first backward",
                          .event = "recorded"},
                         node->where);
  }
  void release_what_is_saved(Node* node) {
    if (options_.retain_graph) detail::drop_unpacked(*node);
    else if (WEFT_SINGLE_THREADED && node->saved_state.load(MemoryOrder::relaxed) == 0) free_at_once(node);
    else detail::close_saved(*node);
  }

  static void free_at_once(Node* node) {
    node->saved_state.store(Node::closed | Node::freed, MemoryOrder::relaxed);
    node->functions->release_saved(*node);
  }

  void run_node(Node* node, Tensor* incoming) {
    check_not_released(node);
    if (WEFT_UNLIKELY(node->functions->add_to != nullptr) && adds_part(node, incoming[0])) return;
    constexpr int few = 4;
    Tensor small[few];
    std::vector<Tensor> many;
    Tensor* outgoing = small;
    if (node->edge_count > few) {
      many.resize(node->edge_count);
      outgoing = many.data();
    }
    node->functions->run(*node, incoming, outgoing);
    release_what_is_saved(node);
    hand_on(node, outgoing);
  }

  // The gradient of a part of a tensor goes straight into the sum that waits for the whole, where the engine alone owns
  // it: so n reads of parts cost n parts, not n tensors.
  bool adds_part(Node* node, Tensor& gradient) {
    Node* const child = node->edges[0].node();
    if (options_.create_graph || !detail::share_gradients || child == nullptr || !needed(child)) return false;
    const Tensor& sum = slot(child, node->edges[0].output());
    if (!sum.defined() || !writable(sum)) return false;
    node->functions->add_to(*node, sum, std::move(gradient));
    ++detail::grad_counts.accumulated_in_place;
    detail::grad_counts.bytes_saved += sum.nbytes();
    release_what_is_saved(node);
    hand_on(node, nullptr);
    return true;
  }

  void hand_on(Node* node, Tensor* outgoing) {
    for (int e = 0; e < node->edge_count; ++e) {
      Node* child = node->edges[e].node();
      if (child == nullptr || !needed(child)) continue;
      int32_t left;
      if (WEFT_LIKELY(own(child))) {
        if (outgoing != nullptr) add_gradient(child->slot(node->edges[e].output()), std::move(outgoing[e]));
        left = --child->pending;
      } else {
        if (outgoing != nullptr) add_gradient(slot(child, node->edges[e].output()), std::move(outgoing[e]));
        left = --pending(child);
      }
      if (left != 0) continue;
      if (child->accumulates) process(child);  // a leaf waits for nobody
      else make_ready(child);
    }
  }
  void add_gradient(Tensor& sum, Tensor&& gradient) {
    if (WEFT_LIKELY(!sum.defined())) sum = std::move(gradient);
    else if (gradient.defined()) add_to_sum(sum, std::move(gradient), options_.create_graph);
  }

  BackwardOptions options_;
  Location where_;
  Scratch& scratch_;
  std::vector<Capture> captures_;
  // Only grad() fills the first, only passes that meet in one graph the second.
  std::unique_ptr<std::unordered_map<Node*, bool>> paths_;
  std::unique_ptr<std::unordered_map<Node*, Foreign>> foreign_;
  detail::RowPass rows_;
  // Every node goes the general way.
  bool general_ = false;
  Node* next_ = nullptr;
  uint32_t arrivals_ = 0;
};

namespace {

Tensor check_seed(const Tensor& output, const Tensor* seed, Location where) {
  if (!output.defined()) detail::raise_undefined("backward", where);
  if (!output.requires_grad()) {
    raise<AutogradError>({.op = "backward",
                          .problem = "the output does not require a gradient",
                          .details = fmt::format("shape {}, {}", output.shape().text(), name(output.dtype())),
                          .remedy = "no input required a gradient, or it was computed under NoGradGuard"},
                         where);
  }
  if (seed == nullptr || !seed->defined()) {
    if (output.numel() != 1) {
      raise<AutogradError>(
          {.op = "backward",
           .problem = fmt::format("an output of shape {} needs a seed gradient", output.shape().text()),
           .remedy = "reduce it, for example with sum(), or pass a seed of its shape"},
          where);
    }
    if (is_complex(output.dtype())) {
      raise<AutogradError>({.op = "backward",
                            .problem = "a complex output has no gradient of its own",
                            .remedy = "take real(x) or abs(x), or pass a seed"},
                           where);
    }
    return detail::ones_like_unrecorded(output);
  }
  if (seed->shape() != output.shape() || seed->dtype() != output.dtype() || seed->device() != output.device()) {
    raise<ShapeError>({.op = "backward",
                       .problem = "the seed must match its output",
                       .details = fmt::format("output {} {} on {}, seed {} {} on {}", name(output.dtype()),
                                              output.shape().text(), output.device().name(), name(seed->dtype()),
                                              seed->shape().text(), seed->device().name())},
                      where);
  }
  return *seed;
}

void add_outputs(GraphRun& run, std::span<const Tensor> outputs, std::span<const Tensor> seeds, Location where) {
  if (!seeds.empty() && seeds.size() != outputs.size()) {
    raise<ValueError>(
        {.op = "backward", .problem = fmt::format("{} seeds for {} outputs", seeds.size(), outputs.size())}, where);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor seed = check_seed(outputs[i], seeds.empty() ? nullptr : &seeds[i], where);
    TensorImpl* impl = outputs[i].impl();
    run.add_root(impl->node, impl->output_number, std::move(seed));
  }
}

}  // namespace

void backward(std::span<const Tensor> outputs, std::span<const Tensor> seeds, BackwardOptions options, Location where) {
  options.retain_graph |= options.create_graph;
  const GradModeGuard mode({.enabled = options.create_graph, .inference = false});
  const detail::AutocastModeGuard as_recorded({});
  GraphRun run(options, where);
  add_outputs(run, outputs, seeds, where);
  run.execute();
}

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs, std::span<const Tensor> seeds,
                         GradOptions options, Location where) {
  const BackwardOptions run_options{options.retain_graph || options.create_graph, options.create_graph};
  const GradModeGuard mode({.enabled = options.create_graph, .inference = false});
  const detail::AutocastModeGuard as_recorded({});
  GraphRun run(run_options, where);
  add_outputs(run, outputs, seeds, where);
  for (const Tensor& input : inputs) {
    const CallScope call("grad", where);
    if (!input.requires_grad()) {
      raise<AutogradError>({.problem = "an input does not require a gradient",
                            .details = fmt::format("shape {}, {}", input.shape().text(), name(input.dtype())),
                            .remedy = "call requires_grad_() on it before the ops that use it"});
    }
    run.capture(input.impl()->node, input.impl()->output_number);
  }
  if (!inputs.empty()) run.execute();
  std::vector<Tensor> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    out.push_back(std::move(run.captures()[i].gradient));
    if (out.back().defined() || options.allow_unused) continue;
    const CallScope call("grad", where);
    raise<AutogradError>({.problem = fmt::format("the outputs do not depend on input {}", i),
                          .remedy = "set allow_unused to get an undefined tensor instead"});
  }
  return out;
}

std::vector<Tensor> grad(std::initializer_list<Tensor> outputs, std::initializer_list<Tensor> inputs,
                         std::initializer_list<Tensor> seeds, GradOptions options, Location where) {
  return grad(std::span(outputs.begin(), outputs.size()), std::span(inputs.begin(), inputs.size()),
              std::span(seeds.begin(), seeds.size()), options, where);
}

void Tensor::backward(Location where) const { weft::backward({this, 1}, {}, {}, where); }
void Tensor::backward(BackwardOptions options, Location where) const { weft::backward({this, 1}, {}, options, where); }
void Tensor::backward(const Tensor& seed, BackwardOptions options, Location where) const {
  weft::backward({this, 1}, {&seed, 1}, options, where);
}

}  // namespace weft
