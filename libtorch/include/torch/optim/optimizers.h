// SGD, Adam, AdamW, Adagrad, RMSprop, LBFGS: libtorch's classes, computed by Weft's optimizers.
#pragma once

#include <deque>
#include <memory>
#include <tuple>

#include <torch/nn/pimpl.h>
#include <torch/optim/optimizer.h>

namespace torch::optim {

namespace detail {

/// Steps the groups of an optimizer with one of Weft's.
class Engine;
struct EngineDeleter {
  void operator()(Engine* engine) const;
};
using EnginePointer = std::unique_ptr<Engine, EngineDeleter>;

}  // namespace detail

#define TORCH_OPTIONS_METHODS(Name)                                 \
  void serialize(serialize::InputArchive& archive) override;        \
  void serialize(serialize::OutputArchive& archive) const override; \
  friend bool operator==(const Name& a, const Name& b);             \
  double get_lr() const override { return lr(); }                   \
  void set_lr(const double lr) override { this->lr(lr); }

struct SGDOptions : public OptimizerCloneableOptions<SGDOptions> {
  SGDOptions(double lr = 1e-3) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0;
  TORCH_ARG(double, dampening) = 0;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, nesterov) = false;

 public:
  TORCH_OPTIONS_METHODS(SGDOptions)
};
using Betas = std::tuple<double, double>;
struct AdamOptions : public OptimizerCloneableOptions<AdamOptions> {
  AdamOptions(double lr = 1e-3) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = {0.9, 0.999};
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, amsgrad) = false;

 public:
  TORCH_OPTIONS_METHODS(AdamOptions)
};
struct AdamWOptions : public OptimizerCloneableOptions<AdamWOptions> {
  AdamWOptions(double lr = 1e-3) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = {0.9, 0.999};
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 1e-2;
  TORCH_ARG(bool, amsgrad) = false;

 public:
  TORCH_OPTIONS_METHODS(AdamWOptions)
};
struct AdagradOptions : public OptimizerCloneableOptions<AdagradOptions> {
  AdagradOptions(double lr = 1e-2) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, lr_decay) = 0;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, initial_accumulator_value) = 0;
  TORCH_ARG(double, eps) = 1e-10;

 public:
  TORCH_OPTIONS_METHODS(AdagradOptions)
};
struct RMSpropOptions : public OptimizerCloneableOptions<RMSpropOptions> {
  RMSpropOptions(double lr = 1e-2) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, alpha) = 0.99;
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, momentum) = 0;
  TORCH_ARG(bool, centered) = false;

 public:
  TORCH_OPTIONS_METHODS(RMSpropOptions)
};
struct LBFGSOptions : public OptimizerCloneableOptions<LBFGSOptions> {
  LBFGSOptions(double lr = 1) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(int64_t, max_iter) = 20;
  TORCH_ARG(optional<int64_t>, max_eval) = nullopt;
  TORCH_ARG(double, tolerance_grad) = 1e-7;
  TORCH_ARG(double, tolerance_change) = 1e-9;
  TORCH_ARG(int64_t, history_size) = 100;
  TORCH_ARG(optional<std::string>, line_search_fn) = nullopt;

 public:
  TORCH_OPTIONS_METHODS(LBFGSOptions)
};
#undef TORCH_OPTIONS_METHODS

#define TORCH_STATE_METHODS(Name)                                   \
  void serialize(serialize::InputArchive& archive) override;        \
  void serialize(serialize::OutputArchive& archive) const override; \
  friend bool operator==(const Name& a, const Name& b);

struct SGDParamState : public OptimizerCloneableParamState<SGDParamState> {
  TORCH_ARG(Tensor, momentum_buffer);

 public:
  TORCH_STATE_METHODS(SGDParamState)
};
struct AdamParamState : public OptimizerCloneableParamState<AdamParamState> {
  TORCH_ARG(int64_t, step) = 0;
  TORCH_ARG(Tensor, exp_avg);
  TORCH_ARG(Tensor, exp_avg_sq);
  TORCH_ARG(Tensor, max_exp_avg_sq) = {};

 public:
  TORCH_STATE_METHODS(AdamParamState)
};
struct AdamWParamState : public OptimizerCloneableParamState<AdamWParamState> {
  TORCH_ARG(int64_t, step) = 0;
  TORCH_ARG(Tensor, exp_avg);
  TORCH_ARG(Tensor, exp_avg_sq);
  TORCH_ARG(Tensor, max_exp_avg_sq) = {};

 public:
  TORCH_STATE_METHODS(AdamWParamState)
};
struct AdagradParamState : public OptimizerCloneableParamState<AdagradParamState> {
  TORCH_ARG(Tensor, sum);
  TORCH_ARG(int64_t, step) = 0;

 public:
  TORCH_STATE_METHODS(AdagradParamState)
};
struct RMSpropParamState : public OptimizerCloneableParamState<RMSpropParamState> {
  TORCH_ARG(int64_t, step) = 0;
  TORCH_ARG(Tensor, square_avg);
  TORCH_ARG(Tensor, momentum_buffer) = {};
  TORCH_ARG(Tensor, grad_avg) = {};

 public:
  TORCH_STATE_METHODS(RMSpropParamState)
};
/// Stored under the first parameter.
struct LBFGSParamState : public OptimizerCloneableParamState<LBFGSParamState> {
  TORCH_ARG(int64_t, func_evals) = 0;
  TORCH_ARG(int64_t, n_iter) = 0;
  TORCH_ARG(double, t) = 0;
  TORCH_ARG(double, prev_loss) = 0;
  TORCH_ARG(Tensor, d) = {};
  TORCH_ARG(Tensor, H_diag) = {};
  TORCH_ARG(Tensor, prev_flat_grad) = {};
  TORCH_ARG(std::deque<Tensor>, old_dirs);
  TORCH_ARG(std::deque<Tensor>, old_stps);
  TORCH_ARG(std::deque<Tensor>, ro);
  TORCH_ARG(optional<std::vector<Tensor>>, al) = nullopt;

 public:
  TORCH_STATE_METHODS(LBFGSParamState)
};
#undef TORCH_STATE_METHODS

#define TORCH_OPTIMIZER(Name)                                                                  \
  class Name : public Optimizer {                                                              \
   public:                                                                                     \
    explicit Name(std::vector<OptimizerParamGroup> param_groups, Name##Options defaults = {}); \
    explicit Name(std::vector<Tensor> params, Name##Options defaults = {});                    \
    Tensor step(LossClosure closure = nullptr) override;                                       \
    void load(serialize::InputArchive& archive) override;                                      \
                                                                                               \
   private:                                                                                    \
    detail::EnginePointer engine_;                                                             \
  };
TORCH_OPTIMIZER(SGD)
TORCH_OPTIMIZER(Adam)
TORCH_OPTIMIZER(AdamW)
TORCH_OPTIMIZER(Adagrad)
TORCH_OPTIMIZER(RMSprop)
TORCH_OPTIMIZER(LBFGS)
#undef TORCH_OPTIMIZER

}  // namespace torch::optim
