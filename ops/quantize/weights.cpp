#include <algorithm>
#include <cmath>

#include "../../autograd/mode.hpp"
#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../join.hpp"
#include "../matmul.hpp"
#include "../pad.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "blocks-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

void check_format(int64_t bits, int64_t group_size) {
  if (bits != 8 && bits != 4) raise_value("bits", "8 or 4", bits);
  if (group_size < 0 || (bits == 4 && group_size % 2 != 0)) {
    raise<ValueError>({.problem = fmt::format("groups of {} columns with {} bits", group_size, bits),
                       .remedy = "0 for all of a row, or an even number such as 128"});
  }
}

/// How many columns a group of a row of k has, at least 1.
int64_t width_of(int64_t group_size, int64_t k) { return std::max<int64_t>(group_size == 0 ? k : group_size, 1); }

/// [n, k] as [n, groups, width], the last group filled up with its row's last column.
Tensor in_groups(const Tensor& w, int64_t width) {
  const int64_t groups = blocks_of(w.size(1), width), missing = groups * width - w.size(1);
  const Tensor whole = missing == 0 ? w : pad(w, {0, missing}, Padding::replicate);
  return whole.reshape({w.size(0), groups, width});
}

/// Codes 0 to 15 by pairs.
Tensor packed_pairs(const Tensor& codes) {
  const int64_t n = codes.size(0), k = codes.size(1);
  const Tensor even = k % 2 == 0 ? codes : pad(codes, {0, 1});
  const Tensor pairs = even.reshape({n, (k + 1) / 2, 2});
  return (pairs.select(2, 0) + pairs.select(2, 1) * 16).to(DType::u8);
}

QuantizedWeight empty_weight(const Tensor& w, const WeightQuantOptions& o, int64_t width) {
  const int64_t n = w.size(0), k = w.size(1);
  const DType dtype = o.bits == 8 && o.symmetric ? DType::i8 : DType::u8;
  const Dims scales{n, blocks_of(k, width)};
  return {make(Dims{n, o.bits == 8 ? k : blocks_of(k, 2)}, dtype, w.device()), make(scales, DType::f32, w.device()),
          make(o.symmetric ? Dims{0, 0} : scales, DType::f32, w.device())};
}

/// On the host, in f64, so that differences of the largest numbers are none.
QuantizedWeight quantized_on_host(const Tensor& w, const WeightQuantOptions& o, int64_t width) {
  const Tensor groups = in_groups(w.to(DType::f64), width);
  const double largest_number = o.symmetric ? (o.bits == 8 ? 127 : 7) : (o.bits == 8 ? 255 : 15);
  const Tensor low = amin(groups, {2}, true), high = amax(groups, {2}, true);
  const Tensor zero = o.symmetric ? zeros_like(low) : low.to(DType::f32).to(DType::f64);
  const Tensor range = o.symmetric ? maximum(-low, high) : high - zero;
  const Tensor scale = (range / largest_number).to(DType::f32).to(DType::f64);
  const Tensor step = where(scale == 0, 1, scale);
  Tensor codes = clip(round((groups - zero) / step), o.symmetric ? -largest_number : 0, largest_number);
  if (o.bits == 4 && o.symmetric) codes = codes + 8;
  codes = codes.reshape({w.size(0), -1}).narrow(1, 0, w.size(1));
  const auto table = [](const Tensor& t) { return t.squeeze(2).to(DType::f32).contiguous(); };
  return {o.bits == 4 ? packed_pairs(codes.to(DType::i32)) : codes.to(o.symmetric ? DType::i8 : DType::u8).contiguous(),
          table(scale), o.symmetric ? zeros({0, 0}, DType::f32) : table(zero)};
}

}  // namespace

QuantizedWeight quantize_weight(const Tensor& weight, const WeightQuantOptions& options, Location where) {
  const CallScope call("quantize_weight", where);
  check_floating(checked(weight));
  expect_matrix("weight", weight);
  check_format(options.bits, options.group_size);
  const int64_t width = width_of(options.group_size, weight.size(1));
  if (weight.numel() == 0 || is_meta(weight)) return empty_weight(weight, options, width);
  const NoGradGuard unrecorded;
  const Tensor w = weight.detach().to(Device());
  check_elements([w] {
    if (!all(isfinite(w)).item<bool>()) raise<ValueError>({.problem = "the weight has numbers that are not finite"});
  });
  QuantizedWeight out = quantized_on_host(w, options, width);
  const Device device = weight.device();
  return {out.codes.to(device), out.scale.to(device), out.zero.to(device)};
}

// ---- use ------------------------------------------------------------------------------------------------------------

namespace {

Tensor given(const std::optional<Tensor>& t) {
  return t && t->defined() && (t->dim() != 2 || t->numel() > 0) ? *t : Tensor();
}

/// Codes with all that is needed to read them.
struct Packed {
  Tensor codes, scale, zero;
  int64_t columns, bits, width;
};

Packed checked_weight(const Tensor& codes, const Tensor& scale, const QuantizedLinearOptions& o, int64_t columns) {
  check_format(o.bits, o.group_size);
  Packed w{checked(codes), checked(scale), given(o.zero), columns, o.bits, width_of(o.group_size, columns)};
  const bool fits = codes.dtype() == DType::u8 || (o.bits == 8 && codes.dtype() == DType::i8);
  expect_dtype("codes", codes, fits, o.bits == 8 ? "int8 or uint8" : "uint8");
  expect_shape("codes", codes, codes.dim() == 2 && codes.size(1) == (o.bits == 8 ? columns : blocks_of(columns, 2)),
               "[n, {}]", o.bits == 8 ? columns : blocks_of(columns, 2));
  const Dims scales{codes.size(0), blocks_of(columns, w.width)};
  for (const Tensor* t : {&w.scale, &w.zero}) {
    if (!t->defined()) continue;
    const bool is_scale = t->dtype() == DType::f32 || t->dtype() == DType::f64;
    expect_dtype(t == &w.scale ? "scale" : "zero", *t, is_scale, "float32 or float64");
    expect_shape(t == &w.scale ? "scale" : "zero", *t, scales);
  }
  check_same_device({&w.codes, &w.scale, &w.zero});
  return w;
}

Tensor unpacked(const Packed& w) {
  if (w.bits == 8) return w.codes;
  const Tensor low = bitwise_and(w.codes, 15), high = floor_divide(w.codes, 16);
  return stack({low, high}, 2).reshape({w.codes.size(0), -1}).narrow(1, 0, w.columns);
}

Tensor expanded(const Packed& w, DType dtype) {
  const int64_t n = w.codes.size(0);
  const DType wide = dtype == DType::f64 ? dtype : DType::f32;
  if (n == 0 || w.columns == 0) return make(Dims{n, w.columns}, dtype, w.codes.device());
  const Tensor scale = w.scale.to(wide).unsqueeze(2);
  Tensor zero = w.zero.defined() ? w.zero.to(wide).unsqueeze(2) : Tensor();
  if (!zero.defined() && w.bits == 4) zero = -8 * scale;
  Tensor out = in_groups(unpacked(w).to(wide), w.width) * scale;
  if (zero.defined()) out = out + zero;
  return out.reshape({n, -1}).narrow(1, 0, w.columns).to(dtype).contiguous();
}

void check_linear(const Tensor& x, const Packed& w, const Tensor& bias) {
  check_same_device({&x, &w.codes, &bias});
  if (!bias.defined()) return;
  expect_dtype("bias", bias, x.dtype());
  expect_shape("bias", bias, Dims(w.codes.size(0)));
}

struct QuantizedLinearBackward {
  Packed weight;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) const {
    const Tensor& g = incoming[0];
    if (self.wants(0)) outgoing[0] = matmul(g, expanded(weight, g.dtype()).detach());
    if (self.edge_count > 1 && self.wants(1)) {
      outgoing[1] = g.dim() == 1 ? g : sum(g.reshape({-1, g.size(-1)}), {0});
    }
  }
};

Tensor product(const Tensor& x, const Packed& w, const Tensor& bias) {
  const auto kernel = kernels(x.raw_view()).quantized_matmul;
  const bool wide = x.dtype() == DType::f64 || w.scale.dtype() == DType::f64;
  if (kernel == nullptr || wide) {
    const DType t = compute_type(x.dtype());
    return linear(x.to(t), expanded(w, t), bias.defined() ? bias.to(t) : bias).to(x.dtype());
  }
  Dims shape = x.shape();
  shape[shape.size() - 1] = w.codes.size(0);
  const Tensor out = make(shape, x.dtype(), x.device());
  if (out.numel() == 0) return out;
  if (w.columns == 0) return bias.defined() ? out.copy_(bias) : out.zero_();
  const int64_t n = w.codes.size(0), m = out.numel() / n;
  const Tensor rows = x.contiguous().reshape({m, w.columns});
  const Tensor codes = w.codes.contiguous(), scale = w.scale.contiguous();
  const Tensor zero = w.zero.defined() ? w.zero.to(DType::f32).contiguous() : Tensor();
  const auto view = [](const Tensor& t) { return t.defined() ? t.raw_view() : View(); };
  kernel(out.reshape({m, n}).raw_view(), rows.raw_view(), codes.raw_view(), scale.raw_view(), view(zero), view(bias),
         w.bits, w.width);
  return out;
}

}  // namespace

Tensor dequantize_weight(const Tensor& codes, const Tensor& scale, int64_t columns,
                         const QuantizedLinearOptions& options, DType dtype, Location where) {
  const CallScope call("dequantize_weight", where);
  if (columns < 0) raise<ValueError>({.problem = fmt::format("{} columns", columns)});
  if (!is_floating(dtype) || is_storage_only(dtype)) {
    raise_dtype("dtype", "float16, bfloat16, float32 or float64", dtype);
  }
  const NoGradGuard unrecorded;
  return expanded(checked_weight(codes, scale, options, columns), dtype);
}

Tensor quantized_linear(const Tensor& x, const Tensor& codes, const Tensor& scale,
                        const QuantizedLinearOptions& options, Location where) {
  const CallScope call("quantized_linear", where);
  check_floating(checked(x));
  expect_shape("x", x, x.dim() > 0, "[..., k]");
  const Packed weight = checked_weight(codes, scale, options, x.size(-1));
  const Tensor bias = given(options.bias);
  check_linear(x, weight, bias);
  // Gradients of scales need their factors.
  if (should_record(weight.scale, weight.zero)) return linear(x, expanded(weight, x.dtype()), bias);
  Tensor out;
  {
    const NoGradGuard unrecorded;
    out = product(x, weight, bias);
  }
  if (!should_record(x, bias)) return out;
  if (bias.defined()) record(out, QuantizedLinearBackward{weight}, x, bias);
  else record(out, QuantizedLinearBackward{weight}, x);
  return out;
}

}  // namespace weft
