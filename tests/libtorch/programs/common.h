// Numbers that are the same on every machine, instead of random ones, and the lines that a program prints.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

/// Values between -scale and scale in no visible order.
inline torch::Tensor pattern(const std::vector<int64_t>& shape, double scale, uint64_t seed) {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  std::vector<float> values(static_cast<size_t>(count));
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<float>(scale * (static_cast<double>(state >> 40) / (1 << 23) - 1));
  }
  return torch::tensor(values).view(shape);
}

/// Weights of the size that libtorch would draw, for all parameters of a module.
inline void set_weights(torch::nn::Module& module, uint64_t seed = 1) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor parameter : module.parameters()) {
    const int64_t fan = parameter.dim() > 1 ? parameter.numel() / parameter.size(0) : parameter.numel();
    parameter.copy_(pattern(parameter.sizes().vec(), 1 / std::sqrt(static_cast<double>(fan)), seed++));
  }
}

inline void report(int step, const torch::Tensor& loss) { std::printf("%d %.7g\n", step, loss.item<double>()); }
inline void report(const char* name, double value) { std::printf("%s %.7g\n", name, value); }

constexpr int steps = 20;
