// Observes the program around its net in a traced step. Not public.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "../../autograd/program_watch.hpp"
#include "../history.hpp"
#include "cut_search.hpp"

namespace weft::detail {

/// Returns at most `max_count` elements at equal distances, as f32 on the host; undefined if there are none.
Tensor sampled(const Tensor& t, int64_t max_count);
/// Returns whether all rows (dimension 0) are equal up to rounding; many rows are sampled. Nothing for fewer than two
/// rows.
std::optional<bool> rows_are_equal(const Tensor& t);

/// Observes one thread. Not thread-safe.
class ProgramTracer final : public ProgramWatch {
 public:
  void add_parameter(const TensorImpl* leaf, size_t index) { parameters_[leaf] = index; }

  void on_detach(const Tensor& x, const Tensor& result) override;
  void converted(const Tensor& x, const Tensor& result) override;
  void mode_set(GradMode mode) override { program_records_ = mode.enabled; }
  void compared(const Tensor& predictions, const Tensor& targets) override;
  void hook_begins(const Hook& hook, const Tensor& gradient) override;
  void hook_changed(const Hook& hook, const Node& node, const Tensor& gradient) override;
  void clipped(double norm, double limit, Location where) override;
  void rate_set(double rate, Location where) override;
  void stepping(const char* optimizer, const SteppedGroup& group, Location where) override;

  /// The output of the trained model, called in this step.
  void model_returned(const Tensor& output) { model_output_ = output.impl()->storage, model_numel_ = output.numel(); }

  /// Searches this step, kernel by kernel, for cuts and for the op that makes `equal_rows` rows equal.
  void search(std::optional<CutSearch> cuts, int64_t equal_rows);
  bool searches() const { return cuts_.has_value() || rows_ > 0; }
  void after_kernel(const KernelCall& call);
  void in_node(bool inside) { in_node_ = inside; }
  CutSearch* cuts() { return cuts_ ? &*cuts_ : nullptr; }

  /// Begins a traced step; `records` is the program's grad mode.
  void begin(bool records) { program_records_ = records, active_ = true; }
  /// Moves the observations of this step into the history; `passed` are the lines that backward passed.
  void finish(int64_t step, const std::set<std::string>& passed, History& history);

 private:
  void find_equal_rows(const KernelCall& call);
  void keep_changes(int64_t step, ProgramFacts& facts);
  void keep_found(const std::set<std::string>& passed, ProgramFacts& facts);
  static void forget_old(ProgramFacts& facts);

  std::unordered_map<const TensorImpl*, size_t> parameters_;
  bool active_ = false, program_records_ = true, in_node_ = false, stepped_ = false;
  int64_t rows_ = 0;
  std::optional<CutSearch> cuts_;
  const Storage* model_output_ = nullptr;
  int64_t model_numel_ = 0;
  std::vector<float> before_hook_;  ///< not a tensor, which would stay alive after hooks that change nothing
  std::string zero_place_, equal_op_, equal_place_, mixed_op_, mixed_place_;
  /// Number of traced steps.
  int64_t now_ = 0;
  std::vector<LossSeen> losses_;
  std::vector<HookChange> changes_;
  std::vector<Clipping> clippings_;
  std::vector<OptimizerSteps> steps_;
  std::vector<std::string> casts_;
};

}  // namespace weft::detail
