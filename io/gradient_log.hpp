// Writes the observations of a GradientRecorder to files: JSON lines and TensorBoard events during the run, and an HTML
// page.
#pragma once

#include <string>
#include <string_view>

#include "path.hpp"
#include "../hooks/recorder.hpp"

namespace weft::io {

/// Returns a history as JSON lines, one for each step, in the format of `gradients.jsonl`.
WEFT_API std::string history_text(const History& history);
/// Parses such lines and appends their steps to a history. Malformed lines, such as the last one of a killed run, are
/// skipped.
WEFT_API void read_history(std::string_view lines, History& history);
/// Returns the history of such a file, or of the file `gradients.jsonl` in a folder. Histories of more than 2048 steps
/// are thinned: neighbouring steps are merged, keeping the greater figures. Raises IoError, and FormatError if no line
/// is a step.
WEFT_API History load_history(const Path& log, Location where = {});

struct GradientLogOptions {
  bool json_lines = true, tensorboard = true, page = true;
  std::string title = "Gradients";
  /// Minimum seconds between two pages during the run. The interval is longer if writing a page takes more than 1/50 of
  /// it. 0 writes only the page at the end.
  double page_every = 5;
  /// Also writes the page, with the reason, if the process ends by exit(), an uncaught exception, or SIGSEGV, SIGBUS,
  /// SIGFPE, SIGILL or SIGABRT. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE and SIGXCPU are included unless the program
  /// handles them. Existing handlers are called afterwards.
  bool at_any_end = true;
};

/// Writes `gradients.jsonl`, an event file and `gradients.html` into a folder for one run. Keeps the recorder alive. A
/// killed process leaves the lines of all its steps and a page that is some seconds old; `./weft page FOLDER` writes
/// the final page from the lines.
class WEFT_API GradientLog {
 public:
  /// Creates the folder. If it has files of an earlier run, the first recorded step decides which steps are kept:
  /// earlier steps stay and appear on the page; that step and later ones are dropped. So a resumed run has one history,
  /// and a run that starts again replaces the old one. Raises IoError, and ValueError for a negative page_every. A step
  /// that cannot be written, as on a full disk, does not end the run: the error goes to stderr, and logging stops.
  GradientLog(GradientRecorder recorder, Path folder, GradientLogOptions options = {}, Location where = {});
  /// Writes the page unless `save_page` did since the last step.
  ~GradientLog();
  GradientLog(const GradientLog&) = delete;

  /// Sets the text under the title of later pages, such as the reason why the run ended.
  void set_note(std::string note);
  /// Writes the page for the steps so far and returns its path. Raises IoError.
  Path save_page(Location where = {});

 private:
  struct Files;
  void refresh_page();
  GradientRecorder recorder_;
  Shared<Files> files_;
};

}  // namespace weft::io
