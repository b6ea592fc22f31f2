// Gradients: of higher order, of own functions, with hooks; and a fit by LBFGS.
#include "common.h"

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static Tensor forward(AutogradContext* ctx, Tensor input, Tensor weight, double scale) {
    ctx->save_for_backward({input, weight});
    ctx->saved_data["scale"] = scale;
    return input.mm(weight.t()) * scale;
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grad_outputs) {
    const auto saved = ctx->get_saved_variables();
    const Tensor grad = grad_outputs[0] * ctx->saved_data["scale"].toDouble();
    return {grad.mm(saved[1]), grad.t().mm(saved[0]), Tensor()};
  }
};

int main() {
  Tensor x = pattern({3, 4}, 1, 1).requires_grad_(), w = pattern({2, 4}, 1, 2).requires_grad_();
  Tensor y = (torch::sin(x) * x.pow(2)).sum() + x[0][1] * x.index({1, torch::indexing::Slice()}).sum();
  y.backward();
  report("gradient", x.grad().norm().item<double>());

  auto penalty = torch::autograd::grad({torch::exp(x).sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0]
                     .norm(2)
                     .pow(2);
  x.mutable_grad() = Tensor();
  penalty.backward();
  report("penalty", x.grad().abs().sum().item<double>());

  x.mutable_grad() = Tensor();
  const unsigned hook = x.register_hook([](Tensor grad) { return grad * 2; });
  LinearFunction::apply(x, w, 1.5).pow(2).sum().backward();
  x.remove_hook(hook);
  report("hooked", x.grad().sum().item<double>());
  report("weight", w.grad().sum().item<double>());

  Tensor a = torch::zeros({1}, torch::requires_grad()), b = torch::ones({1}, torch::requires_grad());
  const Tensor t = torch::linspace(0, 1, 16), target = 2 * t.exp() - 0.5;
  torch::optim::LBFGS optimizer({a, b}, torch::optim::LBFGSOptions(0.5).max_iter(4));
  for (int step = 0; step < steps; ++step) {
    auto closure = [&] {
      optimizer.zero_grad();
      auto loss = torch::mse_loss(b * torch::exp(t) + a, target);
      loss.backward();
      return loss;
    };
    report(step, optimizer.step(closure));
  }
  std::printf("a %.4f b %.4f\n", a.item<float>(), b.item<float>());
}
