#include "matrix_view.hpp"

#include "../kernels.hpp"

namespace weft::cpu {
namespace {

void finish(Layout& layout) {
  int64_t dense = itemsize(layout.dtype);
  layout.numel = 1;
  layout.contiguous = 1;
  for (int d = layout.rank - 1; d >= 0; --d) {
    if (layout.sizes[d] != 1 && layout.strides[d] != dense) layout.contiguous = 0;
    dense *= layout.sizes[d];
    layout.numel *= layout.sizes[d];
  }
  if (layout.numel <= 1) layout.contiguous = 1;
}

}  // namespace

Packed::Plan Packed::plan(const Layout& like, DType dtype) {
  Plan plan{like, itemsize(dtype)};
  plan.layout.dtype = dtype;
  plan.layout.host_scalar = 0;
  for (int d = like.rank - 1; d >= 0; --d) {
    const bool repeats = d < like.rank - 2 && like.strides[d] == 0;
    plan.layout.strides[d] = repeats ? 0 : plan.bytes;
    if (!repeats) plan.bytes *= like.sizes[d];
  }
  finish(plan.layout);
  return plan;
}

Packed Packed::copy_of(const View& from, DType dtype) {
  Packed packed(from, dtype);
  View source = from, target = packed.view;
  for (int d = 0; d < source.layout.rank - 2; ++d) {
    if (target.layout.strides[d] == 0) source.layout.sizes[d] = target.layout.sizes[d] = 1;
  }
  finish(source.layout);
  finish(target.layout);
  cpu::copy(target, source);
  return packed;
}

}  // namespace weft::cpu
