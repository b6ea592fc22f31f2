// REINFORCE: a policy balances a pole. The uniform numbers that choose actions are a pattern.
#include "common.h"

#include <algorithm>

struct Pole {
  double x = 0, v = 0, angle = 0.02, turn = 0;
  torch::Tensor observation() const {
    return torch::tensor({x, v, angle, turn}, torch::dtype(torch::kFloat32)).unsqueeze(0);
  }
  bool push(int64_t action) {
    const double force = action == 1 ? 10 : -10, s = std::sin(angle), c = std::cos(angle);
    const double lever = (force + 0.05 * turn * turn * s) / 1.1;
    const double angular = (9.8 * s - c * lever) / (0.5 * (4.0 / 3 - 0.1 * c * c / 1.1));
    const double linear = lever - 0.05 * angular * c / 1.1;
    x += 0.02 * v, v += 0.02 * linear, angle += 0.02 * turn, turn += 0.02 * angular;
    return std::abs(x) < 2.4 && std::abs(angle) < 0.21;
  }
};

struct Policy : torch::nn::Module {
  Policy() {
    affine1 = register_module("affine1", torch::nn::Linear(4, 16));
    affine2 = register_module("affine2", torch::nn::Linear(16, 2));
  }
  torch::Tensor forward(torch::Tensor x) {
    return torch::softmax(affine2->forward(torch::relu(affine1->forward(x))), /*dim=*/1);
  }
  torch::nn::Linear affine1{nullptr}, affine2{nullptr};
};

int main() {
  auto policy = std::make_shared<Policy>();
  set_weights(*policy);
  torch::optim::Adam optimizer(policy->parameters(), /*lr=*/1e-2);
  for (int episode = 0; episode < steps; ++episode) {
    Pole pole;
    std::vector<torch::Tensor> logs;
    std::vector<float> rewards;
    const torch::Tensor uniform = pattern({100}, 0.5, static_cast<uint64_t>(episode)) + 0.5;
    bool alive = true;
    for (int64_t t = 0; t < 100 && alive; ++t) {
      const torch::Tensor probabilities = policy->forward(pole.observation());
      const int64_t action = uniform[t].item<float>() < probabilities[0][1].item<float>() ? 1 : 0;
      logs.push_back(probabilities[0][action].log());
      alive = pole.push(action);
      rewards.push_back(1);
    }
    std::vector<float> returns(rewards.size());
    float sum = 0;
    for (size_t i = rewards.size(); i-- > 0;) returns[i] = sum = rewards[i] + 0.99f * sum;
    torch::Tensor scaled = torch::tensor(returns);
    scaled = (scaled - scaled.mean()) / (scaled.std() + 1e-6);
    torch::Tensor loss = -(torch::stack(logs) * scaled).sum();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    report(episode, loss);
    report("length", static_cast<double>(rewards.size()));
  }
}
