// A small ConvNet on pictures of digits: a data loader with workers, transforms, SGD.
#include "common.h"

struct Net : torch::nn::Module {
  Net()
      : conv1(torch::nn::Conv2dOptions(1, 10, /*kernel_size=*/5)),
        conv2(torch::nn::Conv2dOptions(10, 20, /*kernel_size=*/5)),
        fc1(320, 50),
        fc2(50, 10) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv2_drop", conv2_drop);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1->forward(x), 2));
    x = torch::relu(torch::max_pool2d(conv2_drop->forward(conv2->forward(x)), 2));
    x = x.view({-1, 320});
    x = torch::relu(fc1->forward(x));
    x = torch::dropout(x, /*p=*/0.5, /*train=*/is_training());
    x = fc2->forward(x);
    return torch::log_softmax(x, /*dim=*/1);
  }

  torch::nn::Conv2d conv1;
  torch::nn::Conv2d conv2;
  torch::nn::Dropout2d conv2_drop;
  torch::nn::Linear fc1;
  torch::nn::Linear fc2;
};

struct Digits : torch::data::datasets::Dataset<Digits> {
  torch::data::Example<> get(size_t index) override {
    torch::Tensor image = 0.5 + pattern({1, 28, 28}, 0.5, index);
    image[0].slice(0, static_cast<int64_t>(index % 10), static_cast<int64_t>(index % 10) + 8).add_(0.5);
    return {image, torch::tensor(static_cast<int64_t>(index % 10))};
  }
  torch::optional<size_t> size() const override { return 160; }
};

int main() {
  Net model;
  set_weights(model);
  model.eval();  // dropout would draw random numbers
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      Digits().map(torch::data::transforms::Normalize<>(0.1307, 0.3081)).map(torch::data::transforms::Stack<>()),
      torch::data::DataLoaderOptions().batch_size(16).workers(2));
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.01).momentum(0.5));
  int step = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      auto loss = torch::nll_loss(model.forward(batch.data), batch.target);
      loss.backward();
      optimizer.step();
      report(step++, loss);
    }
  }
  torch::NoGradGuard no_grad;
  auto batch = *loader->begin();
  report("right", model.forward(batch.data).argmax(1).eq(batch.target).sum().item<double>());
}
