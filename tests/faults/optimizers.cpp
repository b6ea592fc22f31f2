// Steps of every optimizer that run out of memory: a step that raises changes neither parameters nor state.
#include "faults/optimizers.hpp"

#include <algorithm>

#include "faults/failing_memory.hpp"

namespace weft::faults {

namespace {

/// Parameters that take different paths: fused kernels, formulas over tensors, rows of a sparse gradient.
struct Parameters {
  explicit Parameters(bool only_matrices) {
    all = {made({3, 4}, f32, 1), made({2, 3}, f64, 2), made({4, 2}, bf16, 3), transposed({5, 3}, 4)};
    if (only_matrices) return;
    all.push_back(made({6}, f32, 5));
    all.push_back(made({7, 2}, f32, 6));
    all.push_back(made({2, 3}, DType::c64, 7));
  }
  /// Sets the gradients of a step; the parameter of shape [7, 2] gets rows.
  void set_gradients(int step) const {
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].set_grad({});
      if (all[i].shape() == Dims{7, 2}) {
        embedding(all[i], tensor({1, 4, 1}), EmbeddingOptions{.sparse = true}).square().sum().backward();
      } else {
        all[i].set_grad(values_like(all[i], 10 * step + static_cast<int>(i)));
      }
    }
  }
  static Tensor values_like(const Tensor& p, int seed) {
    const Tensor n = numbers(p.shape(), seed);
    return (is_complex(p.dtype()) ? complex(n, n * 0.5) : n).to(p.dtype());
  }
  static Tensor made(const Dims& shape, DType dtype, int seed) {
    return values_like(zeros(shape, {.dtype = dtype}), seed).requires_grad_();
  }
  static Tensor transposed(const Dims& shape, int seed) {
    return numbers(shape, seed).to(f32).t().detach().requires_grad_();
  }
  std::vector<Tensor> all;
};

std::vector<std::vector<double>> flat(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<double>> out;
  for (const Tensor& t : tensors) {
    const Tensor own = t.detach();
    out.push_back(values(is_complex(own.dtype()) ? view_as_real(own) : own));
  }
  return out;
}

using State = std::map<std::string, std::vector<double>>;

/// Options that are not set are NaN, which equals nothing: -1 instead.
State state_of(const optim::Optimizer& optimizer) {
  State out;
  for (const auto& [name, value] : optimizer.state_dict()) {
    std::vector<double>& numbers = out.emplace(name, flat({value})[0]).first->second;
    std::ranges::replace_if(
        numbers, [](double x) { return std::isnan(x); }, -1.0);
  }
  return out;
}

/// Runs the first or the second step of an optimizer without memory.
template <class O>
class OptimizerStep : public Scenario {
 public:
  OptimizerStep(bool only_matrices, int steps_before) : parameters_(only_matrices), optimizer_(parameters_.all) {
    Parameters others(only_matrices);
    O same(others.all);
    for (int step = 0; step <= steps_before; ++step) {
      if (step > 0) optimizer_.step(), same.step();
      parameters_.set_gradients(step), others.set_gradients(step);
    }
    before_ = flat(parameters_.all), state_before_ = state_of(optimizer_);
    same.step();
    after_ = flat(others.all), state_after_ = state_of(same);
  }
  void act() override { optimizer_.step(); }
  void check(bool failed) override {
    if (failed) {
      require(flat(parameters_.all) == before_, "a parameter has changed");
      require(state_of(optimizer_) == state_before_, "the state has changed");
      optimizer_.step();
    }
    require(flat(parameters_.all) == after_, "a wrong step");
    require(state_of(optimizer_) == state_after_, "a wrong state");
  }

 private:
  Parameters parameters_;
  O optimizer_;
  std::vector<std::vector<double>> before_, after_;
  State state_before_, state_after_;
};

class QuasiNewtonStep : public Scenario {
 public:
  explicit QuasiNewtonStep(optim::LineSearch search) : optimizer_({p_, q_}, {.lr = 0.5, .line_search_fn = search}) {
    (void)optimizer_.step(loss());
    before_ = flat({p_, q_}), state_before_ = state_of(optimizer_);
  }
  void act() override { (void)optimizer_.step(loss()); }
  void check(bool failed) override {
    const bool same = flat({p_, q_}) == before_;
    require(same == failed, failed ? "a parameter has changed" : "no step");
    if (failed) require(state_of(optimizer_) == state_before_, "the state has changed");
  }

 private:
  optim::Closure loss() {
    return [this] {
      optimizer_.zero_grad();
      const Tensor value = (p_ * p_ * q_.exp()).sum() + square(q_ - 2.0).sum() + square(p_ - 1.0).sum();
      value.backward();
      return value;
    };
  }
  Tensor p_ = leaf({3}, 1), q_ = leaf({3}, 2);
  optim::LBFGS optimizer_;
  std::vector<std::vector<double>> before_;
  State state_before_;
};

/// 16-bit parameters with float32 masters: the step can be repeated.
class MasterStep : public Scenario {
 public:
  MasterStep() {
    const std::vector<Tensor> others = Parameters(true).all;
    optim::MasterWeights masters(others);
    optim::AdamW optimizer(masters.parameters(), {.lr = 0.1});
    for (size_t i = 0; i < others.size(); ++i) {
      parameters_[i].set_grad(Parameters::values_like(others[i], 9));
      others[i].set_grad(Parameters::values_like(others[i], 9));
    }
    before_ = flat(parameters_);
    masters.step(optimizer);
    after_ = flat(others);
  }
  void act() override { masters_.step(optimizer_); }
  void check(bool failed) override {
    if (failed) {
      require(flat(parameters_) == before_, "a parameter has changed");
      require(flat(masters_.parameters()) == masters_before_, "a master has changed");
      masters_.step(optimizer_);
    }
    require(flat(parameters_) == after_, "a wrong step");
  }

 private:
  std::vector<Tensor> parameters_ = Parameters(true).all;
  optim::MasterWeights masters_{parameters_};
  optim::AdamW optimizer_{masters_.parameters(), {.lr = 0.1}};
  std::vector<std::vector<double>> masters_before_ = flat(masters_.parameters()), before_, after_;
};

/// An update, or a copy of the averages to the parameters, changes all of them or none.
class Averaging : public Scenario {
 public:
  explicit Averaging(std::optional<double> decay, bool copies) : copies_(copies) {
    tensors_.push_back(tensor({1, 2, 3}));
    tensors_.push_back(tensor({true, false}));
    averager_.emplace(std::vector<Tensor>(tensors_.begin(), tensors_.end() - 2),
                      optim::AverageOptions{.decay = decay, .buffers = {tensors_.end() - 2, tensors_.end()}});
    averager_->update();
    const NoGradGuard unrecorded;
    for (const Tensor& t : tensors_) t.copy_(t.dtype() == DType::boolean ? logical_not(t) : t + 2);
    before_ = now();
  }
  void act() override {
    if (copies_) averager_->copy_to_parameters();
    else averager_->update();
  }
  void check(bool failed) override {
    require((now() == before_) == failed, failed ? "a part has changed" : "no change");
  }

 private:
  std::vector<std::vector<double>> now() const {
    return flat(copies_ ? tensors_ : std::vector<Tensor>(averager_->averages().begin(), averager_->averages().end()));
  }
  bool copies_;
  std::vector<Tensor> tensors_ = {numbers({3, 4}, 1).to(f32), numbers({5}, 2), numbers({4, 3}, 3).to(bf16),
                                  numbers({3, 2}, 4).to(f32).t()};
  std::optional<optim::Averager> averager_;
  std::vector<std::vector<double>> before_;
};

template <class O>
void add(std::vector<Kind>& to, const char* first, const char* second, bool only_matrices = false) {
  to.push_back({first, [=] { return std::make_unique<OptimizerStep<O>>(only_matrices, 0); }});
  to.push_back({second, [=] { return std::make_unique<OptimizerStep<O>>(only_matrices, 1); }});
}

}  // namespace

std::vector<Kind> optimizer_steps() {
  std::vector<Kind> all;
  add<optim::SGD>(all, "sgd_first", "sgd_second");
  add<optim::Adam>(all, "adam_first", "adam_second");
  add<optim::AdamW>(all, "adamw_first", "adamw_second");
  add<optim::SparseAdam>(all, "sparse_adam_first", "sparse_adam_second");
  add<optim::Adamax>(all, "adamax_first", "adamax_second");
  add<optim::NAdam>(all, "nadam_first", "nadam_second");
  add<optim::RAdam>(all, "radam_first", "radam_second");
  add<optim::Adagrad>(all, "adagrad_first", "adagrad_second");
  add<optim::Adadelta>(all, "adadelta_first", "adadelta_second");
  add<optim::RMSprop>(all, "rmsprop_first", "rmsprop_second");
  add<optim::Rprop>(all, "rprop_first", "rprop_second");
  add<optim::Lion>(all, "lion_first", "lion_second");
  add<optim::Adafactor>(all, "adafactor_first", "adafactor_second", true);
  add<optim::Muon>(all, "muon_first", "muon_second", true);
  for (const auto search : {optim::LineSearch::none, optim::LineSearch::strong_wolfe}) {
    const bool searches = search == optim::LineSearch::strong_wolfe;
    all.push_back({searches ? "lbfgs_wolfe" : "lbfgs", [=] { return std::make_unique<QuasiNewtonStep>(search); }});
  }
  all.push_back({"averaging_mean", [] { return std::make_unique<Averaging>(std::nullopt, false); }});
  all.push_back({"averaging_decay", [] { return std::make_unique<Averaging>(0.9, false); }});
  all.push_back({"averages_to_parameters", [] { return std::make_unique<Averaging>(std::nullopt, true); }});
  all.push_back({"master_weights", [] { return std::make_unique<MasterStep>(); }});
  return all;
}

}  // namespace weft::faults
