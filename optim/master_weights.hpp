// Float32 master weights of a model's 16-bit weights, which are too coarse to add small steps to: bfloat16 has 8 bits
// of precision, so a step below 1/500 of a weight is lost.
//
//   model.to(bf16);
//   optim::MasterWeights masters(model.parameters());
//   optim::AdamW optimizer(masters.parameters(), {.lr = 1e-3});
//   ...
//   masters.zero_grad();
//   loss.backward();
//   masters.step(optimizer);
//
// The model computes in 16 bits. Gradients, the optimizer and its state are float32. The model's weights are the
// masters, rounded once (Micikevicius et al. 2018).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "optim.hpp"

namespace weft::optim {

/// Copies share their masters.
class WEFT_API MasterWeights {
 public:
  /// Creates a float32 copy of every float16 and bfloat16 parameter; other parameters are their own masters. Raises
  /// ValueError if one is undefined, does not require a gradient, or is given twice.
  explicit MasterWeights(std::vector<Tensor> parameters, Location where = {});

  /// The master weights, for the optimizer, in the order of the parameters.
  const std::vector<Tensor>& parameters() const { return masters_; }
  /// The model's parameters, in the same order.
  const std::vector<Tensor>& model_parameters() const { return parameters_; }

  /// Moves the parameters' gradients to the masters, in float32, and clears them. If memory runs out, nothing changes.
  void take_gradients(Location where = {});
  /// Rounds the masters into the parameters.
  void write_back(Location where = {});
  /// Calls take_gradients, optimizer.step and write_back. With a GradScaler, call the three separately, because its
  /// `unscale_` and `step` need the optimizer's own gradients.
  void step(Optimizer& optimizer, Location where = {});
  /// Clears the gradients of parameters and masters.
  void zero_grad();

  /// The masters by index of the parameter, "3", without parameters that are their own masters. They share memory.
  std::map<std::string, Tensor> state_dict() const;
  /// Copies the values into the masters and rounds them into the parameters. Raises ValueError for a missing or unknown
  /// name, ShapeError for another shape; then nothing is changed.
  void load_state_dict(const std::map<std::string, Tensor>& values, Location where = {});

 private:
  std::vector<Tensor> parameters_, masters_;
};

}  // namespace weft::optim
