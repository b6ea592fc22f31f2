#include "../detail/csr_pattern.hpp"

#include "../../backends/sparse.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

[[noreturn]] void refuse_shapes(const std::string& problem) { raise<ShapeError>({.problem = problem}); }

const int64_t* numbers(const Tensor& t) { return static_cast<const int64_t*>(t.raw_view().data); }

void check_starts(const Tensor& starts, int64_t n) {
  const int64_t *s = numbers(starts), rows = starts.numel() - 1;
  bool ascend = s[0] == 0 && s[rows] == n;
  for (int64_t r = 0; r < rows; ++r) ascend &= s[r] <= s[r + 1];
  if (WEFT_LIKELY(ascend)) return;
  raise<ValueError>({.problem = fmt::format("row_starts must ascend from 0 to {}, the number of elements", n)});
}

void check_columns(const Tensor& columns, int64_t count) {
  if (WEFT_LIKELY(cpu::all_inside(columns.raw_view(), count))) return;
  const int64_t *c = numbers(columns), n = columns.numel();
  for (int64_t i = 0; i < n; ++i) {
    if (c[i] >= 0 && c[i] < count) continue;
    raise<IndexError>({.problem = fmt::format("column {} of element {} is none of {}", c[i], i, count)});
  }
}

}  // namespace

Tensor checked_integers(const Tensor& t, const char* what, int rank) {
  if (WEFT_UNLIKELY(!is_integer(checked(t).dtype()) || is_storage_only(t.dtype()))) {
    raise_dtype(what, "integers", t.dtype());
  }
  expect_rank(what, t, rank);
  return t.to(DType::i64).contiguous();
}

CsrPattern::CsrPattern(const Tensor& row_starts, const Tensor& given, int64_t n, int64_t columns_count)
    : starts(checked_integers(row_starts, "row_starts", 1)),
      columns(checked_integers(given, "columns", 1)),
      rows(starts.numel() - 1),
      count(columns_count) {
  if (rows < 0) refuse_shapes("row_starts have an element more than there are rows");
  if (columns.numel() != n) refuse_shapes(fmt::format("{} columns for {} values", columns.numel(), n));
  if (is_meta(starts)) return;
  check_elements([s = starts, c = columns, count = count] {
    check_starts(s.to(Device()), c.numel());
    check_columns(c.to(Device()), count);
  });
}

}  // namespace weft
