// Tensors side by side: cat along a dimension that the name tells.
#include "../axes.hpp"
#include "../detail/common.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../join.hpp"
#include "../pad.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

void check_some(std::span<const Tensor> tensors) {
  if (tensors.empty()) raise<ValueError>({.problem = "there is nothing to join: no tensors were given"});
}

Tensor columns_beside(std::span<const Tensor> tensors) {
  check_some(tensors);
  std::vector<Tensor> columns;
  for (const Tensor& t : tensors) columns.push_back(checked(t).dim() < 2 ? t.reshape({t.numel(), 1}) : t);
  return cat(columns, 1);
}

Tensor rows_below(std::span<const Tensor> tensors) {
  check_some(tensors);
  return cat(atleast_2d(tensors), 0);
}

Tensor matrices_along_diagonal(std::span<const Tensor> tensors) {
  if (tensors.empty()) return make(Dims{1, 0}, default_dtype(), Device());
  std::vector<Tensor> blocks = atleast_2d(tensors);
  std::vector<const TensorImpl*> impls;
  for (const Tensor& t : tensors) impls.push_back(t.impl());
  const DType dtype = result_type(impls);  // of the tensors as they are: a 0-d one widens none
  Checked width = 0;
  for (Tensor& block : blocks) {
    block = block.to(dtype);
    if (block.dim() > 2) raise_rank("tensors", "at most 2 dimensions", block);
    width += block.sizes()[1];
  }
  if (!width.fits()) raise<ShapeError>({.problem = "the blocks have more columns than 63 bits can count"});
  std::vector<Tensor> rows;
  int64_t before = 0;
  for (const Tensor& block : blocks) {
    const int64_t own = block.sizes()[1];
    rows.push_back(pad(block, {before, width.value() - before - own}));
    before += own;
  }
  return cat(rows, 0);
}

}  // namespace

Tensor hstack(std::span<const Tensor> tensors, Location where) {
  const CallScope call("hstack", where);
  check_some(tensors);
  const std::vector<Tensor> parts = atleast_1d(tensors);
  return cat(parts, parts[0].dim() == 1 ? 0 : 1);
}

Tensor vstack(std::span<const Tensor> tensors, Location where) {
  const CallScope call("vstack", where);
  return rows_below(tensors);
}

Tensor row_stack(std::span<const Tensor> tensors, Location where) {
  const CallScope call("row_stack", where);
  return rows_below(tensors);
}

Tensor dstack(std::span<const Tensor> tensors, Location where) {
  const CallScope call("dstack", where);
  check_some(tensors);
  return cat(atleast_3d(tensors), 2);
}

Tensor column_stack(std::span<const Tensor> tensors, Location where) {
  const CallScope call("column_stack", where);
  return columns_beside(tensors);
}

Tensor block_diag(std::span<const Tensor> tensors, Location where) {
  const CallScope call("block_diag", where);
  return matrices_along_diagonal(tensors);
}

#define WEFT_OF_LIST(name)                                             \
  Tensor name(std::initializer_list<Tensor> tensors, Location where) { \
    return name(std::span(tensors.begin(), tensors.size()), where);    \
  }
WEFT_OF_LIST(hstack)
WEFT_OF_LIST(vstack)
WEFT_OF_LIST(row_stack)
WEFT_OF_LIST(dstack)
WEFT_OF_LIST(column_stack)
WEFT_OF_LIST(block_diag)
#undef WEFT_OF_LIST

namespace {

using List = std::vector<Tensor>;

std::vector<Values> row_samples(SampleMaker& make) {
  return {{List{make.tensor({2, 3}), make.tensor({2, 1})}},
          {List{make.tensor({3}), make.tensor({}), make.tensor({0})}},
          {List{make.tensor({2, 0}), make.tensor({2, 2})}},
          {List{make.tensor({})}}};
}
std::vector<Values> below_samples(SampleMaker& make) {
  return {{List{make.tensor({2, 3}), make.tensor({3})}},
          {List{make.tensor({}), make.tensor({2, 1})}},
          {List{make.tensor({0, 2}), make.tensor({2})}},
          {List{make.tensor({2, 3}), make.tensor({1, 3})}}};
}
std::vector<Values> deep_samples(SampleMaker& make) {
  return {{List{make.tensor({2, 3}), make.tensor({2, 3, 2})}},
          {List{make.tensor({}), make.tensor({1})}},
          {List{make.tensor({3}), make.tensor({3})}},
          {List{make.tensor({0, 2}), make.tensor({0, 2, 2})}},
          {List{make.tensor({2, 3, 1}), make.tensor({2, 3, 2})}}};
}
std::vector<Values> column_samples(SampleMaker& make) {
  return {{List{make.tensor({2, 3}), make.tensor({2})}},
          {List{make.tensor({}), make.tensor({1})}},
          {List{make.tensor({0, 2}), make.tensor({0})}},
          {List{make.tensor({2, 3}), make.tensor({2, 1})}}};
}
std::vector<Values> block_samples(SampleMaker& make) {
  return {{List{make.tensor({2, 3}), make.tensor({2}), make.tensor({})}},
          {List{make.tensor({0, 2}), make.tensor({1, 1})}},
          {List{make.tensor({2, 2})}}};
}

using Join = Tensor (*)(std::span<const Tensor>, Location);

/// Tensors that keep their rank.
template <int dim>
Partition stacked(const WholeCall& call) {
  const auto is_flat = [](const Tensor& t) { return t.dim() < std::max(2, dim + 1); };
  if (std::ranges::any_of(call.inputs(), is_flat)) return parts::whole(call);
  return parts::aligned(call, Dims(dim));
}

constexpr auto any = OpRecord::Domain::any;
constexpr OpRecord stacks_op_records[] = {
    {"hstack", "hstack(tensors)", "cat along dimension 1, or 0 for 1-d tensors; 0-d tensors count as [1].", true, any,
     row_samples, stacked<1>, detail::boxed<static_cast<Join>(&weft::hstack)>},
    {"vstack", "vstack(tensors)", "cat along dimension 0, where 1-d tensors are rows.", true, any, below_samples,
     stacked<0>, detail::boxed<static_cast<Join>(&weft::vstack)>},
    {"row_stack", "row_stack(tensors)", "As vstack.", true, any, below_samples, stacked<0>,
     detail::boxed<static_cast<Join>(&weft::row_stack)>},
    {"dstack", "dstack(tensors)", "cat along dimension 2 of atleast_3d of the tensors.", true, any, deep_samples,
     stacked<2>, detail::boxed<static_cast<Join>(&weft::dstack)>},
    {"column_stack", "column_stack(tensors)", "cat along dimension 1, where 1-d and 0-d tensors are columns.", true,
     any, column_samples, stacked<1>, detail::boxed<static_cast<Join>(&weft::column_stack)>},
    {"block_diag", "block_diag(*tensors)",
     "Matrices along the diagonal of one that is 0 elsewhere, in their common dtype; 1-d tensors are rows, 0-d ones "
     "[1, 1].",
     true, any, block_samples, parts::whole, detail::boxed<static_cast<Join>(&weft::block_diag)>},
};

}  // namespace

std::span<const OpRecord> stacks_records() { return stacks_op_records; }

}  // namespace weft
