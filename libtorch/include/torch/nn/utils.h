// Gradient clipping and parameters as one vector.
#pragma once

#include <torch/nn/utils/rnn.h>
#include <torch/types.h>

namespace torch::nn::utils {

/// Scales the gradients so that their joint norm is at most max_norm. Returns the norm before.
double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2.0,
                       bool error_if_nonfinite = false);
double clip_grad_norm_(Tensor parameter, double max_norm, double norm_type = 2.0, bool error_if_nonfinite = false);
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);
void clip_grad_value_(Tensor parameter, double clip_value);
Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
/// Makes the parameters views of the vector.
void vector_to_parameters(const Tensor& vec, const std::vector<Tensor>& parameters);

}  // namespace torch::nn::utils
