#include <limits>

#include "../../backends/functors/formulas.hpp"
#include "../detail/common.hpp"
#include "../detail/complex.hpp"
#include "../pointwise.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../detail/symbolic.hpp"
#include "../detail/parts.hpp"

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

Tensor ternary(TernaryOp op, const Operand& a, const Operand& b, const Operand& c) {
  const TernaryInfo& info = info_of(op);
  const CallScope call(info.name, a.where);
  Prepared<3> p;
  prepare(p, {&a, &b, &c}, info.kind);
  Tensor out = make(p.shape, p.dtype, p.device);
  out.impl()->wrapped_number = p.wrapped;
  WEFT_KERNEL(ternary, out)(op, out.raw_view(), p.views[0], p.views[1], p.views[2]);
  const auto& [x, y, z] = p.operands;
  if (should_record(x, y, z)) record(out, backward_for(op, p.operands), x, y, z);
  return out;
}

// An integer bound held inside the range of an integer dtype, so that casting it changes nothing.
Scalar within(DType dtype, Scalar bound) {
  return visit_dtype(dtype, [&]<class T>() -> Scalar {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      using Limits = std::numeric_limits<T>;
      const bool beyond = bound.held_as() == DType::u64;  // what int64 does not hold
      if (beyond) return std::cmp_less(Limits::max(), bound.to<uint64_t>()) ? Limits::max() : bound;
      const int64_t value = bound.to<int64_t>();
      if (std::cmp_less(value, Limits::min())) return Limits::min();
      return std::cmp_less(Limits::max(), value) ? Limits::max() : bound;
    }
    return bound;
  });
}

Scalar bound_or(std::optional<Scalar> bound, bool upper, DType dtype, bool whole) {
  if (whole) {
    const Scalar none =
        upper ? Scalar(std::numeric_limits<uint64_t>::max()) : Scalar(std::numeric_limits<int64_t>::min());
    return within(dtype, bound.value_or(none));
  }
  return bound.value_or(upper ? __builtin_inf() : -__builtin_inf());
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
  const Value factor = is_floating(make.dtype()) ? Value(-1.5) : Value(int64_t{3});
  samples.push_back({make.tensor({2, 3}), make.tensor({3}), make.tensor({2, 1}), factor});
  samples.push_back({make.tensor({}), make.tensor({}), make.tensor({2}), int64_t{2}});
  return samples;
}
// Integers stay integers, and may have bounds that their dtype does not hold.
Tensor call_hardtanh(const Operand& x, Scalar low, Scalar high) {
  if (!is_floating(checked(x.tensor()).dtype())) return clip(x, low, high);
  return hardtanh(x, Operand(low, x.where), Operand(high, x.where));
}
std::vector<Values> hardtanh_samples(SampleMaker& make) {
  const auto [low, high] =
      is_floating(make.dtype()) ? std::pair<Value, Value>(-0.8, 0.9) : std::pair<Value, Value>(int64_t{0}, int64_t{2});
  return {{make.tensor({2, 3})}, {make.tensor({4}, -3, 3), low, high}, {make.tensor({})}, {make.tensor({0, 2})}};
}
const Tensor& clip_in_place(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  const Tensor old = x.requires_grad() ? x.clone() : x;  // its gradient reads the old value
  return x.copy_(clip(old, low, high));
}

constexpr OpRecord table_records[] = {WEFT_TERNARY_OPS(WEFT_TERNARY_RECORD)
                                          OpRecord{"clip",
                                                   "clip(x, low|min=None, high|max=None)",
                                                   "x limited to [low, high]; one of them may be left out",
                                                   true,
                                                   OpRecord::Domain::numeric,
                                                   clip_samples,
                                                   parts::pointwise,
                                                   detail::boxed<&weft::clip>,
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

#define WEFT_DEFINE_TERNARY(name, ...) \
  Tensor name(const Operand& a, const Operand& b, const Operand& c) { return ternary(TernaryOp::name, a, b, c); }
WEFT_TERNARY_OPS(WEFT_DEFINE_TERNARY)

Tensor addcmul(const Operand& a, const Operand& b, const Operand& c, Scalar value) {
  if (value.to<double>() == 1) return addcmul(a, b, c);
  const CallScope call("addcmul", a.where);
  TensorImpl* const operands[] = {a.impl(), b.impl(), c.impl()};
  for (const Operand* x : {&a, &b, &c}) checked(x->tensor());
  const DType dtype = result_type(std::span<const TensorImpl* const>(operands));
  if (!is_floating(dtype) && value.is_floating()) return times(a.tensor().to(dtype), value);
  const Tensor factor = b.tensor().to(compute_type(dtype));  // 16-bit floats are rounded once
  return addcmul(a.tensor(), factor * value, c.tensor()).to(dtype);
}

Tensor clip(const Operand& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  const CallScope call("clip", x.where);
  const DType dtype = checked(x.tensor()).dtype();
  if (!low && !high) {
    raise<ValueError>({.problem = "neither low nor high is given", .remedy = "pass at least one of them"});
  }
  const bool whole = is_integer(dtype) && !(low && low->is_floating()) && !(high && high->is_floating());
  return clamp(x, bound_or(low, false, dtype, whole), bound_or(high, true, dtype, whole));
}

}  // namespace weft
