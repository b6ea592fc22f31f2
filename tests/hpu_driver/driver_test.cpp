// Raw Level Zero calls through the real loader into the test driver.
#include "driver_fixture.h"

#include <level_zero/zes_api.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

namespace weft::testing::ze {
namespace {

TEST_F(ZeDriver, Add) {
  const int64_t n = 10007;
  std::vector<float> a(n), b(n);
  for (int64_t i = 0; i < n; ++i) a[i] = std::sin(float(i)), b[i] = float(i) * 0.37f;
  float *da = upload(a), *db = upload(b), *out = allocate<float>(n);
  ASSERT_EQ(launch("add", {arg(da), arg(db), arg(out), arg(n)}, {40, 1, 1}, {256, 1, 1}), ok);
  std::vector<float> result = download(out, n);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(result[i], a[i] + b[i]) << i;
}

TEST_F(ZeDriver, WorkItemIds) {
  uint64_t* out = allocate<uint64_t>(4 * 6 * 4);
  ASSERT_EQ(launch("shape", {arg(out)}, {2, 3, 2}, {2, 2, 2}), ok);
  auto result = download(out, 4 * 6 * 4);
  for (uint64_t z = 0; z < 4; ++z) {
    for (uint64_t y = 0; y < 6; ++y) {
      for (uint64_t x = 0; x < 4; ++x) {
        uint64_t expected = x % 2 + 10 * (y % 2) + 100 * (z % 2) + 1000 * (x / 2) + 10000 * (y / 2) + 100000 * 2;
        ASSERT_EQ(result[(z * 6 + y) * 4 + x], expected);
      }
    }
  }
}

TEST_F(ZeDriver, BarrierSum) {
  const int64_t n = 10007;
  std::vector<float> a(n);
  std::iota(a.begin(), a.end(), 0.f);
  float *in = upload(a), *out = allocate<float>(4);
  ASSERT_EQ(launch("block_sum", {arg(in), arg(out), arg(n)}, {4, 1, 1}, {256, 1, 1}), ok);
  auto sums = download(out, 4);
  EXPECT_NEAR(sums[0] + sums[1] + sums[2] + sums[3], double(n) * (n - 1) / 2, 8);
}

TEST_F(ZeDriver, LocalMemoryArgument) {
  std::vector<int64_t> a(512);
  std::iota(a.begin(), a.end(), 0);
  int64_t *in = upload(a), *out = allocate<int64_t>(512);
  ASSERT_EQ(launch("reverse_blocks", {arg(in), arg(out), {128 * 8, nullptr}}, {4, 1, 1}, {128, 1, 1}), ok);
  auto result = download(out, 512);
  for (int i = 0; i < 512; ++i) ASSERT_EQ(result[i], i / 128 * 128 + 127 - i % 128);
  EXPECT_EQ(launch("reverse_blocks", {arg(in), arg(out), {1 << 20, nullptr}}, {4, 1, 1}, {128, 1, 1}),
            ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

TEST_F(ZeDriver, StructByValue) {
  std::vector<float> a(100);
  std::iota(a.begin(), a.end(), 0.f);
  float *in = upload(a), *out = allocate<float>(100);
  Strided s{100, {1, 1, 10, 10}, {0, 0, 1, 10}};
  ASSERT_EQ(launch("gather_strided", {arg(in), arg(out), arg(s)}, {2, 1, 1}, {64, 1, 1}), ok);
  auto result = download(out, 100);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(result[i], i % 10 * 10 + i / 10);

  int64_t* counts = allocate<int64_t>(64);
  ASSERT_EQ(launch("change_struct", {arg(counts), arg(s)}, {1, 1, 1}, {64, 1, 1}), ok);
  auto changed = download(counts, 64);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(changed[i], 2 * (100 + i));
}

TEST_F(ZeDriver, Atomics) {
  std::vector<int> index(4096);
  for (size_t i = 0; i < index.size(); ++i) index[i] = int(i % 16);
  int* di = upload(index);
  float* sums = upload(std::vector<float>(16, 0.f));
  int* counts = upload(std::vector<int>(16, 0));
  int64_t* total = upload(std::vector<int64_t>(1, 0));
  ASSERT_EQ(launch("scatter_add", {arg(di), arg(sums), arg(counts), arg(total)}, {16, 1, 1}, {256, 1, 1}), ok);
  EXPECT_EQ(download(sums, 16), std::vector<float>(16, 128.f));
  EXPECT_EQ(download(counts, 16), std::vector<int>(16, 256));
  EXPECT_EQ(download(total, 1)[0], 4096 * 4095 / 2);
}

template <class T>
std::vector<T> math_reference(T x) {
  T finite = T(std::isnan(x)) + T(2) * T(std::isinf(x)) + T(4) * T(std::isfinite(x));
  return {std::exp(x),
          std::log(x),
          std::log1p(x),
          std::expm1(x),
          std::sqrt(x),
          1 / std::sqrt(x),
          std::sin(x),
          std::cos(x),
          std::tan(x),
          std::asin(x),
          std::acos(x),
          std::atan(x),
          std::atan2(x, T(2)),
          std::sinh(x),
          std::cosh(x),
          std::tanh(x),
          std::asinh(x),
          std::acosh(x + T(1)),
          std::atanh(x),
          std::erf(x),
          std::erfc(x),
          std::pow(x, T(1.5)),
          std::fmod(x, T(0.3)),
          std::floor(x),
          std::ceil(x),
          std::trunc(x),
          std::rint(x),
          std::round(x),
          std::fabs(x),
          std::fmin(x, T(0.5)),
          std::fmax(x, T(0.5)),
          std::fma(x, x, T(1)),
          std::copysign(x, T(-1)),
          std::ldexp(x, 3),
          std::lgamma(x),
          std::tgamma(x),
          finite,
          x < T(0.25) ? T(0.25) : (T(0.5) < x ? T(0.5) : x)};
}

template <class T>
void compare_math(const std::vector<T>& inputs, const std::vector<T>& results) {
  size_t functions = results.size() / inputs.size();
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<T> expected = math_reference(inputs[i]);
    ASSERT_EQ(expected.size(), functions);
    for (size_t f = 0; f < functions; ++f) {
      T got = results[i * functions + f];
      if (std::isnan(expected[f])) {
        EXPECT_TRUE(std::isnan(got)) << "function " << f << " of " << inputs[i];
      } else {
        EXPECT_EQ(got, expected[f]) << "function " << f << " of " << inputs[i];
      }
    }
  }
}

TEST_F(ZeDriver, MathMatchesTheHost) {
  const int functions = 38;
  std::vector<double> inputs;
  for (double x : {0.1, 0.25, 0.7, 0.99, 0.5, 1.5, 2.5, 30.0}) inputs.push_back(x), inputs.push_back(-x);
  for (double x : {0.0, HUGE_VAL, -HUGE_VAL, std::nan("")}) inputs.push_back(x);
  auto n = uint32_t(inputs.size());
  double *in = upload(inputs), *out = allocate<double>(n * functions);
  ASSERT_EQ(launch("math_double", {arg(in), arg(out), arg(functions)}, {n, 1, 1}, {1, 1, 1}), ok);
  compare_math(inputs, download(out, n * functions));

  std::vector<float> floats(inputs.begin(), inputs.end());
  float *fin = upload(floats), *fout = allocate<float>(n * functions);
  ASSERT_EQ(launch("math_float", {arg(fin), arg(fout), arg(functions)}, {n, 1, 1}, {1, 1, 1}), ok);
  compare_math(floats, download(fout, n * functions));
}

TEST_F(ZeDriver, IntegerBuiltins) {
  std::vector<int64_t> zeros(11, 0);
  zeros[10] = INT64_MIN;
  int64_t* out = upload(zeros);
  uint32_t a = 0xF000000F;
  int32_t b = -7;
  float c = 300.5f;
  ASSERT_EQ(launch("integers", {arg(out), arg(a), arg(b), arg(c)}, {1, 1, 1}, {1, 1, 1}), ok);
  int32_t bits;
  std::memcpy(&bits, &c, 4);
  std::vector<int64_t> expected{
      int64_t(uint64_t(a) * a >> 32), 8, -7, -2, 255, 300, 2, 7, bits, int64_t(1) << 62, INT64_MIN};
  EXPECT_EQ(download(out, 11), expected);
}

TEST_F(ZeDriver, ListsRunInOrderAndAsynchronously) {
  const int n = 1024;
  int* values = allocate<int>(n);
  int zero = 0;
  ASSERT_EQ(zeCommandListAppendMemoryFill(list, values, &zero, 4, n * 4, nullptr, 0, nullptr), ok);
  std::vector<int> snapshots(50);
  for (int i = 0; i < 50; ++i) {
    int step = i + 1;
    ASSERT_EQ(launch("increment", {arg(values), arg(step)}, {n / 256, 1, 1}, {256, 1, 1}), ok);
    ASSERT_EQ(zeCommandListAppendMemoryCopy(list, &snapshots[i], values + i, 4, nullptr, 0, nullptr), ok);
  }
  synchronize();
  for (int i = 0; i < 50; ++i) ASSERT_EQ(snapshots[i], (i + 1) * (i + 2) / 2);
}

TEST_F(ZeDriver, EventsOrderTwoLists) {
  ze_command_list_handle_t other = make_list(device[0]);
  ze_event_handle_t ready = make_event(1);
  int* value = upload(std::vector<int>{1});
  int five = 5, seen = 0;
  ASSERT_EQ(zeCommandListAppendMemoryCopy(other, &seen, value, 4, nullptr, 1, &ready), ok);
  EXPECT_EQ(zeEventHostReset(ready), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
  ASSERT_EQ(launch("increment", {arg(value), arg(five)}, {1, 1, 1}, {1, 1, 1}, ready), ok);
  ze_event_handle_t finished = make_event(2);
  ASSERT_EQ(zeCommandListAppendBarrier(other, finished, 0, nullptr), ok);
  ASSERT_EQ(zeEventHostSynchronize(finished, UINT64_MAX), ok);
  EXPECT_EQ(seen, 6);
  EXPECT_EQ(zeCommandListDestroy(other), ok);
  EXPECT_EQ(zeEventDestroy(ready), ok);
  EXPECT_EQ(zeEventDestroy(finished), ok);
}

TEST_F(ZeDriver, HandlesDestroyedTwice) {
  ze_event_handle_t event = make_event(1);
  EXPECT_EQ(zeEventDestroy(event), ok);
  EXPECT_EQ(zeEventDestroy(event), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  ze_kernel_handle_t kernel = make_kernel("add");
  EXPECT_EQ(zeKernelDestroy(kernel), ok);
  EXPECT_EQ(zeKernelDestroy(kernel), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
}

TEST_F(ZeDriver, ListsOfSeveralThreads) {
  std::vector<int*> values;
  for (int t = 0; t < 4; ++t) values.push_back(upload(std::vector<int>(64, 0)));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ze_command_list_handle_t own = make_list(device[0]);
      ze_kernel_handle_t kernel = make_kernel("increment");
      ze_event_handle_t finished = make_event(4 + t);
      ze_group_count_t groups{1, 1, 1};
      EXPECT_EQ(zeKernelSetGroupSize(kernel, 64, 1, 1), ok);
      EXPECT_EQ(zeKernelSetArgumentValue(kernel, 0, sizeof values[t], &values[t]), ok);
      for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(zeKernelSetArgumentValue(kernel, 1, sizeof i, &i), ok);
        EXPECT_EQ(zeCommandListAppendLaunchKernel(own, kernel, &groups, nullptr, 0, nullptr), ok);
      }
      EXPECT_EQ(zeCommandListAppendSignalEvent(own, finished), ok);
      EXPECT_EQ(zeEventHostSynchronize(finished, UINT64_MAX), ok);
      EXPECT_EQ(zeEventDestroy(finished), ok);
      EXPECT_EQ(zeKernelDestroy(kernel), ok);
      EXPECT_EQ(zeCommandListDestroy(own), ok);
    });
  }
  for (auto& thread : threads) thread.join();
  for (int* v : values) EXPECT_EQ(download(v, 64), std::vector<int>(64, 199 * 200 / 2));
}

TEST_F(ZeDriver, EventsTimeOutAndCarryTimestamps) {
  ze_event_handle_t event = make_event(3);
  EXPECT_EQ(zeEventHostSynchronize(event, 1000000), ZE_RESULT_NOT_READY);
  EXPECT_EQ(zeEventQueryStatus(event), ZE_RESULT_NOT_READY);
  ze_kernel_timestamp_result_t stamps{};
  EXPECT_EQ(zeEventQueryKernelTimestamp(event, &stamps), ZE_RESULT_NOT_READY);
  ASSERT_EQ(zeCommandListAppendSignalEvent(list, event), ok);
  ASSERT_EQ(zeEventHostSynchronize(event, UINT64_MAX), ok);
  ASSERT_EQ(zeEventQueryKernelTimestamp(event, &stamps), ok);
  ze_device_properties_t properties{};
  properties.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
  ASSERT_EQ(zeDeviceGetProperties(device[0], &properties), ok);
  const char* wanted = std::getenv("WEFT_ZE_TIMESTAMP_BITS");
  EXPECT_EQ(properties.kernelTimestampValidBits, wanted ? std::stoul(wanted) : 32u);
  EXPECT_LT(stamps.global.kernelStart, uint64_t(1) << properties.kernelTimestampValidBits);
  zeEventDestroy(event);
}

TEST_F(ZeDriver, QueuesRunRecordedListsAndSignalFences) {
  ze_command_queue_desc_t queue_desc{};
  queue_desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
  ze_command_queue_handle_t queue = nullptr;
  ASSERT_EQ(zeCommandQueueCreate(context, device[0], &queue_desc, &queue), ok);
  ze_command_list_desc_t list_desc{ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, nullptr, 0, 0};
  ze_command_list_handle_t recorded = nullptr;
  ASSERT_EQ(zeCommandListCreate(context, device[0], &list_desc, &recorded), ok);
  ze_fence_desc_t fence_desc{ZE_STRUCTURE_TYPE_FENCE_DESC, nullptr, 0};
  ze_fence_handle_t fence = nullptr;
  ASSERT_EQ(zeFenceCreate(queue, &fence_desc, &fence), ok);

  int* value = upload(std::vector<int>{0});
  int two = 2;
  std::swap(list, recorded);
  ASSERT_EQ(launch("increment", {arg(value), arg(two)}, {1, 1, 1}, {1, 1, 1}), ok);
  std::swap(list, recorded);
  EXPECT_EQ(zeCommandQueueExecuteCommandLists(queue, 1, &recorded, nullptr), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(zeCommandListClose(recorded), ok);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(zeCommandQueueExecuteCommandLists(queue, 1, &recorded, nullptr), ok);
  ASSERT_EQ(zeCommandQueueExecuteCommandLists(queue, 1, &recorded, fence), ok);
  ASSERT_EQ(zeFenceHostSynchronize(fence, UINT64_MAX), ok);
  EXPECT_EQ(zeCommandQueueSynchronize(queue, UINT64_MAX), ok);
  EXPECT_EQ(download(value, 1)[0], 8);
  zeFenceDestroy(fence);
  zeCommandListDestroy(recorded);
  zeCommandQueueDestroy(queue);
}

TEST_F(ZeDriver, OutOfMemory) {
  void *half = nullptr, *rest = nullptr;
  ASSERT_EQ(try_allocate(200 << 20, &half), ok);
  EXPECT_EQ(try_allocate(100 << 20, &rest), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(try_allocate(size_t(1) << 40, &rest), ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
  EXPECT_EQ(zeMemFree(context, half), ok);
  ASSERT_EQ(try_allocate(100 << 20, &rest), ok);
  EXPECT_EQ(zeMemFree(context, rest), ok);
}

TEST_F(ZeDriver, BadFrees) {
  char* p = allocate<char>(100);
  EXPECT_EQ(zeMemFree(context, p + 8), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(zeMemFree(context, this), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  memory.clear();
  EXPECT_EQ(zeMemFree(context, p), ok);
  EXPECT_EQ(zeMemFree(context, p), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

TEST_F(ZeDriver, FreshMemoryIsPoisonedOnRequest) {
  const char* poison = std::getenv("WEFT_ZE_POISON");
  if (!poison || *poison != '1') GTEST_SKIP() << "WEFT_ZE_POISON is not set";
  EXPECT_EQ(download(allocate<unsigned char>(5000), 5000), std::vector<unsigned char>(5000, 0xFF));
}

TEST_F(ZeDriver, BadArguments) {
  float on_host = 0;
  float* host = &on_host;
  float* p = allocate<float>(4);
  int64_t n = 4;
  ze_kernel_handle_t kernel = make_kernel("add");
  EXPECT_EQ(zeKernelSetArgumentValue(kernel, 0, sizeof host, &host), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(zeKernelSetArgumentValue(kernel, 3, 4, &n), ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE);
  EXPECT_EQ(zeKernelSetArgumentValue(kernel, 9, 8, &n), ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX);
  ze_group_count_t groups{1, 1, 1};
  EXPECT_EQ(zeCommandListAppendLaunchKernel(list, kernel, &groups, nullptr, 0, nullptr),
            ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
  EXPECT_EQ(zeKernelSetGroupSize(kernel, 2048, 1, 1), ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
  EXPECT_EQ(zeKernelSetGroupSize(kernel, 4, 1, 1), ok);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(zeKernelSetArgumentValue(kernel, i, sizeof p, &p), ok);
  EXPECT_EQ(zeCommandListAppendLaunchKernel(list, kernel, &groups, nullptr, 0, nullptr),
            ZE_RESULT_ERROR_INVALID_ARGUMENT)
      << "the last argument is not set";
  EXPECT_EQ(zeKernelDestroy(kernel), ok);

  EXPECT_EQ(zeCommandListAppendMemoryCopy(list, p, &on_host, 20, nullptr, 0, nullptr), ZE_RESULT_ERROR_INVALID_ARGUMENT)
      << "leaves the allocation";
  EXPECT_EQ(zeCommandListAppendMemoryFill(list, host, &n, 4, 4, nullptr, 0, nullptr), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

TEST_F(ZeDriver, ModuleErrors) {
  ze_module_handle_t bad = nullptr;
  ze_module_build_log_handle_t log = nullptr;
  const char text[] = "this is certainly not SPIR-V at all";
  EXPECT_EQ(create_module(text, 32, &bad, &log), ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
  EXPECT_NE(build_log(log).find("not SPIR-V"), std::string::npos);

  std::vector<uint32_t> words(weft::spirv::driver_test, weft::spirv::driver_test + 40);
  EXPECT_EQ(create_module(words.data(), words.size() * 4, &bad, &log), ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
  const char* translator = std::getenv("WEFT_ZE_SPV2SO");
  const char* expected = translator && !*translator ? "no translator" : "translation failed";
  EXPECT_NE(build_log(log).find(expected), std::string::npos);

  ze_kernel_desc_t desc{ZE_STRUCTURE_TYPE_KERNEL_DESC, nullptr, 0, "no_such_kernel"};
  ze_kernel_handle_t kernel = nullptr;
  EXPECT_EQ(zeKernelCreate(module, &desc, &kernel), ZE_RESULT_ERROR_INVALID_KERNEL_NAME);
}

TEST_F(ZeDriver, NativeBinariesAreModulesAgain) {
  size_t size = 0;
  ASSERT_EQ(zeModuleGetNativeBinary(module, &size, nullptr), ok);
  std::vector<uint8_t> native(size);
  ASSERT_EQ(zeModuleGetNativeBinary(module, &size, native.data()), ok);
  const auto create = [&](ze_module_handle_t* out) {
    ze_module_desc_t desc{
        ZE_STRUCTURE_TYPE_MODULE_DESC, nullptr, ZE_MODULE_FORMAT_NATIVE, native.size(), native.data(), "", nullptr};
    return zeModuleCreate(context, device[0], &desc, out, nullptr);
  };
  ze_module_handle_t again = nullptr, broken = nullptr;
  ASSERT_EQ(create(&again), ok);
  ze_kernel_desc_t desc{ZE_STRUCTURE_TYPE_KERNEL_DESC, nullptr, 0, "add"};
  ze_kernel_handle_t kernel = nullptr;
  EXPECT_EQ(zeKernelCreate(again, &desc, &kernel), ok);
  EXPECT_EQ(zeKernelDestroy(kernel), ok);
  EXPECT_EQ(zeModuleDestroy(again), ok);
  native[size / 2] ^= 1;
  EXPECT_EQ(create(&broken), ZE_RESULT_ERROR_INVALID_NATIVE_BINARY);
  native[size / 2] ^= 1;
  native.resize(size - 1);
  EXPECT_EQ(create(&broken), ZE_RESULT_ERROR_INVALID_NATIVE_BINARY);
}

TEST_F(ZeDriver, ThereAreSoManyQueues) {
  ze_command_queue_group_properties_t group{};
  group.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
  uint32_t count = 1;
  ASSERT_EQ(zeDeviceGetCommandQueueGroupProperties(device[0], &count, &group), ok);
  const char* wanted = std::getenv("WEFT_ZE_QUEUES");
  EXPECT_EQ(group.numQueues, wanted ? std::stoul(wanted) : 4u);
  ze_command_queue_desc_t desc{};
  desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
  for (desc.index = 0; desc.index < group.numQueues; ++desc.index) {
    ze_command_list_handle_t one = nullptr;
    ASSERT_EQ(zeCommandListCreateImmediate(context, device[0], &desc, &one), ok);
    EXPECT_EQ(zeCommandListDestroy(one), ok);
  }
  ze_command_list_handle_t none = nullptr;
  EXPECT_EQ(zeCommandListCreateImmediate(context, device[0], &desc, &none), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  desc.index = 0, desc.ordinal = 1;
  EXPECT_EQ(zeCommandListCreateImmediate(context, device[0], &desc, &none), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

TEST_F(ZeDriver, PatternsHaveALimit) {
  ze_command_queue_group_properties_t group{};
  group.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
  uint32_t count = 1;
  ASSERT_EQ(zeDeviceGetCommandQueueGroupProperties(device[0], &count, &group), ok);
  const size_t longest = group.maxMemoryFillPatternSize;
  std::vector<char> pattern(2 * longest, 3);
  char* to = allocate<char>(4 * longest);
  EXPECT_EQ(zeCommandListAppendMemoryFill(list, to, pattern.data(), longest, 4 * longest, nullptr, 0, nullptr), ok);
  EXPECT_EQ(zeCommandListAppendMemoryFill(list, to, pattern.data(), 2 * longest, 4 * longest, nullptr, 0, nullptr),
            ZE_RESULT_ERROR_INVALID_SIZE);
  synchronize();
}

TEST_F(ZeDriver, SysmanReportsFreeMemory) {
  uint32_t count = 1;
  zes_mem_handle_t handle = nullptr;
  ASSERT_EQ(zesDeviceEnumMemoryModules(zes_device_handle_t(device[0]), &count, &handle), ok);
  zes_mem_state_t before{}, after{};
  before.stype = after.stype = ZES_STRUCTURE_TYPE_MEM_STATE;
  ASSERT_EQ(zesMemoryGetState(handle, &before), ok);
  allocate<char>(1 << 20);
  ASSERT_EQ(zesMemoryGetState(handle, &after), ok);
  EXPECT_EQ(before.size, 256u << 20);
  EXPECT_EQ(before.free - after.free, 1u << 20);
}

TEST_F(ZeDriver, MemoryCanBeShared) {
  int* p = upload(std::vector<int>{42});
  ze_ipc_mem_handle_t handle{};
  ASSERT_EQ(zeMemGetIpcHandle(context, p, &handle), ok);
  void* same = nullptr;
  ASSERT_EQ(zeMemOpenIpcHandle(context, device[0], handle, 0, &same), ok);
  EXPECT_NE(same, p);
  EXPECT_EQ(download(static_cast<int*>(same), 1)[0], 42);
  EXPECT_EQ(zeMemCloseIpcHandle(context, same), ok);
}

TEST_F(ZeDriver, PeerAccess) {
  ze_bool_t access = 0;
  ASSERT_EQ(zeDeviceCanAccessPeer(device[0], device[1], &access), ok);
  int* remote = allocate<int>(1, device[1]);
  int one = 1;
  ze_result_t expected = access ? ok : ZE_RESULT_ERROR_INVALID_ARGUMENT;
  EXPECT_EQ(launch("increment", {arg(remote), arg(one)}, {1, 1, 1}, {1, 1, 1}), expected);
  int* local = allocate<int>(1);
  EXPECT_EQ(zeCommandListAppendMemoryCopy(list, local, remote, sizeof(int), nullptr, 0, nullptr), expected);
  EXPECT_EQ(zeCommandListAppendMemoryCopy(list, remote, local, sizeof(int), nullptr, 0, nullptr), expected);
  synchronize();
}

TEST_F(ZeDriver, LaunchTiming) {
  const int launches = 2000;
  int64_t n = 1;
  float* p = allocate<float>(64);
  ze_kernel_handle_t kernel = make_kernel("add");
  for (uint32_t i = 0; i < 3; ++i) ASSERT_EQ(zeKernelSetArgumentValue(kernel, i, sizeof p, &p), ok);
  ASSERT_EQ(zeKernelSetArgumentValue(kernel, 3, sizeof n, &n), ok);
  ASSERT_EQ(zeKernelSetGroupSize(kernel, 64, 1, 1), ok);
  ze_group_count_t groups{1, 1, 1};
  auto run = [&](const char* what, bool each) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i) {
      zeCommandListAppendLaunchKernel(list, kernel, &groups, nullptr, 0, nullptr);
      if (each) synchronize();
    }
    synchronize();
    std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
    RecordProperty(what, std::to_string(elapsed.count() / launches));
    std::printf("  %s: %.2f us per launch\n", what, elapsed.count() / launches);
    EXPECT_LT(elapsed.count() / launches, 1000);
  };
  run("queued", false);
  run("synchronized", true);
  zeKernelDestroy(kernel);

  std::vector<float> many(256 * 256, 1.f);
  float *in = upload(many), *out = allocate<float>(256);
  int64_t count = 256 * 256;
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(launch("block_sum", {arg(in), arg(out), arg(count)}, {64, 1, 1}, {256, 1, 1}), ok);
  }
  synchronize();
  std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
  std::printf("  barriers: %.1f us per launch of 64 groups of 256\n", elapsed.count() / 100);
}

TEST_F(ZeDriver, LostAfterSomeCommands) {
  int* values = allocate<int>(1);
  int one = 1;
  ze_result_t result = ok;
  for (int i = 0; i < 1000 && result == ok; ++i) {
    result = launch("increment", {arg(values), arg(one)}, {1, 1, 1}, {1, 1, 1});
    if (result == ok && i == 100) result = zeCommandListAppendBarrier(list, done, 0, nullptr);
    if (result == ok && i == 100) result = zeEventHostSynchronize(done, UINT64_MAX);
  }
  EXPECT_EQ(result, ZE_RESULT_ERROR_DEVICE_LOST);
  EXPECT_EQ(zeDeviceGetStatus(device[0]), ZE_RESULT_ERROR_DEVICE_LOST);
}

TEST_F(ZeDriver, LostByUseAfterFree) {
  void* p = nullptr;
  ASSERT_EQ(try_allocate(64, &p), ok);
  int one = 1;
  ASSERT_EQ(zeCommandListAppendMemoryFill(list, p, &one, 4, 64, nullptr, 0, nullptr), ok);
  ASSERT_EQ(zeCommandListAppendMemoryFill(list, p, &one, 4, 64, nullptr, 0, nullptr), ok);
  ASSERT_EQ(zeCommandListAppendMemoryFill(list, p, &one, 4, 64, done, 0, nullptr), ok);
  ASSERT_EQ(zeMemFree(context, p), ok);
  EXPECT_EQ(zeEventHostSynchronize(done, UINT64_MAX), ZE_RESULT_ERROR_DEVICE_LOST);
}

TEST_F(ZeDriver, LostByDivergentBarrier) {
  int* p = allocate<int>(8);
  ASSERT_EQ(launch("divergent", {arg(p)}, {1, 1, 1}, {8, 1, 1}, done), ok);
  EXPECT_EQ(zeEventHostSynchronize(done, UINT64_MAX), ZE_RESULT_ERROR_DEVICE_LOST);
}

}  // namespace
}  // namespace weft::testing::ze
