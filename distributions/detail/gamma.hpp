// The gamma distribution: its distribution function, and draws with implicit gradients (Figurnov et al. 2018). Computed
// in f64 on the host and rounded once. Not public.
#pragma once

#include "../../tensor/index.hpp"

namespace weft::distributions::detail {

/// Draws with density x^(a - 1) exp(-x) / Γ(a), with a twice differentiable gradient to a.
Tensor gamma_draws(const Tensor& shapes, Generator* generator);

/// The regularised lower incomplete gamma function P(a, x) (DLMF 8.2.4); operands broadcast. Differentiable in both, in
/// a only once.
Tensor gamma_cdf(const Tensor& a, const Tensor& x);

/// The logarithms of gamma_draws, which are finite for small shapes; with the same derivatives.
Tensor log_gamma_draws(const Tensor& shapes, Generator* generator);

}  // namespace weft::distributions::detail
