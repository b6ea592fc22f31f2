#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <weft/autograd/node.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/fused.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/norm.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/rotary.hpp>

#include "ops/samples.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

Tensor identity(int64_t n) { return eye(n, {}, f64); }

void expect_close(const Tensor& actual, const Tensor& expected) {
  const Tolerance t = tolerance_of(actual.dtype());
  ASSERT_EQ(actual.shape(), expected.shape());
  const Doubles a = values(actual), e = values(expected);
  double scale = 0;
  for (const double v : e) scale = std::max(scale, std::fabs(v));
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], e[i], t.absolute + t.relative * std::fabs(e[i]) + t.relative * scale) << "element " << i;
  }
}

// ---- rms_norm of a sum ----------------------------------------------------------------------------------------------

TEST(FusedRmsNormResidual, IsTheNormOfTheRoundedSumWithItsBits) {
  for (const DType dtype : {f64, f32, bf16, f16}) {
    for (const Dims& shape : {Dims{2, 5}, Dims{3, 100}, Dims{2, 3, 17}, Dims(4), Dims{5, 4099}}) {
      const int64_t n = shape[shape.size() - 1];
      const Tensor x = spread(shape, 1).to(dtype), r = spread(shape, 2).to(dtype), w = spread(n, 3).to(dtype);
      const auto [normed, sum] = fused_rms_norm_residual(x, r, {}, w, 1e-5);
      expect_values(sum, values(x + r), 0);
      expect_values(normed, values(rms_norm(x + r, n, w, 1e-5)), 0);
    }
  }
}

TEST(FusedRmsNormResidual, AddsABiasBeforeItRounds) {
  const Tensor x = spread({4, 33}, 1).to(bf16), r = spread({4, 33}, 2).to(bf16), b = spread(33, 3).to(bf16);
  const auto [normed, sum] = fused_rms_norm_residual(x, r, b, {}, 1e-5);
  const Tensor expected = (x.to(f32) + r.to(f32) + b.to(f32)).to(bf16);
  expect_values(sum, values(expected), 0);
  expect_values(normed, values(rms_norm(expected, 33, {}, 1e-5)), 0);
}

TEST(FusedRmsNormResidual, HasGradientsOfBothResults) {
  const auto both = [](Inputs in) {
    const auto [normed, sum] = fused_rms_norm_residual(in[0], in[1], in[2], in[3], 1e-3);
    return sum + normed * 2;
  };
  expect_gradients(both, {leaf({2, 3, 5}, 1), leaf({2, 3, 5}, 2), leaf({5}, 3), leaf({5}, 4)});
  const auto first = [](Inputs in) { return std::get<0>(fused_rms_norm_residual(in[0], in[1], {}, in[2], 1e-3)); };
  expect_gradients(first, {leaf({2, 5}, 1), leaf({2, 5}, 2), leaf({5}, 4)});
  const auto second = [](Inputs in) { return std::get<1>(fused_rms_norm_residual(in[0], in[1], {}, in[2], 1e-3)); };
  const Tensor x = leaf({2, 5}, 1), r = leaf({2, 5}, 2), w = leaf({5}, 3);
  const Tensor in[] = {x, r, w};
  second(in).sum().backward();
  expect_values(x.grad(), Doubles(10, 1.0), 0);
  EXPECT_FALSE(w.grad().defined());
}

TEST(FusedRmsNormResidual, ZeroRowsStridesAndErrors) {
  const Tensor none = zeros({0, 3});
  EXPECT_EQ(std::get<0>(fused_rms_norm_residual(none, none, {}, ones({3}), 1e-5)).shape(), (Dims{0, 3}));
  const Tensor zero = zeros({1, 3}, f64);
  expect_values(std::get<0>(fused_rms_norm_residual(zero, zero, {}, {}, 0)), {nan, nan, nan});
  expect_values(std::get<0>(fused_rms_norm_residual(zero, zero, {}, {}, 1e-6)), {0, 0, 0});
  const Tensor x = spread({5, 4}).t(), r = spread({4, 1}, 1).expand({4, 5});
  expect_values(std::get<1>(fused_rms_norm_residual(x, r, {}, {}, 1e-5)), values(x + r), 0);
  EXPECT_THROW(fused_rms_norm_residual(x, r.narrow(1, 0, 4), {}, {}, 1e-5), ShapeError);
  EXPECT_THROW(fused_rms_norm_residual(x, r, ones({4}, f64), {}, 1e-5), ShapeError);
  EXPECT_THROW(fused_rms_norm_residual(x, r, {}, ones({5, 1}, f64), 1e-5), ShapeError);
  EXPECT_THROW(fused_rms_norm_residual(x, r.to(f32), {}, {}, 1e-5), DTypeError);
  EXPECT_THROW(fused_rms_norm_residual(x.to(i32), r.to(i32), {}, {}, 1e-5), DTypeError);
}

// ---- the MLP family -------------------------------------------------------------------------------------------------

struct Mlp {
  Tensor gate, up, down;
  Tensor proj() const { return cat({gate, up}, 1); }
};
Mlp literal_mlp() { return {identity(2), doubles({1, 1, 1, -1}, {2, 2}), doubles({1, 2}, {2, 1})}; }

TEST(FusedMlp, CaseOfTheSpecification) {
  const Mlp m = literal_mlp();
  const Tensor x = doubles({1, 2}, {1, 2});
  expect_values(fused_mlp(x, m.gate, m.up, m.down), {-1.3300126}, 1e-7);
  expect_values(fused_mlp(x, m.proj(), {}, m.down), {-1.3300126}, 1e-7);
  const Tensor gate = m.gate.t().contiguous(), up = m.up.t().contiguous(), down = m.down.t().contiguous();
  expect_values(fused_mlp(x, gate, up, down, true), {-1.3300126}, 1e-7);
  expect_values(fused_mlp(x.to(f32), m.gate.to(f32), m.up.to(f32), m.down.to(f32)), {-1.3300126}, 1e-6);
}

TEST(FusedMlp, EqualsItsCompositionForAnySizesLayoutsAndDTypes) {
  for (const DType dtype : {f64, f32, bf16, f16}) {
    for (const int64_t rows : {1, 2, 7, 8, 9, 17, 40, 300}) {
      for (const auto& [h, f] : {std::pair<int64_t, int64_t>{5, 3}, {64, 96}, {33, 600}}) {
        const Tensor x = spread({rows, h}, 1, -1, 1).to(dtype), gate = spread({h, f}, 2, -1, 1).to(dtype);
        const Tensor up = spread({h, f}, 3, -1, 1).to(dtype), down = spread({f, h}, 4, -.1, .1).to(dtype);
        const Tensor expected =
            matmul(silu(matmul(x.to(f64), gate.to(f64))) * matmul(x.to(f64), up.to(f64)), down.to(f64)).to(dtype);
        expect_close(fused_mlp(x, gate, up, down), expected);
        expect_close(fused_mlp(x, cat({gate, up}, 1), {}, down), expected);
        expect_close(fused_mlp(x, gate.t().contiguous(), up.t().contiguous(), down.t().contiguous(), true), expected);
      }
    }
  }
}

TEST(FusedMlp, TakesStridedAndRepeatedOperands) {
  const Tensor x = spread({7, 12}, 1).narrow(1, 1, 10), gate = spread({10, 13}, 2).narrow(1, 3, 8);
  const Tensor up = spread({1, 8}, 3).expand({10, 8}), down = spread({16, 5}, 4);
  const Tensor odd = down.reshape({8, 2, 5}).select(1, 1);
  const Tensor expected = matmul(swiglu(matmul(x, gate), matmul(x, up)), odd);
  expect_values(fused_mlp(x, gate, up, odd), values(expected), 1e-12);
  expect_values(fused_mlp(x.narrow(0, 0, 1).expand({9, 10}), gate, up, odd).narrow(0, 8, 1),
                values(expected.narrow(0, 0, 1)), 1e-12);
}

TEST(FusedMlp, EmptySizes) {
  const Tensor gate = ones({3, 4}), down = ones({4, 2});
  EXPECT_EQ(fused_mlp(zeros({0, 3}), gate, gate, down).shape(), (Dims{0, 2}));
  EXPECT_EQ(fused_mlp(zeros({2, 0, 3}), gate, gate, down).shape(), (Dims{2, 0, 2}));
  EXPECT_EQ(fused_mlp(ones({3}), gate, gate, down).shape(), Dims(2));
  expect_values(fused_mlp(ones({2, 3}), zeros({3, 0}), {}, zeros({0, 2})), {0, 0, 0, 0}, 0);
  expect_values(fused_mlp(zeros({2, 0}), zeros({0, 4}), {}, ones({2, 1})), {0, 0}, 0);
  EXPECT_EQ(fused_mlp(ones({2, 3}), gate, gate, zeros({4, 0})).shape(), (Dims{2, 0}));
}

TEST(FusedMlp, SiluOfMinusInfinityIsZeroAndNaNStays) {
  for (const DType dtype : {f32, f64}) {
    const Tensor one = ones({1, 1}, dtype);
    const auto of = [&](double gate) { return values(fused_mlp(full({1, 1}, gate, dtype), one, one * 0 + 0, one))[0]; };
    EXPECT_TRUE(std::isnan(of(nan)));
    const auto gated = [&](double gate) {
      const Tensor x = doubles({gate, 1}, {1, 2}).to(dtype), g = doubles({1, 0}, {2, 1}).to(dtype);
      const Tensor up = doubles({0, 1}, {2, 1}).to(dtype);
      return values(fused_mlp(x, g, up, one))[0];
    };
    EXPECT_NEAR(gated(-200), 0, 1e-30);
    EXPECT_EQ(gated(1e30), dtype == f64 ? 1e30 : static_cast<double>(1e30f));
  }
  // A gate that overflows to -infinity gives 0, also beside a large `up`.
  const Tensor x = doubles({1e20, 1}, {1, 2}).to(f32), gate = doubles({-1e20, 0}, {2, 1}).to(f32);
  const Tensor up = doubles({0, 1e30}, {2, 1}).to(f32);
  expect_values(fused_mlp(x, gate, up, ones({1, 1})), {0}, 0);
}

TEST(FusedMlp, GradientsToSecondOrderOfEachForm) {
  const auto apart = [](Inputs in) { return fused_mlp(in[0], in[1], in[2], in[3]); };
  expect_gradients(apart, {leaf({2, 3}, 1), leaf({3, 4}, 2), leaf({3, 4}, 3), leaf({4, 2}, 4)});
  const auto joined = [](Inputs in) { return fused_mlp(in[0], in[1], {}, in[2], true, Activation::gelu); };
  expect_gradients(joined, {leaf({2, 2, 3}, 1), leaf({8, 3}, 2), leaf({2, 4}, 4)});
}

TEST(FusedMlp, GradientsAreTheFormulasOfTheSpecification) {
  const Tensor x = leaf({3, 4}, 1), gate = leaf({4, 5}, 2), up = leaf({4, 5}, 3), down = leaf({5, 2}, 4);
  const Tensor g = spread({3, 2}, 5);
  const auto d = grad({fused_mlp(x, gate, up, down)}, {x, gate, up, down}, {g});
  const NoGradGuard unrecorded;
  const Tensor a = matmul(x, gate), b = matmul(x, up), s = sigmoid(a), dz = matmul(g, down.t());
  const Tensor db = silu(a) * dz, da = dz * b * s * (1 + a * (1 - s));
  expect_values(d[0], values(matmul(da, gate.t()) + matmul(db, up.t())), 1e-12);
  expect_values(d[1], values(matmul(x.t(), da)), 1e-12);
  expect_values(d[2], values(matmul(x.t(), db)), 1e-12);
  expect_values(d[3], values(matmul((silu(a) * b).t(), g)), 1e-12);
}

TEST(FusedMlp, AWeightThatIsGivenTwiceGetsBothGradients) {
  const Tensor x = leaf({2, 3}, 1), w = leaf({3, 3}, 2);
  const Tensor fused = fused_mlp(x, w, w, w), plain = matmul(swiglu(matmul(x, w), matmul(x, w)), w);
  const Doubles expected = values(grad({plain.sum()}, {w})[0]);
  expect_values(grad({fused.sum()}, {w}, {}, {.create_graph = true})[0], expected, 1e-12);
  expect_values(grad({fused_mlp(x, w, w, w).sum()}, {w})[0], expected, 1e-12);
}

TEST(FusedMlp, KeepsItsInputsAloneForBackward) {
  const Tensor x = randn({64, 32}).requires_grad_(), gate = randn({32, 128}), down = randn({128, 32});
  const Tensor y = fused_mlp(x, gate, gate, down);
  int64_t kept = 0;
  detail::visit_saved(*y.impl()->node, [&](const Tensor& t) { kept += t.numel(); });
  EXPECT_EQ(kept, x.numel() + 2 * gate.numel() + down.numel());
}

TEST(FusedMlp, RejectsInvalidArguments) {
  const Tensor x = ones({2, 3}), gate = ones({3, 4}), down = ones({4, 2});
  EXPECT_THROW(fused_mlp(x, ones({3, 5}), {}, down), ShapeError);
  EXPECT_THROW(fused_mlp(x, ones({4, 4}), {}, down), ShapeError);
  EXPECT_THROW(fused_mlp(x, gate, ones({3, 5}), down), ShapeError);
  EXPECT_THROW(fused_mlp(x, gate, gate, ones({3, 2})), ShapeError);
  EXPECT_THROW(fused_mlp(x, gate, gate, down, true), ShapeError);
  EXPECT_THROW(fused_mlp(ones({}), gate, gate, down), ShapeError);
  EXPECT_THROW(fused_mlp(x, gate, gate, down.to(f64)), DTypeError);
  EXPECT_THROW(fused_mlp(x.to(i32), gate.to(i32), gate.to(i32), down.to(i32)), DTypeError);
  EXPECT_THROW(fused_mlp(x, gate, gate, down, false, static_cast<Activation>(99)), ValueError);
}

TEST(FusedRmsMlp, CaseOfTheSpecification) {
  const Tensor proj = cat({identity(2), identity(2)}, 1), down = doubles({1, 2}, {2, 1});
  const Tensor x = doubles({3, 4}, {1, 2});
  expect_values(fused_rms_mlp(x, ones({2}, f64), proj, down, 0), {2.439781}, 1e-6);
}

TEST(FusedRmsMlpRes, HasTheBitsOfTheTwoOps) {
  for (const DType dtype : {f64, f32, bf16, f16}) {
    for (const int64_t rows : {1, 3, 20}) {
      const Tensor x = spread({rows, 40}, 1).to(dtype), r = spread({rows, 40}, 2).to(dtype);
      const Tensor w = spread({40}, 3).to(dtype), proj = spread({40, 120}, 4).to(dtype);
      const Tensor down = spread({60, 40}, 5).to(dtype);
      const auto [out, sum] = fused_rms_mlp_res(x, w, proj, down, r, 1e-5);
      expect_values(sum, values(x + r), 0);
      expect_values(out, values(fused_rms_mlp(x + r, w, proj, down, 1e-5)), 0);
      const Tensor written = r.clone();
      expect_values(fused_rms_mlp_res_(x, w, proj, down, written, 1e-5), values(out), 0);
      expect_values(written, values(sum), 0);
    }
  }
}

TEST(FusedRmsMlpRes, HasGradientsInBothForms) {
  const auto form = [](bool in_place) {
    return [in_place](Inputs in) {
      if (in_place) {
        const Tensor r = in[4] * 1;
        const Tensor out = fused_rms_mlp_res_(in[0], in[1], in[2], in[3], r, 1e-3);
        return out.sum() + square(r).sum();
      }
      const auto [out, r] = fused_rms_mlp_res(in[0], in[1], in[2], in[3], in[4], 1e-3);
      return out.sum() + square(r).sum();
    };
  };
  const std::vector<Tensor> in = {leaf({2, 3}, 1), leaf({3}, 2), leaf({3, 8}, 3), leaf({4, 2}, 4), leaf({2, 3}, 5)};
  expect_gradients(form(false), in);
  expect_gradients(form(true), in);
}

TEST(FusedRmsMlpRes, WritesNothingBeforeItsChecks) {
  const Tensor residual = zeros({2, 3}), x = ones({2, 3});
  EXPECT_THROW(fused_rms_mlp_res_(x, ones({3}), ones({3, 8}), ones({5, 2}), residual, 1e-5), ShapeError);
  EXPECT_THROW(fused_rms_mlp_res_(x, ones({4}), ones({3, 8}), ones({4, 2}), residual, 1e-5), ShapeError);
  EXPECT_THROW(fused_rms_mlp_res_(x.to(f64), ones({3}), ones({3, 8}), ones({4, 2}), residual, 1e-5), DTypeError);
  expect_values(residual, Doubles(6, 0), 0);
}

// ---- inputs of attention --------------------------------------------------------------------------------------------

struct Qkv {
  Tensor src, norm, weight, rope;
  int64_t heads, size;
};
Qkv some_qkv(DType dtype, int64_t b, int64_t s, int64_t h, int64_t heads, int64_t kv_heads, int64_t size,
             bool interleaved = false) {
  const Tensor at = SampleMaker(i64, {}, 9).indices({b, s}, 50);
  return {spread({b, s, h}, 1).to(dtype),
          spread({h}, 2).to(dtype),
          spread({(heads + 2 * kv_heads) * size, h}, 3, -.3, .3).to(dtype),
          rope_table(at, size, {}, interleaved, dtype == f64 ? f64 : f32),
          heads,
          size};
}

TEST(FusedRmsQkvRope, EqualsItsComposition) {
  for (const DType dtype : {f64, f32, bf16, f16}) {
    for (const auto& [b, s] : {std::pair<int64_t, int64_t>{1, 1}, {2, 3}, {3, 30}, {1, 600}}) {
      for (const bool interleaved : {false, true}) {
        const Qkv in = some_qkv(dtype, b, s, 33, 4, 2, 6, interleaved);
        const auto [q, k, v] = fused_rms_qkv_rope(in.src, in.norm, in.weight, in.rope, 1e-5, 6, 4, interleaved);
        const Tensor normed = rms_norm(in.src, {33}, in.norm, 1e-5);
        const Tensor all = linear(normed.to(f64), in.weight.to(f64)).reshape({b, s, 8, 6});
        expect_close(q, rotary_embedding(all.narrow(2, 0, 4), in.rope, interleaved).to(dtype));
        expect_close(k, rotary_embedding(all.narrow(2, 4, 2), in.rope, interleaved).to(dtype));
        expect_close(v, all.narrow(2, 6, 2).to(dtype));
      }
    }
  }
}

TEST(FusedRmsQkvRope, TheThreeLayoutsHaveTheSameBits) {
  for (const DType dtype : {f64, f32, bf16, f16}) {
    const Qkv in = some_qkv(dtype, 2, 11, 40, 6, 3, 8);
    const auto [q, k, v] = fused_rms_qkv_rope(in.src, in.norm, in.weight, in.rope, 1e-5, 8, 6);
    const auto [qt, kt, vt] = fused_rms_qkv_rope_transposed(in.src, in.norm, in.weight, in.rope, 1e-5, 8, 6);
    const auto [qs, kv] = fused_rms_qkv_rope_stacked(in.src, in.norm, in.weight, in.rope, 1e-5, 8, 6);
    EXPECT_EQ(qt.shape(), (Dims{2, 6, 11, 8}));
    EXPECT_EQ(kv.shape(), (Dims{2, 2, 11, 3, 8}));
    EXPECT_TRUE(qt.is_contiguous());
    expect_values(qt.transpose(1, 2), values(q), 0);
    expect_values(kt.transpose(1, 2), values(k), 0);
    expect_values(vt.transpose(1, 2), values(v), 0);
    expect_values(qs, values(q), 0);
    expect_values(kv.select(0, 0), values(k), 0);
    expect_values(kv.select(0, 1), values(v), 0);
  }
}

TEST(FusedRmsQkvRope, VIsUntouchedByPositions) {
  Qkv in = some_qkv(f32, 2, 5, 16, 2, 1, 4);
  const Tensor v = std::get<2>(fused_rms_qkv_rope(in.src, in.norm, in.weight, in.rope, 1e-5, 4, 2));
  const Tensor other = rope_table(full({2, 5}, 3, i64), 4);
  expect_values(std::get<2>(fused_rms_qkv_rope(in.src, in.norm, in.weight, other, 1e-5, 4, 2)), values(v), 0);
}

TEST(FusedRmsQkvRope, CaseOfTheSpecification) {
  // A norm that leaves [1, 2, 3, 4] as it is, and a weight that hands it on to q and k, and half of it to v.
  const Tensor src = doubles({1, 2, 3, 4}, {1, 1, 4}), norm = full({4}, std::sqrt(7.5), f64);
  const Tensor weight = cat({identity(4), identity(4), identity(4) / 2});
  const Tensor rope = rope_table(tensor(std::vector<int64_t>{1}), 4, {}, false, f64);
  const auto [q, k, v] = fused_rms_qkv_rope(src, norm, weight, rope, 0, 4, 1);
  expect_values(q, {-1.984111, 1.959901, 2.462378, 4.019800}, 1e-6);
  expect_values(k, {-1.984111, 1.959901, 2.462378, 4.019800}, 1e-6);
  expect_values(v, {.5, 1, 1.5, 2}, 1e-15);
}

TEST(FusedRmsQkvRope, GradientsOfEachLayout) {
  const Tensor rope = rope_table(tensor(std::vector<int64_t>{2, 5}), 2, {}, false, f64);
  const std::vector<Tensor> in = {leaf({1, 2, 3}, 1), leaf({3}, 2), leaf({8, 3}, 3)};
  const auto plain = [&](Inputs t) {
    const auto [q, k, v] = fused_rms_qkv_rope(t[0], t[1], t[2], rope, 1e-3, 2, 2);
    return q.sum() + square(k).sum() + (v * v * v).sum();
  };
  const auto transposed = [&](Inputs t) {
    const auto [q, k, v] = fused_rms_qkv_rope_transposed(t[0], t[1], t[2], rope, 1e-3, 2, 2);
    return square(q.select(2, 1)).sum() + k.select(2, 0).sum();
  };
  const auto stacked = [&](Inputs t) {
    const auto [q, kv] = fused_rms_qkv_rope_stacked(t[0], t[1], t[2], rope, 1e-3, 2, 2);
    return square(kv).sum() + q.select(2, 1).sum();
  };
  expect_gradients(plain, in);
  expect_gradients(transposed, in);
  expect_gradients(stacked, in);
  const auto by_rope = [&](Inputs t) { return std::get<0>(fused_rms_qkv_rope(t[0], t[1], t[2], t[3], 1e-3, 2, 2)); };
  expect_gradients(by_rope, {in[0], in[1], in[2], leaf({2, 1, 2, 1, 2}, 4)});
}

TEST(FusedRmsQkvRope, RejectsInvalidArguments) {
  const Qkv in = some_qkv(f32, 2, 3, 8, 4, 2, 2);
  const auto run = [&](const Tensor& src, const Tensor& weight, const Tensor& rope, int64_t size, int64_t heads) {
    return fused_rms_qkv_rope(src, in.norm, weight, rope, 1e-5, size, heads);
  };
  EXPECT_NO_THROW(run(in.src, in.weight, in.rope, 2, 4));
  EXPECT_THROW(run(in.src, in.weight, in.rope, 2, 3), ShapeError);
  EXPECT_THROW(run(in.src, in.weight, in.rope, 2, 8), ShapeError);
  EXPECT_THROW(run(in.src, in.weight, in.rope, 3, 4), ValueError);
  EXPECT_THROW(run(in.src, in.weight, in.rope, 0, 4), ValueError);
  EXPECT_THROW(run(in.src, ones({18, 8}), in.rope, 2, 4), ShapeError);
  EXPECT_THROW(run(in.src.select(0, 0), in.weight, in.rope, 2, 4), ShapeError);
  EXPECT_THROW(run(in.src, in.weight, ones({2, 2, 4, 1, 2}), 2, 4), ShapeError);
  EXPECT_THROW(run(in.src, in.weight.to(bf16), in.rope, 2, 4), DTypeError);
  const auto [q, k, v] = run(zeros({2, 0, 8}), in.weight, in.rope.narrow(2, 0, 0), 2, 4);
  EXPECT_EQ(q.shape(), (Dims{2, 0, 4, 2}));
}

}  // namespace
}  // namespace weft::testing
