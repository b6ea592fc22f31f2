// The gamma distribution's numbers: its distribution function, and draws with implicit gradients (Figurnov et al.
// 2018). Computed in f64 on the host and rounded once. Not public.
#pragma once

#include "../../tensor/index.hpp"

namespace weft::distributions::detail {

/// Draws with density x^(a - 1) exp(-x) / Γ(a), and a gradient to a, which can be differentiated once more.
Tensor gamma_draws(const Tensor& shapes, Generator* generator);

/// The regularised lower incomplete gamma function P(a, x) (DLMF 8.2.4); operands broadcast. Gradients to both, first
/// ones to a.
Tensor gamma_cdf(const Tensor& a, const Tensor& x);

/// Their logarithms, which small shapes leave finite; the same derivatives.
Tensor log_gamma_draws(const Tensor& shapes, Generator* generator);

}  // namespace weft::distributions::detail
