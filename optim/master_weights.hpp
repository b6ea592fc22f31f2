// Weights in float32 beside a model's 16-bit ones, which are too coarse to add small steps to: bfloat16 keeps 8 bits,
// so a step of less than a five-hundredth of a weight is lost.
//
//   model.to(bf16);
//   optim::MasterWeights masters(model.parameters());
//   optim::AdamW optimizer(masters.parameters(), {.lr = 1e-3});
//   ...
//   masters.zero_grad();
//   loss.backward();
//   masters.step(optimizer);
//
// The model computes in 16 bits; gradients become float32, the optimizer and its state are float32, and the model's
// weights are the masters, rounded once (Micikevicius et al. 2018).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "optim.hpp"

namespace weft::optim {

/// Copies share their masters.
class WEFT_API MasterWeights {
 public:
  /// A float32 copy for every float16 and bfloat16 parameter; others stand for themselves. ValueError where one is
  /// undefined, does not require a gradient, or is given twice.
  explicit MasterWeights(std::vector<Tensor> parameters, Location where = {});

  /// What the optimizer gets, in the order given.
  const std::vector<Tensor>& parameters() const { return masters_; }
  /// The model's, in the same order.
  const std::vector<Tensor>& model_parameters() const { return parameters_; }

  /// The parameters' gradients become those of the masters, in float32, and are dropped. All or, where memory is
  /// short, none.
  void take_gradients(Location where = {});
  /// Rounds the masters into the parameters.
  void write_back(Location where = {});
  /// take_gradients, optimizer.step, write_back. With a GradScaler, whose `unscale_` and `step` want the optimizer's
  /// own gradients, call the three apart.
  void step(Optimizer& optimizer, Location where = {});
  /// Drops the gradients of both.
  void zero_grad();

  /// The masters by number of the parameter, "3"; those that stand for themselves are not among them. They share
  /// memory.
  std::map<std::string, Tensor> state_dict() const;
  /// Copies the values in and rounds them into the parameters. ValueError for a missing or unknown name, ShapeError for
  /// another shape; nothing is changed then.
  void load_state_dict(const std::map<std::string, Tensor>& values, Location where = {});

 private:
  std::vector<Tensor> parameters_, masters_;
};

}  // namespace weft::optim
