// A view that autograd follows keeps its memory alive through its base, and its memory is never taken for a result.
#include <gtest/gtest.h>

#include <weft/weft.hpp>

namespace weft {
namespace {

using Floats = std::vector<float>;

struct Memory {
  float elements[4] = {1, 2, 3, 4};
  int freed = 0;
  Tensor tensor() {
    return from_blob(+elements, {4}, std::shared_ptr<void>(elements, [this](void*) { ++freed; }));
  }
};

TEST(ViewOwnership, MemoryLivesAsLongAsAnyViewOfIt) {
  Memory memory;
  Tensor x = memory.tensor();
  Tensor view = x.view({2, 2});
  Tensor row = view[1];
  x = Tensor();
  view = Tensor();
  EXPECT_EQ(memory.freed, 0);
  EXPECT_EQ(row.to_vector<float>(), (Floats{3, 4}));
  row = Tensor();
  EXPECT_EQ(memory.freed, 1);
}

TEST(ViewOwnership, AViewThatBecameALeafKeepsItsMemory) {
  Memory memory;
  Tensor leaf = memory.tensor().slice(0, 1, 3).requires_grad_();
  EXPECT_EQ(memory.freed, 0);
  (leaf * leaf).sum().backward();
  EXPECT_EQ(leaf.grad().to_vector<float>(), (Floats{4, 6}));
  leaf = Tensor();
  EXPECT_EQ(memory.freed, 1);
}

TEST(ViewOwnership, AViewOfADetachedTensorKeepsItsMemory) {
  Memory memory;
  Tensor view = memory.tensor().detach().view({2, 2});
  EXPECT_EQ(memory.freed, 0);
  EXPECT_EQ(view.to_vector<float>(), (Floats{1, 2, 3, 4}));
  view = Tensor();
  EXPECT_EQ(memory.freed, 1);
}

TEST(ViewOwnership, AViewMadeInInferenceKeepsItsMemory) {
  const InferenceGuard guard;
  Tensor view = (ones({3}) + 1).view({3, 1});
  EXPECT_EQ(view.to_vector<float>(), (Floats{2, 2, 2}));
  Tensor other = view.view({3});
  view = Tensor();
  EXPECT_EQ((other + 1).to_vector<float>(), (Floats{3, 3, 3}));
}

TEST(ViewOwnership, NoTensorOutlivesItsHandles) {
  const int64_t before = detail::live_tensors();
  {
    const Tensor x = ones({2, 3}).requires_grad_();
    const std::vector<Tensor> rows = x.unbind(0);
    (rows[0].view({3, 1}) * rows[1].unsqueeze(1)).sum().backward();
    x.detach().t().reshape({-1});
  }
  EXPECT_EQ(detail::live_tensors(), before);
}

TEST(ViewOwnership, ATemporaryViewIsNotWrittenInPlace) {
  const NoGradGuard guard;
  const Tensor x = tensor({1.f, 2.f, 3.f, 4.f}), mask = x > 2.5;
  const Floats values = x.to_vector<float>();
  x.view({2, 2}) + 1;
  1 - x.slice(0, 0, 4);
  exp(x.view({4}));
  where(mask, x.view({4}), 0);
  where(mask, 0, x.expand({4}));
  EXPECT_EQ(x.to_vector<float>(), values);
}

TEST(ViewOwnership, AViewWhoseBaseHasNoHandleIsNotWrittenInPlace) {
  const NoGradGuard guard;
  Tensor x = tensor({1.f, 2.f});
  const Tensor first = x.view({2, 1}), second = x.view({1, 2});
  x = Tensor();
  Tensor sum = Tensor(first) + second;
  EXPECT_EQ(second.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(sum.to_vector<float>(), (Floats{2, 3, 3, 4}));
}

TEST(ViewOwnership, AnOwnerWithAViewIsNotWrittenInPlace) {
  const NoGradGuard guard;
  Tensor x = tensor({1.f, 2.f});
  const Tensor view = x.view({2, 1});
  Tensor y = std::move(x) + 1;
  EXPECT_EQ(y.to_vector<float>(), (Floats{2, 3}));
  EXPECT_EQ(view.to_vector<float>(), (Floats{1, 2}));
}

}  // namespace
}  // namespace weft
