// The folder of a run: its metrics, samples, machine and configuration, and a page that shows them while it trains.
//
//   train::RunFolder run("runs/first", {.title = "First run", .config = R"({"width": 64})"});
//   run.begin(0, steps);
//   run.record(step, {{"train_loss", loss}}, {{"lr", lr}});
//   run.sample_text(step, "poem", text);
//   run.finish();
//
// runs/first/ then holds metrics.jsonl, metrics.csv, samples.jsonl, config.json, machine.json, curve.svg, run.json
// (what the page shows), index.html, and failure.txt where the run has failed. The page needs neither a server nor a
// network, is written anew every few seconds, and compares the run with those in the folders beside it; `weft board
// runs` lists them all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "../io/path.hpp"
#include "../io/run_log.hpp"
#include "../tensor/pimpl.hpp"

namespace weft::train {

struct RunFolderOptions {
  /// The folder's name where it is empty.
  std::string title = {};
  /// JSON text of whatever the run is configured by.
  std::string config = {};
  bool csv = true;
  /// Events for `tensorboard --logdir`.
  bool tensorboard = false;
  bool page = true;
  /// Seconds from one page to the next while the run goes on.
  double page_every = 5;
};

/// A full disk or a folder that vanished does not end a run: stderr says so once.
class WEFT_API RunFolder {
 public:
  /// Makes the folder; an empty path stands for a new one `runs/<date>-<time>`. IoError; ValueError for a config that
  /// is no JSON and a page_every that is not above 0.
  explicit RunFolder(io::Path folder = {}, RunFolderOptions options = {}, Location where = {});
  /// A run that was not finished is shown as stopped. One whose process ends by an uncaught exception or by a signal
  /// that it does not handle, such as SIGSEGV or SIGTERM, is shown as failed, with the reason.
  ~RunFolder();
  RunFolder(RunFolder&&) noexcept;

  /// `first` is the number of steps done before, `last` that at the end, 0 where it is not known. What an earlier run
  /// left in the folder stays up to step `first`; of that step itself, what comes again replaces it. IoError.
  void begin(int64_t first, int64_t last, Location where = {});
  /// Figures of a step; `untold` ones are not shown on the terminal. Begins at step 0 where nobody did. Figures whose
  /// names end in "_per_s" are speeds.
  void record(int64_t step, const io::Figures& figures, const io::Figures& untold = {});
  /// Samples of what the model does, shown by step: plain text, or a picture as SVG.
  void sample_text(int64_t step, const std::string& name, std::string_view text);
  void sample_svg(int64_t step, const std::string& name, std::string_view svg);
  /// A state that was saved.
  void checkpoint(const io::Path& path, int64_t step, bool best);

  /// Writes the page, if it is on. IoError.
  void write_page(Location where = {});
  /// Ends the run as "done", "stopped" or "failed", with the curve and the last page. IoError.
  void finish(const std::string& state = "done", Location where = {});
  /// Ends it as "failed"; the page and failure.txt say why. IoError.
  void fail(const std::string& why, Location where = {});
  const io::Path& folder() const;

 private:
  struct State;
  weft::detail::Pimpl<State> state_;
};

/// The page of a run as HTML: `run` is the text of a run.json, `others` are those of runs to compare with; texts that
/// are no JSON are left out. FormatError where `run` is none.
WEFT_API std::string run_page(const std::string& run, const std::vector<std::string>& others = {}, Location where = {});

/// What the process runs on, as JSON: processor, threads, memory, devices, version, command line, time of the start,
/// and the commit of the folder's git repository.
WEFT_API std::string machine_json();

}  // namespace weft::train
