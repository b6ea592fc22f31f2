#include <gtest/gtest.h>

#if __has_include(<xtensor/xarray.hpp>)
#include <weft/io/xtensor.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>

namespace weft {
namespace {

TEST(Xtensor, TensorsTakeArraysOver) {
  xt::xarray<float> a = {{1, 2, 3}, {4, 5, 6}};
  const float* data = a.data();
  const Tensor t = from_xtensor(std::move(a));
  EXPECT_EQ(t.data<float>(), data);
  EXPECT_EQ(t.shape(), Dims({2, 3}));
  EXPECT_EQ(sum(t).item<float>(), 21);
}

TEST(Xtensor, SharedArraysSeeWrites) {
  auto a =
      std::make_shared<xt::xtensor<double, 2, xt::layout_type::column_major>>(xt::xtensor<double, 2>{{1, 2}, {3, 4}});
  const Tensor t = from_xtensor(a);
  EXPECT_EQ(t.strides(), Dims({1, 2}));
  EXPECT_EQ(t.to_vector<double>(), (std::vector<double>{1, 2, 3, 4}));
  t.mul_(10);
  EXPECT_EQ((*a)(1, 0), 30);
  std::weak_ptr<void> alive = a;
  const Tensor view = t.select(0, 1);
  a.reset();
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(view.to_vector<double>(), (std::vector<double>{30, 40}));
}

TEST(Xtensor, ScalarsAndSingletons) {
  EXPECT_EQ(from_xtensor(xt::xarray<int>(7)).item<int>(), 7);
  EXPECT_EQ(from_xtensor(xt::xarray<int>::from_shape({1, 2, 1})).shape(), Dims({1, 2, 1}));
  EXPECT_EQ(from_xtensor(xt::xarray<int>::from_shape({2, 0})).numel(), 0);
}

TEST(Xtensor, TensorsAsExpressions) {
  const Tensor t = arange(12).to(f64).view({3, 4});
  auto whole = as_xtensor<double>(t);
  EXPECT_EQ(xt::sum(whole)(), 66);
  auto turned = as_xtensor<double>(t.t());
  EXPECT_EQ(turned(1, 2), 9);
  turned(1, 2) = -1;
  EXPECT_EQ(t.select(0, 2).select(0, 1).item<double>(), -1);
  EXPECT_EQ(as_xtensor<double>(t.slice(1, 1, 4, 2))(2, 1), 11);
  EXPECT_EQ(as_xtensor<double>(t.select(0, 0).narrow(0, 0, 1).expand({5})).size(), 5u);
  EXPECT_EQ(as_xtensor<double>(empty({0, 2}, f64)).size(), 0u);
  EXPECT_EQ(as_xtensor<double>(t.select(0, 1).slice(0, {}, {}, -1))(0), 7);
  EXPECT_EQ(as_xtensor<double>(t.select(0, 0).select(0, 3))(), 3);
}

TEST(Xtensor, Refusals) {
  const Tensor t = arange(4);
  EXPECT_THROW(as_xtensor<float>(t), DTypeError);
  EXPECT_THROW(as_xtensor<float>(empty(3, Device("meta"))), DeviceError);
}

}  // namespace
}  // namespace weft
#else
TEST(Xtensor, Absent) { GTEST_SKIP() << "xtensor is not installed"; }
#endif
