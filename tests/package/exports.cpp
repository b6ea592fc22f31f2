// Uses templates that the library instantiates; programs that link the shared library must find them there.
#include <weft/weft.hpp>

int main() {
  using namespace weft;
  const Tensor x = randn({2, 3, 8, 8});
  nn::Conv1d line(3, 4, 3);
  nn::Conv2d plane(3, 4, 3);
  nn::ConvTranspose2d back(4, 3, 3);
  nn::BatchNorm2d norm(4);
  nn::InstanceNorm2d instance(4);
  nn::MaxPool2d pool(2);
  nn::AdaptiveMaxPool2d adaptive({1, 1});
  nn::ZeroPad2d pad(1);
  nn::LSTM lstm(4, 4);
  nn::GRU gru(4, 4);
  const Tensor y = adaptive(pool(instance(norm(plane(pad(x))))));
  (void)back(plane(x));
  (void)line(randn({2, 3, 8}));
  (void)lstm(randn({2, 1, 4}));
  (void)gru(randn({2, 1, 4}));
  optim::SGD sgd(plane.parameters(), {.lr = 0.1});
  optim::Adam adam(plane.parameters());
  optim::AdamW adamw(plane.parameters());
  optim::RMSprop rmsprop(plane.parameters());
  optim::Muon muon(line.parameters());
  optim::LBFGS lbfgs(plane.parameters());
  y.sum().backward();
  sgd.step();
  adam.step();
}
