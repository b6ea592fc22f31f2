#include <cmath>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "fused-inl.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/pointwise.hpp"

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
      cache_(new Cache) {
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

struct AdamRule {
  using Slot = AdamSlot;
  const AdamOptions& options;
  bool decoupled;

  static auto kernel(const View& parameter) { return kernels(parameter).adam; }
  static AdamSlot slot(const View& parameter, std::span<const Tensor> state) {
    return {parameter, {}, state[0].raw_view(), state[1].raw_view()};
  }
  static bool alike(int64_t steps, int64_t others) { return steps == others; }

  AdamSettings settings(const Group& group, int64_t steps) const {
    const auto t = static_cast<double>(steps + 1);
    return {group.lr,
            options.beta1,
            options.beta2,
            options.eps,
            group.weight_decay,
            1 - std::pow(options.beta1, t),
            1 - std::pow(options.beta2, t),
            decoupled};
  }

  static void composite(const Tensor& parameter, const AdamSettings& s, std::span<const Tensor> state) {
    NoGradGuard unrecorded;
    const Tensor &first = state[0], &second = state[1];
    const Tensor value = parameter.to(first.dtype());
    Tensor gradient = parameter.grad().to(first.dtype());
    if (!s.decoupled && s.weight_decay != 0) gradient = gradient + s.weight_decay * value;
    first.add_((gradient - first) * (1 - s.beta1));
    second.mul_(s.beta2).add_(gradient * gradient * (1 - s.beta2));
    const Tensor denominator = sqrt(second) / std::sqrt(s.bias_correction2) + s.epsilon;
    const double decay = s.decoupled ? 1 - s.learning_rate * s.weight_decay : 1;
    parameter.copy_(value * decay - (s.learning_rate / s.bias_correction1) * (first / denominator));
  }
};

}  // namespace

void Adam::step(Location where) { step_by(AdamRule{options_, decoupled_}, cache_->slots, where); }

}  // namespace weft::optim
