#include <weft/ops/index.hpp>

#include <weft/ops/detail/common.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/detail/records.hpp>

namespace weft {

namespace {

int64_t size_along(const Tensor& t, int d) { return t.dim() == 0 ? 1 : t.sizes()[static_cast<size_t>(d)]; }

// Indices as the kernels read them: i32 or i64.
Tensor checked_index(const char* op, const Tensor& index, const Tensor& data, Location where) {
  checked(index, op, where);
  const DType t = index.dtype();
  if (WEFT_UNLIKELY(!is_integer(t) || is_storage_only(t))) {
    raise<DTypeError>(
        {.op = op,
         .problem = fmt::format("indices must be integers, not {}", name(t)),
         .remedy = t == DType::boolean ? "use where or masked_fill with a mask" : "convert them with to(weft::i64)"},
        where);
  }
  check_same_device(op, where, {&data, &index});
  return t == DType::i32 || t == DType::i64 ? index : index.to(DType::i64, where);
}

void check_same_dtype(const char* op, const Tensor& x, const Tensor& source, Location where) {
  check_same_device(op, where, {&x, &source});
  if (WEFT_LIKELY(x.dtype() == source.dtype())) return;
  raise<DTypeError>({.op = op,
                     .problem = fmt::format("the source is {}, the target {}", name(source.dtype()), name(x.dtype())),
                     .remedy = "convert the source with to(dtype)"},
                    where);
}

[[noreturn]] void raise_shapes(const char* op, const std::string& problem, const std::string& remedy, Location where) {
  raise<ShapeError>({.op = op, .problem = problem, .remedy = remedy}, where);
}

void check_list(const char* op, const Tensor& index, Location where) {
  if (WEFT_LIKELY(index.dim() <= 1)) return;
  raise_shapes(op, fmt::format("the index must be 1-d, not {}", index.shape().text()), "flatten it, or use gather",
               where);
}

// A copy of x to add into.
Tensor target_copy(const Tensor& x, const char* op, Location where) {
  Tensor out = make_like(x, op, where);
  WEFT_KERNEL_FOR(copy, out, op, where)(out.raw_view(), x.raw_view());
  return out;
}

Tensor zero_target(const Dims& shape, const Tensor& g, const char* op, Location where) {
  Tensor out = make(shape, g.dtype(), g.device(), op, where);
  WEFT_KERNEL_FOR(fill, out, op, where)(out.raw_view(), Scalar(0));
  return out;
}

View as_list(const View& index) {
  View list = index;
  Layout& l = list.layout;
  if (l.rank == 0) l.sizes[0] = 1, l.strides[0] = itemsize(l.dtype), l.rank = 1;
  return list;
}

// The first sizes[i] elements along each dimension.
View corner(const View& view, std::span<const int64_t> sizes) {
  View part = view;
  std::copy(sizes.begin(), sizes.end(), part.layout.sizes);
  finish_layout(part.layout);
  return part;
}

// ---- index_select and index_add -------------------------------------------------------------------------------------

void add_slices(const Tensor& out, int dim, const Tensor& index, const Tensor& source, const char* op, Location where) {
  CallScope scope(op, where);
  WEFT_KERNEL_FOR(index_add, out, op, where)(out.raw_view(), dim, as_list(index.raw_view()), source.raw_view());
}

struct SelectFormula {
  Dims shape;
  int dim;
  Saved index;

  Tensor operator()(Node& self, Tensor&& g) {
    Tensor out = zero_target(shape, g, "index_select", self.where);
    if (WEFT_UNLIKELY(recording())) return index_add(out, dim, index.get(self), g, self.where);
    add_slices(out, dim, index.get(self), g, "index_select", self.where);
    return out;
  }
};

// The gradients of x and of the source.
struct AddSlicesFormula {
  int dim;
  Saved index;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    if (self.wants(1)) outgoing[1] = index_select(incoming[0], dim, index.get(self), self.where);
    if (self.wants(0)) outgoing[0] = std::move(incoming[0]);
  }
};

// The dimension and index of index_add, checked.
std::pair<int, Tensor> check_index_add(const char* op, const Tensor& x, int dim, const Tensor& index,
                                       const Tensor& source, Location where) {
  checked(x, op, where);
  checked(source, op, where);
  const int d = wrap_dim(dim, x.dim(), op, where);
  Tensor list = checked_index(op, index, x, where);
  check_list(op, list, where);
  check_same_dtype(op, x, source, where);
  bool fits = source.dim() == x.dim() && size_along(source, d) == list.numel();
  for (int i = 0; fits && i < x.dim(); ++i) fits = i == d || source.sizes()[i] == x.sizes()[i];
  if (WEFT_UNLIKELY(!fits)) {
    raise_shapes(op,
                 fmt::format("a source of shape {} does not fit {} and {} indices along dimension {}",
                             source.shape().text(), x.shape().text(), list.numel(), d),
                 "the source has the target's sizes, but one slice for each index", where);
  }
  return {d, std::move(list)};
}

// ---- gather and scatter_add -----------------------------------------------------------------------------------------

void check_ranks(const char* op, const Tensor& x, const Tensor& index, Location where) {
  if (WEFT_LIKELY(x.dim() == index.dim())) return;
  raise_shapes(op,
               fmt::format("the index has rank {}, the data {}: shapes {} and {}", index.dim(), x.dim(),
                           index.shape().text(), x.shape().text()),
               "gather and scatter need equal ranks", where);
}

void check_within(const char* op, const Tensor& index, const Tensor& bound, int except, Location where) {
  for (int i = 0; i < index.dim(); ++i) {
    if (i == except || index.sizes()[i] <= bound.sizes()[i]) continue;
    raise_shapes(op,
                 fmt::format("an index of shape {} is larger than {} in dimension {}", index.shape().text(),
                             bound.shape().text(), i),
                 "narrow the index", where);
  }
}

void scatter(const Tensor& out, int dim, const Tensor& index, const View& source, const char* op, Location where) {
  if (index.numel() == 0) return;
  CallScope scope(op, where);
  WEFT_KERNEL_FOR(scatter, out, op, where)(Scatter::sum, out.raw_view(), dim, index.raw_view(), source);
}

struct GatherFormula {
  Dims shape;
  int dim;
  Saved index;

  Tensor operator()(Node& self, Tensor&& g) {
    Tensor out = zero_target(shape, g, "gather", self.where);
    if (WEFT_UNLIKELY(recording())) return scatter_add(out, dim, index.get(self), g, self.where);
    scatter(out, dim, index.get(self), g.raw_view(), "gather", self.where);
    return out;
  }
};

struct ScatterFormula {
  int dim;
  Saved index;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    if (self.wants(1)) outgoing[1] = gather(incoming[0], dim, index.get(self), self.where);
    if (self.wants(0)) outgoing[0] = std::move(incoming[0]);
  }
};

struct Scattered {
  int dim;
  Tensor index, source;
};

// Operands of scatter_add, checked; the source is cut to the index's shape (recorded, so its gradient is whole).
Scattered check_scatter(const char* op, const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                        Location where) {
  checked(x, op, where);
  checked(source, op, where);
  Scattered s{wrap_dim(dim, x.dim(), op, where), checked_index(op, index, x, where), source};
  check_same_dtype(op, x, source, where);
  check_ranks(op, x, s.index, where);
  check_ranks(op, source, s.index, where);
  check_within(op, s.index, source, -1, where);
  if (s.index.numel() != 0) check_within(op, s.index, x, s.dim, where);
  for (int i = 0; i < source.dim(); ++i) {
    if (source.sizes()[i] != s.index.sizes()[i]) s.source = s.source.narrow(i, 0, s.index.sizes()[i], where);
  }
  return s;
}

// What both in-place forms share: `add(target)` writes, `formula` is recorded with the old value and `source`.
template <class Add, class Formula>
void write_recorded(const Tensor& x, const Tensor& source, const char* op, Location where, Add&& add,
                    Formula&& formula) {
  const bool recorded = should_record(x, source);
  add(source.shares_storage(x) ? target_copy(source, op, where) : source);
  Node* node = nullptr;
  if (recorded) {
    node = make_node<2>(op, where, std::forward<Formula>(formula));
    set_edge(node, 0, x.impl());
    set_edge(node, 1, source.impl());
  }
  note_write(x, op, where);
  if (recorded) rebase_history(x, node);
}

// An index that the write itself would change.
Tensor apart(const Tensor& index, const Tensor& x, const char* op, Location where) {
  return index.shares_storage(x) ? target_copy(index, op, where) : index;
}

}  // namespace

Tensor index_select(const Tensor& x, int dim, const Tensor& index, Location where) {
  constexpr const char* op = "index_select";
  checked(x, op, where);
  const int d = wrap_dim(dim, x.dim(), op, where);
  const Tensor list = checked_index(op, index, x, where);
  check_list(op, list, where);
  if (WEFT_UNLIKELY(x.dim() == 0 && list.numel() != 1)) {
    raise_shapes(op, fmt::format("a 0-d tensor takes exactly one index, not {}", list.numel()), "use expand", where);
  }
  Dims shape = x.shape();
  if (x.dim() != 0) shape[d] = list.numel();
  Tensor out = make(shape, x.dtype(), x.device(), op, where);
  {
    CallScope scope(op, where);
    WEFT_KERNEL_FOR(index_select, out, op, where)(out.raw_view(), x.raw_view(), d, as_list(list.raw_view()));
  }
  if (should_record(x)) record(out, op, where, SelectFormula{x.shape(), d, Saved(list)}, x);
  return out;
}

Tensor index_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location where) {
  constexpr const char* op = "index_add";
  const auto [d, list] = check_index_add(op, x, dim, index, source, where);
  Tensor out = target_copy(x, op, where);
  add_slices(out, d, list, source, op, where);
  if (should_record(x, source)) record(out, op, where, AddSlicesFormula{d, Saved(list)}, x, source);
  return out;
}

const Tensor& index_add_(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location where) {
  constexpr const char* op = "index_add_";
  auto [d, list] = check_index_add(op, x, dim, index, source, where);
  check_inplace(x, op, where);
  check_writable(x, op, where);
  list = apart(list, x, op, where);
  write_recorded(
      x, source, op, where, [&](const Tensor& from) { add_slices(x, d, list, from, op, where); },
      AddSlicesFormula{d, Saved(list)});
  return x;
}

Tensor gather(const Tensor& x, int dim, const Tensor& index, Location where) {
  constexpr const char* op = "gather";
  checked(x, op, where);
  const int d = wrap_dim(dim, x.dim(), op, where);
  const Tensor at = checked_index(op, index, x, where);
  check_ranks(op, x, at, where);
  if (at.numel() != 0) check_within(op, at, x, d, where);
  Tensor out = make(at.sizes(), x.dtype(), x.device(), op, where);
  if (at.numel() != 0) {
    Dims sizes = at.shape();
    if (x.dim() != 0) sizes[d] = x.sizes()[d];
    CallScope scope(op, where);
    WEFT_KERNEL_FOR(gather, out, op, where)(out.raw_view(), corner(x.raw_view(), sizes), d, at.raw_view());
  }
  if (should_record(x)) record(out, op, where, GatherFormula{x.shape(), d, Saved(at)}, x);
  return out;
}

Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location where) {
  constexpr const char* op = "scatter_add";
  const Scattered s = check_scatter(op, x, dim, index, source, where);
  Tensor out = target_copy(x, op, where);
  scatter(out, s.dim, s.index, s.source.raw_view(), op, where);
  if (should_record(x, s.source)) record(out, op, where, ScatterFormula{s.dim, Saved(s.index)}, x, s.source);
  return out;
}

const Tensor& scatter_add_(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location where) {
  constexpr const char* op = "scatter_add_";
  Scattered s = check_scatter(op, x, dim, index, source, where);
  check_inplace(x, op, where);
  check_writable(x, op, where);
  s.index = apart(s.index, x, op, where);
  write_recorded(
      x, s.source, op, where, [&](const Tensor& from) { scatter(x, s.dim, s.index, from.raw_view(), op, where); },
      ScatterFormula{s.dim, Saved(s.index)});
  return x;
}

Tensor take_along_dim(const Tensor& x, const Tensor& indices, int dim, Location where) {
  constexpr const char* op = "take_along_dim";
  checked(x, op, where);
  checked(indices, op, where);
  check_ranks(op, x, indices, where);
  const int d = wrap_dim(dim, x.dim(), op, where);
  if (x.dim() == 0) return gather(x, 0, indices, where);
  Dims x_shape = x.shape(), index_shape = indices.shape();
  x_shape[d] = index_shape[d] = 1;
  const auto joined = broadcast(x_shape, index_shape);
  if (!joined) {
    raise_shapes(op,
                 fmt::format("shapes {} and {} do not broadcast outside dimension {}", x.shape().text(),
                             indices.shape().text(), d),
                 "sizes must be equal or 1", where);
  }
  x_shape = index_shape = *joined;
  x_shape[d] = x.sizes()[static_cast<size_t>(d)];
  index_shape[d] = indices.sizes()[static_cast<size_t>(d)];
  return gather(x.expand(x_shape, where), d, indices.expand(index_shape, where), where);
}

namespace {

struct EmbeddingFormula {
  Dims shape;
  Saved indices;

  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor list = indices.get(self).flatten(0, -1, self.where);
    const Tensor rows = g.reshape({list.numel(), shape[1]}, self.where);
    Tensor out = zero_target(shape, g, "embedding", self.where);
    if (WEFT_UNLIKELY(recording())) return index_add(out, 0, list, rows, self.where);
    add_slices(out, 0, list, rows, "embedding", self.where);
    return out;
  }
};

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& indices, Location where) {
  constexpr const char* op = "embedding";
  checked(weight, op, where);
  const Tensor at = checked_index(op, indices, weight, where);
  if (WEFT_UNLIKELY(weight.dim() != 2)) {
    raise_shapes(op, fmt::format("the weight must be [count, width], not {}", weight.shape().text()), "", where);
  }
  Dims shape = at.shape();
  shape.push_back(weight.sizes()[1]);
  Tensor out = make(shape, weight.dtype(), weight.device(), op, where);
  {
    NoGradGuard unrecorded;
    const Tensor list = at.flatten(0, -1, where), rows = out.view({at.numel(), weight.sizes()[1]}, where);
    CallScope scope(op, where);
    WEFT_KERNEL_FOR(index_select, out, op, where)(rows.raw_view(), weight.raw_view(), 0, list.raw_view());
  }
  if (should_record(weight)) record(out, op, where, EmbeddingFormula{weight.shape(), Saved(at)}, weight);
  return out;
}

Tensor one_hot(const Tensor& indices, int64_t classes, Location where) {
  constexpr const char* op = "one_hot";
  checked(indices, op, where);
  if (classes < 0) raise<ValueError>({.op = op, .problem = "the number of classes cannot be negative"}, where);
  const Tensor at = checked_index(op, indices, indices, where).unsqueeze(-1, where);
  Dims shape = indices.shape();
  shape.push_back(classes);
  const Tensor out = zeros(shape, {DType::i64, indices.device()}, where);
  scatter(out, out.dim() - 1, at, ones(at.shape(), {DType::i64, indices.device()}, where).raw_view(), op, where);
  return out;
}

namespace {

std::vector<Values> index_select_samples(SampleMaker& make) {
  return {{make.tensor({4, 3}), int64_t{0}, make.indices({3}, 4)},
          {make.tensor({2, 3, 4}), int64_t{-1}, make.indices({5}, 4)},
          {make.tensor({2, 3}), int64_t{1}, make.indices({}, 3)},
          {make.tensor({}), int64_t{0}, make.indices({1}, 1)},
          {make.tensor({0, 3}), int64_t{1}, make.indices({2}, 3)},
          {make.tensor({2, 3}), int64_t{1}, make.indices({0}, 3)}};
}

std::vector<Values> index_add_samples(SampleMaker& make) {
  return {{make.tensor({4, 3}), int64_t{0}, make.indices({6}, 4), make.tensor({6, 3})},
          {make.tensor({2, 3, 10}), int64_t{1}, make.indices({5}, 3), make.tensor({2, 5, 10})},
          {make.tensor({3}), int64_t{0}, make.indices({}, 3), make.tensor({1})},
          {make.tensor({2, 3}), int64_t{1}, make.indices({0}, 3), make.tensor({2, 0})}};
}

std::vector<Values> gather_samples(SampleMaker& make) {
  return {{make.tensor({3, 4}), int64_t{0}, make.indices({5, 4}, 3)},
          {make.tensor({3, 4}), int64_t{-1}, make.indices({2, 6}, 4)},
          {make.tensor({2, 3, 4}), int64_t{1}, make.indices({2, 2, 4}, 3)},
          {make.tensor({}), int64_t{0}, make.indices({}, 1)},
          {make.tensor({3, 4}), int64_t{0}, make.indices({0, 4}, 3)}};
}

std::vector<Values> scatter_add_samples(SampleMaker& make) {
  return {{make.tensor({3, 4}), int64_t{0}, make.indices({5, 4}, 3), make.tensor({5, 4})},
          {make.tensor({3, 4}), int64_t{1}, make.indices({2, 6}, 4), make.tensor({3, 7})},
          {make.tensor({}), int64_t{0}, make.indices({}, 1), make.tensor({})},
          {make.tensor({3, 4}), int64_t{0}, make.indices({0, 4}, 3), make.tensor({0, 4})}};
}

std::vector<Values> take_along_dim_samples(SampleMaker& make) {
  return {{make.tensor({3, 4}), make.indices({3, 2}, 4), int64_t{1}},
          {make.tensor({3, 1}), make.indices({2, 4}, 3), int64_t{0}}};
}

std::vector<Values> embedding_samples(SampleMaker& make) {
  return {{make.tensor({5, 3}), make.indices({2, 4}, 5)},
          {make.tensor({5, 3}), make.indices({}, 5)},
          {make.tensor({5, 3}), make.indices({0, 2}, 5)}};
}

std::vector<Values> one_hot_samples(SampleMaker& make) {
  return {{make.indices({2, 3}, 4), int64_t{4}}, {make.indices({}, 3), int64_t{3}}, {make.indices({0}, 3), int64_t{3}}};
}

constexpr auto any = OpRecord::Domain::any;
constexpr OpRecord index_op_records[] = {
    {"index_select", "index_select(x, dim, index)", "The slices of x at index (1-d) along dim.", true, any,
     index_select_samples, detail::boxed<&weft::index_select>},
    {"index_add", "index_add(x, dim, index, source)",
     "x with slices of source added at index along dim; duplicates add, in order.", true, any, index_add_samples,
     detail::boxed<&weft::index_add>},
    {"gather", "gather(x, dim, index)", "out[i][j] = x[index[i][j]][j] for dim 0, and so on; shaped as index.", true,
     any, gather_samples, detail::boxed<&weft::gather>},
    {"scatter_add", "scatter_add(x, dim, index, source)",
     "x with source[i][j] added at [index[i][j]][j] for dim 0, and so on; duplicates add, in order.", true, any,
     scatter_add_samples, detail::boxed<&weft::scatter_add>},
    {"take_along_dim", "take_along_dim(x, indices, dim)", "gather where x and indices broadcast outside dim.", true,
     any, take_along_dim_samples, detail::boxed<&weft::take_along_dim>},
    {"embedding", "embedding(weight, indices)", "Rows of weight [count, width] at indices: [..., width].", true, any,
     embedding_samples, detail::boxed<&weft::embedding>},
    {"one_hot", "one_hot(indices, classes)", "i64 [..., classes]: 1 at each index, else 0.", false, any,
     one_hot_samples, detail::boxed<&weft::one_hot>},
};

}  // namespace

std::span<const OpRecord> index_records() { return index_op_records; }

}  // namespace weft
