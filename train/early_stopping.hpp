// Noticing when a figure has stopped getting better.
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
  /// This many values in a row without a better one are the end, as in Keras and Lightning; 0 bears all, so that only
  /// the best is kept.
  int64_t patience = 0;
  /// A value is better if it is so by more than this.
  double min_delta = 0;
};

class WEFT_API EarlyStopping {
 public:
  /// ValueError for a negative patience, and a min_delta that is negative or not finite.
  explicit EarlyStopping(EarlyStoppingOptions options = {}, Location where = {});

  /// Whether the value is the best so far. NaN never is.
  bool update(double value);
  bool should_stop() const { return options_.patience > 0 && state_.bad >= options_.patience; }
  /// Empty before the first value that is one.
  std::optional<double> best() const { return state_.best; }

  struct State {
    std::optional<double> best = {};
    /// Values since the best.
    int64_t bad = 0;
  };
  State state() const { return state_; }
  void restore(State state) { state_ = state; }

 private:
  EarlyStoppingOptions options_;
  State state_;
};

}  // namespace weft::train
