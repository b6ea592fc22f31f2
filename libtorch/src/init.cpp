#include <torch/nn/init.h>

#include <weft/nn/init.hpp>

namespace torch::nn::init {

namespace {

using weft::nn::init::Nonlinearity;

struct NonlinearityOf {
  Nonlinearity operator()(enumtype::kSigmoid) const { return Nonlinearity::sigmoid; }
  Nonlinearity operator()(enumtype::kTanh) const { return Nonlinearity::tanh; }
  Nonlinearity operator()(enumtype::kReLU) const { return Nonlinearity::relu; }
  Nonlinearity operator()(enumtype::kLeakyReLU) const { return Nonlinearity::leaky_relu; }
  template <class Layer>
  Nonlinearity operator()(Layer) const {
    return Nonlinearity::linear;
  }
};

weft::nn::init::KaimingOptions kaiming(double a, const FanModeType& mode, const NonlinearityType& nonlinearity) {
  return {.a = a,
          .mode = std::holds_alternative<enumtype::kFanIn>(mode) ? weft::nn::init::Fan::in : weft::nn::init::Fan::out,
          .nonlinearity = std::visit(NonlinearityOf(), nonlinearity)};
}

}  // namespace

double calculate_gain(NonlinearityType nonlinearity, double param) {
  return weft::nn::init::calculate_gain(std::visit(NonlinearityOf(), nonlinearity), param);
}
Tensor constant_(Tensor tensor, Scalar value) { return weft::nn::init::constant_(tensor, value); }
Tensor dirac_(Tensor tensor) { return weft::nn::init::dirac_(tensor); }
Tensor eye_(Tensor matrix) { return weft::nn::init::eye_(matrix); }
Tensor normal_(Tensor tensor, double mean, double std) { return weft::nn::init::normal_(tensor, mean, std); }
Tensor ones_(Tensor tensor) { return weft::nn::init::ones_(tensor); }
Tensor zeros_(Tensor tensor) { return weft::nn::init::zeros_(tensor); }
Tensor orthogonal_(Tensor tensor, double gain) { return weft::nn::init::orthogonal_(tensor, gain); }
Tensor sparse_(Tensor tensor, double sparsity, double std) { return weft::nn::init::sparse_(tensor, sparsity, std); }
Tensor uniform_(Tensor tensor, double low, double high) { return weft::nn::init::uniform_(tensor, low, high); }
Tensor kaiming_normal_(Tensor tensor, double a, FanModeType mode, NonlinearityType nonlinearity) {
  return weft::nn::init::kaiming_normal_(tensor, kaiming(a, mode, nonlinearity));
}
Tensor kaiming_uniform_(Tensor tensor, double a, FanModeType mode, NonlinearityType nonlinearity) {
  return weft::nn::init::kaiming_uniform_(tensor, kaiming(a, mode, nonlinearity));
}
Tensor xavier_normal_(Tensor tensor, double gain) { return weft::nn::init::xavier_normal_(tensor, gain); }
Tensor xavier_uniform_(Tensor tensor, double gain) { return weft::nn::init::xavier_uniform_(tensor, gain); }

std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor& tensor) {
  TORCH_CHECK(tensor.dim() >= 2, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
  int64_t field = 1;
  for (int64_t i = 2; i < tensor.dim(); ++i) field *= tensor.size(i);
  return {tensor.size(1) * field, tensor.size(0) * field};
}

}  // namespace torch::nn::init
