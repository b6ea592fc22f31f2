#include "../../tensor/determinism.hpp"

#include <cmath>
#include <limits>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>

#include "../../autograd/engine.hpp"
#include "../../autograd/hooks.hpp"
#include "../../hooks/config.hpp"
#include "../../ops/create.hpp"
#include "../../ops/library.hpp"
#include "../../ops/random.hpp"
#include "../../ops/reduce.hpp"
#include "../../tensor/threads.hpp"
#include "../../tensor/warning.hpp"
#include "samples.hpp"

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(Determinism, AGuardHoldsForItsScopeAndThread) {
  EXPECT_EQ(deterministic(), Determinism::off);
  {
    const DeterministicGuard on;
    EXPECT_EQ(deterministic(), Determinism::on);
    {
      const DeterministicGuard off(Determinism::off);
      EXPECT_EQ(deterministic(), Determinism::off);
    }
    EXPECT_EQ(deterministic(), Determinism::on);
    std::thread([] { EXPECT_EQ(deterministic(), Determinism::off); }).join();
  }
  set_deterministic(Determinism::warn);
  std::thread([] { EXPECT_EQ(deterministic(), Determinism::warn); }).join();
  set_deterministic(Determinism::off);
  EXPECT_EQ(deterministic(), Determinism::off);
}

template <class T>
void expect_filled_with(DType dtype, T value) {
  for (const Tensor& t : {empty({3}, {.dtype = dtype}), empty_like(zeros({3}, {.dtype = dtype})),
                          zeros({2}).new_empty({3}, {.dtype = dtype})}) {
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(t[i].item<T>(), value) << name(dtype);
  }
}

TEST(Determinism, UninitialisedElementsAreNanOrTheLargestInteger) {
  const DeterministicGuard on;
  for (const DType dtype : {f16, bf16, f32, f64, f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz, f8_e8m0fnu}) {
    EXPECT_TRUE(std::isnan(empty({2}, {.dtype = dtype}).to(f64)[1].item<double>())) << name(dtype);
  }
  expect_filled_with<bool>(boolean, true);
  expect_filled_with<uint8_t>(u8, 255);
  expect_filled_with<int8_t>(i8, 127);
  expect_filled_with<int16_t>(i16, 32767);
  expect_filled_with<uint16_t>(u16, 65535);
  expect_filled_with<uint32_t>(u32, std::numeric_limits<uint32_t>::max());
  expect_filled_with<int32_t>(i32, std::numeric_limits<int32_t>::max());
  expect_filled_with<int64_t>(i64, std::numeric_limits<int64_t>::max());
  expect_filled_with<uint64_t>(u64, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(empty({0, 3}).numel(), 0);
  EXPECT_EQ(empty({2}, {.device = Device("meta")}).numel(), 2);
  EXPECT_TRUE(empty({2}, {.requires_grad = true}).requires_grad());
}

OpBuilder restless() {
  OpBuilder op("test::restless");
  op.schema("(x)").composite([](const Tensor& x) { return x * 2.0; }).nondeterministic();
  return op;
}

TEST(Determinism, RejectsOpsRegisteredAsNondeterministic) {
  const Registration op = restless().register_();
  EXPECT_EQ(call_op("test::restless", ones({1})).item<float>(), 2);
  const DeterministicGuard on;
  try {
    call_op("test::restless", ones({1}));
    FAIL();
  } catch (const NotImplementedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("[test::restless] the op is not deterministic"));
    EXPECT_THAT(error.what(), HasSubstr("determinism_test.cpp"));
  }
}

TEST(Determinism, OrWarnedOfOncePerPlace) {
  const Registration op = restless().register_();
  const DeterministicGuard warns(Determinism::warn);
  int count = 0;
  const WarningHandler before = set_warning_handler([&](const Warning& w) {
    EXPECT_THAT(w.text, HasSubstr("not deterministic"));
    ++count;
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call_op("test::restless", ones({1})).item<float>(), 2);
  set_warning_handler(before);
  EXPECT_EQ(count, 1);
}

TEST(Determinism, BackwardHasTheModeOfItsCaller) {
  const Tensor x = ones({2}, {.requires_grad = true});
  Determinism seen = Determinism::off;
  const HookHandle hook = x.register_hook([&](const GradEvent&) { seen = deterministic(); });
  const DeterministicGuard on;
  sum(x * x).backward();
  EXPECT_EQ(seen, Determinism::on);
}

TEST(Determinism, ConfigContainsTheModeAndEverySetting) {
  const DeterministicGuard on;
  const std::string text = config();
  EXPECT_THAT(text, HasSubstr("deterministic on"));
  EXPECT_THAT(text, HasSubstr(std::string("weft ") + version()));
  EXPECT_THAT(text, HasSubstr("threads: " + std::to_string(num_threads())));
  for (const char* name : {"WEFT_CHECK_NAN", "WEFT_GRAD_SHARE", "WEFT_PLUGINS"}) EXPECT_THAT(text, HasSubstr(name));
}

}  // namespace
}  // namespace weft
