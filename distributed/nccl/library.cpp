#include "library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace weft::distributed::nccl {

const Library* open_library(const char* file, std::string& why) {
  void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    why = fmt::format("{} was not found", file);
    return nullptr;
  }
  Library library;
  const auto find = [&](const char* name) {
    void* const symbol = dlsym(handle, name);
    if (symbol == nullptr) why = fmt::format("{} has no {}", file, name);
    return symbol;
  };
#define WEFT_NCCL_LOAD(result, name, arguments) \
  library.name = reinterpret_cast<result(*) arguments>(find("nccl" #name));
  WEFT_NCCL_FUNCTIONS(WEFT_NCCL_LOAD)
#undef WEFT_NCCL_LOAD
  constexpr int oldest = 21400;
  if (why.empty() && (library.GetVersion(&library.version) != Result::success || library.version < oldest)) {
    why = fmt::format("{} is of version {}, before 2.14", file, library.version);
  }
  return why.empty() ? new Library(library) : nullptr;  // never freed, as the library is never closed
}

const Library* find_library(std::string& why) {
  struct Found {
    std::string why;
    const Library* library = open_library("libnccl.so.2", why);
    Found() {
#ifdef WEFT_CUDA_LIBRARY_DIR
      std::string there;
      if (library == nullptr) library = open_library(WEFT_CUDA_LIBRARY_DIR "/libnccl.so.2", there);
      if (library != nullptr) why.clear();
#endif
    }
  };
  static const Found found;
  why = found.why;
  return found.library;
}

}  // namespace weft::distributed::nccl
