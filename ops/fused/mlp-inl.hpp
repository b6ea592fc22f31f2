// The layers between which fused ops and mixtures of experts share their parts. Not public.
#pragma once

#include "../../backends/activation.hpp"
#include "../../tensor/tensor.hpp"

namespace weft {

/// [H, F], [H, F] and [F, H'].
struct MlpWeights {
  Tensor gate, up, down;
};

/// The errors of fused_mlp; `up` may be undefined.
void check_mlp(const Tensor& x, const Tensor& proj, const Tensor& up, const Tensor& down, bool transposed);
/// Views of the operands.
MlpWeights mlp_weights(const Tensor& proj, const Tensor& up, const Tensor& down, bool transposed);
/// (activation(x gate) ⊙ (x up)) down, recorded.
Tensor mlp_by_ops(const Tensor& x, const MlpWeights& w, Activation activation);
/// The same for x [rows, H] by kernels into out [rows, H'], with the intermediate activations in `hidden` [rows, F].
/// False if the device has no kernel, or if a sum would be empty.
bool mlp_by_kernel(const Tensor& out, const Tensor& hidden, const Tensor& x, const MlpWeights& w,
                   Activation activation);

/// The errors of fused_rms_norm_residual.
void check_rms_norm_residual(const Tensor& x, const Tensor& residual, const Tensor& bias, const Tensor& weight);

}  // namespace weft
