#include <fmt/format.h>

#include <weft/autograd/mode.hpp>
#include <weft/nn/fused-inl.hpp>
#include <weft/ops/detail/common.hpp>
#include <weft/ops/pointwise.hpp>

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
      cache_(std::make_unique<Cache>()) {
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

void composite_step(const Tensor& parameter, const SgdSettings& s, Tensor* buffer) {
  NoGradGuard unrecorded;
  const DType type = parameter.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor value = parameter.to(type);
  Tensor step = parameter.grad().to(type);
  if (s.weight_decay != 0) step = step + s.weight_decay * value;
  if (buffer != nullptr) {
    if (s.first_step) buffer->copy_(step);
    else buffer->mul_(s.momentum).add_(step * (1 - s.dampening));
    step = s.nesterov ? step + s.momentum * *buffer : *buffer;
  }
  parameter.copy_(value - s.learning_rate * step);
}

}  // namespace

void SGD::step(Location where) {
  size_t begin = 0;
  for (const Group& group : groups_) {
    const auto parameter = [&](size_t i) -> const Tensor& { return group.parameters[i - begin]; };
    const auto rebuild = [&](size_t i) {
      State& state = states_[i];
      const Tensor& p = parameter(i);
      if (state.tensors.empty()) start(state, p);
      for (Tensor& t : state.tensors) t = t.to(p.dtype() == f64 ? f64 : f32, where).to(p.device(), where);
      if (!fusible(p) || kernels(p.raw_view()).sgd == nullptr) return;
      cache_->slots[i] = {p.raw_view(), {}, state.tensors.empty() ? View{} : state.tensors[0].raw_view()};
    };
    const auto settings = [&](size_t i) {
      return SgdSettings{group.lr,           options_.momentum, options_.dampening,
                         group.weight_decay, options_.nesterov, states_[i].steps == 0};
    };
    const auto done = [&](size_t i) {
      states_[i].steps += state_names_.empty() ? 0 : 1;
      note_write(parameter(i), name_, where);
    };
    for_each_run(
        begin, begin + group.parameters.size(),
        [&](size_t i) { return readiness(parameter(i), cache_->slots[i], [&] { rebuild(i); }); },
        [&](size_t a, size_t b) {
          return (states_[a].steps == 0) == (states_[b].steps == 0) &&
                 same_device(cache_->slots[a].parameter, cache_->slots[b].parameter);
        },
        [&](size_t first, size_t end) {
          kernels(cache_->slots[first].parameter).sgd({&cache_->slots[first], end - first}, settings(first));
          for (size_t i = first; i < end; ++i) done(i);
        },
        [&](size_t i) {
          composite_step(parameter(i), settings(i), states_[i].tensors.empty() ? nullptr : &states_[i].tensors[0]);
          done(i);
        });
    begin += group.parameters.size();
  }
}

}  // namespace weft::optim
