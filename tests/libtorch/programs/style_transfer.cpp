// Style transfer: the pixels of an image are trained against the features of two others.
#include "common.h"

using torch::Tensor;

struct FeaturesImpl : torch::nn::Module {
  FeaturesImpl() {
    for (int64_t i = 0; i < 3; ++i) {
      layers->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(i == 0 ? 3 : 8, 8, 3).padding(1)));
    }
    register_module("layers", layers);
  }
  std::vector<Tensor> forward(Tensor x) {
    std::vector<Tensor> out;
    for (const auto& layer : *layers) {
      x = torch::relu(layer->as<torch::nn::Conv2d>()->forward(x));
      out.push_back(x);
      x = torch::avg_pool2d(x, 2);
    }
    return out;
  }
  torch::nn::ModuleList layers;
};
TORCH_MODULE(Features);

Tensor gram(const Tensor& features) {
  const auto flat = features.view({features.size(1), features.size(2) * features.size(3)});
  return torch::mm(flat, flat.t());
}

int main() {
  Features features;
  set_weights(*features);
  for (auto& parameter : features->parameters()) parameter.set_requires_grad(false);
  const Tensor content = pattern({1, 3, 16, 16}, 1, 5), style = pattern({1, 3, 16, 16}, 1, 6);
  Tensor target = content.clone().requires_grad_(true);
  torch::optim::Adam optimizer(std::vector<Tensor>{target},
                               torch::optim::AdamOptions(3e-2).betas(std::make_tuple(0.5, 0.999)));
  const auto content_features = features->forward(content), style_features = features->forward(style);
  for (int step = 0; step < steps; ++step) {
    const auto target_features = features->forward(target);
    Tensor content_loss = torch::zeros({1}), style_loss = torch::zeros({1});
    for (size_t f = 0; f < target_features.size(); ++f) {
      content_loss = content_loss + torch::mse_loss(target_features[f], content_features[f]);
      style_loss = style_loss + torch::nn::functional::mse_loss(gram(target_features[f]), gram(style_features[f])) /
                                    target_features[f].numel();
    }
    auto total = content_loss + 100 * style_loss;
    optimizer.zero_grad();
    total.backward();
    optimizer.step();
    report(step, total);
  }
  torch::NoGradGuard no_grad;
  report("mean", target.clamp_(-1, 1).mean().item<double>());
}
