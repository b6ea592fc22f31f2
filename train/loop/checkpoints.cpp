#include "../checkpoints.hpp"

#include <cstdio>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "../../io/files/atomic_folder-inl.hpp"
#include "../../io/files/folder-inl.hpp"

namespace weft::train {

namespace {

// A saver, with the step that it is currently writing.
struct Kept {
  io::BackgroundSaver saver;
  bool best;
  int64_t writing = -1;

  Kept(const io::Path& folder, io::SaveStateOptions options, bool is_best, Location where)
      : saver(folder, options, where), best(is_best) {}
};

}  // namespace

struct Checkpoints::Impl {
  CheckpointOptions options;
  Kept last;
  std::optional<Kept> best = {};
  Callback<void(const Saved&)> listener = {};

  Impl(CheckpointOptions given, Location where)
      : options(std::move(given)), last(options.folder, {options.keep_last}, false, where) {
    if (options.keep_best) best.emplace(options.folder / "best", io::SaveStateOptions{1}, true, where);
  }
  void finish(Kept& kept, bool at_end);
  void begin(Kept& kept, const io::TrainingRun& run, const io::RunState& state, Location where);
};

namespace {

// Removes checkpoints of an earlier run in this folder; one with a later step would be taken for the newest.
void remove_others(const io::Path& best) {
  for (const io::Path& state : io::training_states(io::folder_of(best.string()))) {
    if (state.string() != best.string()) io::remove_folder(state);
  }
}

}  // namespace

// Notifies listeners of the completed checkpoint.
void Checkpoints::Impl::finish(Kept& kept, bool at_end) {
  const int64_t step = std::exchange(kept.writing, -1);
  if (step < 0) return;
  try {
    const io::Path path = kept.saver.wait();
    if (kept.best) remove_others(path);
    if (listener) listener({path, step, kept.best});
  } catch (const IoError& error) {
    if (at_end) throw;
    std::fputs(fmt::format("\n{}\n  step {} was not saved; training continues\n", error.what(), step).c_str(), stderr);
  }
}

Checkpoints::Checkpoints(CheckpointOptions options, Location where) {
  const auto refuse = [&](const char* problem) { raise<ValueError>({.op = "Checkpoints", .problem = problem}, where); };
  if (options.folder.empty()) refuse("there is no folder to save to");
  if (options.every < 0 || options.keep_last < 0) refuse("every and keep_last are not negative");
  impl_ = weft::detail::Pimpl(new Impl(std::move(options), where));
}

Checkpoints::~Checkpoints() = default;
Checkpoints::Checkpoints(Checkpoints&&) noexcept = default;

const CheckpointOptions& Checkpoints::options() const { return impl_->options; }

void Checkpoints::Impl::begin(Kept& kept, const io::TrainingRun& run, const io::RunState& state, Location where) {
  finish(kept, false);
  kept.saver.save(run, state, where);
  kept.writing = state.step;
}

void Checkpoints::save(const io::TrainingRun& run, const io::RunState& state, bool is_best, Location where) {
  impl_->begin(impl_->last, run, state, where);
  if (is_best) save_best(run, state, where);
}

void Checkpoints::save_best(const io::TrainingRun& run, const io::RunState& state, Location where) {
  if (impl_->best) impl_->begin(*impl_->best, run, state, where);
}

void Checkpoints::wait(Location) {
  if (impl_->best) impl_->finish(*impl_->best, true);
  impl_->finish(impl_->last, true);
}

void Checkpoints::on_save(Callback<void(const Saved&)> listener) { impl_->listener = std::move(listener); }

}  // namespace weft::train
