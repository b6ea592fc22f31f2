// Averages of parameters over steps: exponential moving average (EMA) and equal weights (SWA).
//
//   optim::Averager average(model.parameters(), {.decay = 0.999});
//   ... optimizer.step(); average.update();
//   {
//     const auto swapped = average.swap();   // the model holds the averages here
//     evaluate(model);
//   }
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../tensor/callback.hpp"
#include "../tensor/index.hpp"

namespace weft::optim {

struct AverageOptions {
  /// average = decay · average + (1 - decay) · parameter. If empty, all updates have equal weight (Izmailov et al.
  /// 2018).
  std::optional<double> decay = {};
  /// Custom rule: returns the new average of one parameter, after `count` updates, with the average's shape.
  Callback<Tensor(const Tensor& average, const Tensor& parameter, int64_t count)> function = {};
  /// Custom rule for all parameters of one dtype and device at once, which writes the averages in place.
  Callback<void(std::span<const Tensor> averages, std::span<const Tensor> parameters, int64_t count)> functions = {};
  /// Buffers to average with the parameters, `model.buffers()`; others do not change. As in PyTorch, averages of
  /// integers are rounded toward zero in each update, and a bool average is its last value.
  std::vector<Tensor> buffers = {};
};

/// Holds an average for each parameter, then for each buffer, with its shape and device: in f64 for f64, in f32 for
/// other floats, else in the same dtype. The first update copies.
class WEFT_API Averager {
 public:
  /// Raises ValueError if there are no parameters, for an undefined one, one that is not floating-point, or a buffer of
  /// 8-bit floats. Also raises it for a decay outside [0, 1], and if several rules are given.
  explicit Averager(std::vector<Tensor> parameters, AverageOptions options = {}, Location where = {});

  /// Adds the current parameters to the averages. Raises ShapeError if the shape of a parameter or of a rule's result
  /// differs from its average; errors of a rule are passed on. Then the averages do not change.
  void update(Location where = {});
  /// Number of updates so far.
  int64_t count() const { return count_; }
  /// All averaged tensors: the parameters, then the buffers.
  std::span<const Tensor> parameters() const { return {tensors_.data(), tensors_.size()}; }
  std::span<const Tensor> averages() const { return {averages_.data(), averages_.size()}; }

  /// Exchanges parameters and buffers with the averages. The destructor restores the original values bit for bit.
  class WEFT_API Swap {
   public:
    Swap(Swap&& other) noexcept = default;
    Swap& operator=(Swap&&) = delete;
    ~Swap();

   private:
    friend class Averager;
    Swap() = default;
    std::vector<Tensor> tensors_, own_;
  };
  /// Raises ValueError before the first update.
  [[nodiscard]] Swap swap(Location where = {}) const;
  /// Copies the averages to parameters and buffers permanently.
  void copy_to_parameters(Location where = {}) const;

  /// "count" and "0.average" by index of the parameter; the buffers' indices follow. The tensors share memory with this
  /// object.
  std::map<std::string, Tensor> state_dict() const;
  /// Raises ValueError for an unknown or missing name, ShapeError for another shape; then nothing is changed.
  void load_state_dict(const std::map<std::string, Tensor>& values, Location where = {});

 private:
  void check_options(Location where) const;
  /// Averages computed by the custom rule from these, which are not changed.
  std::vector<Tensor> made_by_functions(const std::vector<Tensor>& averages, const std::vector<Tensor>& now,
                                        Location where) const;
  /// Updates these averages with `now` in place.
  void mix(const std::vector<Tensor>& averages, const std::vector<Tensor>& now, Location where) const;

  std::vector<Tensor> tensors_, averages_;
  AverageOptions options_;
  int64_t count_ = 0;
};

}  // namespace weft::optim
