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
  /// The same for all at once, which writes them in place.
  Callback<void(std::span<const Tensor> averages, std::span<const Tensor> parameters, int64_t count)> functions = {};
};

/// Holds an average for each parameter, of its shape and device, in f64 for f64 and f32 for others. The first update
/// copies.
class WEFT_API Averager {
 public:
  /// ValueError for no parameters, an undefined one, one that is not floating, a decay outside [0, 1], and more than
  /// one way to average.
  explicit Averager(std::vector<Tensor> parameters, AverageOptions options = {}, Location where = {});

  /// Takes in the parameters as they are now. ShapeError where one has another shape than its average, or a function
  /// gives one; what a function raises comes through. Then the averages are as they were.
  void update(Location where = {});
  /// How many updates there were.
  int64_t count() const { return count_; }
  std::span<const Tensor> parameters() const { return {parameters_.data(), parameters_.size()}; }
  std::span<const Tensor> averages() const { return {averages_.data(), averages_.size()}; }

  /// While it lives the parameters hold the averages; then their own values again, bit for bit.
  class WEFT_API Swap {
   public:
    Swap(Swap&& other) noexcept = default;
    Swap& operator=(Swap&&) = delete;
    ~Swap();

   private:
    friend class Averager;
    Swap() = default;
    std::vector<Tensor> parameters_, own_;
  };
  /// ValueError before the first update.
  [[nodiscard]] Swap swap(Location where = {}) const;
  /// The averages to the parameters for good.
  void copy_to_parameters(Location where = {}) const;

  /// "count" and "0.average" by number of the parameter; the tensors share memory with this.
  std::map<std::string, Tensor> state_dict() const;
  /// ValueError for an unknown or missing name, ShapeError for another shape; nothing is changed then.
  void load_state_dict(const std::map<std::string, Tensor>& values, Location where = {});

 private:
  /// What the functions make of these averages, none of which is written.
  std::vector<Tensor> made_by_functions(const std::vector<Tensor>& averages, const std::vector<Tensor>& now,
                                        Location where) const;

  std::vector<Tensor> parameters_, averages_;
  AverageOptions options_;
  int64_t count_ = 0;
};

}  // namespace weft::optim
