#include <cmath>

#include <weft/ops/reduce.hpp>
#include <weft/ops/softmax.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

Doubles reference(const Tensor& x, int dim, bool logarithm) {
  const Doubles v = values(x), sums = values(sum(exp(x), dim, true).expand(x.shape()));
  Doubles out(v.size());
  for (size_t i = 0; i < v.size(); ++i) out[i] = logarithm ? v[i] - std::log(sums[i]) : std::exp(v[i]) / sums[i];
  return out;
}

TEST(Softmax, ValuesAreThoseOfALoop) {
  for (const Dims& shape :
       {Dims(), Dims(1), Dims(7), Dims{3, 5}, Dims{2, 3, 4}, Dims{65, 70}, Dims{0, 3}, Dims{3, 0}}) {
    for (int dim = 0; dim < std::max(1, shape.size()); ++dim) {
      const Tensor x = spread(shape, 9);
      expect_values(softmax(x, dim), reference(x, dim, false));
      expect_values(log_softmax(x, dim - std::max(1, shape.size())), reference(x, dim, true));
    }
  }
  const Tensor t = spread({3, 4, 2}).transpose(0, 2);
  expect_values(softmax(t, 1), values(softmax(t.clone(), 1)));
}

TEST(Softmax, NeitherOverflowsNorLosesSmallTerms) {
  expect_values(softmax(doubles({1000, 1000}), 0), {0.5, 0.5});
  expect_values(log_softmax(doubles({-1000, 0}), 0), {-1000, 0});
  expect_values(softmax(doubles({-infinity, 0}), 0), {0, 1});
  expect_values(softmax(doubles({nan, 0}), 0), {nan, nan});
}

TEST(Softmax, DTypes) {
  EXPECT_EQ(softmax(ones({2}, f16), 0).dtype(), f16);
  EXPECT_EQ(softmax(ones({2}, f16), 0, f32).dtype(), f32);
  EXPECT_EQ(softmax(tensor({1, 2}), 0, f64).dtype(), f64);
  EXPECT_THROW(softmax(tensor({1, 2}), 0), DTypeError);
  EXPECT_THROW(log_softmax(tensor({true, false}), 0), DTypeError);
  EXPECT_THROW(softmax(ones({2}), 1), IndexError);
  EXPECT_THROW(softmax(Tensor(), 0), ValueError);
  const Tensor x = ones({2}, bf16).requires_grad_();
  (softmax(x, 0, f32) * tensor({1.0, 2.0})).sum().backward();
  EXPECT_EQ(x.grad().dtype(), bf16);
}

TEST(Softmax, Gradient) {
  for (const int dim : {0, 1, 2}) {
    expect_gradients([&](Inputs in) { return softmax(in[0], dim) * in[0]; }, {leaf({2, 3, 2})});
    expect_gradients([&](Inputs in) { return log_softmax(in[0], dim) * in[0]; }, {leaf({2, 3, 2})});
  }
  expect_gradients([&](Inputs in) { return softmax(in[0], 0); }, {leaf({})});
  expect_gradients([&](Inputs in) { return log_softmax(in[0].t(), 0); }, {leaf({2, 3})});
}

TEST(Softmax, BackwardKernelAndRecordedFormulaAgree) {
  const Tensor x = leaf({4, 33}, 3), seed = spread({4, 33}, 4);
  for (const bool logarithm : {false, true}) {
    const Tensor y = logarithm ? log_softmax(x, 1) : softmax(x, 1);
    const auto plain = grad({y}, {x}, {seed}, {.retain_graph = true});
    const auto recorded = grad({y}, {x}, {seed}, {.create_graph = true});
    expect_values(plain[0], values(recorded[0]));
    expect_values(seed, values(spread({4, 33}, 4)));
  }
}

}  // namespace
}  // namespace weft::testing
