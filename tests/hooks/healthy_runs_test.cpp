// Runs that learn raise no suspect.
#include "twins.hpp"

namespace weft {
namespace {

using twins::Rows, twins::words;

struct Run {
  int steps = 60;
  double lr = 1e-3;
  bool clip = false;
  /// The rate of a step, as a share of `lr`.
  std::function<double(int)> rate = [](int) { return 1.0; };
};

template <class Net, class Optimizer = optim::AdamW>
std::string suspects_of(Net& net, const std::function<Tensor()>& loss_of, const Run& run = {}) {
  Optimizer optimizer(net.parameters(), {.lr = run.lr});
  GradientRecorder recorder(net);
  for (int step = 0; step < run.steps; ++step) {
    optimizer.set_lr(run.lr * run.rate(step));
    optimizer.zero_grad();
    const Tensor loss = loss_of();
    loss.backward();
    if (run.clip) optim::clip_grad_norm_(net.parameters(), 1.0);
    optimizer.step();
    recorder.step(loss.item<double>());
  }
  return words(recorder.suspects());
}

template <class Net>
std::function<Tensor()> classifying(Net& net, const Rows& rows) {
  return [&] {
    const auto [x, y] = rows.draw(64);
    return cross_entropy(net(x), y);
  };
}

TEST(HealthyRuns, OfAPerceptronRaiseNothing) {
  manual_seed(1);
  const Rows rows(16);
  nn::Sequential net(nn::Linear(16, 32), nn::ReLU(), nn::Linear(32, 32), nn::ReLU(), nn::Linear(32, 4));
  EXPECT_EQ(suspects_of(net, classifying(net, rows)), "");
  EXPECT_EQ((suspects_of<nn::Sequential, optim::SGD>(net, classifying(net, rows), {.lr = 0.1})), "");
}

TEST(HealthyRuns, OfSaturatingActivationsRaiseNothing) {
  manual_seed(2);
  const Rows rows(16);
  nn::Sequential net(nn::Linear(16, 32), nn::Tanh(), nn::Linear(32, 32), nn::Sigmoid(), nn::Linear(32, 4));
  EXPECT_EQ(suspects_of(net, classifying(net, rows), {.steps = 100, .lr = 1e-2}), "");
}

TEST(HealthyRuns, OfAConvNetWithBatchNormRaiseNothing) {
  manual_seed(3);
  nn::Sequential net(nn::Conv2d(1, 8, {3, 3}), nn::BatchNorm2d(8), nn::ReLU(), nn::MaxPool2d({2, 2}),
                     nn::Conv2d(8, 8, {3, 3}), nn::BatchNorm2d(8), nn::ReLU(), nn::Flatten(), nn::Linear(8 * 9, 2));
  const auto loss = [&] {
    const Tensor x = randn({16, 1, 12, 12});
    return cross_entropy(net(x), (x.mean({1, 2, 3}) > 0.0).to(i64));
  };
  EXPECT_EQ(suspects_of(net, loss), "");
}

struct Reader : nn::Layer<Reader> {
  nn::Embedding embedding{20, 16};
  nn::LSTM lstm{16, 24, {.batch_first = true}};
  nn::Linear head{24, 20};
  Reader() { WEFT_REGISTER(embedding, lstm, head); }
  Tensor forward(const Tensor& tokens) const { return head(lstm(embedding(tokens), {}).output); }
};

TEST(HealthyRuns, OfAnLstmRaiseNothing) {
  manual_seed(4);
  Reader net;
  const auto loss = [&] {
    const Tensor start = randint(0, 20, {8, 1}), tokens = (start + arange(24).view({1, 24})) % 20;
    return cross_entropy(net(tokens.slice(1, 0, 23)).view({-1, 20}), tokens.slice(1, 1, 24).reshape({-1}));
  };
  EXPECT_EQ(suspects_of(net, loss, {.lr = 3e-3, .clip = true}), "");
}

struct Gpt : nn::Layer<Gpt> {
  nn::Embedding token{20, 32, {}, 0.1}, position{16, 32, {}, 0.1};
  nn::Sequential blocks;
  nn::LayerNorm norm{32};
  nn::Linear head{32, 20, false};
  Gpt() {
    for (int i = 0; i < 3; ++i) blocks.append(nn::TransformerBlock(32, 2));
    WEFT_REGISTER(token, position, blocks, norm, head);
  }
  Tensor forward(const Tensor& tokens) const {
    return head(norm(blocks(token(tokens) + position(arange(tokens.size(1))))));
  }
};

TEST(HealthyRuns, OfAGptWithWarmUpClippingAndARateThatEndsAtZeroRaiseNothing) {
  manual_seed(5);
  Gpt net;
  const auto loss = [&] {
    const Tensor start = randint(0, 20, {8, 1}), tokens = (start + arange(17).view({1, 17}) * 3) % 20;
    return cross_entropy(net(tokens.slice(1, 0, 16)).view({-1, 20}), tokens.slice(1, 1, 17).reshape({-1}));
  };
  const auto rate = [](int step) { return step < 20 ? step / 20.0 : (step < 76 ? 1 - (step - 20) / 56.0 : 0); };
  EXPECT_EQ(suspects_of(net, loss, {.steps = 80, .lr = 3e-3, .clip = true, .rate = rate}), "");
}

/// 100 residual layers.
struct Deep : nn::Layer<Deep> {
  std::vector<nn::Linear> layers;
  nn::LayerNorm norm{16};
  nn::Linear head{16, 4};
  Deep() {
    for (int i = 0; i < 100; ++i) {
      layers.emplace_back(16, 16);
      register_module("layer" + std::to_string(i), layers.back());
    }
    WEFT_REGISTER(norm, head);
  }
  Tensor forward(const Tensor& x) const {
    Tensor h = x;
    for (const nn::Linear& layer : layers) h = h + relu(layer(h)) * 0.3;
    return head(norm(h));
  }
};

TEST(HealthyRuns, OfAHundredLayersRaiseNothing) {
  manual_seed(6);
  const Rows rows(16);
  Deep net;
  EXPECT_EQ(suspects_of(net, classifying(net, rows), {.steps = 40}), "");
}

/// Branches that begin almost shut, as in CaiT and ConvNeXt: gradients in them are 10⁶ times smaller at first.
struct Scaled : nn::Layer<Scaled> {
  nn::Linear first{16, 16}, branch{16, 16}, head{16, 4};
  nn::Parameter scale{full({16}, 1e-6)};
  Scaled() { WEFT_REGISTER(first, branch, head, scale); }
  Tensor forward(const Tensor& x) const {
    const Tensor h = first(x);
    return head(h + gelu(branch(h)) * scale);
  }
};

TEST(HealthyRuns, WithABranchThatBeginsAlmostShutRaiseNothing) {
  manual_seed(7);
  const Rows rows(16);
  Scaled net;
  EXPECT_EQ(suspects_of(net, classifying(net, rows)), "");
}

TEST(HealthyRuns, ThatLearnToTheEndRaiseNothing) {
  manual_seed(8);
  nn::Sequential net(nn::Linear(4, 16), nn::Tanh(), nn::Linear(16, 1));
  const Tensor x = randn({8, 4}), y = x.sum({1}, true) * 0.1;
  EXPECT_EQ(suspects_of(net, [&] { return mse_loss(net(x), y); }, {.steps = 400, .lr = 1e-2}), "");
}

TEST(HealthyRuns, OfAScaledLossRaiseNothing) {
  manual_seed(9);
  const Rows rows(16);
  nn::Sequential net(nn::Linear(16, 32), nn::ReLU(), nn::Linear(32, 4));
  const auto loss = [&] { return classifying(net, rows)() * 65536.0; };
  EXPECT_EQ(suspects_of(net, loss), "");
}

TEST(HealthyRuns, ThatAreEvaluatedWithDropoutAndNormsRaiseNothing) {
  manual_seed(10);
  const Rows rows(16);
  nn::Sequential net(nn::Linear(16, 32), nn::BatchNorm1d(32), nn::ReLU(), nn::Dropout(0.3), nn::Linear(32, 4));
  int calls = 0;
  const auto loss = [&] {
    if (++calls % 10 == 0) {
      net.eval();
      const NoGradGuard unrecorded;
      for (int i = 0; i < 3; ++i) (void)net(rows.draw(64).first);
      net.train();
    }
    return classifying(net, rows)();
  };
  EXPECT_EQ(suspects_of(net, loss, {.steps = 200, .clip = true}), "");
}

TEST(HealthyRuns, OfCheckpointedBlocksRaiseNothing) {
  manual_seed(11);
  struct Blocks : nn::Layer<Blocks> {
    nn::Linear first{16, 32}, head{32, 4};
    nn::Sequential block{nn::Linear(32, 32), nn::Dropout(0.1), nn::ReLU()};
    Blocks() { WEFT_REGISTER(first, head, block); }
    Tensor forward(const Tensor& x) const {
      return head(checkpoint([&](const Tensor& t) { return block(t); }, relu(first(x))));
    }
  } net;
  const Rows rows(16);
  EXPECT_EQ(suspects_of(net, classifying(net, rows)), "");
}

TEST(HealthyRuns, WithAccumulatedGradientsRaiseNothing) {
  manual_seed(12);
  const Rows rows(16);
  nn::Sequential net(nn::Linear(16, 32), nn::ReLU(), nn::Linear(32, 4));
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
  GradientRecorder recorder(net);
  for (int step = 0; step < 40; ++step) {
    optimizer.zero_grad();
    double sum = 0;
    for (int part = 0; part < 4; ++part) {
      const Tensor loss = classifying(net, rows)() / 4.0;
      loss.backward();
      sum += loss.item<double>();
    }
    optimizer.step();
    recorder.step(sum);
  }
  EXPECT_EQ(words(recorder.suspects()), "");
}

TEST(HealthyRuns, OfAContrastOfViewsRaiseNothing) {
  manual_seed(13);
  nn::Sequential net(nn::Linear(16, 32), nn::ReLU(), nn::Linear(32, 8));
  const Tensor stored = randn({64, 8});
  const auto loss = [&] {  // each row's match stands first, so every label is 0
    const Tensor x = randn({32, 16}), one = net(x + randn({32, 16}) * 0.1), other = net(x).detach();
    return cross_entropy(cat({(one * other).sum({1}, true), one.matmul(stored.t())}, 1), zeros({32}).to(i64));
  };
  EXPECT_EQ(suspects_of(net, loss), "");
}

TEST(HealthyRuns, OfAStudentAndOfValuesThatChaseTheirTargetRaiseNothing) {
  manual_seed(14);
  nn::Sequential student(nn::Linear(8, 32), nn::Dropout(0.1), nn::ReLU(), nn::Linear(32, 4));
  const nn::Sequential teacher(nn::Linear(8, 64), nn::ReLU(), nn::Linear(64, 4));
  const auto distilled = [&] {
    const Tensor x = randn({32, 8});
    Tensor wanted;
    {
      const NoGradGuard unrecorded;
      wanted = teacher(x);
    }
    return mse_loss(student(x), wanted);
  };
  EXPECT_EQ(suspects_of(student, distilled), "");
  nn::Sequential values(nn::Linear(8, 32), nn::Tanh(), nn::Linear(32, 1));
  const auto bootstrapped = [&] {
    const Tensor x = randn({32, 8}), reward = x.slice(1, 0, 1);
    return mse_loss(values(x), reward + values(randn({32, 8})).detach() * 0.9);
  };
  EXPECT_EQ(suspects_of(values, bootstrapped), "");
}

TEST(HealthyRuns, OfTwoBranchesThatShareAnEncoderRaiseNothing) {
  manual_seed(17);
  struct Pairs : nn::Layer<Pairs> {
    nn::Sequential encoder{nn::Linear(8, 16), nn::ReLU(), nn::Linear(16, 8)};  // its last bias drops out
    Pairs() { WEFT_REGISTER(encoder); }
    Tensor forward(const Tensor& a, const Tensor& b) const { return (encoder(a) - encoder(b)).square().sum({1}); }
  } net;
  const auto loss = [&] {
    const Tensor a = randn({32, 8}), alike = randint(0, 2, {32}).to(f32), mixed = alike.unsqueeze(1);
    const Tensor distance = net(a, a * mixed + randn({32, 8}) * (1.0 - mixed));
    return (distance * alike + relu(1.0 - distance) * (1.0 - alike)).mean();
  };
  EXPECT_EQ(suspects_of(net, loss), "");
}

/// A few of many branches are taken in each step, and a mask that is computed from the branch is next to it.
TEST(HealthyRuns, WithGatesMasksAndStraightThroughRoundingRaiseNothing) {
  manual_seed(15);
  struct Gated : nn::Layer<Gated> {
    nn::Linear first{16, 32}, gate{32, 32}, head{32, 4};
    Gated() { WEFT_REGISTER(first, gate, head); }
    Tensor forward(const Tensor& x) const {
      const Tensor h = first(x), g = sigmoid(gate(h));
      const Tensor hard = (g > 0.5).to(f32), through = g + (hard - g).detach();
      return head(where(h > 0.0, h, h * 0.1) * through);
    }
  } net;
  const Rows rows(16);
  EXPECT_EQ(suspects_of(net, classifying(net, rows)), "");
}

TEST(HealthyRuns, OfSmallRatesAndOfTasksThatAreLearntLateRaiseNothing) {
  manual_seed(16);
  const Rows rows(16);
  nn::Sequential net(nn::Linear(16, 32), nn::ReLU(), nn::Linear(32, 4));
  EXPECT_EQ(suspects_of(net, classifying(net, rows), {.steps = 200, .lr = 2e-5}), "");
  nn::Sequential parity(nn::Linear(3, 32), nn::Tanh(), nn::Linear(32, 2));
  const auto loss = [&] {
    const Tensor bits = randint(0, 2, {64, 3});
    return cross_entropy(parity(bits.to(f32) * 2.0 - 1.0), bits.sum({1}) % 2);
  };
  EXPECT_EQ(suspects_of(parity, loss, {.steps = 300, .lr = 3e-3}), "");
}

}  // namespace
}  // namespace weft
