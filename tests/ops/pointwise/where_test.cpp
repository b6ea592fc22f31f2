// where, masked_fill, clip and the ternary family: spec/indexing.md section 4.
#include <cmath>
#include <limits>

#include <weft/ops/gradcheck.hpp>

#include "ops/samples.hpp"

namespace weft::testing {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

Tensor mask(std::initializer_list<int> bits) { return tensor(bits).to(boolean); }
std::vector<double> v(const Tensor& t) { return t.to_vector<double>(); }
using Numbers = std::vector<double>;

TEST(Where, ChoosesAndBroadcasts) {
  const Tensor out = where(mask({1, 0, 1}), tensor({{1., 2., 3.}, {4., 5., 6.}}), tensor({-1., -2., -3.}));
  EXPECT_EQ(v(out), (Numbers{1, -2, 3, 4, -2, 6}));
  EXPECT_EQ(out.shape(), (Dims{2, 3}));
  EXPECT_EQ(v(where(tensor(true), tensor({1., 2.}), 0)), (Numbers{1, 2}));
  EXPECT_EQ(where(mask({1, 0}).view({2, 1}), tensor({1., 2., 3.}), tensor(0.)).shape(), (Dims{2, 3}));
}

TEST(Where, PromotesLikeOtherOps) {
  const Tensor m = mask({1, 0});
  EXPECT_EQ(where(m, 1, 0).dtype(), i64);
  EXPECT_EQ(where(m, 1., 0.).dtype(), f32);
  EXPECT_EQ(where(m, tensor({1., 2.}).to(bf16), 0.5).dtype(), bf16);
  EXPECT_EQ(where(m, tensor({1, 2}), tensor({1., 2.})).dtype(), f32);
  EXPECT_EQ(v(where(m, tensor({1, 2}), 0.5)), (Numbers{1, 0.5}));
  EXPECT_EQ(where(m, int64_t{9007199254740993}, 0).to_vector<int64_t>()[0], 9007199254740993);
}

TEST(Where, NothingLeaksFromTheOtherBranch) {
  const Tensor a = tensor({1., double(nan)}).requires_grad_(), b = tensor({double(inf), 2.}).requires_grad_();
  const Tensor out = where(mask({1, 0}), a, b);
  EXPECT_EQ(v(out), (Numbers{1, 2}));
  out.backward(tensor({3., double(inf)}));
  EXPECT_EQ(v(a.grad()), (Numbers{3, 0}));
  EXPECT_EQ(v(b.grad()), (Numbers{0, inf}));
}

TEST(Where, GradientsHaveTheOperandsShapes) {
  const Tensor a = ones({2, 1}).requires_grad_(), b = ones({}).requires_grad_();
  where(mask({1, 0, 1}), a, b).backward(tensor({{1., 2., 3.}, {4., 5., 6.}}));
  EXPECT_EQ(v(a.grad()), (Numbers{4, 10}));
  EXPECT_EQ(a.grad().shape(), (Dims{2, 1}));
  EXPECT_EQ(v(b.grad()), (Numbers{7}));
}

TEST(Where, ReportsWrongOperands) {
  const Tensor x = ones({2, 3});
  EXPECT_THROW(where(x, x, x), DTypeError);
  EXPECT_THROW(where(mask({1, 0}), x, x), ShapeError);
  EXPECT_THROW(where(mask({1, 0, 1}), x, ones({2})), ShapeError);
  EXPECT_THROW(where(Tensor(), x, x), ValueError);
  EXPECT_EQ(where(mask({1, 0, 1}), zeros({0, 3}), 1.).shape(), (Dims{0, 3}));
}

TEST(MaskedFill, GradientsOfSpec) {
  const Tensor g = tensor({{1., 2., 3.}, {4., 5., 6.}}), m = mask({1, 0, 1});
  for (bool with_x : {true, false}) {
    const Tensor x = ones({2, 3}).requires_grad_(with_x), value = tensor(7.).requires_grad_();
    masked_fill(x, m, value).backward(g);
    if (with_x) {
      EXPECT_EQ(v(x.grad()), (Numbers{0, 2, 0, 0, 5, 0}));
    }
    EXPECT_EQ(v(value.grad()), (Numbers{14}));
    EXPECT_EQ(value.grad().dim(), 0);
  }
  const Tensor column = ones({2, 1}).requires_grad_();
  masked_fill(column, m, 0).backward(g);
  EXPECT_EQ(v(column.grad()), (Numbers{2, 5}));
}

TEST(MaskedFill, TakesOneNumber) {
  const Tensor x = ones({3}), m = mask({1, 0, 1});
  for (const Tensor& value : {tensor({7.}), ones({3}), ones({1, 1}), ones({0})}) {
    EXPECT_THROW(masked_fill(x, m, value), ShapeError);
    EXPECT_THROW(x.masked_fill(m, value), ShapeError);
    EXPECT_THROW(masked_fill_(x, m, value), ShapeError);
    EXPECT_THROW(x.masked_fill_(m, value), ShapeError);
  }
  EXPECT_EQ(v(x), (Numbers{1, 1, 1}));
  // The assigned value may broadcast.
  const Tensor y = zeros({2, 3}), row = tensor({7., 8., 9.}).requires_grad_();
  y[mask({1, 0})] = row;
  EXPECT_EQ(v(y), (Numbers{7, 8, 9, 0, 0, 0}));
  y.backward(ones({2, 3}));
  EXPECT_EQ(v(row.grad()), (Numbers{1, 1, 1}));
  const Tensor z = zeros({2, 3});
  z[mask({1, 0})] = tensor({7.});
  EXPECT_EQ(v(z), (Numbers{7, 7, 7, 0, 0, 0}));
}

TEST(MaskedFill, InfinityAtUnselectedStaysThere) {
  const Tensor value = tensor(1.).requires_grad_();
  masked_fill(ones({3}), mask({1, 0, 1}), value).backward(tensor({2., double(inf), 3.}));
  EXPECT_EQ(v(value.grad()), (Numbers{5}));
}

TEST(MaskedFill, ShapesAndDtypes) {
  EXPECT_EQ(masked_fill(ones({2, 1}), mask({1, 0, 1}), 5.).shape(), (Dims{2, 3}));
  EXPECT_EQ(masked_fill(zeros({0, 3}), mask({1, 0, 1}), 5.).shape(), (Dims{0, 3}));
  const Tensor whole = masked_fill(tensor({1, 2, 3}), mask({0, 1, 0}), 9.7);
  EXPECT_EQ(whole.dtype(), i64);
  EXPECT_EQ(v(whole), (Numbers{1, 9, 3}));
  EXPECT_EQ(masked_fill(tensor({1, 2}), mask({1, 0}), int64_t{9007199254740993}).to_vector<int64_t>()[0],
            9007199254740993);
  EXPECT_THROW(masked_fill(ones({3}), ones({3}), 1.), DTypeError);
  EXPECT_THROW(masked_fill(ones({3}), ones({3}).to(u8), 1.), DTypeError);
  EXPECT_THROW(masked_fill(ones({3}), mask({1, 0}), 1.), ShapeError);
}

TEST(MaskedFill, InPlaceWritesThroughViews) {
  const Tensor base = zeros({3, 2});
  const Tensor view = base.transpose(0, 1);
  const uint32_t version = base.version();
  EXPECT_EQ(&masked_fill_(view, mask({1, 0, 1}), 4.), &view);
  EXPECT_EQ(v(base), (Numbers{4, 4, 0, 0, 4, 4}));
  EXPECT_GT(base.version(), version);
  EXPECT_THROW(masked_fill_(zeros({3}), mask({1, 0, 1}).view({3, 1}), 1.), ShapeError);
  EXPECT_THROW(masked_fill_(zeros({3}).expand({2, 3}), mask({1, 0, 1}), 1.), ValueError);
}

TEST(MaskedFill, InPlaceIsRecorded) {
  const Tensor x = tensor({1., 2., 3.}).requires_grad_(), value = tensor(5.).requires_grad_();
  EXPECT_THROW(masked_fill_(x, mask({1, 0, 0}), 1.), AutogradError);
  const Tensor y = x * 2;
  masked_fill_(y, mask({1, 0, 1}), value);
  EXPECT_EQ(v(y), (Numbers{5, 4, 5}));
  y.backward(tensor({1., 10., 100.}));
  EXPECT_EQ(v(x.grad()), (Numbers{0, 20, 0}));
  EXPECT_EQ(v(value.grad()), (Numbers{101}));
}

TEST(MaskedFill, InPlaceReadsOperandsThatShareItsMemory) {
  const Tensor bits = mask({1, 0, 1, 1});
  masked_fill_(bits, bits, false);
  EXPECT_EQ(v(bits), (Numbers{0, 0, 0, 0}));
  const Tensor x = tensor({0., 1., 2., 3.});
  masked_fill_(x, mask({0, 1, 1, 1}), x.select(0, 3));
  EXPECT_EQ(v(x), (Numbers{0, 3, 3, 3}));
  x[mask({1, 1, 1, 0})] = x.slice(0, 1);
  EXPECT_EQ(v(x), (Numbers{3, 3, 3, 3}));
}

TEST(Clip, TakesOneBoundOrTwo) {
  const Tensor x = tensor({-2., 0.5, double(nan), 9.});
  EXPECT_EQ(v(clip(x, -1, 1))[0], -1);
  EXPECT_TRUE(std::isnan(v(clip(x, -1, 1))[2]));
  EXPECT_EQ(v(clip(x, {}, 1))[3], 1);
  EXPECT_EQ(v(clip(x, 0.25, {}))[0], 0.25);
  EXPECT_THROW(clip(x, {}, {}), ValueError);
}

TEST(Clip, IntegersStayExact) {
  const Tensor x = tensor({int64_t{-9007199254740993}, int64_t{9007199254740993}});
  EXPECT_EQ(clip(x, 0, {}).to_vector<int64_t>(), (std::vector<int64_t>{0, 9007199254740993}));
  const Tensor bytes = tensor({0, 100, 255}).to(u8);
  EXPECT_EQ(clip(bytes, -5, 300).dtype(), u8);
  EXPECT_EQ(v(clip(bytes, -5, 300)), (Numbers{0, 100, 255}));
  EXPECT_EQ(v(clip(bytes, 10, 200)), (Numbers{10, 100, 200}));
  EXPECT_EQ(clip(bytes, 0.5, {}).dtype(), f32);
}

TEST(Clamp, GradientIsZeroOutsideAndGoesToTheBound) {
  const Tensor x = tensor({-2., 0.5, 3.}).requires_grad_(), low = tensor(-1.).requires_grad_(),
               high = tensor(1.).requires_grad_();
  clamp(x, low, high).backward(tensor({1., 10., 100.}));
  EXPECT_EQ(v(x.grad()), (Numbers{0, 10, 0}));
  EXPECT_EQ(v(low.grad()), (Numbers{1}));
  EXPECT_EQ(v(high.grad()), (Numbers{100}));
  const Tensor edge = tensor({-1., 1.}).requires_grad_();
  clip(edge, -1, 1).sum().backward();
  EXPECT_EQ(v(edge.grad()), (Numbers{1, 1}));
}

TEST(Addcmul, SavesOnlyOperandsThatGradientsRead) {
  const Tensor a = tensor({1., 2.}).requires_grad_(), b = tensor({3., 4.}), c = tensor({5., 6.});
  const Tensor out = addcmul(a, b, c);
  EXPECT_EQ(v(out), (Numbers{16, 26}));
  b.fill_(0);
  out.sum().backward();
  EXPECT_EQ(v(a.grad()), (Numbers{1, 1}));
}

}  // namespace
}  // namespace weft::testing
