// A complete training loop: a network learns XOR.
#include <cstdio>

#include <weft/weft.hpp>

using namespace weft;

int main() {
  manual_seed(1);
  const Tensor x = tensor({{0.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}});
  const Tensor y = tensor({{0.0}, {1.0}, {1.0}, {0.0}});
  nn::Sequential net(nn::Linear(2, 16), nn::Tanh(), nn::Linear(16, 1));
  optim::AdamW optimizer(net.parameters(), {.lr = 0.02});
  double loss_value = 1;
  for (int step = 0; step < 500; ++step) {
    optimizer.zero_grad();
    const Tensor loss = mse_loss(net(x), y);
    loss.backward();
    optimizer.step();
    loss_value = loss.item<double>();
    if (step % 100 == 0) std::printf("step %d  loss %.6f\n", step, loss_value);
  }
  std::printf("final loss %.6f\n%s\n", loss_value, net(x).text().c_str());
  return loss_value < 1e-3 ? 0 : 1;
}
