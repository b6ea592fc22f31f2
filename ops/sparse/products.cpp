#include "../sparse.hpp"

#include "../../autograd/gradient_rows.hpp"
#include "../../backends/sparse.hpp"
#include "../create.hpp"
#include "../detail/complex.hpp"
#include "../detail/csr_pattern.hpp"
#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../detail/sorted_keys.hpp"
#include "../index.hpp"
#include "../join.hpp"
#include "../linalg/common.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// ---- checks ---------------------------------------------------------------------------------------------------------

[[noreturn]] void refuse_shapes(const std::string& problem) { raise<ShapeError>({.problem = problem}); }

void check_numbers(const Tensor& a, const Tensor& b) {
  if (WEFT_UNLIKELY(a.dtype() != b.dtype())) {
    raise<DTypeError>({.problem = fmt::format("{} and {} have no product", name(a.dtype()), name(b.dtype())),
                       .remedy = "convert one of them with to()"});
  }
  if (WEFT_UNLIKELY(a.dtype() == DType::boolean || is_storage_only(a.dtype()))) {
    raise<DTypeError>({.problem = fmt::format("{} has no products", name(a.dtype()))});
  }
}

bool has_kernels(const Tensor& x) { return is_floating(x.dtype()) && kernels(x.raw_view()).bag_sum != nullptr; }

// ---- values ---------------------------------------------------------------------------------------------------------

Tensor product_by_kernel(const CsrPattern& p, const Tensor& values, const Tensor& dense) {
  const DType wide = compute_type(dense.dtype());
  const Tensor table = dense.to(wide).contiguous(), factors = values.to(wide).contiguous();
  const Tensor out = make(Dims{p.rows, dense.size(1)}, wide, dense.device());
  const Tensor counts = make(Dims{p.rows, 1}, wide, dense.device());
  constexpr int64_t no_padding = -1;
  WEFT_KERNEL(bag_sum, table)
  (out.raw_view(), counts.raw_view(), table.raw_view(), p.columns.raw_view(), p.starts.narrow(0, 0, p.rows).raw_view(),
   factors.raw_view(), no_padding, false);
  return out.to(dense.dtype());
}

void vector_kernel(const View* views, bool, bool) {
  cpu::csr_times_vector(views[0], views[1], views[2], views[3], views[4]);
}

/// Of dense [k, 1] on the CPU.
Tensor product_with_vector(const CsrPattern& p, const Tensor& values, const Tensor& dense) {
  const DType wide = compute_type(dense.dtype());
  const Tensor x = dense.to(wide).contiguous(), factors = values.to(wide).contiguous();
  const Tensor out = make(Dims{p.rows, 1}, wide, dense.device());
  linalg::run("csr_matmul", {out.raw_view()},
              {p.starts.raw_view(), p.columns.raw_view(), factors.raw_view(), x.raw_view()}, vector_kernel, false,
              false, false);
  return out.to(dense.dtype());
}

/// Of dense [k, m].
Tensor product(const CsrPattern& p, const Tensor& values, const Tensor& dense) {
  const NoGradGuard unrecorded;
  if (p.rows == 0 || dense.size(1) == 0) return zeros({p.rows, dense.size(1)}, {dense.dtype(), dense.device()});
  const bool is_vector = dense.size(1) == 1 && dense.device().is_cpu() && is_floating(dense.dtype());
  if (is_vector) return product_with_vector(p, values, dense);
  if (has_kernels(dense)) return product_by_kernel(p, values, dense);
  const Tensor none = zeros({p.rows, dense.size(1)}, {compute_type(dense.dtype()), dense.device()});
  if (p.columns.numel() == 0 || is_meta(none)) return none.to(dense.dtype());
  const Tensor terms = to_compute_type(values).unsqueeze(1) * to_compute_type(index_select(dense, 0, p.columns));
  return index_add(none, 0, rows_of_elements(p.starts, p.columns.numel()), terms).to(dense.dtype());
}

void sampled_kernel(const View* views, bool, bool) {
  cpu::csr_sampled_product(views[0], views[1], views[2], views[3], views[4]);
}

Tensor sampled(const CsrPattern& p, const Tensor& a, const Tensor& b) {
  const NoGradGuard unrecorded;
  const int64_t n = p.columns.numel();
  if (is_floating(a.dtype()) && (a.device().is_cpu() || is_meta(a))) {
    const DType wide = compute_type(a.dtype());
    const Tensor left = a.to(wide).contiguous(), right = b.to(wide).contiguous();
    const Tensor out = make(Dims{n}, wide, a.device());
    linalg::run("csr_sampled_product", {out.raw_view()},
                {p.starts.raw_view(), p.columns.raw_view(), left.raw_view(), right.raw_view()}, sampled_kernel, false,
                false, false);
    return out.to(a.dtype());
  }
  if (n == 0 || is_meta(a)) return zeros({n}, {a.dtype(), a.device()});
  const Tensor left = index_select(a, 0, rows_of_elements(p.starts, n)), right = index_select(b, 0, p.columns);
  return sum(to_compute_type(left) * to_compute_type(right), 1).to(a.dtype());
}

// ---- gradients ------------------------------------------------------------------------------------------------------

/// The product of the transposed matrix, with elements sorted by column. Captured steps and the meta device have no
/// values to sort; there each element's term is added to its column.
Tensor transposed_product(const Tensor& starts, const Tensor& columns, int64_t count, const Tensor& values,
                          const Tensor& dense) {
  if (WEFT_UNLIKELY(detail::capture_recorder != nullptr || is_meta(dense))) {
    const Tensor rows = index_select(to_compute_type(dense), 0, rows_of_elements(starts, columns.numel()));
    const Tensor none = zeros({count, dense.size(1)}, {rows.dtype(), rows.device()});
    return index_add(none, 0, columns, to_compute_type(values).unsqueeze(1) * rows).to(dense.dtype());
  }
  const SortedKeys by_column = grouped_keys(columns, count);
  const Tensor rows = index_select(rows_of_elements(starts, columns.numel()), 0, by_column.order);
  return csr_matmul(by_column.starts, rows, index_select(values, 0, by_column.order), dense);
}

struct MatmulBackward {
  Saved starts, columns, values, dense;
  int64_t count;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor &g = incoming[0], at = starts.get(self), in = columns.get(self);
    if (self.wants(0)) outgoing[0] = csr_sampled_product(at, in, g, conjugate(dense.get(self)));
    if (self.wants(1)) outgoing[1] = transposed_product(at, in, count, conjugate(values.get(self)), g);
  }
};

struct SampledBackward {
  Saved starts, columns, a, b;
  int64_t count;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor &g = incoming[0], at = starts.get(self), in = columns.get(self);
    if (self.wants(0)) outgoing[0] = csr_matmul(at, in, g, conjugate(b.get(self)));
    if (self.wants(1)) outgoing[1] = transposed_product(at, in, count, g, conjugate(a.get(self)));
  }
};

Saved saved_for(const Tensor& x, const Tensor& other) { return needs_gradient(other.impl()) ? Saved(x) : Saved(); }

}  // namespace

Tensor csr_matmul(const Tensor& row_starts, const Tensor& columns, const Tensor& values, const Tensor& dense,
                  Location where) {
  const CallScope call("csr_matmul", where);
  check_same_device({&checked(row_starts), &checked(columns), &checked(values), &checked(dense)});
  check_numbers(values, dense);
  expect_rank("values", values, 1);
  if (dense.dim() == 1) return csr_matmul(row_starts, columns, values, dense.unsqueeze(1)).squeeze(1);
  expect_matrix("dense", dense);
  const CsrPattern p(row_starts, columns, values.numel(), dense.size(0));
  const Tensor out = product(p, values, dense);
  if (should_record(values, dense)) {
    record(
        out,
        MatmulBackward{Saved(p.starts), Saved(p.columns), saved_for(values, dense), saved_for(dense, values), p.count},
        values, dense);
  }
  return out;
}

Tensor csr_sampled_product(const Tensor& row_starts, const Tensor& columns, const Tensor& a, const Tensor& b,
                           Location where) {
  const CallScope call("csr_sampled_product", where);
  check_same_device({&checked(row_starts), &checked(columns), &checked(a), &checked(b)});
  check_numbers(a, b);
  if (a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(1)) {
    refuse_shapes(mismatch_text("a and b", "matrices of as many columns",
                                fmt::format("shapes {} and {}", a.shape().text(), b.shape().text())));
  }
  const CsrPattern p(row_starts, columns, columns.numel(), b.size(0));
  if (p.rows != a.size(0)) refuse_shapes(fmt::format("{} rows are started, a has {}", p.rows, a.size(0)));
  const Tensor out = sampled(p, a, b);
  if (should_record(a, b)) {
    record(out, SampledBackward{Saved(p.starts), Saved(p.columns), saved_for(a, b), saved_for(b, a), p.count}, a, b);
  }
  return out;
}

GradientRows detail::added_up(std::span<const GradientRows> pieces, int64_t rows) {
  std::vector<Tensor> ids, values;
  for (const GradientRows& piece : pieces) ids.push_back(piece.ids), values.push_back(piece.values);
  const Tensor all_ids = ids.size() == 1 ? ids[0] : cat(ids, 0);
  const Tensor all = values.size() == 1 ? values[0] : cat(values, 0);
  const SortedKeys sorted = sorted_keys(all_ids, rows);
  if (sorted.was_sorted) return {all_ids, all, true};
  const int64_t n = all.size(0);
  Dims shape = all.shape();
  shape[0] = sorted.keys.numel();
  const Tensor flat = all.reshape({n, n == 0 ? 0 : all.numel() / n});
  const Tensor sums = csr_matmul(sorted.starts, sorted.order, ones({n}, {all.dtype(), all.device()}), flat);
  return {sorted.keys, with_shape(sums, shape), true};
}

namespace {

Tensor integers(SampleMaker& make, const std::vector<int64_t>& values) { return tensor(values).to(make.device()); }

std::vector<Values> matmul_samples(SampleMaker& make) {
  return {
      {integers(make, {0, 2, 2, 5}), integers(make, {1, 3, 0, 2, 2}), make.tensor({5}), make.tensor({4, 3})},
      {integers(make, {0, 3}), integers(make, {1, 0, 1}), make.tensor({3}), make.tensor({2})},
      {integers(make, {0, 0, 0}), integers(make, {}), make.tensor({0}), make.tensor({3, 2})},
      {integers(make, {0}), integers(make, {}), make.tensor({0}), make.tensor({3, 2})},
      {integers(make, {0, 1, 4}), integers(make, {19, 0, 7, 3}), make.tensor({4}), make.tensor({20, 70})},
  };
}
std::vector<Values> sampled_samples(SampleMaker& make) {
  return {
      {integers(make, {0, 2, 2, 5}), integers(make, {1, 3, 0, 2, 2}), make.tensor({3, 2}), make.tensor({4, 2})},
      {integers(make, {0, 0, 0}), integers(make, {}), make.tensor({2, 2}), make.tensor({3, 2})},
      {integers(make, {0, 1, 4}), integers(make, {9, 0, 7, 3}), make.tensor({2, 70}), make.tensor({10, 70})},
  };
}

constexpr OpRecord records[] = {
    {"csr_matmul", "csr_matmul(row_starts, columns, values, dense)",
     "The sparse matrix of values [n], in compressed rows, times dense [k, m] or [k].", true, OpRecord::Domain::numeric,
     matmul_samples, parts::whole, detail::boxed<weft::csr_matmul>},
    {"csr_sampled_product", "csr_sampled_product(row_starts, columns, a, b)",
     "Of a [rows, m] times b [k, m] transposed those elements that a sparse matrix in compressed rows has: [n].", true,
     OpRecord::Domain::numeric, sampled_samples, parts::whole, detail::boxed<weft::csr_sampled_product>},
};

}  // namespace

std::span<const OpRecord> sparse_records() { return records; }

}  // namespace weft
