#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "fused-inl.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/pointwise.hpp"

namespace weft::optim {

struct SGD::Cache {
  std::vector<SgdSlot> slots;
};

SGD::SGD(SGD&&) noexcept = default;
SGD& SGD::operator=(SGD&&) noexcept = default;
SGD::~SGD() = default;

SGD::SGD(std::vector<Tensor> parameters, SGDOptions options, Location where)
    : Optimizer("SGD", options.momentum != 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>{},
                options.lr, options.weight_decay),
      options_(options),
      cache_(new Cache) {
  const bool negative = !(options.momentum >= 0 && options.dampening >= 0);
  if (negative || (options.nesterov && (options.momentum == 0 || options.dampening != 0))) {
    raise<ValueError>({.op = "SGD",
                       .problem = negative ? "momentum and dampening must not be negative"
                                           : "nesterov needs momentum and no dampening",
                       .details = fmt::format("momentum {}, dampening {}", options.momentum, options.dampening)},
                      where);
  }
  add_group(std::move(parameters), {}, where);
}

void SGD::forget() { cache_->slots.assign(states_.size(), {}); }

namespace {

struct SgdRule {
  using Slot = SgdSlot;
  const SGDOptions& options;

  static auto kernel(const View& parameter) { return kernels(parameter).sgd; }
  static SgdSlot slot(const View& parameter, std::span<const Tensor> state) {
    return {parameter, {}, state.empty() ? View{} : state[0].raw_view()};
  }
  static bool alike(int64_t steps, int64_t others) { return (steps == 0) == (others == 0); }

  SgdSettings settings(const Group& group, int64_t steps) const {
    return {group.lr, options.momentum, options.dampening, group.weight_decay, options.nesterov, steps == 0};
  }

  static void composite(const Tensor& parameter, const SgdSettings& s, std::span<const Tensor> state) {
    NoGradGuard unrecorded;
    const DType type = parameter.dtype() == DType::f64 ? DType::f64 : DType::f32;
    const Tensor value = parameter.to(type);
    Tensor step = parameter.grad().to(type);
    if (s.weight_decay != 0) step = step + s.weight_decay * value;
    if (!state.empty()) {
      const Tensor& buffer = state[0];
      if (s.first_step) buffer.copy_(step);
      else buffer.mul_(s.momentum).add_(step * (1 - s.dampening));
      step = s.nesterov ? step + s.momentum * buffer : buffer;
    }
    parameter.copy_(value - s.learning_rate * step);
  }
};

}  // namespace

void SGD::step(Location where) { step_by(SgdRule{options_}, cache_->slots, where); }

}  // namespace weft::optim
