#include <fmt/format.h>

#include "../../tensor/index.hpp"
#include "../detail/autocast.hpp"
#include "../detail/common.hpp"
#include "../detail/reducing.hpp"
#include "../fused.hpp"
#include "../norm.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "mlp-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

void check_line(const char* what, const Tensor& x, const Tensor& line) {
  if (!line.defined()) return;
  check_floating(line);
  check_same_device({&x, &line});
  expect_shape(what, line, Dims{x.size(-1)});
}

/// f64 mixes with nothing else in kernels; the smaller floats do.
Tensor fitting(const Tensor& line, const Tensor& x) {
  if (!line.defined()) return line;
  const bool convert = (line.dtype() == DType::f64) != (x.dtype() == DType::f64);
  return (convert ? line.to(x.dtype()) : line).contiguous();
}

View as_rows(const Tensor& t) {
  const int64_t n = t.size(-1);
  return reshaped_view(t.raw_view(), Dims{n == 0 ? 0 : t.numel() / n, n});
}
View view_or_none(const Tensor& t) { return t.defined() ? t.raw_view() : View(); }

Tensor summed(const Tensor& x, const Tensor& residual, const Tensor& bias) {
  Tensor sum = to_compute_type(x) + to_compute_type(residual);
  if (bias.defined()) sum = std::move(sum) + bias.to(compute_type(x.dtype()));
  return sum.to(x.dtype());
}

/// Of (normed, sum) by (x, residual, bias, weight): the two terms have one gradient.
struct ResidualBackward {
  SavedOutput sum;
  Saved weight;
  Tensor rstd;
  double eps;
  DType bias_dtype;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor s = sum.get(self, 1), w = weight.defined() ? weight.get(self) : Tensor();
    Tensor by_sum = incoming[1];
    if (incoming[0].defined()) {
      Tensor by_norm;
      if (recording()) by_ops(self, incoming[0], s, w, by_norm, outgoing[3]);
      else by_kernel(self, incoming[0].contiguous(), s, w, by_norm, outgoing[3]);
      by_sum = by_sum.defined() ? by_norm + by_sum : by_norm;
    }
    for (int i = 0; i < 2; ++i) {
      if (self.wants(i)) outgoing[i] = by_sum;
    }
    if (self.wants(2)) outgoing[2] = sum_to(to_compute_type(by_sum), by_sum.sizes().last(1)).to(bias_dtype);
  }

  void by_kernel(Node& self, const Tensor& g, const Tensor& s, const Tensor& w, Tensor& ds, Tensor& dw) const {
    ds = make_like(s);
    if (self.wants(3)) dw = make_like(w);
    WEFT_KERNEL(rms_norm_gradient, s)
    (as_rows(ds), view_or_none(dw), as_rows(g), as_rows(s), rstd.raw_view(), view_or_none(w));
  }
  void by_ops(Node& self, const Tensor& gradient, const Tensor& s, const Tensor& w, Tensor& ds, Tensor& dw) const {
    const Tensor g = to_compute_type(gradient), wide = to_compute_type(s);
    const Tensor inverse = rsqrt(mean(square(wide), {-1}, true) + eps), values = wide * inverse;
    const Tensor gw = w.defined() ? g * w : g;
    ds = ((gw - values * mean(gw * values, {-1}, true)) * inverse).to(s.dtype());
    if (self.wants(3)) dw = sum_to(g * values, s.sizes().last(1)).to(w.dtype());
  }
};

void record_both(const Tensor& normed, const Tensor& sum, const Tensor& x, const Tensor& residual, const Tensor& bias,
                 const Tensor& weight, const Tensor& rstd, double eps) {
  const Tensor inputs[] = {x, residual, bias, weight};
  const Saved kept = weight.defined() ? Saved(weight) : Saved();
  ResidualBackward backward{SavedOutput(sum), kept, rstd, eps, bias.defined() ? bias.dtype() : DType::f32};
  GeneralNode* const node = make_general_node(inputs, 2, std::move(backward));
  set_history(normed.impl(), node, 0);
  node->refs.increment();
  set_history(sum.impl(), node, 1);
}

}  // namespace

void check_rms_norm_residual(const Tensor& x, const Tensor& residual, const Tensor& bias, const Tensor& weight) {
  check_floating(checked(x));
  check_floating(checked(residual));
  check_same_device({&x, &residual});
  expect_one_dtype("x and residual", x, residual, "convert one with to(dtype)");
  if (x.dim() < 1 || x.shape() != residual.shape()) {
    raise<ShapeError>({.problem = fmt::format("x {} and the residual {} are not [..., H] alike", x.shape().text(),
                                              residual.shape().text())});
  }
  check_line("bias", x, bias);
  check_line("weight", x, weight);
}

std::tuple<Tensor, Tensor> fused_rms_norm_residual(const Tensor& given, const Tensor& residual, const Tensor& bias,
                                                   const Tensor& weight, double eps, Location where) {
  const CallScope call("fused_rms_norm_residual", where);
  WEFT_IN_FULL(fused_rms_norm_residual, given, residual, bias, weight, eps, where);
  check_rms_norm_residual(given, residual, bias, weight);
  const auto kernel = kernels(given.raw_view()).rms_norm_residual;
  if (kernel == nullptr || given.numel() == 0) {
    const Tensor sum = summed(given, residual, bias);
    return {rms_norm(sum, {given.size(-1)}, weight, eps), sum};
  }
  const Tensor x = given.contiguous(), r = residual.contiguous(), b = fitting(bias, x), w = fitting(weight, x);
  const Tensor normed = make_like(x), sum = make_like(x);
  const Tensor rstd = make(Dims{x.numel() / x.size(-1)}, compute_type(x.dtype()), x.device());
  kernel(as_rows(normed), as_rows(sum), rstd.raw_view(), as_rows(x), as_rows(r), view_or_none(b), view_or_none(w), eps);
  if (should_record(x, r, b, w)) record_both(normed, sum, x, r, b, w, rstd, eps);
  return {normed, sum};
}

}  // namespace weft
