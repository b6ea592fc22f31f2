// Blocks signals in the threads that Weft starts, so that only the program's own threads handle them.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace weft::detail {

/// Blocks all signals for the current thread until destruction. Threads started meanwhile inherit the mask.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t every;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace weft::detail
