// Fits a sine, saves the model and loads it again. The same program compiles with libtorch.
#include <iostream>
#include <sstream>

#include "net.h"

int main() {
  torch::manual_seed(0);
  Net net(16);
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(0.02));
  const auto x = torch::linspace(-3, 3, 64).unsqueeze(1), y = torch::sin(x);
  torch::Tensor loss;
  for (int step = 0; step < 500; ++step) {
    optimizer.zero_grad();
    loss = torch::mse_loss(net->forward(x), y);
    loss.backward();
    optimizer.step();
  }

  std::stringstream file;
  torch::save(net, file);
  Net loaded(16);
  torch::load(loaded, file);
  torch::NoGradGuard no_grad;
  const auto error = torch::mse_loss(loaded->forward(x), y).item<float>();
  std::cout << "error " << error << '\n' << loaded << '\n';
  return error < 0.01f ? 0 : 1;
}
