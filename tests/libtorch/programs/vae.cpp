// A variational autoencoder.
#include "common.h"

namespace F = torch::nn::functional;

struct VAEImpl : torch::nn::Module {
  VAEImpl(int64_t size, int64_t hidden, int64_t code)
      : fc1(size, hidden), fc2(hidden, code), fc3(hidden, code), fc4(code, hidden), fc5(hidden, size) {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    register_module("fc3", fc3);
    register_module("fc4", fc4);
    register_module("fc5", fc5);
  }
  std::pair<torch::Tensor, torch::Tensor> encode(torch::Tensor x) {
    auto h = F::relu(fc1->forward(x));
    return {fc2->forward(h), fc3->forward(h)};
  }
  torch::Tensor reparameterize(torch::Tensor mu, torch::Tensor log_var, torch::Tensor noise) {
    return mu + noise * log_var.div(2).exp();
  }
  torch::Tensor decode(torch::Tensor z) { return torch::sigmoid(fc5->forward(F::relu(fc4->forward(z)))); }

  torch::nn::Linear fc1, fc2, fc3, fc4, fc5;
};
TORCH_MODULE(VAE);

int main() {
  VAE model(64, 32, 4);
  set_weights(*model);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-2));
  for (int step = 0; step < steps; ++step) {
    const auto images = (0.5 + pattern({8, 64}, 0.5, static_cast<uint64_t>(step % 4))).clamp(0, 1);
    auto [mu, log_var] = model->encode(images);
    auto decoded = model->decode(model->reparameterize(mu, log_var, pattern({8, 4}, 1.7, 100)));
    auto reconstruction =
        F::binary_cross_entropy(decoded, images, F::BinaryCrossEntropyFuncOptions().reduction(torch::kSum));
    auto divergence = -0.5 * torch::sum(1 + log_var - mu.pow(2) - log_var.exp());
    auto loss = reconstruction + divergence;
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    report(step, loss);
    report("divergence", divergence.item<double>());
  }
}
