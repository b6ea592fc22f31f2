// oneDNN as the CPU's kernels call it: one thread for a call, on memory that the caller has.
//
// Signals are blocked during a product: oneDNN's kernels use the stack pointer as a general register, so a handler
// on the thread's stack would overwrite memory. Primitives are cached per shape and thread, because each compiles a
// kernel.
#pragma once

#if WEFT_HAS_ONEDNN
#include <signal.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace weft::cpu {

/// Kernels of oneDNN use the stack pointer as a general register: a handler that interrupts them on the thread's own
/// stack writes over the process's memory. Signals wait until the call has ended; those of a fault never wait.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

/// oneDNN reads its number of threads from OpenMP: one, because Weft's pool splits the work. The caller's setting is
/// restored afterwards.
class OneOpenmpThread {
 public:
  OneOpenmpThread();
  ~OneOpenmpThread();
  OneOpenmpThread(const OneOpenmpThread&) = delete;

 private:
  int before_;
};

dnnl::engine& onednn_engine();
/// The calling thread's.
dnnl::stream& onednn_stream();

}  // namespace weft::cpu
#endif
