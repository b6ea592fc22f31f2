// The folder of a run: its metrics, samples, machine and configuration, and a page that displays them during training.
//
//   train::RunFolder run("runs/first", {.title = "First run", .config = R"({"width": 64})"});
//   run.begin(0, steps);
//   run.record(step, {{"train_loss", loss}}, {{"lr", lr}});
//   run.sample_text(step, "poem", text);
//   run.finish();
//
// The folder runs/first/ then contains metrics.jsonl, metrics.csv, samples.jsonl, config.json, machine.json, curve.svg,
// run.json (the data of the page), index.html, and failure.txt if the run failed. The page needs neither a server nor a
// network, is rewritten every few seconds, and compares the run with those in neighbouring folders. `weft board runs`
// lists all runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "../io/path.hpp"
#include "../io/run_log.hpp"
#include "../tensor/pimpl.hpp"

namespace weft::train {

struct RunFolderOptions {
  /// Default: the name of the folder.
  std::string title = {};
  /// The run's configuration as JSON text.
  std::string config = {};
  bool csv = true;
  /// Write events for `tensorboard --logdir`.
  bool tensorboard = false;
  bool page = true;
  /// Seconds between two updates of the page during the run.
  double page_every = 5;
};

/// A full disk or a removed folder does not end a run: it is reported once on stderr.
class WEFT_API RunFolder {
 public:
  /// Creates the folder; an empty path means a new one, `runs/<date>-<time>`. Raises IoError; ValueError for a config
  /// that is not JSON and a page_every that is not above 0.
  explicit RunFolder(io::Path folder = {}, RunFolderOptions options = {}, Location where = {});
  /// Marks a run that is not finished as stopped. If the process ends by an uncaught exception or an unhandled signal,
  /// such as SIGSEGV or SIGTERM, the run is marked as failed, with the reason.
  ~RunFolder();
  RunFolder(RunFolder&&) noexcept;

  /// `first` is the number of steps done before, `last` the number at the end, 0 if unknown. Records of an earlier run
  /// in the folder are kept up to step `first`; new records of that step replace old ones. Raises IoError.
  void begin(int64_t first, int64_t last, Location where = {});
  /// Records metrics of a step; `untold` ones are not printed on the terminal. Begins at step 0 unless `begin` was
  /// called. Metrics with the suffix "_per_s" are speeds.
  void record(int64_t step, const io::Figures& figures, const io::Figures& untold = {});
  /// Adds a sample of the model's output to the page: plain text, or an SVG picture.
  void sample_text(int64_t step, const std::string& name, std::string_view text);
  void sample_svg(int64_t step, const std::string& name, std::string_view svg);
  /// Records a saved checkpoint.
  void checkpoint(const io::Path& path, int64_t step, bool best);

  /// Writes the page, if it is enabled. Raises IoError.
  void write_page(Location where = {});
  /// Ends the run as "done", "stopped" or "failed", with the curve and the final page. Raises IoError.
  void finish(const std::string& state = "done", Location where = {});
  /// Ends the run as "failed"; the page and failure.txt contain the reason. Raises IoError.
  void fail(const std::string& why, Location where = {});
  const io::Path& folder() const;

 private:
  struct State;
  weft::detail::Pimpl<State> state_;
};

/// The page of a run as HTML. `run` is the text of a run.json, `others` those of runs to compare with; invalid ones are
/// skipped. Raises FormatError if `run` is invalid.
WEFT_API std::string run_page(const std::string& run, const std::vector<std::string>& others = {}, Location where = {});

/// Information about the process as JSON: processor, threads, memory, devices, version, command line, start time, and
/// the commit of the folder's git repository.
WEFT_API std::string machine_json();

}  // namespace weft::train
