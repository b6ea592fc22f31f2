// The kernels behind x[…]: regions are views, tensors of indices and masks gather and scatter.
#include <weft/ops/detail/selected.hpp>

namespace weft {

namespace {

bool reads_no_index(const Selection& part, int64_t elements) {
  if (elements == 0) return true;
  for (int k = 0; k < part.picks.count; ++k) {
    if (part.picks.extent[k] == 0) return true;
  }
  return false;
}

// One list of indices into one dimension that no axis before it moved: rows, which have a kernel of their own.
bool picks_rows(const Selection& part) {
  const Picks& picks = part.picks;
  return picks.count == 1 && picks.dim[0] == picks.at && picks.joined.size() == 1 && part.index[0].dim() == 1 &&
         picks.joined[0] == part.index[0].numel();
}

void select_rows(const Tensor& out, const Tensor& x, const Selection& part, const char* op, Location where) {
  const Picks& picks = part.picks;
  View from = region_view(x.raw_view(), part.region);
  Layout& l = from.layout;
  for (int a = l.rank++; a > picks.at; --a) {
    l.sizes[a] = l.sizes[a - 1];
    l.strides[a] = l.strides[a - 1];
  }
  l.sizes[picks.at] = picks.extent[0];
  l.strides[picks.at] = *merged_stride(x.raw_view().layout, picks.dim[0], picks.span[0]);
  finish_layout(l);
  WEFT_KERNEL_FOR(index_select, x, op, where)(out.raw_view(), from, picks.at, part.index[0].raw_view());
}

}  // namespace

Tensor read_part(const Tensor& x, const Region& part, const char*, Location) {
  const View view = region_view(x.raw_view(), part);
  return make_view(x, view.layout, view.data);
}

Tensor read_part(const Tensor& x, const Selection& part, const char* op, Location where) {
  Tensor out = make(part.shape(), x.dtype(), x.device(), op, where);
  if (WEFT_UNLIKELY(reads_no_index(part, out.numel()))) {
    check_indices(part, op, where);
    return out;
  }
  const CallScope scope(op, where);
  if (picks_rows(part)) {
    select_rows(out, x, part, op, where);
    return out;
  }
  IndexPlan plan;
  View base;
  make_plan(plan, base, x.raw_view(), part);
  WEFT_KERNEL_FOR(index_get, x, op, where)(out.raw_view(), base, plan);
  return out;
}

Tensor read_part(const Tensor& x, const MaskSelection& part, const char* op, Location where) {
  Tensor out = make(part.shape(), x.dtype(), x.device(), op, where);
  if (part.count != 0) {
    WEFT_KERNEL_FOR(masked_select, x, op, where)(out.raw_view(), x.raw_view(), part.mask.raw_view());
  }
  return out;
}

void write_part(const Tensor& x, const Region& part, const Tensor& values, bool add, const char* op, Location where) {
  const View to = region_view(x.raw_view(), part);
  if (to.layout.numel == 0) return;
  if (!add && values.dim() == 0 && values.device().is_cpu()) {
    WEFT_KERNEL_FOR(fill, x, op, where)(to, values.item_scalar(where));
    return;
  }
  const NoGradGuard unrecorded;
  const Tensor near = values.to(x.device(), where);
  if (!add) {
    WEFT_KERNEL_FOR(copy, x, op, where)(to, broadcast_view(near.raw_view(), sizes_of(to.layout)));
    return;
  }
  const Tensor terms = near.to(x.dtype(), where);
  WEFT_KERNEL_FOR(binary, x, op, where)(BinaryOp::add, to, to, broadcast_view(terms.raw_view(), sizes_of(to.layout)));
}

void write_part(const Tensor& x, const Selection& part, const Tensor& values, bool add, const char* op,
                Location where) {
  const Dims shape = part.shape();
  if (WEFT_UNLIKELY(reads_no_index(part, shape.product()))) {
    check_indices(part, op, where);
    return;
  }
  IndexPlan plan;
  View base;
  make_plan(plan, base, x.raw_view(), part);
  const CallScope scope(op, where);
  WEFT_KERNEL_FOR(index_put, x, op, where)(base, broadcast_view(values.raw_view(), shape), plan, add);
}

void write_part(const Tensor& x, const MaskSelection& part, const Tensor& values, bool add, const char* op,
                Location where) {
  if (part.count == 0) return;
  const NoGradGuard unrecorded;
  const View to = x.raw_view(), mask = part.mask.raw_view();
  if (!add && values.numel() == 1) {
    WEFT_KERNEL_FOR(where, x, op, where)(to, mask, broadcast_view(values.raw_view(), x.sizes()), to);
    return;
  }
  const Tensor terms = add ? read_part(x, part, op, where) + values : values;
  const Tensor line = terms.expand(part.shape(), where).contiguous(where);
  WEFT_KERNEL_FOR(masked_scatter, x, op, where)(to, mask, line.raw_view());
}

}  // namespace weft
