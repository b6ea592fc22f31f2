// A recorded step consists of three training states: the start of the last good step, and the start and the end of
// the bad step. Loading and checking use the same format as other states.
#include "../step_recorder.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../file.hpp"
#include "../files/atomic_folder-inl.hpp"
#include "../files/background-inl.hpp"
#include "../files/folder-inl.hpp"
#include "state_folder-inl.hpp"
#include "step_record-inl.hpp"
#include "../../autograd/mode.hpp"
#include "../../tensor/settings.hpp"
#include "../../tensor/warning.hpp"

namespace weft::io {

namespace {

constexpr const char* recording = "StepRecorder";

void copy_into(TensorMap& kept, const TensorMap& now) {
  std::erase_if(kept, [&](const auto& entry) { return !now.contains(entry.first); });
  for (const auto& [name, tensor] : now) {
    Tensor& copy = kept[name];
    const bool fits = copy.defined() && copy.shape() == tensor.shape() && copy.dtype() == tensor.dtype();
    if (fits) copy.copy_(tensor.detach());
    else copy = host_copy(tensor).contiguous();
  }
}

int64_t bytes_of(const TrainingSnapshot& s) {
  int64_t bytes = 0;
  for (const TensorMap* tensors : {&s.weights, &s.optimizer, &s.masters, &s.gradients, &s.tensors}) {
    for (const auto& [name, tensor] : *tensors) bytes += tensor.nbytes();
  }
  return bytes;
}

/// Versions of a run's tensors at one moment, to find later changes.
class Marks {
 public:
  void set(const TrainingSnapshot& now) {
    marks_.clear();
    each(now, [&](const char* part, const std::string& name, const Tensor& tensor) {
      marks_.insert_or_assign({part, name}, mark_of(tensor));
    });
  }
  /// Returns the names of changed tensors that existed before: "optimizer: group.0.lr".
  std::vector<std::string> changed(const TrainingSnapshot& now) const {
    std::map<std::pair<std::string_view, std::string>, Mark> left = marks_;
    std::vector<std::string> out;
    each(now, [&](const char* part, const std::string& name, const Tensor& tensor) {
      const auto found = left.find({part, name});
      if (found == left.end() || !(found->second == mark_of(tensor))) out.push_back(name_of_part(part, name));
      if (found != left.end()) left.erase(found);
    });
    for (const auto& [key, mark] : left) out.push_back(name_of_part(key.first, key.second));
    return out;
  }

 private:
  /// Scalars, which an optimizer creates again for each state_dict, are compared by bits; others by memory and version.
  struct Mark {
    const void* memory = nullptr;
    uint64_t version = 0;
    uint64_t number = 0;
    bool operator==(const Mark& other) const = default;
  };
  static Mark mark_of(const Tensor& t) {
    Mark mark;
    if (t.dim() == 0 && t.device().is_cpu() && itemsize(t.dtype()) <= static_cast<int64_t>(sizeof mark.number)) {
      std::memcpy(&mark.number, t.data_ptr(), static_cast<size_t>(itemsize(t.dtype())));
      return mark;
    }
    mark.memory = t.data_ptr(), mark.version = static_cast<uint64_t>(t.version());
    return mark;
  }
  template <class F>
  static void each(const TrainingSnapshot& s, F&& f) {
    for (const auto& [name, t] : s.weights) f("weights", name, t);
    for (const auto& [name, t] : s.gradients) f("gradients", name, t);
    for (const auto& [name, t] : s.optimizer) f("optimizer", name, t);
    for (const auto& [name, t] : s.masters) f("masters", name, t);
  }

  std::map<std::pair<std::string_view, std::string>, Mark> marks_;
};

/// State at the start of a step, in host memory.
struct Kept {
  TrainingSnapshot moment;
  RunState state;
  StepRecord record;
  bool is_whole = false;

  void take(const TrainingSnapshot& now) {
    is_whole = false;
    moment.step = now.step, moment.optimizer_name = now.optimizer_name, moment.has_gradients = now.has_gradients;
    moment.texts = now.texts;
    copy_into(moment.weights, now.weights);
    copy_into(moment.optimizer, now.optimizer);
    copy_into(moment.masters, now.masters);
    copy_into(moment.gradients, now.gradients);
    copy_into(moment.tensors, now.tensors);
    is_whole = true;
  }
};

void check_folder(const Path& folder, Location where) {
  if (exists(folder) && !holds_step(folder)) {
    raise<ValueError>({.op = recording,
                       .problem = fmt::format("{} holds something else", folder.string()),
                       .remedy = "give it a folder of its own"},
                      where);
  }
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

}  // namespace

struct StepRecorder::Impl {
  Path folder;
  TrainingRun run;
  StepRecorderOptions options;
  Location made_at;
  std::string replayed = {};  ///< the folder given by the environment
  int64_t number = options.first_step;
  bool on = true;
  std::string text = {};
  Kept last = {}, present = {};
  /// After the last step.
  Marks marks = {};

  void give_up(const char* why) noexcept {
    on = false;
    last = {}, present = {};
    try {
      warn({.op = recording, .problem = "steps are no longer kept: " + first_line(why)}, made_at);
    } catch (const std::exception&) {  // out of memory, or an exception of the warning handler
    }
  }

  TrainingSnapshot moment(RunState& state) const {
    state.step = number;
    state.accumulated =
        std::ranges::any_of(run.module.parameters(), [](const Tensor& p) { return p.grad().defined(); });
    return moment_of(run, state, Location::none());
  }

  void begin(const TensorMap& batch) noexcept {
    try {
      const NoGradGuard unrecorded;
      std::swap(last, present);
      present.state = {};
      present.record = {.checks = {options.loss, options.gradients, options.parameters},
                        .form = StepForm::of(run.module, batch)};
      TrainingSnapshot now = moment(present.state);
      if (last.is_whole) last.record.changed = marks.changed(now);
      if (options.add_state) options.add_state(present.state);
      for (const auto& [name, tensor] : present.state.tensors) now.tensors.emplace(name, tensor);
      for (const auto& [name, tensor] : batch) {
        now.tensors.insert_or_assign(batch_prefix + name, tensor);
        present.record.devices[name] = tensor.device().name();
      }
      if (const int64_t bytes = bytes_of(now); bytes > options.most_bytes) {
        const std::string why =
            fmt::format("a state has {} MB, and most_bytes is {}", bytes >> 20, options.most_bytes >> 20);
        return give_up(why.c_str());
      }
      present.take(now);
    } catch (const std::exception& error) {
      give_up(error.what());
    }
  }

  void end(const Tensor& loss) {
    // Exceptions of `finding` are passed on.
    std::string why = looked_at(loss);
    if (on && why.empty() && options.finding) why = options.finding();
    if (!on) return;
    if (!why.empty()) return leave(why, loss);
    ++number;
    try {
      const NoGradGuard unrecorded;
      if (loss.defined()) present.moment.tensors[loss_name] = host_copy(loss);
      RunState ended;
      const TrainingSnapshot now = moment(ended);
      present.record.generators = now.texts.at(generators_file(0));
      marks.set(now);
    } catch (const std::exception& error) {
      give_up(error.what());
    }
  }

  std::string looked_at(const Tensor& loss) noexcept {
    try {
      return why_bad(present.record.checks, loss, run.module);
    } catch (const std::exception& error) {
      give_up(error.what());
      return {};
    }
  }

  void write(Kept& kept, AtomicFolder& whole) const {
    kept.state.tensors = kept.moment.tensors;
    kept.state.documents[record_name] = kept.record.text();
    complete(kept.moment, run, kept.state, Location::none());
    write_snapshot(whole.temporary(), kept.moment, {}, Location::none());
  }

  // Errors are warnings: the program receives the result of the step.
  void leave(const std::string& why, const Tensor& loss) noexcept {
    on = false;
    try {
      text = fmt::format("step {}: {}", number, why);
      try {
        write_all(why, loss);
        text += fmt::format("; left in {0}: ./weft replay {0}", folder.string());
      } catch (const std::exception& error) {
        text += fmt::format("; not left: {}", first_line(error.what()));
      }
      warn({.op = recording, .problem = text}, made_at);
    } catch (const std::exception&) {  // out of memory, or an exception of the warning handler
    }
    last = {}, present = {};
  }

  void leave_error(const char* what) noexcept {
    try {
      leave(threw_text + first_line(what), {});
    } catch (const std::exception&) {  // out of memory
    }
  }

  void write_all(const std::string& why, const Tensor& loss) {
    const NoGradGuard unrecorded;
    check_folder(folder, Location::none());
    if (loss.defined()) present.moment.tensors[loss_name] = host_copy(loss);
    present.record.kind = StepRecord::Kind::bad, present.record.why = why;
    ++number;
    Kept after;
    after.moment = moment(after.state);
    if (options.add_state) options.add_state(after.state);
    after.moment.tensors = after.state.tensors;
    after.record.kind = StepRecord::Kind::end;
    AtomicFolder whole(folder, recording, Location::none());
    if (last.is_whole) write(last, whole);
    write(present, whole);
    write(after, whole);
    whole.commit();
  }
};

StepRecorder::StepRecorder(Path folder, const TrainingRun& run, StepRecorderOptions options, Location where)
    : impl_(new Impl{std::move(folder), run, std::move(options), where}) {
  if (const char* replayed = weft::detail::setting("WEFT_REPLAY_STEP"); replayed != nullptr) impl_->replayed = replayed;
  check_folder(impl_->folder, where);
  if (!exists(impl_->folder)) check_writable(impl_->folder, recording, where);
  (void)moment_of(run, {}, where);
}
StepRecorder::~StepRecorder() = default;

bool StepRecorder::found() const { return !impl_->text.empty(); }
const std::string& StepRecorder::text() const { return impl_->text; }

Tensor StepRecorder::step(const StepFunction& function, const TensorMap& batch, Location where) {
  Impl& s = *impl_;
  for (const auto& [name, tensor] : batch) {
    if (tensor.defined()) continue;
    raise<ValueError>({.op = recording, .problem = fmt::format("\"{}\" of the batch is undefined", name)}, where);
  }
  if (!s.replayed.empty()) std::exit(replay_both(s.replayed, s.run, function, where));
  if (!s.on) return function(batch);
  s.begin(batch);
  if (!s.on) return function(batch);
  Tensor loss;
  try {
    loss = function(batch);
  } catch (const std::exception& error) {
    s.leave_error(error.what());
    throw;
  } catch (...) {
    s.leave_error("something that is no exception");
    throw;
  }
  s.end(loss);
  return loss;
}

}  // namespace weft::io
