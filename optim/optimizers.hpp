// The optimizers. Each has its own options struct; options that a group does not set default to the optimizer's:
//
//   optim::AdamW optimizer({{body, {.lr = 1e-4}}, {norms, {.weight_decay = 0}}}, {.lr = 3e-4});
//   optimizer.add_group(head, {.lr = 1e-2, .beta2 = 0.95});
//
// An elementwise step is one fused pass over all parameters and their state, if the device has the kernel and they are
// contiguous; otherwise the same formula runs in tensor ops. State is f64 for f64 parameters, else f32: f16 and bf16
// parameters are converted, updated in f32 and rounded once. Nothing is recorded; every write raises the parameter's
// version. Parameters without a gradient are skipped. `maximize` negates the gradient. `weight_decay` adds weight_decay
// · p to the gradient; decoupled weight decay instead shrinks p by lr · weight_decay · p. Options out of range raise
// ValueError.
//
// A gradient stored as rows (sparse/gradient.hpp) updates only those rows with SparseAdam, and with SGD without
// momentum and Adagrad, both without weight decay, which would not change the others. For all other optimizers it
// becomes dense.
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>

#include "optimizer.hpp"

namespace weft::optim {

struct WEFT_API SGDOptions {
  Option<double> lr = otherwise(1e-3);
  Option<double> momentum = otherwise(0.0);
  Option<double> dampening = otherwise(0.0);
  Option<double> weight_decay = otherwise(0.0);
  Option<bool> nesterov = otherwise(false);
  Option<bool> maximize = otherwise(false);
};

struct WEFT_API AdamOptions {
  Option<double> lr = otherwise(1e-3);
  Option<double> beta1 = otherwise(0.9), beta2 = otherwise(0.999);
  Option<double> eps = otherwise(1e-8);
  Option<double> weight_decay = otherwise(0.0);
  /// Divide by the largest second moment so far (Reddi et al. 2018).
  Option<bool> amsgrad = otherwise(false);
  Option<bool> maximize = otherwise(false);
  Option<bool> decoupled_weight_decay = otherwise(false);
};

struct WEFT_API AdamWOptions {
  Option<double> lr = otherwise(1e-3);
  Option<double> beta1 = otherwise(0.9), beta2 = otherwise(0.999);
  Option<double> eps = otherwise(1e-8);
  Option<double> weight_decay = otherwise(0.01);
  Option<bool> amsgrad = otherwise(false);
  Option<bool> maximize = otherwise(false);
};

struct WEFT_API SparseAdamOptions {
  Option<double> lr = otherwise(1e-3);
  Option<double> beta1 = otherwise(0.9), beta2 = otherwise(0.999);
  Option<double> eps = otherwise(1e-8);
  Option<bool> maximize = otherwise(false);
};

struct WEFT_API AdamaxOptions {
  Option<double> lr = otherwise(2e-3);
  Option<double> beta1 = otherwise(0.9), beta2 = otherwise(0.999);
  Option<double> eps = otherwise(1e-8);
  Option<double> weight_decay = otherwise(0.0);
  Option<bool> maximize = otherwise(false);
};

struct WEFT_API NAdamOptions {
  Option<double> lr = otherwise(2e-3);
  Option<double> beta1 = otherwise(0.9), beta2 = otherwise(0.999);
  Option<double> eps = otherwise(1e-8);
  Option<double> weight_decay = otherwise(0.0);
  Option<double> momentum_decay = otherwise(4e-3);
  Option<bool> decoupled_weight_decay = otherwise(false);
  Option<bool> maximize = otherwise(false);
};

struct WEFT_API RAdamOptions {
  Option<double> lr = otherwise(1e-3);
  Option<double> beta1 = otherwise(0.9), beta2 = otherwise(0.999);
  Option<double> eps = otherwise(1e-8);
  Option<double> weight_decay = otherwise(0.0);
  Option<bool> decoupled_weight_decay = otherwise(false);
  Option<bool> maximize = otherwise(false);
};

struct WEFT_API AdagradOptions {
  Option<double> lr = otherwise(1e-2);
  Option<double> lr_decay = otherwise(0.0);
  Option<double> weight_decay = otherwise(0.0);
  /// Initial value of the sums of squares.
  Option<double> initial_accumulator_value = otherwise(0.0);
  Option<double> eps = otherwise(1e-10);
  Option<bool> maximize = otherwise(false);
};

struct WEFT_API AdadeltaOptions {
  Option<double> lr = otherwise(1.0);
  Option<double> rho = otherwise(0.9);
  Option<double> eps = otherwise(1e-6);
  Option<double> weight_decay = otherwise(0.0);
  Option<bool> maximize = otherwise(false);
};

struct WEFT_API RMSpropOptions {
  Option<double> lr = otherwise(1e-2);
  Option<double> alpha = otherwise(0.99);
  Option<double> eps = otherwise(1e-8);
  Option<double> weight_decay = otherwise(0.0);
  Option<double> momentum = otherwise(0.0);
  /// Divide by an estimate of the gradient's standard deviation.
  Option<bool> centered = otherwise(false);
  Option<bool> maximize = otherwise(false);
};

struct WEFT_API RpropOptions {
  /// Initial step size of every element.
  Option<double> lr = otherwise(1e-2);
  /// Factors of the step size if the gradient's sign changes, and if it does not.
  Option<double> etaminus = otherwise(0.5), etaplus = otherwise(1.2);
  Option<double> step_size_min = otherwise(1e-6), step_size_max = otherwise(50.0);
  Option<bool> maximize = otherwise(false);
};

struct WEFT_API LionOptions {
  Option<double> lr = otherwise(1e-4);
  Option<double> beta1 = otherwise(0.9), beta2 = otherwise(0.99);
  /// Decoupled weight decay.
  Option<double> weight_decay = otherwise(0.0);
  Option<bool> maximize = otherwise(false);
};

struct WEFT_API AdafactorOptions {
  /// Upper bound of the learning rate: step t uses min(lr, 1/√t), relative to the parameter's root mean square.
  Option<double> lr = otherwise(1e-2);
  /// The decay rate of the second moment at step t is 1 - t^beta2_decay.
  Option<double> beta2_decay = otherwise(-0.8);
  /// Lower bound of the gradient's root mean square; default: the machine epsilon of the parameter's dtype.
  Option<std::optional<double>> eps1 = otherwise(std::optional<double>());
  /// Lower bound of the parameter's root mean square.
  Option<double> eps2 = otherwise(1e-3);
  /// Updates with a larger root mean square are scaled down to it.
  Option<double> d = otherwise(1.0);
  /// Decoupled weight decay.
  Option<double> weight_decay = otherwise(0.0);
  Option<bool> maximize = otherwise(false);
};

/// Factor of the learning rate by a matrix's shape: √max(1, rows / columns); 0.2 · √max(rows, columns), for AdamW's
/// learning rates and decays (Liu et al. 2025); √(rows / columns).
enum class MuonRate : uint8_t { original, match_rms_adamw, spectral_unclamped };

struct WEFT_API MuonOptions {
  Option<double> lr = otherwise(1e-3);
  /// Decoupled weight decay.
  Option<double> weight_decay = otherwise(0.1);
  Option<double> momentum = otherwise(0.95);
  Option<bool> nesterov = otherwise(true);
  /// a, b and c of the iteration x ← a x + (b x xᵀ + c (x xᵀ)²) x.
  Option<double> ns_a = otherwise(3.4445), ns_b = otherwise(-4.775), ns_c = otherwise(2.0315);
  Option<double> eps = otherwise(1e-7);
  Option<int64_t> ns_steps = otherwise(int64_t{5});
  Option<MuonRate> adjust_lr_fn = otherwise(MuonRate::original);
};

enum class LineSearch : uint8_t { none, strong_wolfe };

struct WEFT_API LBFGSOptions {
  Option<double> lr = otherwise(1.0);
  /// Iterations per step, and maximum number of closure calls; default: max_iter · 5 / 4.
  Option<int64_t> max_iter = otherwise(int64_t{20});
  Option<std::optional<int64_t>> max_eval = otherwise(std::optional<int64_t>());
  /// A step ends if no gradient element is larger, or if no parameter or the loss changes by more.
  Option<double> tolerance_grad = otherwise(1e-7), tolerance_change = otherwise(1e-9);
  Option<int64_t> history_size = otherwise(int64_t{100});
  Option<LineSearch> line_search_fn = otherwise(LineSearch::none);
  Option<bool> maximize = otherwise(false);
};

/// Updates every element independently: one kernel call for all parameters.
class WEFT_API ElementwiseOptimizer : public Optimizer {
 public:
  ElementwiseOptimizer(ElementwiseOptimizer&&) noexcept;
  ElementwiseOptimizer& operator=(ElementwiseOptimizer&&) noexcept;
  ~ElementwiseOptimizer() override;
  using Optimizer::step;
  void step(Location where = {}) override;

 protected:
  explicit ElementwiseOptimizer(const Rule& rule);
  std::vector<size_t> kept_states(std::span<const double> values) const override;
  void forget() override;

 private:
  struct Steps;
  struct Cache;
  void make_states(Location where);
  detail::Pimpl<Cache> cache_;
};

/// Stores the second moments of a matrix as one number per row and column.
class WEFT_API FactoredOptimizer : public Optimizer {
 public:
  using Optimizer::step;
  void step(Location where = {}) override;

 protected:
  explicit FactoredOptimizer(const Rule& rule);
  bool is_kept(const Tensor& parameter, size_t state) const override;
  Dims state_shape(const Tensor& parameter, size_t state) const override;
};

/// Updates whole matrices.
class WEFT_API MatrixOptimizer : public Optimizer {
 public:
  using Optimizer::step;
  void step(Location where = {}) override;

 protected:
  explicit MatrixOptimizer(const Rule& rule);
  void check_group(const Group& group, Location where) const override;
};

/// Updates all parameters as one vector, and recomputes the loss during a step.
class WEFT_API QuasiNewtonOptimizer : public Optimizer {
 public:
  QuasiNewtonOptimizer(QuasiNewtonOptimizer&&) noexcept;
  QuasiNewtonOptimizer& operator=(QuasiNewtonOptimizer&&) noexcept;
  ~QuasiNewtonOptimizer() override;
  /// Raises ValueError: a closure is required.
  void step(Location where = {}) override;
  Tensor step(const Closure& closure, Location where = {}) override;
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& values, Location where = {}) override;

 protected:
  explicit QuasiNewtonOptimizer(const Rule& rule);
  void check_group(const Group& group, Location where) const override;

 private:
  struct History;
  Tensor minimize(const Closure& closure);
  History loaded_history(const StateDict& values, Location where) const;

  detail::Pimpl<History> history_;
};

/// An optimizer with its options struct.
template <class O, class Steps = ElementwiseOptimizer>
class WEFT_API OptimizerOf : public Steps {
 public:
  using Options = O;
  /// Raises the ValueErrors of Optimizer::add_named_group.
  explicit OptimizerOf(std::vector<Tensor> parameters, O options = {}, Location where = {});
  explicit OptimizerOf(std::initializer_list<ParameterGroup<O>> groups, O options = {}, Location where = {});
  /// A template, so that a braced list is never converted to it.
  template <std::same_as<std::vector<ParameterGroup<O>>> Groups>
  explicit OptimizerOf(const Groups& groups, O options = {}, Location where = {})
      : OptimizerOf(std::span<const ParameterGroup<O>>(groups), std::move(options), where) {}
  template <class = void>
  explicit OptimizerOf(std::vector<Tensor>, ...) = delete;  // options have names and an order: {.lr = 1e-3}
  template <class Model>
    requires(requires(const Model& model) { model.named_parameters(); })
  explicit OptimizerOf(const Model&, ...) = delete;  // the parameters of the model: AdamW(net.parameters())

  void add_group(std::vector<Tensor> parameters, O options = {}, Location where = {});
  /// The result of Optimizer::option_info, without an optimizer.
  static std::span<const OptionInfo> option_list();
  /// The options of a group; all are marked as set.
  O options(size_t group = 0) const;

 private:
  OptimizerOf(std::span<const ParameterGroup<O>> groups, O options, Location where);
};

/// p -= lr · b with b = momentum · b + (1 - dampening) · g; the first b is the gradient itself. `nesterov` steps along
/// g + momentum · b (Sutskever et al. 2013), and requires momentum and no dampening.
using SGD = OptimizerOf<SGDOptions>;
/// Adam (Kingma and Ba 2015) with bias correction.
using Adam = OptimizerOf<AdamOptions>;
/// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
using AdamW = OptimizerOf<AdamWOptions>;
/// Adam for sparse gradients, such as those of embeddings with `sparse`: rows without a gradient, and their moments, do
/// not change. In a dense gradient these are the rows of zeros.
using SparseAdam = OptimizerOf<SparseAdamOptions>;
/// Adam with the infinity norm (Kingma and Ba 2015).
using Adamax = OptimizerOf<AdamaxOptions>;
/// Adam with Nesterov's momentum (Dozat 2016).
using NAdam = OptimizerOf<NAdamOptions>;
/// Adam with rectified variance (Liu et al. 2020).
using RAdam = OptimizerOf<RAdamOptions>;
/// Divides the rate by the root of the sum of squares (Duchi et al. 2011).
using Adagrad = OptimizerOf<AdagradOptions>;
/// Rates from the ratio of the root mean squares of steps and gradients (Zeiler 2012).
using Adadelta = OptimizerOf<AdadeltaOptions>;
/// Divides the rate by the root of a moving average of squares (Tieleman and Hinton 2012; centered as Graves 2013).
using RMSprop = OptimizerOf<RMSpropOptions>;
/// Uses only the signs of gradients, for full batches (Riedmiller and Braun 1993).
using Rprop = OptimizerOf<RpropOptions>;
/// Steps by the sign of a moving average (Chen et al. 2023).
using Lion = OptimizerOf<LionOptions>;
/// Adafactor (Shazeer and Stern 2018), with a row and a column as the state of a matrix.
using Adafactor = OptimizerOf<AdafactorOptions, FactoredOptimizer>;
/// Momentum orthogonalised by Newton-Schulz iterations in bf16 (Jordan 2024). Raises ValueError for parameters that are
/// not matrices: use another optimizer for embeddings, biases and norms.
using Muon = OptimizerOf<MuonOptions, MatrixOptimizer>;
/// L-BFGS (Liu and Nocedal 1989) with fixed steps or a strong-Wolfe line search. One group, on one device.
using LBFGS = OptimizerOf<LBFGSOptions, QuasiNewtonOptimizer>;

/// An options struct from options by name, as listed by Optimizer::option_info. Raises ValueError for an unknown name.
template <class O>
WEFT_API O options_named(const NamedOptions& options, Location where = {});

// clang-format off
#define WEFT_OPTIMIZERS_BY_NAME(X) \
  X(SGD) X(Adam) X(AdamW) X(SparseAdam) X(Adamax) X(NAdam) X(RAdam) X(Adagrad) X(Adadelta) X(RMSprop) X(Rprop) X(Lion) \
  X(Adafactor) X(Muon) X(LBFGS)
// clang-format on

extern template class OptimizerOf<SGDOptions>;
extern template class OptimizerOf<AdamOptions>;
extern template class OptimizerOf<AdamWOptions>;
extern template class OptimizerOf<SparseAdamOptions>;
extern template class OptimizerOf<AdamaxOptions>;
extern template class OptimizerOf<NAdamOptions>;
extern template class OptimizerOf<RAdamOptions>;
extern template class OptimizerOf<AdagradOptions>;
extern template class OptimizerOf<AdadeltaOptions>;
extern template class OptimizerOf<RMSpropOptions>;
extern template class OptimizerOf<RpropOptions>;
extern template class OptimizerOf<LionOptions>;
extern template class OptimizerOf<AdafactorOptions, FactoredOptimizer>;
extern template class OptimizerOf<MuonOptions, MatrixOptimizer>;
extern template class OptimizerOf<LBFGSOptions, QuasiNewtonOptimizer>;

}  // namespace weft::optim
