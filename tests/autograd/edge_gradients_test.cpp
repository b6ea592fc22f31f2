// Gradients where formulas divide by 0, overflow or do not depend on their operand; tests/python/test_edge_gradients.py
// has more of them.
#include <cmath>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include <weft/weft.hpp>

namespace weft {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

Tensor leaf(std::vector<double> values) { return tensor(values, f64).requires_grad_(); }

std::vector<double> second(const Function& f, std::vector<double> values) {
  const Tensor x = leaf(std::move(values));
  const Tensor first = grad({f(x).sum()}, {x}, {}, {.create_graph = true})[0];
  return grad({first.sum()}, {x})[0].to_vector<double>();
}

TEST(EdgeGradients, ProductsOfNothingWithALogarithmHaveNoSlope) {
  const Tensor a = leaf({0, 0, 2}), b = leaf({0, 4, 4});
  const auto g = grad({xlogy(a, b).sum()}, {a, b});
  EXPECT_EQ(g[1].to_vector<double>(), (std::vector<double>{0, 0, 0.5}));
  EXPECT_DOUBLE_EQ(g[0].to_vector<double>()[1], std::log(4.0));
  const Tensor c = leaf({-1});
  EXPECT_EQ(grad({xlog1py(leaf({0}), c).sum()}, {c})[0].item<double>(), 0);
}

TEST(EdgeGradients, SincBendsAtTheOrigin) {
  EXPECT_NEAR(second([](const Tensor& x) { return sinc(x); }, {0})[0], -M_PI * M_PI / 3, 1e-12);
}

TEST(EdgeGradients, PowersOfZeroDoNotChangeTwiceWithTheirExponent) {
  EXPECT_EQ(second([](const Tensor& x) { return pow(tensor({0.0}, f64), x); }, {2})[0], 0);
}

TEST(EdgeGradients, LinesInPiecesDoNotBend) {
  const std::vector<double> points = {-4, -1.25, 0, 0.25, 7};
  const Function pieces[] = {[](const Tensor& x) { return relu(x); },
                             [](const Tensor& x) { return relu6(x); },
                             [](const Tensor& x) { return hardsigmoid(x); },
                             [](const Tensor& x) { return hardtanh(x); },
                             [](const Tensor& x) { return frac(x); },
                             [](const Tensor& x) { return floor(x); },
                             [](const Tensor& x) { return sign(x); },
                             [](const Tensor& x) { return x.clamp(-1, 1); },
                             [](const Tensor& x) { return fmod(x, 2); },
                             [](const Tensor& x) { return remainder(x, 2.0); },
                             [](const Tensor& x) { return maximum(x, 0.5); },
                             [](const Tensor& x) { return leaky_relu(x); },
                             [](const Tensor& x) {
                               return max_pool1d(x.view({1, 5}), 2);
                             }};
  for (const Function& piece : pieces) EXPECT_EQ(second(piece, points), std::vector<double>(5, 0.0));
}

TEST(EdgeGradients, BroadcastOperandsOfLinesInPiecesKeepTheirShapes) {
  const Tensor x = full({2, 3}, 0.5, {f64}).requires_grad_(), bound = full({3}, 0.25, {f64}).requires_grad_();
  const auto g = grad({maximum(x, bound).sum()}, {x, bound}, {}, {.create_graph = true});
  const auto h = grad({(g[0].sum() + g[1].sum())}, {x, bound});
  EXPECT_EQ(h[0].shape(), x.shape());
  EXPECT_EQ(h[1].shape(), bound.shape());
}

TEST(EdgeGradients, ExponentialsFarOutHaveSecondDerivatives) {
  for (const Function& f :
       {Function([](const Tensor& x) { return softplus(x); }), Function([](const Tensor& x) { return logsigmoid(x); }),
        Function([](const Tensor& x) { return silu(x); }), Function([](const Tensor& x) { return elu(x); }),
        Function([](const Tensor& x) { return celu(x); })}) {
    EXPECT_EQ(second(f, {-800, 800}), (std::vector<double>{0, 0}));
  }
}

TEST(EdgeGradients, EqualEigenvaluesMatterOnlyWhereTheirVectorsDo) {
  const Tensor x = eye(3, {}, {f64}).requires_grad_();
  const auto [values, vectors] = linalg::eigh(x);
  const Tensor g = grad({values.sum() + 0.0 * vectors.sum()}, {x})[0];
  EXPECT_TRUE(allclose(g, eye(3, {}, {f64})));
  const auto [u, s, vh] = linalg::svd(x);
  EXPECT_TRUE(allclose(grad({s.sum() + u.square().sum() + 0.0 * vh.sum()}, {x})[0], eye(3, {}, {f64})));
}

TEST(EdgeGradients, LossesOfNoTimeStayConnected) {
  const Tensor x = zeros({3, 1, 2}, f64).requires_grad_();
  const Tensor loss = ctc_loss(x, ones({1, 1}, i64), tensor({0}), tensor({0}));
  EXPECT_EQ(grad({loss}, {x})[0].abs().sum().item<double>(), 0);
}

}  // namespace
}  // namespace weft
