#include "host.hpp"
#include "launch.hpp"
#include "../../functors/lists.hpp"

namespace weft::portable::host {

namespace {

#define WEFT_ENTRY(name, ...) Entry(KernelName{"unary_" #name, Module::pointwise_f32}),
constinit Entry unary_entries[] = {WEFT_UNARY_OPS(WEFT_ENTRY)};
#undef WEFT_ENTRY
#define WEFT_ENTRY(name, ...) Entry(KernelName{"gradient_" #name, Module::pointwise_f32}),
constinit Entry gradient_entries[] = {WEFT_UNARY_OPS(WEFT_ENTRY)};
#undef WEFT_ENTRY
#define WEFT_ENTRY(name, ...) Entry(KernelName{"binary_" #name, Module::pointwise_f32}),
constinit Entry binary_entries[] = {WEFT_BINARY_OPS(WEFT_ENTRY) WEFT_INTEGER_OPS(WEFT_ENTRY)};
#undef WEFT_ENTRY
#define WEFT_ENTRY(name, ...) Entry(KernelName{"compare_" #name, Module::pointwise_f32}),
constinit Entry compare_entries[] = {WEFT_COMPARE_OPS(WEFT_ENTRY)};
#undef WEFT_ENTRY
#define WEFT_ENTRY(name, ...) Entry(KernelName{"ternary_" #name, Module::pointwise_f32}),
constinit Entry ternary_entries[] = {WEFT_TERNARY_OPS(WEFT_ENTRY)};
#undef WEFT_ENTRY

constinit Entry nan_to_num_entry(named::nan_to_num);
constinit Entry nextafter_entry(named::nextafter);

#define WEFT_KIND(name, F, kind, ...) PointwiseKind::kind,
constexpr PointwiseKind unary_kinds[] = {WEFT_UNARY_OPS(WEFT_KIND)};
constexpr PointwiseKind binary_kinds[] = {WEFT_BINARY_OPS(WEFT_KIND) WEFT_INTEGER_OPS(WEFT_KIND)};
constexpr PointwiseKind ternary_kinds[] = {WEFT_TERNARY_OPS(WEFT_KIND)};
#undef WEFT_KIND

/// A host scalar's bits as the kernel's number type has them.
uint64_t scalar_bits(const View& scalar, Compute compute) {
  return visit_dtype(scalar.layout.dtype, [&]<class T>() -> uint64_t {
    const T element = element_at<T>(scalar.data);
    const auto bits = [&](auto x) -> uint64_t {
      if (compute == Compute::f32) return std::bit_cast<uint32_t>(static_cast<float>(x));
      if (compute == Compute::f64) return std::bit_cast<uint64_t>(static_cast<double>(x));
      return static_cast<uint64_t>(static_cast<int64_t>(x));
    };
    if constexpr (std::is_arithmetic_v<T>) return bits(element);
    else if constexpr (ComplexNumber<T>) unsupported("scalar", scalar);
    else return bits(to_float(element));
  });
}

bool fills(const View& v, int64_t count) { return v.layout.contiguous && v.layout.numel == count; }
bool is_of_words(const View& v) {
  const bool is_half = v.layout.dtype == DType::f16 || v.layout.dtype == DType::bf16;
  return is_half && reinterpret_cast<uintptr_t>(v.data) % 4 == 0;
}

/// `out_dense`: the output's dtype where it is the one that the kernel makes.
template <int N>
Density density_of(const View& out, const View* const (&in)[N], DType computed, DType out_dense) {
  const int64_t count = out.layout.numel;
  const DType made = out.layout.dtype;
  bool is_dense = made == out_dense,
       has_pairs = count % 2 == 0 && (made == DType::boolean ? is_dense : is_of_words(out));
  if (!fills(out, count)) return strided;
  for (const View* v : in) {
    if (v->layout.host_scalar) continue;
    if (!fills(*v, count)) return strided;
    is_dense = is_dense && v->layout.dtype == computed;
    has_pairs = has_pairs && is_of_words(*v);
  }
  return is_dense ? dense : (has_pairs ? pairs : strided);
}

template <int N>
portable::Pointwise<N> plan_of(const View& out, const View* const (&in)[N], Compute compute, DType out_dense) {
  portable::Pointwise<N> plan = {};
  const Layout* layouts[N + 1] = {&out.layout};
  plan.dtype[0] = out.layout.dtype;
  for (int k = 0; k < N; ++k) {
    const Layout& l = in[k]->layout;
    layouts[k + 1] = &l;
    plan.dtype[k + 1] = l.dtype;
    plan.is_scalar[k] = l.host_scalar;
    if (l.host_scalar) plan.scalar[k].bits = scalar_bits(*in[k], compute);
  }
  plan.density = density_of(out, in, dtype_of(compute), out_dense);
  plan.walk = walk_of(layouts, 0, out.layout.rank);
  return plan;
}

void* operand_address(const View& view) { return view.layout.host_scalar ? nullptr : view.data; }

template <int N>
void run(Entry& entry, const View& out, const View* const (&in)[N], Compute compute, DType out_dense) {
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(out);
  const portable::Pointwise<N> plan = plan_of(out, in, compute, out_dense);
  Kernel& kernel = entry.on(device, compute);
  const int64_t count = out.layout.numel;
  const Grid grid = item_grid(plan.density == pairs ? count / 2 : count);
  if constexpr (N == 1) launch(device, kernel, grid, out.data, operand_address(*in[0]), plan);
  else if constexpr (N == 2)
    launch(device, kernel, grid, out.data, operand_address(*in[0]), operand_address(*in[1]), plan);
  else
    launch(device, kernel, grid, out.data, operand_address(*in[0]), operand_address(*in[1]), operand_address(*in[2]),
           plan);
}

/// Raises DTypeError where the op has no kernel of that dtype.
void check(const char* kernel, Accelerator& device, const View& typed, PointwiseKind kind) {
  const DType t = typed.layout.dtype;
  const bool served = is_floating(t)        ? serves_floats(kind)
                      : t == DType::boolean ? serves_bool(kind)
                                            : serves_integers(kind);
  if (!served || !is_computable(t)) unsupported(kernel, typed);
  require(device, compute_of(t), kernel, typed);
}

}  // namespace

void unary(UnaryOp op, const View& out, const View& a) {
  const auto i = static_cast<size_t>(op);
  check("unary", device_of(out), out, unary_kinds[i]);
  const Compute compute = compute_of(out.layout.dtype);
  run(unary_entries[i], out, {&a}, compute, dtype_of(compute));
}

void unary_gradient(UnaryOp op, const View& out, const View& g, const View& saved) {
  check("unary_gradient", device_of(out), out, PointwiseKind::floating);
  const Compute compute = compute_of(out.layout.dtype);
  run(gradient_entries[static_cast<size_t>(op)], out, {&g, &saved}, compute, dtype_of(compute));
}

void binary(BinaryOp op, const View& out, const View& a, const View& b) {
  if (is_complex(out.layout.dtype) && (op == BinaryOp::add || op == BinaryOp::sub)) {
    for (int part = 0; part < 2; ++part) binary(op, part_view(out, part), part_view(a, part), part_view(b, part));
    return;
  }
  const auto i = static_cast<size_t>(op);
  check("binary", device_of(out), out, binary_kinds[i]);
  const Compute compute = compute_of(out.layout.dtype);
  run(binary_entries[i], out, {&a, &b}, compute, dtype_of(compute));
}

void compare(CompareOp op, const View& out, const View& a, const View& b) {
  const View& typed = a.layout.host_scalar ? b : a;
  check("compare", device_of(out), typed, PointwiseKind::any);
  run(compare_entries[static_cast<size_t>(op)], out, {&a, &b}, compute_of(typed.layout.dtype), DType::boolean);
}

void ternary(TernaryOp op, const View& out, const View& a, const View& b, const View& c) {
  const auto i = static_cast<size_t>(op);
  check("ternary", device_of(out), out, ternary_kinds[i]);
  const Compute compute = compute_of(out.layout.dtype);
  run(ternary_entries[i], out, {&a, &b, &c}, compute, dtype_of(compute));
}

void nan_to_num(const View& out, const View& x, double nan, double positive, double negative) {
  const Compute compute = wide_float("nan_to_num", x);
  const int64_t n = out.layout.numel;
  if (n == 0) return;
  Accelerator& device = device_of(out);
  const auto run_with = [&]<class T>(T) {
    launch(device, nan_to_num_entry.on(device, compute), item_grid(n), out.data, x.data, static_cast<T>(nan),
           static_cast<T>(positive), static_cast<T>(negative), n);
  };
  if (compute == Compute::f64) run_with(double{});
  else run_with(float{});
}

void nextafter(const View& out, const View& a, const View& b) {
  const Compute compute = wide_float("nextafter", a);
  const int64_t n = out.layout.numel;
  if (n == 0) return;
  Accelerator& device = device_of(out);
  launch(device, nextafter_entry.on(device, compute), item_grid(n), out.data, a.data, b.data, n);
}

}  // namespace weft::portable::host
