// Ends a run on a signal after the current step, so that it can be saved.
#pragma once

#include "../tensor/config.hpp"
#include "../tensor/pimpl.hpp"

namespace weft::train {

/// Records SIGINT, SIGTERM, SIGHUP and SIGPIPE until destruction, instead of ending the process; a second Ctrl-C ends
/// it at once. Ignored signals, as under nohup, stay ignored. Only the outermost object in a process has an effect.
class WEFT_API EndBySignal {
 public:
  EndBySignal();
  ~EndBySignal();
  EndBySignal(const EndBySignal&) = delete;

  /// The signal received since the outermost object was constructed, or 0; it stays set after destruction.
  static int received();

 private:
  struct Handlers;
  weft::detail::Pimpl<Handlers> before_;
};

}  // namespace weft::train
