// Tests that run on every kind of device: DEVICE_TEST(Name) { ... on ... } is Hpu.Name, Cuda.Name and Plugin.Name, with
// `on` the device; that of a plug-in is the kind which WEFT_TEST_PLUGIN names. Each is skipped, and says so, where this
// machine has none.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <weft/backends/backend.hpp>
#include <weft/backends/dispatch.hpp>
#include <weft/tensor/error.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft::test {

inline std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

template <DeviceType type>
class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    constexpr bool built = type == DeviceType::cuda ? WEFT_HAS_CUDA : WEFT_HAS_HPU;
    const std::string device = Device(type).name();
    if (!built) GTEST_SKIP() << device << " is not built in";
    if (device_count(type) == 0) GTEST_SKIP() << device << " is not here, or has no driver";
    const bool dies = type == DeviceType::hpu && !environment("WEFT_ZE_LOSE_AFTER").empty();
    if (dies) GTEST_SKIP() << device << " will be lost";
  }
};
class Hpu : public OnDevice<DeviceType::hpu> {};
class Cuda : public OnDevice<DeviceType::cuda> {};
class HpuDevices : public OnDevice<DeviceType::hpu> {};
class CudaDevices : public OnDevice<DeviceType::cuda> {};

class Plugin : public ::testing::Test {
 protected:
  void SetUp() override {
    if (environment("WEFT_TEST_PLUGIN").empty()) GTEST_SKIP() << "WEFT_TEST_PLUGIN names no kind of device";
  }
};
class PluginDevices : public Plugin {};
inline Device plugin_device() { return Device(environment("WEFT_TEST_PLUGIN")); }

#define WEFT_DEVICE_TEST(suite_end, name)                                \
  void name##_on(Device on);                                             \
  TEST_F(Hpu##suite_end, name) { name##_on(Device(DeviceType::hpu)); }   \
  TEST_F(Cuda##suite_end, name) { name##_on(Device(DeviceType::cuda)); } \
  TEST_F(Plugin##suite_end, name) { name##_on(plugin_device()); }        \
  void name##_on([[maybe_unused]] Device on)
#define DEVICE_TEST(name) WEFT_DEVICE_TEST(, name)
#define DEVICES_TEST(name) WEFT_DEVICE_TEST(Devices, name)

inline Backend& backend_of(Device on) { return *find_backend(on.type); }

inline std::vector<double> values_of(const Tensor& t) { return t.to(Device()).to_vector<double>(); }

/// Element by element within `relative` and `absolute`; NaN equals NaN.
inline void expect_near(const Tensor& actual, const Tensor& expected, double relative = 1e-5, double absolute = 1e-6) {
  ASSERT_EQ(actual.shape().text(), expected.shape().text());
  ASSERT_EQ(actual.dtype(), expected.dtype());
  const std::vector<double> a = values_of(actual), e = values_of(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) continue;
    ASSERT_NEAR(a[i], e[i], absolute + relative * std::fabs(e[i])) << "element " << i;
  }
}
inline void expect_equal(const Tensor& actual, const Tensor& expected) { expect_near(actual, expected, 0, 0); }

/// Rounding error to expect of a few operations.
inline double tolerance_of(DType t) { return t == DType::f64 ? 1e-12 : (t == DType::f32 ? 1e-5 : 2e-2); }

}  // namespace weft::test
