#include "../early_stopping.hpp"

#include <cmath>

#include "../../tensor/error.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::train {

EarlyStopping::EarlyStopping(EarlyStoppingOptions options, Location where) : options_(options) {
  const auto refuse = [&](const std::string& problem) {
    raise<ValueError>({.op = "EarlyStopping", .problem = problem}, where);
  };
  if (options.patience < 0) refuse(mismatch_text("patience", "at least 0", options.patience));
  if (!(options.min_delta >= 0) || std::isinf(options.min_delta)) {
    refuse(mismatch_text("min_delta", "a finite number of at least 0", options.min_delta));
  }
}

bool EarlyStopping::update(double value) {
  const double gain = !state_.best ? INFINITY : options_.maximize ? value - *state_.best : *state_.best - value;
  const bool better = !std::isnan(value) && (!state_.best || gain > options_.min_delta);
  if (better) state_ = {value, 0};
  else ++state_.bad;
  return better;
}

}  // namespace weft::train
