// Views share storage and version; shapes, strides and errors are those of the indexing rules.
#include <gtest/gtest.h>

#include <weft/weft.hpp>

namespace weft {
namespace {

using Ints = std::vector<int64_t>;
Ints values(const Tensor& t) { return t.to_vector<int64_t>(); }
Tensor cube() { return arange(24).view({2, 3, 4}); }

TEST(View, SharesStorageAndSeesWrites) {
  const Tensor x = cube();
  const Tensor v = x.select(0, 1).slice(1, 1, 3);
  EXPECT_TRUE(v.shares_storage(x));
  v.fill_(-1);
  EXPECT_EQ(values(x.select(0, 1).select(0, 0)), (Ints{12, -1, -1, 15}));
}

TEST(View, SlicesFollowPython) {
  const Tensor row = cube().select(0, 0).select(0, 0);
  EXPECT_EQ(values(row.slice(0, -100, 2)), (Ints{0, 1}));
  EXPECT_EQ(values(row.slice(0, 3, 0, -1)), (Ints{3, 2, 1}));
  EXPECT_EQ(values(row.slice(0, 3, -5, -1)), (Ints{3, 2, 1, 0}));
  EXPECT_EQ(values(row.slice(0, -1, -3, -1)), (Ints{3, 2}));
  EXPECT_EQ(values(row.slice(0, 100, 0, -2)), (Ints{3, 1}));
  EXPECT_EQ(cube().slice(0, 5).shape(), Dims({0, 3, 4}));
  EXPECT_EQ(cube().slice(0, 1, 0).shape(), Dims({0, 3, 4}));
  EXPECT_EQ(values(cube().slice(1, {}, {}, -1).slice(2, {}, {}, -2)),
            (Ints{11, 9, 7, 5, 3, 1, 23, 21, 19, 17, 15, 13}));
  EXPECT_THROW(row.slice(0, {}, {}, 0), ValueError);
  EXPECT_THROW(tensor(1).slice(0), IndexError);
}

TEST(View, NegativeStepsAreViewsWithNegativeStrides) {
  const Tensor x = arange(5);
  const Tensor back = x.slice(0, {}, {}, -2);
  EXPECT_TRUE(back.shares_storage(x));
  EXPECT_EQ(back.stride(0), -2);
  EXPECT_EQ(back.storage_offset(), 4);
  back.fill_(9);
  EXPECT_EQ(values(x), (Ints{9, 1, 9, 3, 9}));
}

TEST(View, SelectAndNarrowCheckTheirRange) {
  EXPECT_THROW(cube().select(0, 2), IndexError);
  EXPECT_THROW(cube().select(0, -3), IndexError);
  EXPECT_THROW(cube().select(3, 0), IndexError);
  EXPECT_EQ(values(cube().select(0, -1).select(0, -1)), (Ints{20, 21, 22, 23}));
  EXPECT_THROW(cube().narrow(1, 2, 2), IndexError);
  EXPECT_EQ(cube().narrow(1, -2, 2).shape(), Dims({2, 2, 4}));
}

TEST(View, ReshapeCopiesOnlyWhereItMust) {
  const Tensor x = cube();
  EXPECT_TRUE(x.reshape({6, -1}).shares_storage(x));
  EXPECT_FALSE(x.transpose(0, 2).reshape({24}).shares_storage(x));
  EXPECT_EQ(values(x.transpose(1, 2).reshape({2, 12}).select(0, 0)), (Ints{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_TRUE(x.transpose(0, 1).view({3, 2, 2, 2}).shares_storage(x));
  EXPECT_THROW(x.transpose(0, 2).view({24}), ShapeError);
  EXPECT_THROW(x.view({5, 5}), ShapeError);
  EXPECT_THROW(x.view({-1, -1}), ShapeError);
  EXPECT_THROW(zeros({0}).view({-1, 0}), ShapeError);
}

TEST(View, PermuteExpandSqueezeDiagonal) {
  const Tensor x = cube();
  EXPECT_EQ(x.permute({2, 0, 1}).shape(), Dims({4, 2, 3}));
  EXPECT_THROW(x.permute({0, 1}), ShapeError);
  EXPECT_THROW(x.permute({0, 1, 1}), ShapeError);
  EXPECT_EQ(values(arange(2).unsqueeze(1).expand({2, 3})), (Ints{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(arange(2).expand({3, -1}).shape(), Dims({3, 2}));
  EXPECT_THROW(arange(2).expand({3}), ShapeError);
  EXPECT_EQ(zeros({1, 2, 1}).squeeze().shape(), Dims({2}));
  EXPECT_EQ(zeros({1, 2, 1}).squeeze(0).shape(), Dims({2, 1}));
  EXPECT_EQ(zeros({1, 2, 1}).squeeze(1).shape(), Dims({1, 2, 1}));
  EXPECT_EQ(values(arange(9).view({3, 3}).diagonal()), (Ints{0, 4, 8}));
  EXPECT_EQ(values(arange(9).view({3, 3}).diagonal(-1)), (Ints{3, 7}));
  EXPECT_EQ(x.diagonal(1, 1, 2).shape(), Dims({2, 3}));
}

TEST(View, AsStridedStaysInsideTheStorage) {
  const Tensor x = arange(6);
  EXPECT_EQ(values(x.as_strided({2, 2}, {2, 1}, 1)), (Ints{1, 2, 3, 4}));
  EXPECT_THROW(x.as_strided({7}, {1}), ShapeError);
  EXPECT_THROW(x.as_strided({2}, {-1}), ShapeError);
  EXPECT_EQ(values(x.as_strided({2}, {-1}, 3)), (Ints{3, 2}));
}

TEST(View, SplitChunkUnbind) {
  const auto parts = arange(5).split(2);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(values(parts[2]), (Ints{4}));
  EXPECT_EQ(cube().chunk(2, 2).size(), 2u);
  EXPECT_EQ(zeros({0, 3}).chunk(4).size(), 4u);
  EXPECT_EQ(zeros({0, 3}).chunk(4)[3].shape(), (Dims{0, 3}));
  EXPECT_THROW(zeros({0, 3}).chunk(int64_t{1} << 40), ShapeError);
  EXPECT_EQ(values(cube().unbind(1)[2]), (Ints{8, 9, 10, 11, 20, 21, 22, 23}));
}

TEST(View, ZeroSizesAndZeroDimensionsPassEverywhere) {
  const Tensor empty_rows = zeros({0, 3});
  EXPECT_EQ(empty_rows.t().shape(), Dims({3, 0}));
  EXPECT_EQ(empty_rows.reshape({3, 0, 2}).numel(), 0);
  EXPECT_EQ(tensor(5).view({1, 1}).shape(), Dims({1, 1}));
  EXPECT_EQ(tensor({5}).view({}).dim(), 0);
  EXPECT_EQ(tensor(5).t().dim(), 0);
}

TEST(Shape, OverflowNegativeAndTooManyDimensionsAreRefused) {
  EXPECT_THROW(empty({int64_t{1} << 40, int64_t{1} << 40}), ShapeError);
  EXPECT_THROW(empty({-1}), ShapeError);
  EXPECT_THROW(empty({1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeError);
  EXPECT_THROW(empty({0, int64_t{1} << 62}), ShapeError);
  EXPECT_EQ(empty({0, int64_t{1} << 60}).numel(), 0);
}

}  // namespace
}  // namespace weft
