#include <gtest/gtest.h>

#include <weft/weft.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

std::vector<Tensor> list(double scale = 1) {
  return {scale * tensor({{1.0, 2.0}, {3.0, 4.0}}), tensor(scale * 5, f64), full({3}, scale * 2)};
}
void expect_lists(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(equal(got[i], expected[i])) << i << ": " << got[i] << " for " << expected[i];
    EXPECT_EQ(got[i].dtype(), expected[i].dtype());
  }
}

TEST(Foreach, IsTheOpOnEachTensor) {
  const std::vector<Tensor> a = list(), b = list(0.5);
  expect_lists(foreach_add(a, b, 2), {a[0] + 2 * b[0], a[1] + 2 * b[1], a[2] + 2 * b[2]});
  expect_lists(foreach_mul(a, 3), {3 * a[0], 3 * a[1], 3 * a[2]});
  expect_lists(foreach_div(a, b), {a[0] / b[0], a[1] / b[1], a[2] / b[2]});
  expect_lists(foreach_sqrt(a), {sqrt(a[0]), sqrt(a[1]), sqrt(a[2])});
  expect_lists(foreach_addcdiv(a, b, b, -1), {a[0] - 1, a[1] - 1, a[2] - 1});
  expect_lists(foreach_lerp(a, b, 0.5), {lerp(a[0], b[0], 0.5), lerp(a[1], b[1], 0.5), lerp(a[2], b[2], 0.5)});
  expect_lists(foreach_norm(a, 1), {tensor(10.0), tensor(5.0, f64), tensor(6.0)});
  EXPECT_TRUE(foreach_neg({}).empty());
}

TEST(Foreach, InPlaceWritesEveryTensorAndIsRecorded) {
  std::vector<Tensor> a = list();
  const std::vector<Tensor> b = list(0.5);
  foreach_mul_(a, 2);
  foreach_sub_(a, b, 4);
  foreach_addcmul_(a, b, b);
  foreach_maximum_(a, 1);
  expect_lists(a, {maximum(b[0] * b[0], 1), maximum(b[1] * b[1], 1), maximum(b[2] * b[2], 1)});
  foreach_copy_(a, b);
  expect_lists(a, b);
  foreach_zero_(a);
  expect_lists(a, {zeros({2, 2}), zeros({}, f64), zeros({3})});

  const Tensor x = tensor({1.0, 2.0}).requires_grad_(), y = x * 1;
  foreach_mul_(std::vector{y}, 3);
  sum(y).backward();
  EXPECT_TRUE(equal(x.grad(), tensor({3.0, 3.0})));
}

TEST(Foreach, AnErrorInTheLastTensorLeavesTheFirst) {
  const std::vector<Tensor> a = list();
  const std::vector<Tensor> before = {a[0].clone(), a[1].clone(), a[2].clone()};
  const auto unchanged = [&] { expect_lists(a, before); };
  EXPECT_THROW(foreach_add_(a, std::vector{a[0], a[1], zeros({4})}), ShapeError);
  unchanged();
  EXPECT_THROW(foreach_mul_(a, std::vector{a[0], a[1], Tensor()}), Error);
  unchanged();
  EXPECT_THROW(foreach_mul_(a, std::vector{a[0], a[1]}), ValueError);
  unchanged();
  EXPECT_THROW(foreach_copy_(a, std::vector{a[1], a[1], zeros({2, 2})}), ShapeError);
  unchanged();
  const std::vector<Tensor> with_leaf = {a[0], tensor(1.0).requires_grad_()};
  EXPECT_THROW(foreach_neg_(with_leaf), AutogradError);
  unchanged();
  const std::vector<Tensor> with_integers = {a[0], tensor({1, 2})};
  EXPECT_THROW(foreach_sqrt_(with_integers), DTypeError);
  unchanged();
  EXPECT_THROW(foreach_add_(std::vector{a[0], full({1}, 1.0).expand({3})}, 1), Error);
  unchanged();
}

}  // namespace
}  // namespace weft::testing
