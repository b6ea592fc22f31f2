// Matrix products and their gradients: spec/indexing.md section 6.2.
#include <weft/ops/gradcheck.hpp>
#include <weft/autograd/mode.hpp>
#include <weft/ops/matmul.hpp>

#include "ops/samples.hpp"

namespace weft::testing {
namespace {

using Numbers = std::vector<double>;
Numbers v(const Tensor& t) { return t.to_vector<double>(); }

Tensor sample(const Dims& shape, uint64_t seed = 1) { return SampleMaker(f64, {}, seed).tensor(shape); }
Tensor wide(std::initializer_list<std::initializer_list<double>> rows) { return tensor(rows).to(f64); }

// The definition, element by element, for operands of rank 2 or more.
Tensor by_hand(const Tensor& a, const Tensor& b) { return sum(a.unsqueeze(-1) * b.unsqueeze(-3), {-2}); }

TEST(Matmul, MatchesTheDefinition) {
  const std::pair<Dims, Dims> shapes[] = {{{2, 3}, {3, 4}},    {{2, 1, 2, 3}, {4, 3, 5}}, {{2, 2, 3}, {3, 4}},
                                          {{2, 3}, {5, 3, 2}}, {{1, 1}, {1, 1}},          {{3, 1, 2}, {1, 2, 2}}};
  for (const auto& [a_shape, b_shape] : shapes) {
    const Tensor a = sample(a_shape), b = sample(b_shape, 2);
    EXPECT_TRUE(close(matmul(a, b), by_hand(a, b), {1e-12, 1e-12})) << a_shape.text() << b_shape.text();
    EXPECT_TRUE(same(a.matmul(b), matmul(a, b)));
  }
}

TEST(Matmul, OneDimensionalOperands) {
  const Tensor x = tensor({1., 2., 3.}), m = tensor({{1., 0., 2.}, {0., 1., 1.}});
  EXPECT_EQ(matmul(x, x).shape(), Dims());
  EXPECT_EQ(v(matmul(x, x)), (Numbers{14}));
  EXPECT_EQ(v(matmul(m, x)), (Numbers{7, 5}));
  EXPECT_EQ(v(matmul(x, m.t())), (Numbers{7, 5}));
  EXPECT_EQ(matmul(sample({3}), sample({2, 3, 4})).shape(), (Dims{2, 4}));
  EXPECT_EQ(matmul(sample({2, 4, 3}), sample({3})).shape(), (Dims{2, 4}));
}

TEST(Matmul, SizesOfZero) {
  EXPECT_EQ(matmul(sample({0, 2, 3}), sample({3, 4})).shape(), (Dims{0, 2, 4}));
  const Tensor a = zeros({2, 0}).requires_grad_(), b = zeros({0, 3}).requires_grad_();
  const Tensor out = matmul(a, b);
  EXPECT_EQ(v(out), Numbers(6, 0));
  out.sum().backward();
  EXPECT_EQ(a.grad().shape(), (Dims{2, 0}));
  EXPECT_EQ(b.grad().shape(), (Dims{0, 3}));
}

TEST(Matmul, FirstAndSecondGradientsOfSpec) {
  const Tensor a = wide({{1, 2}}).requires_grad_(), b = wide({{3}, {4}}).requires_grad_();
  const Tensor g = wide({{5}}).requires_grad_();
  const std::vector<Tensor> first = grad({matmul(a, b)}, {a, b}, {g}, {.create_graph = true});
  EXPECT_EQ(v(first[0]), (Numbers{15, 20}));
  EXPECT_EQ(v(first[1]), (Numbers{5, 10}));
  const Tensor u = wide({{1, 1}}), w = wide({{1}, {2}});
  const std::vector<Tensor> second = grad({first[0], first[1]}, {g, a, b}, {u, w});
  EXPECT_EQ(v(second[0]), (Numbers{12}));
  EXPECT_EQ(v(second[1]), (Numbers{5, 10}));
  EXPECT_EQ(v(second[2]), (Numbers{5, 5}));
}

// dA = R(P Vt), dB = R(Ut P), dG = Q V + U S, dU = R(P Bt) + R(G St), dV = R(At P) + R(Qt G).
TEST(Matmul, ThirdGradientsOfSpec) {
  const Tensor a = sample({2, 3}, 1).requires_grad_(), b = sample({3, 4}, 2).requires_grad_();
  const Tensor g = sample({2, 4}, 3).requires_grad_(), u = sample({2, 3}, 4).requires_grad_();
  const Tensor w = sample({3, 4}, 5).requires_grad_();
  const Tensor p = sample({2, 4}, 6), q = sample({2, 3}, 7), s = sample({3, 4}, 8);
  const GradOptions keep{.create_graph = true};
  const std::vector<Tensor> first = grad({matmul(a, b)}, {a, b}, {g}, keep);
  const std::vector<Tensor> second = grad({first[0], first[1]}, {g, a, b}, {u, w}, keep);
  const std::vector<Tensor> third = grad({second[0], second[1], second[2]}, {a, b, g, u, w}, {p, q, s});
  const NoGradGuard guard;
  const Tolerance exact{1e-12, 1e-12};
  EXPECT_TRUE(close(third[0], mm(p, w.t()), exact));
  EXPECT_TRUE(close(third[1], mm(u.t(), p), exact));
  EXPECT_TRUE(close(third[2], mm(q, w) + mm(u, s), exact));
  EXPECT_TRUE(close(third[3], mm(p, b.t()) + mm(g, s.t()), exact));
  EXPECT_TRUE(close(third[4], mm(a.t(), p) + mm(q.t(), g), exact));
}

Tensor flipped(const Tensor& t, bool flip) {
  return flip && t.dim() > 1 ? t.transpose(-2, -1).clone().transpose(-2, -1) : t;
}

TEST(Matmul, GradcheckOfSpec) {
  const std::pair<Dims, Dims> shapes[] = {{{2, 1, 2, 3}, {4, 3, 5}}, {{3}, {3}},          {{3}, {2, 3, 4}},
                                          {{2, 4, 3}, {3}},          {{0, 2, 3}, {3, 4}}, {{2, 0}, {0, 3}},
                                          {{2, 2, 3}, {3, 2}},       {{2, 3}, {2, 3, 2}}};
  for (const auto& [a_shape, b_shape] : shapes) {
    for (int flags = 0; flags < 4; ++flags) {
      const std::vector<Tensor> inputs = {sample(a_shape).requires_grad_(), sample(b_shape, 2).requires_grad_()};
      const auto f = [flags](std::span<const Tensor> x) {
        return matmul(flipped(x[0], flags & 1), flipped(x[1], flags & 2));
      };
      EXPECT_TRUE(gradcheck(f, inputs)) << a_shape.text();
      EXPECT_TRUE(gradgradcheck(f, inputs)) << a_shape.text();
    }
  }
}

TEST(Matmul, ThirdOrderGradcheckWithBroadcast) {
  const std::vector<Tensor> inputs = {sample({2, 1, 2, 2}).requires_grad_(), sample({2, 2, 2}, 2).requires_grad_()};
  const auto first = [](std::span<const Tensor> x) {
    return grad({matmul(x[0], x[1]).sum() * 1.0}, {x[0], x[1]}, {}, {.create_graph = true});
  };
  EXPECT_TRUE(gradgradcheck(GradcheckFunction(first), inputs));
}

TEST(Matmul, ComputesOnlyWantedGradients) {
  const Tensor a = sample({2, 3}).requires_grad_(), b = sample({3, 4}, 2);
  const Tensor out = matmul(a, b);
  // Only b is kept, so a may change.
  {
    NoGradGuard guard;
    a.fill_(0);
  }
  out.sum().backward();
  EXPECT_TRUE(close(a.grad(), matmul(ones({2, 4}, f64), b.t()), {1e-12, 1e-12}));
  EXPECT_FALSE(b.grad().defined());
}

TEST(Matmul, WeightOfABatchGetsOneGradient) {
  const Tensor x = sample({2, 3, 4}), w = sample({4, 5}, 2).requires_grad_();
  const Tensor g = sample({2, 3, 5}, 3);
  matmul(x, w).backward(g);
  EXPECT_TRUE(close(w.grad(), matmul(x.reshape({6, 4}).t(), g.reshape({6, 5})), {1e-12, 1e-12}));
}

TEST(Matmul, HalfPrecisionAccumulatesInSingle) {
  const Tensor a = ones({1, 4096}, f16), b = ones({4096, 1}, f16);
  EXPECT_EQ(v(matmul(a, b)), (Numbers{4096}));
  EXPECT_EQ(v(matmul(a.to(bf16), b.to(bf16))), (Numbers{4096}));
}

// A few rows by a large matrix use it in place, row- or column-major.
TEST(Matmul, FewRowsOfSixteenBitsAreSummedInSingleAndRoundedOnce) {
  for (const DType dtype : {bf16, f16}) {
    for (const int64_t rows : {1, 2, 3, 5, 8, 9}) {
      const Tensor x = sample({rows, 203}).to(dtype), w = sample({90, 203}, 2).to(dtype);
      const Tensor bias = sample({90}, 3).to(dtype), exact = matmul(x.to(f64), w.to(f64).t());
      const Tolerance rounding{dtype == bf16 ? 0x1p-8 : 0x1p-10, 1e-4};
      EXPECT_TRUE(close(linear(x, w).to(f64), exact, rounding)) << rows;
      EXPECT_TRUE(close(linear(x, w, bias).to(f64), exact + bias.to(f64), rounding)) << rows;
      EXPECT_TRUE(close(matmul(x, w.t().contiguous()).to(f64), exact, rounding)) << rows;
      EXPECT_TRUE(close(matmul(w, x.t()).to(f64), exact.t(), rounding)) << rows;
      const Tensor apart = sample({90, 406}, 2).to(dtype).slice(1, 0, 406, 2);
      EXPECT_TRUE(close(linear(x, apart).to(f64), matmul(x.to(f64), apart.to(f64).t()), rounding)) << rows;
      const Tensor out = zeros({90, rows}, dtype).t();
      matmul_out(out, x, w.t());
      EXPECT_TRUE(close(out.to(f64), exact, rounding)) << rows;
    }
  }
}

TEST(Matmul, IntegersAreExact) {
  EXPECT_EQ(matmul(tensor({{int64_t{9007199254740993}}}), tensor({{1}})).to_vector<int64_t>()[0], 9007199254740993);
}

TEST(Matmul, ReportsWrongOperands) {
  const Tensor a = ones({2, 3});
  EXPECT_THROW(matmul(a, a), ShapeError);
  EXPECT_THROW(matmul(a, ones({2})), ShapeError);
  EXPECT_THROW(matmul(ones({2}), a.t()), ShapeError);
  EXPECT_THROW(matmul(a, tensor(1.)), ShapeError);
  EXPECT_THROW(matmul(ones({2, 2, 3}), ones({3, 3, 4})), ShapeError);
  EXPECT_THROW(matmul(a, ones({3, 2}, f64)), DTypeError);
  EXPECT_THROW(matmul(a.to(boolean), a.to(boolean).t()), DTypeError);
  EXPECT_THROW(matmul(a, Tensor()), ValueError);
  EXPECT_THROW(matmul(a, empty({3, 2}, Device("meta"))), DeviceError);
  EXPECT_THROW(mm(a, ones({3})), ShapeError);
  EXPECT_THROW(bmm(ones({2, 2, 2}), ones({1, 2, 2})), ShapeError);
  EXPECT_THROW(mv(a, a.t()), ShapeError);
  EXPECT_THROW(dot(ones({2}), ones({3})), ShapeError);
  EXPECT_THROW(outer(a, ones({3})), ShapeError);
  EXPECT_THROW(addmm(ones({3}), a, a.t()), ShapeError);
}

TEST(Matmul, ErrorNamesShapesAndPlace) {
  try {
    matmul(ones({2, 3}), ones({2, 3}));
    FAIL();
  } catch (const ShapeError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("[matmul] shapes [2, 3] and [2, 3] cannot be multiplied"), std::string::npos) << text;
    EXPECT_NE(text.find("matmul_test.cpp:"), std::string::npos) << text;
  }
}

TEST(MatmulOut, WritesIntoTheTarget) {
  const Tensor a = sample({2, 3}), b = sample({3, 4}, 2), out = zeros({4, 2}, f64);
  const Tensor target = out.t();
  const uint32_t version = out.version();
  EXPECT_EQ(&matmul_out(target, a, b), &target);
  EXPECT_TRUE(close(target, matmul(a, b), {1e-12, 1e-12}));
  EXPECT_GT(out.version(), version);
  const Tensor batch = zeros({5, 2, 4}, f64);
  EXPECT_TRUE(close(matmul_out(batch, a.expand({5, 2, 3}), b), matmul(a.expand({5, 2, 3}), b), {1e-12, 1e-12}));
}

TEST(MatmulOut, MayOverlapAnOperand) {
  const Tensor a = sample({2, 2}), expected = mm(a, a);
  mm_out(a, a, a);
  EXPECT_TRUE(same(a, expected));
}

TEST(MatmulOut, ReportsWrongTargets) {
  const Tensor a = sample({2, 3}), b = sample({3, 4}, 2);
  EXPECT_THROW(mm_out(zeros({2, 3}, f64), a, b), ShapeError);
  EXPECT_THROW(mm_out(zeros({2, 4}), a, b), DTypeError);
  EXPECT_THROW(mm_out(zeros({1, 4}, f64).expand({2, 4}), a, b), ValueError);
  EXPECT_THROW(mm_out(zeros({2, 4}, f64), a.clone().requires_grad_(), b), AutogradError);
}

TEST(Products, OfOtherNames) {
  const Tensor a = tensor({{1., 2.}, {3., 4.}}), x = tensor({5., 6.});
  EXPECT_EQ(v(mv(a, x)), (Numbers{17, 39}));
  EXPECT_EQ(v(dot(x, x)), (Numbers{61}));
  EXPECT_EQ(v(outer(x, tensor({1., 2., 3.}))), (Numbers{5, 10, 15, 6, 12, 18}));
  EXPECT_EQ(outer(x.to(i64), tensor({1., 2.})).dtype(), f32);
  const Tensor bools = outer(tensor({true, false}), tensor({true, true, false}));
  EXPECT_EQ(bools.dtype(), boolean);
  EXPECT_EQ(v(bools), (Numbers{1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(v(addmm(x, a, a, 2, 0.5)), (Numbers{13.5, 17, 17.5, 23}));
  EXPECT_EQ(v(bmm(a.unsqueeze(0), a.unsqueeze(0))), (Numbers{7, 10, 15, 22}));
}

TEST(Linear, AddsTheBias) {
  const Tensor w = tensor({{1., 2.}, {3., 4.}, {5., 6.}}), b = tensor({10., 20., 30.});
  EXPECT_EQ(v(linear(tensor({1., 1.}), w, b)), (Numbers{13, 27, 41}));
  EXPECT_EQ(v(linear(tensor({{1., 0.}}), w)), (Numbers{1, 3, 5}));
  EXPECT_EQ(linear(sample({2, 4, 3}), sample({5, 3})).shape(), (Dims{2, 4, 5}));
  const Tensor single = tensor({3., 5.}).requires_grad_(), bias = tensor(7.).requires_grad_();
  EXPECT_EQ(v(linear(tensor({{1., 0.}, {0., 1.}}), single, bias)), (Numbers{10, 12}));
  EXPECT_EQ(linear(tensor({1., 0.}), single, bias.reshape({1})).shape(), Dims());
  linear(tensor({{1., 2.}, {3., 4.}}), single, bias).sum().backward();
  EXPECT_EQ(v(single.grad()), (Numbers{4, 6}));
  EXPECT_EQ(v(bias.grad()), (Numbers{2}));
  EXPECT_EQ(v(linear(zeros({2, 0}), zeros({3, 0}), b)), (Numbers{10, 20, 30, 10, 20, 30}));
}

TEST(Linear, TakesAnyStrides) {
  const Tensor w = sample({5, 3}), b = sample({5}, 2);
  for (const Tensor& x : {sample({4, 3, 2}).transpose(1, 2), sample({2, 4, 3}).slice(2, {}, {}, -1),
                          sample({6}).slice(0, 0, 6, 2), sample({3, 4}).t(), sample({4, 1, 3}).expand({4, 2, 3})}) {
    const Tensor expected = matmul(x, w.t()) + b;
    EXPECT_TRUE(close(linear(x, w, b), expected, {1e-12, 1e-12})) << x.shape().text();
    EXPECT_TRUE(close(linear(x, w.t().clone().t(), b), expected, {1e-12, 1e-12}));
  }
}

TEST(Linear, GradientsForEveryInputAlone) {
  for (const Dims& shape : {Dims{4, 3}, Dims{2, 2, 3}, Dims{3}, Dims{0, 3}}) {
    for (int wanted = 1; wanted < 8; ++wanted) {
      const std::vector<Tensor> inputs = {sample(shape).requires_grad_(wanted & 1),
                                          sample({5, 3}, 2).requires_grad_(wanted & 2),
                                          sample({5}, 3).requires_grad_(wanted & 4)};
      const auto f = [](std::span<const Tensor> x) { return linear(x[0], x[1], x[2]); };
      EXPECT_TRUE(gradcheck(f, inputs)) << shape.text() << wanted;
      EXPECT_TRUE(gradgradcheck(f, inputs)) << shape.text() << wanted;
    }
  }
}

TEST(Linear, ZeroOutputs) {
  const Tensor x = sample({2, 3}).requires_grad_(), w = zeros({0, 3}, f64).requires_grad_(),
               b = zeros({0}, f64).requires_grad_();
  const std::vector<Tensor> g = grad({linear(x, w, b)}, {x, w, b}, {zeros({2, 0}, f64)}, {.create_graph = true});
  EXPECT_EQ(v(g[0]), Numbers(6, 0));
  EXPECT_EQ(g[1].shape(), (Dims{0, 3}));
  EXPECT_EQ(g[2].shape(), (Dims{0}));
}

TEST(Linear, ReportsWrongOperands) {
  const Tensor w = ones({5, 3});
  EXPECT_THROW(linear(ones({2, 4}), w), ShapeError);
  EXPECT_THROW(linear(tensor(1.), w), ShapeError);
  EXPECT_THROW(linear(ones({2, 3}), ones({4})), ShapeError);
  EXPECT_THROW(linear(ones({2, 3}), ones({3}), ones({3})), ShapeError);
  EXPECT_THROW(linear(ones({2, 3}), w, ones({3})), ShapeError);
  EXPECT_THROW(linear(ones({2, 3}), w, ones({5}, f64)), DTypeError);
}

}  // namespace
}  // namespace weft::testing
