// Linear algebra on complex numbers, and eigenvalues of matrices that are not symmetric: gradients against differences,
// losses that depend on phases, extreme and defective matrices.
#include <algorithm>
#include <cmath>
#include <complex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <weft/ops/record.hpp>
#include <weft/weft.hpp>

#include "message_of.hpp"
#include "ops/samples.hpp"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;
using Z = std::complex<double>;

Tensor random_complex(const Dims& shape, uint64_t seed = 1) {
  Generator generator(seed);
  const Tensor re = randn(shape, f64, &generator);
  return weft::complex(re, randn(shape, f64, &generator));
}
Tensor adjoint(const Tensor& x) { return conj(x).transpose(-2, -1); }
double difference(const Tensor& a, const Tensor& b) {
  return a.numel() == 0 && b.numel() == 0 ? 0 : max(abs(a - b)).item<double>();
}
Tensor identity(int64_t n) { return eye(n, {}, c128); }

// ---- gradients ------------------------------------------------------------------------------------------------------

/// Those that read one triangle of a Hermitian matrix have the gradient of both.
bool reads_one_triangle(std::string_view name) {
  return name.starts_with("linalg_cholesky") || name.starts_with("linalg_eigh") || name == "linalg_eigvalsh";
}

std::vector<const OpRecord*> differentiable_ops() {
  std::vector<const OpRecord*> out;
  for (const OpRecord& record : op_records()) {
    if (record.facts.differentiable) out.push_back(&record);
  }
  return out;
}

// Ops of linear algebra by their names, and those with a name from before.
std::vector<const OpRecord*> linalg_ops() {
  std::vector<const OpRecord*> out;
  for (const char* name :
       {"cholesky_solve", "cholesky_inverse", "logdet", "chain_matmul", "inner", "vdot", "kron", "baddbmm", "addbmm",
        "addmv", "addr", "tensordot", "cumprod", "einsum", "vector_norm", "norm", "block_diag"}) {
    out.push_back(find_record(name));
  }
  for (const OpRecord* record : differentiable_ops()) {
    if (std::string_view(record->name).starts_with("linalg_")) out.push_back(record);
  }
  return out;
}

bool is_linalg(const OpRecord& record) {
  const std::vector<const OpRecord*> all = linalg_ops();
  return std::ranges::find(all, &record) != all.end();
}

// Ops of linear algebra take every sample.
bool takes(const OpRecord& record, const Values& values) {
  try {
    call(record, values);
    return true;
  } catch (const DTypeError& e) {
    EXPECT_FALSE(is_linalg(record)) << e.what();
    return false;
  }
}

/// The samples of complex numbers that the op takes, and that need c128 alone.
std::vector<Values> complex_samples(const OpRecord& record) {
  SampleMaker make(c128, {});
  std::vector<Values> samples;
  try {
    samples = record.samples(make);
  } catch (const DTypeError&) {  // they are made of real numbers
  }
  std::erase_if(samples, [&](const Values& values) {
    int count = 0;
    for (const Tensor& t : tensors_in(values)) {
      if (is_inexact(t.dtype()) && real_type(t.dtype()) != f64) return true;
      count += is_complex(t.dtype());
    }
    return count == 0 || !takes(record, values);
  });
  return samples;
}

class ComplexOp : public ::testing::TestWithParam<const OpRecord*> {};

TEST_P(ComplexOp, HasGradientsToSecondOrder) {
  const OpRecord& record = *GetParam();
  const std::vector<Values> samples = complex_samples(record);
  if (samples.empty()) {
    EXPECT_FALSE(is_linalg(record));
    GTEST_SKIP() << "it takes no complex numbers";
  }
  for (const Values& values : samples) {
    Tensors inputs;
    for (const Tensor& t : tensors_in(values)) {
      if (is_inexact(t.dtype())) inputs.push_back(t.clone().requires_grad_());
    }
    const GradcheckFunction function = [&](std::span<const Tensor> given) {
      size_t next = 0;
      const Values replaced = mapped(values, [&](const Tensor& t) {
        if (!is_inexact(t.dtype())) return t;
        const Tensor& x = given[next++];
        return reads_one_triangle(record.name) ? (x + adjoint(x)) * 0.5 : x;
      });
      Tensors outputs = call(record, replaced);
      std::erase_if(outputs, [](const Tensor& t) { return !is_inexact(t.dtype()); });
      for (Tensor& out : outputs) {
        if (has_any_phase(record, out)) out = square(real(out)) + square(imag(out));
      }
      return outputs;
    };
    const GradcheckOptions told = {.raise_exception = false};
    const GradcheckResult first = gradcheck(function, inputs, told);
    EXPECT_TRUE(first.passed) << first.message;
    const GradcheckResult second = gradgradcheck(function, inputs, told);
    EXPECT_TRUE(second.passed) << "second derivative: " << second.message;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ComplexOp, ::testing::ValuesIn(differentiable_ops()),
                         [](const auto& each) { return std::string(each.param->name); });

class ComplexLinalgOp : public ::testing::TestWithParam<const OpRecord*> {};

TEST_P(ComplexLinalgOp, DevicesAgreeWithTheCpu) {
  const OpRecord& record = *GetParam();
  int compared = 0;
  for (const DeviceType type : {DeviceType::hpu, DeviceType::cuda}) {
    if (device_count(type) == 0) continue;
    for (const DType dtype : {c64, c128}) {
      SampleMaker make_there(dtype, type), make_here(dtype, {});
      const std::vector<Values> there = record.samples(make_there), here = record.samples(make_here);
      for (size_t i = 0; i < here.size(); ++i) {
        SCOPED_TRACE(Device(type).name() + " " + name(dtype) + ", sample " + std::to_string(i));
        const Tensors found = call(record, there[i], type), wanted = call(record, here[i]);
        for (const Tensor& t : found) EXPECT_EQ(t.device(), Device(type));
        const double tolerance = dtype == c64 ? 1e-4 : 1e-10;
        expect_close(found, wanted, {tolerance, tolerance});
        expect_close(gradients(record, there[i], type), gradients(record, here[i]), {tolerance, tolerance});
        ++compared;
      }
    }
  }
  if (compared == 0) GTEST_SKIP() << "there is no device";
}

INSTANTIATE_TEST_SUITE_P(Ops, ComplexLinalgOp, ::testing::ValuesIn(linalg_ops()),
                         [](const auto& each) { return std::string(each.param->name); });

TEST(ComplexLinalg, OrdersOfVectorNormsHaveGradientsToSecondOrder) {
  const Tensor x = random_complex({3, 2}).requires_grad_();
  for (const double order : {0.5, 1.0, 1.5, 2.0, 3.0, -1.0, HUGE_VAL, -HUGE_VAL}) {
    const auto f = [&](std::span<const Tensor> in) { return linalg::matrix_norm(in[0]) * vector_norm(in[0], order); };
    EXPECT_TRUE(gradcheck(f, {x})) << order;
    EXPECT_TRUE(gradgradcheck(f, {x})) << order;
    EXPECT_EQ(vector_norm(x, order).dtype(), f64);
  }
  EXPECT_EQ(vector_norm(x, 0).item<double>(), 6);
}

TEST(ComplexLinalg, ThePolarFactorOfSvdHasAGradient) {
  // u vh does not change where u and v turn together.
  for (const Dims& shape : {Dims{3, 3}, Dims{4, 2}, Dims{2, 3}, Dims{2, 3, 3}}) {
    const auto f = [](std::span<const Tensor> in) {
      const auto [u, s, vh] = linalg::svd(in[0], false);
      return matmul(u, vh);
    };
    const Tensor x = random_complex(shape, 3).requires_grad_();
    EXPECT_TRUE(gradcheck(f, {x}));
    EXPECT_TRUE(gradgradcheck(f, {x}));
  }
}

TEST(ComplexLinalg, ProjectorsOfEighAndEigHaveGradients) {
  const auto hermitian = [](std::span<const Tensor> in) {
    const Tensor v = linalg::eigh((in[0] + adjoint(in[0])) * 0.5).vectors.narrow(-1, 0, 2);
    return matmul(v, adjoint(v));
  };
  const auto general = [](std::span<const Tensor> in) {
    const auto [w, v] = linalg::eig(in[0]);
    return matmul(v * sin(w).unsqueeze(-2), linalg::inv(v));  // sin of a matrix
  };
  const Tensor x = random_complex({4, 4}, 5).requires_grad_();
  const Tensor real_x = randn({4, 4}, f64).requires_grad_();
  EXPECT_TRUE(gradcheck(hermitian, {x}));
  EXPECT_TRUE(gradgradcheck(hermitian, {x}));
  EXPECT_TRUE(gradcheck(general, {x}));
  EXPECT_TRUE(gradgradcheck(general, {x}));
  EXPECT_TRUE(gradcheck(general, {real_x}));
  EXPECT_TRUE(gradgradcheck(general, {real_x}));
}

TEST(ComplexLinalg, ALossThatDependsOnAPhaseIsRefused) {
  const Tensor x = random_complex({3, 3}, 7).requires_grad_();
  const auto refused = [](const Tensor& vectors) {
    EXPECT_THAT(message_of<AutogradError>([&] { real(vectors).sum().backward(); }), HasSubstr("phase"));
  };
  refused(linalg::eigh(x + adjoint(x)).vectors);
  refused(linalg::svd(x).u);
  refused(linalg::svd(x).vh);
  refused(linalg::eig(x).vectors);
  refused(linalg::eig(real(x)).vectors);
  // Its twin that does not.
  square(abs(linalg::eig(x).vectors)).sum().backward();
}

// ---- values ---------------------------------------------------------------------------------------------------------

TEST(ComplexLinalg, LargeAndSmallMatricesFollowOnePath) {
  for (const int64_t n : {1, 2, 15, 16, 17, 33, 64, 100, 129}) {
    const Tensor a = random_complex({3, n, n}, 11) + identity(n) * 8, b = random_complex({3, n, 3}, 12);
    EXPECT_LT(difference(matmul(a, linalg::solve(a, b)), b), 1e-9) << n;
    EXPECT_LT(difference(matmul(linalg::solve(a, adjoint(b), false), a), adjoint(b)), 1e-9) << n;
    const Tensor p = matmul(a, adjoint(a)), l = linalg::cholesky(p), u = linalg::cholesky(p, true);
    EXPECT_LT(difference(matmul(l, adjoint(l)), p), 1e-9 * static_cast<double>(n)) << n;
    EXPECT_LT(difference(adjoint(l), u), 1e-9) << n;
    EXPECT_LT(difference(matmul(p, linalg::cholesky_solve(b, l)), b), 1e-7 * static_cast<double>(n)) << n;
    const auto [q, r] = linalg::qr(a);
    EXPECT_LT(difference(matmul(q, r), a), 1e-11) << n;
    EXPECT_LT(difference(matmul(adjoint(q), q), identity(n)), 1e-12) << n;
    EXPECT_EQ(max(abs(imag(r.diagonal(0, -2, -1)))).item<double>(), 0) << n;
    const auto [left, s, right] = linalg::svd(a);
    EXPECT_LT(difference(matmul(left * s.unsqueeze(-2), right), a), 1e-11) << n;
    const auto [w, v] = linalg::eigh(p);
    EXPECT_EQ(w.dtype(), f64);
    EXPECT_LT(difference(matmul(v * w.unsqueeze(-2), adjoint(v)), p), 1e-7) << n;
    EXPECT_LT(difference(linalg::eigvalsh(triu(p), true), w), 1e-7) << n;
    const auto [values, vectors] = linalg::eig(a);
    EXPECT_LT(difference(matmul(a, vectors), vectors * values.unsqueeze(-2)), 1e-10) << n;
    const auto [lu, pivots] = linalg::lu_factor(a);
    EXPECT_LT(difference(matmul(adjoint(a), linalg::lu_solve(lu, pivots, b, true, true)), b), 1e-9) << n;
  }
}

TEST(ComplexLinalg, MagnitudesNearTheEndsOfTheRangeAreScaled) {
  const Tensor x = random_complex({5, 4}, 13), p = random_complex({5, 5}, 14), h = p + adjoint(p);
  const Tensor s = linalg::svdvals(x), w = linalg::eigvalsh(h), e = linalg::eigvals(p);
  for (const double factor : {1e-300, 1e300}) {
    EXPECT_LT(difference(linalg::svdvals(x * factor) / factor, s), 1e-12) << factor;
    EXPECT_LT(difference(linalg::eigvalsh(h * factor) / factor, w), 1e-12) << factor;
    EXPECT_LT(difference(linalg::eigvals(p * factor) / Z(factor), e), 1e-12) << factor;
    const auto [q, r] = linalg::qr(x * factor);
    EXPECT_LT(difference(matmul(q, r / Z(factor)), x), 1e-12) << factor;
    EXPECT_LT(difference(linalg::solve(p * factor, p.narrow(1, 0, 1) * factor), identity(5).narrow(1, 0, 1)), 1e-12)
        << factor;
  }
}

TEST(ComplexLinalg, ImaginaryPartsOfAHermitianDiagonalAreNotRead) {
  const Tensor x = random_complex({4, 4}, 15), h = x + adjoint(x) + identity(4) * 9;
  const Tensor other = h + diag_embed(full({4}, Z(0, 3), c128));
  EXPECT_EQ(difference(linalg::eigvalsh(other), linalg::eigvalsh(h)), 0);
  EXPECT_EQ(difference(linalg::cholesky(other), linalg::cholesky(h)), 0);
}

// ---- eigenvalues of any matrix --------------------------------------------------------------------------------------

TEST(Eig, OfARealMatrixComesInConjugatePairs) {
  const Tensor turn = tensor({{0.0, -2.0}, {2.0, 0.0}}, f64);
  const auto values = linalg::eigvals(turn).to_vector<Z>();
  EXPECT_LT(std::abs(values[0] - Z(0, 2)), 1e-15);
  EXPECT_EQ(values[1], std::conj(values[0]));
  const Tensor real_values = linalg::eig(tensor({{2.0, 1.0}, {1.0, 3.0}}, f64)).vectors;
  EXPECT_EQ(max(abs(imag(real_values))).item<double>(), 0);
}

TEST(Eig, OfTrianglesIsTheirDiagonal) {
  const Tensor x = randn({6, 6}, f64);
  for (const Tensor& t : {triu(x), tril(x)}) {
    auto found = real(linalg::eigvals(t)).to_vector<double>(), wanted = t.diagonal().to_vector<double>();
    std::ranges::sort(found);
    std::ranges::sort(wanted);
    EXPECT_EQ(found, wanted);
  }
}

TEST(Eig, OfADefectiveMatrixHasItsValueManyTimes) {
  const Tensor block = eye(5, {}, f64) * 3 + diag_embed(ones({4}, f64), 1);
  for (const Tensor& x : {block, block.t()}) {
    const auto [values, vectors] = linalg::eig(x);
    EXPECT_EQ(difference(values, full({5}, Z(3), c128)), 0);
    EXPECT_LT(difference(matmul(x.to(c128), vectors), vectors * values), 1e-12);
    EXPECT_LT(difference(square(abs(vectors)).sum({0}), ones({5}, f64)), 1e-12);
  }
}

TEST(Eig, TakesZerosOnesAndNothing) {
  EXPECT_EQ(difference(linalg::eigvals(zeros({4, 4}, f64)), zeros({4}, c128)), 0);
  EXPECT_EQ(linalg::eig(zeros({2, 0, 0}, f64)).vectors.shape(), Dims({2, 0, 0}));
  for (const DType dtype : {f32, f64, c64, c128}) {
    for (const int64_t n : {1, 19, 40}) {
      const Tensor values = abs(linalg::eigvals(ones({n, n}, dtype)));
      EXPECT_NEAR(max(values).item<double>(), static_cast<double>(n), 1e-3);
      EXPECT_NEAR(sum(values).item<double>(), static_cast<double>(n), 1e-3);
    }
  }
}

TEST(Eig, RejectsNonFiniteMatricesByIndex) {
  Tensor x = eye(3, {}, f64).expand({4, 3, 3}).clone();
  x[2][1][0].fill_(std::nan(""));
  EXPECT_THAT(message_of<LinAlgError>([&] { linalg::eig(x); }),
              HasSubstr("[linalg_eig] matrix 2 of the batch has elements that are not finite"));
  EXPECT_THROW(linalg::eigvals(full({2, 2}, Z(0, HUGE_VAL), c128)), LinAlgError);
  EXPECT_THROW(linalg::eig(ones({2, 3}, f64)), ShapeError);
  EXPECT_THROW(linalg::eig(ones({2, 2}, i64)), DTypeError);
}

}  // namespace
}  // namespace weft::testing
