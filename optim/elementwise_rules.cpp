// The options of the elementwise optimizers, and the factors of their steps.
#include <cmath>

#include "rule-inl.hpp"

namespace weft::optim {

namespace {

using Values = std::span<const double>;

// ---- shared by all optimizers ---------------------------------------------------------------------------------------

template <class O>
constexpr auto lr_field = field("lr", &O::lr);
template <class O>
constexpr auto eps_field = field("eps", &O::eps);
template <class O>
constexpr auto decay_field = field("weight_decay", &O::weight_decay);
template <class O>
constexpr auto maximize_field = field("maximize", &O::maximize);
template <class O>
constexpr auto beta1_field = field("beta1", &O::beta1).below(1).in_tuple("betas", 0);
template <class O>
constexpr auto beta2_field = field("beta2", &O::beta2).below(1).in_tuple("betas", 1);

/// Factors shared by all optimizers: gradient, weight decay, learning rate.
template <class O>
OptimizerSettings plain_settings(const O& o, bool decoupled = false) {
  OptimizerSettings s = {};
  const double decay = [&]() -> double {
    if constexpr (requires { o.weight_decay; }) return o.weight_decay;
    else return 0;
  }();
  s.sign = o.maximize ? -1 : 1;
  s.l2 = decoupled ? 0 : decay;
  s.keep = decoupled ? 1 - o.lr * decay : 1;
  s.decays = s.l2 != 0;
  s.rate = o.lr;
  return s;
}

/// Factors of Adam and its variants: moving averages and their bias correction at step t.
template <class O>
OptimizerSettings moment_settings(const O& o, int64_t t, bool decoupled) {
  OptimizerSettings s = plain_settings(o, decoupled);
  s.decay1 = o.beta1, s.fresh1 = 1 - o.beta1;
  s.decay2 = o.beta2, s.fresh2 = 1 - o.beta2;
  s.root = 1 / std::sqrt(1 - std::pow(double{o.beta2}, static_cast<double>(t)));
  s.rate = o.lr / (1 - std::pow(double{o.beta1}, static_cast<double>(t)));
  if constexpr (requires { o.eps; }) s.epsilon = o.eps;
  return s;
}

}  // namespace

// ---- descriptions ---------------------------------------------------------------------------------------------------

template <>
struct Description<SGDOptions> {
  using O = SGDOptions;
  static constexpr const char* name = "SGD";
  static constexpr auto fields = std::tuple(lr_field<O>, field("momentum", &O::momentum),
                                            field("dampening", &O::dampening).from(-highest, highest), decay_field<O>,
                                            field("nesterov", &O::nesterov), maximize_field<O>);
  static const char* conflict(const O& o) {
    return o.nesterov && (o.momentum == 0 || o.dampening != 0) ? "nesterov needs momentum and no dampening" : nullptr;
  }
  static OptimizerStep kind(const O& o) { return o.momentum != 0 ? OptimizerStep::momentum : OptimizerStep::sgd; }
  static OptimizerSettings settings(const O& o, Progress& at) {
    OptimizerSettings s = plain_settings(o);
    s.decay1 = o.momentum, s.fresh1 = 1 - o.dampening;
    s.nesterov = o.nesterov;
    s.first = at.is_fresh;
    return s;
  }
  static bool steps_rows(const O& o) { return o.momentum == 0 && o.weight_decay == 0; }
};

template <>
struct Description<AdamOptions> {
  using O = AdamOptions;
  static constexpr const char* name = "Adam";
  static constexpr auto fields = std::tuple(lr_field<O>, beta1_field<O>, beta2_field<O>, eps_field<O>, decay_field<O>,
                                            field("amsgrad", &O::amsgrad), maximize_field<O>,
                                            field("decoupled_weight_decay", &O::decoupled_weight_decay));
  static OptimizerStep kind(const O& o) { return o.amsgrad ? OptimizerStep::amsgrad : OptimizerStep::adam; }
  static OptimizerSettings settings(const O& o, Progress& at) {
    return moment_settings(o, at.step, o.decoupled_weight_decay);
  }
};

template <>
struct Description<AdamWOptions> {
  using O = AdamWOptions;
  static constexpr const char* name = "AdamW";
  static constexpr auto fields = std::tuple(lr_field<O>, beta1_field<O>, beta2_field<O>, eps_field<O>, decay_field<O>,
                                            field("amsgrad", &O::amsgrad), maximize_field<O>);
  static OptimizerStep kind(const O& o) { return o.amsgrad ? OptimizerStep::amsgrad : OptimizerStep::adam; }
  static OptimizerSettings settings(const O& o, Progress& at) { return moment_settings(o, at.step, true); }
};

template <>
struct Description<SparseAdamOptions> {
  using O = SparseAdamOptions;
  static constexpr const char* name = "SparseAdam";
  static constexpr auto fields =
      std::tuple(lr_field<O>, beta1_field<O>, beta2_field<O>, eps_field<O>, maximize_field<O>);
  static OptimizerStep kind(const O&) { return OptimizerStep::adam; }
  static OptimizerSettings settings(const O& o, Progress& at) {
    OptimizerSettings s = moment_settings(o, at.step, false);
    s.epsilon *= s.root;  // as in PyTorch, added before the bias correction of the second moment
    return s;
  }
  static bool steps_rows(const O&) { return true; }
  static constexpr bool is_lazy = true;
};

template <>
struct Description<AdamaxOptions> {
  using O = AdamaxOptions;
  static constexpr const char* name = "Adamax";
  static constexpr auto fields =
      std::tuple(lr_field<O>, beta1_field<O>, beta2_field<O>, eps_field<O>, decay_field<O>, maximize_field<O>);
  static OptimizerStep kind(const O&) { return OptimizerStep::adamax; }
  static OptimizerSettings settings(const O& o, Progress& at) { return moment_settings(o, at.step, false); }
};

template <>
struct Description<NAdamOptions> {
  using O = NAdamOptions;
  static constexpr const char* name = "NAdam";
  static constexpr auto fields =
      std::tuple(lr_field<O>, beta1_field<O>, beta2_field<O>, eps_field<O>, decay_field<O>,
                 field("momentum_decay", &O::momentum_decay),
                 field("decoupled_weight_decay", &O::decoupled_weight_decay), maximize_field<O>);
  static OptimizerStep kind(const O&) { return OptimizerStep::nadam; }
  static OptimizerSettings settings(const O& o, Progress& at) {
    OptimizerSettings s = moment_settings(o, at.step, o.decoupled_weight_decay);
    const auto momentum = [&](int64_t t) {
      return o.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * o.momentum_decay));
    };
    const double now = momentum(at.step), next = momentum(at.step + 1);
    at.product *= now;
    s.gradient_rate = o.lr * (1 - now) / (1 - at.product);
    s.rate = o.lr * next / (1 - at.product * next);
    return s;
  }
};

template <>
struct Description<RAdamOptions> {
  using O = RAdamOptions;
  static constexpr const char* name = "RAdam";
  static constexpr auto fields =
      std::tuple(lr_field<O>, beta1_field<O>, beta2_field<O>, eps_field<O>, decay_field<O>,
                 field("decoupled_weight_decay", &O::decoupled_weight_decay), maximize_field<O>);
  static OptimizerStep kind(const O&) { return OptimizerStep::radam; }
  static OptimizerSettings settings(const O& o, Progress& at) {
    OptimizerSettings s = moment_settings(o, at.step, o.decoupled_weight_decay);
    const auto t = static_cast<double>(at.step);
    // Length of the approximated simple moving average at step t, and its limit.
    const double forgotten = std::pow(double{o.beta2}, t), limit = 2 / (1 - o.beta2) - 1;
    const double known = limit - 2 * t * forgotten / (1 - forgotten);
    s.rectified = known > 5;
    if (s.rectified != 0) {
      const auto spread = [](double length) { return (length - 4) * (length - 2) / length; };
      s.rate *= std::sqrt(spread(known) / spread(limit) * (1 - forgotten));
    }
    return s;
  }
};

template <>
struct Description<AdagradOptions> {
  using O = AdagradOptions;
  static constexpr const char* name = "Adagrad";
  static constexpr auto fields =
      std::tuple(lr_field<O>, field("lr_decay", &O::lr_decay), decay_field<O>,
                 field("initial_accumulator_value", &O::initial_accumulator_value), eps_field<O>, maximize_field<O>);
  static OptimizerStep kind(const O&) { return OptimizerStep::adagrad; }
  static OptimizerSettings settings(const O& o, Progress& at) {
    OptimizerSettings s = plain_settings(o);
    s.rate = o.lr / (1 + static_cast<double>(at.step - 1) * o.lr_decay);
    s.epsilon = o.eps;
    return s;
  }
  static double initial(const O& o, const std::string&) { return o.initial_accumulator_value; }
  static bool steps_rows(const O& o) { return o.weight_decay == 0; }
};

template <>
struct Description<AdadeltaOptions> {
  using O = AdadeltaOptions;
  static constexpr const char* name = "Adadelta";
  static constexpr auto fields =
      std::tuple(lr_field<O>, field("rho", &O::rho).from(0, 1), eps_field<O>, decay_field<O>, maximize_field<O>);
  static OptimizerStep kind(const O&) { return OptimizerStep::adadelta; }
  static OptimizerSettings settings(const O& o, Progress&) {
    OptimizerSettings s = plain_settings(o);
    s.decay2 = o.rho, s.fresh2 = 1 - o.rho;
    s.epsilon = o.eps;
    return s;
  }
};

template <>
struct Description<RMSpropOptions> {
  using O = RMSpropOptions;
  static constexpr const char* name = "RMSprop";
  static constexpr auto fields =
      std::tuple(lr_field<O>, field("alpha", &O::alpha).from(0, 1), eps_field<O>, decay_field<O>,
                 field("momentum", &O::momentum), field("centered", &O::centered), maximize_field<O>);
  static OptimizerStep kind(const O& o) {
    if (o.centered) return o.momentum > 0 ? OptimizerStep::rmsprop_centered_momentum : OptimizerStep::rmsprop_centered;
    return o.momentum > 0 ? OptimizerStep::rmsprop_momentum : OptimizerStep::rmsprop;
  }
  static OptimizerSettings settings(const O& o, Progress&) {
    OptimizerSettings s = plain_settings(o);
    s.decay1 = o.momentum;
    s.decay2 = o.alpha, s.fresh2 = 1 - o.alpha;
    s.epsilon = o.eps;
    return s;
  }
};

template <>
struct Description<RpropOptions> {
  using O = RpropOptions;
  static constexpr const char* name = "Rprop";
  static constexpr auto fields =
      std::tuple(lr_field<O>, field("etaminus", &O::etaminus).above(0).below(1).in_tuple("etas", 0),
                 field("etaplus", &O::etaplus).above(1).in_tuple("etas", 1),
                 field("step_size_min", &O::step_size_min).in_tuple("step_sizes", 0),
                 field("step_size_max", &O::step_size_max).in_tuple("step_sizes", 1), maximize_field<O>);
  static const char* conflict(const O& o) {
    return o.step_size_min > o.step_size_max ? "step_size_min is above step_size_max" : nullptr;
  }
  static OptimizerStep kind(const O&) { return OptimizerStep::rprop; }
  static OptimizerSettings settings(const O& o, Progress&) {
    OptimizerSettings s = plain_settings(o);
    s.shrink = o.etaminus, s.grow = o.etaplus;
    s.least = o.step_size_min, s.most = o.step_size_max;
    return s;
  }
  static double initial(const O& o, const std::string& state) { return state == "step_size" ? double{o.lr} : 0; }
};

template <>
struct Description<LionOptions> {
  using O = LionOptions;
  static constexpr const char* name = "Lion";
  static constexpr auto fields =
      std::tuple(lr_field<O>, beta1_field<O>, beta2_field<O>, decay_field<O>, maximize_field<O>);
  static OptimizerStep kind(const O&) { return OptimizerStep::lion; }
  static OptimizerSettings settings(const O& o, Progress&) {
    OptimizerSettings s = plain_settings(o, true);
    s.decay1 = o.beta1, s.fresh1 = 1 - o.beta1;
    s.decay2 = o.beta2, s.fresh2 = 1 - o.beta2;
    return s;
  }
};

// ---- conversion of options to numbers -------------------------------------------------------------------------------

namespace {

template <class O>
constexpr Rule elementwise_rule = {
    Description<O>::name, infos<O>,
    [](Values values) -> const char* {
      if constexpr (requires(O o) { Description<O>::conflict(o); }) {
        return Description<O>::conflict(options_of<O>(values));
      } else {
        return nullptr;
      }
    },
    std::is_same_v<O, NAdamOptions>, [](Values values) { return Description<O>::kind(options_of<O>(values)); },
    [](Values values, Progress& at) { return Description<O>::settings(options_of<O>(values), at); },
    [](Values values, const std::string& state) -> double {
      if constexpr (requires(O o) { Description<O>::initial(o, state); }) {
        return Description<O>::initial(options_of<O>(values), state);
      } else {
        return 0;
      }
    },
    [](Values values) {
      if constexpr (requires(O o) { Description<O>::steps_rows(o); }) {
        return Description<O>::steps_rows(options_of<O>(values));
      } else {
        return false;
      }
    },
    requires {Description<O>::is_lazy;
}
};  // namespace weft::optim

}  // namespace

#define WEFT_INSTANTIATE(O)      \
  template <>                    \
  const Rule& rule_of<O>() {     \
    return elementwise_rule<O>;  \
  }                              \
  template class OptimizerOf<O>; \
  template O options_named<O>(const NamedOptions&, Location);
WEFT_INSTANTIATE(SGDOptions)
WEFT_INSTANTIATE(AdamOptions)
WEFT_INSTANTIATE(AdamWOptions)
WEFT_INSTANTIATE(SparseAdamOptions)
WEFT_INSTANTIATE(AdamaxOptions)
WEFT_INSTANTIATE(NAdamOptions)
WEFT_INSTANTIATE(RAdamOptions)
WEFT_INSTANTIATE(AdagradOptions)
WEFT_INSTANTIATE(AdadeltaOptions)
WEFT_INSTANTIATE(RMSpropOptions)
WEFT_INSTANTIATE(RpropOptions)
WEFT_INSTANTIATE(LionOptions)
#undef WEFT_INSTANTIATE

}  // namespace weft::optim
