// A language model: Embedding, LSTM, truncated backpropagation through time, clipped gradients.
#include "common.h"

struct RNNLMImpl : torch::nn::Module {
  RNNLMImpl(int64_t vocabulary, int64_t embed, int64_t hidden, int64_t layers)
      : embed(vocabulary, embed),
        lstm(torch::nn::LSTMOptions(embed, hidden).num_layers(layers).batch_first(true)),
        linear(hidden, vocabulary) {
    register_module("embed", this->embed);
    register_module("lstm", lstm);
    register_module("linear", linear);
  }
  std::tuple<torch::Tensor, std::tuple<torch::Tensor, torch::Tensor>> forward(
      torch::Tensor x, std::tuple<torch::Tensor, torch::Tensor> state) {
    x = embed(x);
    torch::Tensor output;
    std::tie(output, state) = lstm->forward(x, state);
    output = output.reshape({-1, output.size(2)});
    return {linear(output), state};
  }
  torch::nn::Embedding embed;
  torch::nn::LSTM lstm;
  torch::nn::Linear linear;
};
TORCH_MODULE(RNNLM);

int main() {
  const int64_t vocabulary = 20, batch = 4, length = 6, hidden = 12, layers = 2;
  std::vector<int64_t> text;
  for (int64_t i = 0; i < batch * (steps * length + 1); ++i) text.push_back((i * i + 3 * i) % vocabulary);
  const torch::Tensor ids = torch::tensor(text).view({batch, -1});
  RNNLM model(vocabulary, 8, hidden, layers);
  set_weights(*model);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  auto state = std::make_tuple(torch::zeros({layers, batch, hidden}), torch::zeros({layers, batch, hidden}));
  for (int step = 0; step < steps; ++step) {
    const torch::Tensor input = ids.slice(1, step * length, (step + 1) * length);
    const torch::Tensor target = ids.slice(1, step * length + 1, (step + 1) * length + 1);
    state = std::make_tuple(std::get<0>(state).detach(), std::get<1>(state).detach());
    torch::Tensor output;
    std::tie(output, state) = model->forward(input, state);
    torch::Tensor loss = torch::nn::functional::cross_entropy(output, target.reshape({-1}));
    model->zero_grad();
    loss.backward();
    report("norm", torch::nn::utils::clip_grad_norm_(model->parameters(), 0.5));
    optimizer.step();
    report(step, loss);
  }
}
