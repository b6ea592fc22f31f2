#include "../recorder.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>

#include "../../autograd/hooks.hpp"
#include "../../autograd/mode.hpp"
#include "../../autograd/node.hpp"
#include "../../backends/host_values.hpp"
#include "../../ops/detail/promote.hpp"
#include "../detail/backward_trace.hpp"
#include "../detail/text.hpp"

namespace weft {

namespace {

/// Where what is seen of a tensor goes: with the values, or with the gradients.
struct Side {
  std::optional<Statistics> Observation::*statistics;
  Shared<const Histogram> Observation::*histogram;
  std::optional<int64_t> Watched::*bad;
};
constexpr Side values{&Observation::value, &Observation::value_histogram, &Watched::bad_value};
constexpr Side gradients{&Observation::gradient, &Observation::gradient_histogram, &Watched::bad_gradient};

}  // namespace

// Hooks in the graph hold it weakly: they end with the recorder, and a graph that outlives it is none the wiser.
struct GradientRecorder::State {
  struct Parameter {
    Tensor tensor;
    Tensor before = {};  ///< its values at the last recorded step: f32, contiguous, on the host
  };

  explicit State(RecorderOptions o) : options(o) {}
  ~State() {
    detail::stop_tracing(tracer.get());
    for (HookHandle& hook : hooks) hook.remove();
  }

  /// Which of the recorded steps it is.
  int64_t number(int64_t step) const { return (step - first) / options.every; }
  bool due() const { return (now - first) % options.every == 0; }
  bool histogram_due() const { return number(now) % options.histogram_every == 0; }
  Observation& observation(size_t which);
  /// `together`: further elements of what this step saw already.
  void see(const Side& side, size_t which, const Tensor& tensor, bool together);
  void see_update(Parameter& p, Observation& o);
  void keep(RecordedStep&& step);
  /// Before a step begins: traces it or does not.
  void trace_next();

  const RecorderOptions options;
  std::mutex mutex;
  std::vector<Parameter> parameters;
  std::vector<HookHandle> hooks;
  std::unordered_map<std::string, size_t> activations;
  std::vector<Callback<void(const History&, const RecordedStep&)>> listeners;
  int64_t now = 0, first = 0;
  /// Of the recorded steps, each this many-th is kept.
  int64_t stride = 1;
  RecordedStep pending;
  /// The producer of the activation seen last, kept so that its address names nothing else meanwhile.
  Edge newest;
  History history;
  const Shared<detail::BackwardTracer> tracer = Shared<detail::BackwardTracer>::make();
};

namespace {

double epsilon_of(DType dtype) { return is_floating(dtype) ? machine_epsilon(dtype) : 0; }

void merge(std::optional<Statistics>& into, const Statistics& more, bool together) {
  if (into && together) *into += more;
  else into = more;
}

}  // namespace

Observation& GradientRecorder::State::observation(size_t which) {
  if (pending.of.size() <= which) pending.of.resize(which + 1);
  return pending.of[which];
}

void GradientRecorder::State::see(const Side& side, size_t which, const Tensor& tensor, bool together) {
  if (!due() || !tensor.defined() || tensor.device().type == DeviceType::meta) return;
  const Statistics seen = statistics(tensor);
  const auto bins = histogram_due() ? Shared<Histogram>::make(magnitude_histogram(tensor)) : nullptr;
  const std::lock_guard lock(mutex);
  Observation& o = observation(which);
  merge(o.*side.statistics, seen, together);
  if (bins) o.*side.histogram = bins;
  auto& first = history.watched[which].*side.bad;
  if (seen.non_finite > 0 && !first) first = now;
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
  const bool wanted = options.trace_every > 0 && due() && (n < 3 || n % options.trace_every == 0);
  if (wanted) detail::start_tracing(tracer);
  else detail::stop_tracing(tracer.get());
}

// When the memory is full, every second step goes, and from then on every second one comes.
void GradientRecorder::State::keep(RecordedStep&& step) {
  const auto goes = [&](const RecordedStep& s) { return number(s.step) % stride != 0; };
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
    const size_t which = state_->history.watched.size();
    state_->history.watched.push_back({.name = name, .epsilon = epsilon_of(tensor.dtype())});
    if (tensor.requires_grad()) {
      state_->tracer->add_parameter(tensor.impl(), which);
      own(register_post_accumulate_grad_hook(
          tensor,
          [weak = Weak(state_), which](const Tensor& leaf) {
            if (const auto state = weak.lock()) state->see(gradients, which, leaf.grad(), false);
          },
          where));
    }
    state_->parameters.push_back({.tensor = std::move(tensor)});
  }
  state_->history.every = options.every;
  state_->trace_next();
}

void GradientRecorder::watch(const std::string& name, const Tensor& activation, Location where) {
  if (!activation.defined()) {
    raise<ValueError>({.op = "GradientRecorder", .problem = fmt::format("'{}' is undefined", name)}, where);
  }
  see_output(state_, name, activation);
}

void GradientRecorder::see_output(const Weak<State>& weak, const std::string& name, const Tensor& output) {
  const auto state = weak.lock();
  if (state == nullptr || !state->due() || !is_floating(output.dtype())) return;
  const bool recorded = grad_mode().enabled && needs_gradient(output.impl());
  size_t which = 0;
  {
    const std::lock_guard lock(state->mutex);
    // A container returns what its last module returned.
    if (recorded) {
      Edge producer(output.impl()->node, output.impl()->output_number);
      if (producer.node() == state->newest.node() && producer.output() == state->newest.output()) return;
      state->newest = std::move(producer);
    }
    const auto [entry, fresh] = state->activations.try_emplace(name, state->history.watched.size());
    if (fresh) state->history.watched.push_back({.name = name, .kind = WatchedKind::activation});
    which = entry->second;
  }
  state->see(values, which, output, true);
  if (!recorded) return;
  register_hook(output, [weak, which](const Tensor& gradient) {
    if (const auto s = weak.lock()) s->see(gradients, which, gradient, true);
  });
}

void GradientRecorder::own(HookHandle hook) { state_->hooks.push_back(std::move(hook)); }

void GradientRecorder::step(std::optional<double> loss, Location) {
  State& state = *state_;
  if (state.due()) {
    for (size_t i = 0; i < state.parameters.size(); ++i) {
      state.see(values, i, state.parameters[i].tensor, false);
      const std::lock_guard lock(state.mutex);
      state.see_update(state.parameters[i], state.observation(i));
    }
    RecordedStep done;
    {
      const std::lock_guard lock(state.mutex);
      done = std::exchange(state.pending, {});
      state.newest = {};
    }
    done.step = state.now, done.loss = loss;
    for (const auto& call : state.listeners) call(state.history, done);
    const std::lock_guard lock(state.mutex);
    state.tracer->finish(state.now, state.history);
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
    }
    Watched& now = watched[places.back()];
    if (old.bad_value) now.bad_value = std::min(*old.bad_value, now.bad_value.value_or(*old.bad_value));
    if (old.bad_gradient) now.bad_gradient = std::min(*old.bad_gradient, now.bad_gradient.value_or(*old.bad_gradient));
  }
  const std::vector<RecordedStep> own = std::exchange(state.history.steps, {});
  for (const RecordedStep& step : earlier.steps) {
    RecordedStep placed{step.step, step.loss, {}};
    for (size_t i = 0; i < step.of.size(); ++i) {
      placed.of.resize(std::max(placed.of.size(), places[i] + 1));
      placed.of[places[i]] = step.of[i];
    }
    state.keep(std::move(placed));
  }
  for (const RecordedStep& step : own) state.keep(RecordedStep(step));
}

bool GradientRecorder::finite() const {
  const std::lock_guard lock(state_->mutex);
  for (const Watched& w : state_->history.watched) {
    if (w.bad_value || w.bad_gradient) return false;
  }
  return true;
}

const History& GradientRecorder::history() const { return state_->history; }

void GradientRecorder::on_step(Callback<void(const History&, const RecordedStep&)> call) {
  state_->listeners.push_back(std::move(call));
}

namespace {

std::string json(const Statistics& s) {
  const double bad = s.count > 0 ? static_cast<double>(s.non_finite) / static_cast<double>(s.count) : 0;
  const auto number = [](double v) { return detail::json_number(v, 6); };
  return fmt::format(
      R"({{"count":{},"norm":{},"mean":{},"deviation":{},"low":{},"high":{},"zeros":{},"non_finite":{}}})", s.count,
      number(s.norm), number(s.mean), number(s.deviation), number(s.low), number(s.high), number(s.zero_share()),
      number(bad));
}

}  // namespace

std::string json_line(const History& history, const RecordedStep& step) {
  std::string out = fmt::format("{{\"step\":{},", step.step);
  if (step.loss) out += fmt::format("\"loss\":{},", detail::json_number(*step.loss));
  out += "\"tensors\":{";
  for (size_t i = 0; i < step.of.size(); ++i) {
    const Observation& o = step.of[i];
    std::string parts;
    const auto add = [&](const char* key, const std::string& value) {
      parts += fmt::format("{}\"{}\":{}", parts.empty() ? "" : ",", key, value);
    };
    if (o.gradient) add("gradient", json(*o.gradient));
    if (o.value) add("value", json(*o.value));
    if (o.update_ratio) add("update_ratio", detail::json_number(*o.update_ratio, 6));
    if (history.watched[i].kind == WatchedKind::activation) add("kind", "\"activation\"");
    out += fmt::format("{}{}:{{{}}}", i == 0 ? "" : ",", detail::json_text(history.watched[i].name), parts);
  }
  return out + "}}";
}

}  // namespace weft
