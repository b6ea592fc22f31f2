// What it costs to watch the training step of a character GPT: a step without and one with, by turns.
#include <memory>

#include "models.hpp"
#include "pair.hpp"

namespace weft::bench {

namespace {

void add_statistics_cases() {
  for (const int64_t n : {1000, 1000000}) {
    const Tensor x = randn({n});
    const std::string size = n == 1000 ? "1e3" : "1e6";
    add_case(
        "observe.statistics." + size, [x] { benchmark::DoNotOptimize(statistics(x)); }, Mode::no_grad,
        static_cast<double>(n) * 4, Rate::bytes);
    add_case(
        "observe.histogram." + size, [x] { benchmark::DoNotOptimize(magnitude_histogram(x)); }, Mode::no_grad);
  }
}

void add_step_cases() {
  manual_seed(1);
  const auto plain = std::make_shared<GptTraining>(128);
  const auto without = [plain] { plain->step(); };
  const auto recorded = [](RecorderOptions options) {
    const auto training = std::make_shared<GptTraining>(128);
    auto recorder = std::make_shared<GradientRecorder>(training->model, options);
    return [=] {
      training->step();
      recorder->step(training->value);
    };
  };
  add_pair("observe.recorder.chargpt", 1, without, recorded({}));
  add_pair("observe.recorder_parameters_only.chargpt", 1, without, recorded({.activations = false}));
  add_pair("observe.recorder_every_10th.chargpt", 10, without, recorded({.every = 10}));
  const auto guarded = [plain](AnomalyOptions options) {
    return [=] {
      const AnomalyGuard guard(options);
      plain->step();
    };
  };
  add_pair("observe.anomaly.chargpt", 1, without, guarded({.forward = false}));
  add_pair("observe.anomaly_forward.chargpt", 1, without, guarded({.forward = true}));
  add_pair("observe.profiler.chargpt", 1, without, [plain, profiler = std::make_shared<Profiler>()] {
    profiler->start();
    plain->step();
    profiler->stop();
  });
}

}  // namespace

void add_observing_cases() {
  add_statistics_cases();
  add_step_cases();
}

}  // namespace weft::bench
