// Each call of each CUDA function fails once: the program gets a typed error, and continues to work. Runs on the test
// runtime, which injects the failures.
#include "device_checks.hpp"

#include <dlfcn.h>

#include <weft/backends/pinned_memory.hpp>
#include <weft/backends/stream.hpp>
#include <weft/hooks/capture.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

using namespace test;
using Doubles = std::vector<double>;

const Device on(DeviceType::cuda);

/// A training step, two streams, an event, pinned memory and a replay: some of everything.
Doubles use_everything() {
  const Tensor table = (arange(40, f32) * 0.01).view({10, 4}).to(on).requires_grad_();
  const Tensor w = (arange(12, f32) * 0.1).view({4, 3}).to(on).requires_grad_();
  const Tensor bias = ones({3}, {f32, on});
  const Tensor ids = tensor({int64_t{1}, int64_t{7}, int64_t{1}}).to(on);
  const Tensor loss = (linear(embedding(table, ids), w.t(), bias) * sort(w, 0).values.sum()).square().mean();
  loss.backward();
  Doubles all = values_of(table.grad());

  const Stream side(on);
  side.wait_stream(current_stream(on));
  Event done({.timing = true});
  {
    const StreamGuard guard(side);
    const Tensor pinned = w.detach().exp().to(Device(), {.non_blocking = true});
    done.record(side);
    done.synchronize();
    all.push_back(pinned.sum().item<double>());
  }
  current_stream(on).wait_stream(side);
  auto step = capture([&](const Tensor& x) { return matmul(x, w.detach()).relu().mul(2.0).sum(); });
  const Tensor x = ones({5, 4}, {f32, on});
  for (int i = 0; i < 6; ++i) all.push_back(step(x).item<double>());
  synchronize(on);
  return all;
}

/// Of the test runtime; null on another.
auto find_fail() {
  return reinterpret_cast<void (*)(const char* function, int code, long before)>(
      dlsym(RTLD_DEFAULT, "weft_test_cuda_fail"));
}

/// In a separate process, because its first calls may fail.
TEST(CudaColdCalls, ThatFailOnceAreATypedErrorAndTheNextWork) {
  if (environment("WEFT_TEST_CUDA_FAIL").empty()) GTEST_SKIP() << "needs WEFT_TEST_CUDA_FAIL";
  try {
    use_everything();
  } catch (const DeviceError&) {
  } catch (const OutOfMemoryError&) {
  }
  find_fail()("", 0, 0);  // where there were fewer calls
  const Doubles first = use_everything();
  EXPECT_EQ(use_everything(), first);
  EXPECT_EQ(first.size(), 40u + 1u + 6u);
}

class CudaCalls : public ::testing::TestWithParam<const char*> {};

TEST_P(CudaCalls, ThatFailOnceAreATypedErrorAndTheNextWork) {
  if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << "there is no GPU";
  const auto fail = find_fail();
  if (fail == nullptr) GTEST_SKIP() << "needs the test runtime";
  const Doubles expected = use_everything();
  int failures = 0;
  for (long call = 0; call < 200; ++call) {
    empty_cache(on);  // so that memory is asked for anew
    empty_pinned_cache(on.type);
    fail(GetParam(), 999, call);
    bool failed = false;
    try {
      EXPECT_EQ(use_everything(), expected);
    } catch (const DeviceError& error) {
      failed = true;
      const bool by_cublas = std::string(error.what()).find("cublasLtMatmul") != std::string::npos;
      EXPECT_THAT(error.what(), testing::HasSubstr(by_cublas ? "code 13" : GetParam()));
    } catch (const OutOfMemoryError&) {
      failed = true;
    }
    fail("", 0, 0);
    failures += failed ? 1 : 0;
    EXPECT_EQ(use_everything(), expected) << "after call " << call << " failed";
    if (!failed && call > 40) break;  // there are no more of them
  }
  const std::string name = GetParam();
  const bool may_not_be_called = name == "cudaSetDevice" || name == "cudaEventQuery";
  const bool nobody_hears = name == "cudaEventDestroy" || name == "cudaHostAlloc";  // what is not pinned travels, too
  EXPECT_TRUE(failures > 0 || may_not_be_called || nobody_hears);
}
INSTANTIATE_TEST_SUITE_P(Functions, CudaCalls,
                         testing::Values("cudaGetDevice", "cudaSetDevice", "cudaMalloc", "cudaHostAlloc",
                                         "cudaMemcpyAsync", "cudaMemsetAsync", "cudaLaunchKernel", "cudaLaunchHostFunc",
                                         "cudaStreamSynchronize", "cudaStreamWaitEvent", "cudaStreamCreateWithFlags",
                                         "cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate",
                                         "cudaGraphLaunch", "cudaEventCreateWithFlags", "cudaEventRecord",
                                         "cudaEventSynchronize", "cudaEventQuery", "cudaEventDestroy"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace weft
