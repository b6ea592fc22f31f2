#include "library.hpp"

#include <string>

#include <dlfcn.h>

namespace weft::cuda {

namespace {

void* open_library() {
  const std::string file = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return dlopen((WEFT_CUDA_LIBRARY_DIR "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
}

const LtApi* load() {
  void* library = open_library();
  if (library == nullptr) return nullptr;
  static LtApi api;
  bool complete = true;
#define WEFT_LT_LOAD(name)                                               \
  api.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  complete = complete && api.name != nullptr;
  WEFT_LT_FUNCTIONS(WEFT_LT_LOAD)
#undef WEFT_LT_LOAD
  return complete ? &api : nullptr;
}

}  // namespace

const LtApi* find_lt() {
  static const LtApi* const api = load();
  return api;
}

}  // namespace weft::cuda
