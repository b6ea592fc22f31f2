// A model that is saved and loaded, with frozen layers and a new head.
#include "common.h"

#include <sstream>

using torch::nn::Linear, torch::nn::Conv2d, torch::nn::Conv2dOptions, torch::nn::BatchNorm2d;

struct ClassifierImpl : torch::nn::Module {
  explicit ClassifierImpl(int64_t classes) {
    features = register_module(
        "features", torch::nn::Sequential(Conv2d(Conv2dOptions(3, 8, 3).padding(1)), BatchNorm2d(8), torch::nn::ReLU(),
                                          torch::nn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions({2, 2}))));
    fc = register_module("fc", Linear(32, classes));
  }
  torch::Tensor forward(const torch::Tensor& x) { return fc(features->forward(x).flatten(1)); }
  torch::nn::Sequential features{nullptr};
  Linear fc{nullptr};
};
TORCH_MODULE(Classifier);

int main() {
  std::stringstream file;
  {
    Classifier pretrained(10);
    set_weights(*pretrained);
    pretrained->train();
    pretrained->forward(pattern({16, 3, 8, 8}, 2, 3));  // running statistics
    torch::save(pretrained, file);
  }
  Classifier model(10);
  torch::load(model, file);
  for (auto& item : model->named_parameters()) {
    if (item.key().find("features") == 0) item.value().requires_grad_(false);
  }
  Linear head(32, 3);
  set_weights(*head, 50);
  model->fc = model->replace_module("fc", head);
  model->features->eval();
  std::vector<torch::Tensor> trained;
  for (auto& parameter : model->parameters()) {
    if (parameter.requires_grad()) trained.push_back(parameter);
  }
  report("trained", static_cast<double>(trained.size()));
  torch::optim::RMSprop optimizer(trained, torch::optim::RMSpropOptions(0.01).momentum(0.5));
  for (int step = 0; step < steps; ++step) {
    const torch::Tensor input = pattern({12, 3, 8, 8}, 1, 10 + static_cast<uint64_t>(step));
    const torch::Tensor target = torch::arange(12, torch::kLong).remainder(3);
    optimizer.zero_grad();
    torch::Tensor loss = torch::nn::functional::cross_entropy(
        model->forward(input), target, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kMean));
    loss.backward();
    optimizer.step();
    report(step, loss);
  }
}
