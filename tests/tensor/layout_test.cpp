#include <gtest/gtest.h>

#include <weft/tensor/layout.hpp>

namespace weft {
namespace {

Layout strided(const Dims& sizes, const Dims& strides) {
  Layout layout{};
  layout.dtype = DType::u8;
  layout.rank = static_cast<uint8_t>(sizes.size());
  layout.contiguous = 0;
  for (int i = 0; i < sizes.size(); ++i) {
    layout.sizes[i] = sizes[i];
    layout.strides[i] = strides[i];
    layout.numel *= sizes[i];
  }
  return layout;
}

TEST(ViewStrides, MergeAndSplitContiguousDimensions) {
  EXPECT_EQ(view_strides(strided({2, 3}, {6, 2}), Dims{6}), Dims{2});
  EXPECT_EQ(view_strides(strided({6}, {2}), Dims({2, 3})), Dims({6, 2}));
  EXPECT_EQ(view_strides(strided({2, 3}, {7, 2}), Dims{6}), std::nullopt);
  EXPECT_EQ(view_strides(strided({1, 3, 2}, {99, 2, 50}), Dims({3, 2})), Dims({2, 50}));
}

// A tensor on meta may have any strides.
TEST(ViewStrides, BeyondTheRangeOfIntegersNothingContinues) {
  const int64_t large = int64_t{1} << 35, step = int64_t{1} << 32;
  EXPECT_EQ(view_strides(strided({2, large}, {0, step}), Dims{2 * large}), std::nullopt);
  EXPECT_EQ(view_strides(strided({2, large}, {1, step}), Dims({2, large})), Dims({1, step}));
  EXPECT_EQ(view_strides(strided({large}, {step}), Dims({large / 2, 2})), Dims({2 * step, step}));
  EXPECT_EQ(view_strides(strided({large}, {step}), Dims({1, 2, large / 2})), std::nullopt);
}

}  // namespace
}  // namespace weft
