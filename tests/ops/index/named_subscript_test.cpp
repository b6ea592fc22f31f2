// auto y = x[…]: y is used as a Tensor.
#include <sstream>

#include <gtest/gtest.h>

#include <weft/weft.hpp>

namespace weft {
namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }
Tensor matrix() { return arange(6, f64).view({2, 3}); }
double total(const Tensor& t) { return t.sum().item<double>(); }

TEST(NamedSubscript, IsReadAsATensor) {
  const Tensor x = matrix();
  auto row = x[1];
  EXPECT_EQ(row.shape(), (Dims{3}));
  EXPECT_EQ(row.dim(), 1);
  EXPECT_EQ(row.dtype(), f64);
  EXPECT_EQ(values(row + 1), (Values{4, 5, 6}));
  EXPECT_EQ(values(2 * row), (Values{6, 8, 10}));
  EXPECT_EQ(total(row), 12);
  EXPECT_EQ(row[2].item<double>(), 5);
  EXPECT_EQ(values(stack({row, row})), (Values{3, 4, 5, 3, 4, 5}));
  const Tensor y = row;
  EXPECT_EQ(values(y), (Values{3, 4, 5}));
  std::ostringstream text;
  text << row;
  EXPECT_EQ(text.str(), y.text());
  const auto constant = x[0];
  EXPECT_EQ(total(constant), 3);
  const std::vector<Tensor> list{row, constant};
  EXPECT_EQ(total(list[1]), 3);
}

TEST(NamedSubscript, OfAViewIsWrittenAsAView) {
  const Tensor x = matrix();
  auto row = x[1];
  row[0] = 10;
  row += 1;
  row.mul_(2);
  row[{Slice(1, none)}] = 0;
  EXPECT_EQ(values(x), (Values{0, 1, 2, 22, 0, 0}));
  x[1][2] = 7;
  EXPECT_EQ(values(row), (Values{22, 0, 7}));
}

TEST(NamedSubscript, OfACopyIsWrittenAsACopy) {
  const Tensor x = matrix();
  auto large = x[x > 3];
  large += 10;
  large.mul_(2);
  large[0] = -1;
  EXPECT_EQ(values(large), (Values{-1, 30}));
  EXPECT_EQ(values(x), (Values{0, 1, 2, 3, 4, 5}));
  x[x > 3] += 10;  // a temporary writes back
  EXPECT_EQ(values(x), (Values{0, 1, 2, 3, 14, 15}));
}

TEST(NamedSubscript, AssignedToNamesAnotherTensor) {
  const Tensor x = matrix();
  auto row = x[0];
  row = row * 2;
  EXPECT_EQ(values(row), (Values{0, 2, 4}));
  row = x[1];
  EXPECT_EQ(values(row), (Values{3, 4, 5}));
  auto other = row;
  row = zeros({3}, f64);
  EXPECT_EQ(values(other), (Values{3, 4, 5}));
  EXPECT_EQ(values(x), (Values{0, 1, 2, 3, 4, 5}));
}

TEST(NamedSubscript, OfACopyRaisesIfTheTensorWasWrittenBeforeTheFirstUse) {
  const Tensor x = matrix();
  auto before = x[x > 3], used = x[{std::vector<int64_t>{0}, 1}];
  EXPECT_EQ(values(used), (Values{1}));
  x.zero_();
  EXPECT_THROW(values(before), ValueError);
  EXPECT_EQ(values(used), (Values{1}));
  auto view = x[1];
  x.fill_(3);
  EXPECT_EQ(values(view), (Values{3, 3, 3}));
}

TEST(NamedSubscript, IsRecordedInTheModeInWhichItWasWritten) {
  const Tensor w = matrix().requires_grad_();
  auto row = w[1];
  {
    const NoGradGuard guard;
    EXPECT_EQ(row.dim(), 1);
  }
  EXPECT_TRUE(row.requires_grad());
  (row * row).sum().backward();
  EXPECT_EQ(values(w.grad()), (Values{0, 0, 0, 6, 8, 10}));
  const auto unrecorded = [&] {
    const NoGradGuard guard;
    return w[0];
  }();
  EXPECT_FALSE(unrecorded.requires_grad());
}

TEST(NamedSubscript, TakesHooks) {
  const Tensor w = matrix().requires_grad_();
  auto row = w[1];
  int calls = 0;
  row.register_hook([&](const Tensor&) { ++calls; });
  row.sum().backward();
  EXPECT_EQ(calls, 1);
}

TEST(NamedSubscript, OutlivesTheTensor) {
  auto part = [] {
    const Tensor x = matrix();
    return x[{Slice(), 1}];
  }();
  EXPECT_EQ(values(part), (Values{1, 4}));
  EXPECT_THROW(matrix()[5].dim(), IndexError);
}

}  // namespace
}  // namespace weft
