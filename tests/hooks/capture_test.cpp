// Captured steps: replays have the bits of the eager step, and steps that cannot be replayed raise.
#include "collected_warnings.hpp"
#include "hooks/values.hpp"

#include <cmath>
#include <thread>

#include <weft/backends/watch/observe.hpp>
#include <weft/hooks/capture.hpp>
#include <weft/map/map.hpp>

namespace weft {
namespace {

using Capture = LiveCount;

struct Net : nn::Layer<Net> {
  nn::Linear first{8, 16}, second{16, 4};
  nn::Dropout dropout{0.25};
  Net() {
    register_module("first", first);
    register_module("second", second);
    register_module("dropout", dropout);
  }
  Tensor forward(const Tensor& x) const { return second(dropout(relu(first(x)))); }
};

Tensor batch(int64_t rows, int64_t step) {
  Generator generator(static_cast<uint64_t>(100 + step));
  return randn({rows, 8}, {}, &generator);
}
Tensor targets(int64_t rows, int64_t step) {
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < rows; ++i) classes.push_back((i * 7 + step) % 4);
  return tensor(classes);
}

/// Loss by loss of a training of `steps` steps; `wrap` converts a step to the called function.
template <class Optimizer, class Wrap>
Doubles train(const Wrap& wrap, int steps, Doubles* end = nullptr) {
  manual_seed(3);
  Net net;
  Optimizer optimizer(net.parameters(), {.lr = 0.01});
  auto step = wrap([&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optim::clip_grad_norm_(net.parameters(), 0.5);
    optimizer.step();
    return loss;
  });
  Doubles losses;
  for (int i = 0; i < steps; ++i) {
    optimizer.set_lr(0.01 / (1 + i));
    const int64_t rows = i % 5 == 4 ? 3 : 6;  // the last batch of an epoch is smaller
    losses.push_back(step(batch(rows, i), targets(rows, i)).template item<double>());
  }
  if (end != nullptr) {
    for (const Tensor& p : net.parameters()) {
      for (const double v : values(p)) end->push_back(v);
      for (const double v : values(p.grad())) end->push_back(v);
    }
    end->push_back(static_cast<double>(default_generator().state().offset));
  }
  return losses;
}

const auto eagerly = [](auto step) { return step; };
const auto captured = [](auto step) { return capture(step); };

TEST_F(Capture, ReplaysHaveTheBitsOfTheEagerStep) {
  Doubles eager_end, captured_end;
  EXPECT_EQ(train<optim::AdamW>(eagerly, 25, &eager_end), train<optim::AdamW>(captured, 25, &captured_end));
  EXPECT_EQ(eager_end, captured_end);
  EXPECT_EQ(train<optim::SGD>(eagerly, 25), train<optim::SGD>(captured, 25));
}

TEST_F(Capture, TwoEqualRecordingsSuffice) {
  const Tensor w = ones({4}).requires_grad_();
  optim::SGD optimizer({w}, {.lr = 0.1, .momentum = 0.9});
  auto step = capture([&](const Tensor& x) {
    optimizer.zero_grad();
    const Tensor loss = (w * x).sum();
    loss.backward();
    optimizer.step();
    return loss;
  });
  for (int i = 0; i < 10; ++i) step(full({4}, i));
  EXPECT_EQ(step.stats().eager, 3);
  EXPECT_EQ(step.stats().recorded, 2);
  EXPECT_EQ(step.stats().replayed, 7);
  EXPECT_GT(step.stats().kernels, 3);
  EXPECT_GT(step.stats().bytes, 0U);
  step.forget();
  EXPECT_EQ(step.stats().recordings, 0);
}

TEST_F(Capture, OfAConvolutionWithBatchNormKeepsItsStatistics) {
  const auto run = [](const auto& wrap) {
    manual_seed(5);
    nn::Sequential net(nn::Conv2d(1, 4, 3), nn::BatchNorm2d(4), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                       nn::Linear(4 * 3 * 3, 2));
    optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
    auto step = wrap([&](const Tensor& x) {
      optimizer.zero_grad();
      const Tensor loss = net(x).square().mean();
      loss.backward();
      optimizer.step();
      return loss;
    });
    Doubles all;
    for (int i = 0; i < 8; ++i) all.push_back(step(randn({5, 1, 8, 8})).template item<double>());
    for (const auto& [name, buffer] : net.named_buffers()) {
      for (const double v : values(buffer)) all.push_back(v);
    }
    return all;
  };
  EXPECT_EQ(run(eagerly), run(captured));
}

TEST_F(Capture, DrawsAnewInEveryReplayAndAsOftenAsTheStep) {
  auto step = capture([] { return stack({rand({3}), randn({3})}); });
  manual_seed(11);
  Doubles eager;
  for (int i = 0; i < 6; ++i) {
    for (const double v : values(stack({rand({3}), randn({3})}))) eager.push_back(v);
  }
  manual_seed(11);
  Doubles replayed;
  for (int i = 0; i < 6; ++i) {
    for (const double v : values(step())) replayed.push_back(v);
  }
  EXPECT_EQ(eager, replayed);
  manual_seed(11);
  EXPECT_EQ(values(step()), Doubles(eager.begin(), eager.begin() + 6)) << "a seed between replays is heeded";
}

TEST_F(Capture, RecomputesCheckpointsWithTheirMasks) {
  const auto run = [](const auto& wrap) {
    manual_seed(2);
    const Tensor w = ones({32}).requires_grad_();
    auto step = wrap([&] {
      w.set_grad({});
      const Tensor y = checkpoint([](const Tensor& t) { return exp(dropout(t, 0.5)); }, w);
      y.sum().backward();
      return w.grad();
    });
    Doubles all;
    for (int i = 0; i < 6; ++i) {
      for (const double v : values(step())) all.push_back(v);
    }
    return all;
  };
  EXPECT_EQ(run(eagerly), run(captured));
}

TEST_F(Capture, KeepsTensorsThatTheHostCreatedInTheStep) {
  auto step = capture([](const Tensor& x) {
    const Tensor a = tensor({1.0, 2.0, 3.0});
    const Tensor b = x * a;  // its memory may be that of `c`
    const Tensor c = tensor({{10.0}, {20.0}});
    return c * b.sum() + 1.5;
  });
  for (int i = 0; i < 6; ++i) EXPECT_EQ(values(step(full({3}, i))), Doubles({60.0 * i + 1.5, 120.0 * i + 1.5}));
}

TEST_F(Capture, RunsOwnFormulas) {
  auto step = capture([](const Tensor& x) { return map([](auto a, auto b) { return a * exp(-b); }, x, 2.0); });
  for (int i = 0; i < 6; ++i) EXPECT_EQ(values(step(full({2}, i))), values(full({2}, i) * std::exp(-2.0f)));
}

TEST_F(Capture, AddsToGradientsAsTheStepDoes) {
  const Tensor w = ones({2}).requires_grad_();
  auto step = capture([&](const Tensor& x) { (w * x).sum().backward(); });
  for (int i = 1; i <= 12; ++i) {
    step(full({2}, i));
    // Dropped every fourth time: then a replay would add where the step assigns.
    const int first = (i - 1) / 4 * 4 + 1;
    double sum = 0;
    for (int k = first; k <= i; ++k) sum += k;
    EXPECT_EQ(values(w.grad()), Doubles({sum, sum})) << i;
    if (i % 4 == 0) w.set_grad({});
  }
}

TEST_F(Capture, FollowsParametersToOtherMemory) {
  const auto run = [](const auto& wrap) {
    manual_seed(4);
    nn::Linear net(3, 2);
    auto step = wrap([&](const Tensor& x) { return net(x).sum(); });
    Doubles all;
    for (int i = 0; i < 5; ++i) all.push_back(step(ones({1, 3})).template item<double>());
    net.to(f64);
    for (int i = 0; i < 5; ++i) all.push_back(step(ones({1, 3}, f64)).template item<double>());
    net.to(f32);
    for (int i = 0; i < 5; ++i) all.push_back(step(ones({1, 3})).template item<double>());
    return all;
  };
  EXPECT_EQ(run(eagerly), run(captured));
}

TEST_F(Capture, MemoryThatDiesElsewhereIsKeptAndTheStepRecordedAnew) {
  Tensor shared = ones({100});
  auto step = capture([&] { return shared * 2.0; });
  for (int i = 0; i < 4; ++i) step();
  std::thread([&] { shared = full({100}, 3.0); }).join();
  std::vector<Tensor> others;
  for (int i = 0; i < 10; ++i) others.push_back(full({100}, 9.0));  // would take the memory over
  for (int i = 0; i < 4; ++i) EXPECT_EQ(values(step())[0], 6.0);
  EXPECT_EQ(step.stats().recorded, 4);
}

TEST_F(Capture, AnOptimizerThatIsReplacedIsTheOneThatSteps) {
  const Tensor w = ones({2}).requires_grad_();
  optim::SGD optimizer({w}, {.lr = 1.0});
  auto step = capture([&] {
    optimizer.zero_grad();
    (w * 1.0).sum().backward();
    optimizer.step();
  });
  for (int i = 0; i < 4; ++i) step();
  optimizer = optim::SGD({w}, {.lr = 10.0});
  step();
  EXPECT_EQ(values(w), Doubles({-13, -13}));
}

TEST_F(Capture, RaisesVersionsAsTheStepDoes) {
  const Tensor w = ones({2}).requires_grad_(), buffer = zeros({2});
  optim::SGD optimizer({w}, {.lr = 1.0});
  auto step = capture([&] {
    buffer.add_(1.0);
    (w * 1.0).sum().backward();
    optimizer.step();
  });
  for (int i = 0; i < 5; ++i) step();
  const Tensor y = exp(w) * buffer;
  step();
  EXPECT_THROW(y.sum().backward(), AutogradError) << "w was written since";
  EXPECT_EQ(values(buffer), Doubles({6, 6}));
}

TEST_F(Capture, ErrorsOfAReplayNameTheirLine) {
  const Tensor table = ones({4, 2});
  auto step = capture([&](const Tensor& index) { return index_select(table, 0, index); });
  for (int i = 0; i < 4; ++i) step(tensor({0, 1}));
  const std::string text = message_of<IndexError>([&] { step(tensor({0, 7})); });
  EXPECT_NE(text.find("[index_select]"), std::string::npos) << text;
  EXPECT_NE(text.find("capture_test.cpp"), std::string::npos) << text;
  EXPECT_EQ(values(step(tensor({2, 3}))), Doubles({1, 1, 1, 1})) << "and the next replay works";
}

TEST_F(Capture, NamesOpsThatCannotBeReplayed) {
  const Tensor w = ones({2}).requires_grad_();
  optim::SGD optimizer({w}, {});
  const auto refusal = [](auto step) {
    auto wrapped = capture(step);
    return message_of<NotImplementedError>([&] {
      for (int i = 0; i < 12; ++i) wrapped();
    });
  };
  EXPECT_NE(refusal([&] { return w.sum().item<double>() > 0 ? w * 1.0 : w * 2.0; }).find("item at"), std::string::npos);
  EXPECT_NE(refusal([&] { return nonzero(w); }).find("a shape follows from values"), std::string::npos);
  EXPECT_NE(refusal([&] { optimizer.set_lr(1); }).find("set_lr"), std::string::npos);
  EXPECT_NE(refusal([&] { return randperm(5); }).find("on the host"), std::string::npos);
  EXPECT_NE(refusal([&] { return tensor({w.detach().data<float>()[0]}); }).find("on the host"), std::string::npos);
  int calls = 0;
  EXPECT_NE(refusal([&] { return w.detach() * ++calls; }).find("mul at"), std::string::npos);
  EXPECT_NE(refusal([&] { return ++calls % 2 == 0 ? exp(w) : tanh(w); }).find("where it was"), std::string::npos);
  Tensor state = zeros({2});
  EXPECT_NE(refusal([&] { return state = state + 1.0; }).find("add at"), std::string::npos);
  EXPECT_EQ(values(state), Doubles({7, 7})) << "each call has run once";
}

TEST_F(Capture, RefusesInputsThatItWouldNotServe) {
  auto step = capture([](const Tensor& x) { return x * 2.0; });
  EXPECT_THROW(step(ones({2}).requires_grad_()), ValueError);
  EXPECT_THROW(step(Tensor()), ValueError);
  EXPECT_THROW(step(ones({2}, Device("meta"))), ValueError);
}

TEST_F(Capture, AnErrorInTheStepLeavesItAsItWas) {
  bool fails = false;
  auto step = capture([&](const Tensor& x) {
    if (fails) throw std::runtime_error("of the program's own");
    return x * 2.0;
  });
  step(ones({2}));
  step(ones({2}));
  fails = true;
  EXPECT_THROW(step(ones({2})), std::runtime_error);
  fails = false;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(values(step(full({2}, i))), Doubles({2.0 * i, 2.0 * i}));
}

TEST_F(Capture, ObserversSeeTheKernelsOfAReplay) {
  struct Count : KernelObserver {
    int kernels = 0;
    void after(const KernelCall& call) override { kernels += std::string(call.op) == "exp" ? 1 : 0; }
  } count;
  auto step = capture([](const Tensor& x) { return exp(x) + 1.0; });
  for (int i = 0; i < 4; ++i) step(ones({2}));
  const ObserverGuard guard(count);
  step(ones({2}));
  EXPECT_EQ(count.kernels, 1);
}

/// A training in which `change(i)` is called before step i, eagerly and captured; both must agree.
struct Changed {
  nn::Sequential net{nn::Linear(8, 6), nn::BatchNorm1d(6), nn::ReLU(), nn::Dropout(0.5), nn::Linear(6, 4)};
  optim::SGD optimizer{net.parameters(), {.lr = 0.1, .momentum = 0.9}};
  std::vector<Tensor> kept;
  HookHandle hook;

  template <class Change>
  static Doubles run(bool is_captured, const Change& change, CaptureStats* stats = nullptr) {
    manual_seed(3);
    Changed c;
    auto eager = [&](const Tensor& x, const Tensor& y) {
      c.optimizer.zero_grad();
      const Tensor loss = cross_entropy(c.net(x), y);
      loss.backward();
      c.optimizer.step();
      return loss;
    };
    auto captured = capture(eager);
    Doubles all;
    for (int i = 0; i < 24; ++i) {
      change(c, i);
      const Tensor x = batch(6, i), y = targets(6, i);
      const Tensor loss = is_captured ? captured(x, y) : eager(x, y);
      all.push_back(loss.item<double>());
    }
    if (stats != nullptr) *stats = captured.stats();
    for (const auto& [name, t] : c.net.state_dict()) {
      for (const double v : values(t)) all.push_back(v);
    }
    return all;
  }
};

TEST_F(Capture, NoticesChangesOfModesHooksLayersAndGradients) {
  using Change = void (*)(Changed & c, int i);
  const Change changes[] = {
      [](Changed& c, int i) { c.net.train(i % 12 < 6); },
      [](Changed& c, int i) { c.net[3].as<nn::Dropout>().train(i < 12); },
      [](Changed& c, int i) { c.net[1].as<nn::BatchNorm1d>().train(i < 12); },
      [](Changed& c, int i) { c.net[0].as<nn::Linear>().requires_grad_(i < 8 || i > 15); },
      [](Changed& c, int i) { c.net[4].as<nn::Linear>().weight.requires_grad_(i >= 8); },
      [](Changed& c, int i) {
        if (i == 8) c.hook = c.net.register_forward_hook([](const Tensor& y) { return y * 2.0; });
        if (i == 16) c.hook.remove();
      },
      [](Changed& c, int i) {
        if (i == 8) c.hook = c.net[4].as<nn::Linear>().register_backward_hook([](const Tensor& g) { return g * 2.0; });
        if (i == 16) c.hook.remove();
      },
      [](Changed& c, int i) {
        if (i == 8) c.hook = c.net.parameters()[0].register_hook([](const Tensor& g) { return g * 0.0; });
        if (i == 16) c.hook.remove();
      },
      [](Changed& c, int i) {
        if (i == 8) c.net[3] = nn::Dropout(0.0);
      },
      [](Changed& c, int i) {
        if (i == 8) c.optimizer.set_option("weight_decay", 0.5, 0);
        if (i == 16) c.optimizer.set_option("momentum", 0.0, 0);
      },
  };
  for (const Change change : changes) {
    CaptureStats stats;
    EXPECT_EQ(Changed::run(false, change), Changed::run(true, change, &stats)) << "change " << &change - changes;
    EXPECT_GT(stats.replayed, 6) << "change " << &change - changes;
  }
}

TEST_F(Capture, ModesThatAreSetBackNeedNoNewRecording) {
  CaptureStats stats;
  Changed::run(
      true, [](Changed& c, int i) { c.net.train(i % 2 == 0); }, &stats);
  EXPECT_EQ(stats.recordings, 2);
  EXPECT_EQ(stats.eager, 5);
  Changed::run(
      true,
      [](Changed& c, int) {
        c.net.eval();
        nn::Linear(2, 2).eval();
        c.net.train();
        c.net.requires_grad_(false);
        c.net.requires_grad_(true);
      },
      &stats);
  EXPECT_EQ(stats.eager, 3);
}

TEST_F(Capture, HasRecordingsOfItsOwnForAutocastAndGradientModes) {
  const Tensor w = full({4, 4}, 1.0 / 3).requires_grad_();
  auto step = [&](const Tensor& x) { return matmul(x, w).exp().sum(); };
  auto captured_step = capture(step);
  for (int i = 0; i < 12; ++i) {
    const Tensor x = batch(4, i).narrow(1, 0, 4);
    const auto both = [&] { EXPECT_EQ(captured_step(x).item<double>(), step(x).item<double>()) << i; };
    if (i % 3 == 1) {
      const AutocastGuard autocast(bf16);
      both();
    } else if (i % 3 == 2) {
      const NoGradGuard unrecorded;
      both();
    } else {
      both();
    }
  }
  EXPECT_EQ(captured_step.stats().recordings, 3);
}

TEST_F(Capture, OfGradientsThatAddUpOverStepsIsReplayed) {
  const auto run = [](bool is_captured, CaptureStats* stats) {
    manual_seed(4);
    nn::Linear net(8, 4);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    auto eager = [&](const Tensor& x, const Tensor& y) {
      const Tensor loss = cross_entropy(net(x), y) / 3.0;
      loss.backward();
      return loss;
    };
    auto step = capture(eager);
    Doubles all;
    for (int i = 0; i < 30; ++i) {
      const Tensor x = batch(6, i), y = targets(6, i);
      const Tensor loss = is_captured ? step(x, y) : eager(x, y);
      all.push_back(loss.item<double>());
      if (i % 3 != 2) continue;
      for (const double v : values(net.weight.grad())) all.push_back(v);
      optimizer.step();
      optimizer.zero_grad();
    }
    *stats = step.stats();
    return all;
  };
  CaptureStats stats;
  const Doubles eager = run(false, &stats);
  EXPECT_EQ(run(true, &stats), eager);
  EXPECT_GT(stats.replayed, 18);
}

TEST_F(Capture, WarnsWhereRecordingsAreDroppedBeforeTheyAreOfUse) {
  const CollectedWarnings warnings;
  auto step = capture([](const Tensor& x) { return x.sum(); }, {.most_recordings = 4});
  for (int round = 0; round < 4; ++round) {
    for (int64_t n = 1; n <= 4; ++n) step(ones({n}));
  }
  EXPECT_TRUE(warnings.texts.empty());
  EXPECT_GT(step.stats().replayed, 0);
  for (int round = 0; round < 4; ++round) {
    for (int64_t n = 1; n <= 5; ++n) step(ones({n}));
  }
  ASSERT_EQ(warnings.texts.size(), 1U);
  EXPECT_NE(warnings.texts[0].find("more than 4"), std::string::npos) << warnings.texts[0];
  EXPECT_NE(warnings.texts[0].find("most_recordings"), std::string::npos);
}

TEST_F(Capture, KeepsTheRecordingsThatWereUsedLast) {
  auto step = capture([](const Tensor& x) { return x.sum(); }, {.most_recordings = 2});
  for (int round = 0; round < 3; ++round) {
    for (const int64_t n : {3, 4, 3, 4}) EXPECT_EQ(step(ones({n})).item<int>(), n);
  }
  EXPECT_EQ(step.stats().recordings, 2);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(ones({5})).item<int>(), 5);
  EXPECT_EQ(step.stats().recordings, 2);
}

}  // namespace
}  // namespace weft
