// Parts of complex tensors, and tensors of parts.
#include "../complex.hpp"

#include <numbers>

#include "../../tensor/checked.hpp"
#include "../create.hpp"
#include "../detail/complex.hpp"
#include "../detail/parts.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../pointwise.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

void check_complex(const Tensor& x) {
  if (WEFT_LIKELY(is_complex(checked(x).dtype()))) return;
  raise<DTypeError>({.problem = fmt::format("{} numbers have no imaginary parts", name(x.dtype())),
                     .remedy = "to(weft::c64) makes a complex tensor"});
}

[[noreturn]] void raise_part(const Tensor& x) {
  raise_dtype("parts of complex numbers", "float32 or float64", x.dtype(), "convert with to(dtype)");
}
// x as the parts of complex numbers; 16 bits are widened.
Tensor as_part(const Tensor& x) {
  const DType t = checked(x).dtype();
  if (t == DType::f16 || t == DType::bf16) return x.to(DType::f32);
  if (t != DType::f32 && t != DType::f64) raise_part(x);
  return x;
}

struct PartBack {
  Dims shape;
  DType dtype;
  int part;
  Tensor operator()(Tensor&& g) {
    Tensor whole = zeros(shape, {dtype, g.device()});
    (part == 0 ? real(whole) : imag(whole)).copy_(g);
    return whole;
  }
};

Tensor part_of(const Tensor& x, int part) {
  const View view = part_view(x.raw_view(), part);
  Tensor out = make_view(x, view.layout, view.data);
  if (should_record(x)) record(out, PartBack{x.shape(), x.dtype(), part}, x);
  return out;
}

}  // namespace

void raise_complex(DType dtype) {
  raise<DTypeError>({.problem = fmt::format("is not defined for {} numbers", name(dtype)),
                     .remedy = "take real(x), imag(x), abs(x) or view_as_real(x)"});
}

void check_conversion(DType from, DType to) {
  if (WEFT_LIKELY(!is_complex(from) || is_complex(to) || to == DType::boolean)) return;
  raise<DTypeError>({.problem = fmt::format("{} does not hold the imaginary parts of {}", name(to), name(from)),
                     .remedy = "take real(x), imag(x) or abs(x)"});
}

Tensor in_dtype(const Tensor& gradient, DType dtype) {
  const bool part = is_complex(gradient.dtype()) && !is_complex(dtype);
  return (part ? real(gradient) : gradient).to(dtype);
}

Tensor real(const Tensor& x, Location where) {
  const CallScope call("real", where);
  return is_complex(checked(x).dtype()) ? part_of(x, 0) : x;
}

Tensor imag(const Tensor& x, Location where) {
  const CallScope call("imag", where);
  check_complex(x);
  return part_of(x, 1);
}

Tensor view_as_real(const Tensor& x, Location where) {
  const CallScope call("view_as_real", where);
  check_complex(x);
  if (x.dim() == max_rank) {
    raise<ShapeError>(
        {.problem = fmt::format("a tensor of shape {} has no room for a dimension more", x.shape().text())});
  }
  View view = x.raw_view();
  Layout& layout = view.layout;
  layout.dtype = real_type(layout.dtype);
  layout.sizes[layout.rank] = 2;
  layout.strides[layout.rank++] = itemsize(layout.dtype);
  finish_layout(layout);
  Tensor out = make_view(x, layout, view.data);
  if (should_record(x)) {
    record(
        out, [](Tensor&& g) { return view_as_complex(g.contiguous()); }, x);
  }
  return out;
}

Tensor view_as_complex(const Tensor& x, Location where) {
  const CallScope call("view_as_complex", where);
  if (checked(x).dtype() != DType::f32 && x.dtype() != DType::f64) raise_part(x);
  View view = x.raw_view();
  Layout& layout = view.layout;
  const int64_t item = itemsize(layout.dtype), pair = 2 * item;
  bool fits = layout.rank > 0 && layout.sizes[layout.rank - 1] == 2;
  fits = fits && (layout.strides[layout.rank - 1] == item || layout.numel == 0);
  fits = fits && reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(std::min<int64_t>(pair, 8)) == 0;
  for (int d = 0; d + 1 < layout.rank; ++d)
    fits = fits && (layout.sizes[d] == 1 || layout.numel == 0 || layout.strides[d] % pair == 0);
  if (!fits) {
    raise<ShapeError>({.problem = fmt::format("shape {} with strides {} is not pairs of numbers side by side",
                                              x.shape().text(), x.strides().text()),
                       .remedy = "the last size must be 2: stack the parts, or call contiguous()"});
  }
  layout.dtype = complex_type(layout.dtype);
  --layout.rank;
  finish_layout(layout);
  Tensor out = make_view(x, layout, view.data);
  if (should_record(x)) {
    record(
        out, [](Tensor&& g) { return view_as_real(g); }, x);
  }
  return out;
}

Tensor complex(const Tensor& given_re, const Tensor& given_im, Location where) {
  const CallScope call("complex", where);
  const Tensor re = as_part(given_re), im = as_part(given_im);
  check_same_device({&re, &im});
  expect_one_dtype("real and imaginary part", re, im, "convert one with to(dtype)");
  const auto shape = broadcast(re.sizes(), im.sizes());
  if (!shape) {
    raise<ShapeError>(
        {.problem = fmt::format("shapes {} and {} do not broadcast", re.shape().text(), im.shape().text())});
  }
  Tensor out = make(*shape, complex_type(re.dtype()), re.device());
  WEFT_KERNEL(copy, out)(part_view(out.raw_view(), 0), broadcast_view(re.raw_view(), *shape));
  WEFT_KERNEL(copy, out)(part_view(out.raw_view(), 1), broadcast_view(im.raw_view(), *shape));
  if (should_record(re, im)) {
    const auto backward = [re_shape = re.shape(), im_shape = im.shape(), dtype = re.dtype(), device = re.device()](
                              Node& self, Tensor* incoming, Tensor* outgoing) {
      if (self.wants(0)) outgoing[0] = unbroadcast(real(incoming[0]), re_shape, dtype, device);
      if (self.wants(1)) outgoing[1] = unbroadcast(imag(incoming[0]), im_shape, dtype, device);
    };
    record(out, backward, re, im);
  }
  return out;
}

Tensor polar(const Tensor& given_length, const Tensor& given_angle, Location where) {
  const CallScope call("polar", where);
  const Tensor length = as_part(given_length), angle = as_part(given_angle);
  return complex(length * cos(angle), length * sin(angle));
}

Tensor conjugate(const Tensor& x) { return is_complex(checked(x).dtype()) ? conj(x) : x; }

Tensor magnitude(const Tensor& z) { return hypot(real(z), imag(z)); }

Tensor angle(const Tensor& x, Location where) {
  const CallScope call("angle", where);
  if (is_complex(checked(x).dtype())) return atan2(imag(x), real(x));
  const Tensor given = floating_point(computable(x));
  return weft::where(isnan(given), given, weft::where(given < 0, std::numbers::pi, given * 0));
}

Tensor sgn(const Tensor& x, Location where) {
  const CallScope call("sgn", where);
  if (!is_complex(checked(x).dtype())) return sign(x);
  const Tensor length = magnitude(x), at_zero = length == 0, divisor = weft::where(at_zero, 1.0, length);
  const auto part = [&](const Tensor& p) { return weft::where(at_zero, 0.0, p / divisor); };
  return complex(part(real(x)), part(imag(x)));
}

namespace detail {

Tensor as_real(const Tensor& x) { return is_complex(x.dtype()) ? view_as_real(x.contiguous()) : x; }
Tensor as_complex(const Tensor& x) { return view_as_complex(x.contiguous()); }

}  // namespace detail

namespace {

std::vector<Values> complex_samples(SampleMaker& make) {
  const auto z = [&](const Dims& shape) { return complex(make.tensor(shape), make.tensor(shape)); };
  return {{z({2, 3})}, {z({})}, {z({0, 2})}};
}
std::vector<Values> angle_samples(SampleMaker& make) {
  std::vector<Values> samples = complex_samples(make);
  samples.push_back({make.tensor({2, 3}, -3, 3)});
  return samples;
}

std::vector<Values> parts_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({2, 3})},
          {make.tensor({2, 1, 3}), make.tensor({4, 1})},
          {make.tensor({}), make.tensor({3})},
          {make.tensor({0, 2}), make.tensor({2})}};
}

constexpr auto floating = OpRecord::Domain::floating;
const OpRecord all_complex_records[] = {
    {"real", "real(x)", "A view of the real parts; a real x itself.", true, floating, complex_samples, parts::pointwise,
     detail::boxed<static_cast<Tensor (*)(const Tensor&, Location)>(&weft::real)>},
    {"imag", "imag(x)", "A view of the imaginary parts.", true, floating, complex_samples, parts::pointwise,
     detail::boxed<static_cast<Tensor (*)(const Tensor&, Location)>(&weft::imag)>},
    {"view_as_real", "view_as_real(x)", "A view of complex [...] as [..., 2] real numbers.", true, floating,
     complex_samples, parts::whole, detail::boxed<&weft::view_as_real>},
    {"complex", "complex(re|real, im|imag)", "re + i im.", true, floating, parts_samples, parts::pointwise,
     detail::boxed<&weft::complex>},
    {"polar", "polar(length|abs, angle)", "length * (cos(angle) + i sin(angle)).", true, floating, parts_samples,
     parts::pointwise, detail::boxed<&weft::polar>},
    {"angle", "angle(x)", "The angle of z in (-pi, pi]; of a real number 0 or pi.", true, floating, angle_samples,
     parts::pointwise, detail::boxed<&weft::angle>},
    {"sgn", "sgn(x)", "z / |z|, 0 at 0; the sign of a real number.", true, floating, angle_samples, parts::pointwise,
     detail::boxed<&weft::sgn>},
};

}  // namespace

std::span<const OpRecord> complex_records() { return all_complex_records; }

}  // namespace weft
