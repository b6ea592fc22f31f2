// Fits y = 2 x + 1, saves the model and loads it again.
#include <cmath>
#include <cstdio>
#include <filesystem>

#include <weft/weft.hpp>

using namespace weft;

int main() {
  manual_seed(0);
  nn::Linear line(1, 1);
  optim::SGD optimizer(line.parameters(), {.lr = 0.1});
  const Tensor x = linspace(-1, 1, 64).view({64, 1}), y = 2 * x + 1;
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    const Tensor loss = mse_loss(line(x), y);
    loss.backward();
    optimizer.step();
  }

  const auto file = std::filesystem::temp_directory_path() / "line.safetensors";
  io::save_file(line.state_dict(), file);
  nn::Linear loaded(1, 1);
  loaded.load_state_dict(io::load_file(file));
  std::filesystem::remove(file);
  const double slope = loaded.weight.item<double>(), offset = loaded.bias.item<double>();
  std::printf("y = %.3f x + %.3f\n", slope, offset);
  return std::abs(slope - 2) < 0.01 && std::abs(offset - 1) < 0.01 ? 0 : 1;
}
