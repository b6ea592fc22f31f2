// Kernels by device and dtype, missing ones, and their fallbacks.
#include <cstdlib>

#include "collected_warnings.hpp"
#include "registering.hpp"

namespace weft::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor times_ten(const Tensor& x, double) { return x * 10; }

TEST(Kernels, AreChosenByDeviceAndDtype) {
  const Registration op = cube("test::cube").register_();
  EXPECT_TRUE(has_kernel("test::cube", DeviceType::cpu, f32));
  EXPECT_TRUE(has_kernel("test::cube", DeviceType::meta, f32));
  EXPECT_FALSE(has_kernel("test::cube", DeviceType::cpu, i64));
  EXPECT_FALSE(has_kernel("test::cube", DeviceType::cuda, f32));
  EXPECT_TRUE(has_kernel("add", DeviceType::cpu, i64));
  EXPECT_FALSE(has_kernel("exp", DeviceType::cpu, f8_e5m2));
  EXPECT_FALSE(has_kernel("exp", DeviceType::cpu, f8_e8m0fnu));
  EXPECT_THROW(has_kernel("test::none", DeviceType::cpu, f32), ValueError);
  KernelRegistration integers = register_kernel("test::cube", DeviceType::cpu, integer_dtypes, times_ten);
  EXPECT_TRUE(has_kernel("test::cube", DeviceType::cpu, i64));
  EXPECT_THAT(elements(call_op("test::cube", tensor({1, 2}))), ElementsAre(10, 20));
}

TEST(Kernels, MissingKernelsRaiseWithTheAvailableOnes) {
  const Registration op = cube("test::cube").register_();
  EXPECT_THAT(message_of<NotImplementedError>([] { call_op("test::cube", tensor({true})); }),
              AllOf(HasSubstr("[test::cube] there is no kernel for bool on cpu"),
                    HasSubstr("its kernels: float32, float64 on cpu"), HasSubstr("kernels_test.cpp:")));
}

TEST(Kernels, AreOverriddenOneByOneAndComeBack) {
  const Registration op = cube("test::cube").register_();
  EXPECT_THAT(message_of<ValueError>([] {
                (void)register_kernel("test::cube", DeviceType::cpu, {f16, f64}, times_ten);
              }),
              AllOf(HasSubstr("a kernel for float64 on cpu already"), HasSubstr("kernels_test.cpp:")));
  EXPECT_FALSE(has_kernel("test::cube", DeviceType::cpu, f16)) << "nothing of it was registered";
  {
    const KernelRegistration kernel =
        register_kernel("test::cube", DeviceType::cpu, {f64}, times_ten, OpPolicy::override);
    EXPECT_THAT(elements(call_op("test::cube", doubles({2}))), ElementsAre(20));
    EXPECT_THAT(elements(call_op("test::cube", doubles({2}).to(f32))), ElementsAre(8));
  }
  EXPECT_THAT(elements(call_op("test::cube", doubles({2}))), ElementsAre(8));
}

TEST(Kernels, OutliveTheirOpAsHandles) {
  KernelRegistration kernel;
  {
    const Registration op = cube("test::cube").register_();
    kernel = register_kernel("test::cube", DeviceType::cpu, {f16}, times_ten);
  }
  kernel.unregister();
  const Registration again = cube("test::cube").register_();
  EXPECT_FALSE(has_kernel("test::cube", DeviceType::cpu, f16));
}

TEST(Kernels, AreForRegisteredOpsAndFitTheSchema) {
  EXPECT_THAT(message_of<ValueError>([] { (void)register_kernel("exp", DeviceType::cpu, {f32}, times_ten); }),
              HasSubstr("one of the library's own"));
  const Registration op = cube("test::cube").register_();
  EXPECT_THAT(message_of<ValueError>([] {
                (void)register_kernel("test::cube", DeviceType::cpu, {f16}, [](const Tensor& x) { return x; });
              }),
              HasSubstr("takes 1 arguments, the schema names 2"));
}

TEST(Kernels, BesideACompositeBodyServeCallsThatAreNotRecorded) {
  int kernel_calls = 0;
  const Registration op = OpBuilder("test::sq")
                              .schema("(x)")
                              .composite([](const Tensor& x) { return x * x; })
                              .kernel(DeviceType::cpu, {f64},
                                      [&](const Tensor& x) {
                                        ++kernel_calls;
                                        return square(x);
                                      })
                              .register_();
  const Tensor x = doubles({3}).requires_grad_();
  EXPECT_THAT(elements(call_op("test::sq", x.detach())), ElementsAre(9));
  EXPECT_EQ(kernel_calls, 1);
  call_op("test::sq", x).sum().backward();
  EXPECT_THAT(elements(x.grad()), ElementsAre(6));
  EXPECT_EQ(kernel_calls, 1);
}

TEST(Kernels, OfTheCpuServeOtherDevicesOnlyWhereThatIsAllowed) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "there is no hpu device";
  const Registration op = cube("test::cube").backward(cube_gradient).register_();
  const Tensor x = tensor({1.0, 2.0}).to("hpu").requires_grad_();
  EXPECT_THAT(message_of<NotImplementedError>([&] { call_op("test::cube", x); }),
              AllOf(HasSubstr("no kernel for float32 on hpu:0"), HasSubstr("WEFT_FALLBACK=cpu")));
  ::setenv("WEFT_FALLBACK", "cpu", 1);
  CollectedWarnings warnings;
  for (int i = 0; i < 2; ++i) {
    const Tensor y = call_op("test::cube", x);
    EXPECT_EQ(y.device(), x.device());
    EXPECT_THAT(elements(y.detach()), ElementsAre(1, 8));
    y.sum().backward();
  }
  EXPECT_THAT(elements(x.grad()), ElementsAre(6, 24));
  ::unsetenv("WEFT_FALLBACK");
  ASSERT_EQ(warnings.texts.size(), 1u);
  EXPECT_THAT(warnings.texts[0], AllOf(HasSubstr("[test::cube]"), HasSubstr("the CPU computes it")));
}

TEST(Kernels, RefuseOperandsOnTwoDevices) {
  const Registration op = OpBuilder("test::both")
                              .schema("(x, y)")
                              .kernel(DeviceType::cpu, {f32}, [](const Tensor& x, const Tensor& y) { return x + y; })
                              .register_();
  EXPECT_THROW(call_op("test::both", zeros({1}), zeros({1}, {f32, Device("meta")})), DeviceError);
}

}  // namespace
}  // namespace weft::testing
