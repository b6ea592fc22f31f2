#include "onednn.hpp"

#if WEFT_HAS_ONEDNN
#include <dlfcn.h>

namespace weft::cpu {

HeldSignals::HeldSignals() {
  static const sigset_t held = [] {
    sigset_t set;
    sigfillset(&set);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&set, fault);
    return set;
  }();
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}

namespace {

struct OpenmpFunctions {
  int (*get)();
  void (*set)(int);
};
const OpenmpFunctions& openmp() {
  static const OpenmpFunctions found = [] {
    // In a plug-in, such as a Python extension, oneDNN's symbols are not among the program's.
    void* runtime = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (runtime == nullptr) runtime = RTLD_DEFAULT;
    OpenmpFunctions f{reinterpret_cast<int (*)()>(dlsym(runtime, "omp_get_max_threads")),
                      reinterpret_cast<void (*)(int)>(dlsym(runtime, "omp_set_num_threads"))};
    return f.set != nullptr ? f : OpenmpFunctions{};
  }();
  return found;
}

}  // namespace

OneOpenmpThread::OneOpenmpThread() : before_(openmp().get != nullptr ? openmp().get() : 1) {
  if (before_ != 1) openmp().set(1);
}
OneOpenmpThread::~OneOpenmpThread() {
  if (before_ != 1) openmp().set(before_);
}

dnnl::engine& onednn_engine() {
  static auto* instance = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *instance;
}
dnnl::stream& onednn_stream() {
  static thread_local dnnl::stream stream(onednn_engine());
  return stream;
}

}  // namespace weft::cpu
#endif
