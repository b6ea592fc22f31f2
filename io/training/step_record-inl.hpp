// Records that a StepRecorder stores with a training state. Internal to io/.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "../step_recorder.hpp"
#include "step_form-inl.hpp"
#include "training_snapshot-inl.hpp"

namespace weft::io {

/// Names of tensors in the state: "batch.x", and the loss.
inline const std::string batch_prefix = "batch.", loss_name = "step.loss";
/// Name of the document.
inline constexpr const char* record_name = "recorded_step";
/// Prefix of the first line of the exception that ended the step.
inline const std::string threw_text = "it threw ";

/// "weights: hidden.weight"
inline std::string name_of_part(std::string_view part, const std::string& name) {
  return std::string(part) + ": " + name;
}

struct StepChecks {
  bool loss = true, gradients = true, parameters = true;
};
/// "the loss is NaN", "the gradient of hidden.weight has Inf"; empty for a good step.
std::string why_bad(StepChecks checks, const Tensor& loss, const nn::Module& module);

struct StepRecord {
  enum class Kind : uint8_t { good, bad, end };  ///< `end` is the state after the bad step
  Kind kind = Kind::good;
  std::string why = {};
  StepChecks checks = {};
  std::map<std::string, std::string> devices = {};  ///< devices of the batch's tensors
  StepForm form = {};
  /// For a good step: the generators' states at its end, and the names of values that the program changed before the
  /// next step.
  std::string generators = {};
  std::vector<std::string> changed = {};

  /// Conversion to and from JSON.
  std::string text() const;
  static StepRecord in(const std::string& text, const Path& state, Location where);
};

/// Replays the good step, if any, and the bad one, and prints the results. Returns 1 if the bad step is bad again, else
/// 0.
int replay_both(const Path& folder, const TrainingRun& run, const StepFunction& function, Location where);

}  // namespace weft::io
