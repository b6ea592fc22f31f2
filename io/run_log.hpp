// The log of a training run: a folder with one JSON line per step and a chart, and a status line on the terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "path.hpp"
#include "curve.hpp"
#include "../tensor/pimpl.hpp"

namespace weft::io {

/// Names and values of a step, in display order: {{"train_loss", 2.31}, {"accuracy", 0.4}}.
using Figures = std::vector<std::pair<std::string, double>>;

/// Figures of a language model, logged as `train_loss`, `tokens_per_s` and `val_loss`.
struct StepMetrics {
  /// Completed steps, including this one.
  int64_t step = 0;
  double train_loss = 0;
  double tokens_per_s = 0;
  std::optional<double> val_loss = {};
};

/// A line of `metrics.jsonl`.
struct LoggedStep {
  int64_t step = 0;
  Figures figures = {};
};
/// Returns the lines of such a file, in order. Malformed lines, as after a killed run, are skipped; a missing file
/// gives an empty list. Raises IoError if the file cannot be read.
WEFT_API std::vector<LoggedStep> read_metrics(const Path& file, Location where = {});

/// Writes `metrics.jsonl` during the run and `curve.svg` at its end. A terminal shows one line with the step, its
/// figures and the remaining time; other outputs get about twenty plain lines. Figures with a name ending in `_per_s`
/// are shown smoothed.
///
///   io::RunLog log("runs/first", 0, steps);
///   log.record(step, {{"train_loss", loss}, {"accuracy", accuracy}});
///   log.finish({.title = "First run", .x_label = "step"});
class WEFT_API RunLog {
 public:
  /// Creates the folder; an empty path means a new folder `runs/<date>-<time>`. `first` is the number of steps
  /// completed before, `last` the number at the end of the run, or 0 if unknown. Metrics of an earlier run stay up to
  /// step `first` and are replaced after it. A line of step `first` itself is replaced if its figures are recorded
  /// again. Raises IoError.
  RunLog(Path folder, int64_t first, int64_t last, Location where = {});
  ~RunLog();
  RunLog(RunLog&&) noexcept;

  /// Adds a line {"step": …, name: value, …}. A step may omit figures; figures in `untold` are not shown on the
  /// terminal. A full disk does not end the run: the lines are kept until they can be written, with one message on
  /// stderr.
  void record(int64_t step, const Figures& figures, const Figures& untold = {});
  void record(const StepMetrics& metrics);
  /// Ends the terminal line and draws the curves of the figures in `names`. If `names` is empty, draws the figures with
  /// names that end in "loss", or else the first figure. A figure of every step is smoothed; a figure of few steps has
  /// markers. Raises IoError if the chart or metrics cannot be written.
  void finish(const CurveOptions& options, const std::vector<std::string>& names = {}, Location where = {});
  const Path& folder() const;

 private:
  struct State;
  weft::detail::Pimpl<State> state_;
};

}  // namespace weft::io
