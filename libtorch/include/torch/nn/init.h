// Initial values.
#pragma once

#include <variant>

#include <torch/enum.h>
#include <torch/types.h>

namespace torch::nn::init {

using NonlinearityType =
    std::variant<enumtype::kLinear, enumtype::kConv1D, enumtype::kConv2D, enumtype::kConv3D, enumtype::kConvTranspose1D,
                 enumtype::kConvTranspose2D, enumtype::kConvTranspose3D, enumtype::kSigmoid, enumtype::kTanh,
                 enumtype::kReLU, enumtype::kLeakyReLU>;
using FanModeType = std::variant<enumtype::kFanIn, enumtype::kFanOut>;

/// The recommended factor for a layer before this function.
double calculate_gain(NonlinearityType nonlinearity, double param = 0.01);
Tensor constant_(Tensor tensor, Scalar value);
Tensor dirac_(Tensor tensor);
Tensor eye_(Tensor matrix);
Tensor normal_(Tensor tensor, double mean = 0, double std = 1);
Tensor ones_(Tensor tensor);
Tensor orthogonal_(Tensor tensor, double gain = 1.0);
Tensor sparse_(Tensor tensor, double sparsity, double std = 0.01);
Tensor uniform_(Tensor tensor, double low = 0, double high = 1);
Tensor kaiming_normal_(Tensor tensor, double a = 0, FanModeType mode = torch::kFanIn,
                       NonlinearityType nonlinearity = torch::kLeakyReLU);
Tensor kaiming_uniform_(Tensor tensor, double a = 0, FanModeType mode = torch::kFanIn,
                        NonlinearityType nonlinearity = torch::kLeakyReLU);
Tensor xavier_normal_(Tensor tensor, double gain = 1.0);
Tensor xavier_uniform_(Tensor tensor, double gain = 1.0);
Tensor zeros_(Tensor tensor);
std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor& tensor);

}  // namespace torch::nn::init
