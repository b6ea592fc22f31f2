#include <algorithm>
#include <array>

#include "../../backends/functors/formulas.hpp"
#include "../detail/common.hpp"
#include "../detail/complex.hpp"
#include "../detail/fits.hpp"
#include "../detail/write.hpp"
#include "../pointwise.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../detail/symbolic.hpp"
#include "../detail/parts.hpp"
#include "../detail/zero_slopes.hpp"

namespace weft {

namespace {

using GradientFormula = Symbolic (*)(Symbolic g, const Symbolic& a, const Symbolic& b, const Symbolic& c);

struct TernaryInfo {
  const char* name;
  PointwiseKind kind;
  uint8_t reads[3];
  GradientFormula gradients[3];
};

#define WEFT_TERNARY_GRADIENT(Functor, operand)                             \
  [](Symbolic g, const Symbolic& a, const Symbolic& b, const Symbolic& c) { \
    return functors::Functor::gradient_##operand(std::move(g), a, b, c);    \
  }
#define WEFT_TERNARY_INFO(name, Functor, kind, ...)                                                                 \
  {#name,                                                                                                           \
   PointwiseKind::kind,                                                                                             \
   {functors::Functor::gradient_a_reads, functors::Functor::gradient_b_reads, functors::Functor::gradient_c_reads}, \
   {WEFT_TERNARY_GRADIENT(Functor, a), WEFT_TERNARY_GRADIENT(Functor, b), WEFT_TERNARY_GRADIENT(Functor, c)}},
constexpr TernaryInfo infos[] = {WEFT_TERNARY_OPS(WEFT_TERNARY_INFO)};
#undef WEFT_TERNARY_INFO
#undef WEFT_TERNARY_GRADIENT

const TernaryInfo& info_of(TernaryOp op) { return infos[static_cast<int>(op)]; }

constexpr bool is_piecewise_linear(TernaryOp op) {
  return op == TernaryOp::clamp || op == TernaryOp::threshold || op == TernaryOp::hardtanh;
}

struct Origin {
  Dims shape;
  DType dtype;
  Device device;
};

struct TernaryBackward {
  TernaryOp op;
  Saved operands[3];
  Origin origins[3];

  Symbolic operand(Node& self, int i) { return Symbolic(operands[i].defined() ? operands[i].get(self) : Tensor()); }
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Symbolic a = operand(self, 0), b = operand(self, 1), c = operand(self, 2);
    const int last = self.wants(2) ? 2 : (self.wants(1) ? 1 : 0);
    const bool conjugates = is_complex(incoming[0].dtype());
    if (WEFT_UNLIKELY(conjugates)) incoming[0] = conj(std::move(incoming[0]));
    for (int i = 0; i <= last; ++i) {
      if (!self.wants(i)) continue;
      Tensor g = i == last ? std::move(incoming[0]) : incoming[0];
      Symbolic result = info_of(op).gradients[i](Symbolic(std::move(g)), a, b, c);
      if (WEFT_UNLIKELY(conjugates)) result.tensor = conj(std::move(result.tensor));
      outgoing[i] = unbroadcast(std::move(result.tensor), origins[i].shape, origins[i].dtype, origins[i].device);
    }
    if (recording() && is_piecewise_linear(op)) connect(self, outgoing);
  }
  void connect(const Node& self, Tensor* outgoing) const {
    const Dims shapes[] = {origins[0].shape, origins[1].shape, origins[2].shape};
    for (int i = 0; i < 3; ++i) {
      const bool here = self.wants(i) && origins[i].device == origins[0].device;
      if (here) outgoing[i] = with_zero_slopes(std::move(outgoing[i]), self, shapes);
    }
  }
};

TernaryBackward backward_for(TernaryOp op, const Tensor (&operands)[3]) {
  TernaryBackward backward{op, {}, {}};
  unsigned reads = 0;
  for (int i = 0; i < 3; ++i) reads |= needs_gradient(operands[i].impl()) ? info_of(op).reads[i] : 0u;
  for (int i = 0; i < 3; ++i) {
    if ((reads >> i & 1) != 0) backward.operands[i] = Saved(operands[i]);
    backward.origins[i] = {operands[i].shape(), operands[i].dtype(), operands[i].device()};
  }
  return backward;
}

// For kernels without complex numbers.
Tensor by_parts(TernaryOp op, const Operand& a, const Operand& b, const Operand& c, DType dtype) {
  if (op == TernaryOp::addcmul) return a + b * c;
  if (op == TernaryOp::addcdiv) return a + b / c;
  raise_complex(dtype);
}

Tensor ternary(TernaryOp op, const Operand& a, const Operand& b, const Operand& c) {
  const TernaryInfo& info = info_of(op);
  const CallScope call(info.name, a.where);
  Prepared<3> p;
  prepare(p, {&a, &b, &c}, info.kind);
  check_operands_fit(p.dtype, std::array{&a, &b, &c}, op == TernaryOp::addcmul);
  if (WEFT_UNLIKELY(computes_by_parts(p.dtype, p.device))) return by_parts(op, a, b, c, p.dtype);
  Tensor out = make(p.shape, p.dtype, p.device);
  out.impl()->wrapped_number = p.wrapped;
  WEFT_KERNEL(ternary, out)(op, out.raw_view(), p.views[0], p.views[1], p.views[2]);
  const auto& [x, y, z] = p.operands;
  if (should_record(x, y, z)) record(out, backward_for(op, p.operands), x, y, z);
  return out;
}

Tensor number(Scalar value) { return Operand(value).tensor(); }

// An undefined bound is none.
Tensor clipped(const Operand& x, const Tensor& low, const Tensor& high) {
  std::vector<const TensorImpl*> operands{checked(x.tensor()).impl()};
  for (const Tensor* bound : {&low, &high}) {
    if (bound->defined()) operands.push_back(bound->impl());
  }
  const DType dtype = result_type(operands);
  const auto fitted = [&](const Tensor& bound, bool upper) {
    return bound.defined() ? bound_in(dtype, bound, upper) : number(end_of(dtype, upper));
  };
  return ternary(TernaryOp::clamp, x, Operand(fitted(low, false), x.where), Operand(fitted(high, true), x.where));
}

// From the nearer end, as the kernel of real numbers.
Tensor complex_lerp(const Operand& a, const Operand& b, const Operand& weight) {
  const CallScope call("lerp", a.where);
  const Tensor step = b - a;
  return where(abs(weight) < 0.5, a + weight * step, b - step * (1 - weight));
}

bool is_any_complex(std::initializer_list<const Operand*> operands) {
  return std::ranges::any_of(operands, [](const Operand* x) { return is_complex(checked(x->tensor()).dtype()); });
}

bool is_number(const Operand& x) { return checked(x.tensor()).impl()->wrapped_number; }

void check_range(const Operand& x, const Operand& low, const Operand& high) {
  const CallScope call("hardtanh", x.where);
  if (!is_number(low) || !is_number(high)) return;
  const auto least = low.tensor().item<double>(), highest = high.tensor().item<double>();
  if (least > highest) raise<ValueError>({.problem = fmt::format("min_val {} is above max_val {}", least, highest)});
}

// Integers with numbers, which are truncated.
bool keeps_integers(const Operand& x, const Operand& a, const Operand& b) {
  return is_integer(checked(x.tensor()).dtype()) && !x.impl()->wrapped_number && is_number(a) && is_number(b);
}
Scalar whole(Scalar number) {
  if (!number.is_floating()) return number;
  return number.to<double>() < 0x1p63 ? Scalar(number.to<int64_t>()) : Scalar(number.to<uint64_t>());
}
Tensor hardtanh_of_integers(const Operand& x, const Operand& low, const Operand& high) {
  const CallScope call("hardtanh", x.where);
  const auto bound = [&](const Operand& given, bool upper) {
    const Scalar limit = given.tensor().item_scalar();
    if (!limit.is_floating()) return given.tensor();
    const auto value = limit.to<double>();
    if (upper ? value >= 0x1p64 : value < -0x1p63) return Tensor();
    if (!(value >= -0x1p63 && value < 0x1p64)) check_fits(limit, x.tensor().dtype());
    return number(whole(limit));
  };
  return clipped(x, bound(low, false), bound(high, true));
}
Tensor threshold_of_integers(const Operand& x, const Operand& edge, const Operand& other) {
  const CallScope call("threshold", x.where);
  const DType dtype = x.tensor().dtype();
  const Scalar given = edge.tensor().item_scalar(), value = other.tensor().item_scalar();
  check_fits(value, dtype);
  const Tensor filler = number(whole(value)).to(dtype);
  const bool inside = given.is_floating() ? fits(given, dtype) : holds(dtype, given);
  if (!inside) return where(x <= edge, filler, x);
  return ternary(TernaryOp::threshold, x, Operand(whole(given)), filler);
}

std::vector<Values> ternary_samples(SampleMaker& make) {
  const auto a = [&](const Dims& shape) { return make.tensor(shape, -2, 2); };
  const auto b = [&](const Dims& shape) { return make.tensor(shape, -1.3, -0.3); };
  const auto c = [&](const Dims& shape) { return make.tensor(shape, 0.3, 1.3); };
  return {{a({2, 3}), b({2, 3}), c({2, 3})},
          {a({2, 1, 3}), b({4, 1}), c({})},
          {a({}), b({3}), c({2, 1})},
          {a({0, 2}), b({2}), c({})}};
}

std::vector<Values> clip_samples(SampleMaker& make) {
  if (is_floating(make.dtype())) {
    return {{make.tensor({2, 3}), -0.8, 0.9},
            {make.tensor({4}), {}, 0.6},
            {make.tensor({}), -0.7, {}},
            {make.tensor({0, 2}), -1.0, 1.0}};
  }
  return {{make.tensor({2, 3}), int64_t{0}, int64_t{1}}, {make.tensor({4}), {}, int64_t{1}}};
}

#define WEFT_TERNARY_RECORD(name, Functor, kind, document) \
  OpRecord{#name,                                          \
           #name "(a, b, c)",                              \
           document,                                       \
           true,                                           \
           domain_of(PointwiseKind::kind),                 \
           ternary_samples,                                \
           parts::pointwise,                               \
           detail::boxed<static_cast<Tensor (*)(const Operand&, const Operand&, const Operand&)>(&weft::name)>},
std::vector<Values> addcmul_samples(SampleMaker& make) {
  std::vector<Values> samples = ternary_samples(make);
  const Value factor = is_inexact(make.dtype()) ? Value(-1.5) : Value(int64_t{3});
  samples.push_back({make.tensor({2, 3}), make.tensor({3}), make.tensor({2, 1}), factor});
  samples.push_back({make.tensor({}), make.tensor({}), make.tensor({2}), int64_t{2}});
  return samples;
}
Tensor call_hardtanh(const Operand& x, Scalar low, Scalar high) {
  return hardtanh(x, Operand(low, x.where), Operand(high, x.where));
}
std::vector<Values> hardtanh_samples(SampleMaker& make) {
  const auto [low, high] =
      is_floating(make.dtype()) ? std::pair<Value, Value>(-0.8, 0.9) : std::pair<Value, Value>(int64_t{0}, int64_t{2});
  return {{make.tensor({2, 3})}, {make.tensor({4}, -3, 3), low, high}, {make.tensor({})}, {make.tensor({0, 2})}};
}
// A number, a tensor or nothing.
Tensor bound_from(const Value& given, size_t argument) {
  if (std::holds_alternative<std::monostate>(given)) return {};
  return detail::unboxed<Operand>(given, argument).tensor();
}
Tensor call_clip(const Operand& x, const Value& low, const Value& high) {
  return clip_by(x, bound_from(low, 1), bound_from(high, 2));
}
const Tensor& clip_in_place(const Tensor& x, const Value& low, const Value& high) {
  return clip_by_(x, bound_from(low, 1), bound_from(high, 2));
}

constexpr OpRecord table_records[] = {WEFT_TERNARY_OPS(WEFT_TERNARY_RECORD)
                                          OpRecord{"clip",
                                                   "clip(x, low|min=None, high|max=None)",
                                                   "x limited to [low, high]; one of them may be left out",
                                                   true,
                                                   OpRecord::Domain::numeric,
                                                   clip_samples,
                                                   parts::pointwise,
                                                   detail::boxed<&call_clip>,
                                                   {},
                                                   detail::boxed<&clip_in_place>}};

std::vector<OpRecord> all_records() {
  std::vector<OpRecord> records(std::begin(table_records), std::end(table_records));
  find_in(records, "lerp").schema = "lerp(a, b|end, c|weight)";
  find_in(records, "threshold").schema = "threshold(x, threshold, value)";
  widen(records, "addcmul", "addcmul(a, b|tensor1, c|tensor2, *, value=1)", "a + value * b * c", addcmul_samples,
        detail::boxed<static_cast<Tensor (*)(const Operand&, const Operand&, const Operand&, Scalar)>(&weft::addcmul)>);
  widen(records, "hardtanh", "hardtanh(x, min_val=-1, max_val=1)",
        "min(max(x, min_val), max_val); the gradient at both ends is 0", hardtanh_samples,
        detail::boxed<&call_hardtanh>);
  widen(records, "addcdiv", "addcdiv(a, b|tensor1, c|tensor2, *, value=1)", "a + value * b / c", addcmul_samples,
        detail::boxed<static_cast<Tensor (*)(const Operand&, const Operand&, const Operand&, Scalar)>(&weft::addcdiv)>);
  return records;
}

}  // namespace

std::span<const OpRecord> ternary_records() {
  static const std::vector<OpRecord> records = all_records();
  return records;
}

#define WEFT_DEFINE_TERNARY(name, ...)                                                                 \
  Tensor name(const Operand& a, const Operand& b, const Operand& c) {                                  \
    if constexpr (TernaryOp::name == TernaryOp::clamp) {                                               \
      const CallScope call("clamp", a.where);                                                          \
      return clipped(a, checked(b.tensor()), checked(c.tensor()));                                     \
    }                                                                                                  \
    if constexpr (TernaryOp::name == TernaryOp::hardtanh) check_range(a, b, c);                        \
    if constexpr (TernaryOp::name == TernaryOp::hardtanh || TernaryOp::name == TernaryOp::threshold) { \
      constexpr auto of_integers =                                                                     \
          TernaryOp::name == TernaryOp::hardtanh ? hardtanh_of_integers : threshold_of_integers;       \
      if (WEFT_UNLIKELY(keeps_integers(a, b, c))) return of_integers(a, b, c);                         \
    }                                                                                                  \
    if constexpr (TernaryOp::name == TernaryOp::lerp) {                                                \
      if (WEFT_UNLIKELY(is_any_complex({&a, &b, &c}))) return complex_lerp(a, b, c);                   \
    }                                                                                                  \
    return ternary(TernaryOp::name, a, b, c);                                                          \
  }
WEFT_TERNARY_OPS(WEFT_DEFINE_TERNARY)

namespace {
using Ternary = Tensor (*)(const Operand& a, const Operand& b, const Operand& c);

// op(a, value * b, c), 16-bit floats rounded once.
Tensor with_factor(Ternary op, const Operand& a, const Operand& b, const Operand& c, Scalar value, bool fractions) {
  if (value.is_one()) return op(a, b, c);
  for (const Operand* x : {&a, &b, &c}) checked(x->tensor());
  const TensorImpl* const operands[] = {a.impl(), b.impl(), c.impl()};
  DType dtype = result_type(operands);
  if (fractions && !is_inexact(dtype)) dtype = default_dtype();
  check_factor(value, dtype);
  const auto wide = [&](const Operand& x) { return x.tensor().to(is_inexact(dtype) ? compute_type(dtype) : dtype); };
  return op(wide(a), wide(b) * value, wide(c)).to(dtype);
}
}  // namespace

Tensor addcmul(const Operand& a, const Operand& b, const Operand& c, Scalar value) {
  const CallScope call("addcmul", a.where);
  return with_factor(addcmul, a, b, c, value, false);
}
Tensor addcdiv(const Operand& a, const Operand& b, const Operand& c, Scalar value) {
  const CallScope call("addcdiv", a.where);
  return with_factor(addcdiv, a, b, c, value, true);
}

Tensor clip_by(const Operand& x, const Tensor& low, const Tensor& high) {
  const CallScope call("clip", x.where);
  if (!low.defined() && !high.defined()) {
    raise<ValueError>({.problem = "neither low nor high is given", .remedy = "pass at least one of them"});
  }
  return clipped(x, low, high);
}
const Tensor& clip_by_(const Tensor& x, const Tensor& low, const Tensor& high) {
  const auto limited = [&](const Tensor& old) { return clip_by(old, low, high); };
  if (low.defined() && high.defined()) return write_computed(x, limited, low, high);
  return write_computed(x, limited, low.defined() ? low : high.defined() ? high : x);
}

Tensor clip(const Operand& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  return clip_by(x, low ? number(*low) : Tensor(), high ? number(*high) : Tensor());
}

}  // namespace weft
