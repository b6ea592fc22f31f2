// What it costs to watch the training step of a character GPT: a step without and one with, by turns.
#include <functional>
#include <memory>
#include <string>

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

/// Two small layers, whose step takes microseconds; each step has another batch.
struct TinyTraining {
  TinyTraining() {
    for (int i = 0; i < 4; ++i) batches.push_back(randn({16, 8}));
  }
  double step() {
    optimizer.zero_grad();
    const Tensor& x = batches[static_cast<size_t>(steps++ % 4)];
    const Tensor loss = mse_loss(net(x), x.slice(1, 0, 1));
    loss.backward();
    optimizer.step();
    return loss.item<double>();
  }

  nn::Sequential net{nn::Linear(8, 16), nn::Tanh(), nn::Linear(16, 1)};
  optim::AdamW optimizer{net.parameters(), {.lr = 1e-3}};
  std::vector<Tensor> batches;
  int64_t steps = 0;
};

void add_tiny_case() {
  const auto plain = std::make_shared<TinyTraining>(), recorded = std::make_shared<TinyTraining>();
  const auto recorder = std::make_shared<GradientRecorder>(recorded->net);
  add_pair(
      "observe.recorder.tiny", 200, [plain] { benchmark::DoNotOptimize(plain->step()); },
      [recorded, recorder] { recorder->step(recorded->step()); });
}

/// Steps through a StepRecorder, which keeps each of them until the next.
template <class Training, class Step>
void add_kept_case(const std::string& name, int64_t steps, const std::function<void()>& without,
                   const std::shared_ptr<Training>& training, nn::Module& model, optim::Optimizer& optimizer,
                   Step&& step) {
  const auto recorder =
      std::make_shared<io::StepRecorder>("step_recorder_bench.weft", io::TrainingRun{model, &optimizer});
  add_pair(name, steps, without, [training, recorder, step] { benchmark::DoNotOptimize(recorder->step(step, {})); });
}

void add_kept_cases() {
  const auto plain = std::make_shared<GptTraining>(128), kept = std::make_shared<GptTraining>(128);
  add_kept_case(
      "observe.step_recorder.chargpt", 1, [plain] { plain->step(); }, kept, kept->model, kept->optimizer,
      [kept = kept.get()](const io::TensorMap&) {
        kept->step();
        return full({}, kept->value);
      });
  const auto tiny = std::make_shared<TinyTraining>(), tiny_kept = std::make_shared<TinyTraining>();
  add_kept_case(
      "observe.step_recorder.tiny", 200, [tiny] { benchmark::DoNotOptimize(tiny->step()); }, tiny_kept, tiny_kept->net,
      tiny_kept->optimizer, [kept = tiny_kept.get()](const io::TensorMap&) { return full({}, kept->step()); });
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
  // Ten steps at a time, since each tenth is traced.
  add_pair("observe.recorder.chargpt", 10, without, recorded({}));
  add_pair("observe.recorder_parameters_only.chargpt", 1, without, recorded({.activations = false}));
  add_pair("observe.recorder_every_10th.chargpt", 10, without, recorded({.every = 10}));
  add_tiny_case();
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
  add_kept_cases();
}

}  // namespace weft::bench
