#include <fmt/format.h>

#include "../detail/autocast.hpp"
#include "../detail/common.hpp"
#include "../detail/reducing.hpp"
#include "../fused.hpp"
#include "../matmul.hpp"
#include "../norm.hpp"
#include "../pointwise.hpp"
#include "activate-inl.hpp"
#include "mlp-inl.hpp"
#include "recompute-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

void check_operand(const Tensor& x, const Tensor& t) {
  check_floating(checked(t));
  check_same_device({&x, &t});
  expect_one_dtype("x and weights", x, t, "convert one with to(dtype)");
}

/// The weight as [in, out].
Tensor upright(const Tensor& weight, bool transposed) { return transposed ? weight.t() : weight; }

}  // namespace

void check_mlp(const Tensor& x, const Tensor& proj, const Tensor& up, const Tensor& down, bool transposed) {
  check_floating(checked(x));
  check_operand(x, proj);
  check_operand(x, down);
  if (up.defined()) check_operand(x, up);
  expect_shape("x", x, x.dim() >= 1, "[..., H]");
  const int in = transposed ? 1 : 0, out = 1 - in;
  const auto matrix = [&](const std::string& a, const std::string& b) {
    return transposed ? fmt::format("[{}, {}]", b, a) : fmt::format("[{}, {}]", a, b);
  };
  const std::string h = std::to_string(x.size(-1));
  if (proj.dim() != 2 || proj.size(in) != x.size(-1)) raise_shape("proj", matrix(h, up.defined() ? "F" : "2 F"), proj);
  const int64_t f = up.defined() ? proj.size(out) : proj.size(out) / 2;
  if (!up.defined() && proj.size(out) % 2 != 0) {
    raise<ShapeError>({.problem = fmt::format("proj has {} outputs, which are no gate and up alike", proj.size(out))});
  }
  if (up.defined()) expect_shape("up", up, proj.shape());
  if (down.dim() != 2 || down.size(in) != f) raise_shape("down", matrix(std::to_string(f), "H'"), down);
}

MlpWeights mlp_weights(const Tensor& proj, const Tensor& up, const Tensor& down, bool transposed) {
  const Tensor first = upright(proj, transposed);
  const int64_t f = up.defined() ? first.size(1) : first.size(1) / 2;
  return {first.narrow(1, 0, f), up.defined() ? upright(up, transposed) : first.narrow(1, f, f),
          upright(down, transposed)};
}

Tensor mlp_by_ops(const Tensor& x, const MlpWeights& w, Activation activation) {
  const Tensor gate = matmul(x, w.gate), up = matmul(x, w.up);
  return matmul(activation == Activation::silu ? swiglu(gate, up) : activated(gate, activation) * up, w.down);
}

bool mlp_by_kernel(const Tensor& out, const Tensor& hidden, const Tensor& x, const MlpWeights& w,
                   Activation activation) {
  return product_by_kernel(hidden, x.raw_view(), w.gate.raw_view(), w.up.raw_view(), View(), activation) &&
         product_by_kernel(out, hidden.raw_view(), w.down.raw_view(), View(), View(), Activation::none);
}

Tensor fused_mlp(const Tensor& x, const Tensor& proj, const Tensor& up, const Tensor& down, bool transposed_weights,
                 Activation activation, Location where) {
  const CallScope call("fused_mlp", where);
  WEFT_IN_LOWER(fused_mlp, x, proj, up, down, transposed_weights, activation, where);
  check_mlp(x, proj, up, down, transposed_weights);
  check_activation(activation);
  const auto compose = [transposed_weights, activation](std::span<const Tensor> in) {
    return mlp_by_ops(in[0], mlp_weights(in[1], in[2], in[3], transposed_weights), activation);
  };
  Tensor out;
  {
    const NoGradGuard unrecorded;
    const MlpWeights w = mlp_weights(proj, up, down, transposed_weights);
    const Tensor rows = rows_of_last(x);
    Dims shape = x.shape();
    shape[shape.size() - 1] = w.down.size(1);
    out = make(Dims{rows.size(0), w.down.size(1)}, x.dtype(), x.device());
    const Tensor hidden = make(Dims{rows.size(0), w.down.size(0)}, x.dtype(), x.device());
    if (mlp_by_kernel(out, hidden, rows, w, activation)) out = with_shape(out, shape);
    else out = Tensor();
  }
  const Tensor inputs[] = {x, proj, up, down};
  if (!out.defined()) return compose(inputs);
  if (should_record(x, proj, up, down)) record(out, Recomputed::of(inputs, compose), x, proj, up, down);
  return out;
}

Tensor fused_rms_mlp(const Tensor& x, const Tensor& ln_weight, const Tensor& proj, const Tensor& down, double eps,
                     bool transposed_weights, Location where) {
  const CallScope call("fused_rms_mlp", where);
  check_mlp(x, proj, {}, down, transposed_weights);
  return fused_mlp(rms_norm(x, {x.size(-1)}, ln_weight, eps), proj, {}, down, transposed_weights);
}

std::tuple<Tensor, Tensor> fused_rms_mlp_res(const Tensor& x, const Tensor& ln_weight, const Tensor& proj,
                                             const Tensor& down, const Tensor& residual, double eps,
                                             bool transposed_weights, Location where) {
  const CallScope call("fused_rms_mlp_res", where);
  check_mlp(x, proj, {}, down, transposed_weights);
  const auto [normed, sum] = fused_rms_norm_residual(x, residual, {}, ln_weight, eps);
  return {fused_mlp(normed, proj, {}, down, transposed_weights), sum};
}

Tensor fused_rms_mlp_res_(const Tensor& x, const Tensor& ln_weight, const Tensor& proj, const Tensor& down,
                          const Tensor& residual, double eps, bool transposed_weights, Location where) {
  const CallScope call("fused_rms_mlp_res_", where);
  check_mlp(x, proj, {}, down, transposed_weights);
  check_rms_norm_residual(x, residual, {}, ln_weight);
  residual.add_(x);
  return fused_mlp(rms_norm(residual, {x.size(-1)}, ln_weight, eps), proj, {}, down, transposed_weights);
}

}  // namespace weft
