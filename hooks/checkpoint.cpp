#include "checkpoint.hpp"

#include <algorithm>
#include <mutex>
#include <span>

#include <fmt/format.h>

#include "../autograd/autocast.hpp"
#include "../tensor/generator.hpp"
#include "../tensor/layout.hpp"

namespace weft::detail {

namespace {

struct RandomState {
  Device device;
  GeneratorState state;
};

// The generators of these devices as they were then, until the end of the scope.
class ReplayedRandom {
 public:
  explicit ReplayedRandom(const std::vector<RandomState>& then) {
    for (const RandomState& r : then) {
      now_.push_back({r.device, default_generator(r.device).state()});
      default_generator(r.device).set_state(r.state);
    }
  }
  ~ReplayedRandom() {
    for (const RandomState& r : now_) default_generator(r.device).set_state(r.state);
  }
  ReplayedRandom(const ReplayedRandom&) = delete;

 private:
  std::vector<RandomState> now_;
};

}  // namespace

struct CheckpointCall::State {
  std::mutex mutex;
  Location where = Location::none();
  Function again;
  std::vector<Saved> inputs;
  std::vector<bool> needs_gradient;
  std::vector<RandomState> random;
  AutocastMode autocast = autocast_mode;
  // The function returned from its first run.
  bool complete = false;
  // What each saved tensor was like, in the order in which ops saved them.
  std::vector<Layout> layouts;
  // Filled by a second run; each is taken once.
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
    // Only for Saved::get: a name and a place for its errors.
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
    const ReplayedRandom replayed(random);
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
      raise<AutogradError>(
          {.op = "checkpoint",
           .problem = "backward runs inside the checkpointed function, through what it has just computed",
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
  state_->autocast.caches = false;  // the scope may be over by then
  state_->again = std::move(again);
  state_->random.push_back({Device(), default_generator().state()});
  for (const Tensor& t : inputs) {
    state_->needs_gradient.push_back(t.defined() && t.requires_grad());
    state_->inputs.push_back(t.defined() ? Saved(t) : Saved());
    if (!t.defined() || std::ranges::any_of(state_->random, [&](const auto& r) { return r.device == t.device(); }))
      continue;
    state_->random.push_back({t.device(), default_generator(t.device()).state()});
  }
}

CheckpointCall::~CheckpointCall() { state_->complete = true; }

SavedTensorHooks CheckpointCall::hooks() {
  return SavedTensorHooks(
      [state = state_](const Tensor& t) {
        state->layouts.push_back(t.raw_view().layout);
        return state->layouts.size() - 1;
      },
      [state = state_](size_t i) { return state->take(i); });
}

}  // namespace weft::detail
