// The log of a training run: a folder with one JSON line per step and a curve, and a line on the terminal.
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

/// Names and values of a step, in the order in which they are shown: {{"train_loss", 2.31}, {"accuracy", 0.4}}.
using Figures = std::vector<std::pair<std::string, double>>;

/// The figures of a language model, as `train_loss`, `tokens_per_s` and `val_loss`.
struct StepMetrics {
  /// Steps done, this one included.
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
/// The lines of such a file, in their order; what is no such line, as where a run was killed, is left out, and a file
/// that is not there is empty. IoError where it cannot be read.
WEFT_API std::vector<LoggedStep> read_metrics(const Path& file, Location where = {});

/// Writes `metrics.jsonl` during the run and `curve.svg` at its end. A terminal shows one line with the step, its
/// figures and the time left; other outputs get some twenty plain lines. Speeds, whose names end in `_per_s`, are shown
/// smoothed.
///
///   io::RunLog log("runs/first", 0, steps);
///   log.record(step, {{"train_loss", loss}, {"accuracy", accuracy}});
///   log.finish({.title = "First run", .x_label = "step"});
class WEFT_API RunLog {
 public:
  /// Makes the folder; an empty path stands for a new folder `runs/<date>-<time>`. `first` is the number of steps done
  /// before, `last` that at the end of the run, 0 where it is not known. Metrics of an earlier run in the folder stay
  /// up to step `first`, and are replaced beyond; of step `first` itself a line whose figures come again is replaced.
  /// IoError.
  RunLog(Path folder, int64_t first, int64_t last, Location where = {});
  ~RunLog();
  RunLog(RunLog&&) noexcept;

  /// Adds a line {"step": …, name: value, …}; any step may lack some figures, and `untold` ones are not shown on the
  /// terminal. A full disk does not end a run: the lines are kept until they can be written, and stderr says so once.
  void record(int64_t step, const Figures& figures, const Figures& untold = {});
  void record(const StepMetrics& metrics);
  /// Ends the terminal's line, and draws the curve of the figures in `names`; where that is empty, of those whose names
  /// end in "loss", or else of the first. A figure of every step is smoothed, one of few steps has dots. IoError where
  /// the curve or lines of metrics cannot be written.
  void finish(const CurveOptions& options, const std::vector<std::string>& names = {}, Location where = {});
  const Path& folder() const;

 private:
  struct State;
  weft::detail::Pimpl<State> state_;
};

}  // namespace weft::io
