// The steps of optimizers that work element by element. A row makes the kernels of the CPU, of HPU and CUDA, and the
// composite step in tensor ops; the functor is the formula, in optimizers.hpp. Which optimizer takes which step, with
// which factors, is said in optim/.
#pragma once

// clang-format off
// Name, functor, and the state that it reads and writes for each element, at most three, by PyTorch's names.
#define WEFT_OPTIMIZER_STEPS(X) \
  X(sgd, Sgd, "") \
  X(momentum, Momentum, "momentum_buffer") \
  X(adam, Adam, "exp_avg", "exp_avg_sq") \
  X(amsgrad, Amsgrad, "exp_avg", "exp_avg_sq", "max_exp_avg_sq") \
  X(adamax, Adamax, "exp_avg", "exp_inf") \
  X(nadam, NAdam, "exp_avg", "exp_avg_sq") \
  X(radam, RAdam, "exp_avg", "exp_avg_sq") \
  X(adagrad, Adagrad, "sum") \
  X(adadelta, Adadelta, "square_avg", "acc_delta") \
  X(rmsprop, RMSprop, "square_avg") \
  X(rmsprop_momentum, RMSpropMomentum, "square_avg", "momentum_buffer") \
  X(rmsprop_centered, RMSpropCentered, "square_avg", "grad_avg") \
  X(rmsprop_centered_momentum, RMSpropCenteredMomentum, "square_avg", "grad_avg", "momentum_buffer") \
  X(rprop, Rprop, "prev", "step_size") \
  X(lion, Lion, "exp_avg")
// clang-format on

namespace weft {

/// Coefficients of a step that are the same for all elements, computed in double and rounded once. Each formula reads
/// some of them.
template <class V>
struct OptimizerFactors {
  V sign;            ///< -1 where the gradient is climbed
  V l2;              ///< of the parameter, added to the gradient
  V keep;            ///< of the parameter: 1 but for decoupled weight decay
  V rate;            ///< of the step
  V gradient_rate;   ///< NAdam: of the gradient's own part
  V decay1, fresh1;  ///< of the first moving average: what stays, and what of the new comes
  V decay2, fresh2;  ///< of the second
  V root;            ///< of the square root of the second moment
  V epsilon;
  V shrink, grow, least, most;  ///< Rprop: of the element's own rate, and its bounds
  unsigned char decays;         ///< l2 is not 0
  unsigned char nesterov;
  unsigned char first;      ///< there was no momentum before
  unsigned char rectified;  ///< RAdam: the variance is known well enough
};

/// The same in other numbers: `convert` gives V for S.
template <class V, class S, class F>
constexpr OptimizerFactors<V> factors_in(const OptimizerFactors<S>& f, F convert) {
  return {convert(f.sign),    convert(f.l2),     convert(f.keep),   convert(f.rate),   convert(f.gradient_rate),
          convert(f.decay1),  convert(f.fresh1), convert(f.decay2), convert(f.fresh2), convert(f.root),
          convert(f.epsilon), convert(f.shrink), convert(f.grow),   convert(f.least),  convert(f.most),
          f.decays,           f.nesterov,        f.first,           f.rectified};
}

}  // namespace weft
