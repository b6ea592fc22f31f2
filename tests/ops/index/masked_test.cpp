// Selecting by masks, coordinates and counts.
#include <weft/backends/dispatch.hpp>
#include <weft/ops/masked.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

Tensor mask(std::initializer_list<int> bits) { return tensor(bits).to(boolean); }
Tensor mask(std::initializer_list<std::initializer_list<int>> bits) { return tensor(bits).to(boolean); }
constexpr DType every_type[] = {boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64};

TEST(MaskedSelect, KeepsRowMajorOrderAndBroadcasts) {
  const Tensor x = doubles({1, 2, 3, 4, 5, 6}, {2, 3});
  expect_values(masked_select(x, mask({{0, 1, 0}, {1, 0, 1}})), {2, 4, 6});
  expect_values(masked_select(x, mask({1, 0, 1})), {1, 3, 4, 6});
  expect_values(masked_select(x.t(), mask({1, 0})), {1, 2, 3});
  expect_values(masked_select(doubles({1, 2}), mask({{1, 1}, {0, 1}})), {1, 2, 2});
  expect_values(x.masked_select(x > 4), {5, 6});
  expect_values(masked_select(doubles({7}, {}), tensor(true)), {7});
  EXPECT_EQ(masked_select(doubles({7}, {}), tensor(false)).shape(), Dims(0));
  EXPECT_EQ(masked_select(x, mask({0, 0, 0})).shape(), Dims(0));
  EXPECT_EQ(masked_select(zeros({0, 3}), mask({1, 1, 1})).shape(), Dims(0));
  EXPECT_EQ(masked_select(zeros({2, 3}), zeros({0, 1, 1}, boolean)).shape(), Dims(0));
}

TEST(MaskedSelect, TakesEveryType) {
  for (const DType t : every_type) {
    const Tensor out = masked_select(tensor({1, 0, 1, 0}).to(t), mask({1, 1, 0, 0}));
    EXPECT_EQ(out.dtype(), t);
    expect_values(out, {1, 0});
  }
}

TEST(MaskedSelect, GradientGoesToSelectedElements) {
  const Tensor x = doubles({1, nan, infinity}).requires_grad_();
  masked_select(x, mask({1, 0, 0})).backward(doubles({5}));
  expect_values(x.grad(), {5, 0, 0});
  const Tensor wide = leaf({2, 1});
  masked_select(wide, mask({1, 0, 1})).backward(doubles({1, 10, 100, 1000}));
  expect_values(wide.grad(), {11, 1100});
  const Tensor none = leaf({0, 2});
  masked_select(none, mask({1, 0})).backward(zeros({0}, f64));
  EXPECT_EQ(none.grad().shape(), Dims({0, 2}));
  expect_gradients(
      [](Inputs in) {
        return square(masked_select(in[0] * in[0], mask({1, 0}).view({2, 1})));
      },
      {leaf({2, 3})});
}

TEST(MaskedSelect, NoticesThatTheMaskWasWrittenSince) {
  const Tensor x = leaf({2}), m = mask({1, 0});
  const Tensor out = masked_select(x * 1, m);
  m.fill_(true);
  EXPECT_THROW(out.backward(ones({1}, f64)), AutogradError);
}

TEST(MaskedSelect, Errors) {
  const Tensor x = spread({2, 3});
  EXPECT_THROW(masked_select(x, ones({3}, u8)), DTypeError);
  EXPECT_THROW(masked_select(x, mask({1, 0})), ShapeError);
  EXPECT_THROW(masked_select(x, Tensor()), ValueError);
  EXPECT_THROW(masked_select(Tensor(), mask({1})), ValueError);
  EXPECT_THROW(masked_select(x, empty({3}, {boolean, Device("meta")})), DeviceError);
  EXPECT_THROW(masked_select(empty({3}, Device("meta")), empty({3}, {boolean, Device("meta")})), NotImplementedError);
}

TEST(MaskedSelect, OperandsThatBroadcastToTooManyElementsAreAnError) {
  const Tensor column = ones({1, 1}, boolean).expand({int64_t{1} << 40, 1});
  EXPECT_THROW(masked_select(column, column.t()), ShapeError);
  EXPECT_THROW(masked_scatter(column, column.t(), ones({1}, boolean)), ShapeError);
}

TEST(MaskedScatter, FillsThePlacesInOrder) {
  const Tensor x = doubles({0, 0, 0, 0, 0, 0}, {2, 3});
  expect_values(masked_scatter(x, mask({{0, 1, 0}, {1, 0, 1}}), doubles({1, 2, 3, 4})), {0, 1, 0, 2, 0, 3});
  expect_values(masked_scatter(x, mask({0, 1, 1}), doubles({1, 2, 3, 4}, {2, 2}).t()), {0, 1, 3, 0, 2, 4});
  expect_values(masked_scatter(doubles({1, 2}, {2, 1}), mask({1, 0}), doubles({7, 8})), {7, 1, 8, 2});
  expect_values(x, {0, 0, 0, 0, 0, 0});
  expect_values(masked_scatter(doubles({1}, {}), tensor(true), doubles({5, 6})), {5});
  expect_values(masked_scatter(doubles({1}, {}), tensor(false), zeros({0}, f64)), {1});
  EXPECT_EQ(masked_scatter(zeros({0, 2}), mask({1, 1}), zeros({0})).shape(), Dims({0, 2}));
  for (const DType t : every_type) {
    expect_values(masked_scatter(zeros({3}, boolean).to(t), mask({1, 0, 1}), tensor({0, 1}).to(t)), {0, 0, 1});
  }
}

TEST(MaskedScatter, InPlaceThroughAView) {
  const Tensor x = zeros({2, 3}, f64);
  EXPECT_EQ(&masked_scatter_(x, mask({1, 0, 1}), doubles({1, 2, 3, 4})), &x);
  expect_values(x, {1, 0, 2, 3, 0, 4});
  masked_scatter_(x.t(), mask({0, 1}), doubles({7, 8, 9}));
  expect_values(x, {1, 0, 2, 7, 8, 9});
  masked_scatter_(x, mask({1, 1, 1}), x.t());
  expect_values(x, {1, 7, 0, 8, 2, 9});
}

TEST(MaskedScatter, GradientsOfBothOperands) {
  const Tensor x = doubles({nan, 2, infinity}).requires_grad_(), source = leaf({2, 2});
  masked_scatter(x, mask({1, 0, 1}), source).backward(doubles({infinity, 10, 100}));
  expect_values(x.grad(), {0, 10, 0});
  expect_values(source.grad(), {infinity, 100, 0, 0});
  EXPECT_EQ(source.grad().shape(), Dims({2, 2}));
  expect_gradients(
      [](Inputs in) {
        const Tensor y = in[0] * in[0];
        masked_scatter_(y.select(0, 1), mask({1, 0, 1}), square(in[1]));
        return y * masked_scatter(in[0], mask({1, 0}).view({2, 1}), in[1]);
      },
      {leaf({2, 3}), leaf({4}, 1)});
}

TEST(MaskedScatter, LeavesTheTargetAloneOnErrors) {
  const Tensor x = doubles({1, 2, 3});
  const uint32_t version = x.version();
  EXPECT_THROW(masked_scatter_(x, mask({1, 1, 1}), doubles({1, 2})), ShapeError);
  EXPECT_THROW(masked_scatter_(x, mask({{1, 1, 1}, {1, 1, 1}}), zeros({6}, f64)), ShapeError);
  EXPECT_THROW(masked_scatter_(x, mask({1, 0}), doubles({1, 2})), ShapeError);
  EXPECT_THROW(masked_scatter_(x, ones({3}), doubles({1, 2, 3})), DTypeError);
  EXPECT_THROW(masked_scatter_(x, mask({1, 1, 1}), ones({3})), DTypeError);
  EXPECT_THROW(masked_scatter_(x.expand({2, 3}), mask({1, 1, 1}), zeros({6}, f64)), ValueError);
  EXPECT_THROW(masked_scatter_(leaf({3}), mask({1, 1, 1}), zeros({3}, f64)), AutogradError);
  EXPECT_THROW(masked_scatter(ones({2}), tensor(true), ones({1})), ShapeError);
  expect_values(x, {1, 2, 3});
  EXPECT_EQ(x.version(), version);
}

TEST(Nonzero, ReturnsCoordinatesInOrder) {
  const Tensor x = doubles({0, 1, 0, nan, 0, -2}, {2, 3});
  EXPECT_EQ(nonzero(x).shape(), Dims({3, 2}));
  EXPECT_EQ(nonzero(x).dtype(), i64);
  expect_values(nonzero(x), {0, 1, 1, 0, 1, 2});
  expect_values(nonzero(x.t()), {0, 1, 1, 0, 2, 1});
  expect_values(argwhere(x.slice(1, {}, {}, -1)), {0, 1, 1, 0, 1, 2});
  expect_values(nonzero(doubles({-0.0, 0.5})), {1});
  EXPECT_EQ(nonzero(tensor(3.)).shape(), Dims({1, 0}));
  EXPECT_EQ(nonzero(tensor(0.)).shape(), Dims({0, 0}));
  EXPECT_EQ(nonzero(zeros({2, 0, 3})).shape(), Dims({0, 3}));
  EXPECT_EQ(nonzero(zeros({4})).shape(), Dims({0, 1}));
  for (const DType t : every_type) expect_values(nonzero(tensor({0, 1, 0, 1}).to(t)), {1, 3});
  expect_values(weft::where(x)[1], {1, 0, 2});
  EXPECT_EQ(weft::where(tensor(3.)).size(), 1u);
  EXPECT_THROW(nonzero(Tensor()), ValueError);
}

TEST(CountNonzero, OverAllAndSomeDimensions) {
  const Tensor x = doubles({0, 1, 0, nan, 0, -2}, {2, 3});
  EXPECT_EQ(count_nonzero(x).item<int64_t>(), 3);
  EXPECT_EQ(count_nonzero(x).dtype(), i64);
  expect_values(count_nonzero(x, 0), {1, 1, 1});
  expect_values(count_nonzero(x, -1), {1, 2});
  EXPECT_EQ(count_nonzero(x, {0, 1}).shape(), Dims());
  EXPECT_EQ(count_nonzero(mask({1, 1, 0})).item<int64_t>(), 2);
  EXPECT_EQ(count_nonzero(zeros({0})).item<int64_t>(), 0);
  EXPECT_EQ(count_nonzero(tensor(5).to(u8)).item<int64_t>(), 1);
  EXPECT_EQ(count_nonzero(x, 1, true).shape(), Dims({2, 1}));
  EXPECT_THROW(count_nonzero(x, 2), IndexError);
}

// The kernel table of the CPU without kernels that a device may lack.
class WithoutMaskKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    row_.count_nonzero = nullptr;
    row_.nonzero = nullptr;
    row_.masked_select = nullptr;
    row_.masked_scatter = nullptr;
  }
  void TearDown() override { row_ = saved_; }

 private:
  KernelTable& row_ = kernel_tables[static_cast<int>(DeviceType::cpu)];
  const KernelTable saved_ = row_;
};

TEST_F(WithoutMaskKernels, OpsAreComposedOfOthers) {
  const Tensor x = doubles({0, 1, 0, nan, 0, -2}, {2, 3}), m = mask({{0, 1, 0}, {1, 0, 1}});
  expect_values(nonzero(x), {0, 1, 1, 0, 1, 2});
  expect_values(nonzero(x.t()), {0, 1, 1, 0, 2, 1});
  EXPECT_EQ(nonzero(tensor(1.)).shape(), Dims({1, 0}));
  expect_values(masked_select(x, m), {1, nan, -2});
  expect_values(masked_select(doubles({1, 2}), mask({{1, 1}, {0, 1}})), {1, 2, 2});
  expect_values(masked_scatter(x, m, doubles({7, 8, 9, 10})), {0, 7, 0, 8, 0, 9});
  expect_values(masked_scatter(doubles({1, 2}, {2, 1}), mask({1, 0}), doubles({7, 8})), {7, 1, 8, 2});
  masked_scatter_(x.t(), mask({0, 1}), doubles({7, 8, 9}));
  expect_values(x, {0, 1, 0, 7, 8, 9});
  EXPECT_EQ(masked_select(x, mask({0, 0, 0})).shape(), Dims(0));
  expect_gradients([&](Inputs in) { return square(masked_scatter(in[0], m, masked_select(square(in[0]), m))); },
                   {leaf({2, 3})});
}

}  // namespace
}  // namespace weft::testing
