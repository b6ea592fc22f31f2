// Mixed precision: which op computes in which type, scopes, copies of parameters, backward.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>

#include <weft/hooks/checkpoint.hpp>
#include <weft/ops/record.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

// Whether some sample of one floating type gives results of the other in an autocast scope.
bool converts(const OpRecord& record, DType from, DType to) {
  SampleMaker make(from, Device());
  for (const Values& sample : record.samples(make)) {
    try {
      const std::vector<TensorMeta> plain = record.infer(sample);
      const AutocastGuard mixed(bf16);
      const std::vector<TensorMeta> results = record.infer(sample);
      for (size_t i = 0; i < results.size(); ++i) {
        if (plain[i].dtype == from && results[i].dtype == to) return true;
      }
    } catch (const Error&) {  // its shapes follow from values
    }
  }
  return false;
}

// The types are those of PyTorch's autocast for CUDA devices.
TEST(Autocast, EachOpComputesInTheTypeOfItsRecord) {
  for (const OpRecord& record : op_records()) {
    const bool is_lower = converts(record, f32, bf16), is_full = !is_lower && converts(record, bf16, f32);
    EXPECT_EQ(is_lower, record.facts.autocast == Autocast::lower) << record.name;
    EXPECT_EQ(is_full, record.facts.autocast == Autocast::full) << record.name;
  }
}

TEST(Autocast, ValuesEqualThoseOfConvertedOperands) {
  manual_seed(1);
  for (const OpRecord& record : op_records()) {
    const Autocast policy = record.facts.autocast;
    if (policy == Autocast::as_given) continue;
    const DType from = policy == Autocast::lower ? f32 : bf16, to = policy == Autocast::lower ? bf16 : f32;
    SampleMaker make(from, Device());
    for (const Values& sample : record.samples(make)) {
      Values converted = sample;
      for (Value& value : converted) {
        const auto convert = [&](Tensor& t) {
          if (t.defined() && t.dtype() == from) t = t.to(to);
        };
        if (auto* t = std::get_if<Tensor>(&value)) convert(*t);
        if (auto* list = std::get_if<std::vector<Tensor>>(&value)) std::ranges::for_each(*list, convert);
      }
      const Value expected = record.call(converted);
      const AutocastGuard mixed(bf16);
      const Value result = record.call(sample);
      if (const auto* t = std::get_if<Tensor>(&result)) {
        EXPECT_TRUE(equal(*t, std::get<Tensor>(expected)) || t->ne(*t).any().item<bool>()) << record.name;
        EXPECT_EQ(t->dtype(), std::get<Tensor>(expected).dtype()) << record.name;
      }
    }
  }
}

TEST(Autocast, DoublesIntegersAndTargetsStayAsTheyAre) {
  const AutocastGuard mixed(bf16);
  EXPECT_EQ(matmul(ones({2, 2}, f64), ones({2, 2}, f64)).dtype(), f64);
  EXPECT_EQ(matmul(ones({2, 2}, i64), ones({2, 2}, i64)).dtype(), i64);
  const Tensor out = empty({2, 2});
  matmul_out(out, ones({2, 2}), ones({2, 2}));
  EXPECT_EQ(out.dtype(), f32);
  const Tensor x = ones({2}, bf16);
  exp_(x);
  EXPECT_EQ(x.dtype(), bf16);
}

TEST(Autocast, ScopesNestAndEndWithExceptions) {
  EXPECT_EQ(autocast_dtype(), std::nullopt);
  {
    const AutocastGuard mixed(bf16);
    EXPECT_EQ(autocast_dtype(), bf16);
    {
      const AutocastGuard off(AutocastOptions{.enabled = false});
      EXPECT_EQ(autocast_dtype(), std::nullopt);
      EXPECT_EQ(mm(ones({2, 2}), ones({2, 2})).dtype(), f32);
    }
    try {
      const AutocastGuard half(f16);
      EXPECT_EQ(mm(ones({2, 2}), ones({2, 2})).dtype(), f16);
      mm(ones({2, 2}), ones({3, 2}));
      FAIL();
    } catch (const ShapeError&) {
    }
    EXPECT_EQ(autocast_dtype(), bf16);
    EXPECT_THROW(AutocastGuard wrong(f64), DTypeError);
    EXPECT_EQ(autocast_dtype(), bf16);
    std::thread([] { EXPECT_EQ(autocast_dtype(), std::nullopt); }).join();
  }
  EXPECT_EQ(autocast_dtype(), std::nullopt);
}

TEST(Autocast, AKindOfDeviceMayHaveItAlone) {
  const AutocastGuard mixed(AutocastOptions{.device_type = DeviceType::meta});
  EXPECT_EQ(mm(ones({2, 2}), ones({2, 2})).dtype(), f32);
  EXPECT_EQ(mm(ones({2, 2}, {f32, "meta"}), ones({2, 2}, {f32, "meta"})).dtype(), bf16);
  EXPECT_EQ(autocast_dtype(), std::nullopt);
  EXPECT_EQ(autocast_dtype(DeviceType::meta), bf16);
}

struct Count {
  std::map<std::string, int> kernels;
  static Count of(const Callback<void()>& run) {
    Profiler profiler;
    profiler.start();
    run();
    profiler.stop();
    Count count;
    for (const ProfiledEvent& event : profiler.events()) ++count.kernels[event.op];
    return count;
  }
};

TEST(Autocast, AParameterIsConvertedOnceInAScope) {
  const Tensor w = randn({4, 4}).requires_grad_(), x = randn({3, 4}, bf16);
  const Count count = Count::of([&] {
    const AutocastGuard mixed(bf16);
    for (int i = 0; i < 5; ++i) linear(x, w);
  });
  EXPECT_EQ(count.kernels.at("to"), 1);
  const Count without = Count::of([&] {
    const AutocastGuard mixed(AutocastOptions{.cache = false});
    for (int i = 0; i < 5; ++i) linear(x, w);
  });
  EXPECT_EQ(without.kernels.at("to"), 5);
}

TEST(Autocast, AParameterThatWasWrittenIsConvertedAnew) {
  const Tensor w = ones({2, 2}).requires_grad_(), x = ones({1, 2}, bf16);
  const AutocastGuard mixed(bf16);
  EXPECT_EQ(linear(x, w).sum().item<float>(), 4);
  {
    const NoGradGuard unrecorded;
    w.mul_(2);
  }
  EXPECT_EQ(linear(x, w).sum().item<float>(), 8);
}

TEST(Autocast, ACopyMadeWithoutRecordingTakesNoGradientAway) {
  const Tensor w = ones({2, 2}).requires_grad_(), x = ones({1, 2});
  const AutocastGuard mixed(bf16);
  {
    const NoGradGuard unrecorded;
    linear(x, w);
  }
  linear(x, w).sum().backward();
  ASSERT_TRUE(w.grad().defined());
  EXPECT_EQ(w.grad().dtype(), f32);
  EXPECT_EQ(w.grad().sum().item<float>(), 4);
}

TEST(Autocast, NoCopyOutlivesTheOutermostScope) {
  const Tensor w = randn({64, 64}).requires_grad_(), x = randn({3, 64});
  const int64_t before = detail::live_tensors();
  {
    const AutocastGuard mixed(bf16);
    {
      const AutocastGuard inner(bf16);
      linear(x, w);
    }
    EXPECT_GT(detail::live_tensors(), before);
  }
  EXPECT_EQ(detail::live_tensors(), before);
}

struct Net : nn::Layer<Net> {
  nn::Linear a{6, 32}, b{32, 3};
  nn::LayerNorm norm{32};
  Net() { WEFT_REGISTER(a, b, norm); }
  Tensor forward(const Tensor& x) const { return b(norm(gelu(a(x)))); }
};

std::vector<Tensor> gradients(const Net& net, const Callback<void()>& run) {
  for (const Tensor& p : net.parameters()) p.set_grad({});
  run();
  std::vector<Tensor> out;
  for (const Tensor& p : net.parameters()) out.push_back(p.grad());
  return out;
}

void expect_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(equal(a[i], b[i])) << i;
}

TEST(Autocast, BackwardIsTheSameInsideAndOutsideOfTheScope) {
  manual_seed(3);
  const Net net;
  const Tensor x = randn({8, 6}), y = randint(0, 3, {8});
  const auto outside = gradients(net, [&] {
    Tensor loss;
    {
      const AutocastGuard mixed(bf16);
      loss = cross_entropy(net(x), y);
      EXPECT_EQ(loss.dtype(), f32);
    }
    loss.backward();
  });
  const auto inside = gradients(net, [&] {
    const AutocastGuard mixed(bf16);
    cross_entropy(net(x), y).backward();
  });
  expect_same(outside, inside);
  for (const Tensor& g : outside) EXPECT_EQ(g.dtype(), f32);
}

TEST(Autocast, ACheckpointComputesAgainInTheTypesOfItsFirstRun) {
  manual_seed(3);
  const Net net;
  const Tensor x = randn({8, 6}), y = randint(0, 3, {8});
  const auto run = [&](bool checkpointed) {
    return gradients(net, [&] {
      Tensor loss;
      {
        const AutocastGuard mixed(bf16);
        const Tensor scores = checkpointed ? checkpoint([&](const Tensor& in) { return net(in); }, x) : net(x);
        loss = cross_entropy(scores, y);
      }
      loss.backward();
    });
  };
  expect_same(run(false), run(true));
}

TEST(Autocast, SecondDerivativesGoThroughConversions) {
  const Tensor x = tensor({{0.5, -1.0}}).requires_grad_(), w = tensor({{1.0, 2.0}, {-0.5, 0.25}}).requires_grad_();
  const AutocastGuard mixed(bf16);
  const Tensor y = tanh(linear(x, w)).sum();
  const Tensor g = grad({y}, {x}, {}, {.create_graph = true})[0];
  (g * g).sum().backward();
  EXPECT_TRUE(w.grad().defined());
  EXPECT_TRUE(isfinite(w.grad()).all().item<bool>());
}

TEST(Autocast, AnOpComputesItsStepsInOneType) {
  // With dropout attention is made of products and a softmax, which must not be rounded in between.
  manual_seed(5);
  const Tensor q = randn({1, 2, 4, 8}), k = randn({1, 2, 4, 8}), v = randn({1, 2, 4, 8});
  manual_seed(9);
  const Tensor expected =
      scaled_dot_product_attention(q.to(bf16), k.to(bf16), v.to(bf16), {.dropout_p = 0.25, .causal = true});
  manual_seed(9);
  const AutocastGuard mixed(bf16);
  EXPECT_TRUE(equal(scaled_dot_product_attention(q, k, v, {.dropout_p = 0.25, .causal = true}), expected));
}

TEST(Autocast, ErrorsNameTheOpThatWasCalled) {
  const AutocastGuard mixed(bf16);
  try {
    matmul(ones({2, 3}), ones({2, 3}));
    FAIL();
  } catch (const ShapeError& e) {
    EXPECT_NE(std::string(e.what()).find("[matmul]"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("autocast_test.cpp"), std::string::npos) << e.what();
  }
  const Tensor y = exp(ones({2}, bf16).requires_grad_());
  EXPECT_EQ(y.dtype(), f32);
}

TEST(Autocast, TrainingReachesTheLossOfFullPrecision) {
  const auto train = [](bool mixed) {
    manual_seed(11);
    Net net;
    optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
    const Tensor x = randn({64, 6}), y = (x.sum({1}) * 0.7 + 1).floor().clamp(0, 2).to(i64);
    double last = 0;
    for (int i = 0; i < 120; ++i) {
      optimizer.zero_grad();
      Tensor loss;
      {
        const AutocastGuard scope(AutocastOptions{.enabled = mixed});
        loss = cross_entropy(net(x), y);
      }
      loss.backward();
      optimizer.step();
      last = loss.item<double>();
    }
    return last;
  };
  const double full = train(false), mixed = train(true);
  EXPECT_LT(full, 0.2);
  EXPECT_NEAR(mixed, full, 0.02 * full + 0.005);
  EXPECT_NE(mixed, full);
}

}  // namespace
}  // namespace weft
