#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/detail/reducing.hpp>

namespace weft {

namespace {

void check_not_empty(const Tensor& x, const Reduced& to, const char* op, Location where) {
  if (WEFT_LIKELY(to.count != 0) || to.shape.product() == 0) return;
  raise<ValueError>({.op = op,
                     .problem = "there is no extreme over no elements",
                     .details = fmt::format("shape {}", x.shape().text())},
                    where);
}

// g in equal parts to all elements that are the extreme.
struct ExtremeFormula {
  Saved input;
  SavedOutput output;
  Dims kept;
  Tensor operator()(Node& self, Tensor&& g) {
    const Location where = self.where;
    const Tensor& x = input.get(self);
    const Tensor y = put_back(output.get(self), kept, where).detach();
    // A NaN is an extreme but equals nothing.
    const Tensor chosen =
        logical_or(Operand(eq(Operand(x, where), Operand(y, where)), where), Operand(isnan(Operand(x, where)), where));
    const Tensor ties = sum(chosen, reduced_dims(kept), true, {}, where).to(x.dtype(), where);
    const Tensor share = div(Operand(put_back(g, kept, where), where), Operand(ties, where));
    return weft::where(Operand(chosen, where), Operand(share, where), Operand(0.0, where));
  }
};

Tensor extreme(Reduction reduction, const char* op, const Tensor& x, const Dims& dims, bool keepdim, Location where) {
  const Reduced to = reduced(checked(x, op, where), dims, keepdim, op, where);
  check_not_empty(x, to, op, where);
  Tensor out = run_reduce(reduction, x, to, x.dtype(), op, where);
  if (should_record(x)) record(out, op, where, ExtremeFormula{Saved(x), SavedOutput(out), to.kept}, x);
  return out;
}

Tensor arg_extreme(ArgReduction reduction, const char* op, const Tensor& x, std::optional<int64_t> dim, bool keepdim,
                   Location where) {
  const Dims dims = dim ? Dims(*dim) : Dims();
  const Reduced to = reduced(checked(x, op, where), dims, keepdim, op, where);
  check_not_empty(x, to, op, where);
  Tensor out = make(to.shape, DType::i64, x.device(), op, where);
  const auto kernel = WEFT_KERNEL_FOR(arg_reduce, x, op, where);
  if (dim || x.dim() == 0) {
    const int along = dim ? wrap_dim(*dim, x.dim(), op, where) : 0;
    kernel(reduction, at_least_1d(seen_as(out.raw_view(), to.kept)), at_least_1d(x.raw_view()), along);
    return out;
  }
  NoGradGuard unrecorded;
  const Tensor dense = x.contiguous(where);
  kernel(reduction, seen_as(out.raw_view(), Dims(1)), seen_as(dense.raw_view(), Dims(x.numel())), 0);
  return out;
}

// Where `index` points: true at one position of each line along `dim`.
Tensor picked_positions(const Tensor& index, int dim, int64_t size, Location where) {
  Dims line = Dims::filled(index.dim(), 1);
  if (index.dim() > 0) line[dim] = size;
  const Tensor positions = arange(0, size, 1, {DType::i64, index.device()}, where).view(line, where);
  return eq(Operand(positions, where), Operand(index, where));
}

// What was picked gets g, all else zero.
struct PickFormula {
  Saved index;
  Dims sizes;
  int dim;
  Tensor operator()(Node& self, Tensor&& gradient) {
    const Location where = self.where;
    const Tensor& at = index.get(self);
    const Tensor g = put_back(gradient, at.shape(), where);
    const auto kernel = kernels(g.raw_view()).scatter;
    if (recording() || kernel == nullptr) {
      const Tensor chosen = picked_positions(at, dim, sizes.empty() ? 1 : sizes[dim], where);
      return weft::where(Operand(chosen, where), Operand(g, where), Operand(0.0, where));
    }
    Tensor dx = zeros(sizes, {g.dtype(), g.device()}, where);
    kernel(Scatter::sum, at_least_1d(dx.raw_view()), dim, at_least_1d(at.raw_view()), at_least_1d(g.raw_view()));
    return dx;
  }
};

ValuesAndIndices extreme_with_index(ArgReduction reduction, const char* op, const Tensor& x, int dim, bool keepdim,
                                    Location where) {
  const Tensor index = arg_extreme(reduction, op, x, dim, true, where);
  const int along = wrap_dim(dim, x.dim(), op, where);
  Dims shape = index.shape();
  if (!keepdim && x.dim() > 0) shape.erase(along);
  return {pick(x, along, index, shape, op, where), keepdim ? index : relabelled(index, shape)};
}

}  // namespace

Tensor pick(const Tensor& x, int dim, const Tensor& index, const Dims& shape, const char* op, Location where) {
  Tensor out;
  if (const auto kernel = kernels(x.raw_view()).gather; WEFT_LIKELY(kernel != nullptr)) {
    out = make(shape, x.dtype(), x.device(), op, where);
    const CallScope scope(op, where);
    kernel(at_least_1d(seen_as(out.raw_view(), index.sizes())), at_least_1d(x.raw_view()), dim,
           at_least_1d(index.raw_view()));
  } else {
    NoGradGuard unrecorded;
    const Tensor chosen = picked_positions(index, dim, x.dim() == 0 ? 1 : x.sizes()[dim], where);
    const Tensor alone = weft::where(Operand(chosen, where), Operand(x, where), Operand(0, where));
    out = relabelled(sum(alone, Dims(dim), true, x.dtype(), where), shape);
  }
  if (should_record(x)) record(out, op, where, PickFormula{Saved(index), x.shape(), dim}, x);
  return out;
}

Tensor max(const Tensor& x, Location where) { return extreme(Reduction::max, "max", x, {}, false, where); }
Tensor min(const Tensor& x, Location where) { return extreme(Reduction::min, "min", x, {}, false, where); }
Tensor max(const Tensor& a, const Tensor& b, Location where) { return maximum(Operand(a, where), Operand(b, where)); }
Tensor min(const Tensor& a, const Tensor& b, Location where) { return minimum(Operand(a, where), Operand(b, where)); }
ValuesAndIndices max(const Tensor& x, int dim, bool keepdim, Location where) {
  return extreme_with_index(ArgReduction::max, "max", x, dim, keepdim, where);
}
ValuesAndIndices min(const Tensor& x, int dim, bool keepdim, Location where) {
  return extreme_with_index(ArgReduction::min, "min", x, dim, keepdim, where);
}
Tensor amax(const Tensor& x, const Dims& dims, bool keepdim, Location where) {
  return extreme(Reduction::max, "amax", x, dims, keepdim, where);
}
Tensor amin(const Tensor& x, const Dims& dims, bool keepdim, Location where) {
  return extreme(Reduction::min, "amin", x, dims, keepdim, where);
}
Tensor argmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim, Location where) {
  return arg_extreme(ArgReduction::max, "argmax", x, dim, keepdim, where);
}
Tensor argmin(const Tensor& x, std::optional<int64_t> dim, bool keepdim, Location where) {
  return arg_extreme(ArgReduction::min, "argmin", x, dim, keepdim, where);
}

}  // namespace weft
