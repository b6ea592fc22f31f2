// Linear algebra beyond the record tests: which matrix of a batch failed, triangles that are not read, values of graded
// and extreme matrices, orders of contraction.
#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/autograd/engine.hpp>
#include <weft/ops/gradcheck.hpp>
#include <weft/autograd/mode.hpp>
#include <weft/ops/complex.hpp>
#include <weft/ops/diagonal.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/linalg.hpp>
#include <weft/ops/linalg/contraction_order.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/tensor/threads.hpp>

#include "message_of.hpp"
#include "ops/samples.hpp"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;

double largest_difference(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item<double>(); }
Tensor symmetric(int64_t n) {
  const Tensor x = randn({n, n}, {f64});
  return x + x.t();
}
Tensor identity(int64_t n) { return eye(n, {}, {f64}); }

TEST(Linalg, NamesTheSingularMatrixOfABatch) {
  Tensor x = eye(3, {}, {f64}).expand({7, 3, 3}).clone();
  const NoGradGuard unrecorded;
  x[4][1][1].fill_(0);
  EXPECT_THAT(message_of<LinAlgError>([&] { linalg::inv(x); }),
              HasSubstr("[linalg_inv] matrix 4 of the batch is singular"));
  EXPECT_THAT(message_of<LinAlgError>([&] { linalg::solve(x, ones({7, 3}, {f64})); }), HasSubstr("its pivot 2 is 0"));
  EXPECT_THAT(message_of<LinAlgError>([&] { linalg::inv(x[4]); }), HasSubstr("the matrix is singular"));
  x[5][2][2].fill_(-1);
  x[4][1][1].fill_(1);
  EXPECT_THAT(message_of<LinAlgError>([&] { linalg::cholesky(x); }),
              HasSubstr("matrix 5 of the batch is not positive definite: its leading minor 3"));
  EXPECT_EQ(linalg::cholesky_ex(x).info.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0, 0, 0, 3, 0}));
  x[4][1][1].fill_(0);
  EXPECT_EQ(linalg::inv_ex(x).info.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0, 0, 2, 0, 0}));
  EXPECT_EQ(linalg::solve_ex(x, ones({7, 3}, {f64})).info.to_vector<int64_t>()[4], 2);
  EXPECT_THROW(linalg::inv_ex(x, true), LinAlgError);
  x[4][1][1].fill_(1);
  // The healthy twin.
  x[5][2][2].fill_(1);
  EXPECT_EQ(largest_difference(linalg::inv(x), x), 0);
}

TEST(Linalg, RejectsNonFiniteMatrices) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    Tensor x = identity(3);
    x[1][1].fill_(bad);
    EXPECT_THAT(message_of<LinAlgError>([&] { linalg::svd(x); }), HasSubstr("not finite"));
    EXPECT_THAT(message_of<LinAlgError>([&] { linalg::eigh(x); }), HasSubstr("not finite"));
  }
}

TEST(Linalg, WithoutElementsSizesMayBeAny) {
  constexpr int64_t many = int64_t{1} << 59;
  for (const Dims& shape : {Dims{many, 0}, Dims{0, many}}) {
    const Tensor x = zeros(shape, f64);
    EXPECT_EQ(linalg::qr(x).q.numel(), 0);
    EXPECT_EQ(linalg::svd(x, false).s.numel(), 0);
    EXPECT_EQ(linalg::svdvals(x).numel(), 0);
    EXPECT_EQ(linalg::lu_factor(x).pivots.numel(), 0);
    EXPECT_EQ(linalg::pinv(x).shape(), x.t().shape());
    EXPECT_EQ(linalg::matrix_rank(x).item<int64_t>(), 0);
  }
  for (const Dims& shape : {Dims{many / 8, 3, 0}, Dims{many / 8, 0, 2}}) {
    EXPECT_EQ(linalg::qr(zeros(shape, f64)).q.numel(), 0);
    EXPECT_EQ(linalg::matrix_exp(zeros({many, 0, 0}, f64)).numel(), 0);
  }
  EXPECT_THROW(kron(zeros({many, 0}, f64), zeros({many, 0}, f64)), ShapeError);
  EXPECT_TRUE(equal(linalg::qr(zeros({3, 0}, f64), linalg::QrMode::complete).q, identity(3)));
  const auto [u, s, vh] = linalg::svd(zeros({3, 0}, f64));
  EXPECT_TRUE(equal(u, identity(3)));
  EXPECT_TRUE(equal(linalg::svd(zeros({2, 0, 3}, f64)).vh, identity(3).expand({2, 3, 3})));
}

TEST(Linalg, ReadsOneTriangleAlone) {
  manual_seed(1);
  const Tensor x = symmetric(6), low = tril(x), high = triu(x);
  EXPECT_EQ(largest_difference(linalg::eigvalsh(low), linalg::eigvalsh(x)), 0);
  EXPECT_EQ(largest_difference(linalg::eigvalsh(high, true), linalg::eigvalsh(x, true)), 0);
  const Tensor p = matmul(x, x) + identity(6);
  EXPECT_EQ(largest_difference(linalg::cholesky(tril(p)), linalg::cholesky(p)), 0);
  EXPECT_EQ(largest_difference(linalg::cholesky(triu(p), true), linalg::cholesky(p, true)), 0);
}

TEST(Linalg, LargeAndSmallMatricesFollowOnePath) {
  manual_seed(2);
  for (const int64_t n : {1, 2, 15, 16, 17, 31, 33, 64, 100, 129}) {
    const Tensor a = randn({5, n, n}, {f64}) + identity(n) * 8, b = randn({5, n, 3}, {f64});
    EXPECT_LT(largest_difference(matmul(a, linalg::solve(a, b)), b), 1e-9) << n;
    EXPECT_LT(largest_difference(linalg::solve(a, b)[2], linalg::solve(a[2], b[2])), 1e-10) << n;
    const Tensor p = matmul(a, a.transpose(-2, -1)), l = linalg::cholesky(p);
    EXPECT_LT(largest_difference(matmul(l, l.transpose(-2, -1)), p), 1e-9 * static_cast<double>(n)) << n;
    const auto [q, r] = linalg::qr(a);
    EXPECT_LT(largest_difference(matmul(q, r), a), 1e-11) << n;
    EXPECT_LT(largest_difference(matmul(q.transpose(-2, -1), q), identity(n)), 1e-12) << n;
    const auto [u, s, vh] = linalg::svd(a);
    EXPECT_LT(largest_difference(matmul(u * s.unsqueeze(-2), vh), a), 1e-11) << n;
    const auto [w, v] = linalg::eigh(p);
    EXPECT_LT(largest_difference(matmul(v * w.unsqueeze(-2), v.transpose(-2, -1)), p), 1e-8) << n;
  }
}

TEST(Linalg, SmallSingularValuesOfAGradedMatrixAreRight) {
  // diag(1, 1e-6, 1e-12, 1e-18) times a rotation by one radian of each neighbouring pair keeps its singular values.
  const double values[] = {1, 1e-6, 1e-12, 1e-18};
  Tensor x = diag(tensor(std::span<const double>(values), {4}, f64));
  for (int i = 0; i < 3; ++i) {
    Tensor turn = identity(4);
    turn[i][i].fill_(std::cos(1.0)), turn[i + 1][i + 1].fill_(std::cos(1.0));
    turn[i][i + 1].fill_(-std::sin(1.0)), turn[i + 1][i].fill_(std::sin(1.0));
    x = matmul(x, turn);
  }
  const std::vector<double> s = linalg::svdvals(x).to_vector<double>();
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(s[i] / values[i], 1, 1e-3) << i;
  EXPECT_LT(s[3], 1e-15);
}

TEST(Linalg, MagnitudesNearTheEndsOfTheRangeAreScaled) {
  manual_seed(3);
  const Tensor x = randn({5, 4}, {f64}), p = symmetric(5);
  const Tensor s = linalg::svdvals(x), w = linalg::eigvalsh(p);
  for (const double factor : {1e-300, 1e300}) {
    EXPECT_LT(largest_difference(linalg::svdvals(x * factor) / factor, s), 1e-12) << factor;
    EXPECT_LT(largest_difference(linalg::eigvalsh(p * factor) / factor, w), 1e-12) << factor;
    const auto [q, r] = linalg::qr(x * factor);
    EXPECT_LT(largest_difference(matmul(q, r / factor), x), 1e-12) << factor;
  }
}

TEST(Linalg, ThreadsThatFactorizeAtOnceGetTheirOwnResults) {
  manual_seed(4);
  const Tensor a = randn({96, 96}, {f64}) + identity(96) * 4, b = randn({96, 8}, {f64});
  const Tensor expected = linalg::solve(a, b), values = linalg::svdvals(a);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        if (largest_difference(linalg::solve(a, b), expected) != 0) ++wrong;
        if (largest_difference(linalg::svdvals(a), values) != 0) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Linalg, TheDeterminantOfASingularMatrixHasItsAdjugateAsGradient) {
  const double values[] = {1, 2, 2, 4};
  const Tensor x = tensor(std::span<const double>(values), {2, 2}, f64).requires_grad_();
  linalg::det(x).backward();
  const double adjugate[] = {4, -2, -2, 1};
  EXPECT_LT(largest_difference(x.grad(), tensor(std::span<const double>(adjugate), {2, 2}, f64)), 1e-12);
}

TEST(Linalg, DeterminantsOfEveryRankHaveSecondDerivatives) {
  // det = a (e i - f h) - b (d i - f g) + c (d h - e g)
  const auto by_elements = [](const Tensor& x) {
    const auto at = [&](int i, int j) { return x.select(-2, i).select(-1, j); };
    return at(0, 0) * (at(1, 1) * at(2, 2) - at(1, 2) * at(2, 1)) -
           at(0, 1) * (at(1, 0) * at(2, 2) - at(1, 2) * at(2, 0)) +
           at(0, 2) * (at(1, 0) * at(2, 1) - at(1, 1) * at(2, 0));
  };
  const auto second = [](const auto& function, const Tensor& given) {
    const Tensor x = given.clone().requires_grad_(), seed = arange(1, 10, 1, {f64}).reshape({3, 3}).to(given.dtype());
    const auto sum_of = [](const Tensor& t) { return is_complex(t.dtype()) ? sum(real(t)) : sum(t); };
    const Tensor g = grad({sum_of(function(x))}, {x}, {}, {.create_graph = true})[0];
    return grad({sum_of(g * seed)}, {x})[0];
  };
  for (const DType t : {f64, c128}) {
    const auto row = [t](std::vector<double> numbers) { return tensor(numbers, f64).to(t); };
    const Tensor u = row({1, 2, 3}).unsqueeze(1), w = row({2, -1, 3});
    const Tensor matrices[] = {zeros({3, 3}, t),           u * w,           u * w + diag_embed(row({0, 0, 1})),
                               diag_embed(row({1, 0, 0})), eye(3, {}, {t}), stack({zeros({3, 3}, t), eye(3, {}, {t})})};
    for (const Tensor& x : matrices) {
      const auto det = [](const Tensor& a) { return linalg::det(a); };
      EXPECT_LE(largest_difference(second(det, x), second(by_elements, x)), 1e-9);
    }
  }
}

TEST(Linalg, EqualSingularValuesShareTheGradientOfANorm) {
  for (const double order : {2.0, -2.0}) {
    const Tensor x = (identity(2) * 3).requires_grad_();
    linalg::matrix_norm(x, order).backward();
    EXPECT_LE(largest_difference(x.grad(), identity(2) * 0.5), 1e-15);
  }
  const Tensor x = diag_embed(tensor({1.0, 3.0, 3.0}, f64)).requires_grad_();
  linalg::matrix_norm(x, 2.0).backward();
  EXPECT_LE(largest_difference(x.grad(), diag_embed(tensor({0.0, 0.5, 0.5}, f64))), 1e-15);
}

TEST(Linalg, AHermitianPseudoinverseHasTheGradientOfASymmetricMatrix) {
  manual_seed(5);
  const GradcheckFunction f = [](std::span<const Tensor> in) {
    return Tensors{linalg::pinv((in[0] + in[0].t()) * 0.5, {}, {}, true)};
  };
  const Tensor x = (symmetric(3) + identity(3) * 4).requires_grad_();
  EXPECT_TRUE(gradcheck(f, {x}).passed);
}

TEST(Linalg, TheConditionOfASingularMatrixIsInfinite) {
  Tensor x = identity(3).expand({2, 3, 3}).clone();
  x[1][0][0].fill_(0);
  EXPECT_EQ(linalg::cond(x, 1.0).to_vector<double>(), (std::vector<double>{1, HUGE_VAL}));
  EXPECT_EQ(linalg::cond(x).to_vector<double>(), (std::vector<double>{1, HUGE_VAL}));
}

// ---- einsum ---------------------------------------------------------------------------------------------------------

TEST(Einsum, TheOrderIsNeverDearerThanTheGreedyOne) {
  std::mt19937 random(1);
  int cheaper = 0;
  for (int i = 0; i < 2000; ++i) {
    linalg::Contraction c;
    const size_t letters = 2 + random() % 8, operands = 2 + random() % 7;
    for (size_t k = 0; k < letters; ++k) c.sizes.push_back(1 << (random() % 6));
    for (size_t k = 0; k < operands; ++k) c.words.push_back(random() % (uint64_t{1} << letters));
    c.result = random() % (uint64_t{1} << letters);
    uint64_t all = 0;
    for (const uint64_t word : c.words) all |= word;
    c.result &= all;
    const double greedy = linalg::cost_of(c, linalg::greedy_order(c)),
                 own = linalg::cost_of(c, linalg::contraction_order(c));
    EXPECT_LE(own, greedy);
    cheaper += own < greedy ? 1 : 0;
  }
  EXPECT_GT(cheaper, 0);
}

TEST(Linalg, SpectraOfMatricesWithGapsAreThoseOfTheirCopies) {
  for (const int64_t n : {2, 3, 5, 12, 40}) {
    const Tensor x = symmetric(n), wide = zeros({n, 2 * n}, {f64}), spread = wide.slice(1, 0, {}, 2);
    wide.slice(1, 0, {}, 2).copy_(x);
    for (const Tensor& given : {x.t(), spread, x.expand({3, n, n})}) {
      const auto [values, vectors] = linalg::eigh(given);
      EXPECT_LT(largest_difference(values, linalg::eigvalsh(given.contiguous())), 1e-9) << n;
      EXPECT_LT(largest_difference(matmul(vectors * values.unsqueeze(-2), vectors.transpose(-1, -2)), given), 1e-9)
          << n;
      EXPECT_LT(largest_difference(linalg::svdvals(given), linalg::svdvals(given.contiguous())), 1e-9) << n;
    }
  }
}

TEST(Einsum, AChainIsContractedFromItsCheapEnd) {
  // a [8, 128] b [128, 128] c [128, 1]: from the right 128² + 8 · 128, from the left 8 · 128² + 8 · 128.
  linalg::Contraction chain{{0b0011, 0b0110, 0b1100}, 0b1001, {8, 128, 128, 1}};
  EXPECT_EQ(linalg::cost_of(chain, linalg::contraction_order(chain)), 128.0 * 128 + 8 * 128);
}

TEST(Einsum, TransposesAndDiagonalsAreViews) {
  const Tensor x = ones({3, 3}, {f64});
  EXPECT_TRUE(einsum("ij->ji", {x}).shares_storage(x));
  EXPECT_TRUE(einsum("ii->i", {x}).shares_storage(x));
}

}  // namespace
}  // namespace weft::testing
