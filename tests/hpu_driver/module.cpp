#include "module.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "content_hash.h"
#include "tables.h"

extern char** environ;

namespace weft::testing::ze {
namespace {

constexpr uint32_t spirv_magic = 0x07230203;
constexpr size_t spirv_header_bytes = 20;
constexpr size_t argument_alignment = 64;  // that of the widest OpenCL vector is 128; kernels use none

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Runs the translator with its output in a file; false on any failure.
bool run_translator(const std::vector<std::string>& command, const std::string& log_path) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = -1;
  int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  return !failed && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Translates on a cache miss. Returns an empty string, or why it failed.
std::string translate(const uint8_t* spirv, size_t bytes, const std::string& library) {
  const Config& c = config();
  if (c.translator.empty() || access(c.translator.c_str(), X_OK) != 0) {
    return "no translated library " + library + " and no translator to make it";
  }
  static std::atomic<unsigned> counter{0};
  mkdir(c.cache_folder.c_str(), 0755);
  std::string base = library + "." + std::to_string(getpid()) + "." + std::to_string(counter++);
  std::string input = base + ".spv", log_path = base + ".log";
  std::ofstream file(input, std::ios::binary);
  file.write(reinterpret_cast<const char*>(spirv), static_cast<std::streamsize>(bytes));
  file.close();
  std::string failure;
  if (!file) {
    failure = "cannot write " + input;
  } else if (!run_translator({c.translator, c.builtins, input, library}, log_path)) {
    failure = "translation failed:\n" + read_text(log_path);
  }
  unlink(input.c_str());
  unlink(log_path.c_str());
  return failure;
}

KernelInfo describe(const WeftKernelEntry& entry) {
  KernelInfo kernel;
  kernel.name = entry.name;
  kernel.entry = &entry;
  std::istringstream words(entry.arguments);
  for (std::string word; words >> word;) {
    KernelParameter p{KernelParameter::Kind::value, 0, kernel.argument_bytes};
    if (word[0] == 'p') {
      p.kind = KernelParameter::Kind::global_pointer;
      p.size = sizeof(void*);
    } else if (word[0] == 'l') {
      p.kind = KernelParameter::Kind::local_pointer;
    } else {
      p.size = std::stoul(word.substr(1));
    }
    size_t stored = std::max(p.size, sizeof(void*));
    kernel.argument_bytes += (stored + argument_alignment - 1) / argument_alignment * argument_alignment;
    kernel.parameters.push_back(p);
  }
  for (uint64_t i = 0; i < entry.local_block_count; ++i) kernel.static_local_bytes += entry.local_blocks[i].size;
  return kernel;
}

ze_result_t open_library(const std::string& path, Module& module, std::string* problem) {
  module.library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = module.library ? dlsym(module.library, WEFT_KERNEL_TABLE_SYMBOL) : nullptr;
  if (!symbol) {
    *problem = dlerror();
    return ZE_RESULT_ERROR_MODULE_LINK_FAILURE;
  }
  const auto* table = static_cast<const WeftKernelTable*>(symbol);
  for (uint64_t i = 0; i < table->kernel_count; ++i) {
    KernelInfo kernel = describe(table->kernels[i]);
    std::string name = kernel.name;
    module.kernels.emplace(std::move(name), std::move(kernel));
  }
  return ZE_RESULT_SUCCESS;
}

std::string native_header(const uint8_t* library, size_t bytes) {
  return "weft-ze " + std::to_string(config().driver_version) + " " + content_hash(library, bytes) + "\n";
}

ze_result_t load_spirv(const ze_module_desc_t& desc, Module& module, std::string* problem) {
  uint32_t magic = 0;
  if (desc.inputSize >= spirv_header_bytes) std::memcpy(&magic, desc.pInputModule, sizeof magic);
  if (magic != spirv_magic || desc.inputSize % 4 != 0) {
    *problem = "the input is not SPIR-V: bad size or magic number";
    return ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
  }
  std::string library = config().cache_folder + "/" + content_hash(desc.pInputModule, desc.inputSize) + ".so";
  if (access(library.c_str(), R_OK) != 0) {
    *problem = translate(desc.pInputModule, desc.inputSize, library);
    if (!problem->empty()) return ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
  }
  log("module %s", library.c_str());
  std::string file = read_text(library);
  const auto* bytes = reinterpret_cast<const uint8_t*>(file.data());
  std::string header = native_header(bytes, file.size());
  module.native.assign(header.begin(), header.end());
  module.native.insert(module.native.end(), bytes, bytes + file.size());
  return open_library(library, module, problem);
}

// As hardware does, it accepts only complete files of this driver version.
ze_result_t load_native(const ze_module_desc_t& desc, Module& module, std::string* problem) {
  const auto* begin = desc.pInputModule;
  const auto* end = begin + desc.inputSize;
  const auto* line_end = std::find(begin, end, '\n');
  const auto* body = line_end == end ? end : line_end + 1;
  if (std::string(begin, body) != native_header(body, static_cast<size_t>(end - body))) {
    *problem = "not a native binary of this driver";
    return ZE_RESULT_ERROR_INVALID_NATIVE_BINARY;
  }
  std::string path = "/tmp/weft-ze-XXXXXX";  // dlopen takes two files of one name for the same
  int fd = mkstemp(path.data());
  if (fd < 0) return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
  close(fd);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(body), end - body);
  log("native module of %zu bytes", desc.inputSize);
  module.native.assign(begin, end);
  ze_result_t result = open_library(path, module, problem);
  unlink(path.c_str());
  return result;
}

ze_result_t ZE_APICALL module_create(ze_context_handle_t context, ze_device_handle_t device_handle,
                                     const ze_module_desc_t* desc, ze_module_handle_t* out,
                                     ze_module_build_log_handle_t* build_log) {
  auto device = handles<Device>().find(device_handle);
  if (!device || !handles<Context>().find(context)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!desc || !desc->pInputModule || !out) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (device_lost()) return ZE_RESULT_ERROR_DEVICE_LOST;
  if (desc->format > ZE_MODULE_FORMAT_NATIVE) return ZE_RESULT_ERROR_INVALID_ENUMERATION;
  auto module = std::make_shared<Module>();
  module->device = device.get();
  std::string problem;
  bool native = desc->format == ZE_MODULE_FORMAT_NATIVE;
  ze_result_t result = native ? load_native(*desc, *module, &problem) : load_spirv(*desc, *module, &problem);
  if (!problem.empty()) log("module: %s", problem.c_str());
  if (build_log) handles<BuildLog>().insert(std::make_shared<BuildLog>(BuildLog{problem}), build_log);
  if (result == ZE_RESULT_SUCCESS) handles<Module>().insert(std::move(module), out);
  return result;
}

ze_result_t ZE_APICALL module_destroy(ze_module_handle_t handle) { return destroy_handle<Module>(handle, "module"); }

ze_result_t ZE_APICALL module_get_kernel_names(ze_module_handle_t handle, uint32_t* count, const char** names) {
  auto module = handles<Module>().find(handle);
  if (!module) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  auto total = static_cast<uint32_t>(module->kernels.size());
  uint32_t wanted = names ? std::min(*count, total) : 0;
  uint32_t i = 0;
  for (const auto& [name, kernel] : module->kernels) {
    if (i == wanted) break;
    names[i++] = kernel.entry->name;
  }
  *count = wanted ? wanted : total;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL module_get_properties(ze_module_handle_t handle, ze_module_properties_t* properties) {
  if (!handles<Module>().find(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  properties->flags = 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL module_get_native_binary(ze_module_handle_t handle, size_t* size, uint8_t* binary) {
  auto module = handles<Module>().find(handle);
  if (!module) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!size) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (binary) std::memcpy(binary, module->native.data(), std::min(*size, module->native.size()));
  *size = module->native.size();
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL build_log_destroy(ze_module_build_log_handle_t handle) {
  return destroy_handle<BuildLog>(handle, "build log");
}

ze_result_t ZE_APICALL build_log_get_string(ze_module_build_log_handle_t handle, size_t* size, char* text) {
  auto build_log = handles<BuildLog>().find(handle);
  if (!build_log) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  size_t full = build_log->text.size() + 1;
  if (text) std::memcpy(text, build_log->text.c_str(), std::min(*size, full));
  *size = full;
  return ZE_RESULT_SUCCESS;
}

}  // namespace

Module::~Module() {
  if (library) dlclose(library);
}

void fill_table(ze_module_dditable_t& table) {
  table.pfnCreate = module_create;
  table.pfnDestroy = module_destroy;
  table.pfnGetKernelNames = module_get_kernel_names;
  table.pfnGetProperties = module_get_properties;
  table.pfnGetNativeBinary = module_get_native_binary;
}

void fill_table(ze_module_build_log_dditable_t& table) {
  table.pfnDestroy = build_log_destroy;
  table.pfnGetString = build_log_get_string;
}

}  // namespace weft::testing::ze
