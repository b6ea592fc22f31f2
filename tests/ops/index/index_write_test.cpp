// Slices along one dimension: copied, filled, taken, put.
#include <weft/ops/index.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

constexpr DType every_type[] = {boolean, u8,   i8,  u16, i16,       u32,     i32,         u64,         i64,
                                f16,     bf16, f32, f64, f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz, f8_e8m0fnu};

TEST(IndexCopy, CasesOfTheSpecification) {
  const Tensor x = zeros({3}, f64).requires_grad_(), source = doubles({1, 2, 3}).requires_grad_();
  const Tensor out = index_copy(x, 0, tensor({2, 0, 2}), source);
  expect_values(out, {2, 0, 3});
  out.backward(doubles({1, 10, 100}));
  expect_values(x.grad(), {0, 10, 0});
  expect_values(source.grad(), {0, 1, 100});
}

TEST(IndexCopy, AlongEveryDimensionInEveryType) {
  const Dims shape = {2, 3, 2, 4};
  for (const DType t : every_type) {
    const Tensor x = (arange(48) - arange(48) / 2 * 2.0).view(shape).to(t);
    for (int dim = 0; dim < 4; ++dim) {
      for (const int64_t at : {int64_t{0}, int64_t{1}, shape[dim] - 1}) {
        Dims part = shape;
        part[dim] = 1;
        const Tensor out = index_copy(x, dim - 4, tensor({at}), ones(part).to(t));
        EXPECT_EQ(out.dtype(), t);
        const Tensor expected = x.to(f64);
        expected.narrow(dim, at, 1).fill_(1);
        expect_values(out.to(f64), values(expected));
      }
    }
  }
}

TEST(IndexCopy, ScalarsAndEmptyIndices) {
  expect_values(index_copy(doubles({5}, {}), 0, tensor(0), doubles({6}, {})), {6});
  EXPECT_EQ(index_copy(doubles({5}, {}), -1, tensor({0, 0}), doubles({6, 7})).shape(), Dims());
  expect_values(index_copy(doubles({5}, {}), -1, tensor({0, 0}), doubles({6, 7})), {7});
  expect_values(index_copy(doubles({5}, {}), 0, zeros({0}, i64), zeros({0}, f64)), {5});
  expect_values(index_copy(doubles({1, 2}), 0, tensor(1), doubles({9}, {})), {1, 9});
  expect_values(index_copy(doubles({1, 2}), 0, zeros({0}, i32), zeros({0}, f64)), {1, 2});
  EXPECT_EQ(index_copy(zeros({0, 3}), 1, tensor({2, 0}), zeros({0, 2})).shape(), Dims({0, 3}));
  expect_gradients([](Inputs in) { return square(index_copy(in[0], 0, tensor({0}), square(in[1]))); },
                   {leaf({}), leaf({1}, 1)});
  expect_gradients(
      [](Inputs in) {
        return square(index_copy(in[0], 0, tensor({0, 0}), square(in[1])));
      },
      {leaf({}), leaf({2}, 1)});
}

TEST(IndexCopy, ReadsSharedMemoryFirst) {
  const Tensor x = doubles({0, 1, 2, 3});
  index_copy_(x, 0, tensor({1, 2, 3}), x.slice(0, 0, 3));
  expect_values(x, {0, 0, 1, 2});
  const Tensor order = tensor({2, 0, 1});
  index_copy_(order, 0, order, tensor({5, 6, 7}));
  expect_values(order, {6, 7, 5});
}

TEST(IndexCopy, LeavesTheTargetAloneOnErrors) {
  const Tensor x = doubles({1, 2, 3});
  const uint32_t version = x.version();
  EXPECT_THROW(index_copy_(x, 0, tensor({0, 3}), doubles({1, 1})), IndexError);
  EXPECT_THROW(index_copy_(x, 0, tensor({0, -4}), doubles({1, 1})), IndexError);
  EXPECT_THROW(index_copy_(x, 1, tensor({0}), doubles({1})), IndexError);
  EXPECT_THROW(index_copy_(x, 0, tensor({0}), doubles({1, 1})), ShapeError);
  EXPECT_THROW(index_copy_(x, 0, tensor({{0}}), doubles({1})), ShapeError);
  EXPECT_THROW(index_copy_(x, 0, tensor({0}), doubles({1}, {1, 1})), ShapeError);
  EXPECT_THROW(index_copy_(x, 0, tensor({0}), ones({1})), DTypeError);
  EXPECT_THROW(index_copy_(x, 0, tensor({0.}), doubles({1})), DTypeError);
  EXPECT_THROW(index_copy_(x.expand({2, 3}), 0, tensor({0}), zeros({1, 3}, f64)), ValueError);
  EXPECT_THROW(index_copy_(leaf({3}), 0, tensor({0}), doubles({1})), AutogradError);
  EXPECT_THROW(index_copy(zeros({0, 3}), 1, tensor({3}), zeros({0, 1})), IndexError);
  expect_values(x, {1, 2, 3});
  EXPECT_EQ(x.version(), version);
  try {
    index_copy_(x, 0, tensor({5}), doubles({1}));
  } catch (const IndexError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("[index_copy_] index 5 is out of range for axis 0 of size 3"), std::string::npos) << text;
    EXPECT_NE(text.find("index_write_test.cpp:"), std::string::npos) << text;
  }
}

TEST(IndexCopy, InPlaceGradients) {
  expect_gradients(
      [](Inputs in) {
        const Tensor y = in[0] * in[0];
        index_copy_(y.t(), 0, tensor({2, 0}), square(in[1]));
        return y * y;
      },
      {leaf({2, 3}), leaf({2, 2}, 1)});
}

TEST(IndexFill, FillsSlices) {
  const Tensor x = doubles({1, 2, 3, 4, 5, 6}, {2, 3});
  expect_values(index_fill(x, 1, tensor({0, -1}), 7), {7, 2, 7, 7, 5, 7});
  expect_values(index_fill(x, 0, tensor(1), doubles({0.5}, {})), {1, 2, 3, .5, .5, .5});
  expect_values(index_fill(doubles({1}, {}), 0, tensor({0}), 2), {2});
  expect_values(x, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(index_fill(tensor({1, 2}), 0, tensor({0}), int64_t{9007199254740993}).to_vector<int64_t>()[0],
            9007199254740993);
  expect_values(index_fill(tensor({1, 2}), 0, tensor({0}), 2.7), {2, 2});
  for (const DType t : every_type) expect_values(index_fill(zeros({2}).to(t), 0, tensor({1}), 1).to(f64), {0, 1});
  index_fill_(x.select(0, 1), 0, tensor({1}), -1);
  expect_values(x, {1, 2, 3, 4, -1, 6});
  EXPECT_THROW(index_fill_(x, 0, tensor({2}), 1), IndexError);
  EXPECT_THROW(index_fill_(x, 0, tensor({0}), doubles({1})), ShapeError);
  EXPECT_THROW(index_fill_(leaf({2}), 0, tensor({0}), 1), AutogradError);
}

TEST(IndexFill, GradientOfTheValueIsASum) {
  const Tensor x = doubles({nan, 2, 3}).requires_grad_(), value = leaf({});
  index_fill(x, 0, tensor({0, 2, 0}), value).backward(doubles({1, 10, 100}));
  expect_values(x.grad(), {0, 10, 0});
  expect_values(value.grad(), {101});
  expect_gradients(
      [](Inputs in) {
        const Tensor y = in[0] * in[0];
        index_fill_(y.t(), -1, tensor({1, 1}), square(in[1]));
        return y * index_fill(in[0], 1, tensor({0, 2, 0}), in[1]);
      },
      {leaf({2, 3}), leaf({}, 1)});
}

TEST(Take, CasesOfTheSpecification) {
  const Tensor x = doubles({1, 2, 3, 4, 5, 6}, {3, 2}).requires_grad_();
  expect_values(take(x, tensor({2, 0}), 0), {5, 6, 1, 2});
  const Tensor out = take(x, tensor({1, 1}), 1);
  expect_values(out, {2, 2, 4, 4, 6, 6});
  EXPECT_EQ(take(x, tensor({{0}, {2}}), 0).shape(), Dims({2, 1, 2}));
  take(x, tensor({1, 1}), 0).backward(ones({2, 2}, f64));
  expect_values(x.grad(), {0, 0, 2, 2, 0, 0});
}

TEST(Take, FlatAndAlongEveryAxis) {
  const Tensor x = spread({2, 3, 4});
  const Doubles all = values(x);
  expect_values(take(x, tensor({{0, -1}, {5, 23}})), {all[0], all[23], all[5], all[23]});
  expect_values(take(x.transpose(0, 2), tensor({1, 7})), {all[12], all[13]});
  for (int axis = -3; axis < 3; ++axis) {
    const int d = (axis + 3) % 3;
    EXPECT_EQ(take(x, zeros({}, i32), axis).shape(), x.select(d, 0).shape());
    const Tensor two = take(x, tensor({{1}, {0}}).to(i32), axis);
    Dims shape = x.shape();
    shape[d] = 2;
    shape.insert(d + 1, 1);
    EXPECT_EQ(two.shape(), shape);
    expect_values(two.select(d, 0).squeeze(d), values(x.select(d, 1)));
    expect_gradients([&](Inputs in) { return square(take(in[0], tensor({{1, 0, 1}}), axis)); }, {leaf({2, 3, 4})});
  }
  expect_values(take(doubles({3}, {}), tensor({0, -1})), {3, 3});
  expect_values(take(doubles({3}, {}), tensor(0), 0), {3});
  EXPECT_EQ(take(x, zeros({0, 2}, i64), 1).shape(), Dims({2, 0, 2, 4}));
  EXPECT_EQ(take(zeros({0, 3}), zeros({0}, i64), 0).shape(), Dims({0, 3}));
}

TEST(Take, Errors) {
  EXPECT_THROW(take(zeros({0, 3}), tensor({0}), 0), IndexError);
  EXPECT_THROW(take(zeros({0}), tensor({0})), IndexError);
  EXPECT_THROW(take(ones({2, 3}), tensor({6})), IndexError);
  EXPECT_THROW(take(ones({2, 3}), tensor({0}), 2), IndexError);
  EXPECT_THROW(take(ones({2, 3}), tensor({0.}), 0), DTypeError);
  EXPECT_THROW(take(ones({1, 1, 1, 1, 1, 1, 1, 1}), zeros({1, 1}, i64), 0), ShapeError);
}

TEST(Put, WritesByFlatIndex) {
  const Tensor x = zeros({2, 3}, f64);
  expect_values(put(x, tensor({{0, -1}}), doubles({1, 2}, {2, 1})), {1, 0, 0, 0, 0, 2});
  expect_values(put(x, tensor({1, 1}), doubles({1, 2})), {0, 2, 0, 0, 0, 0});
  expect_values(put(x, tensor({1, 1}), doubles({1, 2}), true), {0, 3, 0, 0, 0, 0});
  expect_values(x, values(zeros({6})));
  EXPECT_EQ(&put_(x, tensor({4}), doubles({5})), &x);
  put_(x.t(), tensor({1, 1}), doubles({1, 2}), true);
  expect_values(x, {0, 0, 0, 3, 5, 0});
  EXPECT_THROW(put_(x, tensor({6}), doubles({5})), IndexError);
  EXPECT_THROW(put_(x, tensor({0, 1}), doubles({5})), ShapeError);
  EXPECT_THROW(put_(x, tensor({0}), ones({1})), DTypeError);
  EXPECT_THROW(put_(leaf({2}), tensor({0}), doubles({1})), AutogradError);
  expect_values(x, {0, 0, 0, 3, 5, 0});
  expect_gradients(
      [](Inputs in) {
        const Tensor y = in[0] * in[0];
        put_(y, tensor({5, 0}), in[1]);
        put_(y.t(), tensor({1, 1}), square(in[1]), true);
        return y * y;
      },
      {leaf({2, 3}), leaf({2}, 1)});
}

}  // namespace
}  // namespace weft::testing
