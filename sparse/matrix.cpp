// A product is a sum of bags as in `embedding_bag`, with a factor per row, so one kernel serves both on every device.
// The gradients use the transposed matrix; the host sorts its elements by column.
#include "matrix.hpp"

#include <limits>

#include "../ops/create.hpp"
#include "../ops/detail/csr_pattern.hpp"
#include "../ops/detail/sorted_keys.hpp"
#include "../ops/index.hpp"
#include "../ops/join.hpp"
#include "../ops/masked.hpp"
#include "../ops/pointwise.hpp"
#include "../ops/reduce.hpp"
#include "../ops/sparse.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::sparse {

namespace {

[[noreturn]] void refuse_shapes(const std::string& problem) { raise<ShapeError>({.problem = problem}); }

Dims leading(const Dims& shape, int n) { return Dims(std::span<const int64_t>(shape).first(static_cast<size_t>(n))); }
Dims behind(const Dims& shape, int n) { return Dims(std::span<const int64_t>(shape).subspan(static_cast<size_t>(n))); }
Dims joined(int64_t first, const Dims& rest) {
  Dims all{first};
  for (const int64_t size : rest) all.push_back(size);
  return all;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

void check_places(const Dims& sparse) {
  int64_t places = 1;
  bool overflows = false, none = false;
  for (const int64_t size : sparse) {
    if (size < 0) refuse_shapes(fmt::format("shape {} has a negative size", sparse.text()));
    none |= size == 0;
    overflows |= size != 0 && places > std::numeric_limits<int64_t>::max() / size;
    if (!overflows && size != 0) places *= size;
  }
  if (overflows && !none) refuse_shapes(fmt::format("the sparse dimensions {} have too many places", sparse.text()));
}

void check_within(const Tensor& indices, const Dims& shape) {
  if (is_meta(indices)) return;
  check_elements([indices, shape] {
    const Tensor here = indices.to(Device());
    const auto* const at = static_cast<const int64_t*>(here.raw_view().data);
    const int64_t n = here.size(1);
    for (int64_t i = 0; i < here.numel(); ++i) {
      const int64_t size = shape[static_cast<int>(i / n)];
      if (WEFT_LIKELY(static_cast<uint64_t>(at[i]) < static_cast<uint64_t>(size))) continue;
      raise<IndexError>(
          {.problem = fmt::format("index {} of element {} is none of {} in dimension {}", at[i], i % n, size, i / n)});
    }
  });
}

void check_matrix(const Coo& a) {
  if (a.shape.size() == 2 && a.sparse_dims() == 2) return;
  refuse_shapes(mismatch_text("", "a matrix with 2 sparse dimensions",
                              fmt::format("shape {} with {}", a.shape.text(), a.sparse_dims())));
}

void check_matrix(const Csr& a) {
  if (a.shape.size() != 2) refuse_shapes("no matrix has the shape " + a.shape.text());
}

void check_product(const Dims& shape, const Tensor& dense) {
  const bool fits = (checked(dense).dim() == 1 || dense.dim() == 2) && dense.size(0) == shape[1];
  if (WEFT_LIKELY(fits)) return;
  refuse_shapes(fmt::format("a matrix {} has no product with shape {}", shape.text(), dense.shape().text()));
}

// ---- places ---------------------------------------------------------------------------------------------------------

/// [n], i64: each index as a number in row-major order.
Tensor places_of(const Coo& a) {
  const NoGradGuard unrecorded;
  Tensor place = a.indices.select(0, 0);
  for (int d = 1; d < a.sparse_dims(); ++d) place = place * a.shape[d] + a.indices.select(0, d);
  return place;
}
/// Values as [n, size of a block].
Tensor blocks_of(const Coo& a) { return a.values.reshape({a.nnz(), behind(a.shape, a.sparse_dims()).product()}); }

Tensor first_column(const Tensor& list) { return list.select(1, 0).contiguous(); }

}  // namespace

Coo coo(const Tensor& indices, const Tensor& values, const Dims& shape, Location where) {
  const CallScope call("sparse::coo", where);
  check_same_device({&checked(indices), &checked(values)});
  const Tensor at = checked_integers(indices, "indices", 2);
  const auto dims = at.size(0);
  if (values.dim() == 0 || values.size(0) != at.size(1)) {
    refuse_shapes(fmt::format("values {} for {} indices", values.shape().text(), at.size(1)));
  }
  if (dims == 0 || dims + values.dim() - 1 != shape.size()) {
    refuse_shapes(fmt::format("shape {} for {} sparse and {} dense dimensions", shape.text(), dims, values.dim() - 1));
  }
  const int sparse = static_cast<int>(dims);
  if (!(behind(shape, sparse) == behind(values.shape(), 1))) {
    refuse_shapes(fmt::format("shape {} for values {}", shape.text(), values.shape().text()));
  }
  check_places(leading(shape, sparse));
  check_within(at, shape);
  return {at, values, shape, false};
}

Csr csr(const Tensor& row_starts, const Tensor& columns, const Tensor& values, const Dims& shape, Location where) {
  const CallScope call("sparse::csr", where);
  check_same_device({&checked(row_starts), &checked(columns), &checked(values)});
  if (shape.size() != 2 || shape[0] < 0 || shape[1] < 0) refuse_shapes("no matrix has the shape " + shape.text());
  expect_rank("values", values, 1);
  const CsrPattern pattern(row_starts, columns, values.numel(), shape[1]);
  if (pattern.rows != shape[0]) refuse_shapes(fmt::format("{} rows are started of {}", pattern.rows, shape[0]));
  return {pattern.starts, pattern.columns, values, shape};
}

Coo coalesce(const Coo& a, Location where) {
  const CallScope call("sparse::coalesce", where);
  if (a.is_coalesced) return a;
  const SortedKeys sorted = sorted_keys(places_of(a), leading(a.shape, a.sparse_dims()).product());
  if (sorted.was_sorted) return {a.indices, a.values, a.shape, true};
  const int64_t n = a.nnz(), left = sorted.keys.numel();
  const Tensor firsts = index_select(sorted.order, 0, sorted.starts.narrow(0, 0, left));
  const Tensor ones_of = ones({n}, {a.values.dtype(), a.values.device()});
  const Tensor sums = csr_matmul(sorted.starts, sorted.order, ones_of, blocks_of(a));
  return {index_select(a.indices, 1, firsts), sums.reshape(joined(left, behind(a.values.shape(), 1))), a.shape, true};
}

Coo to_coo(const Tensor& dense, int sparse_dims, Location where) {
  const CallScope call("sparse::to_coo", where);
  if (checked(dense).dim() == 0) refuse_shapes("a 0-d tensor has no indices");
  const int sparse = sparse_dims < 0 ? dense.dim() : sparse_dims;
  if (sparse == 0 || sparse > dense.dim()) {
    raise<ValueError>({.problem = fmt::format("{} sparse dimensions of shape {}", sparse, dense.shape().text())});
  }
  const Dims outer = leading(dense.shape(), sparse), inner = behind(dense.shape(), sparse);
  const Tensor blocks = dense.reshape({outer.product(), inner.product()});
  Tensor places, indices;
  {
    const NoGradGuard unrecorded;
    const Tensor kept = any(blocks.detach() != 0, {1});
    places = first_column(nonzero(kept));
    indices = nonzero(kept.reshape(outer)).transpose(0, 1).contiguous();
  }
  return {indices, index_select(blocks, 0, places).reshape(joined(places.numel(), inner)), dense.shape(), true};
}

Coo to_coo(const Csr& a, Location where) {
  const CallScope call("sparse::to_coo", where);
  return {stack({rows_of_elements(a.row_starts, a.nnz()), a.columns}), a.values, a.shape, false};
}

Csr to_csr(const Tensor& dense, Location where) {
  const CallScope call("sparse::to_csr", where);
  expect_matrix("dense", checked(dense));
  return to_csr(to_coo(dense));
}

Csr to_csr(const Coo& a, Location where) {
  const CallScope call("sparse::to_csr", where);
  check_matrix(a);
  const Coo sorted = coalesce(a);
  const Tensor starts = grouped_keys(sorted.indices.select(0, 0), a.shape[0]).starts;
  return {starts, sorted.indices.select(0, 1).contiguous(), sorted.values, a.shape};
}

Tensor to_dense(const Coo& a, Location where) {
  const CallScope call("sparse::to_dense", where);
  const Dims outer = leading(a.shape, a.sparse_dims()), inner = behind(a.shape, a.sparse_dims());
  const Tensor none = zeros({outer.product(), inner.product()}, {a.values.dtype(), a.values.device()});
  return index_add(none, 0, places_of(a), blocks_of(a)).reshape(a.shape);
}

Tensor to_dense(const Csr& a, Location where) {
  const CallScope call("sparse::to_dense", where);
  return to_dense(to_coo(a));
}

Coo transpose(const Coo& a, Location where) {
  const CallScope call("sparse::transpose", where);
  if (a.sparse_dims() != 2) refuse_shapes(fmt::format("{} sparse dimensions have no rows", a.sparse_dims()));
  Dims shape = a.shape;
  std::swap(shape[0], shape[1]);
  return {stack({a.indices.select(0, 1), a.indices.select(0, 0)}), a.values, shape, false};
}

Csr transpose(const Csr& a, Location where) {
  const CallScope call("sparse::transpose", where);
  check_matrix(a);
  const SortedKeys by_column = grouped_keys(a.columns, a.shape[1]);
  const Tensor rows = index_select(rows_of_elements(a.row_starts, a.nnz()), 0, by_column.order);
  return {by_column.starts, rows, index_select(a.values, 0, by_column.order), Dims{a.shape[1], a.shape[0]}};
}

Tensor matmul(const Coo& a, const Tensor& dense, Location where) {
  const CallScope call("sparse::matmul", where);
  check_matrix(a);
  check_product(a.shape, dense);
  const SortedKeys by_row = grouped_keys(a.indices.select(0, 0), a.shape[0]);
  return csr_matmul(by_row.starts, index_select(a.indices.select(0, 1), 0, by_row.order),
                    index_select(a.values, 0, by_row.order), dense);
}

Tensor matmul(const Csr& a, const Tensor& dense, Location where) {
  const CallScope call("sparse::matmul", where);
  check_matrix(a);
  check_product(a.shape, dense);
  return csr_matmul(a.row_starts, a.columns, a.values, dense);
}

}  // namespace weft::sparse
