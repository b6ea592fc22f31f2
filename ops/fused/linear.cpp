#include "../../tensor/settings.hpp"
#include "../detail/autocast.hpp"
#include "../detail/common.hpp"
#include "../detail/linear.hpp"
#include "../../backends/functors/lists.hpp"
#include "../detail/reducing.hpp"
#include "../detail/reuse.hpp"
#include "../masked.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "activate-inl.hpp"

namespace weft {

namespace {

/// The gradient where the output of relu is positive.
Tensor passed(Tensor&& g, const Tensor& output) {
  const auto kernel = kernels(g.raw_view()).unary_gradient;
  if (recording() || kernel == nullptr) return masked_fill(g, output.detach() <= 0, 0);
  const View from = g.raw_view();  // lives on in `out`
  Tensor out = can_reuse_as_result(g) ? as_result(std::move(g)) : make_like(g);
  kernel(UnaryOp::relu, out.raw_view(), from, output.raw_view());
  return out;
}

/// Relu's node behind linear's. Two of them, so that the output is freed before linear's gradients are made.
void record_relu(const Tensor& out, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor product = make(out.sizes(), out.dtype(), Device(DeviceType::meta));  // it was never stored
  record_linear(product, x, weight, bias);
  record(
      out,
      [output = SavedOutput(out)](Node& self, Tensor&& g) mutable { return passed(std::move(g), output.get(self)); },
      product);
}

/// The fused form is used only if it needs no more memory than a linear and an activation: activations other than relu
/// need their input for the gradient.
bool is_fused(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  static const bool off = detail::is_switched_off("WEFT_FUSED_LINEAR");
  if (off || activation == Activation::none || weight.dim() != 2) return false;
  const DType dtype = x.dtype();
  if (!is_floating(dtype) || is_storage_only(dtype) || kernels(x.raw_view()).activated_product == nullptr) return false;
  return activation == Activation::relu || !should_record(x, weight, bias);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation, Location where) {
  const CallScope call("linear", where);
  WEFT_IN_LOWER(linear, x, weight, bias, activation, where);
  check_activation(activation);
  if (!is_fused(checked(x), checked(weight), bias, activation)) return activated(linear(x, weight, bias), activation);
  check_linear(x, weight, bias);
  Tensor out;
  {
    const NoGradGuard unrecorded;
    const Tensor rows = rows_of_last(x), w = weight.t();
    Dims shape = x.shape();
    shape[shape.size() - 1] = weight.size(0);
    out = make(Dims{rows.size(0), weight.size(0)}, x.dtype(), x.device());
    const View added = bias.defined() ? bias.raw_view() : View();
    if (product_by_kernel(out, rows.raw_view(), w.raw_view(), View(), added, activation)) out = with_shape(out, shape);
    else out = Tensor();
  }
  if (!out.defined()) return activated(linear(x, weight, bias), activation);
  if (should_record(x, weight, bias)) record_relu(out, x, weight, bias);
  return out;
}

}  // namespace weft
