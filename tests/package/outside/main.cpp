// An outside project: finds the installed package, trains one step and prints the version.
#include <cstdio>

#include <weft/distributed.hpp>
#include <weft/weft.hpp>

int main() {
  const weft::Tensor x = weft::tensor({1.0, 2.0}).requires_grad_();
  (x * x).sum().backward();
  if (x.grad().to_vector<double>() != std::vector<double>{2, 4}) return 1;
  weft::nn::Linear layer(2, 3);
  weft::optim::SGD optimizer(layer.parameters(), {.lr = 0.1});
  layer(x).sum().backward();
  optimizer.step();
  if (weft::distributed::shard_sizes(3, 2) != std::vector<int64_t>{2, 1}) return 1;
  std::printf("weft %s\n", weft::version());
}
