// The model trained in several benchmarks.
#pragma once

#include "case.hpp"

namespace weft::bench {

struct Gpt : nn::Layer<Gpt> {
  nn::Embedding tokens, positions;
  std::vector<nn::TransformerBlock> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
  Gpt(int64_t vocabulary, int64_t context, int64_t width, int64_t heads, int layers)
      : tokens(vocabulary, width), positions(context, width), norm(width), head(width, vocabulary, false) {
    register_module("tokens", tokens);
    register_module("positions", positions);
    for (int i = 0; i < layers; ++i) {
      blocks.emplace_back(width, heads);
      register_module("block" + std::to_string(i), blocks.back());
    }
    register_module("norm", norm);
    register_module("head", head);
  }
  Tensor forward(const Tensor& indices) const {
    Tensor x = tokens(indices) + positions(arange(indices.size(1)));
    for (const auto& block : blocks) x = block(x);
    return head(norm(x));
  }
};

/// A model with its optimizer, trained on random characters.
struct GptTraining {
  explicit GptTraining(int64_t width)
      : model(65, 128, width, 4, 4),
        optimizer(model.parameters(), {.lr = 3e-4}),
        x(randint(0, 65, {16, 128})),
        y(randint(0, 65, {16, 128})) {}

  void step() {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(x).view({-1, 65}), y.view({-1}));
    loss.backward();
    optimizer.step();
    benchmark::DoNotOptimize(value = loss.item<float>());
  }

  Gpt model;
  optim::AdamW optimizer;
  Tensor x, y;
  double value = 0;
};

}  // namespace weft::bench
