// Averages of parameters over the steps: exponential ones (EMA) and equal ones (SWA).
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
  /// average = decay · average + (1 - decay) · parameter. None: all updates count alike (Izmailov et al. 2018).
  std::optional<double> decay = {};
  /// In place of those: the new average of one parameter, after `count` updates. It has the average's shape.
  Callback<Tensor(const Tensor& average, const Tensor& parameter, int64_t count)> function = {};
  /// The same for all of one dtype and device at once, which writes them in place.
  Callback<void(std::span<const Tensor> averages, std::span<const Tensor> parameters, int64_t count)> functions = {};
  /// What is averaged beside the parameters, `model.buffers()`, instead of staying as it is. Averages of integers are
  /// rounded toward zero by each update, as in PyTorch; the last bool counts alone.
  std::vector<Tensor> buffers = {};
};

/// Holds an average for each parameter, then for each buffer, of its shape and device, in f64 for f64, f32 for other
/// floats, and in the dtype of what is none. The first update copies.
class WEFT_API Averager {
 public:
  /// ValueError for no parameters, an undefined one, one that is not floating or, as a buffer, of 8 bits, a decay
  /// outside [0, 1], and more than one way to average.
  explicit Averager(std::vector<Tensor> parameters, AverageOptions options = {}, Location where = {});

  /// Takes in the parameters as they are now. ShapeError where one has another shape than its average, or a function
  /// gives one; what a function raises comes through. Then the averages are as they were.
  void update(Location where = {});
  /// How many updates there were.
  int64_t count() const { return count_; }
  /// The buffers behind them.
  std::span<const Tensor> parameters() const { return {tensors_.data(), tensors_.size()}; }
  std::span<const Tensor> averages() const { return {averages_.data(), averages_.size()}; }

  /// While it lives parameters and buffers hold the averages; then their own values again, bit for bit.
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
  /// ValueError before the first update.
  [[nodiscard]] Swap swap(Location where = {}) const;
  /// The averages to parameters and buffers for good.
  void copy_to_parameters(Location where = {}) const;

  /// "count" and "0.average" by number of the parameter, on which the buffers' follow; the tensors share memory with
  /// this.
  std::map<std::string, Tensor> state_dict() const;
  /// ValueError for an unknown or missing name, ShapeError for another shape; nothing is changed then.
  void load_state_dict(const std::map<std::string, Tensor>& values, Location where = {});

 private:
  void check_options(Location where) const;
  /// What the functions make of these averages, none of which is written.
  std::vector<Tensor> made_by_functions(const std::vector<Tensor>& averages, const std::vector<Tensor>& now,
                                        Location where) const;
  /// Takes `now` into these averages.
  void mix(const std::vector<Tensor>& averages, const std::vector<Tensor>& now, Location where) const;

  std::vector<Tensor> tensors_, averages_;
  AverageOptions options_;
  int64_t count_ = 0;
};

}  // namespace weft::optim
