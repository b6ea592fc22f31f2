// Complete training steps, as in user code with libtorch. --filter selects one: run one per process to measure RSS.
#include <torch/torch.h>
#include "bench.h"
namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;

template <class Step>
static void train_case(const std::string& name, int warm, int inner, Step step) {
  if (!bench::selected(name)) return;
  double loss = 0;
  for (int i = 0; i < warm; ++i) loss = step();
  std::vector<double> v;
  auto start = bench::clk::now();
  double budget = std::max(bench::options().budget_s * 8, 0.5) * 1e9;
  while (v.size() < 5 || (bench::ns_since(start) < budget && v.size() < 3000)) {
    auto a = bench::clk::now();
    for (int i = 0; i < inner; ++i) loss = step();
    v.push_back(bench::ns_since(a) / inner);
  }
  bench::report(name, v, 0, nullptr, "ns/step");
  bench::report_value(name + ".peak_rss", bench::peak_rss_mb(), "MB");
  bench::report_value(name + ".last_loss", loss, "loss");
}

struct MLP : nn::Module {
  nn::Linear a{784, 256}, b{256, 128}, c{128, 10};
  MLP() {
    register_module("a", a);
    register_module("b", b);
    register_module("c", c);
  }
  Tensor forward(Tensor x) { return c(torch::relu(b(torch::relu(a(x))))); }
};
struct LeNet : nn::Module {
  nn::Conv2d c1{nn::Conv2dOptions(1, 6, 5).padding(2)}, c2{nn::Conv2dOptions(6, 16, 5)};
  nn::Linear f1{400, 120}, f2{120, 84}, f3{84, 10};
  LeNet() {
    register_module("c1", c1);
    register_module("c2", c2);
    register_module("f1", f1);
    register_module("f2", f2);
    register_module("f3", f3);
  }
  Tensor forward(Tensor x) {
    x = torch::max_pool2d(torch::relu(c1(x)), 2);
    x = torch::max_pool2d(torch::relu(c2(x)), 2);
    x = x.flatten(1);
    return f3(torch::relu(f2(torch::relu(f1(x)))));
  }
};
struct XorNet : nn::Module {
  nn::Linear a{2, 16}, b{16, 1};
  XorNet() {
    register_module("a", a);
    register_module("b", b);
  }
  Tensor forward(Tensor x) { return b(torch::tanh(a(x))); }
};

/// A recurrent network that classifies by the state after the last step.
template <class Recurrent, class Options>
struct Reader : nn::Module {
  Recurrent body;
  nn::Linear head;
  Reader(int64_t inputs, int64_t hidden, int64_t layers)
      : body(Options(inputs, hidden).num_layers(layers)), head(hidden, 10) {
    register_module("body", body);
    register_module("head", head);
  }
  Tensor forward(Tensor x) { return head(std::get<0>(body(x))[-1]); }
};
template <class Recurrent, class Options>
static void recurrent_cases(const std::string& name) {
  const auto add = [&](const char* size, int64_t steps, int64_t batch, int64_t inputs, int64_t hidden, int64_t layers) {
    auto net = std::make_shared<Reader<Recurrent, Options>>(inputs, hidden, layers);
    torch::optim::SGD opt(net->parameters(), torch::optim::SGDOptions(0.01));
    auto x = torch::randn({steps, batch, inputs});
    auto y = torch::randint(10, {batch});
    train_case(name + size, 3, 1, [&] {
      opt.zero_grad();
      auto loss = F::cross_entropy(net->forward(x), y);
      loss.backward();
      opt.step();
      return loss.template item<float>();
    });
  };
  add(".35x20x200x2", 35, 20, 200, 200, 2);
  add(".100x64x512", 100, 64, 512, 512, 1);
  add(".28x64x28x128", 28, 64, 28, 128, 1);
}

struct BlockImpl : nn::Module {
  int64_t h;
  nn::LayerNorm n1, n2;
  nn::Linear qkv, proj, up, down;
  BlockImpl(int64_t d, int64_t heads)
      : h(heads),
        n1(nn::LayerNormOptions({d})),
        n2(nn::LayerNormOptions({d})),
        qkv(d, 3 * d),
        proj(d, d),
        up(d, 4 * d),
        down(4 * d, d) {
    register_module("n1", n1);
    register_module("n2", n2);
    register_module("qkv", qkv);
    register_module("proj", proj);
    register_module("up", up);
    register_module("down", down);
  }
  Tensor forward(Tensor x) {
    auto B = x.size(0), T = x.size(1), D = x.size(2);
    auto parts = qkv(n1(x)).split(D, 2);
    auto heads = [&](const Tensor& t) { return t.view({B, T, h, D / h}).transpose(1, 2); };
    auto y = at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {}, 0.0, true);
    x = x + proj(y.transpose(1, 2).reshape({B, T, D}));
    return x + down(torch::gelu(up(n2(x))));
  }
};
TORCH_MODULE(Block);
struct GPT : nn::Module {
  nn::Embedding tok, pos;
  nn::ModuleList blocks;
  nn::LayerNorm nf;
  nn::Linear head;
  GPT(int64_t vocab, int64_t ctx, int64_t d, int64_t heads, int64_t layers)
      : tok(vocab, d), pos(ctx, d), nf(nn::LayerNormOptions({d})), head(nn::LinearOptions(d, vocab).bias(false)) {
    register_module("tok", tok);
    register_module("pos", pos);
    register_module("blocks", blocks);
    register_module("nf", nf);
    register_module("head", head);
    for (int i = 0; i < layers; ++i) blocks->push_back(Block(d, heads));
  }
  Tensor forward(Tensor idx) {
    auto x = tok(idx) + pos(torch::arange(idx.size(1)));
    for (auto& b : *blocks) x = b->as<Block>()->forward(x);
    return head(nf(x));
  }
};

int main(int argc, char** argv) {
  bench::parse(argc, argv, "torch");
  torch::set_num_threads(bench::options().threads);
  torch::manual_seed(1);
  {  // (a) MLP 784-256-128-10, batch 64, SGD
    auto net = std::make_shared<MLP>();
    torch::optim::SGD opt(net->parameters(), torch::optim::SGDOptions(0.01));
    auto x = torch::randn({64, 784});
    auto y = torch::randint(10, {64});
    train_case("train.mlp", 10, 1, [&] {
      opt.zero_grad();
      auto loss = F::cross_entropy(net->forward(x), y);
      loss.backward();
      opt.step();
      return loss.item<float>();
    });
  }
  recurrent_cases<nn::LSTM, nn::LSTMOptions>("train.lstm");
  recurrent_cases<nn::GRU, nn::GRUOptions>("train.gru");
  {  // (b) LeNet-5 (ReLU, max pool) on 28x28, batch 64, SGD
    auto net = std::make_shared<LeNet>();
    torch::optim::SGD opt(net->parameters(), torch::optim::SGDOptions(0.01));
    auto x = torch::randn({64, 1, 28, 28});
    auto y = torch::randint(10, {64});
    train_case("train.lenet", 10, 1, [&] {
      opt.zero_grad();
      auto loss = F::cross_entropy(net->forward(x), y);
      loss.backward();
      opt.step();
      return loss.item<float>();
    });
  }
  {  // (c) char-GPT: 4 layers, 4 heads, d 128, context 128, batch 16, vocabulary 65, AdamW
    auto net = std::make_shared<GPT>(65, 128, 128, 4, 4);
    torch::optim::AdamW opt(net->parameters(), torch::optim::AdamWOptions(3e-4));
    auto x = torch::randint(65, {16, 128}), y = torch::randint(65, {16, 128});
    train_case("train.chargpt", 3, 1, [&] {
      opt.zero_grad();
      auto logits = net->forward(x);
      auto loss = F::cross_entropy(logits.view({-1, 65}), y.view({-1}));
      loss.backward();
      opt.step();
      return loss.item<float>();
    });
    train_case("train.chargpt_fwd", 3, 1, [&] {
      torch::NoGradGuard g;
      return F::cross_entropy(net->forward(x).view({-1, 65}), y.view({-1})).item<float>();
    });
  }
  {  // (d) XOR 2-16-1, batch 4, SGD: nothing but overhead
    auto net = std::make_shared<XorNet>();
    torch::optim::SGD opt(net->parameters(), torch::optim::SGDOptions(0.1));
    auto x = torch::tensor({{0.f, 0.f}, {0.f, 1.f}, {1.f, 0.f}, {1.f, 1.f}});
    auto y = torch::tensor({{0.f}, {1.f}, {1.f}, {0.f}});
    train_case("train.xor", 100, 20, [&] {
      opt.zero_grad();
      auto loss = torch::mse_loss(net->forward(x), y);
      loss.backward();
      opt.step();
      return loss.item<float>();
    });
  }
}
