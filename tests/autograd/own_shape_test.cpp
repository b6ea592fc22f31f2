// Tensors that change themselves: another shape, other memory, no history. Handles, views, gradients and saved tensors
// see it as in PyTorch, or raise.
#include <cmath>

#include <gtest/gtest.h>

#include <weft/hooks/capture.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

using Floats = std::vector<float>;
Floats values(const Tensor& t) { return t.to_vector<float>(); }

// Weights that tell all elements apart.
Tensor marks(const Tensor& like) { return arange(0, like.numel(), 1, f32).view(like.shape()); }

// The gradient of `leaf` from the marked sum of x.
Floats marked_gradient(const Tensor& x, const Tensor& leaf) {
  (x * marks(x)).sum().backward();
  return values(leaf.grad());
}

TEST(OwnShape, AllHandlesSeeTheNewShape) {
  const Tensor x = ones({1, 2, 1}), same = x;
  EXPECT_EQ(x.squeeze_().impl(), x.impl());
  EXPECT_EQ(same.shape(), (Dims{2}));
  EXPECT_EQ(x.unsqueeze_(-1).shape(), (Dims{2, 1}));
  EXPECT_EQ(x.t_().shape(), (Dims{1, 2}));
  EXPECT_EQ(x.swapaxes_(0, 1).swapdims_(0, 1).transpose_(0, -1).shape(), (Dims{2, 1}));
  EXPECT_EQ(x.squeeze_(0).shape(), (Dims{2, 1}));
  EXPECT_EQ(x.squeeze_(1).shape(), (Dims{2}));
  EXPECT_EQ(ones({1, 2, 1}).squeeze_(Dims{0, -1}).shape(), (Dims{2}));
  EXPECT_EQ(x.as_strided_({2, 2}, {0, 1}).shape(), (Dims{2, 2}));
  EXPECT_EQ(ones({}).unsqueeze_(0).shape(), (Dims{1}));
  EXPECT_EQ(ones({0, 3}).t_().shape(), (Dims{3, 0}));
  EXPECT_EQ(ones({1, 3}).expand({2, 3}).t_().strides(), (Dims{1, 0}));
  EXPECT_EQ(ones({3}).t_().version(), 0u);
}

TEST(OwnShape, GradientsFlowBackThroughTheChange) {
  const Tensor x = ones({2, 3}).requires_grad_();
  const Tensor y = x * 2;
  y.t_();
  EXPECT_EQ(marked_gradient(y, x), (Floats{0, 4, 8, 2, 6, 10}));
}

TEST(OwnShape, AViewChangesAlone) {
  const Tensor x = ones({2, 3}).requires_grad_();
  const Tensor y = x * 1, row = y.slice(0, 1, 2), other = y[0];
  row.t_();
  EXPECT_EQ(row.shape(), (Dims{3, 1}));
  EXPECT_EQ(y.shape(), (Dims{2, 3}));
  row.mul_(5);
  EXPECT_EQ(values(y), (Floats{1, 1, 1, 5, 5, 5}));
  ((row * marks(row)).sum() + other.sum() + y.sum()).backward();
  EXPECT_EQ(values(x.grad()), (Floats{2, 2, 2, 5, 10, 15}));
}

TEST(OwnShape, ViewsOfAChangedBaseKeepTheirElements) {
  const Tensor x = ones({2, 3}).requires_grad_();
  const Tensor y = x * 1, row = y[0], corner = row.slice(0, 2, 3);
  y.t_();
  EXPECT_EQ(row.shape(), (Dims{3}));
  row.mul_(3);
  ((y * marks(y)).sum() + (corner * 100).sum()).backward();
  EXPECT_EQ(values(x.grad()), (Floats{0, 6, 312, 1, 3, 5}));
}

TEST(OwnShape, AsStridedInPlaceHasTheGradientOfItsElements) {
  const Tensor x = ones({2, 3}).requires_grad_();
  const Tensor y = x * 1;
  y.as_strided_({2}, {2}, 1);
  EXPECT_EQ(marked_gradient(y, x), (Floats{0, 0, 0, 1, 0, 0}));
}

TEST(OwnShape, SecondDerivativesPassThroughIt) {
  const Tensor x = tensor({{1.f, 2.f}}).requires_grad_();
  const Tensor y = x * x * x;
  y.t_();
  const Tensor g = grad({(y * y).sum()}, {x}, {}, {.create_graph = true})[0];
  g.sum().backward();
  EXPECT_EQ(values(x.grad()), (Floats{30, 480}));  // 30 x^4
}

TEST(OwnShape, LeavesAndTheirViewsRefuseWhileRecording) {
  const Tensor x = ones({2, 3}).requires_grad_();
  EXPECT_THROW(x.t_(), AutogradError);
  EXPECT_THROW(x.select(0, 0).unsqueeze_(0), AutogradError);
  EXPECT_THROW(x.resize_({1}), AutogradError);
  EXPECT_THROW(x.set_(ones({2})), AutogradError);
  EXPECT_THROW(ones({2}).set_(x), AutogradError);
  EXPECT_THROW((x * 1).resize_({1}), AutogradError);
  EXPECT_EQ(x.shape(), (Dims{2, 3}));
  const NoGradGuard unrecorded;
  EXPECT_THROW(x.resize_({1}), AutogradError);
}

TEST(OwnShape, ALeafThatChangesUnrecordedDropsItsGradient) {
  const Tensor x = ones({2, 3}).requires_grad_();
  const Tensor before = x.sum();
  x.sum().backward();
  {
    const NoGradGuard unrecorded;
    x.t_();
  }
  EXPECT_FALSE(x.grad().defined());
  EXPECT_THROW(before.backward(), AutogradError);  // of the old shape
  EXPECT_EQ(marked_gradient(x, x), (Floats{0, 1, 2, 3, 4, 5}));
}

TEST(OwnShape, AResultKeepsItsHistoryUnrecorded) {
  const Tensor x = ones({2, 3}).requires_grad_();
  const Tensor y = x * 1;
  {
    const NoGradGuard unrecorded;
    y.t_();
  }
  EXPECT_EQ(marked_gradient(y, x), (Floats{0, 2, 4, 1, 3, 5}));
}

TEST(OwnShape, SavedTensorsOfTheOldShapeAreDetected) {
  const Tensor x = ones({2, 3}).requires_grad_();
  const Tensor input = x * 1, squares = input * input;
  input.t_();
  EXPECT_THROW(squares.sum().backward(), AutogradError);
  const Tensor result = exp(x);
  result.unsqueeze_(0);
  EXPECT_THROW(result.sum().backward(), AutogradError);
}

TEST(OwnShape, HooksStayWithTheOldShapeAndARetainedGradientHasTheNew) {
  const Tensor x = ones({2, 3}).requires_grad_(), y = x * 1;
  Dims old_shape, new_shape;
  const auto first = y.register_hook([&](const Tensor& g) { old_shape = g.shape(); });
  y.retain_grad();
  y.sum().backward({.retain_graph = true});
  y.t_();
  EXPECT_FALSE(y.grad().defined());
  const auto second = y.register_hook([&](const Tensor& g) { new_shape = g.shape(); });
  (y * 1).sum().backward();
  EXPECT_EQ(old_shape, (Dims{2, 3}));
  EXPECT_EQ(new_shape, (Dims{3, 2}));
  EXPECT_EQ(y.grad().shape(), (Dims{3, 2}));
}

TEST(OwnShape, AFailedChangeChangesNothing) {
  const Tensor x = ones({2, 3}).requires_grad_(), y = x * 1;
  EXPECT_THROW(y.unsqueeze_(5), IndexError);
  EXPECT_THROW(y.as_strided_({7}, {1}), ShapeError);
  EXPECT_THROW(ones({1, 1, 2}).t_(), ShapeError);
  EXPECT_THROW(Tensor().t_(), ValueError);
  EXPECT_EQ(y.version(), 0u);
  EXPECT_EQ(marked_gradient(y, x), (Floats{0, 1, 2, 3, 4, 5}));
}

TEST(OwnShape, InferenceTensorsChange) {
  const InferenceGuard guard;
  const Tensor x = ones({2, 3}), row = x[0];
  EXPECT_EQ(x.t_().shape(), (Dims{3, 2}));
  EXPECT_EQ(row.unsqueeze_(0).shape(), (Dims{1, 3}));
}

TEST(OwnShape, DetachInPlaceMakesALeaf) {
  const Tensor x = ones({2}).requires_grad_(), y = x * 2, view = y[0];
  EXPECT_THROW(view.detach_(), AutogradError);
  EXPECT_EQ(y.detach_().impl(), y.impl());
  EXPECT_TRUE(y.is_leaf());
  EXPECT_FALSE(y.requires_grad());
  y.requires_grad_();
  (y * 3).sum().backward();
  EXPECT_EQ(values(y.grad()), (Floats{3, 3}));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(x.detach_().requires_grad());
}

TEST(OwnShape, ResizeKeepsTheElementsOfTheStorage) {
  const Tensor x = arange(0, 6, 1, f32), odd = x.slice(0, 1, 6, 2);
  EXPECT_EQ(values(odd.resize_({3})), (Floats{1, 3, 5}));  // no change
  odd.resize_({2, 2});
  EXPECT_EQ(values(odd), (Floats{1, 2, 3, 4}));
  EXPECT_TRUE(odd.shares_storage(x));
  x.resize_({2});
  EXPECT_EQ(values(x), (Floats{0, 1}));
  x.resize_({2, 3});
  EXPECT_EQ(values(x), (Floats{0, 1, 2, 3, 4, 5}));
  x.resize_({100});
  EXPECT_EQ(values(x.slice(0, 0, 6)), (Floats{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values(odd), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(x.resize_as_(odd).shape(), (Dims{2, 2}));
  EXPECT_EQ(x.resize_({0}).numel(), 0);
  EXPECT_EQ(x.resize_({}).dim(), 0);
  EXPECT_THROW(x.resize_({-1}), ShapeError);
  float outside[3] = {1, 2, 3};
  const Tensor lent = from_blob(+outside, {3});
  EXPECT_EQ(lent.resize_({2}).numel(), 2);
  EXPECT_THROW(lent.resize_({4}), ValueError);
}

TEST(OwnShape, SetSharesMemory) {
  const Tensor x = ones({2, 3}), y = arange(0, 6, 1, f32);
  x.set_(y.view({3, 2}));
  EXPECT_TRUE(x.shares_storage(y));
  y.fill_(7);
  EXPECT_EQ(values(x), (Floats(6, 7)));
  EXPECT_EQ(x.set_(y, 1, {2}, {3}).strides(), (Dims{3}));
  EXPECT_EQ(x.set_().shape(), (Dims{0}));
  EXPECT_THROW(x.set_(ones({2}, f64)), DTypeError);
}

TEST(OwnMemory, ALeafTrainsOnWithItsNewData) {
  const Tensor p = ones({2, 3}).requires_grad_();
  p.sum().backward();
  p.set_data(full({2, 3}, 2.0, f64));
  EXPECT_EQ(p.grad().dtype(), f64);
  (p * p).sum().backward();
  EXPECT_EQ(p.grad().to_vector<double>(), (std::vector<double>(6, 5)));
  p.set_data(full({2}, 3.0, f16));
  EXPECT_FALSE(p.grad().defined());
  (p * p).sum().backward();
  EXPECT_EQ(p.grad().dtype(), f16);
  EXPECT_EQ(values(p.grad()), (Floats{6, 6}));
  EXPECT_TRUE(p.is_leaf());
}

TEST(OwnMemory, DataShareMemoryAndOldViewsKeepTheirs) {
  const Tensor x = arange(0, 4, 1, f32), view = x.view({2, 2}), y = zeros({3});
  x.set_data(y);
  EXPECT_TRUE(x.shares_storage(y));
  EXPECT_EQ(values(view), (Floats{0, 1, 2, 3}));
  const Tensor later = x[0];
  x.set_data(ones({1}));
  later.fill_(5);
  EXPECT_EQ(values(y), (Floats{5, 0, 0}));
  EXPECT_EQ(values(view[0]), (Floats{0, 1}));
  x.set_data(view);  // back to the first storage
  EXPECT_EQ(values(x), (Floats{0, 1, 2, 3}));
  x.set_data(y);
  EXPECT_EQ(values(x), (Floats{5, 0, 0}));
}

TEST(OwnMemory, PendingBackwardsAreDetected) {
  const Tensor x = ones({2}).requires_grad_(), squares = x * x, sum = x.sum();
  x.set_data(zeros({2}));
  EXPECT_THROW(squares.sum().backward(), AutogradError);
  sum.backward();
  EXPECT_EQ(values(x.grad()), (Floats{1, 1}));
  const Tensor doubled = x * 2;
  x.set_data(zeros({3}));
  EXPECT_THROW(doubled.sum().backward(), AutogradError);
  const Tensor tripled = x * 3;
  x.set_data(zeros({3}, f64));
  EXPECT_THROW(tripled.sum().backward(), AutogradError);
}

TEST(OwnMemory, AStoredGradientOfAnotherShapeIsNotAddedTo) {
  const Tensor x = ones({2, 3}).requires_grad_();
  x.sum().backward();
  x.grad().t_();
  EXPECT_THROW(x.sum().backward(), AutogradError);
  x.grad().set_data(ones({2, 3}, f64));
  EXPECT_THROW(x.sum().backward(), AutogradError);
  x.set_grad({});
  x.sum().backward();
  EXPECT_EQ(x.grad().shape(), (Dims{2, 3}));
}

TEST(OwnMemory, BackwardsThatSavedTheNewDataStayValid) {
  const Tensor w = ones({2}).requires_grad_(), carried = zeros({2}), result = exp(w);
  carried.set_data(result.detach());
  EXPECT_TRUE(carried.shares_storage(result));
  (result * result).sum().backward();
  EXPECT_NEAR(w.grad()[0].item<float>(), 2 * std::exp(2.f), 1e-4);
  const Tensor again = carried.detach();
  for (int i = 0; i < 3; ++i) carried.set_data(carried);
  for (int i = 0; i < 3; ++i) carried.set_data(carried.view({1, 2}).t());
  EXPECT_TRUE(carried.shares_storage(again));
  carried.add_(again.flip({0}).view({2, 1}));
  EXPECT_EQ(carried.shape(), (Dims{2, 1}));
}

TEST(OwnMemory, SparseRowsOfAnotherTableAreRefused) {
  const Tensor table = ones({5, 2}).requires_grad_();
  const Tensor loss = embedding(table, tensor({int64_t{4}}), EmbeddingOptions{.sparse = true}).sum();
  table.set_data(ones({2, 2}));
  EXPECT_THROW(loss.backward(), AutogradError);
}

TEST(OwnMemory, ResultsAndIntegersAreRefused) {
  const Tensor x = ones({2}).requires_grad_(), y = x * 2;
  EXPECT_THROW(y.set_data(ones({3})), AutogradError);
  EXPECT_THROW(y.set_data(ones({2}, f64)), AutogradError);
  EXPECT_THROW(x.set_data(ones({2}, i32)), DTypeError);
  EXPECT_THROW(x.set_data(Tensor()), ValueError);
  y.set_data(zeros({2}));
  EXPECT_EQ(values(y), (Floats{0, 0}));
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Floats{2, 2}));
}

TEST(OwnMemory, AViewLeavesItsBase) {
  const Tensor x = zeros({4}), view = x.slice(0, 1, 3);
  view.set_data(ones({2}));
  view.fill_(9);
  EXPECT_EQ(values(x), (Floats{0, 0, 0, 0}));
  EXPECT_EQ(values(view), (Floats{9, 9}));
}

struct Memory {
  float elements[4] = {1, 2, 3, 4};
  int freed = 0;
  Tensor tensor() {
    return from_blob(+elements, {4}, std::shared_ptr<void>(elements, [this](void*) { ++freed; }));
  }
};

TEST(OwnMemory, MemoryIsFreedOnce) {
  Memory first, second, third;
  {
    const Tensor x = first.tensor();
    x.set_data(second.tensor());
    EXPECT_EQ(first.freed, 1);  // no other handle, so no view
    const Tensor view = x[0];
    x.set_data(third.tensor());
    EXPECT_EQ(second.freed, 0);
    EXPECT_EQ(view.item<float>(), 1);
  }
  EXPECT_EQ(first.freed, 1);
  EXPECT_EQ(second.freed, 1);
  EXPECT_EQ(third.freed, 1);
  Memory viewed;
  {
    const Tensor x = viewed.tensor(), view = x[1];
    x.set_data(ones({1}));
    EXPECT_EQ(viewed.freed, 0);
    EXPECT_EQ(view.item<float>(), 2);
  }
  EXPECT_EQ(viewed.freed, 1);
}

TEST(OwnMemory, NothingOutlivesItsHandles) {
  const auto live = detail::live_tensors();
  {
    const Tensor p = ones({2, 3}).requires_grad_(), y = p * 1, view = y[0];
    y.t_(), view.unsqueeze_(0);
    (y * y).sum().backward();
    const NoGradGuard unrecorded;
    for (int i = 0; i < 3; ++i) p.set_data(ones({2 + i}));
    ones({2}).set_(p).resize_({500}).resize_({3});
  }
  EXPECT_EQ(detail::live_tensors(), live);
}

TEST(OwnMemory, AFailedAllocationChangesNothing) {
  const Tensor x = ones({4});
  EXPECT_ANY_THROW(x.resize_({int64_t{1} << 56}));
  EXPECT_EQ(values(x), (Floats(4, 1)));
  EXPECT_EQ(x.version(), 0u);
}

TEST(OwnMemory, CapturedStepsAreRecordedAgain) {
  const Tensor w = ones({3}).requires_grad_();
  auto step = capture([&](const Tensor& x) {
    const NoGradGuard unrecorded;
    return (w * x).sum();
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(step(ones({3})).item<float>(), 3);
  w.set_data(full({3}, 2.0, f32));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(step(ones({3})).item<float>(), 6);
}

TEST(OwnMemory, StepsThatChangeATensorItselfAreNotCaptured) {
  const Tensor state = ones({2, 3});
  auto turning = capture([&](const Tensor& x) {
    state.t_();
    return x * 2;
  });
  turning(ones({1}));  // eager
  EXPECT_THROW(turning(ones({1})), NotImplementedError);
  auto moving = capture([&](const Tensor& x) {
    state.set_data(zeros({2}));
    return x * 2;
  });
  moving(ones({1}));
  EXPECT_THROW(moving(ones({1})), NotImplementedError);
}

struct SumOfGiven : autograd::Function<SumOfGiven> {
  static std::vector<Tensor> forward(Context& context, const Tensor& x) {
    context.set_materialize_grads(false);
    return {x * 2, x * 3};
  }
  static std::vector<Tensor> backward(Context&, std::span<const Tensor> g) {
    Tensor sum;
    for (const Tensor& one : g) {
      if (one.defined()) sum = sum.defined() ? sum + one : one;
    }
    return {sum * static_cast<double>(g[0].defined() + 10 * g[1].defined())};
  }
};

TEST(FunctionContext, MissingGradientsStayUndefined) {
  const Tensor x = ones({2}).requires_grad_();
  SumOfGiven::apply(x)[1].sum().backward();
  EXPECT_EQ(values(x.grad()), (Floats{10, 10}));
}

}  // namespace
}  // namespace weft
