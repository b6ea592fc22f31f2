// Fixture of the driver's tests: a context, a module of test kernels and an immediate list.
#pragma once

#include <gtest/gtest.h>
#include <level_zero/ze_api.h>

#include <array>
#include <string>
#include <vector>
#include <weft_spirv/driver_test.hpp>

namespace weft::testing::ze {

constexpr ze_result_t ok = ZE_RESULT_SUCCESS;

struct Argument {
  size_t size;
  const void* value;
};

template <class T>
Argument arg(const T& value) {
  return {sizeof value, &value};
}

struct Strided {
  int64_t count;
  int64_t size[4];
  int64_t stride[4];
};

class ZeDriver : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(zeInit(0), ok);
    uint32_t count = 1;
    ASSERT_EQ(zeDriverGet(&count, &driver), ok);
    uint32_t devices = 0;
    ASSERT_EQ(zeDeviceGet(driver, &devices, nullptr), ok);
    ASSERT_EQ(devices, 2u);
    ASSERT_EQ(zeDeviceGet(driver, &devices, device), ok);
    ze_context_desc_t desc{ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
    ASSERT_EQ(zeContextCreate(driver, &desc, &context), ok);
    ASSERT_EQ(create_module(weft::spirv::driver_test, weft::spirv::driver_test_bytes, &module, nullptr), ok);
  }

  void SetUp() override {
    list = make_list(device[0]);
    ze_event_pool_desc_t desc{ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr,
                              ZE_EVENT_POOL_FLAG_HOST_VISIBLE | ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP, 16};
    ASSERT_EQ(zeEventPoolCreate(context, &desc, 1, device, &pool), ok);
    done = make_event(0);
  }

  void TearDown() override {
    zeCommandListDestroy(list);
    zeEventDestroy(done);
    zeEventPoolDestroy(pool);
    for (void* p : memory) zeMemFree(context, p);
  }

  static ze_result_t create_module(const void* bytes, size_t size, ze_module_handle_t* out,
                                   ze_module_build_log_handle_t* log) {
    ze_module_desc_t desc{ZE_STRUCTURE_TYPE_MODULE_DESC,
                          nullptr,
                          ZE_MODULE_FORMAT_IL_SPIRV,
                          size,
                          static_cast<const uint8_t*>(bytes),
                          "",
                          nullptr};
    return zeModuleCreate(context, device[0], &desc, out, log);
  }

  static ze_command_list_handle_t make_list(ze_device_handle_t on) {
    ze_command_queue_desc_t desc{};
    desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
    desc.mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS;
    ze_command_list_handle_t handle = nullptr;
    EXPECT_EQ(zeCommandListCreateImmediate(context, on, &desc, &handle), ok);
    return handle;
  }

  ze_event_handle_t make_event(uint32_t index) {
    ze_event_desc_t desc{ZE_STRUCTURE_TYPE_EVENT_DESC, nullptr, index, ZE_EVENT_SCOPE_FLAG_HOST,
                         ZE_EVENT_SCOPE_FLAG_HOST};
    ze_event_handle_t handle = nullptr;
    EXPECT_EQ(zeEventCreate(pool, &desc, &handle), ok);
    return handle;
  }

  ze_result_t try_allocate(size_t bytes, void** out, ze_device_handle_t on = device[0]) {
    ze_device_mem_alloc_desc_t desc{ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
    return zeMemAllocDevice(context, &desc, bytes, 64, on, out);
  }

  template <class T>
  T* allocate(size_t count, ze_device_handle_t on = device[0]) {
    void* p = nullptr;
    EXPECT_EQ(try_allocate(count * sizeof(T), &p, on), ok);
    memory.push_back(p);
    return static_cast<T*>(p);
  }

  void synchronize() {
    ASSERT_EQ(zeCommandListAppendBarrier(list, done, 0, nullptr), ok);
    ASSERT_EQ(zeEventHostSynchronize(done, UINT64_MAX), ok);
    ASSERT_EQ(zeEventHostReset(done), ok);
  }

  void copy(void* to, const void* from, size_t bytes) {
    ASSERT_EQ(zeCommandListAppendMemoryCopy(list, to, from, bytes, nullptr, 0, nullptr), ok);
    synchronize();
  }

  template <class T>
  T* upload(const std::vector<T>& values) {
    T* p = allocate<T>(values.size());
    copy(p, values.data(), values.size() * sizeof(T));
    return p;
  }

  template <class T>
  std::vector<T> download(const T* p, size_t count) {
    std::vector<T> values(count);
    copy(values.data(), p, count * sizeof(T));
    return values;
  }

  ze_kernel_handle_t make_kernel(const char* name) {
    ze_kernel_desc_t desc{ZE_STRUCTURE_TYPE_KERNEL_DESC, nullptr, 0, name};
    ze_kernel_handle_t kernel = nullptr;
    EXPECT_EQ(zeKernelCreate(module, &desc, &kernel), ok) << name;
    return kernel;
  }

  ze_result_t launch(const char* name, const std::vector<Argument>& arguments, ze_group_count_t groups,
                     std::array<uint32_t, 3> size, ze_event_handle_t signal = nullptr) {
    ze_kernel_handle_t kernel = make_kernel(name);
    ze_result_t result = zeKernelSetGroupSize(kernel, size[0], size[1], size[2]);
    for (uint32_t i = 0; i < arguments.size() && result == ok; ++i) {
      result = zeKernelSetArgumentValue(kernel, i, arguments[i].size, arguments[i].value);
    }
    if (result == ok) result = zeCommandListAppendLaunchKernel(list, kernel, &groups, signal, 0, nullptr);
    EXPECT_EQ(zeKernelDestroy(kernel), ok);
    return result;
  }

  static std::string build_log(ze_module_build_log_handle_t log) {
    size_t size = 0;
    EXPECT_EQ(zeModuleBuildLogGetString(log, &size, nullptr), ok);
    std::string text(size, '\0');
    EXPECT_EQ(zeModuleBuildLogGetString(log, &size, text.data()), ok);
    EXPECT_EQ(zeModuleBuildLogDestroy(log), ok);
    return text;
  }

  static inline ze_driver_handle_t driver;
  static inline ze_device_handle_t device[2];
  static inline ze_context_handle_t context;
  static inline ze_module_handle_t module;
  ze_command_list_handle_t list = nullptr;
  ze_event_pool_handle_t pool = nullptr;
  ze_event_handle_t done = nullptr;
  std::vector<void*> memory;
};

}  // namespace weft::testing::ze
