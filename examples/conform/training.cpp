// Checks optimizer steps and a small training run against the CPU.
#include <functional>
#include <memory>

#include <fmt/format.h>

#include <weft/autograd/engine.hpp>
#include <weft/nn/layers.hpp>
#include <weft/nn/module.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/loss.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/optim/optim.hpp>

#include "checks.hpp"
#include "compare.hpp"

namespace weft::conform {

namespace {

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>;

struct NamedOptimizer {
  const char* name;
  MakeOptimizer make;
};

template <class O, class Options>
NamedOptimizer named(const char* name, Options options) {
  return {name, [options](std::vector<Tensor> parameters) -> std::unique_ptr<optim::Optimizer> {
            return std::make_unique<O>(std::move(parameters), options);
          }};
}

std::vector<NamedOptimizer> optimizers() {
  return {named<optim::SGD>("sgd", optim::SGDOptions{.lr = 0.1}),
          named<optim::SGD>("sgd_momentum", optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}),
          named<optim::SGD>("sgd_nesterov", optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}),
          named<optim::Adam>("adam", optim::AdamOptions{.lr = 0.1, .weight_decay = 0.01}),
          named<optim::AdamW>("adamw", optim::AdamWOptions{.lr = 0.1})};
}

/// Parameters of several sizes after five steps with fixed gradients.
std::vector<Tensor> stepped(const MakeOptimizer& make, Device device, DType dtype) {
  std::vector<Tensor> parameters;
  SampleMaker sample(dtype, Device());
  for (const Dims& shape : {Dims{3, 5}, Dims{1}, Dims{1000}}) {
    parameters.push_back(sample.tensor(shape).to(device).requires_grad_());
  }
  const std::unique_ptr<optim::Optimizer> optimizer = make(parameters);
  for (int i = 0; i < 5; ++i) {
    for (const Tensor& p : parameters) p.set_grad(sample.tensor(p.shape()).to(device));
    optimizer->step();
  }
  return parameters;
}

void steps_agree(Report& report, const NamedOptimizer& optimizer) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const std::vector<Tensor> right = stepped(optimizer.make, Device(), dtype);
    const std::vector<Tensor> came = stepped(optimizer.make, report.device(), dtype);
    for (size_t i = 0; i < right.size(); ++i) {
      const Difference wrong = difference(came[i].detach(), right[i].detach(), report.device(), tolerance_of(dtype));
      if (wrong) report.deviation(fmt::format("parameter {}: {}", i, wrong.expected), wrong.came);
    }
  }
}

struct Net : nn::Layer<Net> {
  nn::Linear a{8, 16}, b{16, 3};
  Net() { register_module("a", a), register_module("b", b); }
  Tensor forward(const Tensor& x) const { return b(tanh(a(x))); }
};

std::vector<double> losses_of_training(Device device) {
  const RngForkGuard guard({Device(), device});
  manual_seed(3);
  Net net;
  net.to(device);
  manual_seed(4);  // parameters are initialised on the CPU
  SampleMaker sample(f32, Device());
  const Tensor x = sample.tensor({20, 8}).to(device), y = sample.indices({20}, 3).to(device);
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  std::vector<double> losses;
  for (int i = 0; i < 20; ++i) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(dropout(x, 0.1)), y);
    loss.backward();
    optim::clip_grad_norm_(net.parameters(), 1.0);
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

void losses_agree(Report& report) {
  const std::vector<double> right = losses_of_training(Device()), came = losses_of_training(report.device());
  for (size_t i = 0; i < right.size(); ++i) {
    report.expect(std::abs(came[i] - right[i]) <= 1e-4 * std::abs(right[i]),
                  fmt::format("the loss {:.7g} in step {}", right[i], i), fmt::format("{:.7g}", came[i]));
  }
}

}  // namespace

void check_training(Report& report) {
  for (const NamedOptimizer& optimizer : optimizers()) {
    report.run(std::string("training.") + optimizer.name, [&] { steps_agree(report, optimizer); });
  }
  report.run("training.losses", [&] { losses_agree(report); });
}

}  // namespace weft::conform
