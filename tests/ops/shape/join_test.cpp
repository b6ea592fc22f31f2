// cat, stack, repeat, tile.
#include <weft/ops/join.hpp>

#include <weft/autograd/mode.hpp>
#include <weft/ops/subscript.hpp>

#include "ops/samples.hpp"

namespace weft::testing {
namespace {

using Numbers = std::vector<double>;
Numbers v(const Tensor& t) { return t.to_vector<double>(); }

TEST(Cat, JoinsAlongAnyDimension) {
  const Tensor a = tensor({{1., 2.}, {3., 4.}}), b = tensor({{5., 6.}});
  EXPECT_EQ(v(cat({a, b})), (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(v(cat({a, b.t()}, 1)), (Numbers{1, 2, 5, 3, 4, 6}));
  EXPECT_EQ(v(cat({a, b.t()}, -1)), (Numbers{1, 2, 5, 3, 4, 6}));
  EXPECT_EQ(v(cat({a})), v(a));
  EXPECT_FALSE(cat({a}).shares_storage(a));
}

TEST(Cat, PassesOverEmptyVectors) {
  const Tensor a = tensor({{1., 2.}}), nothing = zeros({0});
  EXPECT_EQ(cat({nothing, a, nothing}, 1).shape(), (Dims{1, 2}));
  EXPECT_EQ(cat({nothing, nothing}).shape(), (Dims{0}));
  EXPECT_EQ(cat({zeros({0, 2}), a}).shape(), (Dims{1, 2}));
  EXPECT_EQ(cat({tensor({1., 2.}), nothing}).shape(), (Dims{2}));
  EXPECT_THROW(cat({zeros({0, 3}), a}), ShapeError);
}

TEST(Cat, Promotes) {
  EXPECT_EQ(cat({tensor({1}), tensor({1.5})}).dtype(), f32);
  EXPECT_EQ(v(cat({tensor({1}), tensor({1.5})})), (Numbers{1, 1.5}));
  EXPECT_EQ(cat({ones({1}, f16), ones({1}, bf16)}).dtype(), f32);
  EXPECT_EQ(cat({ones({1}, boolean), ones({1}, u8)}).dtype(), u8);
}

TEST(Cat, GradientsArePartsInTheOperandsDtype) {
  const Tensor a = ones({1, 2}).requires_grad_(), b = ones({2, 2}, f64).requires_grad_(), c = ones({1, 2});
  const Tensor out = cat({a, c, b});
  EXPECT_EQ(out.dtype(), f64);
  out.backward(arange(8).to(f64).view({4, 2}));
  EXPECT_EQ(v(a.grad()), (Numbers{0, 1}));
  EXPECT_EQ(a.grad().dtype(), f32);
  EXPECT_EQ(v(b.grad()), (Numbers{4, 5, 6, 7}));
  EXPECT_FALSE(c.grad().defined());
}

TEST(Cat, TheSameTensorTwice) {
  const Tensor a = tensor({1., 2.}).requires_grad_();
  cat({a, a}).backward(tensor({1., 2., 10., 20.}));
  EXPECT_EQ(v(a.grad()), (Numbers{11, 22}));
}

TEST(Cat, ReportsWrongOperands) {
  EXPECT_THROW(cat(std::span<const Tensor>()), ValueError);
  EXPECT_THROW(cat({tensor(1.), tensor(2.)}), ShapeError);
  EXPECT_THROW(cat({ones({2, 2}), ones({2, 3})}), ShapeError);
  EXPECT_THROW(cat({ones({2, 2}), ones({2})}), ShapeError);
  EXPECT_THROW(cat({ones({2}), ones({2})}, 1), IndexError);
  EXPECT_THROW(cat({ones({2}), Tensor()}), ValueError);
  EXPECT_THROW(cat({ones({2}), empty({2}, Device("meta"))}), DeviceError);
  try {
    cat({ones({2, 2}), ones({2, 3})});
  } catch (const ShapeError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("[cat] tensor 1 has shape [2, 3], the first [2, 2]"), std::string::npos) << text;
    EXPECT_NE(text.find("join_test.cpp:"), std::string::npos) << text;
  }
}

TEST(Stack, AddsADimension) {
  const Tensor a = tensor({1., 2.}), b = tensor({3., 4.});
  EXPECT_EQ(v(stack({a, b})), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(v(stack({a, b}, 1)), (Numbers{1, 3, 2, 4}));
  EXPECT_EQ(stack({a, b}, -1).shape(), (Dims{2, 2}));
  EXPECT_EQ(v(stack({tensor(1.), tensor(2.)})), (Numbers{1, 2}));
  EXPECT_EQ(stack({zeros({0, 3}), zeros({0, 3})}, 1).shape(), (Dims{0, 2, 3}));
  EXPECT_THROW(stack({a, ones({3})}), ShapeError);
  EXPECT_THROW(stack({a, b}, 2), IndexError);
  EXPECT_THROW(stack(std::span<const Tensor>()), ValueError);
}

TEST(Stack, GradientsAreSlices) {
  const Tensor a = ones({2}).requires_grad_(), b = ones({2}).requires_grad_();
  stack({a, b}, 1).backward(tensor({{1., 2.}, {3., 4.}}));
  EXPECT_EQ(v(a.grad()), (Numbers{1, 3}));
  EXPECT_EQ(v(b.grad()), (Numbers{2, 4}));
}

TEST(Stack, SecondDerivatives) {
  const Tensor a = tensor({1., 2.}).requires_grad_(), b = tensor({3., 4.}).requires_grad_();
  const Tensor y = square(stack({a, b})).sum();
  const Tensor first = grad({y}, {a}, {}, {.create_graph = true})[0];
  EXPECT_EQ(v(first), (Numbers{2, 4}));
  EXPECT_EQ(v(grad({first.sum()}, {a})[0]), (Numbers{2, 2}));
}

TEST(Repeat, LaysCopiesSideBySide) {
  const Tensor x = tensor({{1., 2.}}).requires_grad_();
  EXPECT_EQ(v(repeat(x, {2, 2})), (Numbers{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(repeat(x, {3, 1, 2}).shape(), (Dims{3, 1, 4}));
  EXPECT_EQ(repeat(x, {0, 1}).shape(), (Dims{0, 2}));
  EXPECT_FALSE(repeat(x, {1, 1}).shares_storage(x));
  repeat(x, {3, 1}).sum().backward();
  EXPECT_EQ(v(x.grad()), (Numbers{3, 3}));
  EXPECT_EQ(v(tile(x, {2})), (Numbers{1, 2, 1, 2}));
  EXPECT_THROW(repeat(x, {2}), ShapeError);
  EXPECT_THROW(repeat(x, {1, -1}), ValueError);
}

TEST(Join, SizesOfTheResultNeverWrap) {
  constexpr int64_t large = int64_t{1} << 62;
  const Tensor wide = ones({1}, boolean).expand({large}), x = ones({4});
  EXPECT_THROW(cat({wide, wide, wide, wide}), ShapeError);
  EXPECT_THROW(cat({wide, wide}), ShapeError);
  EXPECT_THROW(stack({wide, wide, wide, wide}), ShapeError);
  EXPECT_THROW(repeat(x, {large}), ShapeError);
  EXPECT_THROW(repeat(x, {large, large}), ShapeError);
  EXPECT_THROW(tile(x, {INT64_MAX}), ShapeError);
}

// Nodes count their edges and results in 16 bits.
TEST(Join, MoreOperandsThanANodeHoldsAreNotRecorded) {
  const Tensor x = ones({1}).requires_grad_();
  const std::vector<Tensor> many(65536, x);
  EXPECT_THROW(cat(many), AutogradError);
  {
    const NoGradGuard unrecorded;
    EXPECT_EQ(cat(many).numel(), 65536);
  }
  cat(std::span(many).subspan(1)).sum().backward();
  EXPECT_EQ(x.grad().item<float>(), 65535);
  const Tensor rows = ones({65536}).requires_grad_();
  EXPECT_THROW(rows.unbind(), AutogradError);
  rows.narrow(0, 1, 65535).unbind()[65534].backward();
  EXPECT_EQ(rows.grad()[65535].item<float>(), 1);
}

}  // namespace
}  // namespace weft::testing
