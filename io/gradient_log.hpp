// Writes what a GradientRecorder observes to files: JSON lines and TensorBoard events during the run, a page at its
// end.
#pragma once

#include <string>
#include <string_view>

#include "path.hpp"
#include "../hooks/recorder.hpp"

namespace weft::io {

/// A history as JSON lines, one for each step, as `gradients.jsonl` has them.
WEFT_API std::string history_text(const History& history);
/// What such lines say, added to a history behind its steps; a line that is none, as a killed run leaves, is left out.
WEFT_API void read_history(std::string_view lines, History& history);
/// The history of such a file, or of a folder's `gradients.jsonl`: for suspects and pages after a run, wherever it was
/// logged. Of more than 2048 steps neighbours become one, with the greater figures of both. IoError, and FormatError
/// where no line is a step.
WEFT_API History load_history(const Path& log, Location where = {});

struct GradientLogOptions {
  bool json_lines = true, tensorboard = true, page = true;
  std::string title = "Gradients";
  /// Seconds from one page to the next while the run goes on, more where a page takes more than a fiftieth of them; 0
  /// writes it at the end alone.
  double page_every = 5;
  /// Leaves the page, with the reason, also where the process ends by exit(), by an uncaught exception, or by SIGSEGV,
  /// SIGBUS, SIGFPE, SIGILL, SIGABRT; and by SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE and SIGXCPU where the program
  /// does not handle these itself. Handlers that were there before are called afterwards.
  bool at_any_end = true;
};

/// Writes `gradients.jsonl`, an event file and `gradients.html` into a folder, which serves one run. Keeps the recorder
/// alive. A process that is killed leaves the lines of all its steps, and the page of some seconds ago; `./weft page
/// FOLDER` makes the last one from the lines.
class WEFT_API GradientLog {
 public:
  /// Makes the folder. The first step that comes decides what becomes of an earlier run's files in it: their steps
  /// before it stay, and are part of the page; those from it on are dropped. So a run that goes on has one history, and
  /// one that begins anew has its own. IoError. A step that cannot be written, as on a full
  /// disk, does not end the run: stderr says why, and no more steps are written. ValueError for a negative page_every.
  GradientLog(GradientRecorder recorder, Path folder, GradientLogOptions options = {}, Location where = {});
  /// Writes the page unless `save_page` did since the last step.
  ~GradientLog();
  GradientLog(const GradientLog&) = delete;

  /// What stands under the title of the pages from now on, such as why the run ended.
  void set_note(std::string note);
  /// Writes the page with what is known so far and returns its path. IoError.
  Path save_page(Location where = {});

 private:
  struct Files;
  void refresh_page();
  GradientRecorder recorder_;
  Shared<Files> files_;
};

}  // namespace weft::io
