#include <cmath>

#include <fmt/format.h>

#include <weft/autograd/mode.hpp>
#include <weft/nn/fused-inl.hpp>
#include <weft/ops/detail/common.hpp>
#include <weft/ops/pointwise.hpp>

namespace weft::optim {

struct Adam::Cache {
  std::vector<AdamSlot> slots;
};

Adam::Adam(Adam&&) noexcept = default;
Adam& Adam::operator=(Adam&&) noexcept = default;
Adam::~Adam() = default;

Adam::Adam(std::vector<Tensor> parameters, AdamOptions options, Location where)
    : Adam("Adam", false, std::move(parameters), options, where) {}

AdamW::AdamW(std::vector<Tensor> parameters, AdamWOptions options, Location where)
    : Adam("AdamW", true, std::move(parameters),
           {options.lr, options.beta1, options.beta2, options.eps, options.weight_decay}, where) {}

Adam::Adam(const char* name, bool decoupled, std::vector<Tensor> parameters, AdamOptions options, Location where)
    : Optimizer(name, {"exp_avg", "exp_avg_sq"}, options.lr, options.weight_decay),
      options_(options),
      decoupled_(decoupled),
      cache_(std::make_unique<Cache>()) {
  const auto is_beta = [](double b) { return b >= 0 && b < 1; };
  if (!is_beta(options.beta1) || !is_beta(options.beta2) || !(options.eps >= 0)) {
    raise<ValueError>({.op = name,
                       .problem = "betas lie in [0, 1) and eps is not negative",
                       .details = fmt::format("beta1 {}, beta2 {}, eps {}", options.beta1, options.beta2, options.eps)},
                      where);
  }
  add_group(std::move(parameters), {}, where);
}

void Adam::forget() { cache_->slots.assign(states_.size(), {}); }

namespace {

void composite_step(const Tensor& parameter, const AdamSettings& s, const Tensor& first, const Tensor& second) {
  NoGradGuard unrecorded;
  const Tensor value = parameter.to(first.dtype());
  Tensor gradient = parameter.grad().to(first.dtype());
  if (!s.decoupled && s.weight_decay != 0) gradient = gradient + s.weight_decay * value;
  first.add_((gradient - first) * (1 - s.beta1));
  second.mul_(s.beta2).add_(gradient * gradient * (1 - s.beta2));
  const Tensor denominator = sqrt(second) / std::sqrt(s.bias_correction2) + s.epsilon;
  const double decay = s.decoupled ? 1 - s.learning_rate * s.weight_decay : 1;
  parameter.copy_(value * decay - (s.learning_rate / s.bias_correction1) * (first / denominator));
}

}  // namespace

void Adam::step(Location where) {
  size_t begin = 0;
  for (const Group& group : groups_) {
    const auto parameter = [&](size_t i) -> const Tensor& { return group.parameters[i - begin]; };
    const auto rebuild = [&](size_t i) {
      State& state = states_[i];
      const Tensor& p = parameter(i);
      if (state.tensors.empty()) start(state, p);
      for (Tensor& t : state.tensors) t = t.to(p.dtype() == f64 ? f64 : f32, where).to(p.device(), where);
      if (!fusible(p) || kernels(p.raw_view()).adam == nullptr) return;
      cache_->slots[i] = {p.raw_view(), {}, state.tensors[0].raw_view(), state.tensors[1].raw_view()};
    };
    const auto settings = [&](size_t i) {
      const auto steps = static_cast<double>(states_[i].steps + 1);
      return AdamSettings{group.lr,
                          options_.beta1,
                          options_.beta2,
                          options_.eps,
                          group.weight_decay,
                          1 - std::pow(options_.beta1, steps),
                          1 - std::pow(options_.beta2, steps),
                          decoupled_};
    };
    const auto done = [&](size_t i) {
      ++states_[i].steps;
      note_write(parameter(i), name_, where);
    };
    for_each_run(
        begin, begin + group.parameters.size(),
        [&](size_t i) { return readiness(parameter(i), cache_->slots[i], [&] { rebuild(i); }); },
        [&](size_t a, size_t b) {
          return states_[a].steps == states_[b].steps &&
                 same_device(cache_->slots[a].parameter, cache_->slots[b].parameter);
        },
        [&](size_t first, size_t end) {
          kernels(cache_->slots[first].parameter).adam({&cache_->slots[first], end - first}, settings(first));
          for (size_t i = first; i < end; ++i) done(i);
        },
        [&](size_t i) {
          composite_step(parameter(i), settings(i), states_[i].tensors[0], states_[i].tensors[1]);
          done(i);
        });
    begin += group.parameters.size();
  }
}

}  // namespace weft::optim
