#include "host.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

constinit Entry large_entry(named::matmul_large);
constinit Entry small_entry(named::matmul_small);

void set_operand(portable::Matmul& plan, int k, const View& view) {
  const Layout& l = view.layout;
  plan.row[k] = l.strides[l.rank - 2];
  plan.column[k] = l.strides[l.rank - 1];
  plan.dtype[k] = l.dtype;
}

/// Entries [first, first + count) along a dimension.
View part_of(View view, int d, int64_t first, int64_t count) {
  if (view.data == nullptr) return view;
  view.data = static_cast<char*>(view.data) + first * view.layout.strides[d];
  view.layout.numel = view.layout.numel / view.layout.sizes[d] * count;
  view.layout.sizes[d] = count;
  view.layout.contiguous = 0;
  return view;
}

/// The operands' halves along a dimension of the output; b has no rows of it, a no columns.
void in_halves(int d, const View& out, const View& a, const View& b, const View& bias) {
  const int64_t size = out.layout.sizes[d], half = size / 2;
  const int rank = out.layout.rank;
  for (const auto& [first, count] : {std::pair{int64_t{0}, half}, std::pair{half, size - half}}) {
    matmul(part_of(out, d, first, count), d == rank - 1 ? a : part_of(a, d, first, count),
           d == rank - 2 ? b : part_of(b, d, first, count), part_of(bias, d, first, count));
  }
}

/// Along y and z a grid has no more groups.
constexpr int64_t most_groups = 65535;

}  // namespace

void matmul(const View& out, const View& a, const View& b, const View& bias) {
  const Layout& l = out.layout;
  if (!is_computable(l.dtype) || l.dtype == DType::boolean) unsupported("matmul", out);
  if (l.numel == 0) return;
  if (a.layout.sizes[a.layout.rank - 1] == 0) return bias.data != nullptr ? copy(out, bias) : fill(out, Scalar(0));
  Accelerator& device = device_of(out);
  const Compute compute = ring_of(l.dtype);
  require(device, compute, "matmul", out);
  portable::Matmul plan = {};
  const bool has_bias = bias.data != nullptr;
  plan.has_bias = has_bias;
  plan.m = l.sizes[l.rank - 2];
  plan.n = l.sizes[l.rank - 1];
  plan.k = a.layout.sizes[l.rank - 1];
  set_operand(plan, 0, out);
  set_operand(plan, 1, a);
  set_operand(plan, 2, b);
  if (has_bias) set_operand(plan, 3, bias);
  const Layout* const layouts[] = {&l, &a.layout, &b.layout, has_bias ? &bias.layout : &l};
  plan.batch = walk_of(layouts, 0, l.rank - 2);
  const bool large = plan.m >= 32 && plan.n >= 32;
  const int64_t edge = large ? 64 : 16;
  if (plan.batch.count > most_groups) {
    int d = 0;
    while (l.sizes[d] == 1) ++d;
    return in_halves(d, out, a, b, bias);
  }
  if (groups_for(plan.m, edge) > most_groups) return in_halves(l.rank - 2, out, a, b, bias);
  const Grid grid = {{groups_for(plan.n, edge), groups_for(plan.m, edge), static_cast<uint32_t>(plan.batch.count)},
                     {16, 16, 1}};
  launch(device, (large ? large_entry : small_entry).on(device, compute), grid, out.data, a.data, b.data, bias.data,
         plan);
}

}  // namespace weft::portable::host
