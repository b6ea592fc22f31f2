// Early stopping when a metric stops improving.
//
//   train::EarlyStopping stopping({.patience = 3});
//   if (stopping.update(validation_loss)) save_the_best();
//   if (stopping.should_stop()) break;
#pragma once

#include <cstdint>
#include <optional>

#include "../tensor/location.hpp"
#include "../tensor/config.hpp"

namespace weft::train {

struct EarlyStoppingOptions {
  /// Larger values are better.
  bool maximize = false;
  /// Stop after this many consecutive values without improvement, as in Keras and Lightning; 0 never stops and only
  /// tracks the best.
  int64_t patience = 0;
  /// Minimum difference that counts as improvement.
  double min_delta = 0;
};

class WEFT_API EarlyStopping {
 public:
  /// Raises ValueError for a negative patience, and a min_delta that is negative or not finite.
  explicit EarlyStopping(EarlyStoppingOptions options = {}, Location where = {});

  /// Returns whether the value is the best so far; NaN never is.
  bool update(double value);
  bool should_stop() const { return options_.patience > 0 && state_.bad >= options_.patience; }
  /// Empty before the first value that is not NaN.
  std::optional<double> best() const { return state_.best; }

  struct State {
    std::optional<double> best = {};
    /// Number of values since the best.
    int64_t bad = 0;
  };
  State state() const { return state_; }
  void restore(State state) { state_ = state; }

 private:
  EarlyStoppingOptions options_;
  State state_;
};

}  // namespace weft::train
