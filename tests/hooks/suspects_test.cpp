// Each fault beside a healthy twin: the one is named with its line, the other raises nothing.
#include "twins.hpp"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using twins::words;

std::string here(int line) { return "suspects_test.cpp:" + std::to_string(line); }

struct Run {
  int steps = 30;
  double lr = 1e-3;
  std::function<double(int)> rate = [](int) { return 1.0; };
};

/// The findings of a run with the model `layers` and the loss `loss_of(step)`.
template <class Optimizer = optim::Adam>
std::string suspects_of(const NamedTensors& parameters, const std::function<Tensor(int)>& loss_of, Run run = {}) {
  std::vector<Tensor> trained;
  for (const auto& [name, tensor] : parameters) trained.push_back(tensor);
  Optimizer optimizer(trained, {.lr = run.lr});
  GradientRecorder recorder(parameters);
  for (int step = 0; step < run.steps; ++step) {
    optimizer.set_lr(run.lr * run.rate(step));
    optimizer.zero_grad();
    const Tensor loss = loss_of(step);
    loss.backward();
    optimizer.step();
    recorder.step(loss.item<double>());
  }
  return words(recorder.suspects());
}

NamedTensors names_of_all(const std::vector<nn::Linear>& layers) {
  NamedTensors out;
  for (size_t i = 0; i < layers.size(); ++i) {
    out.emplace_back("layer" + std::to_string(i) + ".weight", layers[i].weight);
    out.emplace_back("layer" + std::to_string(i) + ".bias", layers[i].bias);
  }
  return out;
}

std::vector<nn::Linear> stack(int count, int64_t width, double gain = 1) {
  std::vector<nn::Linear> out;
  for (int i = 0; i < count; ++i) {
    out.emplace_back(width, width);
    out.back().weight.detach().mul_(gain);
  }
  return out;
}

// ---- where gradients collapse or explode ----

int collapse_line = 0;
std::string deep_run(bool sick) {
  manual_seed(1);
  const std::vector<nn::Linear> layers = stack(10, 16, sick ? 1 : 1.7);
  return suspects_of(names_of_all(layers), [&](int) {
    Tensor h = randn({32, 16});
    const Tensor target = h.slice(1, 0, 1).sign();
    for (const nn::Linear& layer : layers) {
      collapse_line = __LINE__ + 1;
      h = sick ? sigmoid(layer(h)) : tanh(layer(h));
    }
    return mse_loss(h.slice(1, 0, 1), target);
  });
}

TEST(Suspects, OneEntryNamesTheLineWhereGradientsCollapse) {
  const std::string said = deep_run(true);
  EXPECT_THAT(said, StartsWith("vanishing: the gradient of layer"));
  EXPECT_THAT(said, HasSubstr("calls of sigmoid at " + here(collapse_line)));
  EXPECT_THAT(said, HasSubstr("parameters before it starve"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_EQ(deep_run(false), "");
}

int scale_line = 0;
std::string scaled_run(double factor) {
  manual_seed(2);
  const std::vector<nn::Linear> layers = stack(5, 16);
  return suspects_of(names_of_all(layers), [&](int) {
    Tensor h = randn({32, 16});
    const Tensor target = h.slice(1, 0, 1);
    for (size_t i = 0; i < layers.size(); ++i) {
      h = tanh(layers[i](h));
      scale_line = __LINE__ + 1;
      if (i == 2) h = h * factor;
    }
    return mse_loss(h.slice(1, 0, 1), target);
  });
}

TEST(Suspects, ASingleOpThatShrinksGradientsIsNamed) {
  const std::string said = scaled_run(1e-7);
  EXPECT_THAT(said, StartsWith("vanishing: the gradient of layer2"));
  EXPECT_THAT(said, HasSubstr("most of it in mul at " + here(scale_line)));
  EXPECT_EQ(scaled_run(0.5), "");
}

TEST(Suspects, GradientsThatExplodeInTheFirstStepsAreNamedWithTheirLine) {
  const auto run = [](double gain) {
    manual_seed(3);
    const std::vector<nn::Linear> layers = stack(12, 16, gain);
    return suspects_of(names_of_all(layers),
                       [&](int) {
                         Tensor h = randn({32, 16});
                         for (const nn::Linear& layer : layers) h = layer(h);
                         return h.square().mean();
                       },
                       {.steps = 6});
  };
  const std::string said = run(10);
  EXPECT_THAT(said, StartsWith("exploding: the gradient of layer"));
  EXPECT_THAT(said, HasSubstr("calls of linear at suspects_test.cpp:"));
  EXPECT_EQ(run(1.7), "");
}

TEST(Suspects, ANetThatIsSmallEverywhereIsNamed) {
  const auto run = [](double factor) {
    manual_seed(4);
    const std::vector<nn::Linear> layers = stack(3, 16);
    return suspects_of<optim::SGD>(names_of_all(layers),
                                   [&](int) {
                                     const Tensor x = randn({32, 16});
                                     return mse_loss(layers[2](tanh(layers[1](tanh(layers[0](x))))), x) * factor;
                                   },
                                   {.lr = 0.1});
  };
  EXPECT_THAT(run(1e-10), StartsWith("vanishing: every gradient is tiny from the first step on"));
  EXPECT_THAT(run(1e-10), HasSubstr("mul at suspects_test.cpp:"));
  EXPECT_EQ(run(1), "");
}

// ---- activations ----

int activation_line = 0;
std::string activation_run(double shift, bool relu_) {
  manual_seed(5);
  const std::vector<nn::Linear> layers = stack(3, 16);
  layers[1].bias.detach().fill_(shift);
  return suspects_of(names_of_all(layers), [&](int) {
    const Tensor x = randn({32, 16}), h = layers[0](x), inner = layers[1](h);
    activation_line = __LINE__ + 1;
    const Tensor branch = relu_ ? relu(inner) : sigmoid(inner);
    return mse_loss(layers[2](h + branch), x);
  });
}

TEST(Suspects, ADeadActivationIsNamedByItsLineAndInput) {
  const std::string said = activation_run(-20, true);
  EXPECT_THAT(said, StartsWith("dead: relu at " + here(activation_line) + " is dead: the slope of 100 %"));
  EXPECT_THAT(said, HasSubstr("layer1.weight and layer1.bias feed it"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_EQ(activation_run(0, true), "");
}

TEST(Suspects, ASaturatedActivationIsNamedByItsLineAndInput) {
  const std::string said = activation_run(12, false);
  EXPECT_THAT(said, StartsWith("dead: sigmoid at " + here(activation_line) + " is saturated"));
  EXPECT_THAT(said, HasSubstr("layer1.weight and layer1.bias feed it"));
  EXPECT_EQ(activation_run(0, false), "");
}

TEST(Suspects, ARecurrenceWhoseGradientGrowsFromCallToCallIsNamed) {
  const auto run = [](double gain) {
    manual_seed(6);
    const nn::Linear in(4, 16), cell(16, 16, false);
    cell.weight.detach().copy_(eye(16) * gain);
    return suspects_of({{"in", in.weight}, {"cell", cell.weight}},
                       [&](int) {
                         Tensor h = in(randn({8, 4}));
                         for (int i = 0; i < 30; ++i) h = cell(h);
                         return h.square().mean();
                       },
                       {.steps = 6});
  };
  EXPECT_THAT(run(1.6), HasSubstr("calls of linear at suspects_test.cpp:"));
  EXPECT_THAT(run(1.6), StartsWith("exploding"));
  EXPECT_EQ(run(1.0), "");
}

// ---- updates ----

std::string rate_run(
    double lr, std::function<double(int)> rate = [](int) { return 1.0; }) {
  manual_seed(7);
  const std::vector<nn::Linear> layers = stack(2, 16);
  return suspects_of(names_of_all(layers),
                     [&](int) {
                       const Tensor x = randn({32, 16});
                       return mse_loss(layers[1](tanh(layers[0](x))), x);
                     },
                     {.lr = lr, .rate = rate});
}

TEST(Suspects, StepsOfTheWrongSizeAreNamedWithAFactorThatMendsThem) {
  EXPECT_THAT(rate_run(1e-8), HasSubstr("updates: steps are too small for layer"));
  EXPECT_THAT(rate_run(1e-8), HasSubstr("times larger"));
  EXPECT_THAT(rate_run(1e-8), HasSubstr("it is so for every parameter"));
  EXPECT_EQ(rate_run(1e-3), "");
  const auto descent = [](double lr) {
    const Tensor w = full({8}, 1.0).requires_grad_();
    return suspects_of<optim::SGD>({{"w", w}}, [&](int) { return w.square().sum(); }, {.lr = lr});
  };
  EXPECT_THAT(descent(0.95), HasSubstr("updates: steps are too large for w: each moves it by 2.1 of its norm"));
  EXPECT_THAT(descent(0.95), HasSubstr("times smaller"));
  EXPECT_EQ(descent(0.01), "");
}

std::string leaping_run(const std::string& sick) {
  manual_seed(8);
  const Tensor rule = randn({8, 3});
  nn::Linear first(8, 32), last(32, 3);
  nn::Sequential net(first, nn::ReLU(), last);
  const auto loss = [&](int) {
    const Tensor x = randn({32, 8});
    return cross_entropy(net(x), argmax(x.matmul(rule), 1)) * (sick == "sum" ? 32000.0 : 1.0);
  };
  if (sick == "adam") return suspects_of(names_of(net), loss, {.steps = 60, .lr = 2.0});
  return suspects_of<optim::SGD>(names_of(net), loss, {.steps = 60, .lr = sick == "rate" ? 1e4 : 0.1});
}

TEST(Suspects, ALeapIsNamedBeforeItsConsequences) {
  const std::string adam = leaping_run("adam");
  EXPECT_THAT(adam.substr(0, adam.find('\n')),
              AllOf(HasSubstr("updates: steps are too large: step "), HasSubstr(" of its norm"),
                    HasSubstr("times smaller moves it by 0.001")))
      << adam;
  const std::string rate = leaping_run("rate");
  EXPECT_THAT(rate.substr(0, rate.find('\n')), AllOf(HasSubstr("non-finite: "), HasSubstr("; step 1 moved "))) << rate;
  EXPECT_EQ(leaping_run(""), "");
}

TEST(Suspects, TheOpThatSendsNothingOnIsNamedOnceForAllBehindIt) {
  const auto run = [](int64_t dim) {
    manual_seed(9);
    nn::Linear first(8, 16), last(16, 1);
    nn::Sequential net(first, nn::ReLU(), last);
    return suspects_of(names_of(net), [&](int) {
      const Tensor x = randn({32, 8});
      return mse_loss(softmax(net(x), static_cast<int>(dim)), softmax(x.sum(1, true), static_cast<int>(dim)) * 0.5);
    });
  };
  EXPECT_THAT(run(1), AllOf(HasSubstr("softmax at suspects_test.cpp:"),
                            HasSubstr("passes nothing of the arriving gradient on, and 3 parameters like it")));
  EXPECT_EQ(run(0), "");
}

TEST(Suspects, ARateOfZeroIsNamedUnlessTheRunEndsWithIt) {
  EXPECT_THAT(rate_run(1e-3, [](int step) { return step < 12 ? 1.0 : 0.0; }),
              HasSubstr("frozen: no parameter changes since step 12, though gradients come: the learning rate of Adam "
                        "is 0, set at suspects_test.cpp:"));
  EXPECT_EQ(rate_run(1e-3, [](int step) { return 1 - step / 30.0; }), "");
}

TEST(Suspects, StepsThatAreLostInRoundingAreNotBlamedOnTheOptimizer) {
  const auto run = [](double size) {
    const Tensor large = full({8}, size).requires_grad_(), small = full({8}, 1.0).requires_grad_();
    return suspects_of({{"large", large}, {"small", small}},
                       [&](int) { return (large * randn({8}) + (small - 2.0).square()).mean(); });
  };
  EXPECT_THAT(run(1e6), HasSubstr("frozen: large did not change: steps of about"));
  EXPECT_THAT(run(1e6), HasSubstr("are lost in rounding"));
  EXPECT_THAT(run(1e6), Not(HasSubstr("does the optimizer have it")));
  EXPECT_EQ(run(1), "");
}

TEST(Suspects, DistinguishesAParameterThatTheOptimizerLacks) {
  const Tensor trained = full({8}, 1.0).requires_grad_(), left = full({8}, 1.0).requires_grad_();
  optim::Adam optimizer({trained}, {.lr = 1e-3});
  GradientRecorder recorder(NamedTensors{{"trained", trained}, {"left", left}});
  for (int i = 0; i < 12; ++i) {
    optimizer.zero_grad();
    (trained * left - 2.0).square().mean().backward();
    optimizer.step();
    recorder.step();
  }
  EXPECT_EQ(words(recorder.suspects()),
            "frozen: left did not change, though a gradient came: does the optimizer have it?\n");
}

// ---- broadcasts ----

int broadcast_line = 0;
std::string broadcast_run(bool sick) {
  manual_seed(8);
  const nn::Linear layer(4, 1);
  return suspects_of({{"weight", layer.weight}}, [&](int) {
    const Tensor x = randn({32, 4}), sum = x.sum({1});
    const Tensor y = sick ? sum : sum.unsqueeze(1);
    broadcast_line = __LINE__ + 1;
    return (layer(x) - y).square().mean();
  });
}

TEST(Suspects, ABroadcastNobodyMeantIsNamedWithItsShapes) {
  const std::string said = broadcast_run(true);
  EXPECT_THAT(said, HasSubstr("broadcast: sub at " + here(broadcast_line) +
                              " makes [32, 32] of [32, 1] and [32], and a gradient flows through it"));
  EXPECT_EQ(broadcast_run(false), "");
}

TEST(Suspects, ABroadcastThatIsMeantIsNot) {
  manual_seed(9);
  const Tensor w = randn({8}).requires_grad_();
  const Tensor table = randn({32, 8}).requires_grad_();
  EXPECT_EQ(suspects_of({{"w", w}, {"table", table}},
                        [&](int) {
                          const Tensor distances =
                              (table.unsqueeze(1) - table.unsqueeze(0)).square().mean();  // all pairs
                          const Tensor angles = arange(32).to(f32).unsqueeze(1) * w;      // places by frequencies
                          return distances + sin(angles).mean() + (table * w).mean();
                        }),
            "");
}

// ---- the run ----

TEST(Suspects, AGraphThatGrowsFromStepToStepIsNamed) {
  const auto run = [](bool sick) {
    manual_seed(10);
    const nn::Linear cell(8, 8);
    Tensor state = zeros({4, 8});
    GradientRecorder recorder(cell, {.trace_every = 5});
    optim::SGD optimizer(cell.parameters(), {.lr = 1e-3});
    for (int i = 0; i < 30; ++i) {
      optimizer.zero_grad();
      state = tanh(cell(state) + randn({4, 8}));
      const Tensor loss = state.square().mean();
      loss.backward({}, {.retain_graph = true});
      recorder.step(loss.item<double>());
      if (!sick) state = state.detach();
      optimizer.zero_grad();
    }
    return words(recorder.suspects());
  };
  EXPECT_THAT(run(true), HasSubstr("run: the graph grows from step to step: "));
  EXPECT_THAT(run(false), Not(HasSubstr("the graph grows")));
}

TEST(Suspects, DataInTheSameOrderInEveryEpochAreNamed) {
  const auto run = [](bool sick) {
    manual_seed(11);
    const nn::Linear layer(8, 1);
    const Tensor x = randn({64, 8}), y = randn({64, 1});
    return suspects_of({{"weight", layer.weight}, {"bias", layer.bias}},
                       [&](int step) {
                         const int64_t batch = sick ? step % 8 : randint(0, 8, {1}).item<int64_t>();
                         return mse_loss(layer(x.slice(0, batch * 8, batch * 8 + 8)),
                                         y.slice(0, batch * 8, batch * 8 + 8));
                       },
                       {.steps = 80});
  };
  EXPECT_THAT(run(true), HasSubstr("run: the loss goes up and down in the same way every 8 steps"));
  EXPECT_EQ(run(false), "");
}

}  // namespace
}  // namespace weft
