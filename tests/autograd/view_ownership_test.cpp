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

TEST(ViewOwnership, AViewOfAParameterKeepsItsMemoryWhenTheModuleMoves) {
  const int64_t before = detail::live_tensors();
  const size_t bytes = memory_stats().allocated;
  {
    nn::Linear l(4, 300);
    const Floats first = l.weight.detach().select(0, 0).to_vector<float>();
    const Tensor row = l.weight.select(0, 0), part = row.narrow(0, 1, 2);
    l.to(f64);
    const Tensor late = row.view({2, 2});
    EXPECT_EQ(row.dtype(), f32);
    EXPECT_EQ(row.to_vector<float>(), first);
    EXPECT_EQ(part.to_vector<float>(), (Floats{first[1], first[2]}));
    EXPECT_EQ(late.to_vector<float>(), first);
    EXPECT_EQ(l.weight.select(0, 0).dtype(), f64);
    EXPECT_EQ(row.sum().dtype(), f32);
    const NoGradGuard guard;
    row.fill_(7);  // the old memory, and nobody else's
    EXPECT_EQ(late.to_vector<float>(), Floats(4, 7));
    EXPECT_EQ(l.weight.to_vector<float>()[0], first[0]);
  }
  EXPECT_EQ(detail::live_tensors(), before);
  EXPECT_EQ(memory_stats().allocated, bytes);
}

TEST(ViewOwnership, AGraphThatSavedAViewOfAParameterOutlivesTheMove) {
  nn::Linear l(3, 300);
  {
    const NoGradGuard guard;
    l.weight.copy_(arange(900).view({300, 3}));
  }
  const Tensor x = ones({2, 3}).requires_grad_();
  const Tensor y = matmul(x, l.weight.t());
  const Floats weight = l.weight.detach().sum(Dims{0}).to_vector<float>();
  l.to(f64);
  const Tensor gx = grad({y.sum()}, {x}, {}, {.retain_graph = true})[0];
  EXPECT_EQ(gx.select(0, 1).to_vector<float>(), weight);
  try {
    y.sum().backward();
    FAIL() << "a float32 gradient went into a float64 leaf";
  } catch (const AutogradError& error) {
    EXPECT_NE(std::string(error.what()).find("leaf float64 on cpu, gradient float32 on cpu"), std::string::npos);
  }
  EXPECT_FALSE(l.weight.grad().defined());
}

TEST(ViewOwnership, AWriteToAViewOfAMovedBufferIsTheViewsOwn) {
  const nn::Buffer held(ones({4}));
  const Tensor half = held.narrow(0, 0, 2);
  struct Holder : nn::Module {
    explicit Holder(nn::Buffer b) { register_buffer("held", b); }
  } module(held);
  module.to(f64);
  const Tensor x = tensor({2.f, 3.f}).requires_grad_();
  half.mul_(x);
  EXPECT_FALSE(held.requires_grad());
  half.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(held.to_vector<float>(), Floats(4, 1));
}

TEST(ViewOwnership, AViewOfAParameterMayBecomeALeaf) {
  nn::Linear l(2, 300);
  const NoGradGuard guard;
  const Tensor leaf = l.weight.detach().select(0, 0);
  const Tensor view = l.weight.select(0, 1).requires_grad_();
  l.to(f64);
  const EnableGradGuard record;
  (view * 2.f).sum().backward();
  EXPECT_EQ(view.grad().to_vector<float>(), (Floats{2, 2}));
  EXPECT_EQ(leaf.numel(), 2);
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
