// Bounds and moments of the initial values, against PyTorch's formulas.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/nn/init.hpp>
#include <weft/nn/layers.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>

namespace weft {
namespace {

using namespace nn::init;
using Doubles = std::vector<double>;

class Init : public testing::Test {
 protected:
  void SetUp() override { manual_seed(1); }
};

double deviation_of(const Tensor& x) { return weft::std(x.to(f64)).item<double>(); }

void expect_uniform(const Tensor& x, double bound) {
  const double high = max(x).item<double>(), low = min(x).item<double>();
  EXPECT_LE(high, bound * (1 + 1e-6));
  EXPECT_GE(low, -bound * (1 + 1e-6));
  EXPECT_GT(high, bound * 0.99);
  EXPECT_LT(low, -bound * 0.99);
  EXPECT_NEAR(deviation_of(x), bound / std::sqrt(3.0), bound * 0.02);
  EXPECT_NEAR(mean(x).item<double>(), 0, bound * 0.02);
}

// 4.55 % of a normal distribution are beyond two standard deviations.
void expect_normal(const Tensor& x, double deviation) {
  EXPECT_NEAR(deviation_of(x), deviation, deviation * 0.03);
  EXPECT_NEAR(mean(x).item<double>(), 0, deviation * 0.03);
  const double beyond = mean(gt(abs(x), 2 * deviation).to(f32)).item<double>();
  EXPECT_NEAR(beyond, 0.0455, 0.008);
}

TEST_F(Init, ConstantsAndTheIdentity) {
  const Tensor x = empty({2, 3});
  EXPECT_EQ(constant_(x, 2.5).to_vector<double>(), Doubles(6, 2.5));
  EXPECT_EQ(ones_(x).to_vector<double>(), Doubles(6, 1));
  EXPECT_EQ(zeros_(x).to_vector<double>(), Doubles(6, 0));
  EXPECT_EQ(eye_(x).to_vector<double>(), (Doubles{1, 0, 0, 0, 1, 0}));
  EXPECT_THROW(eye_(empty({2, 2, 2})), ShapeError);
}

TEST_F(Init, UniformAndNormal) {
  expect_uniform(nn::init::uniform_(empty({100, 100}), -0.5, 0.5), 0.5);
  expect_normal(nn::init::normal_(empty({100, 100}), 0, 3), 3);
  EXPECT_THROW(nn::init::normal_(empty(3), 0, -1), ValueError);
}

// torch.nn.init.dirac_ of torch.empty(4, 2, 3) with 1 and 2 groups.
TEST_F(Init, DiracHandsChannelsOn) {
  const Tensor x = dirac_(empty({4, 2, 3}));
  const auto hits = [](const Tensor& t) {
    std::vector<int64_t> out;
    const Doubles v = t.to_vector<double>();
    for (size_t i = 0; i < v.size(); ++i) {
      if (v[i] != 0) out.push_back(static_cast<int64_t>(i));
    }
    return out;
  };
  EXPECT_EQ(hits(x), (std::vector<int64_t>{1, 10}));
  EXPECT_EQ(hits(dirac_(empty({4, 2, 3}), 2)), (std::vector<int64_t>{1, 10, 13, 22}));
  EXPECT_EQ(sum(dirac_(empty({3, 3, 2, 5, 4}))).item<double>(), 3);
  EXPECT_THROW(dirac_(empty({4, 2})), ShapeError);
  EXPECT_THROW(dirac_(empty({4, 2, 3}), 3), ValueError);
}

TEST_F(Init, GainsArePyTorchs) {
  EXPECT_EQ(calculate_gain(Nonlinearity::linear), 1);
  EXPECT_EQ(calculate_gain(Nonlinearity::sigmoid), 1);
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::tanh), 5.0 / 3);
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::relu), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::leaky_relu, 0.2), std::sqrt(2.0 / 1.04));
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::selu), 0.75);
}

TEST_F(Init, XavierKeepsBothVariances) {
  expect_uniform(xavier_uniform_(empty({100, 200})), std::sqrt(6.0 / 300));
  expect_uniform(xavier_uniform_(empty({20, 10, 5, 5}), 2), 2 * std::sqrt(6.0 / 750));
  expect_normal(xavier_normal_(empty({100, 200})), std::sqrt(2.0 / 300));
  EXPECT_THROW(xavier_uniform_(empty(5)), ShapeError);
}

TEST_F(Init, KaimingKeepsOneVariance) {
  expect_uniform(kaiming_uniform_(empty({100, 200})), std::sqrt(2.0) * std::sqrt(3.0 / 200));
  expect_uniform(kaiming_uniform_(empty({100, 200}), {.a = std::sqrt(5.0)}), 1 / std::sqrt(200.0));
  expect_uniform(kaiming_uniform_(empty({100, 200}), {.mode = Fan::out}), std::sqrt(2.0) * std::sqrt(3.0 / 100));
  expect_normal(kaiming_normal_(empty({20, 10, 5, 5}), {.nonlinearity = Nonlinearity::tanh}),
                5.0 / 3 / std::sqrt(250.0));
  EXPECT_THROW(kaiming_normal_(empty(5)), ShapeError);
}

TEST_F(Init, TruncatedNormalStaysWithinAndHasItsMoments) {
  const Tensor x = trunc_normal_(empty({100, 100}));
  EXPECT_LE(max(abs(x)).item<double>(), 2);
  EXPECT_NEAR(deviation_of(x), 0.87963, 0.02);  // of the standard normal within two deviations
  EXPECT_NEAR(mean(x).item<double>(), 0, 0.03);
  const Tensor y = trunc_normal_(empty({100, 100}, f64), {.mean = 1, .deviation = 0.5, .low = 1, .high = 3});
  EXPECT_GE(min(y).item<double>(), 1);
  EXPECT_NEAR(mean(y).item<double>(), 1 + 0.5 * std::sqrt(2 / std::acos(-1.0)), 0.02);
  // Far out in the tail it is nearly exponential: mean 6 + 0.158.
  const Tensor tail = trunc_normal_(empty({100, 100}, f64), {.low = 6, .high = 20});
  EXPECT_GE(min(tail).item<double>(), 6);
  EXPECT_NEAR(mean(tail).item<double>(), 6.158, 0.01);
  const Tensor other = trunc_normal_(empty({100, 100}, f64), {.low = -20, .high = -6});
  EXPECT_NEAR(mean(other).item<double>(), -6.158, 0.01);
  EXPECT_THROW(trunc_normal_(empty(3), {.low = 2, .high = 1}), ValueError);
  EXPECT_THROW(trunc_normal_(empty(3), {.deviation = 0}), ValueError);
  EXPECT_THROW(trunc_normal_(empty(3), {.low = 50, .high = 60}), ValueError);
  EXPECT_THROW(trunc_normal_(empty(3, i64)), Error);
}

TEST_F(Init, OrthogonalRowsOrColumns) {
  const auto off_identity = [](const Tensor& q) {
    return max(abs(matmul(q, q.t()) - eye(q.size(0), {}, f64))).item<double>();
  };
  EXPECT_LT(off_identity(orthogonal_(empty({30, 50}, f64))), 1e-13);
  EXPECT_LT(off_identity(orthogonal_(empty({50, 30}, f64)).t()), 1e-13);
  EXPECT_LT(off_identity(orthogonal_(empty({40, 40}, f64), 3) / 3.0), 1e-13);
  EXPECT_LT(off_identity(orthogonal_(empty({10, 4, 5}, f64)).view({10, 20})), 1e-13);
  // No sign is preferred: a QR without the correction has a diagonal of one sign.
  Tensor total = zeros({}, f64);
  for (int i = 0; i < 200; ++i) total = total + orthogonal_(empty({3, 3}, f64)).select(0, 0).select(0, 0);
  EXPECT_LT(std::abs(total.item<double>()) / 200, 0.15);
  EXPECT_EQ(orthogonal_(empty({4, 3})).dtype(), f32);
  EXPECT_THROW(orthogonal_(empty(4)), ShapeError);
  EXPECT_EQ(orthogonal_(empty({0, 3})).numel(), 0);
}

TEST_F(Init, SparseZeroesAShareOfEachColumn) {
  const Tensor x = sparse_(empty({10, 300}), 0.25, 2);
  EXPECT_EQ(sum(eq(x, 0.0), 0).to_vector<int64_t>(), std::vector<int64_t>(300, 3));
  EXPECT_NEAR(deviation_of(x), 2 * std::sqrt(0.7), 0.1);
  EXPECT_GT(min(sum(eq(x, 0.0), 1)).item<int64_t>(), 0);
  EXPECT_THROW(sparse_(empty({2, 2, 2}), 0.1), ShapeError);
  EXPECT_THROW(sparse_(empty({2, 2}), 1.5), ValueError);
}

TEST_F(Init, WritesParametersOutsideTheGraphAndFollowsItsGenerator) {
  nn::Linear layer(4, 4);
  Generator a(5), b(5);
  const std::vector<float> first = orthogonal_(layer.weight, 1, &a).to_vector<float>();
  EXPECT_TRUE(layer.weight.is_leaf());
  EXPECT_TRUE(layer.weight.requires_grad());
  EXPECT_EQ(orthogonal_(layer.weight, 1, &b).to_vector<float>(), first);
  EXPECT_NE(orthogonal_(layer.weight, 1, &b).to_vector<float>(), first);
  (void)trunc_normal_(layer.weight, {.generator = &a}), (void)sparse_(layer.weight, 0.5, 1, &a);
  EXPECT_TRUE(layer.weight.is_leaf());
}

}  // namespace
}  // namespace weft
