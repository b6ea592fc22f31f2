#include "../trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/random.hpp"
#include "../../tensor/allocator.hpp"
#include "../../tensor/warning.hpp"
#include "../signals.hpp"
#include "loop_state-inl.hpp"
#include "step-inl.hpp"

namespace weft::train {

namespace {

constexpr const char *op = "Trainer", *usual_metric = "val_loss";

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <class F, class... A>
void call_all(const std::vector<F>& callbacks, const A&... arguments) {
  for (const F& f : callbacks) f(arguments...);
}

}  // namespace

struct Trainer::State {
  nn::Module& model;
  optim::Optimizer& optimizer;
  TrainerOptions options;
  Location where;
  Stepper stepper;
  EarlyStopping best;
  std::optional<Checkpoints> checkpoints = {};
  std::vector<detail::SavedPart> parts = {};

  std::vector<Callback<void()>> update_listeners = {};
  std::vector<Callback<void(const TrainEvent&)>> step_listeners = {}, epoch_listeners = {}, evaluation_listeners = {};
  std::vector<Callback<void(const Checkpoints::Saved&)>> save_listeners = {};

  Callback<void(Evaluation&)> evaluate_with = {};
  std::optional<EndBySignal> signals = {};
  /// Stopping and ended describe the last call of fit.
  enum class Phase { fresh, running, stopping, ended };
  Phase phase = Phase::fresh;
  int64_t batches_per_epoch = 0, epoch = 0, samples = 0, saved_step = -1;
  LoopState loop = {};
  /// Restored, and no batch since: the epoch may have no further batch.
  bool is_just_restored = false;
  /// Start of the current step, for the speed.
  struct {
    double seconds = 0;
    int64_t samples = 0;
  } step_start = {};
  std::string failure = {};

  State(nn::Module& module, optim::Optimizer& opt, TrainerOptions given, Location at);

  bool is_interrupted() const { return options.end_by_signal && EndBySignal::received() != 0; }
  TrainEvent event(io::Figures figures = {}) const { return {stepper.steps(), epoch, loop.batch, std::move(figures)}; }
  io::TrainingRun run() const { return {model, &optimizer, options.generators, options.masters}; }
  std::string place() const { return fmt::format("step {}, rank {}", stepper.steps(), options.rank); }
  template <class F>
  void tell(const std::vector<F>& listeners, const char* name, const TrainEvent& what) const;
  void after_step(const StepResult& result);
  io::Figures evaluation();
  bool judge(const io::Figures& figures);
  void evaluate_if(bool due);
  io::RunState state() const;
  void save();
  std::vector<std::pair<detail::SavedPart, PartState>> parts_in(const io::RunState& found,
                                                                const LoopState& saved) const;
  void resume();
  void show_states() const;
};

// Calls listeners; their exceptions get their name and the step.
template <class F>
void Trainer::State::tell(const std::vector<F>& listeners, const char* name, const TrainEvent& what) const {
  at([&] { return fmt::format("{} of {}", name, place()); }, [&] { call_all(listeners, what); });
}

Trainer::State::State(nn::Module& module, optim::Optimizer& opt, TrainerOptions given, Location at)
    : model(module),
      optimizer(opt),
      options(std::move(given)),
      where(at),
      stepper(module, opt,
              {.accumulate = options.accumulate,
               .clip_norm = options.clip_norm,
               .autocast = options.autocast,
               .scaler = options.scaler,
               .masters = options.masters,
               .halt_on_nan = options.halt_on_nan,
               .offload_optimizer = options.offload_optimizer,
               .reduce = options.reduce,
               .mean_weight = options.mean_weight,
               .schedule = [this] { call_all(update_listeners); },
               .recorder = options.recorder,
               .rank = options.rank},
              at),
      best(options.early_stopping, at) {
  const auto refuse = [&](const char* problem) { raise<ValueError>({.op = op, .problem = problem}, at); };
  if (options.epochs < 0 || options.steps < 0 || options.epochs + options.steps == 0) {
    refuse("epochs or steps is above 0, and none is negative");
  }
  if (options.evaluate_every < 0 || options.empty_cache_every < 0) refuse("numbers of steps are not negative");
  if (options.resume && options.save.folder.empty()) refuse("there is no save.folder to resume from");
  const std::vector<size_t> strange = foreign_parameters(model, optimizer, options.masters);
  if (!options.save.folder.empty() && !strange.empty()) {
    raise<ValueError>(
        {.op = op,
         .problem = fmt::format("parameter {} of the optimizer is not the model's, and is not saved", strange[0]),
         .remedy = "register it in the model"},
        at);
  }
}

// ---- steps ----------------------------------------------------------------------------------------------------------

void Trainer::State::after_step(const StepResult& result) {
  const double spent = seconds() - step_start.seconds;
  io::Figures shown = {{"train_loss", result.loss}}, untold = {{"lr", optimizer.lr()}};
  if (result.grad_norm) untold.emplace_back("grad_norm", *result.grad_norm);
  if (options.scaler != nullptr) untold.emplace_back("loss_scale", options.scaler->get_scale());
  shown.emplace_back(options.unit + "_per_s",
                     static_cast<double>(samples - step_start.samples) / std::max(spent, 1e-9));
  step_start.samples = samples;
  io::Figures all = shown;
  all.insert(all.end(), untold.begin(), untold.end());
  tell(step_listeners, "on_step_end", event(all));
  const int64_t step = stepper.steps();
  if (options.empty_cache_every > 0 && result.updated && step % options.empty_cache_every == 0) {
    empty_cache(optimizer.groups()[0].parameters[0].device());
  }
  if (!result.updated) return;
  if (options.evaluate_every > 0 && step % options.evaluate_every == 0) {
    if (is_interrupted()) loop.is_evaluation_due = true;  // the sender of the signal may not wait for long
    else if (evaluate_with) {
      const io::Figures figures = evaluation();
      shown.insert(shown.end(), figures.begin(), figures.end());
    }
  }
  if (options.log != nullptr) options.log->record(step, shown, untold);
  if (checkpoints && options.save.every > 0 && step % options.save.every == 0) save();
  step_start.seconds = seconds();
}

// The figures of one evaluation, which are logged and compared.
io::Figures Trainer::State::evaluation() {
  loop.is_evaluation_due = false;
  loop.evaluated_step = stepper.steps();
  Evaluation evaluation;
  {
    const bool was_training = model.is_training();
    const NoGradGuard unrecorded;
    std::optional<AutocastGuard> mixed;
    if (options.autocast) mixed.emplace(*options.autocast);
    model.eval();
    struct Restore {
      nn::Module& model;
      bool training;
      ~Restore() { model.train(training); }
    } const restore{model, was_training};
    const RngForkGuard kept(devices_with_generators());  // an evaluation more or less changes nothing of the training
    at([&] { return "the evaluation of " + place(); }, [&] { evaluate_with(evaluation); });
  }
  const io::Figures figures = evaluation.figures();
  if (options.log != nullptr) {
    for (const auto& [name, picture] : evaluation.pictures()) options.log->sample_svg(stepper.steps(), name, picture);
  }
  const bool is_best = judge(figures);
  tell(evaluation_listeners, "on_evaluate", event(figures));
  if (is_best && checkpoints) checkpoints->save_best(run(), state(), where);
  return figures;
}

// Whether these metrics are the best so far.
bool Trainer::State::judge(const io::Figures& figures) {
  const std::string metric = options.metric.empty() ? usual_metric : options.metric;
  const auto judged = std::ranges::find(figures, metric, &io::Figures::value_type::first);
  if (judged != figures.end()) {
    return best.update(judged->second);
  }
  std::string names;
  for (const auto& [name, value] : figures) names += (names.empty() ? "" : ", ") + name;
  const std::string problem = fmt::format("the metric \"{}\" is none of the evaluation's figures: {}", metric,
                                          names.empty() ? "there are none" : names);
  if (!options.metric.empty() || options.early_stopping.patience > 0) {
    raise<ValueError>({.op = op, .problem = problem, .remedy = "name one of them in .metric"}, where);
  }
  if (checkpoints && options.save.keep_best && !figures.empty()) {
    warn({.op = op, .problem = problem, .remedy = "no state is kept as the best: name one of them in .metric"}, where);
  }
  return false;
}

void Trainer::State::evaluate_if(bool due) {
  if (!due || !evaluate_with) return;
  loop.is_evaluation_due = loop.evaluated_step != stepper.steps();
  if (!loop.is_evaluation_due || is_interrupted()) return;
  const io::Figures figures = evaluation();
  if (options.log != nullptr && !figures.empty()) options.log->record(stepper.steps(), figures);
}

// ---- states ---------------------------------------------------------------------------------------------------------

io::RunState Trainer::State::state() const {
  const EarlyStopping::State judged = best.state();
  LoopState saved = loop;
  saved.since_best = judged.bad;
  if (options.scaler != nullptr) saved.scaler = options.scaler->state();
  io::RunState out{.step = stepper.steps(), .epoch = epoch, .samples = samples, .best_metric = judged.best};
  out.documents["loop"] = loop_text(saved);
  for (const detail::SavedPart& part : parts) {
    PartState own = part.state();
    out.documents[part.name] = std::move(own.text);
    for (const auto& [name, tensor] : own.tensors) out.tensors.emplace(part.name + '.' + name, tensor);
  }
  return out;
}

void Trainer::State::save() {
  checkpoints->save(run(), state(), false, where);
  saved_step = stepper.steps();
}

namespace {

detail::Tensors tensors_of(const std::string& part, const io::RunState& state) {
  detail::Tensors out;
  const std::string prefix = part + '.';
  for (const auto& [name, tensor] : state.tensors) {
    if (name.starts_with(prefix)) out.emplace(name.substr(prefix.size()), tensor);
  }
  return out;
}

const std::string& document_in(const io::RunState& state, const std::string& name, const io::Path& folder,
                               Location where) {
  const auto found = state.documents.find(name);
  if (found != state.documents.end()) return found->second;
  raise<FormatError>({.op = op,
                      .problem = fmt::format("the state in {} has no \"{}\"", folder.string(), name),
                      .remedy = "it was saved by a run of other parts, or by none of the Trainer's"},
                     where);
}

}  // namespace

std::vector<std::pair<detail::SavedPart, PartState>> Trainer::State::parts_in(const io::RunState& found,
                                                                              const LoopState& saved) const {
  const io::Path& folder = options.save.folder;
  std::vector<std::pair<detail::SavedPart, PartState>> out;
  for (const detail::SavedPart& part : parts) {
    out.emplace_back(part, PartState{document_in(found, part.name, folder, where), tensors_of(part.name, found)});
  }
  if (options.scaler == nullptr) return out;
  if (!saved.scaler) {
    raise<FormatError>({.op = op, .problem = fmt::format("the state in {} has no loss scale", folder.string())}, where);
  }
  out.emplace_back(detail::saved_part("scaler", *options.scaler),
                   PartState{detail::numbers_text(detail::numbers_of_fields(*saved.scaler))});
  return out;
}

void Trainer::State::resume() {
  const io::Path& folder = options.save.folder;
  if (!options.resume || io::training_states(folder).empty()) return;
  const io::RunState found = io::read_run_state(folder, where);
  const LoopState saved = parse_loop(document_in(found, "loop", folder, where), where);
  const auto saved_parts = parts_in(found, saved);
  const auto restore_others = [&] {
    std::vector<double> rates;
    for (const optim::Group& group : optimizer.groups()) rates.push_back(group.lr());
    detail::restore_parts(saved_parts, folder.string());
    // A scheduler restores its own rates; others may have changed the rates after its last step.
    for (size_t i = 0; i < rates.size(); ++i) optimizer.set_lr(rates[i], i, where);
  };
  (void)io::load_training_state(folder, run(), {.restore_others = restore_others}, where);
  stepper.set_steps(found.step);
  epoch = found.epoch;
  samples = step_start.samples = found.samples;
  loop = saved;
  best.restore({found.best_metric, saved.since_best});
  saved_step = found.step;
  is_just_restored = true;
}

// Adds the checkpoints of an earlier process to the log.
void Trainer::State::show_states() const {
  for (const bool is_best : {false, true}) {
    for (const io::Path& path : io::training_states(is_best ? options.save.folder / "best" : options.save.folder)) {
      options.log->checkpoint(path, std::stoll(path.string().substr(path.string().rfind('-') + 1)), is_best);
    }
  }
}

// ---- the trainer ----------------------------------------------------------------------------------------------------

Trainer::Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options, Location where)
    : state_(new State(model, optimizer, std::move(options), where)) {
  State& s = *state_;
  if (s.options.save.folder.empty()) return;
  s.checkpoints.emplace(s.options.save, where);
  s.checkpoints->on_save([&s](const Checkpoints::Saved& saved) {
    if (s.options.log != nullptr) s.options.log->checkpoint(saved.path, saved.step, saved.best);
    call_all(s.save_listeners, saved);
  });
}
Trainer::~Trainer() = default;

void Trainer::on_update(Callback<void()> f) { state_->update_listeners.push_back(std::move(f)); }
void Trainer::on_step_end(Callback<void(const TrainEvent&)> f) { state_->step_listeners.push_back(std::move(f)); }
void Trainer::on_epoch_end(Callback<void(const TrainEvent&)> f) { state_->epoch_listeners.push_back(std::move(f)); }
void Trainer::on_evaluate(Callback<void(const TrainEvent&)> f) { state_->evaluation_listeners.push_back(std::move(f)); }
void Trainer::on_save(Callback<void(const Checkpoints::Saved&)> f) { state_->save_listeners.push_back(std::move(f)); }
void Trainer::stop() {
  if (state_->phase == State::Phase::running) state_->phase = State::Phase::stopping;
}
int64_t Trainer::steps() const { return state_->stepper.steps(); }
bool Trainer::ended() const { return state_->phase == State::Phase::ended; }

void Trainer::keep_part(detail::SavedPart part, Location where) {
  std::vector<detail::SavedPart>& parts = state_->parts;
  const auto same = std::ranges::find(parts, part.name, &detail::SavedPart::name);
  if (same != parts.end() && part.name == "loader") {
    *same = std::move(part);  // from an earlier call of `fit`
    return;
  }
  if (same != parts.end() || part.name == "loop") {
    raise<ValueError>({.op = op, .problem = fmt::format("\"{}\" is kept already", part.name)}, where);
  }
  parts.push_back(std::move(part));
}

Trainer::Session::Session(Trainer& trainer, Callback<void(Evaluation&)> evaluate, int64_t batches, Location where)
    : trainer_(trainer) {
  State& s = *trainer.state_;
  s.evaluate_with = std::move(evaluate);
  s.batches_per_epoch = batches;
  s.where = where;
  if (s.phase != State::Phase::fresh) s.phase = State::Phase::running;
  s.failure.clear();
  if (s.options.end_by_signal) s.signals.emplace();
}
Trainer::Session::~Session() {
  State& s = *trainer_.state_;
  s.signals.reset();
  s.evaluate_with = {};
  if (s.phase == State::Phase::ended || s.options.log == nullptr) return;
  try {
    s.options.log->fail(s.failure, Location::none());
  } catch (const std::exception&) {
    // The original error is already propagating.
  }
}

int64_t Trainer::begin(bool passes_over) {
  State& s = *state_;
  s.resume();
  const bool is_first = std::exchange(s.phase, State::Phase::running) == State::Phase::fresh;
  if (!is_first && !goes_on() && !s.is_interrupted()) {
    s.phase = State::Phase::ended;  // prevents reporting the run as failed
    raise<ValueError>(
        {.op = op,
         .problem = fmt::format("the run has ended already, at step {} after {} epochs", s.stepper.steps(), s.epoch),
         .remedy = "epochs and steps are those of all calls of fit: make a Trainer with more of them"},
        s.where);
  }
  const int64_t each = (s.batches_per_epoch + s.options.accumulate - 1) / s.options.accumulate;
  const int64_t in_epochs = s.options.epochs > 0 ? s.options.epochs * each : 0;
  const int64_t last = s.options.steps > 0 && in_epochs > 0 ? std::min(s.options.steps, in_epochs)
                                                            : std::max(s.options.steps, in_epochs);
  if (s.options.log != nullptr) {
    s.options.log->begin(s.stepper.steps(), last, s.where);
    if (s.options.resume) s.show_states();
  }
  s.model.train();
  if (s.loop.is_evaluation_due) s.evaluate_if(true);
  s.step_start.seconds = seconds();
  return passes_over ? s.loop.batch : 0;
}

bool Trainer::goes_on() const {
  const State& s = *state_;
  return s.phase == State::Phase::running && !s.best.should_stop() && !s.is_interrupted() &&
         (s.options.steps == 0 || s.stepper.steps() < s.options.steps) &&
         (s.options.epochs == 0 || s.epoch < s.options.epochs);
}

bool Trainer::take(int64_t samples, const Callback<BatchLoss()>& loss_of) {
  State& s = *state_;
  s.is_just_restored = false;
  ++s.loop.batch;
  s.samples += samples;
  const auto weighted = [&] {
    BatchLoss loss = loss_of();
    if (!loss.weight && samples > 0) loss.weight = static_cast<double>(samples);
    return loss;
  };
  const auto done = s.stepper.step(weighted, s.where);
  if (!done) return true;
  s.after_step(*done);
  return goes_on();
}

void Trainer::end_epoch() {
  State& s = *state_;
  if (s.loop.batch == 0) {
    // A loader restored at the end of an epoch has no batches left.
    if (std::exchange(s.is_just_restored, false)) return;
    raise<ValueError>({.op = op, .problem = "the loader gave no batch"}, s.where);
  }
  // The loader is already at the start of the next epoch, so a saved state must also have the next epoch's number.
  ++s.epoch;
  s.loop.batch = 0;
  if (s.options.evaluate_every == 0 && s.evaluate_with) s.loop.is_evaluation_due = true;
  if (const auto done = s.stepper.flush(s.where)) s.after_step(*done);
  s.evaluate_if(s.loop.is_evaluation_due);
  s.tell(s.epoch_listeners, "on_epoch_end", s.event());
  if (s.checkpoints && s.options.save.every == 0) s.save();
  s.step_start.seconds = seconds();
}

void Trainer::fail() {
  try {
    throw;
  } catch (const std::exception& error) {
    state_->failure = fmt::format("{}\nafter step {}", error.what(), state_->stepper.steps());
  } catch (...) {
    state_->failure = fmt::format("an exception of an unknown type\nafter step {}", state_->stepper.steps());
  }
}

FitResult Trainer::end() {
  State& s = *state_;
  if (!s.is_interrupted()) s.evaluate_if(true);
  if (s.checkpoints) {
    if (s.saved_step != s.stepper.steps()) s.save();
    s.checkpoints->wait(s.where);
  }
  const int signal = s.is_interrupted() ? EndBySignal::received() : 0;
  const bool is_stopped = std::exchange(s.phase, State::Phase::ended) == State::Phase::stopping;
  if (s.options.log != nullptr) s.options.log->finish(signal != 0 || is_stopped ? "stopped" : "done", s.where);
  return {s.stepper.steps(), s.epoch, s.best.best(), s.best.should_stop(), signal};
}

}  // namespace weft::train
