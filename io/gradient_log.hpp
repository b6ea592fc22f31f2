// Writes what a GradientRecorder observes to files: JSON lines and TensorBoard events during the run, a page at its
// end.
#pragma once

#include <string>
#include <string_view>

#include "path.hpp"
#include "../hooks/recorder.hpp"

namespace weft::io {

/// A history as JSON lines, one for each step, as `gradients.jsonl` has them: without histograms.
WEFT_API std::string history_text(const History& history);
/// What such lines say, added to a history behind its steps; a line that is none, as a killed run leaves, is left out.
WEFT_API void read_history(std::string_view lines, History& history);

struct GradientLogOptions {
  bool json_lines = true, tensorboard = true, page = true;
  std::string title = "Gradients";
};

/// Writes `gradients.jsonl`, an event file and `gradients.html` into a folder, which serves one run. Keeps the recorder
/// alive.
class WEFT_API GradientLog {
 public:
  /// Makes the folder. The first step that comes decides what becomes of an earlier run's files in it: their steps
  /// before it stay, and are part of the page; those from it on are dropped. So a run that goes on has one history, and
  /// one that begins anew has its own. IoError. A step that cannot be written, as on a full
  /// disk, does not end the run: stderr says why, and no more steps are written.
  GradientLog(GradientRecorder recorder, Path folder, GradientLogOptions options = {}, Location where = {});
  /// Writes the page unless `save_page` did since the last step, so that a run that ends with an error has one too.
  ~GradientLog();
  GradientLog(const GradientLog&) = delete;

  /// Writes the page with what is known so far and returns its path. IoError.
  Path save_page(Location where = {});

 private:
  struct Files;
  GradientRecorder recorder_;
  Shared<Files> files_;
};

}  // namespace weft::io
