// Gradients of pointwise ops with C++ numbers as other operands: in the leaf's dtype, and as exact as with tensors.
#include <string>

#include <gtest/gtest.h>

#include <weft/ops/record.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

using Binary = Tensor (*)(const Operand&, const Operand&);

Tensor gradient(Binary op, const Tensor& x, const Operand& other, bool first) {
  const Tensor leaf = x.clone().requires_grad_();
  const Tensor y = first ? op(leaf, other) : op(other, leaf);
  if (y.requires_grad()) y.sum().backward();
  return leaf.grad();
}

template <class F>
void for_each_binary(const F& f) {
  for (const OpRecord& record : op_records()) {
    if (record.pointwise.binary != nullptr && record.facts.differentiable) f(record);
  }
}

TEST(GradientsBesideNumbers, HaveTheLeafsDtype) {
  int checked = 0;
  for_each_binary([&](const OpRecord& record) {
    for (const DType dtype : {f16, bf16, f32, f64}) {
      for (const bool first : {true, false}) {
        for (const Dims& shape : {Dims(), Dims{2}}) {
          for (const Scalar number : {Scalar(2), Scalar(2.5)}) {
            const Tensor g = gradient(record.pointwise.binary, full(shape, 1.5, {dtype}), number, first);
            if (!g.defined()) continue;
            EXPECT_EQ(g.dtype(), dtype) << record.name;
            ++checked;
          }
        }
      }
    }
  });
  EXPECT_GT(checked, 300);
}

TEST(GradientsBesideNumbers, AreThoseBesideTensorsInDoublePrecision) {
  const Tensor x = tensor({0.31, 0.7, 2.9}, f64);
  int checked = 0;
  for_each_binary([&](const OpRecord& record) {
    for (const bool first : {true, false}) {
      for (const Scalar number : {Scalar(2), Scalar(7), Scalar(0.3), Scalar(1.7)}) {
        const Tensor beside_number = gradient(record.pointwise.binary, x, number, first);
        const Tensor beside_tensor = gradient(record.pointwise.binary, x, tensor(number.to<double>(), f64), first);
        ASSERT_EQ(beside_number.defined(), beside_tensor.defined()) << record.name;
        if (!beside_number.defined()) continue;
        EXPECT_TRUE(allclose(beside_number, beside_tensor, 1e-14, 0, true))
            << record.name << " of " << number.to<double>() << ": " << beside_number << beside_tensor;
        ++checked;
      }
    }
  });
  EXPECT_GT(checked, 150);
}

TEST(GradientsBesideNumbers, OfThreeOperandsAreExactToo) {
  const Tensor x = tensor({0.31, 0.7, 2.9}, f64);
  const Tensor a = x.clone().requires_grad_(), b = x.clone().requires_grad_(), c = x.clone().requires_grad_();
  lerp(0.1, 0.7, a).sum().backward();
  EXPECT_TRUE(allclose(a.grad(), full({3}, 0.7 - 0.1, {f64}), 1e-15, 0));
  addcmul(0.5, b, 0.3).sum().backward();
  EXPECT_TRUE(allclose(b.grad(), full({3}, 0.3, {f64}), 1e-15, 0));
  addcdiv(0.5, 0.1, c).sum().backward();
  EXPECT_TRUE(allclose(c.grad(), -0.1 / (x * x), 1e-15, 0));
}

}  // namespace
}  // namespace weft
