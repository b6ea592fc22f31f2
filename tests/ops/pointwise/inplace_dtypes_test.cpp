// In-place forms with operands wider than the target: computed in the promoted dtype, rounded once.
#include <complex>

#include <weft/ops/foreach.hpp>
#include <weft/ops/record.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

int kind_of(DType t) { return is_complex(t) ? 3 : is_floating(t) ? 2 : t == boolean ? 0 : 1; }

Tensor numbers(DType t, const Doubles& values) { return doubles(values).to(t); }

constexpr DType types[] = {boolean, u8, i8, i16, i32, i64, f16, bf16, f32, f64, c64, c128};

// The op's converted result; empty if it raises or the target cannot hold it.
Tensor expected_of(const OpRecord& record, const Tensor& a, const Tensor& b) {
  try {
    const Tensor wide = record.pointwise.binary(a, b);
    return kind_of(wide.dtype()) > kind_of(a.dtype()) || !(wide.shape() == a.shape()) ? Tensor() : wide.to(a.dtype());
  } catch (const Error&) {
    return {};
  }
}

TEST(InPlaceDtypes, EveryOpComputesInThePromotedDtype) {
  int compared = 0, refused = 0;
  for (const OpRecord& record : op_records()) {
    if (record.pointwise.binary_in_place == nullptr) continue;
    for (const DType s : types) {
      for (const DType t : types) {
        SCOPED_TRACE(std::string(record.name) + " of " + name(s) + " with " + name(t));
        const Tensor a = numbers(s, {100, 3, 1, 7}), b = numbers(t, {100.25, 1.5, 3, 2}).reshape({4});
        const Tensor target = a.clone(), expected = expected_of(record, a, b);
        if (!expected.defined()) {
          EXPECT_THROW(record.pointwise.binary_in_place(target, b), Error);
          EXPECT_TRUE(equal(target, a));
          ++refused;
          continue;
        }
        EXPECT_EQ(&record.pointwise.binary_in_place(target, b), &target);
        EXPECT_TRUE(allclose(target, expected, 0, 0, true)) << target << expected;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(refused, 500);
}

TEST(InPlaceDtypes, AWiderOperandIsNotCastFirst) {
  const Tensor small = tensor({100}, i8);
  small.floor_divide_(tensor({300}));
  EXPECT_EQ(values(small), (Doubles{0}));
  const Tensor tiny = tensor({1e-30f});
  tiny.mul_(doubles({1e40}));
  EXPECT_EQ(tiny.item<float>(), 1e10f);
  Tensor half = tensor({1.0}, bf16);
  half -= doubles({1.001953125});
  EXPECT_EQ(half.item<double>(), -0.001953125);
  const Tensor most = tensor({100}, u8);
  most.maximum_(tensor({300}));
  EXPECT_EQ(most.item<int>(), 44);  // the result wraps around as to(u8) does
  const Tensor list = tensor({1e-30f});
  foreach_mul_(std::vector{list}, std::vector{doubles({1e40})});
  EXPECT_EQ(list.item<float>(), 1e10f);
  const Tensor scaled = tensor({1e-30f});
  scaled.add_(doubles({1e-40}), 1e20);
  EXPECT_EQ(scaled.item<float>(), 1e-20f);
  const Tensor product = tensor({0.f});
  foreach_addcmul_(std::vector{product}, std::vector{doubles({1e-40})}, std::vector{doubles({1e-40})}, 1e60);
  EXPECT_EQ(product.item<float>(), 1e-20f);
}

TEST(InPlaceDtypes, ResultsThatTheTargetDoesNotHoldAreRefused) {
  const Tensor whole = tensor({1, 2}), truth = tensor({true, false}), real = tensor({1.f, 2.f});
  EXPECT_THROW(whole.add_(0.5), DTypeError);
  EXPECT_THROW(whole.mul_(real), DTypeError);
  EXPECT_THROW(whole.div_(2), DTypeError);
  EXPECT_THROW(truth.add_(1), DTypeError);
  EXPECT_THROW(truth.mul_(whole), DTypeError);
  EXPECT_THROW(truth.bitwise_and_(whole), DTypeError);
  EXPECT_THROW(real.mul_(std::complex<double>(0, 1)), DTypeError);
  EXPECT_THROW(real.add_(real.to(c64)), DTypeError);
  EXPECT_THROW(real.add_(real, std::complex<double>(0, 1)), DTypeError);
  EXPECT_THROW(whole.add_(whole, 0.5), DTypeError);
  EXPECT_THROW(whole.clamp_(0.5), DTypeError);
  EXPECT_THROW(foreach_lerp_(std::vector{whole}, std::vector{whole}, 0.5), DTypeError);
  EXPECT_THROW(foreach_addcdiv_(std::vector{whole}, std::vector{whole}, std::vector{whole}), DTypeError);
  EXPECT_THROW(real.mul_(doubles({1, 2, 3})), ShapeError);
  EXPECT_THROW(real.add_(doubles({1, 2, 3}), 2), ShapeError);
  EXPECT_EQ(values(whole), (Doubles{1, 2}));
  EXPECT_EQ(values(truth), (Doubles{1, 0}));
  EXPECT_EQ(values(real), (Doubles{1, 2}));
}

TEST(InPlaceDtypes, GradientsGoThroughTheConversion) {
  const Tensor x = tensor({2.f, 3.f}).requires_grad_(), factor = doubles({5, 7}).requires_grad_();
  const Tensor y = x * 1;
  y.mul_(factor);
  EXPECT_EQ(y.dtype(), f32);
  y.backward(tensor({1.f, 10.f}));
  EXPECT_EQ(values(x.grad()), (Doubles{5, 70}));
  EXPECT_EQ(values(factor.grad()), (Doubles{2, 30}));
  EXPECT_EQ(factor.grad().dtype(), f64);
  const Tensor constant = tensor({2.f, 3.f});
  constant.mul_(factor);  // reads the value before the write
  constant.sum().backward();
  EXPECT_EQ(values(factor.grad()), (Doubles{4, 33}));
}

TEST(InPlaceDtypes, AFactorRoundsAsInTheOtherForm) {
  for (const DType t : {f16, bf16, f32, f64, c64, i64}) {
    const Scalar factor = is_inexact(t) ? Scalar(0.3) : Scalar(3);
    const Tensor a = numbers(t, {1, -2, 3.5, 100}), b = numbers(t, {0.7, 5, 1e-3, 3});
    const Tensor sum = a.clone(), difference = a.clone();
    const uint32_t version = sum.version();
    EXPECT_EQ(&sum.add_(b, factor), &sum);
    difference.sub_(b, factor);
    EXPECT_TRUE(equal(sum, add(a, b, factor))) << name(t);
    EXPECT_TRUE(equal(difference, sub(a, b, factor))) << name(t);
    EXPECT_GT(sum.version(), version);
  }
  const Tensor x = tensor({1.f, 2.f}).requires_grad_(), y = x * 1;
  y.add_(x, 0.5);
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Doubles{1.5, 1.5}));
}

TEST(InPlaceDtypes, OperandsThatShareTheMemoryAreReadFirst) {
  const Tensor x = tensor({1.f, 2.f, 3.f});
  x.slice(0, 1).add_(x.slice(0, 0, 2), 2);
  EXPECT_EQ(values(x), (Doubles{1, 4, 7}));
}

}  // namespace
}  // namespace weft::testing
