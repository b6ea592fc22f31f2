#include "step_form-inl.hpp"

#include <algorithm>
#include <cstdlib>

#include "../../autograd/mode.hpp"
#include "../../nn/module_state-inl.hpp"
#include "../../ops/create.hpp"
#include "../../tensor/impl.hpp"

namespace weft::io {

namespace {

void note_strides(const std::string& name, const Tensor& x, std::map<std::string, Dims>& strides) {
  if (!x.is_contiguous()) strides.emplace(name, x.strides());
}

}  // namespace

Tensor with_strides(const Tensor& x, const Dims& strides) {
  if (strides.size() != x.dim() || x.numel() == 0 || x.strides() == strides) return x;
  std::vector<int> by_stride;
  for (int d = 0; d < x.dim(); ++d) by_stride.push_back(d);
  const auto magnitude = [&](int d) {
    const auto step = static_cast<uint64_t>(strides[d]);
    return strides[d] < 0 ? uint64_t{0} - step : step;
  };
  std::ranges::stable_sort(by_stride, {}, magnitude);
  // Broadcast elements are stored once; the strides must not overlap others, and may leave gaps of up to 64 M elements.
  const int64_t limit = x.numel() + (int64_t{64} << 20);
  int64_t places = 1, offset = 0;
  Tensor once = x;
  for (const int d : by_stride) {
    const int64_t size = x.size(d), step = strides[d];
    if (size == 1) continue;
    if (step == 0) {
      once = once.narrow(d, 0, 1);
      continue;
    }
    if (step <= -limit || step >= limit || std::abs(step) < places || size - 1 > (limit - places) / std::abs(step))
      return x;
    places += (size - 1) * std::abs(step);
    if (step < 0) offset -= (size - 1) * step;
  }
  const Tensor memory = zeros({places}, {x.dtype(), x.device()});
  memory.as_strided(once.shape(), strides, offset).copy_(once);
  return memory.as_strided(x.shape(), strides, offset);
}

StepForm StepForm::of(const nn::Module& module, const TensorMap& batch) {
  StepForm form;
  for (const auto& [path, part] : module.named_modules()) {
    if (!part.is_training()) form.evaluating.push_back(path);
  }
  for (const auto& [name, p] : module.named_parameters()) {
    note_strides(name, p, form.weights);
    if (p.grad().defined()) note_strides(name, p.grad(), form.gradients);
  }
  for (const auto& [name, x] : batch) note_strides(name, x, form.batch);
  return form;
}

void StepForm::restore(const nn::Module& module, Location where) const {
  const NoGradGuard unrecorded;
  for (auto& [path, part] : module.named_modules()) {  // a module's train() also sets its children
    part.train(std::ranges::find(evaluating, path) == evaluating.end());
  }
  for (const auto& [name, p] : module.named_parameters()) {
    const auto strides = weights.find(name);
    const Tensor ordered = strides != weights.end() ? with_strides(p.detach(), strides->second)
                           : p.is_contiguous()      ? p
                                                    : p.detach().clone().contiguous();
    if (!ordered.shares_storage(p) && p.impl()->mobility == Mobility::movable)
      nn::detail::replace_memory(p, ordered, where);
    const auto of_gradient = gradients.find(name);
    if (of_gradient != gradients.end() && p.grad().defined()) {
      p.set_grad(with_strides(p.grad(), of_gradient->second), where);
    }
  }
}

}  // namespace weft::io
