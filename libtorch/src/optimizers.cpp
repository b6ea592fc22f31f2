// libtorch's optimizers, computed by Weft's.
#include <torch/optim/optimizers.h>

#include <weft/optim/optimizers.hpp>

#include "optimizer_files.h"

namespace torch::optim {

namespace wo = weft::optim;

namespace {

// ---- options by their names in Weft ----
wo::NamedOptions named(const SGDOptions& o) {
  return {{"lr", o.lr()},
          {"momentum", o.momentum()},
          {"dampening", o.dampening()},
          {"weight_decay", o.weight_decay()},
          {"nesterov", o.nesterov()}};
}
template <class Options>
wo::NamedOptions adam_options(const Options& o) {
  return {{"lr", o.lr()},   {"beta1", std::get<0>(o.betas())},  {"beta2", std::get<1>(o.betas())},
          {"eps", o.eps()}, {"weight_decay", o.weight_decay()}, {"amsgrad", o.amsgrad()}};
}
wo::NamedOptions named(const AdamOptions& o) { return adam_options(o); }
wo::NamedOptions named(const AdamWOptions& o) { return adam_options(o); }
wo::NamedOptions named(const AdagradOptions& o) {
  return {{"lr", o.lr()},
          {"lr_decay", o.lr_decay()},
          {"weight_decay", o.weight_decay()},
          {"initial_accumulator_value", o.initial_accumulator_value()},
          {"eps", o.eps()}};
}
wo::NamedOptions named(const RMSpropOptions& o) {
  return {{"lr", o.lr()},
          {"alpha", o.alpha()},
          {"eps", o.eps()},
          {"weight_decay", o.weight_decay()},
          {"momentum", o.momentum()},
          {"centered", o.centered()}};
}
wo::NamedOptions named(const LBFGSOptions& o) {
  TORCH_CHECK(!o.line_search_fn() || *o.line_search_fn() == "strong_wolfe", "only 'strong_wolfe' is supported");
  wo::NamedOptions options = {{"lr", o.lr()},
                              {"max_iter", static_cast<double>(o.max_iter())},
                              {"tolerance_grad", o.tolerance_grad()},
                              {"tolerance_change", o.tolerance_change()},
                              {"history_size", static_cast<double>(o.history_size())},
                              {"line_search_fn", o.line_search_fn() ? 1.0 : 0.0}};
  if (o.max_eval()) options["max_eval"] = static_cast<double>(*o.max_eval());
  return options;
}

// ---- states by their names in Weft ----
struct Field {
  const char* name;
  Tensor tensor;
};
template <class State>
struct StateFields;
template <>
struct StateFields<SGDParamState> {
  static std::vector<Field> get(const SGDParamState& s) { return {{"momentum_buffer", s.momentum_buffer()}}; }
  static void set(SGDParamState& s, const std::string& name, const Tensor& t) {
    if (name == "momentum_buffer") s.momentum_buffer(t);
  }
};
template <class State>
struct AdamFields {
  static std::vector<Field> get(const State& s) {
    return {{"exp_avg", s.exp_avg()}, {"exp_avg_sq", s.exp_avg_sq()}, {"max_exp_avg_sq", s.max_exp_avg_sq()}};
  }
  static void set(State& s, const std::string& name, const Tensor& t) {
    if (name == "exp_avg") s.exp_avg(t);
    else if (name == "exp_avg_sq") s.exp_avg_sq(t);
    else if (name == "max_exp_avg_sq") s.max_exp_avg_sq(t);
  }
};
template <>
struct StateFields<AdamParamState> : AdamFields<AdamParamState> {};
template <>
struct StateFields<AdamWParamState> : AdamFields<AdamWParamState> {};
template <>
struct StateFields<AdagradParamState> {
  static std::vector<Field> get(const AdagradParamState& s) { return {{"sum", s.sum()}}; }
  static void set(AdagradParamState& s, const std::string& name, const Tensor& t) {
    if (name == "sum") s.sum(t);
  }
};
template <>
struct StateFields<RMSpropParamState> {
  static std::vector<Field> get(const RMSpropParamState& s) {
    return {{"square_avg", s.square_avg()}, {"momentum_buffer", s.momentum_buffer()}, {"grad_avg", s.grad_avg()}};
  }
  static void set(RMSpropParamState& s, const std::string& name, const Tensor& t) {
    if (name == "square_avg") s.square_avg(t);
    else if (name == "momentum_buffer") s.momentum_buffer(t);
    else if (name == "grad_avg") s.grad_avg(t);
  }
};
template <class State>
int64_t step_of(const State& s) {
  if constexpr (requires { s.step(); }) return s.step();
  else return s.momentum_buffer().defined() ? 1 : 0;
}

}  // namespace

namespace detail {

/// Weft's optimizer behind one of libtorch's: groups and options are compared before each step, and states are shared
/// tensors, which are read again when a parameter gets its first.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual Tensor step(Optimizer& owner, const Optimizer::LossClosure& closure) = 0;
  /// The states of the owner were replaced: they are given to Weft's optimizer at the next step.
  void forget() { inner_.reset(); }

 protected:
  std::unique_ptr<wo::Optimizer> inner_;
};
void EngineDeleter::operator()(Engine* engine) const { delete engine; }

namespace {

template <class Inner, class Options, class State>
class EngineOf : public Engine {
 public:
  Tensor step(Optimizer& owner, const Optimizer::LossClosure& closure) override {
    if (inner_ == nullptr || !same_parameters(owner)) build(owner);
    else set_options(owner);
    if constexpr (has_history) {
      TORCH_CHECK(closure != nullptr, "LBFGS requires a closure function");
      const Tensor loss = inner_->step(wo::Closure([&]() -> weft::Tensor { return closure(); }));
      if (!seen_.empty()) take_history(owner, inner_->state_dict());
      return loss;
    } else {
      Tensor loss;
      if (closure) {
        const at::AutoGradMode recording(true);
        loss = closure();
      }
      give_steps(owner);
      inner_->step();
      take_states(owner);
      return loss;
    }
  }

 private:
  static constexpr bool has_history = std::is_same_v<State, LBFGSParamState>;

  static const Options& options_of(const OptimizerParamGroup& group) {
    return static_cast<const Options&>(group.options());
  }
  bool same_parameters(const Optimizer& owner) const {
    size_t i = 0;
    for (const OptimizerParamGroup& group : owner.param_groups()) {
      for (const Tensor& parameter : group.params()) {
        if (i >= seen_.size() || seen_[i++].impl() != parameter.impl()) return false;
      }
    }
    return i == seen_.size() && options_.size() == owner.param_groups().size();
  }
  void build(Optimizer& owner) {
    seen_.clear();
    options_.clear();
    inner_.reset();
    for (const OptimizerParamGroup& group : owner.param_groups()) {
      std::vector<weft::Tensor> parameters(group.params().begin(), group.params().end());
      seen_.insert(seen_.end(), parameters.begin(), parameters.end());
      options_.push_back(named(options_of(group)));
      if (inner_ == nullptr) {
        using InnerOptions = typename Inner::Options;
        inner_ = std::make_unique<Inner>(std::move(parameters), wo::options_named<InnerOptions>(options_.back()));
      } else {
        inner_->add_named_group(std::move(parameters), options_.back());
      }
    }
    give_states(owner);
  }
  void set_options(const Optimizer& owner) {
    for (size_t g = 0; g < options_.size(); ++g) {
      wo::NamedOptions now = named(options_of(owner.param_groups()[g]));
      if (now == options_[g]) continue;
      inner_->set_options(now, g);
      options_[g] = std::move(now);
    }
  }

  // ---- states ----
  static std::string key(size_t i, const char* name) { return std::to_string(i) + "." + name; }
  State* state_of(Optimizer& owner, size_t i) {
    const auto found = owner.state().find(seen_[i].unsafeGetTensorImpl());
    return found == owner.state().end() ? nullptr : static_cast<State*>(found->second.get());
  }
  void give_states(Optimizer& owner) {
    if constexpr (has_history) {
      const State* state = seen_.empty() ? nullptr : state_of(owner, 0);
      if (state != nullptr && state->prev_flat_grad().defined()) give_history(*state);
    } else {
      wo::Optimizer::StateDict values = inner_->state_dict();
      steps_.assign(seen_.size(), 0);
      bool any = false;
      for (size_t i = 0; i < seen_.size(); ++i) {
        const State* state = state_of(owner, i);
        if (state == nullptr || (steps_[i] = step_of(*state)) == 0) continue;
        values.insert_or_assign(key(i, "step"), weft::Tensor(at::scalar_tensor(steps_[i], at::kLong)));
        for (const Field& field : StateFields<State>::get(*state)) {
          if (field.tensor.defined()) values.insert_or_assign(key(i, field.name), weft::Tensor(field.tensor));
        }
        any = true;
      }
      if (any) inner_->load_state_dict(values);
    }
  }
  /// A program may have changed the number of steps of a state.
  void give_steps(Optimizer& owner) {
    for (size_t i = 0; i < seen_.size(); ++i) {
      const State* state = state_of(owner, i);
      if (state != nullptr && steps_[i] != 0 && step_of(*state) != steps_[i]) return build(owner);
    }
  }
  void take_states(Optimizer& owner) {
    bool fresh = false;
    for (size_t i = 0; i < seen_.size(); ++i) {
      if (!seen_[i].grad().defined()) continue;
      fresh |= steps_[i] == 0;
      ++steps_[i];
      State* state = state_of(owner, i);
      if (state == nullptr) continue;
      if constexpr (requires { state->step(); }) state->step(steps_[i]);
      else steps_[i] = 1;
    }
    if (fresh) read_states(owner);
  }
  void read_states(Optimizer& owner) {
    for (auto& [name, tensor] : inner_->state_dict()) {
      const size_t dot = name.find('.');
      if (dot == name.npos || name.find_first_not_of("0123456789") != dot) continue;
      const size_t i = std::stoul(name);
      const std::string field = name.substr(dot + 1);
      if (i >= seen_.size()) continue;
      std::unique_ptr<OptimizerParamState>& state = owner.state()[seen_[i].unsafeGetTensorImpl()];
      if (state == nullptr) state = std::make_unique<State>();
      auto& own = static_cast<State&>(*state);
      if (field != "step") StateFields<State>::set(own, field, tensor);
      else if constexpr (requires { own.step(); }) own.step(Tensor(tensor).item<int64_t>());
    }
  }

  // ---- the history of LBFGS, which Weft stores with the first parameter, too ----
  static Tensor stacked(const std::deque<Tensor>& rows, const Tensor& like) {
    if (rows.empty()) return like.new_zeros({0, like.numel()});
    return at::stack(TensorVector(rows.begin(), rows.end()));
  }
  static std::deque<Tensor> unstacked(const Tensor& rows) {
    const TensorVector parts = rows.size(0) == 0 ? TensorVector() : rows.unbind(0);
    return {parts.begin(), parts.end()};
  }
  void give_history(const State& s) {
    std::vector<double> inverse;  // libtorch before 1.5 did not save it
    for (size_t i = 0; i < s.old_dirs().size(); ++i) {
      inverse.push_back(i < s.ro().size() ? s.ro()[i].template item<double>()
                                          : 1 / s.old_dirs()[i].dot(s.old_stps().at(i)).template item<double>());
    }
    const Tensor& g = s.prev_flat_grad();
    const auto number = [](double value) { return at::scalar_tensor(value, at::kDouble); };
    wo::Optimizer::StateDict values = inner_->state_dict();
    const auto give = [&](const char* name, const Tensor& value) { values.insert_or_assign(key(0, name), value); };
    give("func_evals", at::scalar_tensor(s.func_evals(), at::kLong));
    give("n_iter", at::scalar_tensor(s.n_iter(), at::kLong));
    give("t", number(s.t())), give("prev_loss", number(s.prev_loss()));
    give("d", s.d()), give("prev_flat_grad", g);
    give("H_diag", number(s.H_diag().defined() ? s.H_diag().template item<double>() : 1));
    give("old_dirs", stacked(s.old_dirs(), g)), give("old_stps", stacked(s.old_stps(), g));
    give("ro", weft::tensor(std::span<const double>(inverse), {std::ssize(inverse)}, weft::f64));
    inner_->load_state_dict(values);
  }
  void take_history(Optimizer& owner, const wo::Optimizer::StateDict& values) {
    auto& state = owner.state()[seen_[0].unsafeGetTensorImpl()];
    if (state == nullptr) state = std::make_unique<State>();
    auto& s = static_cast<State&>(*state);
    const auto take = [&](const char* name) {
      const auto found = values.find(key(0, name));
      return found == values.end() ? Tensor() : Tensor(found->second);
    };
    if (const Tensor count = take("func_evals"); count.defined()) {
      s.func_evals(count.item<int64_t>()), s.n_iter(take("n_iter").template item<int64_t>());
    }
    if (!take("prev_flat_grad").defined()) return;
    s.t(take("t").template item<double>()), s.prev_loss(take("prev_loss").template item<double>());
    s.d(take("d")), s.prev_flat_grad(take("prev_flat_grad"));
    s.H_diag(take("H_diag"));
    s.old_dirs(unstacked(take("old_dirs"))), s.old_stps(unstacked(take("old_stps"))), s.ro(unstacked(take("ro")));
  }

  std::vector<Tensor> seen_;
  std::vector<wo::NamedOptions> options_;
  std::vector<int64_t> steps_;
};

}  // namespace

}  // namespace detail

// ---- checks ----
namespace {

void check_rate(double lr) { TORCH_CHECK(lr >= 0, "Invalid learning rate: ", lr); }
void check(const SGDOptions& o) {
  check_rate(o.lr());
  TORCH_CHECK(o.momentum() >= 0, "Invalid momentum value: ", o.momentum());
  TORCH_CHECK(o.weight_decay() >= 0, "Invalid weight_decay value: ", o.weight_decay());
  TORCH_CHECK(!o.nesterov() || (o.momentum() > 0 && o.dampening() == 0),
              "Nesterov momentum requires a momentum and zero dampening");
}
template <class Options>
void check_adam(const Options& o) {
  check_rate(o.lr());
  TORCH_CHECK(o.eps() >= 0, "Invalid epsilon value: ", o.eps());
  const auto [beta1, beta2] = o.betas();
  TORCH_CHECK(0 <= beta1 && beta1 < 1, "Invalid beta parameter at index 0: ", beta1);
  TORCH_CHECK(0 <= beta2 && beta2 < 1, "Invalid beta parameter at index 1: ", beta2);
  TORCH_CHECK(o.weight_decay() >= 0, "Invalid weight_decay value: ", o.weight_decay());
}
void check(const AdamOptions& o) { check_adam(o); }
void check(const AdamWOptions& o) { check_adam(o); }
void check(const AdagradOptions& o) {
  check_rate(o.lr());
  TORCH_CHECK(o.lr_decay() >= 0, "Invalid lr_decay value: ", o.lr_decay());
  TORCH_CHECK(o.weight_decay() >= 0, "Invalid weight_decay value: ", o.weight_decay());
  TORCH_CHECK(o.initial_accumulator_value() >= 0,
              "Invalid initial_accumulator_value value: ", o.initial_accumulator_value());
  TORCH_CHECK(o.eps() >= 0, "Invalid epsilon value: ", o.eps());
}
void check(const RMSpropOptions& o) {
  check_rate(o.lr());
  TORCH_CHECK(o.eps() >= 0, "Invalid epsilon value: ", o.eps());
  TORCH_CHECK(o.momentum() >= 0, "Invalid momentum value: ", o.momentum());
  TORCH_CHECK(o.weight_decay() >= 0, "Invalid weight_decay value: ", o.weight_decay());
  TORCH_CHECK(o.alpha() >= 0, "Invalid alpha value: ", o.alpha());
}
void check(const LBFGSOptions& o) { check_rate(o.lr()); }

void prepare(Adagrad& optimizer) {
  // libtorch creates these states before the first step.
  for (OptimizerParamGroup& group : optimizer.param_groups()) {
    for (const Tensor& parameter : group.params()) {
      auto state = std::make_unique<AdagradParamState>();
      const auto& options = static_cast<const AdagradOptions&>(group.options());
      state->sum(at::full_like(parameter.detach(), options.initial_accumulator_value()));
      optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
    }
  }
}
void prepare(LBFGS& optimizer) {
  TORCH_CHECK(optimizer.param_groups().size() == 1, "LBFGS doesn't support per-parameter options (parameter groups)");
}
template <class O>
void prepare(O&) {}

}  // namespace

#define OPTIMIZER(Name, State)                                                                      \
  Name::Name(std::vector<OptimizerParamGroup> param_groups, Name##Options defaults)                 \
      : Optimizer(std::move(param_groups), std::make_unique<Name##Options>(defaults)),              \
        engine_(new detail::EngineOf<wo::Name, Name##Options, State>()) {                           \
    check(defaults);                                                                                \
    prepare(*this);                                                                                 \
  }                                                                                                 \
  Name::Name(std::vector<Tensor> params, Name##Options defaults)                                    \
      : Name(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(params))}, defaults) {} \
  Tensor Name::step(LossClosure closure) {                                                          \
    const NoGradGuard unrecorded;                                                                   \
    return engine_->step(*this, closure);                                                           \
  }
OPTIMIZER(SGD, SGDParamState)
OPTIMIZER(Adam, AdamParamState)
OPTIMIZER(AdamW, AdamWParamState)
OPTIMIZER(Adagrad, AdagradParamState)
OPTIMIZER(RMSprop, RMSpropParamState)
OPTIMIZER(LBFGS, LBFGSParamState)
#undef OPTIMIZER

// ---- files ----
namespace {

void write(serialize::OutputArchive& archive, const char* name, const Tensor& value) {
  if (value.defined()) archive.write(name, value, /*is_buffer=*/true);
}
void read(serialize::InputArchive& archive, const char* name, Tensor& value) {
  archive.try_read(name, value, /*is_buffer=*/true);
}
void write(serialize::OutputArchive& archive, const char* name, const std::deque<Tensor>& value) {
  archive.write(name, c10::IValue(std::vector<Tensor>(value.begin(), value.end())));
}
template <class T>
void write(serialize::OutputArchive& archive, const char* name, const T& value) {
  archive.write(name, c10::IValue(value));
}
template <class T>
void read(serialize::InputArchive& archive, const char* name, T& value) {
  c10::IValue found;
  archive.read(name, found);
  if constexpr (std::is_same_v<T, Betas>) {
    const auto both = found.toTuple();
    TORCH_CHECK_VALUE(both->size() == 2, "the entry ", name, " has ", both->size(), " elements, expected 2");
    value = {(*both)[0].toDouble(), (*both)[1].toDouble()};
  } else if constexpr (std::is_same_v<T, std::deque<Tensor>>) {
    const std::vector<Tensor> all = found.toTensorVector();
    value = {all.begin(), all.end()};
  } else if constexpr (requires { value.has_value(); }) {
    if (found.isNone()) value = nullopt;
    else value = found.to<typename T::value_type>();
  } else {
    value = found.to<T>();
  }
}
bool same(const Tensor& a, const Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || a.is_same(b) || a.equal(b));
}
template <class List>
bool same_list(const List& a, const List& b) {
  return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) { return same(x, y); });
}
bool same(const std::deque<Tensor>& a, const std::deque<Tensor>& b) { return same_list(a, b); }
bool same(const optional<std::vector<Tensor>>& a, const optional<std::vector<Tensor>>& b) {
  return a.has_value() == b.has_value() && (!a || same_list(*a, *b));
}
template <class T>
bool same(const T& a, const T& b) {
  return a == b;
}

}  // namespace

#define WRITE(name) write(archive, #name, this->name());
#define READ(name) read(archive, #name, this->name());
#define SAME(name) same(a.name(), b.name())&&
#define FILES(Name, EACH)                                                       \
  void Name::serialize(serialize::InputArchive& archive) { EACH(READ) }         \
  void Name::serialize(serialize::OutputArchive& archive) const { EACH(WRITE) } \
  bool operator==(const Name& a, const Name& b) { return EACH(SAME) true; }
#define SGD_OPTIONS(X) X(lr) X(momentum) X(dampening) X(weight_decay) X(nesterov)
#define ADAM_OPTIONS(X) X(lr) X(betas) X(eps) X(weight_decay) X(amsgrad)
#define ADAGRAD_OPTIONS(X) X(lr) X(lr_decay) X(weight_decay) X(initial_accumulator_value) X(eps)
#define RMSPROP_OPTIONS(X) X(lr) X(alpha) X(eps) X(weight_decay) X(momentum) X(centered)
#define LBFGS_OPTIONS(X) \
  X(lr) X(max_iter) X(max_eval) X(tolerance_grad) X(tolerance_change) X(history_size) X(line_search_fn)
#define SGD_STATE(X) X(momentum_buffer)
#define ADAM_STATE(X) X(step) X(exp_avg) X(exp_avg_sq) X(max_exp_avg_sq)
#define ADAGRAD_STATE(X) X(step) X(sum)
#define RMSPROP_STATE(X) X(step) X(square_avg) X(momentum_buffer) X(grad_avg)
#define LBFGS_STATE(X) \
  X(func_evals) X(n_iter) X(t) X(prev_loss) X(d) X(H_diag) X(prev_flat_grad) X(old_dirs) X(old_stps) X(ro) X(al)
FILES(SGDOptions, SGD_OPTIONS)
FILES(AdamOptions, ADAM_OPTIONS)
FILES(AdamWOptions, ADAM_OPTIONS)
FILES(AdagradOptions, ADAGRAD_OPTIONS)
FILES(RMSpropOptions, RMSPROP_OPTIONS)
FILES(LBFGSOptions, LBFGS_OPTIONS)
FILES(SGDParamState, SGD_STATE)
FILES(AdamParamState, ADAM_STATE)
FILES(AdamWParamState, ADAM_STATE)
FILES(AdagradParamState, ADAGRAD_STATE)
FILES(RMSpropParamState, RMSPROP_STATE)
FILES(LBFGSParamState, LBFGS_STATE)

// ---- files of libtorch before 1.5 ----
namespace {

/// A list of tensors for each field of the states, in the order of the parameters. The number of steps is a field, too.
struct OldField {
  const char *field, *list;
};

template <class State>
void load_old(Optimizer& optimizer, serialize::InputArchive& archive, std::initializer_list<OldField> fields) {
  for (const OldField& field : fields) {
    const std::vector<Tensor> values = detail::old_list(archive, field.list);
    const std::vector<Tensor>& parameters = optimizer.param_groups().at(0).params();
    TORCH_CHECK(values.size() <= parameters.size(), "the file has ", values.size(), " ", field.list,
                ", and the optimizer ", parameters.size(), " parameters");
    for (size_t i = 0; i < values.size(); ++i) {
      auto& state = optimizer.state()[parameters[i].unsafeGetTensorImpl()];
      if (state == nullptr) state = std::make_unique<State>();
      auto& own = static_cast<State&>(*state);
      if (std::string_view(field.field) != "step") StateFields<State>::set(own, field.field, values[i]);
      else if constexpr (requires { own.step(); }) own.step(values[i].item<int64_t>());
    }
  }
}
template <class State>
void load_old_adam(Optimizer& optimizer, serialize::InputArchive& archive) {
  load_old<State>(optimizer, archive,
                  {{"step", "step_buffers"},
                   {"exp_avg", "exp_average_buffers"},
                   {"exp_avg_sq", "exp_average_sq_buffers"},
                   {"max_exp_avg_sq", "max_exp_average_sq_buffers"}});
}

void load_old(SGD& optimizer, serialize::InputArchive& archive) {
  load_old<SGDParamState>(optimizer, archive, {{"momentum_buffer", "momentum_buffers"}});
}
void load_old(Adam& optimizer, serialize::InputArchive& archive) { load_old_adam<AdamParamState>(optimizer, archive); }
void load_old(AdamW& optimizer, serialize::InputArchive& archive) {
  load_old_adam<AdamWParamState>(optimizer, archive);
}
void load_old(Adagrad& optimizer, serialize::InputArchive& archive) {
  load_old<AdagradParamState>(optimizer, archive, {{"step", "step_buffers"}, {"sum", "sum_buffers"}});
}
void load_old(RMSprop& optimizer, serialize::InputArchive& archive) {
  load_old<RMSpropParamState>(optimizer, archive,
                              {{"square_avg", "square_average_buffers"},
                               {"momentum_buffer", "momentum_buffers"},
                               {"grad_avg", "grad_average_buffers"}});
}
void load_old(LBFGS& optimizer, serialize::InputArchive& archive) {
  auto state = std::make_unique<LBFGSParamState>();
  Tensor t, loss;
  archive.read("d", state->d(), true);
  archive.read("t", t, true);
  archive.read("H_diag", state->H_diag(), true);
  archive.read("prev_flat_grad", state->prev_flat_grad(), true);
  archive.read("prev_loss", loss, true);
  state->t(t.item<double>()), state->prev_loss(loss.item<double>());
  const std::vector<Tensor> changes = detail::old_list(archive, "old_dirs"),
                            steps = detail::old_list(archive, "old_stps");
  state->old_dirs({changes.begin(), changes.end()}), state->old_stps({steps.begin(), steps.end()});
  optimizer.state()[optimizer.param_groups().at(0).params().at(0).unsafeGetTensorImpl()] = std::move(state);
}

}  // namespace

#define LOADS(Name)                                                                                                \
  void Name::load(serialize::InputArchive& archive) {                                                              \
    if (detail::is_old(archive)) {                                                                                 \
      load_old(*this, archive);                                                                                    \
    } else {                                                                                                       \
      detail::load(*this, archive,                                                                                 \
                   []() -> std::unique_ptr<OptimizerParamState> { return std::make_unique<Name##ParamState>(); }); \
    }                                                                                                              \
    engine_->forget();                                                                                             \
  }
LOADS(SGD)
LOADS(Adam)
LOADS(AdamW)
LOADS(Adagrad)
LOADS(RMSprop)
LOADS(LBFGS)
#undef LOADS

}  // namespace torch::optim
