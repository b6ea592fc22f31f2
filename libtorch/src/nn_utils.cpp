#include <torch/nn/utils.h>

#include <cmath>

#include <weft/optim/clip_grad.hpp>

namespace torch::nn::utils {

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  std::vector<weft::Tensor> with_gradient;
  for (const Tensor& parameter : parameters) {
    if (parameter.grad().defined()) with_gradient.push_back(parameter);
  }
  if (with_gradient.empty()) return 0;
  const weft::Tensor total = weft::optim::total_grad_norm(with_gradient, norm_type);
  const double norm = total.item<double>();
  TORCH_CHECK(!error_if_nonfinite || std::isfinite(norm), "The total norm of order ", norm_type,
              " for gradients from `parameters` is non-finite, so it cannot be clipped. To disable this error and "
              "scale the gradients with the non-finite norm anyway, set `error_if_nonfinite=false`");
  weft::optim::clip_grads_with_norm_(with_gradient, max_norm, total);
  return norm;
}
double clip_grad_norm_(Tensor parameter, double max_norm, double norm_type, bool error_if_nonfinite) {
  return clip_grad_norm_(std::vector<Tensor>{std::move(parameter)}, max_norm, norm_type, error_if_nonfinite);
}
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  for (const Tensor& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (gradient.defined()) gradient.detach().clamp_(-clip_value, clip_value);
  }
}
void clip_grad_value_(Tensor parameter, double clip_value) {
  clip_grad_value_(std::vector<Tensor>{std::move(parameter)}, clip_value);
}

namespace {
void check_device(const Tensor& parameter, optional<Device>& device) {
  if (!device) device = parameter.device();
  TORCH_CHECK(parameter.device() == *device,
              "Found two parameters on different devices, this is currently not supported.");
}
}  // namespace

Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  optional<Device> device;
  std::vector<Tensor> parts;
  for (const Tensor& parameter : parameters) {
    check_device(parameter, device);
    parts.push_back(parameter.reshape({-1}));
  }
  return at::cat(parts);
}
void vector_to_parameters(const Tensor& vec, const std::vector<Tensor>& parameters) {
  optional<Device> device;
  int64_t at = 0;
  for (const Tensor& parameter : parameters) {
    check_device(parameter, device);
    parameter.set_data(vec.detach().slice(0, at, at + parameter.numel()).view_as(parameter));
    at += parameter.numel();
  }
}

}  // namespace torch::nn::utils
