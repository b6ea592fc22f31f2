// Triangles of matrices, and the indices of their elements.
#include <algorithm>

#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/records.hpp"
#include "../detail/write.hpp"
#include "../diagonal.hpp"
#include "../pointwise.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

enum class Triangle : uint8_t { lower, upper };

void check_matrices(const Tensor& x) { expect_rank_at_least("x", checked(x), 2); }

// True outside of the triangle: [rows, columns].
Tensor outside(const Tensor& x, int64_t diagonal, Triangle triangle) {
  const int64_t rows = x.size(-2), columns = x.size(-1);
  const int64_t first = std::clamp(diagonal, -rows, columns);
  const TensorOptions options{DType::i64, x.device()};
  const Tensor ends = arange(first, first + rows, 1, options).unsqueeze(1), places = arange(0, columns, 1, options);
  return triangle == Triangle::lower ? gt(places, ends) : lt(places, ends);
}

Tensor triangle_of(const Tensor& x, int64_t diagonal, Triangle triangle) {
  check_matrices(x);
  if (x.numel() == 0) return x.clone();
  return masked_fill(x, outside(x, diagonal, triangle), 0);
}

const Tensor& keep_triangle(const Tensor& x, int64_t diagonal, Triangle triangle) {
  check_matrices(x);
  check_target(x);
  if (x.numel() == 0) return x;
  return masked_fill_(x, outside(x, diagonal, triangle), 0);
}

// Rows of `places`, which are in the order of the triangle's elements: the rows that have none are passed over.
void write_places(const Tensor& places, int64_t rows, int64_t columns, int64_t offset, Triangle triangle) {
  const bool lower = triangle == Triangle::lower;
  auto* row = static_cast<int64_t*>(places.data_ptr());
  auto* column = row + places.size(1);
  const int64_t first = lower ? std::max<int64_t>(0, -offset) : 0;
  const int64_t last = lower ? rows : std::min(rows, columns - offset);
  for (int64_t i = first; i < last; ++i) {
    const int64_t edge = std::clamp<int64_t>(i + offset + (lower ? 1 : 0), 0, columns);
    for (int64_t j = lower ? 0 : edge; j < (lower ? edge : columns); ++j) {
      *row++ = i;
      *column++ = j;
    }
  }
}

// Elements in the lower triangle: each row has one more than the one above, from 0 and up to all columns.
Checked lower_count(int64_t rows, int64_t columns, int64_t offset) {
  __extension__ using Wide = __int128;
  const auto triangular = [](Wide n) { return n <= 0 ? Wide(0) : n * (n + 1) / 2; };
  // Sum over the rows of the elements left of the edge, minus those beyond the last column.
  const Wide last = Wide(offset) + rows, first = Wide(offset);
  const Wide left = triangular(last) - triangular(first);
  const Wide beyond = triangular(last - columns) - triangular(first - columns);
  const Wide count = left - beyond;
  return count > INT64_MAX ? Checked(INT64_MAX) + 1 : Checked(static_cast<int64_t>(count));
}

Tensor indices_of(int64_t rows, int64_t columns, int64_t offset, const TensorOptions& options, Triangle triangle) {
  if (rows < 0 || columns < 0) {
    raise<ValueError>({.problem = fmt::format("there is no matrix of {} rows and {} columns", rows, columns)});
  }
  const DType dtype = options.dtype.value_or(DType::i64);
  if (dtype == DType::boolean) raise<DTypeError>({.problem = "bool cannot count rows and columns"});
  const Checked all = Checked(rows) * columns;
  if (!all.fits()) raise<ShapeError>({.problem = fmt::format("{} * {} elements are too many", rows, columns)});
  const int64_t k = std::clamp(offset, -rows, columns);
  const Checked count =
      triangle == Triangle::lower ? lower_count(rows, columns, k) : all - lower_count(rows, columns, k - 1);
  check_sizes(Dims{int64_t{2}, count.value()}, DType::i64);
  const bool meta = options.device.type == DeviceType::meta;
  const Tensor places = make(Dims{int64_t{2}, count.value()}, DType::i64, meta ? options.device : Device());
  if (!meta && count.value() != 0) write_places(places, rows, columns, k, triangle);
  const Tensor out = places.to(dtype).to(options.device);
  return options.requires_grad ? out.requires_grad_() : out;
}

}  // namespace

Tensor tril(const Tensor& x, int64_t diagonal, Location where) {
  const CallScope call("tril", where);
  return triangle_of(x, diagonal, Triangle::lower);
}
Tensor triu(const Tensor& x, int64_t diagonal, Location where) {
  const CallScope call("triu", where);
  return triangle_of(x, diagonal, Triangle::upper);
}

const Tensor& tril_(const Tensor& x, int64_t diagonal, Location where) {
  const CallScope call("tril_", where);
  return keep_triangle(x, diagonal, Triangle::lower);
}
const Tensor& triu_(const Tensor& x, int64_t diagonal, Location where) {
  const CallScope call("triu_", where);
  return keep_triangle(x, diagonal, Triangle::upper);
}

Tensor tril_indices(int64_t rows, int64_t columns, int64_t offset, TensorOptions options, Location where) {
  const CallScope call("tril_indices", where);
  return indices_of(rows, columns, offset, options, Triangle::lower);
}
Tensor triu_indices(int64_t rows, int64_t columns, int64_t offset, TensorOptions options, Location where) {
  const CallScope call("triu_indices", where);
  return indices_of(rows, columns, offset, options, Triangle::upper);
}

namespace {

using MaybeType = std::optional<DType>;
using MaybeDevice = std::optional<Device>;

Tensor call_tril_indices(int64_t rows, int64_t columns, int64_t offset, MaybeType dtype, MaybeDevice device) {
  return tril_indices(rows, columns, offset, options_of(dtype, device, false));
}
Tensor call_triu_indices(int64_t rows, int64_t columns, int64_t offset, MaybeType dtype, MaybeDevice device) {
  return triu_indices(rows, columns, offset, options_of(dtype, device, false));
}

std::vector<Values> triangle_samples(SampleMaker& make) {
  return {{make.tensor({3, 4})},
          {make.tensor({2, 3, 2}), int64_t{-1}},
          {make.tensor({3, 3}), int64_t{1}},
          {make.tensor({2, 2}), int64_t{-5}},
          {make.tensor({0, 2}), int64_t{2}}};
}
std::vector<Values> indices_samples(SampleMaker& make) {
  const std::string device = make.device().name();
  return {{int64_t{3}, int64_t{4}, int64_t{0}, make.dtype(), device},
          {int64_t{4}, int64_t{2}, int64_t{-1}, make.dtype(), device},
          {int64_t{2}, int64_t{3}, int64_t{1}, make.dtype(), device},
          {int64_t{0}, int64_t{3}, int64_t{0}, make.dtype(), device}};
}

/// The diagonal of a part is further away.
Partition triangle(const WholeCall& call) {
  const std::string word = parts::letters(call.inputs()[0].dim());
  return {.letters = word + "->" + word, .linearity = Linearity::together, .on_parts = [](PartCall& part) {
            const Dims& begin = part.inputs[0].begin;
            part["diagonal"] = detail::integer_in(part["diagonal"]) + begin[begin.size() - 2] - begin[begin.size() - 1];
            return part.run();
          }};
}

using enum OpRecord::Domain;
constexpr OpRecord triangle_op_records[] = {
    {"tril",
     "tril(x, diagonal=0)",
     "x with 0 above a diagonal of its matrices.",
     true,
     any,
     triangle_samples,
     triangle,
     detail::boxed<&weft::tril>,
     {},
     detail::boxed<&weft::tril_>},
    {"triu",
     "triu(x, diagonal=0)",
     "x with 0 below a diagonal of its matrices.",
     true,
     any,
     triangle_samples,
     triangle,
     detail::boxed<&weft::triu>,
     {},
     detail::boxed<&weft::triu_>},
    {"tril_indices", "tril_indices(row, col, offset=0, *, dtype=None, device=None)",
     "Rows and columns of the elements that tril keeps of a matrix, [2, count]; int64 unless a dtype is given.", false,
     numeric, indices_samples, parts::whole, detail::boxed<call_tril_indices>},
    {"triu_indices", "triu_indices(row, col, offset=0, *, dtype=None, device=None)",
     "Rows and columns of the elements that triu keeps of a matrix, [2, count]; int64 unless a dtype is given.", false,
     numeric, indices_samples, parts::whole, detail::boxed<call_triu_indices>},
};

}  // namespace

std::span<const OpRecord> triangle_records() { return triangle_op_records; }

}  // namespace weft
