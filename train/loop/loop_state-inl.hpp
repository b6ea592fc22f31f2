// The position and the judgements of a training loop, which a checkpoint saves as the document "loop".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "../../optim/grad_scaler.hpp"

namespace weft::train {

struct LoopState {
  /// Batches of the current epoch.
  int64_t batch = 0;
  /// Evaluations since the best one.
  int64_t since_best = 0;
  /// Updates before the last evaluation; -1 without one.
  int64_t evaluated_step = -1;
  bool is_evaluation_due = false;
  std::optional<optim::GradScaler::State> scaler = {};
};

std::string loop_text(const LoopState& state);
/// Also reads the old form, numbers by name. Raises FormatError for other texts.
LoopState parse_loop(const std::string& text, Location where);

}  // namespace weft::train
