// Diagonals of matrices, and tensors with a part replaced.
#include "../diagonal.hpp"

#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/records.hpp"
#include "../reduce.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

struct EmbedBackward {
  int64_t offset;
  int dim1, dim2;
  Tensor operator()(Tensor&& g) { return g.diagonal(offset, dim1, dim2); }
};

// dim1 and dim2 count from 0 and differ.
Tensor embedded(const Tensor& x, int64_t offset, int dim1, int dim2) {
  const int64_t n = x.size(-1);
  const Checked size = Checked(n) + (offset < 0 ? Checked(0) - offset : Checked(offset));
  if (!size.fits()) raise<ShapeError>({.problem = fmt::format("an offset of {} is too large", offset)});
  Dims shape = x.shape();
  shape.erase(shape.size() - 1);
  shape.insert(std::min(dim1, dim2), size.value());
  shape.insert(std::max(dim1, dim2), size.value());
  check_sizes(shape, x.dtype());
  Tensor out;
  {
    const NoGradGuard unrecorded;
    out = zeros(shape, {x.dtype(), x.device()});
    out.diagonal(offset, dim1, dim2).copy_(x);
  }
  if (should_record(x)) record(out, EmbedBackward{offset, dim1, dim2}, x);
  return out;
}

// A copy of x with `source` in one part of it.
template <class Part>
Tensor replaced(const Tensor& x, const Tensor& source, Part part) {
  check_same_device({&checked(x), &checked(source)});
  const Dims shape = part(x).shape();
  if (!(source.shape() == shape)) {
    raise<ShapeError>(
        {.problem = fmt::format("the source has shape {}, the part {}", source.shape().text(), shape.text())});
  }
  const Tensor out = x.clone();
  part(out).copy_(source);
  return out;
}

}  // namespace

Tensor diag_embed(const Tensor& x, int64_t offset, int dim1, int dim2, Location where) {
  const CallScope call("diag_embed", where);
  const int rank = checked(x).dim() + 1;
  const int a = wrap_dim(dim1, rank), b = wrap_dim(dim2, rank);
  if (a == b) raise<ValueError>({.problem = fmt::format("dimension {} is named twice", a)});
  if (rank > max_rank) raise<ShapeError>({.problem = fmt::format("a tensor has at most {} dimensions", max_rank)});
  return embedded(x, offset, a, b);
}

Tensor diag(const Tensor& x, int64_t diagonal, Location where) {
  const CallScope call("diag", where);
  if (checked(x).dim() == 1) return embedded(x, diagonal, 0, 1);
  if (x.dim() == 2) return x.diagonal(diagonal).clone();
  raise_rank("x", "1 or 2 dimensions", x);
}

Tensor trace(const Tensor& x, Location where) {
  const CallScope call("trace", where);
  if (checked(x).dim() == 2) return sum(x.diagonal());
  raise_rank("x", "a matrix", x);
}

Tensor diagonal_scatter(const Tensor& x, const Tensor& source, int64_t offset, int dim1, int dim2, Location where) {
  const CallScope call("diagonal_scatter", where);
  return replaced(x, source, [&](const Tensor& t) { return t.diagonal(offset, dim1, dim2); });
}

Tensor select_scatter(const Tensor& x, const Tensor& source, int dim, int64_t index, Location where) {
  const CallScope call("select_scatter", where);
  return replaced(x, source, [&](const Tensor& t) { return t.select(dim, index); });
}

Tensor slice_scatter(const Tensor& x, const Tensor& source, int dim, std::optional<int64_t> start,
                     std::optional<int64_t> stop, int64_t step, Location where) {
  const CallScope call("slice_scatter", where);
  expect_at_least("step", step, 1);
  return replaced(x, source, [&](const Tensor& t) { return t.slice(dim, start, stop, step); });
}

namespace {

std::vector<Values> diag_samples(SampleMaker& make) {
  return {{make.tensor({3})},    {make.tensor({2}), int64_t{-1}}, {make.tensor({3, 4}), int64_t{1}},
          {make.tensor({3, 2})}, {make.tensor({0}), int64_t{2}},  {make.tensor({0, 2})}};
}
std::vector<Values> embed_samples(SampleMaker& make) {
  return {{make.tensor({3})},
          {make.tensor({2, 3}), int64_t{1}},
          {make.tensor({2, 3}), int64_t{-2}, int64_t{0}, int64_t{2}},
          {make.tensor({2, 1}), int64_t{0}, int64_t{-1}, int64_t{0}},
          {make.tensor({0, 2})}};
}
std::vector<Values> trace_samples(SampleMaker& make) {
  return {{make.tensor({3, 3})}, {make.tensor({2, 4})}, {make.tensor({0, 2})}};
}
std::vector<Values> diagonal_part_samples(SampleMaker& make) {
  return {{make.tensor({3, 3}), make.tensor({3})},
          {make.tensor({3, 4}), make.tensor({2}), int64_t{-1}, int64_t{-2}, int64_t{-1}},
          {make.tensor({2, 3, 2}), make.tensor({3, 2}), int64_t{0}, int64_t{0}, int64_t{2}},
          {make.tensor({0, 2}), make.tensor({0})}};
}
std::vector<Values> select_part_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({3}), int64_t{0}, int64_t{1}},
          {make.tensor({2, 3}), make.tensor({2}), int64_t{-1}, int64_t{-1}},
          {make.tensor({3}), make.tensor({}), int64_t{0}, int64_t{0}},
          {make.tensor({0, 2}), make.tensor({0}), int64_t{1}, int64_t{0}}};
}
std::vector<Values> slice_part_samples(SampleMaker& make) {
  const std::monostate none;
  return {{make.tensor({4, 2}), make.tensor({2, 2}), int64_t{0}, int64_t{1}, int64_t{3}},
          {make.tensor({2, 5}), make.tensor({2, 3}), int64_t{-1}, none, none, int64_t{2}},
          {make.tensor({3}), make.tensor({3})},
          {make.tensor({3}), make.tensor({0}), int64_t{0}, int64_t{-1}, int64_t{1}},
          {make.tensor({0, 2}), make.tensor({0, 1}), int64_t{1}, int64_t{-1}}};
}

Partition embedded(const WholeCall& call) {
  const int rank = call.inputs()[0].dim();
  return {.letters = parts::letters(rank - 1) + "1->" + parts::beside_diagonal(call, rank + 1)};
}

Partition written_diagonal(const WholeCall& call) {
  const int rank = call.inputs()[0].dim();
  const std::string word = parts::beside_diagonal(call, rank);
  return {.letters = word + "," + parts::letters(rank - 2) + "1->" + word};
}

Partition written_selection(const WholeCall& call) {
  const int rank = call.inputs()[0].dim();
  std::string word = parts::letters(rank), part = word;
  const auto dim = static_cast<size_t>(wrap_dim(detail::integer_in(call["dim"]), rank));
  word[dim] = '1';
  part.erase(dim, 1);
  return {.letters = word + "," + part + "->" + word};
}

constexpr auto any = OpRecord::Domain::any;
constexpr OpRecord diagonal_op_records[] = {
    {"diag", "diag(x, diagonal=0)",
     "A matrix with a 1-d tensor on a diagonal and 0 elsewhere, or a diagonal of a matrix as a new tensor.", true, any,
     diag_samples, parts::whole, detail::boxed<&weft::diag>},
    {"diag_embed", "diag_embed(x, offset=0, dim1=-2, dim2=-1)",
     "The last dimension as the diagonal of two dimensions of the result, 0 elsewhere.", true, any, embed_samples,
     embedded, detail::boxed<&weft::diag_embed>},
    {"trace", "trace(x)", "The sum of a matrix's diagonal; int64 for integers and bool.", OpFacts(true, Autocast::full),
     any, trace_samples, parts::whole, detail::boxed<&weft::trace>},
    {"diagonal_scatter", "diagonal_scatter(x, src, offset=0, dim1=0, dim2=1)", "A copy of x with src as a diagonal.",
     true, any, diagonal_part_samples, written_diagonal, detail::boxed<&weft::diagonal_scatter>},
    {"select_scatter", "select_scatter(x, src, dim, index)", "A copy of x with src as x.select(dim, index).", true, any,
     select_part_samples, written_selection, detail::boxed<&weft::select_scatter>},
    {"slice_scatter", "slice_scatter(x, src, dim=0, start=None, end=None, step=1)",
     "A copy of x with src as x[start:end:step] along dim.", true, any, slice_part_samples, parts::along,
     detail::boxed<&weft::slice_scatter>},
};

}  // namespace

std::span<const OpRecord> diagonal_records() { return diagonal_op_records; }

}  // namespace weft
