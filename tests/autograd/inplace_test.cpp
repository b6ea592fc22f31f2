// In-place writes and views: a write through one tensor is visible in all others, and in autograd.
#include <gtest/gtest.h>

#include <weft/weft.hpp>

namespace weft {
namespace {

using Doubles = std::vector<double>;
Doubles values(const Tensor& t) { return t.to_vector<double>(); }

TEST(InPlace, AWriteThroughAViewReachesTheGradientOfTheBase) {
  const Tensor x = tensor({1.0, 2.0, 3.0}).requires_grad_();
  const Tensor y = x * 2.0;
  y.select(0, 1).mul_(10.0);
  (y * tensor({1.0, 10.0, 100.0})).sum().backward();
  EXPECT_EQ(values(x.grad()), (Doubles{2, 200, 200}));
}

TEST(InPlace, AGradientThatIsPartOfALargerTensorReachesTheWrittenPart) {
  const Tensor x = ones({1, 3}).requires_grad_(), part = ones({1}).requires_grad_();
  const Tensor y = x.clone();
  y.select(1, 2).copy_(part);
  const Tensor g = tensor({{9.f, 9.f, 9.f}, {1.f, 2.f, 3.f}}).narrow(0, 1, 1);
  const std::vector<Tensor> back = grad(std::vector{y}, std::vector{x, part}, std::vector{g});
  EXPECT_EQ(back[0].to_vector<float>(), (std::vector<float>{1, 2, 0}));
  EXPECT_EQ(back[1].to_vector<float>(), (std::vector<float>{3}));
}

TEST(InPlace, AViewTakenBeforeAWriteToItsBaseGetsTheNewGradient) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  const Tensor y = x * 1.0;
  const Tensor first = y.select(0, 0);
  y.mul_(3.0);
  first.backward();
  EXPECT_EQ(values(x.grad()), (Doubles{3, 0}));
}

TEST(InPlace, ASiblingViewSeesTheWrite) {
  const Tensor x = tensor({1.0, 2.0, 3.0, 4.0}).requires_grad_();
  const Tensor y = (x * 1.0).view({2, 2});
  const Tensor row = y.select(0, 0), column = y.select(1, 0);
  row.mul_(5.0);
  column.sum().backward();
  EXPECT_EQ(values(x.grad()), (Doubles{5, 0, 1, 0}));
}

TEST(InPlace, CopyingIntoATensorWithoutGradientMakesItPartOfTheGraph) {
  const Tensor w = tensor({1.0, 2.0}).requires_grad_();
  const Tensor buffer = zeros({3, 2});
  const Tensor row = buffer.select(0, 1);
  row.copy_(w * 2.0);
  EXPECT_TRUE(buffer.requires_grad());
  (buffer * 3.0).sum().backward();
  EXPECT_EQ(values(w.grad()), (Doubles{6, 6}));
}

TEST(InPlace, AnIntegerTargetIsNotRecorded) {
  const Tensor source = tensor({1.5, 2.5}).requires_grad_(), target = zeros({2}, i64);
  target.copy_(source);
  target[0] = source[1];
  EXPECT_FALSE(target.requires_grad());
  EXPECT_EQ(target.to_vector<int64_t>(), (std::vector<int64_t>{2, 2}));
}

TEST(InPlace, TheOverwrittenValueGetsNoGradient) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  const Tensor y = x * 2.0;
  y.zero_();
  (y.sum() + x.sum()).backward();
  EXPECT_EQ(values(x.grad()), (Doubles{1, 1}));
}

TEST(InPlace, SecondDerivativesPassThroughAWrite) {
  const Tensor x = tensor({2.0, 3.0}, f64).requires_grad_();
  const Tensor y = x * x;
  y.select(0, 0).mul_(x.select(0, 1));
  const Tensor first = grad({y.sum()}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(values(first), (Doubles{12, 10}));
  const Tensor second = grad({first.select(0, 0)}, {x})[0];
  EXPECT_EQ(values(second), (Doubles{6, 4}));
}

TEST(InPlace, ALeafThatRequiresAGradientIsRefusedAndUnchanged) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  EXPECT_THROW(x.mul_(2.0), AutogradError);
  EXPECT_THROW(x.select(0, 0).zero_(), AutogradError);
  EXPECT_EQ(values(x), (Doubles{1, 2}));
  NoGradGuard unrecorded;
  x.mul_(2.0);
  EXPECT_EQ(values(x), (Doubles{2, 4}));
}

TEST(InPlace, AModifiedSavedTensorIsNamedWithItsWriter) {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  const Tensor y = exp(x);
  const Tensor loss = y.sum();
  y.add_(1.0);
  try {
    loss.backward();
    FAIL() << "nothing was raised";
  } catch (const AutogradError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("[exp]"), std::string::npos) << text;
    EXPECT_NE(text.find("written by add_ at "), std::string::npos) << text;
    EXPECT_NE(text.find("inplace_test.cpp:"), std::string::npos) << text;
  }
}

TEST(InPlace, OverlappingSourceIsCopiedFirst) {
  const Tensor x = arange(4);
  x.slice(0, 1).copy_(x.slice(0, 0, 3));
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1, 2}));
}

TEST(InPlace, AnExpandedTargetIsRefused) {
  const Tensor x = zeros({1}).expand({3});
  EXPECT_THROW(x.fill_(1.0), ValueError);
  EXPECT_THROW(x.add_(1.0), ValueError);
}

TEST(InPlace, EveryWriteRaisesTheVersionOfAllViews) {
  const Tensor x = zeros({4});
  const Tensor v = x.slice(0, 1, 3);
  const uint32_t before = x.version();
  v.fill_(1.0);
  x.add_(1.0);
  EXPECT_EQ(x.version(), before + 2);
  EXPECT_EQ(v.version(), x.version());
}

TEST(InPlace, ExactIntegersAreStored) {
  const Tensor x = zeros({1}, i64);
  x.fill_(int64_t{9007199254740993});
  EXPECT_EQ(x.item<int64_t>(), 9007199254740993);
  x.add_(int64_t{2});
  EXPECT_EQ(x.item<int64_t>(), 9007199254740995);
}

}  // namespace
}  // namespace weft
