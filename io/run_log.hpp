// What a training run leaves behind: a folder with one JSON line per step and a curve, and a line on the terminal.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include <weft/io/path.hpp>
#include <weft/io/curve.hpp>

namespace weft::io {

struct StepMetrics {
  /// Steps done, this one included.
  int64_t step = 0;
  double train_loss = 0;
  double tokens_per_s = 0;
  std::optional<double> val_loss = {};
};

/// Writes `metrics.jsonl` as the run goes and `curve.svg` at its end. On a terminal one line tells step, loss, tokens/s
/// and the time left; elsewhere some twenty plain lines do.
class WEFT_API RunLog {
 public:
  /// Makes the folder; an empty path stands for `runs/<date>-<time>`. Metrics of an earlier run there are replaced.
  /// `first` steps were done before, `last` is where the run ends. IoError.
  RunLog(Path folder, int64_t first, int64_t last, Location where = {});
  ~RunLog();
  RunLog(RunLog&&) noexcept;

  /// Losses are printed with six digits. IoError where the line cannot be written.
  void record(const StepMetrics& metrics, Location where = {});
  /// Ends the terminal's line and writes the curve. IoError.
  void finish(const CurveOptions& options, Location where = {});
  const Path& folder() const { return folder_; }

 private:
  void show(const StepMetrics& metrics);

  Path folder_;
  std::unique_ptr<std::ofstream> metrics_;
  Series train_{"training", {}, false}, validation_{"validation", {}, true};
  int64_t first_, last_;
  bool terminal_;
  /// Of the steady clock, in seconds.
  double start_;
};

}  // namespace weft::io
