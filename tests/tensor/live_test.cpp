// The count of live tensors: everything that was made is gone again, also after errors.
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include <weft/weft.hpp>

namespace weft {
namespace {

class Live : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(detail::live_tensors(), before); }
  int64_t before = detail::live_tensors();
};

TEST_F(Live, CountsHeadsAndViews) {
  const Tensor x = zeros({4});
  EXPECT_EQ(detail::live_tensors(), before + 1);
  const Tensor same = x;
  EXPECT_EQ(detail::live_tensors(), before + 1);
  const Tensor view = x.view({2, 2}), outside = x.detach();
  EXPECT_EQ(detail::live_tensors(), before + 3);
}

TEST_F(Live, AStorageMayOutliveItsFirstHead) {
  Tensor x = zeros({100});
  const Tensor outside = x.detach();
  x = Tensor();
  EXPECT_EQ(detail::live_tensors(), before + 1);
}

TEST_F(Live, TenThousandCycles) {
  for (int i = 0; i < 10000; ++i) {
    const Tensor x = zeros({i % 50 + 1}).requires_grad_();
    (x * x + 1.0).sum().backward();
  }
}

TEST_F(Live, OtherThreadsCount) {
  Tensor kept;
  std::thread([&] { kept = zeros({3}); }).join();
  EXPECT_EQ(detail::live_tensors(), before + 1);
  std::thread([&] { kept = Tensor(); }).join();
}

TEST_F(Live, AHookMayHoldItsOwnTensorUntilTheGraphIsFreed) {
  const Tensor x = zeros({3}).requires_grad_();
  int calls = 0;
  HookHandle handle;
  {
    const Tensor y = x * 2.0;
    handle = register_hook(y, [y, &calls](const Tensor& g) {
      ++calls;
      return g * y.size(0);
    });
    const Tensor z = y.sum();
    z.backward({.retain_graph = true});
    z.backward();
  }
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{12, 12, 12}));
  EXPECT_FALSE(handle.remove());
  EXPECT_EQ(detail::live_tensors(), before + 2);  // x and its gradient
}

TEST_F(Live, AHookThatHoldsALeafIsFreedWhenItIsRemoved) {
  const Tensor x = zeros({3}).requires_grad_();
  HookHandle handle = register_hook(x, [x](const Tensor&) { return Tensor(); });
  HookHandle inside;
  inside = register_post_accumulate_grad_hook(x, [x, &inside](const Tensor&) { inside.remove(); });
  (x * 2.0).sum().backward();
  EXPECT_TRUE(handle.remove());
  EXPECT_FALSE(inside.remove());
}

TEST_F(Live, AKeptGradientStaysWhenTheGraphIsFreed) {
  const Tensor x = zeros({3}).requires_grad_();
  const Tensor y = x * 2.0;
  y.retain_grad();
  register_hook(y, [y](const Tensor& g) { return g * 3.0; });
  y.sum().backward();
  EXPECT_EQ(y.grad().to_vector<double>(), (std::vector<double>{3, 3, 3}));
}

TEST_F(Live, ARecordedGradientDiesWithItsLeaf) {
  Tensor x = ones({3}).requires_grad_();
  const Tensor w = ones({3}).requires_grad_();
  // The gradient of x depends on w's leaf, and w's on x's: recorded, both lead back.
  (x * 2.0 * w.detach()).sum().backward({.create_graph = true});
  (x * 1.0 + w * 1.0).sum().backward({.create_graph = true});
}

TEST_F(Live, AGraphWithoutItsLeafNeedsNoGradient) {
  Tensor y;
  {
    const Tensor x = ones({3}).requires_grad_();
    y = (x + 1.0).sum();
  }
  y.backward({.create_graph = true});
}

TEST_F(Live, FailingOpsKeepNothing) {
  const Tensor a = zeros({2, 3}).requires_grad_(), b = zeros({4});
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(a + b, ShapeError);
    EXPECT_THROW(a * 2.0 + b, ShapeError);
    EXPECT_THROW(matmul(a, b.view({2, 2})), ShapeError);
    EXPECT_THROW(a.view({7}), ShapeError);
    EXPECT_THROW(a.select(5, 0), IndexError);
    EXPECT_THROW(cat({a, b}), ShapeError);
    EXPECT_THROW((a * 2.0).backward(), AutogradError);
    EXPECT_THROW((a * 2.0).sum().backward(zeros({5})), ShapeError);
  }
}

TEST_F(Live, AFailingHookKeepsNothing) {
  const Tensor x = zeros({3}).requires_grad_();
  for (int i = 0; i < 100; ++i) {
    const Tensor y = x * 2.0;
    register_hook(y, [](const Tensor&) -> Tensor { throw std::runtime_error("from the hook"); });
    EXPECT_THROW((y * y + x).sum().backward(), std::runtime_error);
  }
  EXPECT_EQ(detail::live_tensors(), before + 1 + x.grad().defined());
}

TEST_F(Live, RunningOutOfMemoryKeepsNothing) {
  const size_t allocated = memory_stats().allocated;
  const Tensor x = ones({1000}).requires_grad_();
  const int64_t now = detail::live_tensors();
  const size_t base = memory_stats().allocated;
  // Every place of a forward and backward pass runs out once.
  bool finished = false;
  for (size_t room = 0; room < 400 && !finished; ++room) {
    set_memory_limit({}, base + room * 500);
    try {
      const Tensor y = exp(x.view({10, 100})) * x.view({10, 100});
      softmax(y.t().contiguous(), 1).sum().backward();
      finished = true;
    } catch (const OutOfMemoryError&) {
    }
    set_memory_limit({}, 0);
    x.set_grad({});
    ASSERT_EQ(detail::live_tensors(), now) << room;
    ASSERT_EQ(memory_stats().allocated, base) << room;
  }
  EXPECT_TRUE(finished);
  EXPECT_THROW(zeros({int64_t{1} << 50}), OutOfMemoryError);
  EXPECT_THROW(zeros({int64_t{1} << 61, 64}), Error);
  EXPECT_GE(base, allocated);
}

}  // namespace
}  // namespace weft
