// Modules: translated SPIR-V, loaded from the cache.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "driver.h"
#include "kernel_abi.h"

namespace weft::testing::ze {

struct KernelParameter {
  enum class Kind { global_pointer, local_pointer, value };
  Kind kind;
  size_t size;    // bytes to pass; 0 for local pointers
  size_t offset;  // place in the argument block
};

struct KernelInfo {
  std::string name;
  const WeftKernelEntry* entry;
  std::vector<KernelParameter> parameters;
  size_t argument_bytes = 0;
  size_t static_local_bytes = 0;
};

struct Module {
  Device* device = nullptr;
  void* library = nullptr;
  std::vector<uint8_t> native;  // the library's file, behind a header
  std::unordered_map<std::string, KernelInfo> kernels;
  std::mutex local_memory;  // __local variables are globals of the library

  Module() = default;
  Module(const Module&) = delete;
  ~Module();
};

struct BuildLog {
  std::string text;
};

}  // namespace weft::testing::ze
