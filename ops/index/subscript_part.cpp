// The kernels behind x[…]: regions are views, tensors of indices and masks gather and scatter.
#include "../detail/subscript_part.hpp"

#include "../../backends/functors/lists.hpp"
#include "../../tensor/checked.hpp"
#include "../create.hpp"
#include "../detail/indices.hpp"
#include "../pointwise.hpp"

namespace weft {

namespace {

bool reads_no_index(const Selection& part, int64_t elements) {
  if (elements == 0) return true;
  for (int k = 0; k < part.advanced.count; ++k) {
    if (part.advanced.extent[k] == 0) return true;
  }
  return false;
}

// `to` is a view of x.
void write_view(const Tensor& x, const View& to, const Tensor& values, bool add) {
  if (to.layout.numel == 0) return;
  if (!add && values.dim() == 0 && values.device().is_cpu() && !is_complex(values.dtype())) {
    WEFT_KERNEL(fill, x)(to, values.item_scalar());
    return;
  }
  if (WEFT_LIKELY(!add && values.device() == x.device())) {
    WEFT_KERNEL(copy, x)(to, broadcast_view(values.raw_view(), sizes_of(to.layout)));
    return;
  }
  const NoGradGuard unrecorded;
  const Tensor on_device = values.to(x.device()), terms = add ? on_device.to(x.dtype()) : on_device;
  const View wide = broadcast_view(terms.raw_view(), sizes_of(to.layout));
  if (add) WEFT_KERNEL(binary, x)(BinaryOp::add, to, to, wide);
  else WEFT_KERNEL(copy, x)(to, wide);
}

}  // namespace

Tensor read_part(const Tensor& x, const Region& part) {
  const View view = region_view(x.raw_view(), part);
  return make_view(x, view.layout, view.data);
}

Tensor read_part(const Tensor& x, const Selection& part) {
  Tensor out = make(part.shape(), x.dtype(), x.device());
  if (WEFT_UNLIKELY(reads_no_index(part, out.numel()))) {
    check_indices(part);
    return out;
  }
  IndexPlan plan;
  View base;
  make_plan(plan, base, x.raw_view(), part);
  if (plan.count == 0) WEFT_KERNEL(copy, x)(out.raw_view(), base);  // nothing but bools
  else WEFT_KERNEL(index_get, x)(out.raw_view(), base, plan);
  return out;
}

// Every position writes its number; the number that is found there is the last one's.
Tensor last_positions(const Selection& selection) {
  const NoGradGuard unrecorded;
  const AdvancedIndices& advanced = selection.advanced;
  Selection places = selection;
  Region& region = places.region;
  places.advanced.at = 0;
  region.rank = 0;
  region.whole = {};
  for (int k = 0; k < advanced.count; ++k) {
    region.whole.push_back(advanced.extent[k]);
    region.first[k] = 0;
    places.advanced.dim[k] = static_cast<uint8_t>(k);
    places.advanced.span[k] = 1;
  }
  const int64_t count = advanced.joined.product();
  const DType type = count <= INT32_MAX ? DType::i32 : DType::i64;
  const Device device = selection.index[0].device();
  const Tensor number = arange(0, count, 1, {type, device}).view(advanced.joined);
  const Tensor last = make(region.whole, type, device);
  write_part(last, places, number, false);
  return read_part(last, places) == number;
}

namespace {

// The same from the picked elements as one list of numbers, in row-major order of the dimensions that are indexed;
// undefined where none repeats.
Tensor last_in_list(const AdvancedIndices& advanced, const Tensor* index) {
  const NoGradGuard unrecorded;
  Tensor number = from_beginning(index[0], advanced.extent[0]);
  int64_t size = advanced.extent[0];
  for (int k = 1; k < advanced.count; ++k) {
    number = number.to(DType::i64) * advanced.extent[k] + from_beginning(index[k], advanced.extent[k]);
    size *= advanced.extent[k];
  }
  return last_of_duplicates(size, 0, number.expand(advanced.joined).reshape({-1}));
}

}  // namespace

Tensor of_last_positions(Tensor&& values, const Selection& part) {
  const AdvancedIndices& advanced = part.advanced;
  if (advanced.distinct || values.numel() == 0) return std::move(values);
  const bool reads = reads_indices(part.index[0]);
  const Tensor last = reads ? last_in_list(advanced, part.index) : last_positions(part);
  if (!last.defined()) return std::move(values);
  Dims shape = advanced.joined;
  for (int a = advanced.at; a < part.region.rank; ++a) shape.push_back(1);
  return where(last.view(shape), values, 0);
}

Tensor read_part(const Tensor& x, const MaskSelection& part) {
  Tensor out = make(part.shape(), x.dtype(), x.device());
  if (part.count != 0) {
    WEFT_KERNEL(masked_select, x)(out.raw_view(), x.raw_view(), part.mask.raw_view());
  }
  return out;
}

void write_part(const Tensor& x, const Region& part, const Tensor& values, bool add) {
  write_view(x, region_view(x.raw_view(), part), values, add);
}

void write_part(const Tensor& x, const Selection& part, const Tensor& values, bool add) {
  const Dims shape = part.shape();
  check_sizes(shape, x.dtype());
  if (WEFT_UNLIKELY(reads_no_index(part, shape.product()))) {
    check_indices(part);
    return;
  }
  IndexPlan plan;
  View base;
  make_plan(plan, base, x.raw_view(), part);
  if (plan.count == 0) {  // nothing but bools
    write_view(x, base, values, add);
    return;
  }
  WEFT_KERNEL(index_put, x)(base, broadcast_view(values.raw_view(), shape), plan, add);
}

void write_part(const Tensor& x, const MaskSelection& part, const Tensor& values, bool add) {
  if (part.count == 0) return;
  const NoGradGuard unrecorded;
  const View to = x.raw_view(), mask = part.mask.raw_view();
  if (!add && values.numel() == 1) {
    WEFT_KERNEL(where, x)(to, mask, broadcast_view(values.raw_view(), x.sizes()), to);
    return;
  }
  const Tensor terms = add ? read_part(x, part) + values : values;
  const Tensor line = terms.expand(part.shape()).contiguous();
  WEFT_KERNEL(masked_scatter, x)(to, mask, line.raw_view());
}

}  // namespace weft
