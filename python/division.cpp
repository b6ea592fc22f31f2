// Quotients and rests of integers, exact in all 64 bits: what // and % are until there is an op for them.
#include <weft/ops/create.hpp>

#include "caster.hpp"

namespace weft::python {

namespace {

int64_t quotient(int64_t a, int64_t b, bool down) {
  if (b == -1) return static_cast<int64_t>(-static_cast<uint64_t>(a));  // the lowest number has no opposite: it stays
  const bool below = down && a % b != 0 && (a < 0) != (b < 0);
  return a / b - (below ? 1 : 0);
}

// a and b are contiguous int64 on the CPU, of one shape.
Tensor divide_integers(const Tensor& a, const Tensor& b, bool down, bool rest) {
  const Location where = here();
  if (a.sizes().size() != b.sizes().size() || a.numel() != b.numel() || !a.is_contiguous() || !b.is_contiguous() ||
      !a.device().is_cpu() || !b.device().is_cpu()) {
    throw_error(PyExc_ValueError, "integer division takes contiguous tensors of one shape");
  }
  const int64_t *x = a.data<int64_t>(where), *y = b.data<int64_t>(where);
  const Tensor out = empty(a.shape(), DType::i64, where);
  auto* to = out.data<int64_t>(where);
  for (int64_t i = 0; i < out.numel(); ++i) {
    if (y[i] == 0) throw_error(PyExc_ZeroDivisionError, "integer division by zero");
    const auto q = static_cast<uint64_t>(quotient(x[i], y[i], down));
    to[i] = static_cast<int64_t>(rest ? static_cast<uint64_t>(x[i]) - q * static_cast<uint64_t>(y[i]) : q);
  }
  return out;
}

}  // namespace

void bind_division(nb::module_& m) {
  m.def("_divide_integers", divide_integers, nb::arg("a"), nb::arg("b"), nb::arg("down"), nb::arg("rest"));
}

}  // namespace weft::python
