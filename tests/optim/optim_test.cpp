#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/autograd/mode.hpp>
#include <weft/nn/layers.hpp>
#include <weft/optim/optim.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/loss.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

namespace weft {
namespace {

using optim::AdamOptions;
using optim::SGDOptions;
using Values = std::vector<double>;

Values gradient_at(const Values& p, int step) {
  Values g(p.size());
  for (size_t i = 0; i < p.size(); ++i) g[i] = std::sin(3.0 * static_cast<double>(i) + step) + 0.3 * p[i];
  return g;
}

// The definitions, in double precision.
struct AdamReference {
  AdamOptions o;
  bool decoupled;
  Values m, v;
  void operator()(Values& p, const Values& gradient, int step) {
    m.resize(p.size()), v.resize(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      const double g = gradient[i] + (decoupled ? 0 : o.weight_decay * p[i]);
      if (decoupled) p[i] -= o.lr * o.weight_decay * p[i];
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
      const double mean = m[i] / (1 - std::pow(o.beta1, step)), square = v[i] / (1 - std::pow(o.beta2, step));
      p[i] -= o.lr * mean / (std::sqrt(square) + o.eps);
    }
  }
};

struct SGDReference {
  SGDOptions o;
  Values b;
  void operator()(Values& p, const Values& gradient, int step) {
    for (size_t i = 0; i < p.size(); ++i) {
      double g = gradient[i] + o.weight_decay * p[i];
      if (o.momentum != 0) {
        b.resize(p.size());
        b[i] = step == 1 ? g : o.momentum * b[i] + (1 - o.dampening) * g;
        g = o.nesterov ? g + o.momentum * b[i] : b[i];
      }
      p[i] -= o.lr * g;
    }
  }
};

enum class Form { plain, transposed, half };

Tensor parameter_of(const Values& values, DType dtype, Form form) {
  Tensor t = tensor(std::span<const double>(values), {2, static_cast<int64_t>(values.size()) / 2}, dtype);
  if (form == Form::transposed) t = t.t().contiguous().t();
  return t.requires_grad_();
}

using Reference = std::function<void(Values&, const Values&, int)>;

void follow(optim::Optimizer& optimizer, const Tensor& p, Values values, Reference reference, double tolerance) {
  for (int step = 1; step <= 12; ++step) {
    const Values gradient = gradient_at(p.to_vector<double>(), step);
    const Values wanted = gradient_at(values, step);
    p.set_grad(tensor(std::span<const double>(gradient), p.shape(), p.dtype()));
    optimizer.step();
    reference(values, wanted, step);
    const Values now = p.to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(now[i], values[i], tolerance) << "step " << step;
  }
}

const Values start = {0.5, -1.25, 2, 0.125, -0.75, 1.5, 0.0625, -3};

struct Case {
  DType dtype;
  Form form;
  double tolerance;
};
const Case cases[] = {{f32, Form::plain, 3e-6},
                      {f64, Form::plain, 1e-13},
                      {f32, Form::transposed, 3e-6},
                      {f64, Form::transposed, 1e-13},
                      {f16, Form::half, 2e-2}};

TEST(AdamW, FollowsTheDefinition) {
  for (const Case& c : cases) {
    const Tensor p = parameter_of(start, c.dtype, c.form);
    optim::AdamW optimizer({p}, {.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1});
    follow(optimizer, p, start, AdamReference{{0.02, 0.8, 0.95, 1e-6, 0.1}, true, {}, {}}, c.tolerance);
  }
}

TEST(Adam, FollowsTheDefinition) {
  for (const Case& c : cases) {
    const Tensor p = parameter_of(start, c.dtype, c.form);
    optim::Adam optimizer({p}, {.lr = 0.02, .weight_decay = 0.1});
    follow(optimizer, p, start, AdamReference{{.lr = 0.02, .weight_decay = 0.1}, false, {}, {}}, c.tolerance);
  }
}

TEST(SGD, FollowsTheDefinition) {
  const SGDOptions variants[] = {{.lr = 0.1},
                                 {.lr = 0.1, .weight_decay = 0.2},
                                 {.lr = 0.05, .momentum = 0.9},
                                 {.lr = 0.05, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1},
                                 {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}};
  for (const SGDOptions& options : variants) {
    for (const Case& c : cases) {
      const Tensor p = parameter_of(start, c.dtype, c.form);
      optim::SGD optimizer({p}, options);
      follow(optimizer, p, start, SGDReference{options, {}}, c.tolerance);
    }
  }
}

TEST(Optimizer, ManyParametersSomeWithoutGradients) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 7; ++i) parameters.push_back(full({4}, 1.0, {f32, {}, true}));
  optim::AdamW together(parameters, {.lr = 0.1, .weight_decay = 0});
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 7; ++i) parameters[i].set_grad(step == 1 && i % 3 == 0 ? Tensor() : full({4}, 0.5 + i));
    together.step();
  }
  for (int i = 0; i < 7; ++i) {
    AdamReference reference{{.lr = 0.1}, true, {}, {}};
    Values p(4, 1.0);
    const int steps = i % 3 == 0 ? 2 : 3;
    for (int step = 1; step <= steps; ++step) reference(p, Values(4, 0.5 + i), step);
    EXPECT_NEAR(parameters[i].to_vector<double>()[0], p[0], 1e-5) << i;
  }
}

TEST(Optimizer, StepRaisesVersionsAndRecordsNothing) {
  const Tensor p = ones(3).requires_grad_();
  const Tensor saved = (p * p).sum();
  p.set_grad(ones(3));
  optim::AdamW optimizer({p});
  const uint32_t before = p.version();
  optimizer.step();
  EXPECT_EQ(p.version(), before + 1);
  EXPECT_TRUE(p.is_leaf());
  EXPECT_TRUE(p.requires_grad());
  try {
    saved.backward();
    FAIL() << "the old graph ran on";
  } catch (const AutogradError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("AdamW"));
  }
}

TEST(Optimizer, ZeroGradSetsToNone) {
  const Tensor p = ones(3).requires_grad_();
  (p * 2).sum().backward();
  optim::SGD optimizer({p});
  optimizer.zero_grad();
  EXPECT_FALSE(p.grad().defined());
  optimizer.step();
  EXPECT_EQ(p.to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

TEST(Optimizer, GroupsHaveTheirOwnRates) {
  const Tensor a = ones(2).requires_grad_(), b = ones(2).requires_grad_();
  optim::SGD optimizer({a}, {.lr = 0.1});
  optimizer.add_group({b}, {.lr = 0.5});
  a.set_grad(ones(2));
  b.set_grad(ones(2));
  optimizer.step();
  EXPECT_FLOAT_EQ(a.to_vector<float>()[0], 0.9f);
  EXPECT_FLOAT_EQ(b.to_vector<float>()[0], 0.5f);
  optimizer.set_lr(0.25, 1);
  EXPECT_EQ(optimizer.lr(), 0.1);
  EXPECT_EQ(optimizer.groups()[1].lr(), 0.25);
  EXPECT_EQ(optimizer.parameters().size(), 2u);
}

TEST(Optimizer, WrongArgumentsAreRefused) {
  const Tensor p = ones(2).requires_grad_();
  EXPECT_THROW(optim::SGD({p}, {.lr = -1}), ValueError);
  EXPECT_THROW(optim::SGD({p}, {.nesterov = true}), ValueError);
  EXPECT_THROW(optim::SGD({p}, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), ValueError);
  EXPECT_THROW(optim::AdamW({p}, {.beta1 = 1}), ValueError);
  EXPECT_THROW(optim::AdamW({p}, {.lr = NAN}), ValueError);
  EXPECT_THROW(optim::AdamW({p, p}), ValueError);
  EXPECT_THROW(optim::AdamW({p * 2}), ValueError);
  EXPECT_THROW(optim::AdamW({ones(2, i64)}), ValueError);
  EXPECT_THROW(optim::AdamW({Tensor()}), Error);
  optim::AdamW optimizer({p});
  EXPECT_THROW(optimizer.add_group({p}), ValueError);
  EXPECT_THROW(optimizer.set_lr(0.1, 5), IndexError);
  EXPECT_THROW(optimizer.set_lr(-0.1), ValueError);
  EXPECT_EQ(optimizer.parameters().size(), 1u);
}

TEST(Optimizer, FollowsAModuleThatMoves) {
  nn::Linear layer(3, 2);
  optim::AdamW optimizer(layer.parameters(), {.lr = 0.01});
  const auto one_step = [&](DType dtype) {
    optimizer.zero_grad();
    layer(ones({4, 3}, dtype)).sum().backward();
    optimizer.step();
  };
  one_step(f32);
  const double before = layer.weight.to_vector<double>()[0];
  layer.to(f64);
  one_step(f64);
  EXPECT_NEAR(layer.weight.to_vector<double>()[0], before * (1 - 1e-4) - 0.01, 1e-6);
  EXPECT_EQ(optimizer.state_dict().at("0.exp_avg").dtype(), f64);
  EXPECT_EQ(optimizer.state_dict().at("0.step").item<int64_t>(), 2);
}

template <class Make>
void expect_bit_equal_continuation(Make make) {
  const auto run = [&](bool interrupted) {
    const Tensor a = tensor({1.0, -2.0, 3.0}).requires_grad_(), b = tensor({0.5}).requires_grad_();
    auto optimizer = make(std::vector<Tensor>{a, b});
    for (int step = 0; step < 6; ++step) {
      if (interrupted && step == 3) {
        const auto state = optimizer.state_dict();
        auto fresh = make(std::vector<Tensor>{a, b});
        fresh.load_state_dict(state);
        optimizer = std::move(fresh);
      }
      a.set_grad(sin(a.detach() + static_cast<double>(step)));
      if (step > 0) b.set_grad(cos(b.detach()));
      optimizer.step();
    }
    std::vector<float> out = a.to_vector<float>();
    out.push_back(b.to_vector<float>()[0]);
    return out;
  };
  EXPECT_EQ(run(false), run(true));
}

TEST(Optimizer, StateRoundTripContinuesBitForBit) {
  expect_bit_equal_continuation([](auto p) { return optim::AdamW(p, {.lr = 0.03}); });
  expect_bit_equal_continuation([](auto p) { return optim::Adam(p, {.lr = 0.03}); });
  expect_bit_equal_continuation([](auto p) { return optim::SGD(p, {.lr = 0.03, .momentum = 0.9}); });
  expect_bit_equal_continuation([](auto p) { return optim::SGD(p, {.lr = 0.03}); });
}

TEST(Optimizer, StateThatDoesNotFitIsRefused) {
  const Tensor p = ones(3).requires_grad_();
  p.set_grad(ones(3));
  optim::AdamW optimizer({p}, {.lr = 0.25});
  optimizer.step();
  auto state = optimizer.state_dict();
  EXPECT_EQ(state.size(), 11u);  // seven options, how many parameters, step and two moments
  auto wrong = state;
  wrong["0.exp_avg"] = ones(4);
  EXPECT_THROW(optimizer.load_state_dict(wrong), ShapeError);
  wrong = state;
  wrong.erase("0.exp_avg_sq");
  EXPECT_THROW(optimizer.load_state_dict(wrong), ValueError);
  wrong = state;
  wrong["7.step"] = tensor(1);
  EXPECT_THROW(optimizer.load_state_dict(wrong), ValueError);
  EXPECT_THROW(optimizer.load_state_dict({}), ValueError);
  EXPECT_EQ(optimizer.lr(), 0.25);
  optimizer.load_state_dict(state);
}

TEST(ClipGradNorm, OfHalfPrecisionIsTakenInFloat32) {
  for (const DType dtype : {f16, bf16}) {
    const Tensor first = zeros({2}, dtype).requires_grad_(), second = zeros({2}).requires_grad_();
    first.set_grad(full({2}, 60000.0, dtype)), second.set_grad(ones({2}));
    const std::vector<Tensor> both = {first, second};
    const Tensor norm = optim::clip_grad_norm_(both, 1.0);
    EXPECT_EQ(norm.dtype(), f32);
    EXPECT_NEAR(norm.item<double>() / (60000 * std::sqrt(2)), 1, 3e-3);
    EXPECT_NEAR(first.grad().to_vector<double>()[0], std::sqrt(0.5), 3e-3) << "an infinite norm makes zeros";
  }
}

TEST(ClipGradNorm, ScalesToTheBound) {
  const Tensor a = zeros(2).requires_grad_(), b = zeros(1).requires_grad_(), c = zeros(1).requires_grad_();
  a.set_grad(tensor({3.0, 0.0}));
  b.set_grad(tensor({4.0}));
  const std::vector<Tensor> all = {a, b, c};
  EXPECT_FLOAT_EQ(optim::clip_grad_norm_(all, 10).item<float>(), 5);
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{3, 0}));
  EXPECT_FLOAT_EQ(optim::clip_grad_norm_(all, 1).item<float>(), 5);
  EXPECT_NEAR(a.grad().to_vector<float>()[0], 0.6, 1e-6);
  EXPECT_NEAR(b.grad().to_vector<float>()[0], 0.8, 1e-6);
  EXPECT_FALSE(c.grad().defined());
  EXPECT_EQ(optim::clip_grad_norm_({}, 1).item<float>(), 0);
  EXPECT_THROW(optim::clip_grad_norm_(all, -1), ValueError);
}

TEST(ClipGradNorm, SupportsOtherNorms) {
  const auto clipped = [](double order, double max_norm) {
    const Tensor a = zeros(2).requires_grad_(), b = zeros(1).requires_grad_();
    a.set_grad(tensor({3.0, -4.0}));
    b.set_grad(tensor({-5.0}));
    const std::vector<Tensor> all = {a, b};
    const double total = optim::clip_grad_norm_(all, max_norm, {.norm_type = order}).item<double>();
    return Values{total, a.grad().to_vector<double>()[0], b.grad().to_vector<double>()[0]};
  };
  const auto near = [](double v) { return testing::DoubleNear(v, 1e-5); };
  EXPECT_THAT(clipped(1, 6), testing::ElementsAre(near(12), near(1.5), near(-2.5)));
  EXPECT_THAT(clipped(INFINITY, 1), testing::ElementsAre(near(5), near(0.6), near(-1)));
  EXPECT_THAT(clipped(3, 100), testing::ElementsAre(near(6), near(3), near(-5)));
  EXPECT_THROW(clipped(0, 1), ValueError);
  EXPECT_THROW(clipped(NAN, 1), ValueError);
}

TEST(ClipGradNorm, ANormThatIsNotFiniteIsAnErrorWhereAsked) {
  const Tensor a = zeros(2).requires_grad_(), b = zeros(1).requires_grad_();
  a.set_grad(tensor({3.0, 4.0}));
  b.set_grad(tensor({double{INFINITY}}));
  const std::vector<Tensor> all = {a, b};
  try {
    (void)optim::clip_grad_norm_(all, 1, {.error_if_nonfinite = true});
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_THAT(e.what(),
                testing::HasSubstr("the norm of the gradients is inf\n  the first: inf in that of parameter 1"));
  }
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{3, 4}));
  EXPECT_FALSE(std::isfinite(optim::clip_grad_norm_(all, 1).item<double>()));
}

TEST(ClipGradNorm, AParameterThatIsGivenTwiceCountsOnce) {
  const Tensor p = zeros(2).requires_grad_(), other = zeros(1).requires_grad_();
  p.set_grad(tensor({3.0, 4.0}));
  other.set_grad(tensor({12.0}));
  const std::vector<Tensor> all = {p, other, p};
  EXPECT_FLOAT_EQ(optim::total_grad_norm(all).item<float>(), 13);
  EXPECT_FLOAT_EQ(optim::clip_grad_norm_(all, 1).item<float>(), 13);
  EXPECT_NEAR(p.grad().to_vector<float>()[0], 3.0 / 13, 1e-6);
  EXPECT_NEAR(other.grad().to_vector<float>()[0], 12.0 / 13, 1e-6);
}

TEST(ClipGradNorm, SquaresBeyondTheDtypeAreComputedWithScaling) {
  const auto clipped = [](DType dtype, double size, double max_norm, double order) {
    const Tensor p = zeros(2, dtype).requires_grad_();
    p.set_grad(tensor({3 * size, -4 * size}, dtype));
    const double total = optim::clip_grad_norm_(std::vector{p}, max_norm, {.norm_type = order}).item<double>();
    const Values g = p.grad().to_vector<double>();
    return Values{total / size, g[0] / max_norm, g[1] / max_norm};
  };
  const auto near = [](double v) { return testing::DoubleNear(v, 0.01); };
  for (const auto& [dtype, size] : std::vector<std::pair<DType, double>>{{f32, 1e19},
                                                                         {f32, 1e-30},
                                                                         {f32, 5e37},
                                                                         {bf16, 1e19},
                                                                         {bf16, 1e-30},
                                                                         {f16, 1e4},
                                                                         {f64, 1e200},
                                                                         {f64, 1e-200}}) {
    const double max_norm = size < 1 ? size * 0.5 : 1e-3;
    // The +1e-6 in the factor rules where gradients are small.
    if (size < 1) {
      EXPECT_NEAR(clipped(dtype, size, max_norm, 2)[0], 5, 0.05) << name(dtype) << ' ' << size;
      continue;
    }
    EXPECT_THAT(clipped(dtype, size, max_norm, 2), testing::ElementsAre(near(5), near(0.6), near(-0.8)))
        << name(dtype) << ' ' << size;
    EXPECT_THAT(clipped(dtype, size, max_norm, 3)[0], near(std::cbrt(91.0))) << name(dtype) << ' ' << size;
    EXPECT_THAT(clipped(dtype, size, max_norm, -1)[0], near(12.0 / 7)) << name(dtype) << ' ' << size;
  }
}

TEST(ClipGradNorm, ANormBeyondTheDtypeOfFiniteGradientsClipsThem) {
  for (const DType dtype : {f32, f64}) {
    const double most = dtype == f32 ? 3e38 : 1.5e308;
    const Tensor p = zeros(4, dtype).requires_grad_();
    p.set_grad(full({4}, most, dtype));
    EXPECT_TRUE(std::isinf(optim::clip_grad_norm_(std::vector{p}, 1).item<double>()));
    EXPECT_THAT(p.grad().to_vector<double>(), testing::Each(testing::DoubleNear(0.5, 1e-6)));
  }
}

TEST(ClipGradNorm, GradientsWhoseElementsShareMemoryAreScaledOnce) {
  const Tensor p = zeros(4).requires_grad_(), a = zeros(2).requires_grad_(), b = zeros(2).requires_grad_();
  p.set_grad(tensor({2.0}).expand({4}));
  EXPECT_FLOAT_EQ(optim::clip_grad_norm_(std::vector{p}, 1).item<float>(), 4);
  EXPECT_THAT(p.grad().to_vector<float>(), testing::Each(testing::FloatNear(0.5, 1e-6)));
  p.set_grad(tensor({2.0}).expand({4}));
  optim::clip_grad_value_(std::vector{p}, 1);
  EXPECT_THAT(p.grad().to_vector<float>(), testing::Each(1.0f));
  const Tensor both = tensor({3.0, 4.0});
  a.set_grad(both), b.set_grad(both);
  EXPECT_FLOAT_EQ(optim::clip_grad_norm_(std::vector{a, b}, 1).item<float>(), static_cast<float>(std::sqrt(50.0)));
  EXPECT_FLOAT_EQ(a.grad().to_vector<float>()[0], static_cast<float>(3 / std::sqrt(50.0)));
  EXPECT_FLOAT_EQ(b.grad().to_vector<float>()[0], static_cast<float>(3 / std::sqrt(50.0)));
  const Tensor flat = tensor({1.0, 2.0, 3.0, 4.0});
  a.set_grad(flat.narrow(0, 0, 2)), b.set_grad(flat.narrow(0, 2, 2));
  optim::clip_grad_norm_(std::vector{a, b}, 1);
  EXPECT_NEAR(norm(flat).item<double>(), 1, 1e-5) << "parts of one buffer stay in it";
}

TEST(ClipGradNorm, OfComplexGradientsTheirSizes) {
  for (const auto& [dtype, size] : {std::pair{c64, 1e19}, {c128, 1e200}, {c64, 1.0}}) {
    const Tensor p = zeros({2}, dtype).requires_grad_();
    p.set_grad(complex(tensor({3.0, 0.0}, f64), tensor({4.0, 12.0}, f64)).mul(size).to(dtype));
    EXPECT_NEAR(optim::clip_grad_norm_(std::vector{p}, 1).item<double>() / size, 13, 1e-5);
    const Values imaginary = imag(p.grad()).to_vector<double>();
    EXPECT_NEAR(imaginary[0], 4.0 / 13, 1e-6);
    EXPECT_NEAR(imaginary[1], 12.0 / 13, 1e-6);
  }
}

TEST(ClipGradNorm, InTwoCalls) {
  const Tensor a = zeros(2).requires_grad_(), b = zeros(1, f64).requires_grad_();
  a.set_grad(tensor({3e19, 0.0}));
  b.set_grad(tensor({4e19}, f64));
  const std::vector<Tensor> gradients = {a.grad(), b.grad()};
  const Tensor total = optim::total_norm(gradients);
  EXPECT_EQ(total.dtype(), f64);
  EXPECT_NEAR(total.item<double>(), 5e19, 1e13);
  optim::clip_grads_with_norm_(std::vector{a, b, a}, 1, total);
  EXPECT_NEAR(a.grad().to_vector<float>()[0], 0.6, 1e-6);
  EXPECT_NEAR(b.grad().to_vector<double>()[0], 0.8, 1e-6);
  EXPECT_EQ(optim::total_norm(gradients, 0).item<double>(), 2) << "the number of elements that are not 0";
  EXPECT_EQ(optim::total_norm({}).item<double>(), 0);
  EXPECT_THROW(optim::total_norm(gradients, NAN), ValueError);
  EXPECT_THROW(optim::total_norm(std::vector{tensor({double{INFINITY}})}, 2, true), ValueError);
  EXPECT_THROW(optim::clip_grads_with_norm_(std::vector{a}, -1, total), ValueError);
  EXPECT_THROW(optim::clip_grads_with_norm_(std::vector{a}, 1, ones({2})), ValueError);
}

TEST(ClipGradValue, ComplexGradientsAreRefusedBeforeAnyIsLimited) {
  const Tensor a = zeros(1).requires_grad_(), b = zeros(1, c64).requires_grad_();
  a.set_grad(tensor({3.0}));
  b.set_grad(ones({1}, c64));
  EXPECT_THROW(optim::clip_grad_value_(std::vector{a, b}, 1), DTypeError);
  EXPECT_EQ(a.grad().item<float>(), 3);
}

TEST(ClipGradValue, LimitsEveryElement) {
  const Tensor a = zeros(4).requires_grad_(), b = zeros(1).requires_grad_();
  a.set_grad(tensor({3.0, -4.0, 0.25, double{NAN}}));
  const std::vector<Tensor> all = {a, b};
  optim::clip_grad_value_(all, 0.5);
  const std::vector<float> g = a.grad().to_vector<float>();
  EXPECT_EQ(std::vector<float>(g.begin(), g.begin() + 3), (std::vector<float>{0.5, -0.5, 0.25}));
  EXPECT_TRUE(std::isnan(g[3]));
  EXPECT_FALSE(b.grad().defined());
  EXPECT_THROW(optim::clip_grad_value_(all, -1), ValueError);
  EXPECT_THROW(optim::clip_grad_value_(all, NAN), ValueError);
}

TEST(Optimizer, WithoutParametersIsAnError) {
  try {
    const optim::AdamW optimizer(std::vector<Tensor>{});
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("[AdamW] there are no parameters to optimize"));
    EXPECT_THAT(e.what(), testing::HasSubstr("optim_test.cpp:"));
  }
  EXPECT_THROW(optim::SGD({}), ValueError);
  const Tensor p = ones(2).requires_grad_();
  optim::SGD optimizer({p});
  EXPECT_THROW(optimizer.add_group({}), ValueError);
}

TEST(Schedule, WarmsUpAndFalls) {
  const optim::WarmupCosine s{.lr = 1, .warmup = 10, .steps = 110, .minimum = 0.1};
  EXPECT_DOUBLE_EQ(optim::warmup_cosine(0, s), 0.1);
  EXPECT_DOUBLE_EQ(optim::warmup_cosine(9, s), 1);
  EXPECT_DOUBLE_EQ(optim::warmup_cosine(10, s), 1);
  EXPECT_NEAR(optim::warmup_cosine(60, s), 0.55, 1e-12);
  EXPECT_DOUBLE_EQ(optim::warmup_cosine(110, s), 0.1);
  EXPECT_DOUBLE_EQ(optim::warmup_cosine(1000, s), 0.1);
}

TEST(Schedule, InverseSquareRootHasNoEnd) {
  EXPECT_DOUBLE_EQ(optim::warmup_inverse_sqrt(0, 1, 10), 0.1);
  EXPECT_DOUBLE_EQ(optim::warmup_inverse_sqrt(9, 1, 10), 1);
  EXPECT_DOUBLE_EQ(optim::warmup_inverse_sqrt(39, 1, 10), 0.5);
  EXPECT_THROW(optim::warmup_inverse_sqrt(0, 1, 0), ValueError);
}

double train_xor(const std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>& make, int steps) {
  manual_seed(1);
  const Tensor x = tensor({{0.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}});
  const Tensor y = tensor({{0.0}, {1.0}, {1.0}, {0.0}});
  const nn::Sequential net(nn::Linear(2, 16), nn::Tanh(), nn::Linear(16, 1));
  const auto optimizer = make(net.parameters());
  double last = 1;
  for (int step = 0; step < steps; ++step) {
    optimizer->zero_grad();
    const Tensor loss = mse_loss(net(x), y);
    loss.backward();
    optimizer->step();
    last = loss.item<double>();
  }
  return last;
}

TEST(Training, XorIsLearned) {
  EXPECT_LT(train_xor([](auto p) { return std::make_unique<optim::AdamW>(p, optim::AdamWOptions{.lr = 0.02}); }, 500),
            1e-3);
  EXPECT_LT(train_xor([](auto p) { return std::make_unique<optim::SGD>(p, SGDOptions{.lr = 0.1}); }, 5000), 1e-3);
  EXPECT_LT(train_xor(
                [](auto p) {
                  return std::make_unique<optim::SGD>(p, SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true});
                },
                1000),
            1e-3);
}

}  // namespace
}  // namespace weft
