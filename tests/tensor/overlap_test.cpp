// Layouts with one element at several positions: detected exactly, and never written to.
#include <gtest/gtest.h>

#include <weft/tensor/overlap.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

bool overlapping(const Tensor& t) {
  const bool exact = overlaps(t.raw_view().layout);
  EXPECT_TRUE(!exact || may_overlap(t.raw_view().layout)) << t.strides().text();
  return exact;
}

TEST(Overlap, IsFoundExactly) {
  const Tensor x = arange(24);
  EXPECT_FALSE(overlapping(x));
  EXPECT_FALSE(overlapping(x.view({2, 3, 4}).permute({2, 0, 1}).slice(0, {}, {}, -2)));
  EXPECT_FALSE(overlapping(x.view({4, 6}).diagonal()));
  EXPECT_FALSE(overlapping(x.as_strided({1, 3}, {0, 2})));
  EXPECT_FALSE(overlapping(x.as_strided({0, 3}, {0, 0})));
  EXPECT_TRUE(overlapping(x.as_strided({3, 3}, {1, 1})));
  EXPECT_TRUE(overlapping(x.as_strided({3, 3}, {-1, 1}, 6)));
  EXPECT_TRUE(overlapping(x.narrow(0, 0, 1).expand({3})));
  EXPECT_TRUE(overlapping(ones({1}).expand({int64_t{1} << 40})));
  EXPECT_TRUE(overlapping(unfold(x, 0, 3, 2)));
  EXPECT_FALSE(overlapping(unfold(x, 0, 3, 3)));
  // Strides that sizes alone do not tell apart: 0 2 4 and 3 5 7, then 0 2 4 and 4 6 8.
  EXPECT_FALSE(overlapping(x.as_strided({2, 3}, {3, 2})));
  EXPECT_TRUE(overlapping(x.as_strided({2, 3}, {4, 2})));
}

TEST(Overlap, IsNeverWrittenTo) {
  const Tensor x = arange(6).to(f32), windows = x.as_strided({3, 3}, {1, 1}), before = x.clone();
  EXPECT_THROW(square_(windows), ValueError);
  EXPECT_THROW(windows.add_(1), ValueError);
  EXPECT_THROW(windows.mul_(ones({3, 3})), ValueError);
  EXPECT_THROW(windows.copy_(ones({3, 3})), ValueError);
  EXPECT_THROW(windows.fill_(1), ValueError);
  EXPECT_THROW(exp_out(windows, ones({3, 3})), ValueError);
  EXPECT_THROW(index_fill_(windows, 0, tensor({0}), 1), ValueError);
  EXPECT_EQ(x.to_vector<float>(), before.to_vector<float>());
  EXPECT_EQ(x.version(), 0u);
  x.as_strided({2, 2}, {3, 2}, 0).add_(1);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 1, 3, 4, 4, 6}));
}

}  // namespace
}  // namespace weft
