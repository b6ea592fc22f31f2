// What a process still writes when it ends otherwise than by its own end. Internal to io/ and train/.
#pragma once

#include "../../tensor/callback.hpp"
#include "../../tensor/config.hpp"

namespace weft::io {

/// While one lives, `leave(why)` runs where the process ends by an uncaught exception, by exit(), or by a signal that
/// nobody handles: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGINT, SIGTERM and SIGHUP. Then what would have happened
/// happens: handlers that were there before, a core, the signal's status.
///
/// At exit() it runs in the process itself, with an empty text. Otherwise it runs in a forked child, for at most five
/// seconds, so it may neither count on threads nor on locks; the process itself does nothing that a signal handler may
/// not. What it throws is dropped. Of more than 64 only the first are known.
class LastWords {
 public:
  explicit LastWords(Callback<void(const char* why)> leave);
  ~LastWords();
  LastWords(const LastWords&) = delete;

 private:
  Callback<void(const char* why)> leave_;
};

}  // namespace weft::io
