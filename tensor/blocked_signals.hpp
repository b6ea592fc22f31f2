// Signals are for the program's own threads, not for those that Weft starts.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace weft::detail {

/// Threads that are started while it lives get no signals, since they inherit the mask.
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
