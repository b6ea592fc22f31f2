#include "../create.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../detail/reducing.hpp"

namespace weft {

namespace {

void check_not_empty(const Tensor& x, const Reduced& to) {
  if (WEFT_LIKELY(to.count != 0) || to.shape.product() == 0) return;
  raise<ValueError>(
      {.problem = "there is no extreme over no elements", .details = fmt::format("shape {}", x.shape().text())});
}

// g in equal parts to all elements that are the extreme.
struct ExtremeBackward {
  Saved input;
  SavedOutput output;
  Dims kept;
  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor& x = input.get(self);
    const Tensor y = restore_dims(output.get(self), kept).detach();
    // A NaN is an extreme but equals nothing.
    const Tensor chosen = logical_or(x == y, isnan(x));
    const Tensor ties = sum(chosen, reduced_dims(kept), true).to(x.dtype());
    return weft::where(chosen, restore_dims(g, kept) / ties, 0.0);
  }
};

Tensor extreme(Reduction reduction, const Tensor& x, const Dims& dims, bool keepdim) {
  const Reduced to = reduced(checked(x), dims, keepdim);
  check_not_empty(x, to);
  Tensor out = run_reduce(reduction, x, to, x.dtype());
  if (should_record(x)) record(out, ExtremeBackward{Saved(x), SavedOutput(out), to.kept}, x);
  return out;
}

Tensor arg_extreme(ArgReduction reduction, const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  const Dims dims = dim ? Dims(*dim) : Dims();
  const Reduced to = reduced(checked(x), dims, keepdim);
  check_not_empty(x, to);
  Tensor out = make(to.shape, DType::i64, x.device());
  const auto kernel = WEFT_KERNEL(arg_reduce, x);
  if (dim || x.dim() == 0) {
    const int along = dim ? wrap_dim(*dim, x.dim()) : 0;
    kernel(reduction, at_least_1d(reshaped_view(out.raw_view(), to.kept)), at_least_1d(x.raw_view()), along);
    return out;
  }
  NoGradGuard unrecorded;
  const Tensor dense = x.contiguous();
  kernel(reduction, reshaped_view(out.raw_view(), Dims(1)), reshaped_view(dense.raw_view(), Dims(x.numel())), 0);
  return out;
}

// Where `index` points: true at one position of each line along `dim`.
Tensor picked_positions(const Tensor& index, int dim, int64_t size) {
  Dims line = Dims::filled(index.dim(), 1);
  if (index.dim() > 0) line[dim] = size;
  const Tensor positions = arange(0, size, 1, {DType::i64, index.device()}).view(line);
  return positions == index;
}

// The selected elements get g, all others 0.
struct PickBackward {
  Saved index;
  Dims sizes;
  int dim;
  Tensor operator()(Node& self, Tensor&& gradient) {
    const Tensor& at = index.get(self);
    const Tensor g = restore_dims(gradient, at.shape());
    const auto kernel = kernels(g.raw_view()).scatter;
    if (recording() || kernel == nullptr) {
      const Tensor chosen = picked_positions(at, dim, sizes.empty() ? 1 : sizes[dim]);
      return weft::where(chosen, g, 0.0);
    }
    Tensor dx = zeros(sizes, {g.dtype(), g.device()});
    kernel(Scatter::sum, at_least_1d(dx.raw_view()), dim, at_least_1d(at.raw_view()), at_least_1d(g.raw_view()));
    return dx;
  }
};

ValuesAndIndices extreme_with_index(ArgReduction reduction, const Tensor& x, int dim, bool keepdim) {
  const Tensor index = arg_extreme(reduction, x, dim, true);
  const int along = wrap_dim(dim, x.dim());
  Dims shape = index.shape();
  if (!keepdim && x.dim() > 0) shape.erase(along);
  return {pick(x, along, index, shape), keepdim ? index : with_shape(index, shape)};
}

}  // namespace

Tensor pick(const Tensor& x, int dim, const Tensor& index, const Dims& shape) {
  Tensor out;
  if (const auto kernel = kernels(x.raw_view()).gather; WEFT_LIKELY(kernel != nullptr)) {
    out = make(shape, x.dtype(), x.device());
    kernel(at_least_1d(reshaped_view(out.raw_view(), index.sizes())), at_least_1d(x.raw_view()), dim,
           at_least_1d(index.raw_view()));
  } else {
    NoGradGuard unrecorded;
    const Tensor chosen = picked_positions(index, dim, x.dim() == 0 ? 1 : x.sizes()[dim]);
    out = with_shape(sum(weft::where(chosen, x, 0), dim, true, x.dtype()), shape);
  }
  if (should_record(x)) record(out, PickBackward{Saved(index), x.shape(), dim}, x);
  return out;
}

Tensor max(const Tensor& x, Location where) {
  const CallScope call("max", where);
  return extreme(Reduction::max, x, {}, false);
}
Tensor min(const Tensor& x, Location where) {
  const CallScope call("min", where);
  return extreme(Reduction::min, x, {}, false);
}
Tensor max(const Tensor& a, const Tensor& b, Location where) { return maximum(Operand(a, where), b); }
Tensor min(const Tensor& a, const Tensor& b, Location where) { return minimum(Operand(a, where), b); }
ValuesAndIndices max(const Tensor& x, int dim, bool keepdim, Location where) {
  const CallScope call("max", where);
  return extreme_with_index(ArgReduction::max, x, dim, keepdim);
}
ValuesAndIndices min(const Tensor& x, int dim, bool keepdim, Location where) {
  const CallScope call("min", where);
  return extreme_with_index(ArgReduction::min, x, dim, keepdim);
}
Tensor amax(const Tensor& x, const Dims& dims, bool keepdim, Location where) {
  const CallScope call("amax", where);
  return extreme(Reduction::max, x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Dims& dims, bool keepdim, Location where) {
  const CallScope call("amin", where);
  return extreme(Reduction::min, x, dims, keepdim);
}
Tensor argmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim, Location where) {
  const CallScope call("argmax", where);
  return arg_extreme(ArgReduction::max, x, dim, keepdim);
}
Tensor argmin(const Tensor& x, std::optional<int64_t> dim, bool keepdim, Location where) {
  const CallScope call("argmin", where);
  return arg_extreme(ArgReduction::min, x, dim, keepdim);
}

}  // namespace weft
