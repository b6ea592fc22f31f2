// Gradients of reading and writing x[…], to second order.
#include <weft/autograd/node.hpp>
#include <weft/ops/subscript.hpp>
#include <weft/ops/reduce.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

Tensor mask(std::initializer_list<int> bits, const Dims& shape) {
  return tensor(std::span(bits.begin(), bits.size()), shape, boolean);
}
Tensor numbered(const Dims& shape, double first = 0) { return (arange(shape.product()).to(f64) + first).view(shape); }
const Slice colon;

// ---- reading --------------------------------------------------------------------------------------------------------

struct Read {
  const char* name;
  std::vector<Index> index;
};

TEST(GetItemGradient, ToSecondOrderForEveryKindOfIndex) {
  const std::vector<Read> reads = {
      {"integer", {1}},
      {"slices", {Slice(none, none, -1), None, Slice(0, 2), Ellipsis, Slice(none, none, 2)}},
      {"empty slice", {Slice(5, none)}},
      {"list", {colon, {2, 0, 2}}},
      {"two lists", {{0, 1, 0}, colon, {1, 3, 1}}},
      {"outer", {tensor({{0}, {1}}), tensor({{0, 2}})}},
      {"integer and list", {0, colon, {1, 1}}},
      {"full mask", {spread({2, 3, 4}) > 0}},
      {"leading mask", {mask({0, 1, 0, 0, 1, 1}, {2, 3})}},
      {"mask and list", {mask({0, 1, 0, 0, 1, 1}, {2, 3}), {1, 1, 3}}},
      {"trailing mask", {colon, mask({1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, {3, 4})}},
      {"true", {true, Slice(0, 1)}},
      {"false", {false}},
      {"no index", {zeros({0}, i64)}}};
  for (const Read& read : reads) {
    SCOPED_TRACE(read.name);
    expect_gradients([&](Inputs x) { return square(getitem(x[0], read.index)); }, {leaf({2, 3, 4})});
    expect_gradients([&](Inputs x) { return square(getitem(x[0].permute({2, 0, 1}), read.index)); }, {leaf({3, 4, 2})});
  }
}

TEST(GetItemGradient, DuplicatesAdd) {
  const Tensor x = zeros({4}, f64).requires_grad_();
  Tensor(x[{{1, 1, 3}}]).backward(tensor({1., 10., 100.}, f64));
  expect_values(x.grad(), {0, 11, 0, 100});
}

TEST(GetItemGradient, RecordsOneNode) {
  const Tensor x = leaf({2, 3, 4}), y = x[{1, None, Slice(0, 2), Ellipsis, 0}];
  EXPECT_STREQ(y.impl()->node->op, "getitem");
  EXPECT_EQ(y.impl()->node->edges[0].node(), x.impl()->node);
  y.backward(ones(y.shape(), f64));
  expect_values(x.grad().sum(), {2});
}

TEST(GetItemGradient, NamesTheIndexThatWasWritten) {
  const Tensor x = leaf({3}), at = tensor({0, 1});
  const Tensor y = x[at];
  at.zero_();
  try {
    y.sum().backward();
    FAIL();
  } catch (const AutogradError& e) {
    EXPECT_NE(std::string(e.what()).find("[getitem] a tensor saved for backward was modified"), std::string::npos)
        << e.what();
  }
}

TEST(GetItemGradient, ViewsSeeLaterWrites) {
  const Tensor x = leaf({3}), y = x * 1, part = y[Slice(1, none)];
  y[2] = 5;
  part.backward(tensor({1., 10.}, f64));
  expect_values(x.grad(), {0, 1, 0});
}

// ---- writing --------------------------------------------------------------------------------------------------------

TEST(SetItemGradient, GoesToTheValueAndTheUnwrittenElements) {
  const Tensor x = leaf({6}), value = leaf({2});
  const Tensor y = set_value(x, value, {4}, {0}, {-2}, {0});
  y.backward(numbered({6}, 1));
  expect_values(x.grad(), {1, 2, 0, 4, 0, 6});
  expect_values(value.grad(), {5, 3});
  const Tensor scalar = leaf({});
  set_value(x, scalar, {4}, {0}, {-2}, {0}).backward(numbered({6}, 1));
  expect_values(scalar.grad(), {8});
}

TEST(SetItemGradient, SumsBroadcastElements) {
  const Tensor x = leaf({3, 4}), value = leaf({2, 1}), y = x * 1;
  y[{Slice(none, none, 2), Slice(1, 4, 2)}] = value;
  y.backward(numbered({3, 4}));
  expect_values(value.grad(), {4, 20});
  expect_values(x.grad(), {0, 0, 2, 0, 4, 5, 6, 7, 8, 0, 10, 0});
}

TEST(IndexPutGradient, IsReadBeforeItIsErased) {
  const Tensor g = tensor({1., 10., 100., 1000.}, f64), at = tensor({1, 1, 3});
  const auto gradients = [&](bool of_x, bool of_value, const Tensor& value) {
    const Tensor x = zeros({4}, f64).requires_grad_(of_x), v = value.detach().requires_grad_(of_value);
    index_put(x, {at}, v).backward(g);
    return std::pair(x.grad(), v.grad());
  };
  const Tensor three = zeros({3}, f64), scalar = zeros({}, f64);
  expect_values(gradients(true, true, three).first, {1, 0, 100, 0});
  expect_values(gradients(true, true, three).second, {0, 10, 1000});
  expect_values(gradients(false, true, three).second, {0, 10, 1000});
  expect_values(gradients(true, false, three).first, {1, 0, 100, 0});
  expect_values(gradients(true, true, scalar).second, {1010});
  const Tensor x = leaf({4}), v = leaf({3});
  index_put(x, {at}, v, true).backward(g);
  expect_values(x.grad(), {1, 10, 100, 1000});
  expect_values(v.grad(), {10, 10, 1000});
}

TEST(IndexPutGradient, OfEveryBroadcast) {
  const Tensor x = leaf({3, 2}), g = numbered({3, 2}, 1), at = tensor({0, 2, 0});
  const auto of_value = [&](const Dims& shape) {
    const Tensor v = leaf(shape);
    index_put(x, {at}, v).backward(g);
    EXPECT_EQ(v.grad().shape(), shape);
    return v.grad();
  };
  expect_values(of_value({2}), {6, 8});
  expect_values(of_value({3, 1}), {0, 11, 3});
  expect_values(of_value({}), {14});
  expect_values(of_value({1, 1, 2}), {6, 8});
}

TEST(IndexPutGradient, ToSecondOrder) {
  const std::vector<std::vector<Index>> indices = {
      {1}, {colon, Slice(none, none, -2)}, {{2, 0}}, {colon, {2, 1}}, {tensor({{2}, {0}}), tensor({{0, 1}})}};
  for (const auto& at : indices) {
    const Dims shape = getitem(zeros({3, 3}), at).shape();
    for (const Dims& own : {shape, Dims{}, Dims{shape[shape.size() - 1]}, Dims{1, 1}}) {
      for (const bool add : {false, true}) {
        expect_gradients([&](Inputs x) { return square(index_put(square(x[0]), at, square(x[1]), add)); },
                         {leaf({3, 3}), leaf(own, 7)});
      }
    }
  }
  const Tensor m = mask({1, 0, 0, 1, 1, 0, 0, 0, 1}, {3, 3}), rows = mask({1, 0, 1}, {3}), dup = tensor({1, 1, 2});
  for (const Dims& own : {Dims{4}, Dims{}, Dims{1}}) {
    for (const bool add : {false, true}) {
      expect_gradients([&](Inputs x) { return square(index_put(square(x[0]), {m}, x[1], add)); },
                       {leaf({3, 3}), leaf(own, 7)});
    }
  }
  for (const Dims& own : {Dims{2, 3}, Dims{3}, Dims{2, 1}, Dims{}}) {
    expect_gradients([&](Inputs x) { return square(index_put(square(x[0]), {rows}, x[1])); },
                     {leaf({3, 3}), leaf(own, 7)});
  }
  expect_gradients([&](Inputs x) { return square(index_put(square(x[0]), {dup}, x[1], true)); },
                   {leaf({3, 3}), leaf({3, 3}, 7)});
}

TEST(IndexPutGradient, InPlace) {
  const Tensor m = mask({1, 0, 0, 1}, {2, 2});
  const auto writes = [&](Inputs x) {
    const Tensor y = x[0] * 2;
    y[0] = x[1];
    y[{colon, {1, 0}}] = square(y * 1);
    y[m] = x[1];
    y[{{0, 1}, {1, 0}}] *= x[1];
    y[{colon, 0}] += x[1][0];
    index_put_(y.t()[1], {{0, 0}}, x[1], true);
    return square(y);
  };
  expect_gradients(writes, {leaf({2, 2}), leaf({2}, 5)});
}

TEST(IndexPutGradient, EmptyIndices) {
  const Tensor x = leaf({3}), v = leaf({1});
  index_put(x, {zeros({0}, i64)}, v).backward(tensor({1., 2., 3.}, f64));
  expect_values(x.grad(), {1, 2, 3});
  expect_values(v.grad(), {0});
}

TEST(IndexPutGradient, GoesThroughCasts) {
  const Tensor x = ones({3}, f32).requires_grad_(), v = leaf({2}), y = x * 1;
  y[Slice(1, none)] = v;
  y[{{0}}] = v[0];
  y.backward(tensor({1., 10., 100.}));
  expect_values(v.grad(), {11, 100});
  EXPECT_EQ(v.grad().dtype(), f64);
  expect_values(x.grad(), {0, 0, 0});
}

TEST(IndexPutGradient, SharingBuffersChangesNothing) {
  const auto run = [] {
    const Tensor x = leaf({4, 3}), v = leaf({2, 3}, 3), y = square(x);
    y[Slice(0, 2)] = v;
    y[{{3, 3}}] = v * 2;
    y[y > 1] = 0;
    square(y).sum().backward();
    return std::pair(x.grad(), v.grad());
  };
  const auto shared = run();
  const GradientSharingGuard off(false);
  const auto apart = run();
  EXPECT_EQ(values(shared.first), values(apart.first));
  EXPECT_EQ(values(shared.second), values(apart.second));
}

}  // namespace
}  // namespace weft::testing
