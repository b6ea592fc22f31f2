// torch::special: special functions.
#pragma once

#include <torch/types.h>

namespace torch::special {

#define TORCH_SPECIAL(name, method) \
  inline Tensor name(const Tensor& self) { return self.method(); }
TORCH_SPECIAL(gammaln, lgamma)
TORCH_SPECIAL(digamma, digamma)
TORCH_SPECIAL(psi, digamma)
TORCH_SPECIAL(erf, erf)
TORCH_SPECIAL(erfc, erfc)
TORCH_SPECIAL(erfinv, erfinv)
TORCH_SPECIAL(expit, sigmoid)
TORCH_SPECIAL(expm1, expm1)
TORCH_SPECIAL(exp2, exp2)
TORCH_SPECIAL(log1p, log1p)
TORCH_SPECIAL(ndtri, ndtri)
TORCH_SPECIAL(i0, i0)
TORCH_SPECIAL(i0e, i0e)
TORCH_SPECIAL(i1, i1)
TORCH_SPECIAL(i1e, i1e)
TORCH_SPECIAL(sinc, sinc)
TORCH_SPECIAL(round, round)
#undef TORCH_SPECIAL
inline Tensor multigammaln(const Tensor& self, int64_t p) { return self.mvlgamma(p); }
inline Tensor polygamma(int64_t n, const Tensor& self) { return self.polygamma(n); }
inline Tensor logit(const Tensor& self, optional<double> eps = nullopt) { return self.logit(eps); }
inline Tensor logsumexp(const Tensor& self, IntArrayRef dim, bool keepdim = false) {
  return self.logsumexp(dim, keepdim);
}
inline Tensor softmax(const Tensor& self, int64_t dim, optional<ScalarType> dtype = nullopt) {
  return self.softmax(dim, dtype);
}
inline Tensor log_softmax(const Tensor& self, int64_t dim, optional<ScalarType> dtype = nullopt) {
  return self.log_softmax(dim, dtype);
}
inline Tensor xlogy(const at::Operand& self, const at::Operand& other) { return weft::xlogy(self, other); }
inline Tensor xlog1py(const at::Operand& self, const at::Operand& other) { return weft::xlog1py(self, other); }
/// The distribution function of the normal distribution: erfc(-x / sqrt(2)) / 2.
inline Tensor ndtr(const Tensor& self) { return (self * -0.7071067811865476).erfc() * 0.5; }
/// -x log(x); 0 at 0, -inf below.
inline Tensor entr(const Tensor& self) {
  return weft::where(self < 0, -std::numeric_limits<double>::infinity(), -weft::xlogy(self, self));
}

}  // namespace torch::special
