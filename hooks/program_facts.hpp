// Facts about the program around the net, from the traced steps of a GradientRecorder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// The point where the path from a parameter without a gradient to the loss is cut. Places are "net.cpp:12".
struct Cut {
  enum class Kind : uint8_t {
    detached,    ///< `detach`
    read,        ///< its value was read, such as by `item`
    unrecorded,  ///< an op ran in a NoGradGuard
    integers,    ///< an op returned integers or booleans
    unused,      ///< no op read the parameter
  };
  /// Index into `History::watched`.
  size_t index = 0;
  Kind kind = Kind::unused;
  std::string op = {}, place = {};
};

/// A gradient hook that returned another gradient.
struct HookChange {
  std::string place;                 ///< location where it was registered
  std::string op, at;                ///< the op with the hook on its result, and its location
  std::optional<size_t> index = {};  ///< the parameter, if the hook is on one
  int64_t step = 0;                  ///< the last step
  int64_t times = 0, steps = 0;
  /// after| / |before|, the value nearest to 1 over all calls; and the cosine of the smallest angle between them.
  double factor = 1, cosine = 1;
};

/// A call of clip_grad_norm_ that changed the gradients.
struct Clipping {
  int64_t step = 0;
  std::string place;
  double norm = 0, limit = 0;
};

/// An optimizer's options for one parameter in one step.
struct ParameterStep {
  size_t index = 0;
  double rate = 0, decay = 0;
  bool decoupled = false;
};
struct OptimizerSteps {
  int64_t step = 0;
  std::string optimizer, place;
  /// The line that set the rate to 0 in this step; empty if none.
  std::string zero_place = {};
  std::vector<ParameterStep> parameters = {};
};

/// A cast by the program from f32 to a 16-bit dtype, with a gradient.
struct HalfCast {
  std::string place;
  int64_t steps = 0, last = -1;
};

/// The inputs of a library loss, over all traced steps.
struct LossSeen {
  std::string op, place;
  int64_t steps = 0, last = -1;
  /// Rows of predictions and targets, and the number of steps in which all prediction rows were equal.
  int64_t rows = 0, steps_of_equal_predictions = 0;
  /// The value of every target, if they are all equal.
  std::optional<double> only_target = {};
  bool several_targets = false;
  /// Class counts, if the targets are classes.
  std::vector<int64_t> classes = {};
  /// For numeric targets, by column: n, Σx, Σx².
  int64_t numbers = 0;
  std::vector<double> sums = {}, squares = {};
  /// The predictions are in the memory of the model's output, or have the same number of elements.
  bool of_model = false, sized_as_model = false;
};

/// Two names of one module with parameters, or of two parameters with the same memory.
struct SharedParts {
  std::string first, second, kind;
  bool is_module = true;
};

/// Calls of the model.
struct ModelCalls {
  /// The first submodule that behaves differently in training, such as "drop (Dropout)"; empty if none.
  std::string active_part = {};
  /// Number of recorded steps with a gradient, and the number of the last consecutive ones that ran in evaluation mode.
  int64_t trained = 0, trained_in_evaluation = 0;
  std::string place = {};
  /// Calls without a gradient in training mode, the steps with such calls, and whether a result was used in a loss.
  int64_t unrecorded = 0, unrecorded_steps = 0, last_unrecorded = -1;
  bool unrecorded_feeds_loss = false, unrecorded_was_followed = false;
  std::string unrecorded_place = {};
  /// Consecutive last recorded steps with the same inputs as the step before, in another tensor.
  int64_t same_inputs = 0, inputs = 0, rows = 0;
  /// The program calls the model with the identical tensor.
  bool same_tensor = false;
  /// Consecutive last traced steps in which all output rows were equal although input rows differed.
  int64_t equal_rows = 0;
  /// The op that made the rows equal.
  std::string equal_op = {}, equal_place = {};
};

/// A batch norm that received batches of one sample in training.
struct SingleBatches {
  std::string name, place;
  int64_t single = 0, steps = 0;
};

/// Successive calls of one module in a step: the last step with several calls, or the first that was not finite. RMS of
/// each result and its gradient; NaN if not finite, negative if there is none.
struct CallCourse {
  size_t index = 0;
  int64_t step = 0;
  std::vector<double> values = {}, gradients = {};
};

struct ProgramFacts {
  std::vector<Cut> cuts = {};
  std::vector<HookChange> hook_changes = {};
  std::vector<Clipping> clippings = {};
  std::vector<OptimizerSteps> optimizer_steps = {};
  std::vector<HalfCast> half_casts = {};
  std::vector<LossSeen> losses = {};
  std::vector<SharedParts> shared = {};
  ModelCalls model = {};
  std::vector<SingleBatches> single_batches = {};
  std::vector<CallCourse> calls = {};
};

}  // namespace weft
