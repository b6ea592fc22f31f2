// Changes of gradients and parameters outside of the net, with healthy counterparts.
#include "twins.hpp"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace twins;

std::string here(int line) { return "program_suspects_test.cpp:" + std::to_string(line); }

int line = 0;

nn::Sequential classifier() {
  return nn::Sequential(nn::Linear(8, 32), nn::ReLU(), nn::Linear(32, 32), nn::ReLU(), nn::Linear(32, 4));
}

template <class Net>
std::function<Tensor(int)> classifying(const Net& net, const Rows& rows) {
  return [&](int) {
    const auto [x, y] = rows.draw(32);
    return cross_entropy(net(x), y);
  };
}

// ---- parts that are shared ----

TEST(ProgramSuspects, NameAModuleThatIsRegisteredTwice) {
  const auto run = [](bool sick) {
    manual_seed(1);
    const Rows rows(8);
    nn::Sequential net(nn::Linear(8, 32), nn::ReLU());
    const nn::Linear block(32, 32);
    for (int i = 0; i < 3; ++i) net.append(sick ? block : nn::clone(block)), net.append(nn::ReLU());
    net.append(nn::Linear(32, 4));
    return first_three(net, classifying(net, rows));
  };
  const std::string said = run(true);
  EXPECT_THAT(said, HasSubstr("run: 2 and 4 are one Linear: a copy of a module shares its parameters; clone() "
                              "makes one of its own; and 1 more"));
  EXPECT_EQ(run(false), "");
}

TEST(ProgramSuspects, NameTwoParametersOverTheSameMemory) {
  const auto run = [](bool sick) {
    manual_seed(2);
    struct Two : nn::Layer<Two> {
      nn::Parameter left, right;
      Two(const Tensor& a, const Tensor& b) : left(a), right(b) { WEFT_REGISTER(left, right); }
      Tensor forward(const Tensor& x) const { return x.matmul(left) - tanh(x).matmul(right); }
    };
    const Tensor start = randn({8, 4}) * 0.1;
    const Two net(start, sick ? start : start.clone());
    const Rows rows(8);
    return first_three(net, classifying(net, rows));
  };
  const std::string said = run(true);
  EXPECT_THAT(said, HasSubstr("run: left and right are two parameters over the same memory"));
  EXPECT_EQ(run(false), "");
}

TEST(ProgramSuspects, AreSilentAboutTiedEmbeddings) {
  manual_seed(3);
  struct Model : nn::Layer<Model> {
    nn::Embedding words{20, 16, {}, 0.1}, targets = words;
    nn::Linear body{16, 16};
    Model() { WEFT_REGISTER(words, targets, body); }
    Tensor forward(const Tensor& tokens) const { return tanh(body(words(tokens))).matmul(targets.weight.t()); }
  } net;
  EXPECT_EQ(first_three(net,
                        [&](int) {
                          const Tensor tokens = randint(0, 20, {64});
                          return cross_entropy(net(tokens), (tokens + 3) % 20);
                        }),
            "");
}

TEST(ProgramSuspects, AnOptimizerRefusesAParameterThatItHas) {
  const Tensor w = ones({2}).requires_grad_();
  EXPECT_THROW(optim::SGD({w, w}, {.lr = 0.1}), ValueError);
}

// ---- clipping ----

TEST(ProgramSuspects, NameAClippingThatShrinksEveryStep) {
  const auto run = [](double limit) {
    manual_seed(4);
    const Rows rows(8);
    const nn::Sequential net = classifier();
    return first_three(net, classifying(net, rows), {.before_step = [&](int) {
                         line = __LINE__ + 1;
                         optim::clip_grad_norm_(net.parameters(), limit);
                       }});
  };
  const std::string said = run(1e-3);
  EXPECT_THAT(said, HasSubstr("run: clip_grad_norm_ at " + here(line) + " shrinks the gradients in every step"));
  EXPECT_THAT(said, HasSubstr("the limit 0.001"));
  EXPECT_EQ(run(1), "");
  EXPECT_EQ(run(0.2), "");
}

// ---- gradients that nobody drops ----

/// Batches to a step, and whether gradients are dropped before it.
std::string accumulated(int batches, bool zeroed, bool each_batch_is_a_step = false) {
  manual_seed(9);
  const Rows rows(8);
  const nn::Sequential net = classifier();
  optim::SGD optimizer(net.parameters(), {.lr = 0.02});
  GradientRecorder recorder(net);
  for (int step = 0; step < 60; ++step) {
    if (zeroed) optimizer.zero_grad();
    Tensor loss;
    for (int i = 0; i < batches; ++i) {
      const auto [x, y] = rows.draw(32);
      loss = cross_entropy(net(x), y) / batches;
      loss.backward();
      if (each_batch_is_a_step && i + 1 < batches) recorder.step(loss.item<double>());
    }
    line = __LINE__ + 1;
    optimizer.step();
    recorder.step(loss.item<double>());
  }
  return words(recorder.suspects(), 3);
}

TEST(ProgramSuspects, NameGradientsThatAreNeverZeroed) {
  const std::string said = accumulated(1, false);
  EXPECT_THAT(said,
              HasSubstr("run: gradients add up from step to step: those of earlier steps are still there when SGD "
                        "steps at " +
                        here(line) + "; call zero_grad() before backward"));
  EXPECT_EQ(accumulated(1, true), "");
  EXPECT_EQ(accumulated(4, true), "");
  EXPECT_EQ(accumulated(4, true, true), "");
}

// ---- weight decay and rates ----

TEST(ProgramSuspects, NameAWeightDecayThatOutweighsTheGradient) {
  const auto adamw = [](double decay) {
    manual_seed(5);
    const Rows rows(8);
    const nn::Sequential net = classifier();
    optim::AdamW optimizer(net.parameters(), {.lr = 1e-3, .weight_decay = decay});
    return first_three(net, optimizer, classifying(net, rows), {.steps = 60});
  };
  const std::string said = adamw(100);
  EXPECT_THAT(said, HasSubstr("updates: weight decay outweighs the gradient: it is "));
  EXPECT_THAT(said, HasSubstr("the decay is 100 in AdamW at twins.hpp:"));
  EXPECT_EQ(adamw(0.01), "");
  EXPECT_EQ(adamw(0.1), "");
  const auto sgd = [](double decay) {
    manual_seed(6);
    const Rows rows(8);
    const nn::Sequential net = classifier();
    optim::SGD optimizer(net.parameters(), {.lr = 0.05, .weight_decay = decay});
    return first_three(net, optimizer, classifying(net, rows), {.steps = 60});
  };
  EXPECT_THAT(sgd(1), HasSubstr("updates: weight decay outweighs the gradient: it is "));
  EXPECT_EQ(sgd(1e-3), "");
}

TEST(ProgramSuspects, NameTheLineThatSetsTheRateToZero) {
  const auto run = [](int64_t steps) {
    manual_seed(7);
    const Rows rows(8);
    const nn::Sequential net = classifier();
    optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
    optim::Scheduler rates(optimizer, optim::polynomial_lr(steps));
    return first_three(net, optimizer, classifying(net, rows), {.steps = 60, .before_step = [&](int) {
                                                                  line = __LINE__ + 1;
                                                                  rates.step();
                                                                }});
  };
  const std::string said = run(10);
  EXPECT_THAT(said, HasSubstr("frozen: no parameter changes since step 9, though gradients come: the learning rate of "
                              "AdamW is 0, set at " +
                              here(line)));
  EXPECT_EQ(run(60), "");
}

// ---- casts ----

struct Halved : nn::Layer<Halved> {
  bool sick;
  nn::Linear first{8, 32}, second{32, 4};
  explicit Halved(bool s) : sick(s) { WEFT_REGISTER(first, second); }
  Tensor forward(const Tensor& x) const {
    Tensor h = relu(first(x));
    line = __LINE__ + 1;
    if (sick) h = h.to(f16);
    return second(h.to(f32));
  }
};

TEST(ProgramSuspects, NameTheCastToHalfPrecisionInsideANet) {
  const auto run = [](bool sick) {
    manual_seed(8);
    const Rows rows(8);
    const Halved net(sick);
    return first_three(net, classifying(net, rows));
  };
  const std::string said = run(true);
  EXPECT_THAT(said, HasSubstr("run: a net of float32 falls to float16 at " + here(line)));
  EXPECT_EQ(run(false), "");
}

TEST(ProgramSuspects, AreSilentAboutMixedPrecisionAndNetsOfSixteenBits) {
  manual_seed(9);
  const Rows rows(8);
  const nn::Sequential net = classifier();
  for (const DType dtype : {f16, bf16}) {
    EXPECT_EQ(first_three(net,
                          [&](int) {
                            const AutocastGuard mixed(dtype);
                            const auto [x, y] = rows.draw(32);
                            return cross_entropy(net(x), y);
                          }),
              "");
  }
  nn::Sequential half = classifier();
  half.to(bf16);
  EXPECT_EQ(first_three(half,
                        [&](int) {
                          const auto [x, y] = rows.draw(32);
                          return cross_entropy(half(x.to(bf16)).to(f32), y);
                        },
                        {.lr = 1e-2}),
            "");
}

// ---- hooks ----

std::string hooked_run(const std::function<void(const nn::Sequential&)>& hook,
                       const std::function<void(const Tensor& h)>& inside = {}) {
  manual_seed(10);
  const Rows rows(8);
  const nn::Sequential net = classifier();
  if (hook) hook(net);
  return first_three(net, [&](int) {
    const auto [x, y] = rows.draw(32);
    const Tensor h = net(x);
    if (inside) inside(h);
    return cross_entropy(h, y);
  });
}

TEST(ProgramSuspects, NameAHookThatChangesAParametersGradient) {
  const std::string said = hooked_run([](const nn::Sequential& net) {
    line = __LINE__ + 1;
    net.parameters()[2].register_hook([](const Tensor& g) { return g * 1e-3; });
  });
  EXPECT_THAT(said, HasSubstr("run: a hook registered at " + here(line) +
                              " changes the gradient of 2.weight: it makes it 1000 times smaller"));
}

TEST(ProgramSuspects, NameAHookOnAResultAndOneOfAModule) {
  const std::string turned = hooked_run({}, [](const Tensor& h) {
    line = __LINE__ + 1;
    h.register_hook([](const Tensor& g) { return -g; });
  });
  EXPECT_THAT(turned,
              HasSubstr("a hook registered at " + here(line) + " changes the gradient of the result of linear at "));
  EXPECT_THAT(turned, HasSubstr("it turns it round"));
  const std::string emptied = hooked_run([](const nn::Sequential& net) {
    nn::Module part = net.children()[2];
    line = __LINE__ + 1;
    part.register_backward_hook([](const Tensor& g) { return g * 0.0; });
  });
  EXPECT_THAT(emptied, HasSubstr("a hook registered at " + here(line)));
  EXPECT_THAT(emptied, HasSubstr("it makes it 0"));
  const std::string written = hooked_run({}, [](const Tensor& h) {
    line = __LINE__ + 1;
    h.register_hook([](const Tensor& g) { return g.mul_(100.0); });
  });
  EXPECT_THAT(written, HasSubstr("a hook registered at " + here(line)));
  EXPECT_THAT(written, HasSubstr("it makes it 100 times larger"));
}

TEST(ProgramSuspects, AreSilentAboutHooksThatLookOrTrim) {
  EXPECT_EQ(hooked_run([](const nn::Sequential& net) {
              for (const Tensor& p : net.parameters()) {
                p.register_hook([](const Tensor& g) { return g.clamp(-1, 1); });
                p.register_hook([](const Tensor& g) { (void)g.abs().max(); });
                p.register_hook([](const Tensor& g) { return g * 0.5; });
              }
            }),
            "");
}

}  // namespace
}  // namespace weft
