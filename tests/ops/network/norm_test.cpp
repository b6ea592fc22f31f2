#include <cmath>

#include <weft/ops/norm.hpp>
#include <weft/ops/reduce.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

// Rows of n values normalised by a loop; empty weight and bias are absent.
Doubles reference(const Tensor& x, int64_t n, const Doubles& weight, const Doubles& bias, double eps, bool centered) {
  const Doubles v = values(x);
  Doubles out;
  for (size_t row = 0; row + 1 <= v.size() / static_cast<size_t>(n); ++row) {
    const double* r = v.data() + row * static_cast<size_t>(n);
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < n && centered; ++i) mean += r[i] / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) squares += (r[i] - mean) * (r[i] - mean) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(i);
      double y = (r[i] - mean) / std::sqrt(squares + eps);
      if (!weight.empty()) y *= weight[at];
      if (!bias.empty()) y += bias[at];
      out.push_back(y);
    }
  }
  return out;
}

TEST(LayerNorm, ValuesAreThoseOfALoop) {
  for (const Dims& shape : {Dims(5), Dims{2, 3}, Dims{2, 3, 4}, Dims{3, 100}, Dims{0, 4}}) {
    const int64_t n = shape[shape.size() - 1];
    const Tensor x = spread(shape, 1), w = spread(n, 2), b = spread(n, 3);
    expect_values(layer_norm(x, n), reference(x, n, {}, {}, 1e-5, true));
    expect_values(layer_norm(x, n, w), reference(x, n, values(w), {}, 1e-5, true));
    expect_values(layer_norm(x, n, {}, b, 0.1), reference(x, n, {}, values(b), 0.1, true));
    expect_values(layer_norm(x, n, w, b), reference(x, n, values(w), values(b), 1e-5, true));
  }
  const Tensor x = spread({2, 3, 4}), w = spread({3, 4}, 5);
  expect_values(layer_norm(x, {3, 4}, w), reference(x, 12, values(w), {}, 1e-5, true));
  const Tensor t = spread({4, 3}).t();
  expect_values(layer_norm(t, 4), values(layer_norm(t.clone(), 4)));
}

TEST(RmsNorm, ValuesAreThoseOfALoop) {
  for (const Dims& shape : {Dims(5), Dims{2, 3}, Dims{2, 3, 4}, Dims{3, 100}, Dims{0, 4}}) {
    const int64_t n = shape[shape.size() - 1];
    const Tensor x = spread(shape, 1), w = spread(n, 2);
    expect_values(rms_norm(x, n, {}, 1e-3), reference(x, n, {}, {}, 1e-3, false));
    expect_values(rms_norm(x, n, w), reference(x, n, values(w), {}, 2.220446049250313e-16, false));
  }
  const Tensor x = spread({2, 3, 4}), w = spread({3, 4}, 5);
  expect_values(rms_norm(x, {3, 4}, w, 1e-6), reference(x, 12, values(w), {}, 1e-6, false));
}

TEST(RmsNorm, CasesOfTheSpecification) {
  const Tensor x = doubles({3, 4}).requires_grad_(), w = doubles({1, 2}).requires_grad_();
  const Tensor y = rms_norm(x, 2, w, 0.0);
  expect_values(y, {.8485281, 2.2627417}, 1e-7);
  y.backward(ones({2}, f64));
  expect_values(x.grad(), {-.0905097, .0678823}, 1e-7);
  expect_values(w.grad(), {.8485281, 1.1313708}, 1e-7);
  const Tensor rows = doubles({7, 6, 5, 3}).to(bf16), weight = doubles({1.25, .1875, .3125, .125}).to(bf16);
  expect_values(rms_norm(rows, 4, weight, 0.0), {1.6015625, .20605469, .28710938, .06884766}, 1e-8);
  EXPECT_FLOAT_EQ(rms_norm(rows, 4, weight, 0.0, RmsCast::before_weight).to_vector<float>()[1], .20703125f);
  expect_values(rms_norm(zeros({2}, f64), 2, {}, 0.0), {nan, nan});
  expect_values(rms_norm(zeros({2}, f64), 2, {}, 1e-5), {0, 0});
  expect_values(rms_norm(full({2}, 300.0, f16), 2, {}, 0.0), {1, 1}, 1e-3);
}

TEST(Norms, MixedPrecision) {
  const Tensor x = spread({2, 4}).to(bf16).requires_grad_();
  const Tensor w = ones({4}).requires_grad_(), b = zeros({4}).requires_grad_();
  for (const bool recorded : {false, true}) {
    const Tensor y = layer_norm(x, 4, w, b), z = rms_norm(x, 4, w);
    EXPECT_EQ(y.dtype(), bf16);
    EXPECT_EQ(z.dtype(), bf16);
    const auto g = grad({y.sum() + z.sum()}, {x, w, b}, {}, {.create_graph = recorded});
    EXPECT_EQ(g[0].dtype(), bf16);
    EXPECT_EQ(g[1].dtype(), f32);
    EXPECT_EQ(g[2].dtype(), f32);
    EXPECT_EQ(g[1].shape(), Dims(4));
  }
  EXPECT_EQ(rms_norm(ones({2, 4}), 4, ones({4}, bf16)).dtype(), f32);
  EXPECT_EQ(layer_norm(ones({2, 4}, f64), 4, ones({4})).dtype(), f64);
}

TEST(Norms, ZeroSized) {
  EXPECT_EQ(layer_norm(zeros({2, 0}), 0).shape(), Dims({2, 0}));
  EXPECT_EQ(rms_norm(zeros({2, 0}), 0).shape(), Dims({2, 0}));
  const Tensor x = zeros({0, 3}).requires_grad_(), w = ones({3}).requires_grad_(), b = ones({3}).requires_grad_();
  layer_norm(x, 3, w, b).sum().backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
  expect_values(w.grad(), {0, 0, 0});
  expect_values(b.grad(), {0, 0, 0});
}

TEST(Norms, Errors) {
  const Tensor x = ones({2, 3});
  EXPECT_THROW(layer_norm(x, 2), ShapeError);
  EXPECT_THROW(layer_norm(x, {3, 2, 3}), ShapeError);
  EXPECT_THROW(layer_norm(x, Dims()), ShapeError);
  EXPECT_THROW(layer_norm(x, 3, ones({2})), ShapeError);
  EXPECT_THROW(layer_norm(x, 3, {}, ones({2, 3})), ShapeError);
  EXPECT_THROW(layer_norm(ones({3}, i64), 3), DTypeError);
  EXPECT_THROW(rms_norm(x, 3, ones({3}, i64)), DTypeError);
  EXPECT_THROW(rms_norm(x, 4), ShapeError);
  EXPECT_THROW(rms_norm(Tensor(), 4), ValueError);
}

TEST(Norms, Gradient) {
  const std::vector<Tensor> all = {leaf({2, 4}, 1), leaf({4}, 2), leaf({4}, 3)};
  expect_gradients([](Inputs in) { return layer_norm(in[0], 4, in[1], in[2]); }, all);
  expect_gradients([](Inputs in) { return rms_norm(in[0], 4, in[1], 1e-3); }, {all[0], all[1]});
  expect_gradients([](Inputs in) { return layer_norm(in[0], {2, 3}) * in[0]; }, {leaf({2, 2, 3})});
  expect_gradients([](Inputs in) { return rms_norm(in[0], {2, 3}, {}, 0.1); }, {leaf({2, 2, 3})});
  expect_gradients([](Inputs in) { return layer_norm(in[0].t(), 2, in[1]); }, {leaf({2, 3}), leaf({2}, 4)});
}

TEST(Norms, GradientOfOneOperandAlone) {
  const Tensor x = spread({3, 4}), w = leaf({4}, 2), b = leaf({4}, 3);
  expect_gradients([&](Inputs in) { return layer_norm(x, 4, in[0], in[1]); }, {w, b});
  expect_gradients([&](Inputs in) { return layer_norm(x, 4, {}, in[0]); }, {b});
  expect_gradients([&](Inputs in) { return rms_norm(x, 4, in[0]); }, {w});
  expect_gradients([&](Inputs in) { return rms_norm(in[0], 4, w.detach()); }, {leaf({3, 4})});
}

TEST(Norms, BackwardKernelAndRecordedFormulaAgree) {
  const Tensor x = leaf({37, 19}, 1), w = leaf({19}, 2), b = leaf({19}, 3), seed = spread({37, 19}, 4);
  const Tensor y = layer_norm(x, 19, w, b) + rms_norm(x, 19, w, 1e-6);
  const auto plain = grad({y}, {x, w, b}, {seed}, {.retain_graph = true});
  const auto recorded = grad({y}, {x, w, b}, {seed}, {.create_graph = true});
  for (int i = 0; i < 3; ++i) expect_values(plain[i], values(recorded[i]), 1e-10);
}

}  // namespace
}  // namespace weft::testing
