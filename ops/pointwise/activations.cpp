// Functions of networks and their kin that are made of pointwise ops.
#include "../complex.hpp"
#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/common.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../pointwise.hpp"
#include "../detail/parts.hpp"

namespace weft {

namespace {

std::vector<Values> prelu_samples(SampleMaker& make) {
  return {{make.tensor({2, 3, 2}, -3, 3), make.tensor({3}, 0.1, 0.9)},
          {make.tensor({2, 3}, -3, 3), make.tensor({1}, 0.1, 0.9)},
          {make.tensor({4}, -3, 3), make.tensor({}, 0.1, 0.9)},
          {make.tensor({0, 2}), make.tensor({2}, 0.1, 0.9)}};
}
std::vector<Values> logit_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, 0.05, 0.95)},
          {make.tensor({2, 3}, -0.2, 1.2), 0.1},
          {make.tensor({}, 0.1, 0.9)},
          {make.tensor({0, 2}, 0.1, 0.9)}};
}
std::vector<Values> glu_samples(SampleMaker& make) {
  return {{make.tensor({2, 4}, -3, 3)}, {make.tensor({2, 3, 4}, -3, 3), int64_t{0}}, {make.tensor({0, 2})}};
}
std::vector<Values> nan_to_num_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, -3, 3)}, {make.tensor({}), 1.0, 2.0, -2.0}, {make.tensor({0, 2})}};
}
std::vector<Values> power_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, 0.5, 3), make.tensor({3}, -2, 2)},
          {make.tensor({}, 0.5, 3), make.tensor({2}, -2, 2)},
          {make.tensor({0, 2}, 0.5, 3), make.tensor({2}, -2, 2)}};
}

Partition by_channel(const WholeCall& call) {
  const Tensor &x = call.inputs()[0], &weight = call.inputs()[1];
  const std::string word = parts::letters(x.dim()), one = weight.dim() == 0 ? "" : weight.numel() == 1 ? "1" : "b";
  return {.letters = word + "," + one + "->" + word};
}

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"prelu", "prelu(x, weight)", "x where it is above 0, else x * weight, of which dimension 1 of x has one each.",
     true, floating, prelu_samples, by_channel, detail::boxed<&weft::prelu>},
    {"logit", "logit(x, eps=None)", "log(x / (1 - x)), of x limited to [eps, 1 - eps].", OpFacts(true, Autocast::full),
     floating, logit_samples, parts::pointwise, detail::boxed<&weft::logit>},
    {"glu", "glu(x, dim=-1)", "The first half of x along dim times the sigmoid of the second (Dauphin et al. 2017).",
     true, floating, glu_samples, parts::along, detail::boxed<&weft::glu>},
    {"nan_to_num", "nan_to_num(x, nan=0.0, posinf=None, neginf=None)",
     "x with other numbers for NaN and infinities; by default 0 and the ends of the dtype.", true,
     OpRecord::Domain::any, nan_to_num_samples, parts::pointwise, detail::boxed<&weft::nan_to_num>},
    {"float_power", "float_power(a, b|exponent)", "a to the power b, in float64 or complex128.", true,
     OpRecord::Domain::any, power_samples, parts::pointwise, detail::boxed<&weft::float_power>},
    {"ldexp", "ldexp(a, b|other)", "a * 2 ** b.", true, OpRecord::Domain::any, power_samples, parts::pointwise,
     detail::boxed<&weft::ldexp>},
};

}  // namespace

std::span<const OpRecord> activation_records() { return records; }

Tensor leaky_relu(const Operand& x) { return leaky_relu(x, Operand(0.01, x.where)); }
Tensor elu(const Operand& x) { return elu(x, Operand(1.0, x.where)); }
Tensor celu(const Operand& x) { return celu(x, Operand(1.0, x.where)); }
Tensor softshrink(const Operand& x) { return softshrink(x, Operand(0.5, x.where)); }
Tensor hardshrink(const Operand& x) { return hardshrink(x, Operand(0.5, x.where)); }
Tensor hardtanh(const Operand& x) { return hardtanh(x, Operand(-1.0, x.where), Operand(1.0, x.where)); }

Tensor prelu(const Operand& x, const Tensor& weight) {
  const CallScope call("prelu", x.where);
  const Tensor &t = checked(x.tensor()), &w = checked(weight);
  if (w.numel() == 1 && w.dim() <= 1) return leaky_relu(t, w.reshape({}));
  if (w.dim() != 1 || t.dim() < 2 || t.size(1) != w.numel()) {
    raise<ShapeError>({.problem = "weight has one element, or one for each channel",
                       .details = "x " + t.shape().text() + ", weight " + w.shape().text()});
  }
  Dims shape;
  for (int i = 0; i < t.dim(); ++i) shape.push_back(i == 1 ? w.numel() : 1);
  return leaky_relu(t, w.reshape(shape));
}

Tensor logit(const Operand& operand, std::optional<double> eps) {
  const CallScope call("logit", operand.where);
  WEFT_IN_FULL(logit, operand, eps);
  Tensor x = floating_point(operand.tensor());
  if (eps) x = clip(x, *eps, 1 - *eps);
  Tensor y;
  {
    const NoGradGuard unrecorded;
    y = log(x / (1.0 - x));
  }
  if (should_record(x)) {
    record(
        y,
        [saved = Saved(x)](Node& self, Tensor&& g) {
          const Tensor& p = saved.get(self);
          return g / (p * (1.0 - p));
        },
        x);
  }
  return y;
}

Tensor glu(const Operand& x, int64_t dim) {
  const CallScope call("glu", x.where);
  const Tensor& t = checked(x.tensor());
  const int along = wrap_dim(dim, t.dim());
  if (t.dim() == 0 || t.size(along) % 2 != 0) {
    raise<ShapeError>(
        {.problem = fmt::format("the size along dimension {} is not even", dim), .details = "x " + t.shape().text()});
  }
  const int64_t half = t.size(along) / 2;
  return t.narrow(along, 0, half) * sigmoid(t.narrow(along, half, half));
}

namespace {

Tensor with_numbers(const Tensor& x, double nan, double positive, double negative) {
  const NoGradGuard unrecorded;
  const auto kernel = kernels(x.raw_view()).nan_to_num;
  if (kernel != nullptr && x.is_contiguous() && compute_type(x.dtype()) == x.dtype()) {
    const Tensor out = make_like(x);
    kernel(out.raw_view(), x.raw_view(), nan, positive, negative);
    return out;
  }
  return where(isneginf(x), negative, where(isposinf(x), positive, where(isnan(x), nan, x)));
}

}  // namespace

Tensor nan_to_num(const Operand& operand, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  const CallScope call("nan_to_num", operand.where);
  const Tensor& x = checked(operand.tensor());
  if (is_complex(x.dtype())) {
    const auto part = [&](const Tensor& t) { return nan_to_num(t, nan, posinf, neginf); };
    return complex(part(real(x)), part(imag(x)));
  }
  if (!is_floating(x.dtype())) return x.clone();
  check_floating(x);
  const double highest = largest(x.dtype());
  const Tensor y = with_numbers(x, nan, posinf.value_or(highest), neginf.value_or(-highest));
  if (should_record(x)) {
    record(
        y, [saved = Saved(x)](Node& self, Tensor&& g) { return where(isfinite(saved.get(self)), g, 0); }, x);
  }
  return y;
}

Tensor float_power(const Operand& a, const Operand& b) {
  const CallScope call("float_power", a.where);
  const bool complex = is_complex(checked(a.tensor()).dtype()) || is_complex(checked(b.tensor()).dtype());
  const DType wide = complex ? DType::c128 : DType::f64;
  return pow(a.tensor().to(wide), b.tensor().to(wide));
}

Tensor ldexp(const Operand& a, const Operand& b) {
  const CallScope call("ldexp", a.where);
  const DType common = result_type(checked(a.tensor()), checked(b.tensor()));
  const bool real_power = is_complex(common) && !is_complex(b.tensor().dtype());
  const DType dtype = real_power ? real_type(common) : is_inexact(common) ? common : default_dtype();
  return a.tensor() * exp2(b.tensor().to(dtype));
}

}  // namespace weft
