#include "checkpoint.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "../autograd/autocast.hpp"
#include "../tensor/generator.hpp"
#include "../tensor/layout.hpp"
#include "../tensor/memory_use.hpp"

namespace weft::detail {

namespace {

// State of a stream's generator, or of a device's default generator.
struct RandomState {
  Device device;
  GeneratorState state;
  Shared<Generator> stream = {};

  Generator& generator() const { return stream != nullptr ? *stream : default_generator(device); }
};

// The stream that is this thread's default generator, or null.
constinit thread_local const Shared<Generator>* current_stream = nullptr;
Shared<Generator> this_threads_stream() { return current_stream != nullptr ? *current_stream : nullptr; }
// This thread's innermost checkpointed call.
constinit thread_local CheckpointCall::State* running_call = nullptr;

// Sets these generators to their saved states during the scope.
class ReplayedRandom {
 public:
  explicit ReplayedRandom(const std::vector<RandomState>& then) {
    for (const RandomState& r : then) {
      now_.push_back({r.device, r.generator().state(), r.stream});
      r.generator().set_state(r.state);
    }
  }
  ~ReplayedRandom() {
    for (const RandomState& r : now_) r.generator().set_state(r.state);
  }
  ReplayedRandom(const ReplayedRandom&) = delete;

 private:
  std::vector<RandomState> now_;
};

// A recomputation does not belong to the checkpointed calls around backward.
class SecondRun {
 public:
  SecondRun() : outer_(std::exchange(running_call, nullptr)) {}
  ~SecondRun() { running_call = outer_; }
  SecondRun(const SecondRun&) = delete;

 private:
  CheckpointCall::State* outer_;
};

}  // namespace

struct CheckpointCall::State {
  std::mutex mutex;
  Location where = Location::none();
  Function again;
  std::vector<Saved> inputs;
  std::vector<bool> needs_gradient;
  std::vector<RandomState> random;
  // The default generator during the call, if it was a stream.
  Shared<Generator> stream;
  // The enclosing checkpointed call.
  State* outer = nullptr;
  AutocastMode autocast = autocast_mode;
  // Whether the first run of the function is complete.
  bool complete = false;
  // Layouts of the saved tensors, in the order in which ops saved them.
  std::vector<Layout> layouts;
  // Recomputed tensors; each is taken once.
  std::vector<Tensor> values;

  [[noreturn]] void raise_different(const std::string& what) const {
    raise<AutogradError>({.op = "checkpoint",
                          .problem = "the function did something else the second time",
                          .details = what,
                          .remedy = "let it depend on its inputs and on Weft's random generators alone",
                          .event = "called"},
                         where);
  }

  std::vector<Tensor> kept_inputs() const {
    // Supplies a name and a location for errors of Saved::get.
    struct Call : Node {
      using Node::Node;
      ~Call() { drop_unpacked(*this); }
    } call(nullptr, "checkpoint", where);
    std::vector<Tensor> out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined()) {
        out.emplace_back();
        continue;
      }
      out.push_back(inputs[i].get(call).detach());
      if (needs_gradient[i]) out.back().requires_grad_(true, where);
    }
    return out;
  }

  void run_again() {
    const std::vector<Tensor> arguments = kept_inputs();
    std::optional<StreamGuard> as_default;
    if (stream != this_threads_stream()) as_default.emplace(stream ? stream : Shared<Generator>::make());
    const ReplayedRandom replayed(random);
    const SecondRun second_run;
    const detail::MemoryUseScope use(detail::MemoryUse::forward);
    const AutocastModeGuard as_then(autocast);
    const EnableGradGuard recorded;
    const RecomputingScope second_time;
    values.clear();
    {
      const SavedTensorHooks collect(
          [this](const Tensor& t) {
            const size_t i = values.size();
            if (i >= layouts.size()) raise_different(fmt::format("it saved more than {} tensors", layouts.size()));
            const Layout& then = layouts[i];
            const Layout& now = t.raw_view().layout;
            if (!same_sizes(then, now) || then.dtype != now.dtype) {
              raise_different(fmt::format("tensor {} that it saved was {} {}, now {} {}", i, name(then.dtype),
                                          Dims(sizes_of(then)).text(), name(now.dtype), Dims(sizes_of(now)).text()));
            }
            values.push_back(t.detach());
            return values.back();
          },
          [](const Tensor& t) { return t; });
      again(arguments);
    }
    if (values.size() != layouts.size()) {
      raise_different(fmt::format("it saved {} tensors, then {}", layouts.size(), values.size()));
    }
  }

  Tensor take(size_t i) {
    if (!complete) {
      raise<AutogradError>({.op = "checkpoint",
                            .problem = "backward runs inside the checkpointed function, through its own results",
                            .remedy = "checkpoint the part before it",
                            .event = "called"},
                           where);
    }
    std::lock_guard lock(mutex);
    if (i >= values.size() || !values[i].defined()) run_again();
    return std::exchange(values[i], Tensor());
  }
};

CheckpointCall::CheckpointCall(std::vector<Tensor> inputs, Function again, Location where)
    : state_(Shared<State>::make()) {
  state_->where = where;
  state_->autocast.caches = false;  // the scope may have ended by then
  state_->again = std::move(again);
  state_->stream = this_threads_stream();
  state_->random.push_back({Device(), default_generator().state()});
  for (const Tensor& t : inputs) {
    state_->needs_gradient.push_back(t.defined() && t.requires_grad());
    state_->inputs.push_back(t.defined() ? Saved(t) : Saved());
    if (!t.defined() || std::ranges::any_of(state_->random, [&](const auto& r) { return r.device == t.device(); }))
      continue;
    state_->random.push_back({t.device(), default_generator(t.device()).state()});
  }
  state_->outer = std::exchange(running_call, state_.get());
}

CheckpointCall::~CheckpointCall() {
  state_->complete = true;
  running_call = state_->outer;
}

SavedTensorHooks CheckpointCall::hooks() {
  return SavedTensorHooks(
      [state = state_](const Tensor& t) {
        state->layouts.push_back(t.raw_view().layout);
        return state->layouts.size() - 1;
      },
      [state = state_](size_t i) { return state->take(i); });
}

void note_stream(const Shared<Generator>& stream) {
  for (CheckpointCall::State* call = running_call; call != nullptr; call = call->outer) {
    const auto noted = [&](const RandomState& r) { return r.stream == stream; };
    if (call->stream == stream || std::ranges::any_of(call->random, noted)) continue;
    call->random.push_back({Device(), stream->state(), stream});
  }
}

StreamGuard::StreamGuard(const Shared<Generator>& stream) : stream_(stream), outer_(current_stream), guard_(*stream_) {
  note_stream(stream_);
  current_stream = &stream_;
}
StreamGuard::~StreamGuard() { current_stream = outer_; }

}  // namespace weft::detail
