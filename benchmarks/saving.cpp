// Cost of background saving during training: alternates between ten steps and ten steps that begin with a save.
#include <unistd.h>

#include <filesystem>
#include <memory>

#include <weft/io/training_state.hpp>

#include "models.hpp"
#include "pair.hpp"

namespace weft::bench {

namespace {

/// A folder in the working directory, removed at the end.
struct Runs {
  Runs() : path(std::filesystem::current_path() / ("weft-bench-" + std::to_string(::getpid()))) {}
  ~Runs() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

/// Created when a case runs, because the models are large.
struct SavedTraining {
  explicit SavedTraining(int64_t width) : training(width), saver(runs.path, {.keep_last = 2}) {}

  GptTraining training;
  Runs runs;
  io::BackgroundSaver saver;
  int64_t steps = 0;
};

void add_step_case(const std::string& name, int64_t width) {
  const auto made = [width, kept = std::make_shared<std::unique_ptr<SavedTraining>>()]() -> SavedTraining& {
    if (*kept == nullptr) *kept = std::make_unique<SavedTraining>(width);
    return **kept;
  };
  constexpr int64_t between = 10;
  add_pair(
      name, between, [=] { made().training.step(); },
      [=] {
        SavedTraining& run = made();
        if (run.steps++ % between == 0)
          run.saver.save({run.training.model, &run.training.optimizer}, {.step = run.steps});
        run.training.step();
        if (run.steps % between == 0) run.saver.wait();
      });
}

}  // namespace

void add_saving_cases() {
  add_step_case("save.beside_10_steps.chargpt", 128);
  add_step_case("save.beside_10_steps.width512", 512);
}

}  // namespace weft::bench
