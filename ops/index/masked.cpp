// Selecting by masks: compressing, expanding, coordinates, counts.
#include "../masked.hpp"

#include "../create.hpp"
#include "../detail/masked.hpp"
#include "../detail/records.hpp"
#include "../detail/write.hpp"
#include "../index.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../scan.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

void check_mask(const Tensor& mask) {
  if (WEFT_LIKELY(mask.dtype() == DType::boolean)) return;
  raise_dtype("mask", "bool", mask.dtype(), "compare (mask != 0) or convert it with to(weft::boolean)");
}

Dims broadcast_shape(const Tensor& x, const Tensor& y) {
  const auto joined = broadcast(x.sizes(), y.sizes());
  if (WEFT_LIKELY(joined.has_value())) return *joined;
  raise<ShapeError>({.problem = fmt::format("shapes {} and {} do not broadcast", x.shape().text(), y.shape().text()),
                     .remedy = "sizes must be equal or 1, counted from the last dimension"});
}

void check_broadcasts_to(const char* what, const Tensor& t, const Dims& shape) {
  const auto joined = broadcast(t.sizes(), shape);
  if (WEFT_LIKELY(joined && *joined == shape)) return;
  raise<ShapeError>(
      {.problem = fmt::format("a {} of shape {} does not broadcast to {}", what, t.shape().text(), shape.text())});
}

int64_t count_true(const Tensor& x) {
  if (WEFT_UNLIKELY(is_meta(x))) {
    raise<NotImplementedError>({.problem = "the result's shape follows from values, which meta tensors lack"});
  }
  if (x.numel() == 0) return 0;
  if (const auto kernel = kernels(x.raw_view()).count_nonzero) return kernel(x.raw_view());
  return count_nonzero(x.detach()).item<int64_t>();
}

namespace {

// How often the mask holds once it is broadcast to `shape`.
int64_t count_places(const Tensor& mask, const Dims& shape) {
  const int64_t held = count_true(mask);
  return held == 0 ? 0 : held * (shape.product() / mask.numel());
}

// The first elements of `source`, as many as g has places, in g's order: 0 for those that found none.
Tensor padded(const Tensor& g, const Dims& shape) {
  const Tensor all = zeros(shape.product(), {g.dtype(), g.device()});
  all.narrow(0, 0, g.numel()).copy_(g);
  return all.view(shape);
}

// ---- bodies for devices without the kernels, none of them recorded --------------------------------------------------

// For each element of `mask`, seen flat, how many hold before it.
Tensor rank_of_each(const Tensor& mask) { return cumsum(mask.reshape({-1}), 0, true); }

// The row-major positions where `mask` is true. Other positions are written to one extra slot, which is cut off.
Tensor flat_places(const Tensor& mask, int64_t count) {
  const TensorOptions options{DType::i64, mask.device()};
  const Tensor flat = mask.reshape({-1}), rank = rank_of_each(mask);
  const Tensor slot = where(flat, rank, count);
  const Tensor places = arange(0, flat.numel(), 1, options);
  return index_add(zeros(count + 1, options), 0, slot, places).narrow(0, 0, count);
}

void select_composed(const Tensor& out, const Tensor& x, const Tensor& mask) {
  const Tensor places = flat_places(mask, out.numel());
  out.copy_(index_select(x.reshape({-1}), 0, places));
}

void scatter_composed(const Tensor& out, const Tensor& mask, const Tensor& source) {
  const Tensor rank = rank_of_each(mask);
  const Tensor from = minimum(rank, source.numel() - 1);
  const Tensor picked = index_select(source, 0, from).view(out.shape());
  out.copy_(where(mask, picked, out));
}

void nonzero_composed(const Tensor& out, const Tensor& x) {
  const TensorOptions options{DType::i64, x.device()};
  const Tensor places = flat_places(x != 0, out.sizes()[0]);
  for (int d = 0; d < x.dim(); ++d) {
    const int64_t n = x.sizes()[static_cast<size_t>(d)];
    Dims shape = Dims::filled(x.dim(), 1);
    shape[d] = n;
    const Tensor coordinate = arange(0, n, 1, options).view(shape).expand(x.shape());
    out.select(1, d).copy_(index_select(coordinate.reshape({-1}), 0, places));
  }
}

// ---- gradients ------------------------------------------------------------------------------------------------------

struct SelectBackward {
  Dims x, joined;
  Saved mask;

  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor none = zeros(joined, {g.dtype(), g.device()});
    return sum_to(masked_scatter(none, mask.get(self), g), x);
  }
};

struct ScatterBackward {
  Dims x, source;
  Saved mask;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor& g = incoming[0];
    if (self.wants(1)) outgoing[1] = padded(masked_select(g, mask.get(self)), source);
    if (!self.wants(0)) return;
    outgoing[0] = sum_to(masked_fill(g, mask.get(self), 0), x);
  }
};

// Checks that do not depend on the target's shape.
void check_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  checked(x);
  check_mask(checked(mask));
  checked(source);
  check_same_device({&x, &mask, &source});
  if (WEFT_LIKELY(x.dtype() == source.dtype())) return;
  raise_dtype("source", x.dtype(), source.dtype(), "convert the source with to(dtype)");
}

void check_enough(const Tensor& mask, const Tensor& source, const Dims& shape) {
  if (is_meta(mask)) return;
  const int64_t places = count_places(mask, shape);
  if (WEFT_LIKELY(places <= source.numel())) return;
  raise_mismatch<ShapeError>("source", fmt::format("at least {} elements, the true ones of the mask", places),
                             source.numel());
}

void run_masked_scatter(const Tensor& out, const Tensor& mask, const Tensor& source) {
  if (out.numel() == 0 || source.numel() == 0) return;
  NoGradGuard unrecorded;
  const Tensor list = source.reshape({-1}).contiguous();
  const Tensor places = mask.expand(out.shape());
  const auto kernel = kernels(out.raw_view()).masked_scatter;
  if (WEFT_UNLIKELY(kernel == nullptr)) return scatter_composed(out, places, list);
  kernel(out.raw_view(), places.raw_view(), list.raw_view());
}

}  // namespace

Tensor masked_select(const Tensor& x, const Tensor& mask, Location where) {
  const CallScope call("masked_select", where);
  checked(x);
  check_mask(checked(mask));
  check_same_device({&x, &mask});
  const Dims shape = broadcast_shape(x, mask);
  check_sizes(shape, x.dtype());
  const Tensor out = make(Dims(count_places(mask, shape)), x.dtype(), x.device());
  if (out.numel() != 0) {
    NoGradGuard unrecorded;
    const Tensor from = x.expand(shape), places = mask.expand(shape);
    const auto kernel = kernels(out.raw_view()).masked_select;
    if (WEFT_LIKELY(kernel != nullptr)) kernel(out.raw_view(), from.raw_view(), places.raw_view());
    else select_composed(out, from, places);
  }
  if (should_record(x)) record(out, SelectBackward{x.shape(), shape, Saved(mask)}, x);
  return out;
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source, Location where) {
  const CallScope call("masked_scatter", where);
  check_scatter(x, mask, source);
  const Dims shape = broadcast_shape(x, mask);
  const Tensor out = make(shape, x.dtype(), x.device());
  check_enough(mask, source, shape);
  WEFT_KERNEL(copy, out)(out.raw_view(), broadcast_view(x.raw_view(), shape));
  run_masked_scatter(out, mask, source);
  if (should_record(x, source)) record(out, ScatterBackward{x.shape(), source.shape(), Saved(mask)}, x, source);
  return out;
}

const Tensor& masked_scatter_(const Tensor& x, const Tensor& mask, const Tensor& source, Location where) {
  const CallScope call("masked_scatter_", where);
  check_scatter(x, mask, source);
  check_target(x);
  check_broadcasts_to("mask", mask, x.shape());
  check_enough(mask, source, x.shape());
  const Tensor places = unaliased(mask, x), from = unaliased(source, x);
  write_recorded(
      x, [&] { run_masked_scatter(x, places, from); },
      [&] {
        return ScatterBackward{x.shape(), source.shape(), Saved(places)};
      },
      x, source);
  return x;
}

Tensor nonzero(const Tensor& x, Location where) {
  const CallScope call("nonzero", where);
  if (WEFT_UNLIKELY(is_complex(checked(x).dtype()))) return nonzero(x != 0, where);
  const int64_t count = count_true(x);
  const Tensor out = make(Dims{count, int64_t{x.dim()}}, DType::i64, x.device());
  if (out.numel() == 0) return out;
  NoGradGuard unrecorded;
  const auto kernel = kernels(out.raw_view()).nonzero;
  if (WEFT_LIKELY(kernel != nullptr)) kernel(out.raw_view(), x.raw_view());
  else nonzero_composed(out, x);
  return out;
}

Tensor argwhere(const Tensor& x, Location where) { return nonzero(x, where); }

Tensor count_nonzero(const Tensor& x, const Dims& dims, bool keepdim, Location where) {
  const CallScope call("count_nonzero", where);
  checked(x);
  const Tensor held = x.dtype() == DType::boolean ? x : x != 0;
  return sum(held, dims, keepdim, DType::i64);
}

namespace {

std::vector<Values> masked_select_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.mask({2, 3})},
          {make.tensor({2, 1}), make.mask({3})},
          {make.tensor({}), make.mask({})},
          {make.tensor({4}), make.mask({2, 1})},
          {make.tensor({0, 2}), make.mask({2})}};
}

std::vector<Values> masked_scatter_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.mask({2, 3}), make.tensor({2, 4})},
          {make.tensor({2, 1}), make.mask({3}), make.tensor({6})},
          {make.tensor({}), make.mask({}), make.tensor({})},
          {make.tensor({0, 2}), make.mask({2}), make.tensor({0})}};
}

std::vector<Values> mask_samples(SampleMaker& make) {
  return {
      {make.tensor({2, 3}, 0, 2)}, {make.tensor({2, 3}, -1, 1).t()}, {make.tensor({}, 1, 2)}, {make.tensor({0, 2})}};
}

std::vector<Values> nonzero_samples(SampleMaker& make) {
  std::vector<Values> samples = mask_samples(make);
  samples.push_back({make.tensor({2, 3}, -1, 1), true});
  samples.push_back({make.tensor({}, 1, 2), true});
  return samples;
}
std::vector<Values> count_samples(SampleMaker& make) {
  std::vector<Values> samples = mask_samples(make);
  samples.push_back({make.tensor({2, 3, 2}, -1, 1), Dims{0, -1}});
  samples.push_back({make.tensor({2, 3}, -1, 1), int64_t{1}, true});
  return samples;
}

Value call_nonzero(const Tensor& x, bool as_tuple) {
  if (!as_tuple) return nonzero(x);
  return where(x);
}

constexpr auto any_type = OpRecord::Domain::any;
constexpr OpRecord mask_op_records[] = {
    {"masked_select", "masked_select(x, mask)",
     "The elements of x where mask (bool) holds, in row-major order, 1-d; x and mask broadcast.",
     OpFacts(true, OpFacts::reads_values), any_type, masked_select_samples, parts::whole,
     detail::boxed<&weft::masked_select>},
    {"masked_scatter", "masked_scatter(x, mask, source)",
     "x with the first elements of source where mask (bool) holds, in row-major order; x and mask broadcast.",
     OpFacts(true, OpFacts::reads_values), any_type, masked_scatter_samples, parts::whole,
     detail::boxed<&weft::masked_scatter>},
    {"nonzero", "nonzero(x, *, as_tuple=False)",
     "Coordinates of the elements that are not 0, in row-major order: i64 [count, rank], or one list for each "
     "dimension.",
     OpFacts(false, OpFacts::reads_values), any_type, nonzero_samples, parts::whole, detail::boxed<&call_nonzero>},
    {"argwhere", "argwhere(x)", "As nonzero.", OpFacts(false, OpFacts::reads_values), any_type, mask_samples,
     parts::whole, detail::boxed<&weft::argwhere>},
    {"count_nonzero", "count_nonzero(x, dim=None, keepdim=False)", "How many elements are not 0, over dim or all: i64.",
     false, any_type, count_samples, parts::reduced<ReduceOp::sum>, detail::boxed<&weft::count_nonzero>},
};

}  // namespace

std::span<const OpRecord> masked_records() { return mask_op_records; }

}  // namespace weft
