// Cost of a small op on each available device: queued, and synchronized after each op. A device and its threads start
// when the first of its cases runs.
#include "case.hpp"

#include <memory>

#include <weft/hooks/capture.hpp>

namespace weft::bench {

namespace {

/// `make` takes the device and returns the function to run; `together` calls are followed by one synchronization.
template <class F>
void add_device_case(const std::string& name, DeviceType type, int64_t together, F make) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    if (device_count(type) == 0) return state.SkipWithError(why_no_device(type).c_str());
    const NoGradGuard unrecorded;
    const Device on(type);
    const auto op = make(on);
    op();
    synchronize(on);
    while (state.KeepRunningBatch(together)) {
      for (int64_t i = 0; i < together; ++i) op();
      synchronize(on);
    }
  });
}

template <class F>
void add_device_cases_of(const std::string& op, F make) {
  for (const auto& [kind, type] : {std::pair{"cuda", DeviceType::cuda}, {"hpu", DeviceType::hpu}}) {
    const std::string name = std::string("dev.") + kind + "." + op;
    add_device_case(name + ".queued", type, 100, make);
    add_device_case(name + ".waited", type, 1, make);
  }
}

/// A training step of a perceptron, executed directly and replayed.
struct DeviceStep {
  explicit DeviceStep(Device on) : x(randn({16, 8}).to(on)), y(randn({16, 1}).to(on)) { net.to(on); }

  Tensor operator()() {
    const GradModeGuard recorded({.enabled = true});
    optimizer.zero_grad();
    const Tensor loss = mse_loss(net(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  }

  nn::Sequential net{nn::Linear(8, 32), nn::ReLU(), nn::Linear(32, 32), nn::ReLU(), nn::Linear(32, 1)};
  Tensor x, y;
  optim::AdamW optimizer{net.parameters(), {.lr = 0.01}};
};
std::shared_ptr<DeviceStep> step_on(Device on) { return std::make_shared<DeviceStep>(on); }

}  // namespace

void add_device_cases() {
  add_device_cases_of("add_1", [](Device on) { return [a = rand({1}).to(on)] { const Tensor r = a + a; }; });
  add_device_cases_of("softmax_4x4", [](Device on) {
    return [a = rand({4, 4}).to(on)] { const Tensor r = softmax(a, -1); };
  });
  add_device_cases_of("upload_1", [](Device on) { return [a = rand({1}), on] { const Tensor r = a.to(on); }; });
  add_device_cases_of("step", [](Device on) { return [step = step_on(on)] { (*step)(); }; });
  add_device_cases_of("replay", [](Device on) {
    const auto step = step_on(on);
    auto run = [step] { return (*step)(); };
    const auto captured = std::make_shared<CapturedStep<decltype(run)>>(run, CaptureOptions());
    while (captured->stats().replayed == 0) (*captured)();
    return [captured] { (*captured)(); };
  });
  add_device_cases_of("item", [](Device on) { return [a = rand({1}).to(on)] { a.item<float>(); }; });
}

}  // namespace weft::bench
