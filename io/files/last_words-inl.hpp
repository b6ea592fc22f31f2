// Writing at an abnormal end of the process. Internal to io/ and train/.
#pragma once

#include "../../tensor/callback.hpp"
#include "../../tensor/config.hpp"

namespace weft::io {

/// While one exists, `leave(why)` runs if the process ends by an uncaught exception, by exit(), or by an unhandled
/// SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGINT, SIGTERM or SIGHUP. Then the process ends as usual: earlier
/// handlers run, a core is written, and the exit status is that of the signal.
///
/// At exit() it runs in the process, with an empty text. Otherwise it runs in a forked child, for at most five seconds,
/// and must not depend on other threads or locks; the process itself only makes async-signal-safe calls.
/// Exceptions are ignored. Any number may be active.
class LastWords {
 public:
  explicit LastWords(Callback<void(const char* why)> leave);
  ~LastWords();
  LastWords(const LastWords&) = delete;

 private:
  Callback<void(const char* why)> leave_;
};

}  // namespace weft::io
