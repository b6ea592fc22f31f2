// PyTorch's second names of methods, forms relative to another tensor, and methods of linear algebra.
#include <gtest/gtest.h>

#include "values.hpp"

#include <weft/weft.hpp>

namespace weft {
namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }
Tensor square_matrix() { return tensor(Values{4, 1, 0, 1, 3, 1, 0, 1, 2}, f64).view({3, 3}); }

void expect_equal(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.dtype(), expected.dtype());
  EXPECT_EQ(actual.shape(), expected.shape());
  EXPECT_EQ(values(actual), values(expected));
}

TEST(MoreMethods, UnaryNames) {
  const Tensor x = tensor(Values{0.25, -0.5, 0.75}, f64), above = x.abs() + 1;
  expect_equal(x.absolute(), x.abs());
  expect_equal(x.negative(), x.neg());
  expect_equal((x * 4).fix(), (x * 4).trunc());
  expect_equal(x.arcsin(), x.asin());
  expect_equal(x.arccos(), x.acos());
  expect_equal(x.arctan(), x.atan());
  expect_equal(x.arcsinh(), x.asinh());
  expect_equal(above.arccosh(), above.acosh());
  expect_equal(x.arctanh(), x.atanh());
  const Tensor y = x.clone();
  y.negative_();
  y[0].absolute_();
  EXPECT_EQ(values(y), (Values{0.25, 0.5, -0.75}));
  y[y < 0].absolute_();
  EXPECT_EQ(values(y), (Values{0.25, 0.5, 0.75}));
}

TEST(MoreMethods, BinaryNames) {
  const Tensor x = tensor(Values{1, -2, 3}, f64), y = tensor(Values{2, -2, 4}, f64);
  expect_equal(x.subtract(y), x - y);
  expect_equal(x.multiply(y), x * y);
  expect_equal(x.divide(2), x / 2);
  expect_equal(x.true_divide(y), x / y);
  expect_equal(x.arctan2(y), x.atan2(y));
  expect_equal(x.greater(y), x > y);
  expect_equal(x.greater_equal(y), x >= y);
  expect_equal(x.less(y), x < y);
  expect_equal(x.less_equal(0), x <= 0);
  expect_equal(x.not_equal(y), x != y);
  const Tensor z = x.clone();
  z.multiply_(2).subtract_(1).divide_(x);
  expect_equal(z, (x * 2 - 1) / x);
  expect_equal(x.clamp_min(0), x.clamp(0));
  expect_equal(x.clamp_max(0), x.clamp({}, 0));
  expect_equal(x.clamp_min(y), maximum(x, y));
  expect_equal(x.clamp_max(y), minimum(x, y));
  z.clamp_min_(0).clamp_max_(1);
  expect_equal(z, ((x * 2 - 1) / x).clamp(0, 1));
}

TEST(MoreMethods, Properties) {
  const Tensor x = ones({2, 3}, {.dtype = f64, .requires_grad = true});
  EXPECT_EQ(x.scalar_type(), f64);
  EXPECT_EQ(x.element_size(), 8);
  EXPECT_TRUE(x.is_cpu() && x.is_floating_point());
  EXPECT_FALSE(x.is_cuda() || x.is_meta() || x.is_complex());
  EXPECT_EQ(x.get_device(), -1);
  const Tensor like = zeros({1}, x.options());
  EXPECT_EQ(like.dtype(), f64);
  EXPECT_TRUE(like.requires_grad());
  EXPECT_TRUE(zeros({1}, c64).is_complex());
  EXPECT_TRUE(zeros({1}, Device("meta")).is_meta());
  EXPECT_EQ(x[0][1].item().to<double>(), 1);
  EXPECT_TRUE(tensor(2).is_nonzero());
  EXPECT_FALSE(tensor(0.0).is_nonzero());
  EXPECT_THROW(x.is_nonzero(), ValueError);
  EXPECT_THROW(x.item(), ValueError);
  EXPECT_EQ(x.data_ptr<double>(), x.data_ptr());
  EXPECT_THROW(x.data_ptr<float>(), DTypeError);
}

TEST(MoreMethods, RelativeToAnotherTensor) {
  const Tensor x = arange(3, f64), y = zeros({2, 3}, f32);
  expect_equal(x.expand_as(y), x.expand({2, 3}));
  EXPECT_EQ(arange(6).view_as(y).shape(), y.shape());
  EXPECT_EQ(arange(6).reshape_as(y).shape(), y.shape());
  EXPECT_EQ(x.type_as(y).dtype(), f32);
  EXPECT_EQ(x.to(y).dtype(), f32);
  EXPECT_TRUE(x.is_same_size(zeros({3})));
  EXPECT_FALSE(x.is_same_size(y));
  EXPECT_EQ(x.cpu().impl(), x.impl());
  EXPECT_THROW(x.cuda(99), DeviceError);
  EXPECT_THROW(y.view_as(x), ShapeError);
}

TEST(MoreMethods, Diagonals) {
  expect_equal(tensor(Values{1, 2, 3, 4}, f64).view({2, 2}).diagflat(), tensor(Values{1, 2, 3, 4}, f64).diag());
  const Tensor tall = zeros({3, 2}, f64), cube = zeros({2, 2, 2}, f64), rows = zeros({2, 2, 2}, f64);
  tall.fill_diagonal_(5);
  EXPECT_EQ(values(tall), (Values{5, 0, 0, 5, 0, 0}));
  cube.fill_diagonal_(1);
  EXPECT_EQ(values(cube), (Values{1, 0, 0, 0, 0, 0, 0, 1}));
  rows[1].fill_diagonal_(2);
  EXPECT_EQ(values(rows), (Values{0, 0, 0, 0, 2, 0, 0, 2}));
  EXPECT_THROW(zeros({3}).fill_diagonal_(1), ShapeError);
  EXPECT_THROW(zeros({2, 2, 3}).fill_diagonal_(1), ShapeError);
  expect_equal(square_matrix().narrow_copy(0, 1, 2), square_matrix().narrow(0, 1, 2));
}

TEST(MoreMethods, LinearAlgebra) {
  const Tensor a = square_matrix(), b = arange(9, f64).view({3, 3}) + 1, v = tensor(Values{1, 2, 3}, f64);
  expect_equal(a.det(), linalg::det(a));
  expect_equal(a.logdet(), linalg::logdet(a));
  expect_equal(a.inverse(), linalg::inv(a));
  expect_equal(a.pinverse(), linalg::pinv(a, {}, 1e-15));
  expect_equal(a.matrix_exp(), linalg::matrix_exp(a));
  expect_equal(a.matrix_power(3), linalg::matrix_power(a, 3));
  const Tensor factor = linalg::cholesky(a);
  expect_equal(factor.cholesky_inverse(), linalg::cholesky_inverse(factor));
  expect_equal(b.cholesky_solve(factor), linalg::cholesky_solve(b, factor));
  expect_equal(v.inner(v), inner(v, v));
  expect_equal(v.vdot(v), vdot(v, v));
  expect_equal(v.ger(v), outer(v, v));
  expect_equal(a.kron(b), kron(a, b));
  expect_equal(v.cross(v.flip({0})), linalg::cross(v, v.flip({0})));
  expect_equal(v.addmv(a, v, 2, 3), addmv(v, a, v, 2, 3));
  expect_equal(a.addr(v, v), addr(a, v, v));
  const Tensor batch = stack({a, b});
  expect_equal(a.addbmm(batch, batch), addbmm(a, batch, batch));
  expect_equal(a.baddbmm(batch, batch), baddbmm(a, batch, batch));
  expect_equal(batch[1].det(), linalg::det(b));
  const Tensor z = complex(a, b);
  EXPECT_TRUE(z.adjoint().equal(z.t().conj()));
  expect_equal(b.adjoint(), b.t());
}

}  // namespace
}  // namespace weft
