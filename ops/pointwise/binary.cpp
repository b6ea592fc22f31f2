#include <algorithm>
#include <cmath>

#include "../../backends/functors/complex.hpp"
#include "../../backends/functors/formulas.hpp"
#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/broadcast_watch.hpp"
#include "../detail/common.hpp"
#include "../detail/complex.hpp"
#include "../detail/fits.hpp"
#include "../detail/reuse.hpp"
#include "../detail/write.hpp"
#include "../pointwise.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../reduce.hpp"
#include "../detail/symbolic.hpp"
#include "../detail/zero_slopes.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace detail {
constinit thread_local const BroadcastWatch* broadcast_watch = nullptr;
}  // namespace detail

namespace {

using GradientFormula = Symbolic (*)(Symbolic g, const Symbolic& a, const Symbolic& b, const Symbolic& y);

struct BinaryInfo {
  const char* name;
  PointwiseKind kind;
  bool holomorphic;
  /// Integers are converted or checked before the kernel.
  bool prepares_integers;
  /// By whether a needs a gradient (1) and b does (2).
  uint8_t reads[4];
  GradientFormula gradient_a, gradient_b;
};

constexpr bool prepares_integers(BinaryOp op, PointwiseKind kind) {
  return kind == PointwiseKind::floating || kind == PointwiseKind::division || op == BinaryOp::pow;
}

#define WEFT_BINARY_INFO(name, Functor, kind, ...)                                        \
  {#name,                                                                                 \
   PointwiseKind::kind,                                                                   \
   functors::Holomorphic<functors::Functor>,                                              \
   prepares_integers(BinaryOp::name, PointwiseKind::kind),                                \
   {0, functors::Functor::gradient_a_reads, functors::Functor::gradient_b_reads,          \
    int{functors::Functor::gradient_a_reads} | int{functors::Functor::gradient_b_reads}}, \
   [](Symbolic g, const Symbolic& a, const Symbolic& b, const Symbolic& y) {              \
     return functors::Functor::gradient_a(std::move(g), a, b, y);                         \
   },                                                                                     \
   [](Symbolic g, const Symbolic& a, const Symbolic& b, const Symbolic& y) {              \
     return functors::Functor::gradient_b(std::move(g), a, b, y);                         \
   }},
#define WEFT_INTEGER_INFO(name, Functor, kind, ...) {#name, PointwiseKind::kind, false, true, {}, nullptr, nullptr},
constexpr BinaryInfo infos[] = {WEFT_BINARY_OPS(WEFT_BINARY_INFO) WEFT_INTEGER_OPS(WEFT_INTEGER_INFO)};
#undef WEFT_INTEGER_INFO
#undef WEFT_BINARY_INFO

const BinaryInfo& info_of(BinaryOp op) { return infos[static_cast<int>(op)]; }

// A tensor that a backward reads while somebody else holds it: not counted.
struct Borrowed {
  Symbolic value;
  explicit Borrowed(const Tensor* tensor) : value(tensor != nullptr ? Tensor::adopt(tensor->impl()) : Tensor()) {}
  ~Borrowed() { std::move(value.tensor).detach_handle(); }
  Borrowed(const Borrowed&) = delete;
};

constexpr bool is_piecewise_linear(BinaryOp op) {
  using enum BinaryOp;
  constexpr BinaryOp ops[] = {maximum,    minimum,   fmax,         fmin,         leaky_relu, softshrink,
                              hardshrink, heaviside, floor_divide, trunc_divide, remainder,  fmod};
  return std::ranges::find(ops, op) != std::end(ops);
}

// Saved for both gradients of a node. Only operands that a wanted gradient reads are saved.
struct BinaryBackward {
  BinaryOp op;
  bool keeps_result = false;
  Saved a = {}, b = {};
  SavedOutput y = {};

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    if (WEFT_LIKELY(!recording())) return compute(self, incoming, outgoing);
    const Dims shape = incoming[0].shape();
    compute(self, incoming, outgoing);
    connect(self, outgoing, shape, shape);
  }
  void connect(const Node& self, Tensor* outgoing, const Dims& a_shape, const Dims& b_shape) const {
    if (WEFT_LIKELY(!recording()) || !is_piecewise_linear(op)) return;
    const Dims shapes[] = {a_shape, b_shape};
    for (int i = 0; i < 2; ++i) {
      if (self.wants(i)) outgoing[i] = with_zero_slopes(std::move(outgoing[i]), self, shapes);
    }
  }
  void compute(Node& self, Tensor* incoming, Tensor* outgoing) {
    const BinaryInfo& info = info_of(op);
    const Borrowed sa(a.defined() ? &a.get(self) : nullptr);
    const Borrowed sb(b.defined() ? &b.get(self) : nullptr);
    const Tensor result = y.defined() ? y.get(self) : Tensor();
    const Borrowed sy(&result);
    const DType dtype = incoming[0].raw_view().layout.dtype;
    const bool conjugates = is_complex(dtype);
    if (WEFT_UNLIKELY(conjugates)) incoming[0] = conj(std::move(incoming[0]));
    if (self.wants(0)) {
      Tensor g = self.wants(1) ? incoming[0] : std::move(incoming[0]);
      outgoing[0] = info.gradient_a(Symbolic(std::move(g)), sa.value, sb.value, sy.value).tensor;
      if (WEFT_UNLIKELY(outgoing[0].raw_view().layout.dtype != dtype)) outgoing[0] = in_dtype(outgoing[0], dtype);
    }
    if (self.wants(1)) {
      outgoing[1] = info.gradient_b(Symbolic(std::move(incoming[0])), sa.value, sb.value, sy.value).tensor;
      if (WEFT_UNLIKELY(outgoing[1].raw_view().layout.dtype != dtype)) outgoing[1] = in_dtype(outgoing[1], dtype);
    }
    if (WEFT_LIKELY(!conjugates)) return;
    for (int i = 0; i < 2; ++i) {
      if (self.wants(i)) outgoing[i] = conj(std::move(outgoing[i]));
    }
  }
};

// As above, where operands were broadcast or live elsewhere: gradients are brought back to each operand's shape.
struct BroadcastBackward {
  BinaryBackward backward;
  Dims a_shape, b_shape;
  DType dtype;
  Device a_device, b_device;

  SavedOutput* new_value() { return backward.keeps_result ? &backward.y : nullptr; }
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    backward.compute(self, incoming, outgoing);
    if (self.wants(0)) outgoing[0] = unbroadcast(std::move(outgoing[0]), a_shape, dtype, a_device);
    if (self.wants(1)) outgoing[1] = unbroadcast(std::move(outgoing[1]), b_shape, dtype, b_device);
    if (a_device == b_device) backward.connect(self, outgoing, a_shape, b_shape);
  }
};

unsigned reads_of(const BinaryInfo& info, const Tensor& a, const Tensor& b) {
  return info.reads[needs_gradient(a.impl()) | needs_gradient(b.impl()) << 1];
}
BinaryBackward backward_for(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y) {
  using namespace functors;
  const BinaryInfo& info = info_of(op);
  if (info.reads[3] == 0) return {op};
  const unsigned reads = reads_of(info, a, b);
  return {op, (reads & reads_y) != 0, (reads & reads_a) != 0 ? Saved(a) : Saved(),
          (reads & reads_b) != 0 ? Saved(b) : Saved(), (reads & reads_y) != 0 ? SavedOutput(y) : SavedOutput()};
}

void check_divisor(const Tensor& divisor, const View& view, DType dtype) {
  const auto refuse = [dtype] {
    raise<ZeroDivisionError>({.problem = fmt::format("{} division by zero", name(dtype)),
                              .remedy = "floating-point numbers give inf or NaN there"});
  };
  if (view.layout.host_scalar == 0) {
    return check_elements([refuse, divisor = without_repeats(divisor)] {
      if (!all(divisor).item<bool>()) refuse();
    });
  }
  visit_dtype(view.layout.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      if (element_at<T>(view.data) == T(0)) refuse();
    }
  });
}

// Whether the result modulo 2^bits follows from the operands modulo 2^bits, so that -1 may be written for 255.
bool is_modular(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
    case BinaryOp::sub:
    case BinaryOp::mul:
    case BinaryOp::bitwise_and:
    case BinaryOp::bitwise_or:
    case BinaryOp::bitwise_xor:
      return true;
    default:
      return false;
  }
}

bool is_maximum(BinaryOp op) { return op == BinaryOp::maximum || op == BinaryOp::fmax; }
bool is_minimum(BinaryOp op) { return op == BinaryOp::minimum || op == BinaryOp::fmin; }

// Replaces numbers beyond the dtype that limit nothing.
void limit_bounds(bool upper, const Operand* const (&operands)[2], Prepared<2>& p) {
  for (int i = 0; i < 2; ++i) {
    const Tensor& given = operands[i]->tensor();
    const Tensor bound = bound_in(p.dtype, given, upper);
    if (bound.impl() == given.impl()) continue;
    const bool host = bound.impl()->wrapped_number || bound.device() != p.device;
    p.views[i] = broadcast_view(host ? scalar_view(bound.impl(), p.dtype, p.scalars[i]) : bound.raw_view(), p.shape);
    p.operands[i] = bound;
  }
}

// Raises for integers without a result, before anything is written.
void check_integers(BinaryOp op, const Operand* const (&operands)[2], Prepared<2>& p) {
  if (is_inexact(p.dtype)) return;
  if (is_maximum(op) || is_minimum(op)) return limit_bounds(is_minimum(op), operands, p);
  const TensorImpl* exponent = operands[1]->impl();
  if (op == BinaryOp::pow && exponent->wrapped_number && exponent->view.layout.dtype == DType::i64 &&
      *static_cast<const int64_t*>(exponent->view.data) < 0) {
    raise<ValueError>({.problem = fmt::format("{} to a negative power is no integer", name(p.dtype)),
                       .remedy = "convert the base to a floating-point dtype"});
  }
  check_operands_fit(p.dtype, operands, is_modular(op));
  if (std::ranges::find(p.shape, 0) != p.shape.end()) return;
  if (info_of(op).kind == PointwiseKind::division && p.device.type != DeviceType::meta) {
    check_divisor(p.operands[1], p.views[1], p.dtype);
  }
}

Tensor reuse_or_make(const Operand& a, const Operand& b) {
  if (a.temporary && can_reuse_as_result(a.tensor())) return as_result(a);
  if (b.temporary && can_reuse_as_result(b.tensor())) return as_result(b);
  return make_like(a.tensor());
}

// A plain tensor and a C++ number: the number becomes a host scalar of the compute type, nothing is broadcast.
bool plain_and_number(const TensorImpl* x, const TensorImpl* number) {
  const Layout& layout = x->view.layout;
  return number->wrapped_number && !x->wrapped_number && layout.contiguous && is_inexact(layout.dtype) &&
         !is_storage_only(layout.dtype) && (is_complex(layout.dtype) || number->view.layout.dtype != DType::c128);
}

View repeated_scalar(const TensorImpl* number, const Layout& like, unsigned char* buffer) {
  View view = scalar_view(number, like.dtype, buffer);
  view.layout.rank = like.rank;
  view.layout.numel = like.numel;
  view.layout.contiguous = like.numel <= 1;
  for (int i = 0; i < like.rank; ++i) {
    view.layout.sizes[i] = like.sizes[i];
    view.layout.strides[i] = 0;
  }
  return view;
}

[[gnu::noinline]] Tensor binary_with_number(BinaryOp op, const Operand& a, const Operand& b, bool number_first) {
  const Operand& plain = number_first ? b : a;
  const TensorImpl* number = number_first ? a.impl() : b.impl();
  const Tensor& x = plain.tensor();
  alignas(max_item) unsigned char buffer[max_item];
  const View scalar = repeated_scalar(number, x.raw_view().layout, buffer);
  const View operand = x.raw_view();
  const bool recorded = should_record(x);
  Tensor out = recorded ? make_like(x) : reuse_or_make(plain, plain);
  WEFT_KERNEL(binary, out)
  (op, out.raw_view(), number_first ? scalar : operand, number_first ? operand : scalar);
  if (recorded) {
    record_with(
        out, [&] { return backward_for(op, a.tensor(), b.tensor(), out); }, a.tensor(), b.tensor());
  }
  return out;
}

// Numbers and operands of the host become tensors of the device.
[[gnu::noinline]] Tensor general_by_parts(BinaryOp op, const Prepared<2>& p) {
  const auto there = [&](const Tensor& t) { return t.to(p.dtype).to(p.device); };
  return by_parts(op, there(p.operands[0]), there(p.operands[1]));
}
/// Fills `out`, which may be an operand.
void write_general(BinaryOp op, const Tensor& out, const Prepared<2>& p) {
  if (WEFT_UNLIKELY(computes_by_parts(op, p.dtype, p.device))) {
    const NoGradGuard unrecorded;
    const Tensor made = general_by_parts(op, p);
    return WEFT_KERNEL(copy, out)(out.raw_view(), broadcast_view(made.raw_view(), out.sizes()));
  }
  WEFT_KERNEL(binary, out)(op, out.raw_view(), p.views[0], p.views[1]);
}

[[gnu::noinline]] Tensor binary_general(BinaryOp op, const Operand& a, const Operand& b) {
  const BinaryInfo& info = info_of(op);
  Prepared<2> p;
  prepare(p, {&a, &b}, info.kind);
  check_integers(op, {&a, &b}, p);
  if (WEFT_UNLIKELY(computes_by_parts(op, p.dtype, p.device))) return general_by_parts(op, p);
  Tensor out = make(p.shape, p.dtype, p.device);
  out.impl()->wrapped_number = p.wrapped;
  WEFT_KERNEL(binary, out)(op, out.raw_view(), p.views[0], p.views[1]);
  const Tensor& x = p.operands[0];
  const Tensor& y = p.operands[1];
  if (should_record(x, y)) {
    if (WEFT_UNLIKELY(detail::broadcast_watch != nullptr)) (*detail::broadcast_watch)(x, y, out);
    record(out, BroadcastBackward{backward_for(op, x, y, out), x.shape(), y.shape(), p.dtype, x.device(), y.device()},
           x, y);
  }
  return out;
}

Tensor binary(BinaryOp op, const Operand& a, const Operand& b) {
  TensorImpl* x = a.impl();
  TensorImpl* y = b.impl();
  const BinaryInfo& info = info_of(op);
  const CallScope call(info.name, a.where);
  if (WEFT_UNLIKELY(x == nullptr || y == nullptr)) raise_undefined();
  if (WEFT_UNLIKELY(!same_plain(x, y) || computes_by_parts(op, x->view.layout.dtype, a.tensor().device()) ||
                    (info.prepares_integers && !is_inexact(x->view.layout.dtype)))) {
    const bool parts = computes_by_parts(op, x->view.layout.dtype, a.tensor().device()) ||
                       computes_by_parts(op, y->view.layout.dtype, b.tensor().device());
    if (!parts && plain_and_number(x, y)) return binary_with_number(op, a, b, false);
    if (!parts && plain_and_number(y, x)) return binary_with_number(op, a, b, true);
    return binary_general(op, a, b);
  }
  const bool recorded = recording() && (needs_gradient(x) || needs_gradient(y));
  Tensor out = recorded ? make_like(a.tensor()) : reuse_or_make(a, b);
  WEFT_KERNEL(binary, out)(op, out.raw_view(), x->view, y->view);
  if (recorded)
    record_with(
        out, [&] { return backward_for(op, a.tensor(), b.tensor(), out); }, a.tensor(), b.tensor());
  return out;
}

// The usual in-place step, such as an optimizer's: plain operands, nothing recorded.
bool binary_in_place_plain(BinaryOp op, const Tensor& a, const Operand& b) {
  TensorImpl* x = a.impl();
  TensorImpl* y = b.impl();
  if (x == nullptr || y == nullptr || should_record(a, b.tensor())) return false;
  if (info_of(op).prepares_integers && !is_inexact(x->view.layout.dtype)) return false;
  alignas(max_item) unsigned char buffer[max_item];
  const auto kernel = kernels(x->view).binary;
  if (kernel == nullptr) return false;
  if (WEFT_UNLIKELY(computes_by_parts(op, x->view.layout.dtype, a.device()))) return false;
  if (same_plain(x, y)) {
    if (x->storage == y->storage && x->view.data != y->view.data) return false;
    write_unrecorded(a, [&] { kernel(op, x->view, x->view, y->view); });
  } else if (plain_and_number(x, y)) {
    const View number = repeated_scalar(y, x->view.layout, buffer);
    write_unrecorded(a, [&] { kernel(op, x->view, x->view, number); });
  } else {
    return false;
  }
  return true;
}

const Tensor& binary_in_place(BinaryOp op, const char* op_name, const Tensor& a, const Operand& b) {
  const CallScope call(op_name, b.where);
  if (WEFT_LIKELY(binary_in_place_plain(op, a, b))) return a;
  const BinaryInfo& info = info_of(op);
  check_target(a);
  check_in_place_device(a, b.tensor());
  const Operand left(a);
  if (info.kind == PointwiseKind::floating && !is_complex(a.dtype())) check_floating(a);
  const DType promoted = result_type(left, b);
  check_target_dtype(promoted, a);
  Dims shape = a.shape();
  if (!broadcast_in_place(shape, b.tensor().sizes()) || !(shape == a.shape())) {
    raise<ShapeError>({.problem = fmt::format("an operand of shape {} does not broadcast to the target's {}",
                                              b.tensor().shape().text(), a.shape().text())});
  }
  if (promoted != a.dtype()) {  // computed in the wider dtype
    return write_computed(
        a, [&](const Tensor& old) { return binary(op, Operand(old, b.where), b); }, b.tensor());
  }
  Prepared<2> p;
  prepare(p, {&left, &b}, info.kind, promoted);
  check_integers(op, {&left, &b}, p);
  if (p.operands[1].shares_storage(a) && !(p.operands[1].impl() == a.impl())) {
    p.operands[1] = p.operands[1].clone();
    p.views[1] = broadcast_view(p.operands[1].raw_view(), p.shape);
  }
  const Tensor& y = p.operands[1];
  const auto write = [&] { write_general(op, a, p); };
  // Backward reads the value before the write.
  const auto old = [&](const Tensor& t) { return Saved(t.impl() == a.impl() ? a.clone() : t); };
  const auto make_backward = [&]() -> BroadcastBackward {
    using namespace functors;
    const unsigned reads = reads_of(info, a, y);
    return {{op,
             (reads & reads_y) != 0,
             (reads & reads_a) != 0 ? old(a) : Saved(),
             (reads & reads_b) != 0 ? old(y) : Saved(),
             {}},
            a.shape(),
            y.shape(),
            p.dtype,
            a.device(),
            y.device()};
  };
  write_recorded(a, write, make_backward, a, y);
  return a;
}

const Tensor& binary_into(BinaryOp op, const char* op_name, const Tensor& out, const Operand& a, const Operand& b) {
  const BinaryInfo& info = info_of(op);
  const CallScope call(op_name, a.where);
  checked(out);
  if (WEFT_UNLIKELY(a.impl() == nullptr || b.impl() == nullptr)) raise_undefined();
  if (WEFT_LIKELY(same_plain(a.impl(), b.impl()) && same_plain(out.impl(), a.impl()) &&
                  !computes_by_parts(op, out.dtype(), out.device()) &&
                  (!info.prepares_integers || is_inexact(out.dtype())))) {
    check_out_unrecorded({&out, &a.tensor(), &b.tensor()});
    write_unrecorded(out, [&] { WEFT_KERNEL(binary, out)(op, out.raw_view(), a.impl()->view, b.impl()->view); });
  } else {
    Prepared<2> p;
    prepare(p, {&a, &b}, info.kind);
    check_integers(op, {&a, &b}, p);
    check_out(out, p.shape, p.dtype, p.device, {&a.tensor(), &b.tensor()});
    write_unrecorded(out, [&] { write_general(op, out, p); });
  }
  return out;
}

struct Range {
  double low, high;
};
std::vector<Values> samples_between(SampleMaker& make, Range a, Range b) {
  return {{make.tensor({2, 3}, a.low, a.high), make.tensor({2, 3}, b.low, b.high)},
          {make.tensor({2, 1, 3}, a.low, a.high), make.tensor({4, 1}, b.low, b.high)},
          {make.tensor({}, a.low, a.high), make.tensor({3}, b.low, b.high)},
          {make.tensor({0, 2}, a.low, a.high), make.tensor({2}, b.low, b.high)}};
}
template <Range a, Range b>
std::vector<Values> binary_samples(SampleMaker& make) {
  return samples_between(make, a, b);
}

std::vector<Values> integer_samples(SampleMaker& given) {
  SampleMaker make = of_integers(given);
  return binary_samples<Range{-9, 9}, Range{-3, 3}>(make);
}

#define WEFT_BINARY_RECORD(name, Functor, kind, a_low, a_high, b_low, b_high, document)          \
  OpRecord{#name,                                                                                \
           #name "(a, b|other)",                                                                 \
           document,                                                                             \
           OpFacts(true, BinaryOp::name == BinaryOp::pow ? Autocast::full : Autocast::as_given), \
           domain_of(PointwiseKind::kind),                                                       \
           binary_samples<Range{a_low, a_high}, Range{b_low, b_high}>,                           \
           parts::pointwise,                                                                     \
           detail::boxed<static_cast<Tensor (*)(const Operand&, const Operand&)>(&weft::name)>,  \
           {.binary = weft::name, .binary_in_place = weft::name##_, .binary_out = weft::name##_out}},
#define WEFT_COMPARE_RECORD(name, Functor, document)                                            \
  OpRecord{#name,                                                                               \
           #name "(a, b|other)",                                                                \
           document,                                                                            \
           false,                                                                               \
           OpRecord::Domain::any,                                                               \
           binary_samples<Range{-2, 2}, Range{-2, 2}>,                                          \
           parts::pointwise,                                                                    \
           detail::boxed<static_cast<Tensor (*)(const Operand&, const Operand&)>(&weft::name)>, \
           {.binary = weft::name}},
#define WEFT_INTEGER_RECORD(name, Functor, kind, document)                                      \
  OpRecord{#name,                                                                               \
           #name "(a, b|other)",                                                                \
           document,                                                                            \
           false,                                                                               \
           domain_of(PointwiseKind::kind),                                                      \
           integer_samples,                                                                     \
           parts::pointwise,                                                                    \
           detail::boxed<static_cast<Tensor (*)(const Operand&, const Operand&)>(&weft::name)>, \
           {.binary = weft::name, .binary_in_place = weft::name##_, .binary_out = weft::name##_out}},
constexpr OpRecord table_records[] = {WEFT_BINARY_OPS(WEFT_BINARY_RECORD) WEFT_COMPARE_OPS(WEFT_COMPARE_RECORD)
                                          WEFT_INTEGER_OPS(WEFT_INTEGER_RECORD)};

std::vector<Values> scaled_samples(SampleMaker& make) {
  std::vector<Values> samples = binary_samples<Range{-3, 3}, Range{-3, 3}>(make);
  const Value factor = is_inexact(make.dtype()) ? Value(-1.5) : Value(int64_t{3});
  samples.push_back({make.tensor({2, 1, 3}), make.tensor({4, 1}), factor});
  return samples;
}
template <Tensor (*op)(const Operand&, const Operand&), Tensor (*scaled_op)(const Operand&, const Operand&, Scalar)>
Tensor call_scaled(const Operand& a, const Operand& b, Scalar alpha) {
  return alpha.is_one() ? op(a, b) : scaled_op(a, b, alpha);
}

std::vector<Values> div_samples(SampleMaker& make) {
  std::vector<Values> samples = binary_samples<Range{-3, 3}, Range{0.5, 3}>(make);
  samples.push_back({make.tensor({2, 3}, -3, 3), make.tensor({3}, 0.5, 3), "floor"});
  samples.push_back({make.tensor({2, 3}, -3, 3), make.tensor({3}, 0.5, 3), "trunc"});
  return samples;
}
Tensor call_div(const Operand& a, const Operand& b, const std::optional<std::string>& rounding_mode) {
  if (!rounding_mode) return div(a, b);
  if (*rounding_mode == "floor" || *rounding_mode == "trunc") {
    return div(a, b, *rounding_mode == "floor" ? Rounding::floor : Rounding::trunc);
  }
  raise<ValueError>({.problem = mismatch_text("rounding_mode", "None, 'floor' or 'trunc'", in_quotes(*rounding_mode))},
                    a.where);
}

std::vector<OpRecord> all_records() {
  std::vector<OpRecord> records(std::begin(table_records), std::end(table_records));
  widen(records, "div", "div(a, b|other, *, rounding_mode=None)",
        "a / b; integers are divided in float32. Rounded down with 'floor', towards zero with 'trunc', where integers "
        "stay integers.",
        div_samples, detail::boxed<&call_div>);
  find_in(records, "pow").schema = "pow(a, b|exponent)";
  find_in(records, "heaviside").schema = "heaviside(a, b|values)";
  find_in(records, "leaky_relu").schema = "leaky_relu(x, negative_slope=0.01)";
  find_in(records, "elu").schema = "elu(x, alpha=1.0)";
  find_in(records, "celu").schema = "celu(x, alpha=1.0)";
  find_in(records, "softshrink").schema = "softshrink(x, lambd=0.5)";
  find_in(records, "hardshrink").schema = "hardshrink(x, lambd=0.5)";
  widen(records, "add", "add(a, b|other, *, alpha=1)", "a + alpha * b; logical or for bool", scaled_samples,
        detail::boxed<&call_scaled<weft::add, weft::add>>);
  widen(records, "sub", "sub(a, b|other, *, alpha=1)", "a - alpha * b", scaled_samples,
        detail::boxed<&call_scaled<weft::sub, weft::sub>>);
  for (const char* sum : {"add", "sub"}) find_in(records, sum).partition = parts::sum_of_operands;
  find_in(records, "mul").partition = parts::product;
  find_in(records, "div").partition = parts::quotient;
  return records;
}

}  // namespace

namespace {
// Numbers for which the function is undefined.
template <BinaryOp op>
void check_parameter(const char* name, const Operand& b) {
  if constexpr (op == BinaryOp::softshrink || op == BinaryOp::celu) {
    if (b.impl() == nullptr || !b.impl()->wrapped_number) return;
    const CallScope call(name, b.where);
    const auto x = b.tensor().item<double>();
    if (op == BinaryOp::celu && x == 0) raise<ValueError>({.problem = "alpha is 0, and x is divided by it"});
    if (op == BinaryOp::softshrink && !(x >= 0 && std::isfinite(x))) {
      raise<ValueError>({.problem = fmt::format("lambd {} is not a finite number from 0 on", x)});
    }
  }
}
}  // namespace

std::span<const OpRecord> binary_records() {
  static const std::vector<OpRecord> records = all_records();
  return records;
}

#define WEFT_DEFINE_BINARY(name, ...)                                               \
  Tensor name(const Operand& a, const Operand& b) {                                 \
    check_parameter<BinaryOp::name>(#name, b);                                      \
    if constexpr (BinaryOp::name == BinaryOp::pow) {                                \
      if (WEFT_UNLIKELY(autocasting())) {                                           \
        const CallScope call(#name, a.where);                                       \
        WEFT_IN_FULL(name, a, b);                                                   \
      }                                                                             \
    }                                                                               \
    return binary(BinaryOp::name, a, b);                                            \
  }                                                                                 \
  const Tensor& name##_(const Tensor& a, const Operand& b) {                        \
    check_parameter<BinaryOp::name>(#name "_", b);                                  \
    return binary_in_place(BinaryOp::name, #name "_", a, b);                        \
  }                                                                                 \
  const Tensor& name##_out(const Tensor& out, const Operand& a, const Operand& b) { \
    check_parameter<BinaryOp::name>(#name "_out", b);                               \
    return binary_into(BinaryOp::name, #name "_out", out, a, b);                    \
  }
WEFT_BINARY_OPS(WEFT_DEFINE_BINARY)
WEFT_INTEGER_OPS(WEFT_DEFINE_BINARY)

Tensor div(const Operand& a, const Operand& b, Rounding rounding) {
  if (rounding == Rounding::none) return div(a, b);
  return rounding == Rounding::floor ? floor_divide(a, b) : trunc_divide(a, b);
}
const Tensor& div_(const Tensor& a, const Operand& b, Rounding rounding) {
  if (rounding == Rounding::none) return div_(a, b);
  return rounding == Rounding::floor ? floor_divide_(a, b) : trunc_divide_(a, b);
}

Tensor operator+(const Operand& a, const Operand& b) { return binary(BinaryOp::add, a, b); }
Tensor operator-(const Operand& a, const Operand& b) { return binary(BinaryOp::sub, a, b); }
Tensor operator*(const Operand& a, const Operand& b) { return binary(BinaryOp::mul, a, b); }
Tensor operator/(const Operand& a, const Operand& b) { return binary(BinaryOp::div, a, b); }
Tensor operator%(const Operand& a, const Operand& b) { return binary(BinaryOp::remainder, a, b); }

namespace {
// alpha * b in the dtype that it meets a in; b itself where alpha is 1.
Tensor scaled(const Operand& a, const Operand& b, Scalar alpha) {
  if (alpha.is_one()) return b.tensor();
  const DType dtype = result_type(a, b);
  return dtype == DType::boolean ? b * alpha.to<bool>() : times(b.tensor().to(dtype), alpha);
}
Scalar negated(Scalar x) {
  if (x.is_complex()) return -x.to_complex();
  return x.is_floating() ? Scalar(-x.to<double>()) : Scalar(static_cast<int64_t>(0 - x.to<uint64_t>()));
}

Tensor add_scaled(const char* op, const Operand& a, const Operand& b, Scalar alpha, bool subtracts) {
  const CallScope call(op, a.where);
  const DType dtype = result_type(a, b);
  check_factor(alpha, dtype);
  if (is_inexact(dtype)) return addcmul(a, b, subtracts ? negated(alpha) : alpha);
  const Tensor by_alpha = scaled(a, b, alpha);
  return subtracts ? a - by_alpha : a + by_alpha;
}

// a += alpha * b by one kernel, as add has it, for plain operands and nothing recorded.
bool add_in_place_plain(const Tensor& a, const Operand& b, Scalar alpha) {
  TensorImpl* x = a.impl();
  TensorImpl* y = b.impl();
  if (x == nullptr || y == nullptr || alpha.is_complex() || should_record(a, b.tensor())) return false;
  if (!same_plain(x, y) || !is_floating(x->view.layout.dtype) || is_storage_only(x->view.layout.dtype)) return false;
  if (x->storage == y->storage && x->view.data != y->view.data) return false;
  const auto kernel = kernels(x->view).ternary;
  if (kernel == nullptr) return false;
  alignas(max_item) unsigned char buffer[max_item];
  const Operand number(alpha);
  const View factor = repeated_scalar(number.impl(), x->view.layout, buffer);
  write_unrecorded(a, [&] { kernel(TernaryOp::addcmul, x->view, x->view, y->view, factor); });
  return true;
}
}  // namespace

Tensor add(const Operand& a, const Operand& b, Scalar alpha) { return add_scaled("add", a, b, alpha, false); }
Tensor sub(const Operand& a, const Operand& b, Scalar alpha) { return add_scaled("sub", a, b, alpha, true); }

const Tensor& add_(const Tensor& x, const Operand& other, Scalar alpha) {
  const CallScope call("add_", other.where);
  if (alpha.is_one()) return add_(x, other);
  if (add_in_place_plain(x, other, alpha)) return x;
  return write_computed(
      x, [&](const Tensor& old) { return add(Operand(old, other.where), other, alpha); }, other.tensor());
}
const Tensor& sub_(const Tensor& x, const Operand& other, Scalar alpha) {
  const CallScope call("sub_", other.where);
  if (alpha.is_one()) return sub_(x, other);
  if (add_in_place_plain(x, other, negated(alpha))) return x;
  return write_computed(
      x, [&](const Tensor& old) { return sub(Operand(old, other.where), other, alpha); }, other.tensor());
}
const Tensor& Tensor::operator+=(const Operand& other) const { return weft::add_(*this, other); }
const Tensor& Tensor::operator-=(const Operand& other) const { return weft::sub_(*this, other); }
const Tensor& Tensor::operator*=(const Operand& other) const { return weft::mul_(*this, other); }
const Tensor& Tensor::operator/=(const Operand& other) const { return weft::div_(*this, other); }

}  // namespace weft
