// Products of float32 on CUDA with factors of full length, and of 10 bits where TF32 is on.
#include "device_checks.hpp"

#include <cmath>

#include <weft/autograd/engine.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/tf32.hpp>

namespace weft {
namespace {

using namespace test;

TEST_F(Cuda, ProductsDropTheLastBitsOfTheirFactorsInTf32Alone) {
  if (detail::tf32_override()) GTEST_SKIP() << "NVIDIA_TF32_OVERRIDE is set";
  const Device on(DeviceType::cuda);
  const Tensor a = full({128, 128}, 1 + 0x1p-12, {f32, on}), b = eye(128, {}, {f32, on});
  const auto first = [&] { return values_of(matmul(a, b))[0]; };
  EXPECT_EQ(first(), 1.000244140625);
  {
    const Tf32Guard guard({.matmul = true});
    EXPECT_EQ(first(), 1.0);
    EXPECT_EQ(values_of(matmul(a.to(f64), b.to(f64)))[0], 1.000244140625);
  }
  EXPECT_EQ(first(), 1.000244140625);
}

TEST_F(Cuda, BackwardIsInTf32AsItIsSetWhenItRuns) {
  if (detail::tf32_override()) GTEST_SKIP() << "NVIDIA_TF32_OVERRIDE is set";
  const Device on(DeviceType::cuda);
  const Tensor a = eye(128, {}, {f32, on}).requires_grad_(), b = full({128, 128}, 1 + 0x1p-12, {f32, on});
  const Tensor y = matmul(a, b);
  const Tf32Guard guard({.matmul = true});
  y.backward(eye(128, {}, {f32, on}));
  EXPECT_EQ(values_of(a.grad())[0], 1.0);
}

TEST_F(Cuda, ErrorsOfProductsFollowFromTheirFactors) {
  if (detail::tf32_override()) GTEST_SKIP() << "NVIDIA_TF32_OVERRIDE is set";
  const Device on(DeviceType::cuda);
  manual_seed(1);
  const Tensor a = randn({1024, 1024}).to(on), b = randn({1024, 1024}).to(on);
  const Tensor exact = matmul(a.to(f64), b.to(f64));
  const auto error = [&] {
    const Tensor off = matmul(a, b).to(f64) - exact;
    return std::sqrt(values_of(sum(square(off)) / sum(square(exact)))[0]);
  };
  EXPECT_LE(error(), 5e-6);
  const Tf32Guard guard({.matmul = true});
  EXPECT_GE(error(), 1e-5);
  EXPECT_LE(error(), 5e-3);
}

}  // namespace
}  // namespace weft
