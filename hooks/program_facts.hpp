// What a program did around its net, as a GradientRecorder saw it in the steps that it traced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// Where the way from a parameter without a gradient to the loss ends. Places are "net.cpp:12".
struct Cut {
  enum class Kind : uint8_t {
    detached,    ///< `detach`
    read,        ///< its number was read, as by `item`
    unrecorded,  ///< an op ran in a NoGradGuard
    integers,    ///< an op gave integers or booleans
    unused,      ///< no op read the parameter
  };
  /// Index into `History::watched`.
  size_t which = 0;
  Kind kind = Kind::unused;
  std::string op = {}, place = {};
};

/// A gradient hook that returned another gradient.
struct HookChange {
  std::string place;                 ///< where it was registered
  std::string op, at;                ///< of whose result, and its place
  std::optional<size_t> which = {};  ///< the parameter, where it is on one
  int64_t step = 0;                  ///< the last
  int64_t times = 0, steps = 0;
  /// |after| / |before|, the nearest to 1 of all times; and the least angle between them, as its cosine.
  double factor = 1, cosine = 1;
};

/// A call of clip_grad_norm_ that changed the gradients.
struct Clipping {
  int64_t step = 0;
  std::string place;
  double norm = 0, limit = 0;
};

/// What an optimizer was told of one parameter in one step.
struct ParameterStep {
  size_t which = 0;
  double rate = 0, decay = 0;
  bool decoupled = false;
};
struct OptimizerSteps {
  int64_t step = 0;
  std::string optimizer, place;
  /// Where the rate was set to 0 in this step; empty where it was not.
  std::string zero_place = {};
  std::vector<ParameterStep> of = {};
};

/// f32 that the program itself made 16-bit, with a gradient.
struct HalfCast {
  std::string place;
  int64_t steps = 0, last = -1;
};

/// What a loss of the library compared, in all traced steps.
struct LossSeen {
  std::string op, place;
  int64_t steps = 0, last = -1;
  /// Of predictions and targets: rows, and in how many steps all rows of predictions were equal.
  int64_t rows = 0, steps_of_equal_predictions = 0;
  /// Every target was this.
  std::optional<double> only_target = {};
  bool several_targets = false;
  /// Counts of the classes, where targets are classes.
  std::vector<int64_t> classes = {};
  /// Sums over targets that are numbers, by column: n, Σx, Σx².
  int64_t numbers = 0;
  std::vector<double> sums = {}, squares = {};
  /// Predictions are what the model returned, in its memory; or as many numbers.
  bool of_model = false, sized_as_model = false;
};

/// Two names of one module with parameters, or of two parameters over the same memory.
struct SharedParts {
  std::string first, second, kind;
  bool is_module = true;
};

/// Calls of the model itself.
struct ModelCalls {
  /// Its first part that works otherwise in training: "drop (Dropout)"; empty where there is none.
  std::string active_part = {};
  /// Recorded steps whose calls led to a gradient, and the last of them in a row where all ran in evaluation mode.
  int64_t trained = 0, trained_in_evaluation = 0;
  std::string place = {};
  /// Calls without a gradient in training mode, between how many steps, and whether a result went into a loss.
  int64_t unrecorded = 0, unrecorded_steps = 0, last_unrecorded = -1;
  bool unrecorded_feeds_loss = false, unrecorded_was_followed = false;
  std::string unrecorded_place = {};
  /// Recorded steps whose inputs were those of the step before, the last in a row; the tensor was another one.
  int64_t same_inputs = 0, inputs = 0, rows = 0;
  /// The program calls it with one and the same tensor.
  bool same_tensor = false;
  /// Traced steps where all rows of its result were equal though rows of the input differ, the last in a row.
  int64_t equal_rows = 0;
  /// The op that made them equal.
  std::string equal_op = {}, equal_place = {};
};

/// A batch norm that got batches of one, in training.
struct SingleBatches {
  std::string name, place;
  int64_t single = 0, steps = 0;
};

/// Several calls of one module in a step, in order, in the last step where there were several and in the first that was
/// not finite: rms of each result and of its gradient; NaN where it is not finite, negative where there is none.
struct CallCourse {
  size_t which = 0;
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
