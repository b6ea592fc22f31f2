// Libraries that register ops when they are loaded.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "../../tensor/warning.hpp"
#include "loading.hpp"

namespace weft {

/// An open library and its registered ops.
struct LoadedLibrary {
  std::string path;
  void* handle = nullptr;
  std::vector<detail::RegisteredOp*> ops;
  std::vector<detail::RegisteredKernel*> kernels;
  OpLibrary kept;
  /// Of a registration that failed.
  std::string failure;

  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const detail::RegisteredOp* op : ops) list.push_back(op->name);
    return list;
  }
  // Its ops are already unregistered.
  void forget() noexcept {
    for (Registration& r : kept.ops_) r.keep();
    for (KernelRegistration& r : kept.kernels_) r.keep();
  }
  void enter(void (*entry)(OpLibrary&)) { entry(kept); }
  void close() noexcept {
    if (handle != nullptr) dlclose(std::exchange(handle, nullptr));
  }
};

namespace {

// Loading and unloading wait for each other: each runs the library's own code.
struct Libraries {
  std::recursive_mutex mutex;
  std::vector<std::unique_ptr<LoadedLibrary>> open;
};
Libraries& libraries() {
  static Libraries& instance = *new Libraries;
  return instance;
}
constinit thread_local LoadedLibrary* loading = nullptr;

constexpr const char* load = "load_library";

// Where the symbols of Weft are, so that the library finds them there, even in a Python module.
void show_own_symbols() {
  Dl_info about{};
  if (dladdr(reinterpret_cast<void*>(&show_own_symbols), &about) == 0 || about.dli_fname == nullptr) return;
  if (void* self = dlopen(about.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL)) dlclose(self);
}

// The same file whatever path leads there; the path itself where there is none.
std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> found(realpath(path.c_str(), nullptr), &std::free);
  return found ? std::string(found.get()) : path;
}

void open_it(LoadedLibrary& library, Location where) {
  show_own_symbols();
  library.handle = dlopen(library.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library.handle == nullptr) {
    const char* const why = dlerror();
    const std::string text = why != nullptr ? why : "it cannot be opened";
    const bool unresolved = text.find("undefined symbol") != text.npos;
    raise<IoError>(
        {.op = load,
         .problem = fmt::format("{} was not loaded", library.path),
         .details = text,
         .remedy = unresolved ? "link the program with weft::whole or a shared Weft, so that it has all of Weft" : ""},
        where);
  }
  if (void* const entry = dlsym(library.handle, "weft_register_ops"); entry != nullptr && library.failure.empty()) {
    // Exceptions of the library contain its code, so they are converted before the library is closed.
    try {
      library.enter(reinterpret_cast<void (*)(OpLibrary&)>(entry));
    } catch (const std::exception& e) {
      library.failure = e.what();
    } catch (...) {
      library.failure = "its weft_register_ops threw something other than a std::exception";
    }
  }
  if (!library.failure.empty()) {
    raise<ValueError>({.op = load,
                       .problem = fmt::format("{} was not loaded", library.path),
                       .details = detail::in_one_line(library.failure)},
                      where);
  }
  std::erase_if(library.ops, [](const auto* op) { return op->gone(); });
  std::erase_if(library.kernels, [](const auto* kernel) { return kernel->gone(); });
  if (library.ops.empty() && library.kernels.empty()) {
    raise<ValueError>({.op = load,
                       .problem = fmt::format("{} registers no op", library.path),
                       .remedy = "it needs RegisterOp at namespace scope, or extern \"C\" void "
                                 "weft_register_ops(weft::OpLibrary&)"},
                      where);
  }
}

// Whether all that it registered is out.
bool take_out(LoadedLibrary& library) {
  if (!detail::remove_idle(library.ops, library.kernels)) return false;
  library.forget();
  return true;
}

}  // namespace

void detail::note_registered(RegisteredOp& op) {
  if (loading != nullptr) loading->ops.push_back(&op);
}
void detail::note_registered(RegisteredKernel& kernel) {
  if (loading != nullptr) loading->kernels.push_back(&kernel);
}
std::string detail::in_one_line(std::string text) {
  for (size_t at = 0; (at = text.find("\n  ", at)) != text.npos;) text.replace(at, 3, "; ");
  return text;
}
bool detail::note_failure(const std::exception& error) {
  if (loading == nullptr) return false;
  loading->failure = error.what();
  return true;
}

void OpLibrary::keep(Registration registration) { ops_.push_back(std::move(registration)); }
void OpLibrary::keep(KernelRegistration registration) { kernels_.push_back(std::move(registration)); }

std::vector<std::string> load_library(const std::string& path, Location where) {
  Libraries& all = libraries();
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<LoadedLibrary> library(new LoadedLibrary);
  library->path = real_path(path);
  for (const auto& open : all.open) {
    if (open->path == library->path) return open->names();
  }
  all.open.reserve(all.open.size() + 1);
  LoadedLibrary* const outer = std::exchange(loading, library.get());
  try {
    open_it(*library, where);
    loading = outer;
  } catch (...) {
    loading = outer;
    // An op that a call on another thread holds already stays, and its code with it.
    if (take_out(*library)) library->close();
    else library->forget();
    throw;
  }
  all.open.push_back(std::move(library));
  return all.open.back()->names();
}

void unload_library(const std::string& path, Location where) {
  Libraries& all = libraries();
  const std::lock_guard lock(all.mutex);
  const std::string real = real_path(path);
  const auto found = std::ranges::find_if(all.open, [&](const auto& open) { return open->path == real; });
  if (found == all.open.end()) {
    raise<ValueError>({.op = "unload_library", .problem = fmt::format("{} is not loaded", path)}, where);
  }
  if (!take_out(**found)) {
    raise<ValueError>({.op = "unload_library",
                       .problem = fmt::format("{} is in use: a call, a graph or another op holds one of its ops", path),
                       .remedy = "first drop the tensors that were computed with it"},
                      where);
  }
  const std::unique_ptr<LoadedLibrary> library = std::move(*found);
  all.open.erase(found);
  library->close();
  // A library with symbols that are unique in the process is never taken out of it.
  if (void* const still = dlopen(library->path.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
    dlclose(still);
    warn({.op = "unload_library",
          .problem = fmt::format("the code of {} stays in the process; loading it again changes nothing", path),
          .remedy = "compile it with -fno-gnu-unique"},
         where);
  }
}

}  // namespace weft
