// Gradients where an index names an element twice: values that a later one replaced have none.
#include <weft/func/func.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/pool.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/scatter.hpp>
#include <weft/ops/subscript.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

const Slice colon;

Tensor dense_mask(std::initializer_list<int> bits, const Dims& shape) {
  return tensor(std::span(bits.begin(), bits.size()), shape, boolean);
}

TEST(RepeatedIndex, OnlyTheLastValueGetsTheGradient) {
  const Tensor g = doubles({10, 20}), at = tensor({0, 0, 1});
  const auto of_values = [&](auto&& write) {
    const Tensor v = leaf({3});
    write(zeros({2}, f64), v).backward(g);
    return v.grad();
  };
  const Doubles expected = {0, 10, 20};
  expect_values(of_values([&](const Tensor& z, const Tensor& v) {
                  z[at] = v;
                  return z;
                }),
                expected);
  expect_values(of_values([&](const Tensor& z, const Tensor& v) { return index_put(z, {at}, v); }), expected);
  expect_values(of_values([&](const Tensor& z, const Tensor& v) { return put(z, at, v); }), expected);
  expect_values(of_values([&](const Tensor& z, const Tensor& v) { return put_(z, at, v); }), expected);
  expect_values(of_values([&](const Tensor& z, const Tensor& v) { return scatter(z, 0, at, v); }), expected);
  expect_values(of_values([&](const Tensor& z, const Tensor& v) { return scatter_(z, 0, at, v); }), expected);
  expect_values(of_values([&](const Tensor& z, const Tensor& v) { return index_copy(z, 0, at, v); }), expected);
  expect_values(of_values([&](const Tensor& z, const Tensor& v) { return index_copy_(z, 0, at, v); }), expected);
  // -2 is 0 too.
  expect_values(of_values([&](const Tensor& z, const Tensor& v) { return index_put(z, {{0, -2, 1}}, v); }), expected);
  const Tensor once = leaf({});
  const Tensor z = zeros({2}, f64);
  z[at] = once;
  z.sum().backward();
  expect_values(once.grad(), {2});
}

TEST(RepeatedIndex, EveryWriteToSecondOrder) {
  struct Write {
    const char* name;
    Dims value;
    std::function<Tensor(const Tensor& y, const Tensor& v)> run;
  };
  const Tensor rows = tensor({2, 0, 2, -1, 0}), columns = tensor({1, 3, 1, 1, 3}), tall = tensor({{0}, {2}, {0}});
  const Tensor grid = tensor({{2, 0, 2, 1}, {0, 0, 2, 1}, {2, 1, 0, 1}}), mask = dense_mask({1, 0, 1}, {3});
  const auto set = [](std::vector<Index> at) {
    return [at = std::move(at)](const Tensor& y, const Tensor& v) {
      setitem(y, at, v);
      return y;
    };
  };
  const std::vector<Write> writes = {
      {"rows", {5, 4}, set({rows})},
      {"rows, broadcast columns", {5, 1}, set({rows})},
      {"rows, broadcast rows", {4}, set({rows})},
      {"rows, one number", {}, set({rows})},
      {"rows, leading ones", {1, 1, 4}, set({rows})},
      {"columns", {3, 5}, set({colon, columns})},
      {"columns of reversed rows", {2, 5}, set({Slice(none, none, -2), columns})},
      {"both", {5}, set({rows, columns})},
      {"both, broadcast", {5}, set({tall, columns})},
      {"new axis between", {5, 1}, set({rows, None, columns})},
      {"mask and list", {2}, set({mask, tensor({1, 1})})},
      {"mask and lists", {3, 2}, set({mask, tensor({{1, 1}, {0, 1}, {1, 0}})})},
      {"true and list", {1, 5, 4}, set({true, rows})},
      {"part of a part",
       {5, 2},
       [&](const Tensor& y, const Tensor& v) {
         y[Slice(0, 3)][{colon, Slice(none, none, 2)}][rows] = v;
         return y;
       }},
      {"transposed view",
       {5, 3},
       [&](const Tensor& y, const Tensor& v) {
         y.t()[columns] = v;
         return y;
       }},
      {"factor",
       {5, 4},
       [&](const Tensor& y, const Tensor& v) {
         y[rows] *= v;
         return y;
       }},
      {"twice",
       {5},
       [&](const Tensor& y, const Tensor& v) {
         y[{rows, columns}] = v;
         y[{columns - 1, rows}] = v * 2;
         return y;
       }},
      {"index_put", {5, 1}, [&](const Tensor& y, const Tensor& v) { return index_put(y, {rows}, v); }},
      {"index_put_",
       {5},
       [&](const Tensor& y, const Tensor& v) {
         return index_put_(y, {rows, columns}, v);
       }},
      {"put",
       {2, 3},
       [&](const Tensor& y, const Tensor& v) {
         return put(y, tensor({{0, 5, 0}, {-12, 5, 11}}), v);
       }},
      {"put_",
       {6},
       [&](const Tensor& y, const Tensor& v) {
         return put_(y, tensor({0, 5, 0, -12, 5, 11}), v);
       }},
      {"put_ into gaps",
       {6},
       [&](const Tensor& y, const Tensor& v) {
         put_(y.t(), tensor({0, 5, 0, -12, 5, 11}), v);
         return y;
       }},
      {"scatter", {3, 4}, [&](const Tensor& y, const Tensor& v) { return scatter(y, 0, grid, v); }},
      {"scatter along 1", {3, 5}, [&](const Tensor& y, const Tensor& v) { return scatter(y, 1, grid, v); }},
      {"scatter_", {4, 4}, [&](const Tensor& y, const Tensor& v) { return scatter_(y, 0, grid, v); }},
      {"scatter_ into a view",
       {4, 3},
       [&](const Tensor& y, const Tensor& v) {
         scatter_(y.t(), 1, grid.t(), v);
         return y;
       }},
      {"scatter by one index",
       {5, 4},
       [&](const Tensor& y, const Tensor& v) {
         return scatter(y, 0, tensor({{0}, {2}, {0}, {1}, {2}}).expand({5, 4}), v);
       }},
      {"index_copy", {5, 4}, [&](const Tensor& y, const Tensor& v) { return index_copy(y, 0, rows.abs(), v); }},
      {"index_copy_", {3, 5}, [&](const Tensor& y, const Tensor& v) { return index_copy_(y, -1, columns, v); }},
      {"index_fill", {}, [&](const Tensor& y, const Tensor& v) { return index_fill(y, 1, columns, v); }},
  };
  for (const Write& write : writes) {
    SCOPED_TRACE(write.name);
    const auto f = [&](Inputs x) { return square(write.run(square(x[0]), square(x[1]))); };
    expect_gradients(f, {leaf({3, 4}), leaf(write.value, 7)});
  }
}

TEST(RepeatedIndex, OfComplexAnd16BitValues) {
  const Tensor at = tensor({1, 1, 0});
  for (const DType t : {f16, bf16, f32, c64, c128}) {
    SCOPED_TRACE(name(t));
    const Tensor v = ones({3, 2}, t).requires_grad_();
    const Tensor z = zeros({2, 2}, t), all = index_copy(z, 0, at, v) + index_put(z, {at}, v) +
                                             scatter(z, 0, tensor({{1, 1}, {1, 0}, {0, 0}}), v);
    all.backward(ones({2, 2}, t));
    EXPECT_EQ(values(real(v.grad().to(c128))), (Doubles{0, 1, 3, 2, 3, 3}));
  }
}

// An infinite or NaN gradient at a replaced value's position does not reach it.
TEST(RepeatedIndex, InfiniteGradientsStayWhereTheyBelong) {
  const Tensor v = leaf({3}), u = leaf({3}), w = leaf({3}), g = doubles({infinity, nan}), at = tensor({0, 0, 0});
  index_put(zeros({2}, f64), {at}, v).backward(g);
  scatter(zeros({2}, f64), 0, at, u).backward(g);
  index_copy(zeros({2}, f64), 0, at, w).backward(g);
  for (const Tensor& t : {v, u, w}) expect_values(t.grad(), {0, 0, infinity});
}

TEST(RepeatedIndex, OfMaxUnpool) {
  const Tensor x = leaf({1, 1, 3}), at = tensor({{{2, 2, 0}}});
  const auto unpooled = [&](Inputs in) { return square(max_unpool1d(in[0], at, {2})); };
  expect_gradients(unpooled, {x});
}

TEST(RepeatedIndex, UnderVmap) {
  const Tensor xs = spread({3, 4}), vs = spread({3, 3}, 5), at = tensor({{0, 0, 1}, {3, 1, 3}, {2, 2, 2}});
  const auto of_one = [](const Tensor& x, const Tensor& index, const Tensor& v) {
    const Tensor value = v.detach().requires_grad_();
    const Tensor y = scatter(x, 0, index, value) * index_put(x, {index}, value);
    return grad({sum(y)}, {value})[0];
  };
  const Tensor all = func::vmap(of_one)({xs, at, vs});
  for (int i = 0; i < 3; ++i) expect_values(all.select(0, i), values(of_one(xs[i], at[i], vs[i])));
}

TEST(RepeatedIndex, Forwards) {
  const Tensor z = zeros({2}, f64), at = tensor({0, 0, 1});
  const auto write = [&](const Tensor& v) { return index_put(z, {at}, v) + scatter(z, 0, at, v); };
  expect_values(func::jvp(write, {spread({3})}, {doubles({1, 10, 100})}).tangents[0], {20, 200});
}

TEST(RepeatedIndex, ManyDoNotDependOnThreads) {
  const Tensor at = SampleMaker(f32, {}).indices({40000}, 900), g = SampleMaker(f32, {}, 3).tensor({1000});
  std::vector<int64_t> last(1000, -1);
  const std::vector<int64_t> places = at.to_vector<int64_t>();
  for (size_t i = 0; i < places.size(); ++i) last[static_cast<size_t>(places[i])] = static_cast<int64_t>(i);
  Doubles expected(places.size(), 0);
  const Doubles given = values(g);
  for (size_t d = 0; d < last.size(); ++d) {
    if (last[d] >= 0) expected[static_cast<size_t>(last[d])] = given[d];
  }
  for (int way = 0; way < 3; ++way) {
    const Tensor v = zeros({40000}, f32).requires_grad_(), z = zeros({1000}, f32);
    (way == 0 ? index_put(z, {at}, v) : way == 1 ? scatter(z, 0, at, v) : index_copy(z, 0, at, v)).backward(g);
    EXPECT_EQ(values(v.grad()), expected) << way;
  }
}

}  // namespace
}  // namespace weft::testing
