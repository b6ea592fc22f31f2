// Functions that func::vmap runs for all examples at once, and those that it must not.
#include <gmock/gmock.h>

#include <weft/autograd/mode.hpp>
#include <weft/func/func.hpp>
#include <weft/hooks/capture.hpp>
#include <weft/weft.hpp>

namespace weft::testing {
namespace {

using func::Outputs;
using func::Randomness;
using func::vmap;

Tensor ramp(const Dims& shape) { return (arange(0, shape.product(), 1, {.dtype = f64}) * 0.37).sin().reshape(shape); }

/// f of each row of x, stacked.
template <class F>
Tensor loop(F f, const Tensor& x) {
  std::vector<Tensor> rows;
  for (int64_t n = 0; n < x.size(0); ++n) rows.push_back(f(x.select(0, n)));
  return stack(rows);
}
void expect_close(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_TRUE(allclose(a, b, 1e-12, 1e-12)) << a << "\n" << b;
}

TEST(VmapAtOnce, CallsTheFunctionOnce) {
  int calls = 0;
  const Tensor w = ramp({3, 2});
  const auto f = [&](const Tensor& x) { return ++calls, softmax(matmul(x, w), 0); };
  const Tensor x = ramp({5, 3});
  const Tensor all = vmap(f)(x);
  EXPECT_EQ(calls, 1);
  expect_close(all, loop(f, x));
}

TEST(Vmap, OfNoExamplesGivesEmptyOutputs) {
  const Tensor x = zeros({0, 3, 4}, f64), w = ramp({4, 2}).requires_grad_();
  const auto shape_of = [](const func::Function& f, const Tensor& t) { return f(t).shape(); };
  const auto square = [](const Tensor& t) { return sum(t * t); };
  EXPECT_EQ(vmap([](const Tensor& t) { return sum(t); })(x).shape(), Dims({0}));
  EXPECT_EQ(vmap([](const Tensor& t) { return matmul(t, t.t()); })(x).shape(), Dims({0, 3, 3}));
  EXPECT_EQ(vmap([](const Tensor& t) { return matmul(t, t.t()); }, {.out_dims = {1}})(x).shape(), Dims({3, 0, 3}));
  EXPECT_EQ(vmap([](const Tensor& t) { return matmul(t, t.t()); }, {.out_dims = {-1}})(x).shape(), Dims({3, 3, 0}));
  EXPECT_EQ(shape_of(vmap(func::grad(square)), x), Dims({0, 3, 4}));
  EXPECT_EQ(shape_of(vmap(vmap([](const Tensor& t) { return sum(t); })), x), Dims({0, 3}));
  EXPECT_EQ(shape_of(vmap(vmap([](const Tensor& t) { return sum(t); })), zeros({3, 0, 4})), Dims({3, 0}));
  EXPECT_EQ(shape_of(vmap([](const Tensor& t) { return t; }, {.in_dims = {1}}), zeros({3, 0, 4})), Dims({0, 3, 4}));
  EXPECT_EQ(vmap([](const Tensor& t) { return linalg::cholesky(t); })(zeros({0, 3, 3}, f64)).shape(), Dims({0, 3, 3}));
  EXPECT_EQ(vmap([&](const Tensor& i) { return Tensor(w[i]); })(zeros({0}, i64)).shape(), Dims({0, 2}));
  EXPECT_EQ(vmap([](const Tensor& t) { return t > 0; })(x).dtype(), DType::boolean);

  const Tensor y = zeros({0, 4}, f64).requires_grad_();
  sum(vmap([&](const Tensor& t) { return matmul(t, w); })(y)).backward();
  EXPECT_EQ(y.grad().shape(), Dims({0, 4}));
  EXPECT_TRUE(equal(w.grad(), zeros({4, 2}, f64)));

  const auto before = default_generator(Device()).state();
  const auto noisy = [](const Tensor& t) { return t + rand({3}); };
  EXPECT_EQ(vmap(noisy, {.randomness = Randomness::different})(zeros({0, 3})).shape(), Dims({0, 3}));
  EXPECT_TRUE(default_generator(Device()).state() == before);
  EXPECT_THROW(vmap(noisy)(zeros({0, 3})), ValueError);
}

TEST(VmapAtOnce, SharesCapturedMatricesOnEitherSideOfAProduct) {
  const Tensor w = ramp({4, 3}), x = ramp({6, 3}), y = ramp({6, 4}), z = ramp({6, 2, 3});
  expect_close(vmap([&](const Tensor& r) { return mv(w, r); })(x), loop([&](const Tensor& r) { return mv(w, r); }, x));
  const auto left = [&](const Tensor& r) { return matmul(r, w); };
  expect_close(vmap(left)(y), loop(left, y));
  const auto both = [&](const Tensor& r) { return matmul(w, r.t()); };
  expect_close(vmap(both)(z), loop(both, z));
  const auto own = [&](const Tensor& r) { return matmul(r, r.t()) + matmul(r, w.t()).sum(); };
  expect_close(vmap(own)(z), loop(own, z));
}

TEST(VmapAtOnce, SeesInPlaceWrites) {
  const auto f = [](const Tensor& x) {
    const Tensor made = tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0}), zero = zeros({3}, {.dtype = f64});
    made[2] = x[0];
    made.slice(0, 3, 5).add_(x.sum());
    zero.add_(1);
    zero[1] += x[1];
    return cat({made, zero});
  };
  const Tensor x = ramp({4, 3});
  expect_close(vmap(f)(x), loop(f, x));
}

TEST(VmapAtOnce, ReusesMemoryOfFreedTensors) {
  const auto f = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 20; ++i) y = (y * 1.1 + ones({100}, {.dtype = f64})).sin();
    return y;
  };
  const Tensor x = ramp({3, 100});
  expect_close(vmap(f)(x), loop(f, x));
}

TEST(VmapAtOnce, WritesToItsInputsAsALoopDoes) {
  for (const int dim : {0, 1}) {
    const Tensor x = ramp({3, 3}), before = x.clone();
    const Tensor sums = vmap([](const Tensor& row) { return row.mul_(2).sum(); }, {.in_dims = {dim}})(x);
    expect_close(x, before * 2);
    expect_close(sums, (before * 2).sum({1 - dim}));
  }
}

TEST(VmapAtOnce, WritesToSharedTensorsAsALoopDoes) {
  const Tensor total = zeros({}, {.dtype = f64}), count = zeros({}, {.dtype = f64}), x = ramp({4, 3});
  vmap([&](const Tensor& row) {
    count.add_(1);
    total.add_(row.sum());
    return row;
  })(x);
  EXPECT_EQ(count.item<double>(), 4);
  EXPECT_NEAR(total.item<double>(), x.sum().item<double>(), 1e-12);
}

TEST(VmapAtOnce, ReadsTheValuesOfEachExample) {
  int calls = 0;
  const auto f = [&](const Tensor& x) { return ++calls, x.sum().item<double>() > 0 ? x * 2 : -x; };
  const Tensor x = ramp({4, 3}) - 0.2;
  const Tensor all = vmap(f)(x);
  EXPECT_EQ(calls, 4);
  expect_close(all, loop(f, x));
}

TEST(VmapAtOnce, ChecksTheElementsOfEveryExample) {
  const Tensor logits = ramp({3, 1, 4});
  const auto loss = [](const Tensor& x, const Tensor& label) { return cross_entropy(x, label.unsqueeze(0)); };
  EXPECT_THROW(vmap(loss)({logits, tensor({1, 2, 4}, {.dtype = i64})}), IndexError);
  expect_close(vmap(loss)({logits, tensor({1, 2, 3}, {.dtype = i64})}),
               cross_entropy(logits.squeeze(1), tensor({1, 2, 3}, {.dtype = i64}), {.reduction = LossReduction::none}));
  const Tensor matrices = stack({eye(2, {}, {.dtype = f64}), -eye(2, {}, {.dtype = f64})});
  EXPECT_THROW(vmap([](const Tensor& a) { return linalg::cholesky(a); })(matrices), Error);
  // After an error the thread records no more.
  expect_close(vmap([](const Tensor& a) { return a * 2; })(matrices), matrices * 2);
}

TEST(VmapAtOnce, HandsOutMemoryOfTheResultsOwn) {
  const Tensor x = ramp({3, 2}), before = x.clone(), shared = ramp({2});
  const auto f = [&](const Tensor& v) {
    const Tensor y = v * 2;
    return Outputs({v, shared, y, y.slice(0, 0, 1), y});
  };
  const std::vector<Tensor> all = vmap(f)(std::span<const Tensor>(&x, 1)).tensors;
  ASSERT_EQ(all.size(), 5u);
  for (const Tensor& t : all) t.add_(1);
  expect_close(x, before);
  expect_close(shared, ramp({2}));
  expect_close(all[0], before + 1);
  expect_close(all[1], ramp({2}).expand({3, 2}) + 1);
  expect_close(all[2], before * 2 + 1);
  expect_close(all[3], (before * 2 + 1).slice(1, 0, 1));
  expect_close(all[4], before * 2 + 1);
}

TEST(VmapAtOnce, LeavesTensorsBehindThatOutliveIt) {
  std::vector<Tensor> kept;
  const Tensor x = ramp({3, 50});
  vmap([&](const Tensor& row) { return kept.emplace_back(row * 3); })(x);
  ASSERT_EQ(kept.size(), 1u);
  expect_close(kept[0], x.select(0, 0) * 3);
}

TEST(VmapAtOnce, AddsGradientsOfSharedLeavesUp) {
  const Tensor w = ramp({3}).requires_grad_(), x = ramp({4, 3});
  vmap([&](const Tensor& row) {
    (w * row).sum().backward();
    return row;
  })(x);
  expect_close(w.grad(), x.sum({0}));
}

TEST(VmapAtOnce, FlowsBackToCapturedLeaves) {
  const Tensor w = ramp({3}).requires_grad_(), x = ramp({4, 3});
  vmap([&](const Tensor& row) { return (w * row).sum(); })(x).sum().backward();
  expect_close(w.grad(), x.sum({0}));
}

TEST(VmapAtOnce, DrawsTheSameForAllWhereAskedTo) {
  const Tensor x = zeros({3, 4}, {.dtype = f64});
  manual_seed(3);
  const Tensor expected = rand({4}, {.dtype = f64});
  const GeneratorState after = default_generator(Device()).state();
  manual_seed(3);
  int calls = 0;
  const auto f = [&](const Tensor& row) { return ++calls, row + rand({4}, {.dtype = f64}); };
  const Tensor all = vmap(f, {.randomness = Randomness::same})(x);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(default_generator(Device()).state(), after);
  expect_close(all, expected.expand({3, 4}));
}

TEST(VmapAtOnce, IsALoopInsideARecordedStepAndInsideItself) {
  const Tensor y = ramp({4, 3});
  const auto inner = [&](const Tensor& a) { return vmap([&](const Tensor& b) { return dot(a, b); })(y); };
  const auto all = [&](const Tensor& x) { return vmap(inner)(x); };
  auto step = capture([&](const Tensor& x) { return all(x); });
  for (int i = 0; i < 5; ++i) {
    const Tensor x = ramp({2, 3}) * (i + 1.0);
    expect_close(step(x), matmul(x, y.t()));
  }
}

}  // namespace
}  // namespace weft::testing
