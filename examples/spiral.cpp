// Trains a small network to classify the arms of a spiral, and draws its predictions over the plane.
#include <cmath>
#include <cstdio>
#include <iostream>

#include <weft/weft.hpp>

using namespace weft;

struct Points {
  Tensor x, y;  // [n, 2] float32 and [n] int64
};

Points spiral(int64_t each, int64_t arms) {
  const Tensor radius = linspace(0.02, 1, each).repeat({arms});
  const Tensor arm = arange(arms).repeat_interleave(each);
  const Tensor angle = 4 * radius + arm * (2 * M_PI / static_cast<double>(arms));
  const Tensor x = stack({radius * cos(angle), radius * sin(angle)}, 1);
  return {x + 0.02 * randn(x.shape()), arm};
}

double accuracy(const nn::Sequential& model, const Points& points) {
  const NoGradGuard no_grad;
  return (argmax(model(points.x), 1) == points.y).to(f64).mean().item<double>();
}

// Draws the predicted probability of each arm over the square around the spiral.
void save_plane(const nn::Sequential& model, const std::string& path) {
  const NoGradGuard no_grad;
  constexpr int64_t n = 64;
  const Tensor line = linspace(-1.1, 1.1, n);
  const Tensor grid = stack({line.expand({n, n}), line.unsqueeze(1).expand({n, n})}, -1).view({-1, 2});
  io::save_tiles(path, softmax(model(grid), 1).t().view({-1, n, n}), {.title = "Where each arm is seen"});
}

int main(int argc, char** argv) {
  manual_seed(1);
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 600;
  const Points training = spiral(200, 3), validation = spiral(50, 3);
  nn::Sequential model(nn::Linear(2, 64), nn::SiLU(), nn::Linear(64, 64), nn::SiLU(), nn::Linear(64, 3));
  optim::AdamW optimizer(model.parameters(), {.weight_decay = 0.01});
  const optim::WarmupCosine rates{.lr = 0.02, .warmup = 20, .steps = steps, .minimum = 1e-4};
  for (int64_t step = 0; step < steps; ++step) {
    optimizer.set_lr(optim::warmup_cosine(step, rates));
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(training.x), training.y);
    loss.backward();
    optimizer.step();
    if (step % 100 == 0) std::printf("step %4d  loss %.4f\n", static_cast<int>(step), loss.item<double>());
  }
  save_plane(model, "spiral.svg");
  const double right = accuracy(model, validation);
  std::printf("validation accuracy %.3f; the plane as it is seen: spiral.svg\n", right);
  return right > 0.9 ? 0 : 1;
}
