// Overhead of observing the training step of a character GPT: alternates between a step without and one with observers.
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

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

/// Creates and calls the step on a separate thread. Recorders observe the thread that creates them, so the step without
/// a recorder is not observed.
class OnOwnThread {
 public:
  using Step = std::function<void()>;
  explicit OnOwnThread(std::function<Step()> make) : make_(std::move(make)) {}
  ~OnOwnThread() {
    if (thread_.joinable()) turn(State::over), thread_.join();
  }

  void step() {
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    turn(State::called);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return state_ == State::idle; });
  }

 private:
  enum class State { idle, called, over };

  void turn(State state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
    changed_.notify_all();
  }
  void work() {
    const Step step = make_();
    while (true) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return state_ != State::idle; });
        if (state_ == State::over) return;
      }
      step();
      turn(State::idle);
    }
  }

  std::function<Step()> make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::idle;
  std::thread thread_;
};

/// The step that `make` creates is observed; `without` is not.
void add_watched_pair(const std::string& name, int runs, const OnOwnThread::Step& without,
                      const std::function<OnOwnThread::Step()>& make) {
  const auto with = std::make_shared<OnOwnThread>([=]() -> OnOwnThread::Step { return repeated(runs, make()); });
  add_pair_of_batches(name, runs, repeated(runs, without), [with] { with->step(); });
}

/// Two small layers with steps of microseconds; each step uses another batch.
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
  const auto plain = std::make_shared<TinyTraining>();
  add_watched_pair(
      "observe.recorder.tiny", 200, [plain] { benchmark::DoNotOptimize(plain->step()); },
      []() -> OnOwnThread::Step {
        const auto training = std::make_shared<TinyTraining>();
        return [training, recorder = std::make_shared<GradientRecorder>(training->net)] {
          recorder->step(training->step());
        };
      });
}

/// Runs steps through a StepRecorder, which keeps each until the next.
template <class Training, class Step>
OnOwnThread::Step kept(const std::shared_ptr<Training>& training, nn::Module& model, Step step) {
  const auto recorder =
      std::make_shared<io::StepRecorder>("step_recorder_bench.weft", io::TrainingRun{model, &training->optimizer});
  return [training, recorder, step] { benchmark::DoNotOptimize(recorder->step(step, {})); };
}

void add_kept_cases() {
  const auto plain = std::make_shared<GptTraining>(128);
  add_watched_pair(
      "observe.step_recorder.chargpt", 1, [plain] { plain->step(); },
      [] {
        const auto training = std::make_shared<GptTraining>(128);
        return kept(training, training->model, [training](const io::TensorMap&) {
          training->step();
          return full({}, training->value);
        });
      });
  const auto tiny = std::make_shared<TinyTraining>();
  add_watched_pair(
      "observe.step_recorder.tiny", 200, [tiny] { benchmark::DoNotOptimize(tiny->step()); },
      [] {
        const auto training = std::make_shared<TinyTraining>();
        return kept(training, training->net, [training](const io::TensorMap&) { return full({}, training->step()); });
      });
}

void add_step_cases() {
  manual_seed(1);
  const auto plain = std::make_shared<GptTraining>(128);
  const auto without = [plain] { plain->step(); };
  const auto recorded = [](RecorderOptions options) {
    return [=]() -> OnOwnThread::Step {
      const auto training = std::make_shared<GptTraining>(128);
      return [training, recorder = std::make_shared<GradientRecorder>(training->model, options)] {
        training->step();
        recorder->step(training->value);
      };
    };
  };
  // Ten steps at a time, because every tenth is recorded.
  add_watched_pair("observe.recorder.chargpt", 10, without, recorded({}));
  add_watched_pair("observe.recorder_parameters_only.chargpt", 1, without, recorded({.activations = false}));
  add_watched_pair("observe.recorder_every_10th.chargpt", 10, without, recorded({.every = 10}));
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
