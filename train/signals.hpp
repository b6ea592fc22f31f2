// Ending a run by a signal, after the step that runs, so that it can be saved.
#pragma once

#include "../tensor/config.hpp"
#include "../tensor/pimpl.hpp"

namespace weft::train {

/// While it lives, SIGINT, SIGTERM, SIGHUP and SIGPIPE are noted instead of ending the process; a second Ctrl-C ends it
/// at once. What is ignored, as under nohup, stays so. One at a time in a process; inner ones do nothing.
class WEFT_API EndBySignal {
 public:
  EndBySignal();
  ~EndBySignal();
  EndBySignal(const EndBySignal&) = delete;

  /// The signal that came since the outermost one was made, 0 where none did; it stays known afterwards.
  static int received();

 private:
  struct Handlers;
  weft::detail::Pimpl<Handlers> before_;
};

}  // namespace weft::train
