#include "break_on.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "../autograd/engine.hpp"
#include "../autograd/hook_list.hpp"
#include "../autograd/node.hpp"
#include "../backends/watch/nan_check.hpp"
#include "../tensor/memory_use.hpp"
#include "../tensor/warning.hpp"
#include "detail/kernel_faults.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft {

std::string BreakEvent::text() const {
  std::string out = fmt::format("{} {}{}, called at {}", after ? "after" : "before", op, backward ? " in backward" : "",
                                where.text());
  if (kernel != nullptr) out += fmt::format(" (kernel {})", kernel);
  const auto line = [&](const char* what, const View& view, bool has_values) {
    out += fmt::format("\n  {} {}", what, has_values ? detail::values_text(view) : detail::shape_text(view));
  };
  for (const View* in : inputs) {
    const bool gone = after && detail::is_input_too(*in, outputs);
    line(gone ? "input, overwritten," : "input", *in, !gone);
  }
  for (const View* made : outputs) line("output", *made, after);
  for (const Tensor& g : incoming) {
    if (g.defined()) line("arriving gradient", g.raw_view(), true);
  }
  for (const Tensor& g : outgoing) {
    if (g.defined()) line("gradient for an input", g.raw_view(), true);
  }
  if (left != nullptr) out += fmt::format("\n  {}", left);
  return out;
}

namespace {

struct Place {
  std::string_view file;
  unsigned line = 0;
};

// Parses "net.cpp:41" or "41"; line 0 if malformed.
Place place_in(std::string_view text) {
  const size_t colon = text.rfind(':');
  const std::string_view digits = colon == std::string_view::npos ? text : text.substr(colon + 1);
  Place place{colon == std::string_view::npos ? std::string_view() : text.substr(0, colon)};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), place.line);
  if (error != std::errc() || end != digits.data() + digits.size()) place.line = 0;
  return place;
}

bool ends_in_path(std::string_view file, std::string_view end) {
  if (!file.ends_with(end)) return false;
  return end.empty() || file.size() == end.size() || file[file.size() - end.size() - 1] == '/';
}

// Edit distance.
size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

// Whether a debugger or a handler of the program receives SIGTRAP.
bool somebody_waits_for_traps() {
  struct sigaction now = {};
  if (::sigaction(SIGTRAP, nullptr, &now) == 0 && now.sa_handler != SIG_DFL) return true;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("TracerPid:")) return line.find_first_of("123456789") != std::string::npos;
  }
  return false;
}

}  // namespace

namespace detail {

// Read by the debugger commands (weft_gdb.py); null between stops.
extern constinit Atomic<const BreakEvent*> last_stop;
constinit Atomic<const BreakEvent*> last_stop{nullptr};

void stop_at_op(const BreakEvent& event) {
  const bool waited_for = somebody_waits_for_traps();
  std::fprintf(stderr, "weft: stopped %s\n%s", event.text().c_str(),
               waited_for ? "" : "  no debugger is attached, so the program continues: run it under gdb\n");
  std::fflush(stderr);
  if (!waited_for) return;
  last_stop.store(&event, MemoryOrder::release);
  std::raise(SIGTRAP);
  last_stop.store(nullptr, MemoryOrder::release);
}

}  // namespace detail

struct BreakOn::State final : KernelObserver, BackwardWatch {
  State(BreakOptions options_, bool in_module_, Location where)
      : options(std::move(options_)), made_at(where), in_module(in_module_) {
    place = place_in(options.line);
  }

  void before(const KernelCall& call) override {
    if (stopping || is_of_node(call)) return;
    if (options.non_finite) faults.before(call);
    else if (here(call)) stop(event_of(call, false));
  }
  void after(const KernelCall& call) override {
    if (stopping || is_of_node(call) || !options.non_finite || !here(call)) return;
    if (const auto fault = faults.after(call)) stop(event_of(call, true), fault->left);
  }

  void before(const BackwardPass&, Node& node, std::span<const Tensor> incoming) override {
    if (stopping || node.accumulates) return;
    running = node.place();
    if (!options.non_finite && here(node)) stop(event_of(node, incoming, {}));
  }
  void after(const BackwardPass&, Node& node, std::span<const Tensor> incoming,
             std::span<const Tensor> outgoing) override {
    if (stopping || node.accumulates) return;
    running = {};
    if (!options.non_finite || !here(node) || !detail::first_non_finite(incoming, outgoing)) return;
    const bool arrived = std::ranges::any_of(
        incoming, [](const Tensor& g) { return g.defined() && detail::find_non_finite(g.raw_view()).any(); });
    if (arrived) return;
    std::string left;
    {
      const Stopping now(stopping);
      left = faults.in_formula(node, incoming).left;
    }
    stop(event_of(node, incoming, outgoing), left);
  }

  // If nothing matched, the name is probably misspelled.
  void warn_of_nothing_met() const {
    const bool names = !options.op.empty() || place.line != 0 || in_module;
    if (was_here || !names || !anything_ran) return;
    std::string wanted;
    if (!options.op.empty()) wanted += fmt::format(" of the op '{}'", options.op);
    if (place.line != 0) wanted += fmt::format(" at {}", options.line);
    if (in_module) wanted += fmt::format(" in the module '{}'", options.module);
    std::string met_instead;
    if (!options.op.empty() && !met_op) {
      if (const std::string similar_op = nearest_op(); !similar_op.empty())
        met_instead = fmt::format("'{}' ran", similar_op);
    }
    warn({.op = "BreakOn",
          .problem = fmt::format("nothing{} ran while it lived, so it never stopped", wanted),
          .details = met_instead},
         made_at);
  }

  const BreakOptions options;
  const Location made_at;
  const std::thread::id thread = std::this_thread::get_id();
  detail::KernelFaults faults{options.repro};
  const bool in_module;
  Place place;
  int64_t met = 0, stops = 0;
  /// Number of running calls of the module.
  int64_t inside_module = 0;
  /// The next node to run that the module's forward created.
  const Node* node_of_module = nullptr;
  std::vector<ScopedHook> hooks;
  std::optional<BackwardWatchGuard> backward;
  std::optional<ObserverGuard> forward;

 private:
  // Matches the name of an op or of its in-place form.
  bool named(const char* op) const {
    if (op == nullptr) return false;
    const std::string_view name = op;
    return name == options.op || (name.ends_with('_') && name.substr(0, name.size() - 1) == options.op);
  }
  bool at(Location where) const {
    return place.line == 0 || (where.known() && where.line() == place.line && ends_in_path(where.file(), place.file));
  }
  bool here(const KernelCall& call) {
    const bool is_named = options.op.empty() || named(call.op) || named(call.entry);
    note_met(call.op, is_named);
    return note_here(is_named && at(call.where) && (!in_module || inside_module > 0));
  }
  bool here(const Node& node) {
    const bool is_named = options.op.empty() || named(node.op);
    note_met(node.op, is_named);
    return note_here(is_named && at(node.where) && (!in_module || node_of_module == &node));
  }
  bool note_here(bool is_here) {
    was_here |= is_here;
    return is_here;
  }
  void note_met(const char* op, bool is_named) {
    anything_ran = true;
    met_op |= is_named;
    if (met_op || op == nullptr || others.contains(std::string_view(op))) return;
    others.emplace(op);
  }
  std::string nearest_op() const {
    std::string nearest;
    size_t least = std::max<size_t>(options.op.size() / 2, 1) + 1;
    for (const std::string& other : others) {
      const size_t distance = edits_between(options.op, other);
      if (distance < least) least = distance, nearest = other;
    }
    return nearest;
  }

  static BreakEvent event_of(const KernelCall& call, bool after) {
    return {.op = call.op != nullptr ? call.op : call.kernel,
            .where = call.where,
            .after = after,
            .kernel = call.kernel,
            .inputs = call.inputs,
            .outputs = call.outputs};
  }
  static BreakEvent event_of(const Node& node, std::span<const Tensor> incoming, std::span<const Tensor> outgoing) {
    return {.op = node.op,
            .where = node.where,
            .backward = true,
            .after = !outgoing.empty(),
            .node = &node,
            .incoming = incoming,
            .outgoing = outgoing};
  }

  struct Stopping {
    explicit Stopping(bool& flag_) : flag(flag_) { flag = true; }
    ~Stopping() { flag = false; }
    bool& flag;
  };

  void stop(BreakEvent event, const std::string& left = {}) {
    if (!left.empty()) event.left = left.c_str();
    if (++met <= options.skip) return;
    const Stopping now(stopping);
    ++stops;
    const OutsideCalls users_code;
    if (options.call) options.call(event);
    else detail::stop_at_op(event);
  }

  // A node stops as a whole, not at its kernels; ops that a user function calls inside it are not part of it. A node
  // that threw is still set after its backward.
  bool is_of_node(const KernelCall& call) const {
    if (detail::memory_use != detail::MemoryUse::backward) return false;
    return running.op != nullptr && call.entry == running.op && call.where.line() == running.where.line() &&
           std::string_view(call.where.file()) == running.where.file();
  }

  bool stopping = false;
  CallPlace running;
  bool anything_ran = false, was_here = false, met_op = false;
  /// Names of the ops that ran, until one matches.
  std::set<std::string, std::less<>> others;
};

BreakOn::BreakOn(BreakOptions options, Location where) : BreakOn(std::move(options), false, where) {
  if (state_->options.module.empty()) return;
  raise<ValueError>({.op = "BreakOn",
                     .problem = fmt::format("the module '{}' is of no model", state_->options.module),
                     .remedy = "give the model first: BreakOn(model, options)"},
                    where);
}

BreakOn::BreakOn(BreakOptions options, bool in_module, Location where) {
  if (!options.line.empty() && place_in(options.line).line == 0) {
    raise<ValueError>({.op = "BreakOn",
                       .problem = fmt::format("'{}' names no line", options.line),
                       .remedy = "say it as \"net.cpp:41\""},
                      where);
  }
  if (options.skip < 0)
    raise<ValueError>({.op = "BreakOn", .problem = mismatch_text("skip", "at least 0", options.skip)}, where);
  state_ = Shared<State>::make(std::move(options), in_module, where);
  state_->backward.emplace(*state_);
  state_->forward.emplace(*state_);
}

BreakOn::~BreakOn() {
  state_->hooks.clear();
  state_->forward.reset();
  state_->backward.reset();
  try {
    state_->warn_of_nothing_met();
  } catch (const std::exception&) {  // an exception of the warning handler
  }
}

int64_t BreakOn::stops() const { return state_->stops; }

const std::string& BreakOn::module_path() const { return state_->options.module; }
void BreakOn::own(HookHandle hook) { state_->hooks.emplace_back(std::move(hook)); }

void BreakOn::raise_no_module(Location where) const {
  raise<ValueError>({.op = "BreakOn",
                     .problem = fmt::format("the model has no module '{}'", module_path()),
                     .remedy = "named_modules() lists them"},
                    where);
}

void BreakOn::enter(const Weak<State>& weak) {
  const Shared<State> state = weak.lock();
  if (state && state->thread == std::this_thread::get_id()) ++state->inside_module;
}

// The nodes between the outputs and the inputs belong to the module; a hook on each marks it before it runs. The hooks
// live as long as the nodes.
void BreakOn::leave(const Weak<State>& weak, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const Shared<State> state = weak.lock();
  if (!state || state->thread != std::this_thread::get_id()) return;
  --state->inside_module;
  std::unordered_set<const Node*> seen;
  std::vector<Node*> left;
  const auto add = [&](Node* node) {
    if (node != nullptr && !node->accumulates && seen.insert(node).second) left.push_back(node);
  };
  for (const Tensor& t : inputs) {
    if (t.defined() && t.requires_grad()) seen.insert(t.impl()->node);
  }
  for (const Tensor& t : outputs) {
    if (t.defined() && t.requires_grad()) add(t.impl()->node);
  }
  while (!left.empty()) {
    Node* const node = left.back();
    left.pop_back();
    for (int e = 0; e < node->edge_count; ++e) add(node->edges[e].node());
    NodeHooks& hooks = detail::hooks_of(*node);
    hooks.phases.fetch_or(1u << static_cast<int>(GradPhase::node_before), MemoryOrder::relaxed);
    hooks.list->add({.call =
                         [weak](const GradEvent& event, detail::HookResult&) {
                           if (const Shared<State> alive = weak.lock()) alive->node_of_module = event.node;
                         },
                     .phase = GradPhase::node_before});
  }
}

}  // namespace weft
