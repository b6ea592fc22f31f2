// A training run with one bad step, which a StepRecorder saves for replay.
//
//   weft-bad-step                                    trains until the loss is NaN
//   ./weft replay step.weft                          describes the saved step
//   ./weft replay step.weft -- build/release/examples/weft-bad-step      repeats it bit for bit
#include <cstdio>

#include <weft/weft.hpp>

using namespace weft;

int main() {
  manual_seed(1);
  nn::Sequential model(nn::Linear(4, 16), nn::Dropout(0.2), nn::ReLU(), nn::Linear(16, 1));
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  const auto step = [&](const io::TensorMap& batch) {
    optimizer.zero_grad();
    const Tensor loss = (sqrt(model(batch.at("x")).exp()) - batch.at("y")).square().mean();
    loss.backward();
    optimizer.step();
    return loss;
  };
  io::StepRecorder recorder("step.weft", {model, &optimizer});
  for (int i = 0; i < 100 && !recorder.found(); ++i) {
    Tensor x = randn({8, 4});
    if (i == 40) x = x * 1e3;  // an unscaled batch: exp overflows
    recorder.step(step, {{"x", x}, {"y", ones({8, 1})}});
  }
  std::printf("%s\n", recorder.text().c_str());
}
