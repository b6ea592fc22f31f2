// Trains the benchmark's character GPT for the given number of steps; process.py measures the process's memory.
#include <cstdio>
#include <cstdlib>

#include "../models.hpp"
#include "peak.hpp"

int main(int argc, char** argv) {
  using namespace weft;
  const int steps = argc > 1 ? std::atoi(argv[1]) : 10;
  manual_seed(1);
  bench::Gpt net(65, 128, 128, 4, 4);
  const Tensor x = randint(0, 65, {16, 128}), y = randint(0, 65, {16, 128});
  optim::AdamW optimizer(net.parameters(), {.lr = 3e-4});
  float loss = 0;
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    const Tensor value = cross_entropy(net(x).view({-1, 65}), y.view({-1}));
    value.backward();
    optimizer.step();
    loss = value.item<float>();
  }
  std::printf("%g\n", loss);
  print_peak();
}
