#include "../early_stopping.hpp"

#include <cmath>

#include "../../tensor/error.hpp"

namespace weft::train {

EarlyStopping::EarlyStopping(EarlyStoppingOptions options, Location where) : options_(options) {
  const auto refuse = [&](const char* problem) {
    raise<ValueError>({.op = "EarlyStopping", .problem = problem}, where);
  };
  if (options.patience < 0) refuse("the patience is negative");
  if (!(options.min_delta >= 0) || std::isinf(options.min_delta)) refuse("min_delta is not 0 or more");
}

bool EarlyStopping::update(double value) {
  const double gain = !state_.best ? INFINITY : options_.maximize ? value - *state_.best : *state_.best - value;
  const bool better = !std::isnan(value) && (!state_.best || gain > options_.min_delta);
  if (better) state_ = {value, 0};
  else ++state_.bad;
  return better;
}

}  // namespace weft::train
