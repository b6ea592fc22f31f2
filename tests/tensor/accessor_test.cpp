// Single elements by accessor: values, strides, and the checks of debug builds, which this file always has.
#undef NDEBUG
#include <weft/tensor/accessor.hpp>

#include <gtest/gtest.h>

#include <weft/ops/create.hpp>

namespace weft::testing {
namespace {

TEST(Accessor, ReadsAndWritesElements) {
  const Tensor x = zeros({2, 3});
  const auto a = x.accessor<float, 2>();
  a(0, 1) = 5;
  a[1][2] = 7;
  EXPECT_EQ(x.to_vector<int>(), (std::vector<int>{0, 5, 0, 0, 0, 7}));
  EXPECT_EQ(a[0][1], 5);
  EXPECT_EQ(a(1, 2), 7);
  EXPECT_EQ(a.size(1), 3);
  EXPECT_EQ(a.stride(0), 3);
  EXPECT_EQ(a.data(), x.data<float>());
  const auto row = a[1];
  EXPECT_EQ(std::vector<int64_t>(row.sizes().begin(), row.sizes().end()), std::vector<int64_t>{3});
}

TEST(Accessor, FollowsStridesOfAnySign) {
  const Tensor x = tensor({{0, 1, 2}, {3, 4, 5}});
  const auto a = x.t().accessor<int64_t, 2>();
  EXPECT_EQ(a(2, 1), 5);
  EXPECT_EQ(a[1][0], 1);
  const auto back = x.slice(1, {}, {}, -1).accessor<int64_t, 2>();
  EXPECT_EQ(back(0, 0), 2);
  EXPECT_EQ(back.stride(1), -1);
  EXPECT_EQ((x.expand({4, 2, 3}).accessor<int64_t, 3>()[3][1][0]), 3);
}

TEST(Accessor, OfZeroDimensionsAndOfHalves) {
  EXPECT_EQ((tensor(3.5).accessor<float, 0>()()), 3.5f);
  const Tensor h = ones({2}, f16);
  EXPECT_EQ(to_float((h.accessor<float16, 1>()[1])), 1.0f);
  EXPECT_EQ((tensor({true, false}).accessor<bool, 1>()(0)), true);
}

TEST(Accessor, RejectsWrongDtypeRankAndDevice) {
  const Tensor x = zeros({2, 3});
  EXPECT_THROW((x.accessor<double, 2>()), DTypeError);
  EXPECT_THROW((x.accessor<float, 1>()), ShapeError);
  EXPECT_THROW((Tensor().accessor<float, 1>()), ValueError);
  EXPECT_THROW((empty({2}, {f32, Device("meta")}).accessor<float, 1>()), DeviceError);
}

TEST(Accessor, ChecksItsBoundsInDebugBuilds) {
  const Tensor x = zeros({2, 3});
  const auto a = x.accessor<float, 2>();
  EXPECT_THROW(a(2, 0), IndexError);
  EXPECT_THROW(a(0, -1), IndexError);
  try {
    a[1][3];
    FAIL();
  } catch (const IndexError& e) {
    EXPECT_NE(std::string(e.what()).find("[accessor] index 3 is out of range for axis 1 of size 3"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace weft::testing
