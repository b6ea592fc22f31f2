// What a StepRecorder notes beside a training state. Internal to io/.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "../step_recorder.hpp"
#include "step_form-inl.hpp"
#include "training_snapshot-inl.hpp"

namespace weft::io {

/// Tensors of the state: "batch.x", and what the step returned.
inline const std::string batch_prefix = "batch.", loss_name = "step.loss";
/// The document's name.
inline constexpr const char* record_name = "recorded_step";
/// Before the first line of what left the step.
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
  enum class Kind : uint8_t { good, bad, end };  ///< the state after the bad step is an end
  Kind kind = Kind::good;
  std::string why = {};
  StepChecks checks = {};
  std::map<std::string, std::string> devices = {};  ///< of the batch's tensors
  StepForm form = {};
  /// Of a good step: where the generators stood when it was over, and what the program changed then before the next.
  std::string generators = {};
  std::vector<std::string> changed = {};

  /// As JSON, and back.
  std::string text() const;
  static StepRecord in(const std::string& text, const Path& state, Location where);
};

/// Replays the good step, where there is one, and the bad one, and prints what is said of them; 1 where the bad one
/// happens again, else 0.
int replay_both(const Path& folder, const TrainingRun& run, const StepFunction& function, Location where);

}  // namespace weft::io
