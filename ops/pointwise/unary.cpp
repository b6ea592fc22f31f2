#include <algorithm>
#include <cmath>

#include "../../backends/functors/complex.hpp"
#include "../../backends/functors/formulas.hpp"
#include "../detail/autocast.hpp"
#include "../detail/common.hpp"
#include "../detail/complex.hpp"
#include "../detail/reuse.hpp"
#include "../detail/write.hpp"
#include "../pointwise.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../detail/symbolic.hpp"
#include "../detail/zero_slopes.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

struct UnaryInfo {
  const char* name;
  PointwiseKind kind;
  functors::Saves saves;
  bool holomorphic;
  Symbolic (*gradient)(Symbolic g, Symbolic saved);
};

template <class Functor>
[[gnu::cold]] Symbolic gradient_by_ops(Symbolic g, Symbolic saved) {
  return Functor::gradient(std::move(g), std::move(saved));
}
#define WEFT_UNARY_INFO(name, Functor, kind, ...)                                      \
  {#name, PointwiseKind::kind, static_cast<functors::Saves>(functors::Functor::saves), \
   functors::Holomorphic<functors::Functor>, gradient_by_ops<functors::Functor>},
constexpr UnaryInfo infos[] = {WEFT_UNARY_OPS(WEFT_UNARY_INFO)};
#undef WEFT_UNARY_INFO

const UnaryInfo& info_of(UnaryOp op) { return infos[static_cast<int>(op)]; }

constexpr bool is_piecewise_linear(UnaryOp op) {
  using enum UnaryOp;
  constexpr UnaryOp ops[] = {sign, floor, ceil, round, trunc, frac, relu, relu6, hardsigmoid};
  return std::ranges::find(ops, op) != std::end(ops);
}

// The backward pass in one kernel; by public ops where it is itself recorded or the device has no such kernel.
Tensor unary_gradient(UnaryOp op, const Node& self, Tensor&& g, const Tensor& saved) {
  const auto kernel = kernels(g.raw_view()).unary_gradient;
  if (WEFT_UNLIKELY(recording() || kernel == nullptr)) {
    const Dims shape = g.shape();
    const DType dtype = g.dtype();
    const Device device = g.device();
    const bool conjugates = is_complex(dtype);
    Symbolic result = info_of(op).gradient(Symbolic(conjugates ? conj(std::move(g)) : std::move(g)), Symbolic(saved));
    if (conjugates) result.tensor = conj(std::move(result.tensor));
    Tensor gradient = unbroadcast(std::move(result.tensor), shape, dtype, device);
    return is_piecewise_linear(op) ? with_zero_slopes(std::move(gradient), self, {&shape, 1}) : gradient;
  }
  const View& from = g.raw_view();  // lives on in `out`
  Tensor out = can_reuse_as_result(g) ? as_result(std::move(g)) : make_like(g);
  kernel(op, out.raw_view(), from, saved.defined() ? saved.raw_view() : from);
  return out;
}

struct InputBackward {
  UnaryOp op;
  Saved input;
  Tensor operator()(Node& self, Tensor&& g) {
    return unary_gradient(op, self, std::move(g), input.defined() ? input.get(self) : g);
  }
};
struct OutputBackward {
  UnaryOp op;
  SavedOutput output;
  SavedOutput* new_value() { return &output; }
  Tensor operator()(Node& self, Tensor&& g) { return unary_gradient(op, self, std::move(g), output.get(self)); }
};

void record_unary(UnaryOp op, const Tensor& out, const Tensor& x) {
  const UnaryInfo& info = info_of(op);
  if (info.saves == functors::saves_output) {
    record(out, OutputBackward{op, SavedOutput(out)}, x);
  } else {
    record(out, InputBackward{op, info.saves == functors::saves_input ? Saved(x) : Saved()}, x);
  }
}

DType computed_in(UnaryOp op, const Tensor& x) {
  const DType t = x.dtype();
  if (is_floating(t)) return t;
  if (is_complex(t)) {
    if (!info_of(op).holomorphic && !is_composed(op)) raise_complex(t);
    return t;
  }
  const PointwiseKind kind = info_of(op).kind;
  if (kind == PointwiseKind::floating) return x.impl()->wrapped_number ? DType::f64 : default_dtype();
  return kind == PointwiseKind::counting && t == DType::boolean ? DType::i64 : t;
}

Tensor unary(UnaryOp op, const Operand& operand) {
  const CallScope call(info_of(op).name, operand.where);
  const Tensor& x = checked(operand.tensor());
  if (WEFT_UNLIKELY(!is_floating(x.dtype()))) {
    if (op == UnaryOp::abs && is_complex(x.dtype())) return magnitude(x);
    if (computes_by_parts(op, x.dtype(), x.device())) return by_parts(op, x);
    const DType dtype = computed_in(op, x);
    if (dtype != x.dtype()) return unary(op, x.to(dtype));
  }
  const bool recorded = should_record(x);
  TensorImpl* impl = x.impl();
  const bool reuse = operand.temporary && !recorded && can_reuse_as_result(x);
  Tensor out = reuse ? as_result(operand) : make_like(x);
  out.impl()->wrapped_number = impl->wrapped_number;
  WEFT_KERNEL(unary, out)(op, out.raw_view(), impl->view);
  if (recorded) record_unary(op, out, x);
  return out;
}

/// Fills `out`, which may be x.
void write_unary(UnaryOp op, const Tensor& out, const Tensor& x) {
  if (WEFT_UNLIKELY(computes_by_parts(op, x.dtype(), x.device()))) {
    const NoGradGuard unrecorded;
    const Tensor made = by_parts(op, x);
    return WEFT_KERNEL(copy, out)(out.raw_view(), made.raw_view());
  }
  WEFT_KERNEL(unary, out)(op, out.raw_view(), x.raw_view());
}

const Tensor& unary_in_place(UnaryOp op, const char* op_name, const Tensor& x, Location where) {
  const CallScope call(op_name, where);
  const UnaryInfo& info = info_of(op);
  check_target(x);
  if (info.kind == PointwiseKind::floating && !is_inexact(x.dtype())) check_floating(x);
  if (const DType dtype = computed_in(op, x); dtype != x.dtype()) raise_target_dtype(dtype, x);
  if (WEFT_UNLIKELY(is_complex(x.dtype()) && is_composed(op))) {
    return write_computed(x, [op](const Tensor& old) { return by_parts(op, old); });
  }
  const auto write = [&] { write_unary(op, x, x); };
  const auto old = [&] { return info.saves == functors::saves_input ? Saved(x.clone()) : Saved(); };
  if (info.saves == functors::saves_output) {
    write_recorded(
        x, write,
        [&] {
          return OutputBackward{op, {}};
        },
        x);
  } else {
    write_recorded(
        x, write,
        [&] {
          return InputBackward{op, old()};
        },
        x);
  }
  return x;
}

const Tensor& unary_into(UnaryOp op, const char* op_name, const Tensor& out, const Operand& operand) {
  const CallScope call(op_name, operand.where);
  checked(out);
  const Tensor& given = checked(operand.tensor());
  const DType dtype = computed_in(op, given);
  const Tensor x = dtype == given.dtype() ? given : given.to(dtype);
  check_out(out, x.sizes(), x.dtype(), x.device(), {&x});
  write_unrecorded(out, [&] { write_unary(op, out, x); });
  return out;
}

std::vector<Values> samples_between(SampleMaker& make, double low, double high) {
  return {{make.tensor({2, 3}, low, high)}, {make.tensor({}, low, high)}, {make.tensor({0, 2}, low, high)}};
}
template <double low, double high>
std::vector<Values> unary_samples(SampleMaker& make) {
  return samples_between(make, low, high);
}

// Functions whose result 16-bit floats cannot represent accurately.
constexpr bool is_in_full(UnaryOp op) {
  using enum UnaryOp;
  constexpr UnaryOp all[] = {exp,  expm1, log, log1p, log2, log10,  reciprocal, rsqrt,
                             sinh, cosh,  tan, asin,  acos, erfinv, softplus};
  return std::ranges::find(all, op) != std::end(all);
}

#define WEFT_UNARY_RECORD(name, Functor, kind, low, high, document)                        \
  OpRecord{#name,                                                                          \
           #name "(x)",                                                                    \
           document,                                                                       \
           OpFacts(true, is_in_full(UnaryOp::name) ? Autocast::full : Autocast::as_given), \
           domain_of(PointwiseKind::kind),                                                 \
           unary_samples<low, high>,                                                       \
           parts::pointwise,                                                               \
           detail::boxed<static_cast<Tensor (*)(const Operand&)>(&weft::name)>,            \
           {.unary = weft::name, .unary_in_place = weft::name##_, .unary_out = weft::name##_out}},
constexpr OpRecord unary_op_records[] = {WEFT_UNARY_OPS(WEFT_UNARY_RECORD)};

// ---- ops that take more than their operand --------------------------------------------------------------------------

std::vector<Values> round_samples(SampleMaker& make) {
  std::vector<Values> samples = unary_samples<-3.0, 3.0>(make);
  for (const int64_t decimals : {0, 1, 2}) samples.push_back({make.tensor({2, 3}, -3, 3), decimals});
  if (is_floating(make.dtype())) samples.push_back({make.tensor({2, 3}, 1200, 1249), int64_t{-2}});
  return samples;
}
std::vector<Values> softplus_samples(SampleMaker& make) {
  std::vector<Values> samples = unary_samples<-3.0, 3.0>(make);
  samples.push_back({make.tensor({2, 3}), 2.5});
  samples.push_back({make.tensor({2, 3}, 0.4, 3), 2.0, 0.2});
  samples.push_back({make.tensor({2, 3}), -0.5, 20.0});
  return samples;
}
std::vector<Values> gelu_samples(SampleMaker& make) {
  std::vector<Values> samples = unary_samples<-3.0, 3.0>(make);
  samples.push_back({make.tensor({2, 3}), "tanh"});
  samples.push_back({make.tensor({3}), "none"});
  return samples;
}

Tensor call_gelu(const Operand& x, const std::string& how) {
  if (how == "none" || how == "tanh") return gelu(x, how == "tanh" ? Approximate::tanh : Approximate::none);
  raise<ValueError>({.problem = mismatch_text("approximate", "'none' or 'tanh'", in_quotes(how))}, x.where);
}

std::vector<OpRecord> all_records() {
  std::vector<OpRecord> records(std::begin(unary_op_records), std::end(unary_op_records));
  widen(records, "round", "round(x, *, decimals=0)", "the nearest multiple of 10^-decimals, ties to even",
        round_samples, detail::boxed<static_cast<Tensor (*)(const Operand&, int64_t)>(&weft::round)>);
  widen(records, "softplus", "softplus(x, beta=1.0, threshold=20.0)",
        "log(1 + exp(beta * x)) / beta without overflow; x itself where beta * x is above threshold", softplus_samples,
        detail::boxed<static_cast<Tensor (*)(const Operand&, double, double)>(&weft::softplus)>);
  records.push_back({"gelu", "gelu(x, approximate='none')",
                     "x * Phi(x), the Gaussian error linear unit (Hendrycks and Gimpel 2016), or with 'tanh' its "
                     "approximation by tanh",
                     true, OpRecord::Domain::floating, gelu_samples, parts::pointwise, detail::boxed<&call_gelu>});
  for (const char* linear : {"neg", "deg2rad", "rad2deg"}) find_in(records, linear).partition = parts::copy;
  return records;
}

}  // namespace

std::span<const OpRecord> unary_records() {
  static const std::vector<OpRecord> records = all_records();
  return records;
}

#define WEFT_DEFINE_UNARY(name, ...)                              \
  Tensor name(const Operand& x) {                                 \
    if constexpr (is_in_full(UnaryOp::name)) {                    \
      if (WEFT_UNLIKELY(autocasting())) {                         \
        const CallScope call(#name, x.where);                     \
        WEFT_IN_FULL(name, x);                                    \
      }                                                           \
    }                                                             \
    return unary(UnaryOp::name, x);                               \
  }                                                               \
  const Tensor& name##_(const Tensor& x, Location where) {        \
    return unary_in_place(UnaryOp::name, #name "_", x, where);    \
  }                                                               \
  const Tensor& name##_out(const Tensor& out, const Operand& x) { \
    return unary_into(UnaryOp::name, #name "_out", out, x);       \
  }
WEFT_UNARY_OPS(WEFT_DEFINE_UNARY)

Tensor operator-(const Operand& a) { return neg(a); }

Tensor round(const Operand& x, int64_t decimals) {
  const CallScope call("round", x.where);
  const Tensor& given = checked(x.tensor());
  if (decimals == 0) return round(x);
  if (!is_floating(given.dtype())) {
    if (decimals > 0) return round(x);
    check_floating(given);
  }
  const Tensor wide = given.to(compute_type(given.dtype()));
  const double scale = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  const Tensor scaled = decimals > 0 ? wide * scale : wide / scale;
  const Tensor whole = round(scaled);
  const Tensor result = decimals > 0 ? whole / scale : whole * scale;
  return weft::where(isfinite(scaled), result, wide.detach()).to(given.dtype());
}
const Tensor& round_(const Tensor& x, int64_t decimals, Location where) {
  const CallScope call("round_", where);
  return decimals == 0 ? round_(x) : x.copy_(round(x, decimals));
}

Tensor softplus(const Operand& x, double beta, double threshold) {
  // By default the threshold only keeps exp from overflowing, which the op does by itself.
  if (beta == 1 && threshold == 20) return softplus(x);
  const CallScope call("softplus", x.where);
  WEFT_IN_FULL(softplus, x, beta, threshold);
  const DType dtype = checked(x.tensor()).dtype();
  const DType out = is_floating(dtype) ? dtype : default_dtype();
  const Tensor scaled = x.tensor().to(compute_type(out)) * beta;
  return weft::where(scaled > threshold, scaled / beta, softplus(scaled) / beta).to(out);
}

Tensor gelu(const Operand& x, Approximate approximate) {
  return approximate == Approximate::tanh ? gelu_tanh(x) : gelu_erf(x);
}

}  // namespace weft
