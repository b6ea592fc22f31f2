#include "library.hpp"

#include <string>

#include <dlfcn.h>

#include "../../../tensor/find_symbol-inl.hpp"
#include "../../../tensor/settings.hpp"

namespace weft::cuda {

namespace {

/// By its name, then in the folder where the build found CUDA.
void* open_library(const char* name, int version) {
  const std::string file = std::string(name) + ".so." + std::to_string(version);
  if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return dlopen((WEFT_CUDA_LIBRARY_DIR "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

const LtApi* find_lt() {
  static const LtApi* const api = []() -> const LtApi* {
    void* const library = open_library("libcublasLt", CUBLAS_VER_MAJOR);
    if (library == nullptr) return nullptr;
    static LtApi found;
#define WEFT_LT_FIND(name) &&detail::find_symbol(library, #name, found.name)
    return true WEFT_LT_FUNCTIONS(WEFT_LT_FIND) ? &found : nullptr;
#undef WEFT_LT_FIND
  }();
  return api;
}

#if WEFT_HAS_CUDNN
const DnnApi* find_dnn() {
  static const DnnApi* const api = []() -> const DnnApi* {
    if (detail::is_switched_off("WEFT_CUDNN")) return nullptr;
    void* const library = open_library("libcudnn", CUDNN_MAJOR);
    if (library == nullptr) return nullptr;
    static DnnApi found;
#define WEFT_DNN_FIND(name) &&detail::find_symbol(library, #name, found.name)
    return true WEFT_DNN_FUNCTIONS(WEFT_DNN_FIND) ? &found : nullptr;
#undef WEFT_DNN_FIND
  }();
  return api;
}
#endif

}  // namespace weft::cuda
