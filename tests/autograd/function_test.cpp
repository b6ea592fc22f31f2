// Functions that users write: values, gradients to second order, saved outputs, several outputs, and their errors.
#include <gtest/gtest.h>

#include <weft/ops/gradcheck.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

struct Cube : autograd::Function<Cube> {
  static constexpr const char* name = "cube";
  static Tensor forward(Context& context, const Tensor& x) {
    context.save({x});
    return x * x * x;
  }
  static Tensor backward(Context& context, const Tensor& g) {
    const Tensor x = context.saved(0);
    return 3.0 * g * x * x;
  }
};

struct Exponential : autograd::Function<Exponential> {
  static Tensor forward(Context& context, const Tensor& x) {
    const Tensor y = exp(x);
    context.save({y});
    return y;
  }
  static Tensor backward(Context& context, const Tensor& g) { return g * context.saved(0); }
};

// Two tensors and a number in, two tensors out.
struct ScaledSumAndProduct : autograd::Function<ScaledSumAndProduct> {
  static std::vector<Tensor> forward(Context& context, const Tensor& a, double scale, const Tensor& b) {
    context.save({a, b});
    context.data = scale;
    return {(a + b) * scale, a * b};
  }
  static std::vector<Tensor> backward(Context& context, std::span<const Tensor> g) {
    const double scale = std::any_cast<double>(context.data);
    return {g[0] * scale + g[1] * context.saved(1), g[0] * scale + g[1] * context.saved(0)};
  }
};

// A list and one more tensor that may be left out.
struct SumOfAll : autograd::Function<SumOfAll> {
  static Tensor forward(Context& context, const std::vector<Tensor>& terms, const std::optional<Tensor>& extra) {
    context.data = terms.size();
    Tensor sum = extra ? extra->clone() : zeros(terms[0].shape());
    for (size_t i = 0; i < terms.size(); ++i) sum.add_(terms[i], static_cast<double>(i + 1));
    return sum;
  }
  static std::vector<Tensor> backward(Context& context, std::span<const Tensor> g) {
    std::vector<Tensor> gradients;
    for (size_t i = 0; i < std::any_cast<size_t>(context.data); ++i) gradients.push_back(g[0] * (i + 1.0));
    gradients.push_back(g[0]);
    return gradients;
  }
};

struct WrongShape : autograd::Function<WrongShape> {
  static constexpr const char* name = "wrong_shape";
  static Tensor forward(Context&, const Tensor& x) { return x * 2.0; }
  static Tensor backward(Context&, const Tensor& g) { return g.sum(); }
};

struct Doubling : autograd::Function<Doubling> {
  static constexpr const char* name = "doubling";
  static Tensor forward(Context& context, const Tensor& x) {
    context.mark_dirty({x});
    x.mul_(2.0);
    return x;
  }
  static Tensor backward(Context&, const Tensor& g) { return g * 2.0; }
};

// Writes where no op sees it, as a kernel from outside does.
struct OutsideWrite : autograd::Function<OutsideWrite> {
  static Tensor forward(Context& context, const Tensor& x) {
    context.mark_dirty({x});
    static_cast<float*>(x.data_ptr())[0] = 7;
    return x;
  }
  static Tensor backward(Context&, const Tensor& g) { return g; }
};

struct PassThrough : autograd::Function<PassThrough> {
  static Tensor forward(Context&, const Tensor& x) { return x; }
  static Tensor backward(Context&, const Tensor& g) { return -g; }
};

TEST(UserFunction, HasItsGradientsToSecondOrder) {
  const Tensor x = tensor({0.5, -1.5, 2.0}, f64).requires_grad_();
  const auto cube = [](std::span<const Tensor> in) { return std::vector<Tensor>{Cube::apply(in[0])}; };
  const auto exponential = [](std::span<const Tensor> in) { return std::vector<Tensor>{Exponential::apply(in[0])}; };
  const std::vector<Tensor> inputs{x};
  gradcheck(cube, inputs);
  gradgradcheck(cube, inputs);
  gradcheck(exponential, inputs);
  gradgradcheck(exponential, inputs);
}

TEST(UserFunction, AWriteThatIsNotRecordedIsSeenByBackwardToo) {
  const Tensor x = ones({2}), w = ones({2}).requires_grad_();
  const Tensor y = (w * x).sum();
  const auto version = x.version();
  OutsideWrite::apply(x);
  EXPECT_GT(x.version(), version);
  EXPECT_THROW(y.backward(), AutogradError) << "the x that was saved is no more";
  const NoGradGuard unrecorded;
  const auto before = w.version();
  OutsideWrite::apply(w);
  EXPECT_GT(w.version(), before);
}

TEST(UserFunction, TensorsInAListHaveTheirGradients) {
  const Tensor a = ones({2}).requires_grad_(), b = ones({2}).requires_grad_(), c = ones({2}).requires_grad_();
  SumOfAll::apply_at(Location(), std::vector{a, b}, std::optional<Tensor>(c)).sum().backward();
  EXPECT_EQ(a.grad().to_vector<double>(), (std::vector<double>{1, 1}));
  EXPECT_EQ(b.grad().to_vector<double>(), (std::vector<double>{2, 2}));
  EXPECT_EQ(c.grad().to_vector<double>(), (std::vector<double>{1, 1}));
  const Tensor sum = SumOfAll::apply(std::vector{a, b.detach()}, std::optional<Tensor>());
  EXPECT_EQ(sum.to_vector<double>(), (std::vector<double>{3, 3}));
  sum.sum().backward();
  EXPECT_EQ(a.grad().to_vector<double>(), (std::vector<double>{2, 2}));
}

TEST(UserFunction, TakesNumbersBesideTensorsAndGivesSeveralOutputs) {
  const Tensor a = tensor({1.0, 2.0}).requires_grad_(), b = tensor({3.0, 5.0}).requires_grad_();
  const auto out = ScaledSumAndProduct::apply(a, 10.0, b);
  EXPECT_EQ(out[0].to_vector<double>(), (std::vector<double>{40, 70}));
  out[1].sum().backward();  // nothing arrives at the first output
  EXPECT_EQ(a.grad().to_vector<double>(), (std::vector<double>{3, 5}));
  EXPECT_EQ(b.grad().to_vector<double>(), (std::vector<double>{1, 2}));
}

TEST(UserFunction, ChecksTheGradientsItGetsBack) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  try {
    WrongShape::apply(x).sum().backward();
    FAIL() << "nothing was raised";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("[wrong_shape] backward returned a gradient"), std::string::npos);
  }
  EXPECT_FALSE(x.grad().defined());
}

template <class T>
struct Templated : autograd::Function<Templated<T>> {
  using Context = autograd::Context;
  static Tensor forward(Context&, const Tensor& x, const T&) { return x * 2.0; }
  static Tensor backward(Context&, const Tensor& g) { return g.sum(); }
};
struct NumberFirst : autograd::Function<NumberFirst> {
  static Tensor forward(Context& context, double factor, const Tensor& x) {
    context.data = factor;
    return x * factor;
  }
  static Tensor backward(Context& context, const Tensor& g) { return g * std::any_cast<double>(context.data); }
};

TEST(UserFunction, ErrorsNameItAndTheLineOfItsCall) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  const auto words = [](const Tensor& y) -> std::string {
    try {
      y.sum().backward();
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string line = "function_test.cpp:" + std::to_string(__LINE__ + 1);
  EXPECT_NE(words(WrongShape::apply(x)).find(line), std::string::npos) << words(WrongShape::apply(x));
  const std::string text = words(Templated<float>::apply(x, 1.0f));
  EXPECT_TRUE(text.starts_with("[Templated<float>] backward returned")) << text;
  EXPECT_STREQ(Exponential::apply(x).impl()->node->op, "Exponential");
  EXPECT_STREQ(Cube::apply(x).impl()->node->op, "cube");
  EXPECT_EQ(Cube::apply(x).impl()->node->where.line(), static_cast<unsigned>(__LINE__));
  struct Local : autograd::Function<Local> {
    static Tensor forward(autograd::Context&, const Tensor& t) { return t * 1.0; }
    static Tensor backward(autograd::Context&, const Tensor& g) { return g; }
  };
  EXPECT_STREQ(Local::apply(x).impl()->node->op, "Local");
}

TEST(UserFunction, EveryKindOfTensorArgumentGetsItsGradient) {
  nn::Linear layer(2, 2, false);
  Cube::apply(layer.weight).sum().backward();  // a parameter is a tensor of another type
  EXPECT_TRUE(layer.weight.grad().defined());
  const Tensor x = tensor({2.0, 3.0}).requires_grad_();
  Cube::apply(x[1]).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 27}));
  NumberFirst::apply(5.0, x).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{5, 32}));
}

TEST(UserFunction, MayReturnItsInput) {
  const Tensor x = tensor({1.0}).requires_grad_();
  PassThrough::apply(x).backward();
  EXPECT_EQ(x.grad().item<float>(), -1.0f);
  EXPECT_TRUE(x.is_leaf());
}

TEST(UserFunction, MayWriteItsInput) {
  const Tensor x = tensor({1.0, 2.0}, f64).requires_grad_();
  const Tensor y = x * x;
  const Tensor z = Doubling::apply(y);
  EXPECT_EQ(z.impl(), y.impl());
  EXPECT_EQ(y.select(0, 1).item<double>(), 8.0);
  y.sum().backward();
  EXPECT_EQ(x.grad().select(0, 1).item<double>(), 8.0);
  EXPECT_THROW(Doubling::apply(x), AutogradError);
}

TEST(UserFunction, MayWriteAViewOfARecordedTensor) {
  const Tensor x = tensor({1.0, 2.0, 3.0}, f64).requires_grad_();
  const Tensor y = x * 1.0;
  Doubling::apply(y.narrow(0, 1, 2));
  (y * y).sum().backward();
  const double want[] = {2.0, 16.0, 24.0};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(x.grad().select(0, i).item<double>(), want[i]);
}

TEST(UserFunction, WritesAreDetectedBySavedTensors) {
  const Tensor x = tensor({1.0}).requires_grad_();
  const Tensor y = x * 1.0;
  const Tensor z = y * y;
  Doubling::apply(y);
  EXPECT_THROW(z.backward(), AutogradError);
}

TEST(UserFunction, ChecksTheVersionOfSavedTensors) {
  const Tensor x = tensor({1.0}).requires_grad_();
  const Tensor y = x * 1.0;
  const Tensor z = Cube::apply(y);
  y.add_(1.0);
  EXPECT_THROW(z.backward(), AutogradError);
}

TEST(UserFunction, IsNotRecordedUnderNoGrad) {
  const Tensor x = tensor({1.0}).requires_grad_();
  NoGradGuard unrecorded;
  EXPECT_FALSE(Cube::apply(x).requires_grad());
}

}  // namespace
}  // namespace weft
