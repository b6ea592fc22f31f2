#include "../recorder.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

#include "../../autograd/hooks.hpp"
#include "../../autograd/mode.hpp"
#include "../../autograd/node.hpp"
#include "../../backends/watch/host_values.hpp"
#include "../../backends/watch/recorded_kernel.hpp"
#include "../../ops/detail/promote.hpp"
#include "../detail/backward_trace.hpp"
#include "../detail/fingerprint.hpp"
#include "../../tensor/memory_range.hpp"
#include "../memory/memory_notes.hpp"

namespace weft {

namespace {

/// Members for observations of values, or of gradients.
struct Side {
  std::optional<Statistics> Observation::*statistics;
  Shared<const Histogram> Observation::*histogram;
  std::optional<int64_t> Watched::*bad;
};
constexpr Side values{&Observation::value, &Observation::value_histogram, &Watched::bad_value};
constexpr Side gradients{&Observation::gradient, &Observation::gradient_histogram, &Watched::bad_gradient};

}  // namespace

// Hooks in the graph hold the state weakly: they end with the recorder, and a graph may outlive it.
struct GradientRecorder::State {
  struct Parameter {
    Tensor tensor;
    Tensor before = {};  ///< its values at the last recorded step: f32, contiguous, on the host
    bool had_gradient = false;
  };

  explicit State(RecorderOptions o) : options(o) { living().add(this); }
  ~State() {
    living().remove(this);
    detail::stop_tracing(tracer.get());
    for (HookHandle& hook : hooks) hook.remove();
    for (auto& [name, leaf] : leaves) leaf.second.remove();
  }

  /// Index of a step among the recorded steps.
  int64_t number(int64_t step) const { return (step - first) / options.every; }
  bool due() const { return (now - first) % options.every == 0; }
  int64_t memory_seen = 0;  ///< steps of the existing MemoryHistory
  bool histogram_due() const { return number(now) % options.histogram_every == 0; }
  Observation& observation(size_t index);
  struct Calls {
    int64_t all = 0, in_evaluation = 0;
    uint64_t inputs = 0;
  };
  void see_inputs(const Tensor& input);
  void see_rows(const ModuleCall& call);
  void end_calls();
  void end_courses();
  /// `call`: for an activation, the number of earlier calls of its module in this step. Observations of all calls are
  /// merged.
  void see(const Side& side, size_t index, const Tensor& tensor, std::optional<size_t> call = {});
  void see_update(Parameter& p, Observation& o);
  void keep(HistoryStep&& step);
  /// Starts or stops tracing for the next step.
  void trace_next();
  std::optional<detail::CutSearch> cut_search() const;
  void see_tensor(const Weak<State>& weak, const std::string& name, const Tensor& tensor);
  /// Hooks of leaves are kept between steps.
  void watch_leaf(const Weak<State>& weak, const std::string& name, size_t index, const Tensor& leaf);

  class Living {
   public:
    void add(State* state) {
      const std::lock_guard lock(mutex_);
      states_.push_back(state);
      count_.store(states_.size(), std::memory_order_relaxed);
    }
    void remove(State* state) {
      const std::lock_guard lock(mutex_);
      std::erase(states_, state);
      count_.store(states_.size(), std::memory_order_relaxed);
    }
    bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
    std::vector<Weak<State>> of_thread() const;

   private:
    mutable std::mutex mutex_;
    std::vector<State*> states_;
    std::atomic<size_t> count_ = 0;
  };
  static Living& living() {
    static auto* const all = new Living;  // never destroyed, since static recorders may be destroyed last
    return *all;
  }

  const RecorderOptions options;
  std::mutex mutex;
  std::vector<Parameter> parameters;
  std::vector<HookHandle> hooks;
  std::unordered_map<std::string, size_t> activations;
  /// By name: the leaf last passed to `watch`, and its hook.
  std::unordered_map<std::string, std::pair<Tensor, HookHandle>> leaves;
  /// The thread that sends its `watch` calls to this recorder, and the state itself for them.
  std::atomic<std::thread::id> thread = std::this_thread::get_id();
  Weak<State> self;
  std::vector<Callback<void(const History&, const HistoryStep&)>> listeners;
  int64_t now = 0, first = 0;
  /// Every stride-th recorded step is kept.
  int64_t stride = 1;
  HistoryStep pending;
  std::vector<CallCourse> courses;  ///< of this step, by watched index
  Calls calls;
  uint64_t last_inputs = 0;
  Tensor first_input;  ///< kept until the next step's input exists, so that its memory is not reused
  uint32_t first_version = 0;
  bool traced = false;
  int searches = 0;
  int64_t recorded = 0;  ///< steps of this process
  /// The producer of the last activation, kept so that its address is not reused.
  Edge newest;
  History history;
  const Shared<detail::BackwardTracer> tracer = Shared<detail::BackwardTracer>::make();
};

namespace {

// Maximum number of steps in which all kernels are searched.
constexpr int most_searches = 3;

/// Finds parameters with overlapping memory, which is a mistake: a shared parameter would be one tensor.
template <class Parameters>
void find_shared_memory(const Parameters& parameters, History& history) {
  struct Range {
    const char *begin, *end;
    size_t index;
  };
  std::vector<Range> ranges;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const detail::MemoryRange range = detail::range_of(parameters[i].tensor.raw_view());
    if (range.begin != nullptr) ranges.push_back({range.begin, range.end, i});
  }
  std::ranges::sort(ranges, {}, &Range::begin);
  for (size_t i = 1; i < ranges.size(); ++i) {
    const size_t a = std::min(ranges[i - 1].index, ranges[i].index), b = std::max(ranges[i - 1].index, ranges[i].index);
    const bool same = parameters[a].tensor.impl() == parameters[b].tensor.impl();
    if (ranges[i].begin >= ranges[i - 1].end || same) continue;
    history.program.shared.push_back({history.watched[a].name, history.watched[b].name, "", false});
  }
}

/// Whether a module of this class drops elements at random; `options` is its extra_repr.
bool drops_in_training(const std::string& kind, const std::string& options) {
  const bool is_dropout = kind.find("Dropout") != std::string::npos;
  const size_t at = is_dropout ? options.find("p=") : options.find("dropout=");
  if (at == std::string::npos) return is_dropout;
  return std::strtod(options.c_str() + options.find('=', at) + 1, nullptr) > 0;
}

double epsilon_of(DType dtype) { return is_floating(dtype) ? machine_epsilon(dtype) : 0; }

void merge(std::optional<Statistics>& into, const Statistics& more, bool together) {
  if (into && together) *into += more;
  else into = more;
}

}  // namespace

Observation& GradientRecorder::State::observation(size_t index) {
  if (pending.observations.size() <= index) pending.observations.resize(index + 1);
  return pending.observations[index];
}

void GradientRecorder::State::see(const Side& side, size_t index, const Tensor& tensor, std::optional<size_t> call) {
  if (!due() || !tensor.defined() || tensor.device().type == DeviceType::meta) return;
  const detail::UnwatchedScope aside;
  const Statistics seen = statistics(tensor);
  const auto bins = histogram_due() ? Shared<Histogram>::make(magnitude_histogram(tensor)) : nullptr;
  const std::lock_guard lock(mutex);
  Observation& o = observation(index);
  merge(o.*side.statistics, seen, call.has_value());
  if (bins) o.*side.histogram = bins;
  auto& first = history.watched[index].*side.bad;
  if (seen.non_finite > 0 && !first) first = now;
  if (!call) return;
  if (courses.size() <= index) courses.resize(index + 1);
  std::vector<double>& rms = side.bad == &Watched::bad_value ? courses[index].values : courses[index].gradients;
  if (rms.size() <= *call) rms.resize(*call + 1, -1);
  rms[*call] = seen.non_finite > 0 ? NAN : seen.rms();
}

void GradientRecorder::State::see_update(Parameter& p, Observation& o) {
  const NoGradGuard unrecorded;
  const Tensor host = p.tensor.detach().to(Device()).to(f32).contiguous();
  if (host.dtype() != f32 || host.device().type == DeviceType::meta) return;
  if (!p.before.defined() || p.before.numel() != host.numel()) {
    p.before = host.clone();
    return;
  }
  const double change = std::sqrt(cpu::replace_and_difference(p.before.raw_view(), host.raw_view()));
  if (o.value) o.update_ratio = o.value->norm > 0 ? change / o.value->norm : change > 0 ? INFINITY : 0.0;
}

void GradientRecorder::State::trace_next() {
  const int64_t n = number(now);
  traced = options.trace_every > 0 && due() && (n < 3 || n % options.trace_every == 0);
  if (!traced) return detail::stop_tracing(tracer.get());
  const ModelCalls& model = history.program.model;
  tracer->program.search(cut_search(), model.equal_rows > 0 && searches < most_searches ? model.rows : 0);
  if (tracer->program.searches()) ++searches;
  detail::start_tracing(tracer);
}

// Returns a search only if a gradient is missing, since it observes every kernel.
std::optional<detail::CutSearch> GradientRecorder::State::cut_search() const {
  const ModelCalls& model = history.program.model;
  if (searches >= most_searches || recorded == 0) return {};
  detail::CutSearch search;
  bool wanted = model.unrecorded_steps > 1 && !model.unrecorded_was_followed;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool lacks = history.watched[i].trained && !parameters[i].had_gradient;
    if (lacks) wanted |= search.add_parameter(i, parameters[i].tensor);
  }
  if (!wanted) return {};
  return search;
}

void GradientRecorder::State::see_inputs(const Tensor& input) {
  ModelCalls& model = history.program.model;
  if (model.same_tensor) return;
  calls.inputs = calls.inputs * 0x9E3779B97F4A7C15 + detail::fingerprint(input);
  model.rows = input.dim() > 0 ? input.size(0) : 1;
  if (model.inputs > 1 || calls.all > 1) return;
  if (!first_input.defined()) {
    first_input = input, first_version = input.version();
    return;
  }
  // If the program holds the batch, its repetition is intended.
  const bool whole = static_cast<size_t>(input.nbytes()) == input.impl()->storage->bytes;
  const bool held = input.impl() == first_input.impl() || (whole && input.shares_storage(first_input));
  model.same_tensor = held && input.version() == first_version;
}

void GradientRecorder::State::see_rows(const ModuleCall& call) {
  const Tensor& output = call.outputs[0];
  const bool differ = std::ranges::any_of(call.inputs, [&](const Tensor& in) {
    return in.defined() && in.dim() > 0 && output.dim() > 0 && in.size(0) == output.size(0) &&
           detail::rows_are_equal(in) == false;
  });
  if (!differ) return;
  history.program.model.rows = output.size(0);
  int64_t& times = history.program.model.equal_rows;
  times = detail::rows_are_equal(output) == true ? times + 1 : 0;
}

void GradientRecorder::State::end_calls() {
  ModelCalls& model = history.program.model;
  const Calls ended = std::exchange(calls, {});
  if (ended.all == 0) return;
  ++model.trained;
  model.trained_in_evaluation = ended.in_evaluation == ended.all ? model.trained_in_evaluation + 1 : 0;
  if (model.inputs > 0) model.same_inputs = ended.inputs == last_inputs ? model.same_inputs + 1 : 0;
  last_inputs = ended.inputs;
  ++model.inputs;
  if (model.inputs > 1) first_input = {};
}

// Keeps the last course, except that the first one with non-finite values stays.
void GradientRecorder::State::end_courses() {
  std::vector<CallCourse>& kept = history.program.calls;
  const auto is_bad = [](const CallCourse& c) {
    return std::ranges::any_of(c.values, [](double v) { return std::isnan(v); });
  };
  for (size_t index = 0; index < courses.size(); ++index) {
    CallCourse& course = courses[index];
    if (course.values.size() > 1) {
      auto known = std::ranges::find(kept, index, &CallCourse::index);
      if (known == kept.end()) known = kept.insert(known, {.index = index});
      if (!is_bad(*known)) *known = {index, now, course.values, course.gradients};
    }
    course.values.clear(), course.gradients.clear();
  }
}

// When the history is full, every second step is dropped, and later only every second one is added.
void GradientRecorder::State::keep(HistoryStep&& step) {
  const auto goes = [&](const HistoryStep& s) { return number(s.step) % stride != 0; };
  if (goes(step)) return;
  auto& steps = history.steps;
  if (static_cast<int64_t>(steps.size()) >= options.kept_steps) {
    stride *= 2;
    std::erase_if(steps, goes);
    if (goes(step)) return;
  }
  steps.push_back(std::move(step));
}

GradientRecorder::GradientRecorder(NamedTensors parameters, RecorderOptions options, Location where)
    : state_(Shared<State>::make(options)) {
  const auto fail = [&](std::string problem) {
    raise<ValueError>({.op = "GradientRecorder", .problem = std::move(problem)}, where);
  };
  if (options.trace_every < 0) fail("trace_every starts at 0");
  if (options.every < 1 || options.histogram_every < 1 || options.kept_steps < 1) fail("its options start at 1");
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.defined()) fail(fmt::format("the parameter '{}' is undefined", name));
    if (!tensor.is_leaf()) fail(fmt::format("'{}' is no leaf: the result of an op goes to watch()", name));
  }
  for (auto& [name, tensor] : parameters) {
    const size_t index = state_->history.watched.size();
    state_->history.watched.push_back(
        {.name = name, .epsilon = epsilon_of(tensor.dtype()), .trained = tensor.requires_grad()});
    if (tensor.requires_grad()) {
      state_->tracer->add_parameter(tensor.impl(), index);
      own(register_post_accumulate_grad_hook(
          tensor,
          [weak = Weak(state_), index](const Tensor& leaf) {
            const auto state = weak.lock();
            if (state == nullptr) return;
            state->see(gradients, index, leaf.grad());
            state->parameters[index].had_gradient = true;
          },
          where));
    }
    state_->parameters.push_back({.tensor = std::move(tensor)});
  }
  state_->history.every = options.every;
  find_shared_memory(state_->parameters, state_->history);
  state_->self = state_;
  state_->trace_next();
}

void GradientRecorder::watch(const std::string& name, const Tensor& activation, Location where) {
  if (!activation.defined()) {
    raise<ValueError>({.op = "GradientRecorder", .problem = fmt::format("'{}' is undefined", name)}, where);
  }
  state_->see_tensor(state_, name, activation);
}

Tensor watch(const Tensor& x, const std::string& name, Location where) {
  if (!x.defined()) {
    raise<ValueError>({.op = "watch", .problem = fmt::format("'{}' is undefined", name)}, where);
  }
  if (GradientRecorder::State::living().empty()) return x;
  for (const auto& weak : GradientRecorder::State::living().of_thread()) {
    if (const auto state = weak.lock()) state->see_tensor(weak, name, x);
  }
  return x;
}

void GradientRecorder::see_output(const Weak<State>& weak, const std::string& name, const Tensor& output) {
  const auto state = weak.lock();
  if (state == nullptr || !state->due()) return;
  // A container returns the output of its last module, so skip it.
  if (grad_mode().enabled && needs_gradient(output.impl())) {
    const std::lock_guard lock(state->mutex);
    Edge producer(output.impl()->node, output.impl()->output_number);
    if (producer.node() == state->newest.node() && producer.output() == state->newest.output()) return;
    state->newest = std::move(producer);
  }
  state->see_tensor(weak, name, output);
}

void GradientRecorder::State::see_tensor(const Weak<State>& weak, const std::string& name, const Tensor& tensor) {
  if (!due() || !is_floating(tensor.dtype())) return;
  const bool recorded = grad_mode().enabled && needs_gradient(tensor.impl());
  size_t index = 0, call = 0;
  {
    const std::lock_guard lock(mutex);
    const auto [entry, fresh] = activations.try_emplace(name, history.watched.size());
    if (fresh) history.watched.push_back({.name = name, .kind = WatchedKind::activation});
    index = entry->second;
    if (index < courses.size()) call = courses[index].values.size();
    Watched& w = history.watched[index];
    if (w.op.empty() && recorded && !tensor.is_leaf()) {
      const Node& node = *tensor.impl()->node;
      w.op = node.op, w.place = detail::short_place(node.where);
    }
  }
  see(values, index, tensor, call);
  if (!recorded) return;
  if (tensor.is_leaf()) return watch_leaf(weak, name, index, tensor);
  const auto see_gradient = [weak, index, call](const Tensor& gradient) {
    if (const auto s = weak.lock()) s->see(gradients, index, gradient, call);
  };
  register_hook(tensor, see_gradient, Location::none());  // registered here, so that tracing ignores it
}

void GradientRecorder::see_norm(const Weak<State>& weak, const std::string& name, const ModuleCall& call) {
  const auto state = weak.lock();
  if (state == nullptr || !state->due() || !grad_mode().enabled || call.inputs.empty()) return;
  const Tensor& x = call.inputs[0];
  if (!x.defined() || x.dim() == 0 || !needs_gradient(call.outputs[0].impl())) return;
  const std::lock_guard lock(state->mutex);
  auto& all = state->history.program.single_batches;
  auto known = std::ranges::find(all, name, &SingleBatches::name);
  if (known == all.end()) known = all.insert(known, {.name = name, .place = detail::short_place(call.where)});
  ++known->steps;
  known->single += x.size(0) == 1;
}

void GradientRecorder::see_model(const Weak<State>& weak, const ModuleCall& call) {
  const auto state = weak.lock();
  if (state == nullptr || recomputing() || detail::unwatched_scopes > 0) return;
  const detail::UnwatchedScope aside;
  const std::lock_guard lock(state->mutex);
  ModelCalls& model = state->history.program.model;
  const Tensor& output = call.outputs[0];
  if (!grad_mode().enabled) {
    if (!call.training || model.active_part.empty()) return;
    ++model.unrecorded;
    model.unrecorded_steps += std::exchange(model.last_unrecorded, state->now) != state->now;
    if (model.unrecorded_place.empty()) model.unrecorded_place = detail::short_place(call.where);
    if (detail::CutSearch* const search = state->tracer->program.cuts()) search->add_unrecorded_output(output);
    return;
  }
  if (!state->due() || !needs_gradient(output.impl())) return;
  const NoGradGuard unrecorded;
  const detail::UnrecordedScope uncaptured;
  ++state->calls.all;
  state->calls.in_evaluation += !call.training;
  if (model.place.empty()) model.place = detail::short_place(call.where);
  if (!call.inputs.empty() && call.inputs[0].defined()) state->see_inputs(call.inputs[0]);
  if (!state->traced) return;
  state->tracer->program.model_returned(output);
  state->see_rows(call);
}

void GradientRecorder::note_part(const std::string& name, const std::string& kind, const std::string& options) {
  std::string& part = state_->history.program.model.active_part;
  if (!part.empty() || !(drops_in_training(kind, options) || kind.starts_with("BatchNorm"))) return;
  part = name.empty() ? kind : fmt::format("{} ({})", name, kind);
}

// Embeddings are often shared intentionally, such as by an encoder and a decoder.
void GradientRecorder::note_shared(const std::string& first, const std::string& second, const std::string& kind) {
  if (kind.starts_with("Embedding")) return;
  state_->history.program.shared.push_back({first, second, kind});
}

void GradientRecorder::State::watch_leaf(const Weak<State>& weak, const std::string& name, size_t index,
                                         const Tensor& leaf) {
  const std::lock_guard lock(mutex);
  auto& [seen, hook] = leaves[name];
  if (seen.defined() && seen.impl() == leaf.impl()) return;
  hook.remove();
  const auto see_gradient = [weak, index](const Tensor& gradient) {
    if (const auto s = weak.lock()) s->see(gradients, index, gradient, 0);
  };
  hook = register_hook(leaf, see_gradient, Location::none());
  seen = leaf;
}

std::vector<Weak<GradientRecorder::State>> GradientRecorder::State::Living::of_thread() const {
  const std::lock_guard lock(mutex_);
  std::vector<Weak<State>> out;
  for (const State* state : states_) {
    if (state->thread.load(std::memory_order_relaxed) == std::this_thread::get_id()) out.push_back(state->self);
  }
  return out;
}

void GradientRecorder::own(HookHandle hook) { state_->hooks.push_back(std::move(hook)); }

void GradientRecorder::step(std::optional<double> loss, Location) {
  State& state = *state_;
  state.thread.store(std::this_thread::get_id(), std::memory_order_relaxed);
  if (state.due()) {
    for (size_t i = 0; i < state.parameters.size(); ++i) {
      state.see(values, i, state.parameters[i].tensor);
      const std::lock_guard lock(state.mutex);
      state.see_update(state.parameters[i], state.observation(i));
    }
    HistoryStep done;
    {
      const std::lock_guard lock(state.mutex);
      done = std::exchange(state.pending, {});
      state.newest = {};
      done.step = state.now, done.loss = loss;
      state.end_calls(), state.end_courses();
      ++state.recorded;
      state.tracer->finish(state.now, state.history);
      detail::note_memory(state.history.memory, state.now, state.traced, state.memory_seen);
    }
    for (const auto& call : state.listeners) call(state.history, done);
    const std::lock_guard lock(state.mutex);
    state.keep(std::move(done));
  }
  ++state.now;
  state.trace_next();
}

void GradientRecorder::set_step(int64_t step, Location where) {
  if (step < 1) {
    raise<ValueError>({.op = "GradientRecorder", .problem = fmt::format("there is no step {}", step)}, where);
  }
  state_->now = step;
  state_->first = 1;
  state_->trace_next();
}

void GradientRecorder::remember(const History& earlier) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  std::vector<Watched>& watched = state.history.watched;
  std::vector<size_t> places;
  for (const Watched& old : earlier.watched) {
    const auto found = std::ranges::find(watched, old.name, &Watched::name);
    places.push_back(static_cast<size_t>(found - watched.begin()));
    if (found == watched.end()) {
      if (old.kind == WatchedKind::activation) state.activations.emplace(old.name, watched.size());
      watched.push_back({.name = old.name, .kind = old.kind});
      watched.back().op = old.op, watched.back().place = old.place;
    }
    Watched& now = watched[places.back()];
    if (old.bad_value) now.bad_value = std::min(*old.bad_value, now.bad_value.value_or(*old.bad_value));
    if (old.bad_gradient) now.bad_gradient = std::min(*old.bad_gradient, now.bad_gradient.value_or(*old.bad_gradient));
  }
  const std::vector<HistoryStep> own = std::exchange(state.history.steps, {});
  for (const HistoryStep& step : earlier.steps) {
    HistoryStep placed{step.step, step.loss, {}};
    for (size_t i = 0; i < step.observations.size(); ++i) {
      placed.observations.resize(std::max(placed.observations.size(), places[i] + 1));
      placed.observations[places[i]] = step.observations[i];
    }
    state.keep(std::move(placed));
  }
  for (const HistoryStep& step : own) state.keep(HistoryStep(step));
}

bool GradientRecorder::finite() const {
  const std::lock_guard lock(state_->mutex);
  for (const Watched& w : state_->history.watched) {
    if (w.bad_value || w.bad_gradient) return false;
  }
  return true;
}

const History& GradientRecorder::history() const { return state_->history; }

void GradientRecorder::on_step(Callback<void(const History&, const HistoryStep&)> call) {
  state_->listeners.push_back(std::move(call));
}

}  // namespace weft
