// A captured step is the list of its kernel calls. Two recordings must agree call by call and address by address
// before one is replayed, which finds everything that the host does differently in each step. Fresh CPU memory is
// filled with a pattern, so values that the host wrote are found. Settings that the host reads are part of the key
// of a recording (tensor/configuration.hpp); Python adds the variables that the step's code names.
#include "capture.hpp"

#include <algorithm>
#include <functional>
#include <list>

#include <fmt/format.h>

#include "detail/captured_actions.hpp"
#include "../autograd/autocast.hpp"
#include "../autograd/autocast_cache-inl.hpp"
#include "../autograd/node.hpp"
#include "../tensor/configuration.hpp"
#include "../tensor/determinism.hpp"
#include "../tensor/tf32.hpp"
#include "../tensor/warning.hpp"

namespace weft::detail {

namespace {

constexpr const char* op = "capture";
/// A step settles after one or two attempts: the first creates states, then the memory stays the same.
constexpr int most_attempts = 6;
constexpr size_t most_dropped_kinds = 1024;

/// Key of a recording: everything that it depends on apart from the leaves.
std::string kind_of(std::span<const Tensor> inputs, std::string_view settings) {
  std::string kind(settings);
  CallBytes bytes(kind);
  for (const Tensor& x : inputs) bytes.add(x.raw_view().layout);
  bytes.add(configuration());
  for (const DType dtype : autocast_mode.dtypes) bytes.add(dtype);
  bytes.add(current_mode.enabled);
  bytes.add(current_mode.inference);
  bytes.add(saved_hooks != nullptr);
  bytes.add(deterministic());
  bytes.add(tf32_state().matmul);
  bytes.add(default_dtype());
  return kind;
}

void check_inputs(std::span<const Tensor> inputs, Location where) {
  for (const Tensor& x : inputs) {
    const char* problem = nullptr;
    if (!x.defined()) problem = "an input is undefined";
    else if (x.requires_grad()) problem = "an input requires a gradient, which a replay would not pass on";
    else if (x.device().type == DeviceType::meta) problem = "an input has no elements: it is on meta";
    if (problem == nullptr) continue;
    raise<ValueError>(
        {.op = op, .problem = problem, .remedy = "let the function capture objects that it shares with the program"},
        where);
  }
}

std::vector<Tensor> detached(std::vector<Tensor> tensors) {
  for (Tensor& t : tensors) {
    if (t.defined()) t = t.detach();
  }
  return tensors;
}

void copy_values(const std::vector<Tensor>& targets, std::span<const Tensor> values) {
  const NoGradGuard unrecorded;
  for (size_t i = 0; i < targets.size(); ++i) targets[i].copy_(values[i]);
}

/// Recordings for one key.
struct Entry {
  std::string kind;
  std::vector<Tensor> inputs;
  std::unique_ptr<CapturedActions> last;
  bool settled = false;
  int attempts = 0;
  int64_t replays = 0;

  void start_over() {
    last = nullptr;
    settled = false;
    attempts = 0;
  }
};

}  // namespace

struct StepReplayer::State {
  CaptureOptions options;
  std::list<Entry> entries;  ///< most recently used first
  CaptureStats stats = {};
  bool warm = false;
  std::vector<size_t> dropped_kinds = {};  ///< hashes of dropped keys

  Entry& entry_of(std::span<const Tensor> inputs, std::string_view settings, Location where) {
    std::string kind = kind_of(inputs, settings);
    const auto found = std::ranges::find_if(entries, [&](const Entry& entry) {
      return entry.kind == kind && (entry.last == nullptr || entry.last->has_leaves_as_now());
    });
    if (found != entries.end()) {
      entries.splice(entries.begin(), entries, found);
      return entries.front();
    }
    std::erase_if(entries, [](const Entry& entry) { return entry.settled && entry.last->is_stale(); });
    Entry entry;
    entry.kind = std::move(kind);
    for (const Tensor& x : inputs) entry.inputs.push_back(x.detach().clone());
    entries.push_front(std::move(entry));
    while (entries.size() > static_cast<size_t>(std::max(options.most_recordings, 1))) drop_oldest(where);
    return entries.front();
  }

  void drop_oldest(Location where) {
    const Entry dropped = std::move(entries.back());
    entries.pop_back();
    const size_t kind = std::hash<std::string>()(dropped.kind);
    const bool again = std::ranges::find(dropped_kinds, kind) != dropped_kinds.end();
    if (dropped_kinds.size() < most_dropped_kinds) dropped_kinds.push_back(kind);
    if (!again && dropped.replays > 0) return;
    warn({.op = op,
          .problem = fmt::format("the step is recorded again and again: inputs of more than {} kinds, or settings, "
                                 "come in turn, and so many recordings are kept",
                                 options.most_recordings),
          .remedy = "pad inputs to fewer shapes, pass numbers that change as tensors, or raise most_recordings"},
         where);
  }

  std::vector<Tensor> record(Entry& entry, Run run, void* step, std::span<const Tensor> inputs, Location where) {
    copy_values(entry.inputs, inputs);
    auto recording = std::make_unique<CapturedActions>();
    {
      const OwnCasts own_casts;
      ActionCapture recorder(*recording);
      recording->outputs = detached(run(step, entry.inputs));
      recorder.finish();
    }
    ++stats.eager;
    ++stats.recorded;
    std::vector<Tensor> outputs = recording->outputs;
    if (!recording->refusal().empty()) {
      raise<NotImplementedError>({.op = op,
                                  .problem = "this step cannot be replayed: it has run, and was not captured",
                                  .details = recording->refusal(),
                                  .remedy = "move that out of the step"},
                                 where);
    }
    const std::string changed = entry.last != nullptr ? recording->difference(*entry.last) : "nothing to compare with";
    entry.settled = changed.empty();
    entry.last = std::move(recording);
    if (entry.settled) {
      entry.last->hold();
    } else if (++entry.attempts == most_attempts) {
      entry.start_over();
      raise<NotImplementedError>(
          {.op = op,
           .problem =
               fmt::format("this step does something else in each of {} calls, and was not captured", most_attempts),
           .details = changed,
           .remedy = "let numbers that change be tensors that are written in place"},
          where);
    }
    return outputs;
  }
};

StepReplayer::StepReplayer(CaptureOptions options) : state_(new State{options, {}}) {}
StepReplayer::StepReplayer(StepReplayer&&) noexcept = default;
StepReplayer& StepReplayer::operator=(StepReplayer&&) noexcept = default;
StepReplayer::~StepReplayer() = default;

std::vector<Tensor> StepReplayer::run(Run run, void* step, std::span<const Tensor> inputs, Location where,
                                      std::string_view settings) {
  State& state = *state_;
  check_inputs(inputs, where);
  if (capture_recorder != nullptr) return run(step, inputs);  // an outer capture records it
  if (!state.warm) {
    std::vector<Tensor> outputs = detached(run(step, inputs));
    state.warm = true;
    ++state.stats.eager;
    return outputs;
  }
  Entry& entry = state.entry_of(inputs, settings, where);
  if (entry.settled && !entry.last->is_current()) entry.start_over();
  if (!entry.settled) return state.record(entry, run, step, inputs, where);
  copy_values(entry.inputs, inputs);
  entry.last->replay();
  ++state.stats.replayed;
  ++entry.replays;
  return entry.last->outputs;
}

CaptureStats StepReplayer::stats() const {
  CaptureStats stats = state_->stats;
  const std::list<Entry>& entries = state_->entries;
  if (!entries.empty() && entries.front().settled) {
    stats.kernels = entries.front().last->kernels();
    stats.batched = entries.front().last->batched();
  }
  for (const Entry& entry : entries) {
    if (entry.last == nullptr) continue;
    stats.recordings += entry.settled ? 1 : 0;
    stats.bytes += entry.last->bytes();
  }
  return stats;
}

void StepReplayer::forget() {
  state_->entries.clear();
  state_->warm = false;
}

}  // namespace weft::detail
