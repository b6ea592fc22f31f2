// Reading and writing slices along one dimension.
#include "../index.hpp"

#include <array>

#include "../../backends/index_plan.hpp"
#include "../../tensor/capture_recorder.hpp"
#include "../create.hpp"
#include "../detail/fits.hpp"
#include "../detail/indices.hpp"
#include "../detail/table_rows.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../pointwise.hpp"
#include "../detail/parts.hpp"
#include "../subscript.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

Tensor checked_index(const Tensor& index, const Tensor& data) {
  checked(index);
  const DType t = index.dtype();
  if (WEFT_UNLIKELY(!is_integer(t) || is_storage_only(t))) {
    raise_dtype("indices", "integers", t,
                t == DType::boolean ? "use where or masked_fill with a mask" : "convert them with to(weft::i64)");
  }
  if (WEFT_UNLIKELY(index.device() != data.device())) check_same_device({&data, &index});
  return index_numbers(index);
}

void check_source(const Tensor& x, const Tensor& source) {
  check_same_device({&x, &source});
  if (WEFT_LIKELY(x.dtype() == source.dtype())) return;
  raise_dtype("source", x.dtype(), source.dtype(), "convert the source with to(dtype)");
}

void raise_shapes(const std::string& problem, const std::string& remedy) {
  raise<ShapeError>({.problem = problem, .remedy = remedy});
}

Tensor fill_value(const Tensor& x, const Operand& value) {
  const Tensor& v = checked(value.tensor());
  if (WEFT_UNLIKELY(v.dim() != 0)) raise_rank("value", "a number or a 0-d tensor", v);
  check_number_fits(value, x.dtype());
  return v.to(x.dtype()).to(x.device());
}

Tensor target_copy(const Tensor& x) {
  Tensor out = make_like(x);
  WEFT_KERNEL(copy, out)(out.raw_view(), x.raw_view());
  return out;
}

Tensor zero_target(const Dims& shape, const Tensor& g) {
  Tensor out = make(shape, g.dtype(), g.device());
  WEFT_KERNEL(fill, out)(out.raw_view(), Scalar(0));
  return out;
}

namespace {

void check_list(const Tensor& index) {
  if (WEFT_LIKELY(index.dim() <= 1)) return;
  raise_rank("index", "1 dimension", index, "flatten it, or use gather");
}

// ---- kernels --------------------------------------------------------------------------------------------------------

void add_slices(const Tensor& out, int dim, const Tensor& index, const Tensor& source) {
  WEFT_KERNEL(index_add, out)(out.raw_view(), dim, index.raw_view(), source.raw_view());
}

// The slices of `out` at `index`, which may count from the end if it `wraps`, become those of `source`; the last of
// those that name one slice wins.
void put_slices(const Tensor& out, int dim, const Tensor& index, const Tensor& source, bool wraps) {
  IndexPlan plan;
  View target;
  plan_slices(plan, target, at_least_1d(out.raw_view()), dim, at_least_1d(index.raw_view()), wraps);
  WEFT_KERNEL(index_put, out)(target, at_least_1d(source.raw_view()), plan, false);
}

// ---- gradients ------------------------------------------------------------------------------------------------------

struct SelectBackward {
  Dims shape;
  int dim;
  Saved index;

  Tensor operator()(Node& self, Tensor&& g) {
    Tensor out = zero_target(shape, g);
    if (WEFT_UNLIKELY(recording())) return index_add(out, dim, index.get(self), g);
    add_slices(out, dim, index.get(self), g);
    return out;
  }
  void add_to(Node& self, const Tensor& sum, Tensor&& g) { add_slices(sum, dim, index.get(self), g); }
};

// The gradient of a source whose slices were written to `index`.
Tensor source_gradient(const Tensor& g, int dim, const Tensor& index, const Dims& shape) {
  const Tensor whole = g.dim() == 0 ? g.reshape({1}) : g;
  const Tensor slices = index_select(whole, dim, index);
  return slices.dim() == shape.size() ? slices : slices.reshape(shape);
}

struct AddBackward {
  int dim;
  Saved index;
  Dims source;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    if (self.wants(1)) outgoing[1] = source_gradient(incoming[0], dim, index.get(self), source);
    if (self.wants(0)) outgoing[0] = std::move(incoming[0]);
  }
};

struct CopyBackward {
  int dim;
  Saved index;
  Dims source;

  // Slices that a later one replaced get nothing.
  Tensor of_source(Node& self, const Tensor& g) {
    const Tensor at = index.get(self), last = last_of_duplicates(size_along(g, dim), 0, at);
    const Tensor all = source_gradient(g, dim, at, source);
    if (!last.defined()) return all;
    Dims line = Dims::filled(all.dim(), 1);
    line[dim] = last.numel();
    return where(last.view(line), all, 0);
  }
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    if (self.wants(1)) outgoing[1] = of_source(self, incoming[0]);
    if (self.wants(0)) outgoing[0] = index_fill(incoming[0], dim, index.get(self), 0);
  }
};

// ---- operands -------------------------------------------------------------------------------------------------------

struct Slices {
  int dim;
  Tensor index, source;
  bool wraps = false;  // whether the index may count from the end
};

// Dimension and index of an op that writes slices; 0-d tensors count as [1].
Slices checked_slices(const Tensor& x, int dim, const Tensor& index) {
  checked(x);
  Slices s{wrap_dim(dim, x.dim()), checked_index(index, x), {}};
  check_list(s.index);
  return s;
}

Slices checked_slices(const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
  Slices s = checked_slices(x, dim, index);
  s.source = checked(source);
  check_source(x, source);
  const int rank = std::max(x.dim(), 1);
  bool fits = std::max(source.dim(), 1) == rank && size_along(source, s.dim) == s.index.numel();
  for (int i = 0; fits && i < rank; ++i) fits = i == s.dim || size_along(source, i) == size_along(x, i);
  if (WEFT_UNLIKELY(!fits)) {
    raise_shapes(fmt::format("a source of shape {} does not fit {} and {} indices along dimension {}",
                             source.shape().text(), x.shape().text(), s.index.numel(), s.dim),
                 "the source has the target's sizes, but one slice for each index");
  }
  return s;
}

// The same with one value for every element.
Slices filled_slices(const Tensor& x, int dim, const Tensor& index, const Tensor& value) {
  Slices s = checked_slices(x, dim, index);
  Dims shape = x.dim() == 0 ? Dims(1) : x.shape();
  shape[s.dim] = s.index.numel();
  s.source = value.expand(shape);
  s.wraps = true;
  return s;
}

// Where a fill writes, as a mask that broadcasts to x: a slice named twice is there once.
Tensor filled_mask(const Tensor& x, int dim, const Tensor& index) {
  const Slices s = checked_slices(x, dim, index);
  const Tensor mask = zeros(size_along(x, s.dim), {DType::boolean, x.device()});
  const Tensor hit = ones(s.index.numel(), {DType::boolean, x.device()});
  put_slices(mask, 0, s.index, hit, true);
  Dims shape = Dims::filled(x.dim(), 1);
  if (x.dim() != 0) shape[s.dim] = mask.numel();
  return mask.view(shape);
}

Tensor copied(const Tensor& x, const Slices& s) {
  Tensor out = target_copy(x);
  put_slices(out, s.dim, s.index, s.source, s.wraps);
  if (should_record(x, s.source)) record(out, CopyBackward{s.dim, Saved(s.index), s.source.shape()}, x, s.source);
  return out;
}

const Tensor& copied_in_place(const Tensor& x, Slices s) {
  check_target(x);
  s.index = unaliased(s.index, x);
  const Tensor source = unaliased(s.source, x);
  write_recorded(
      x, [&] { put_slices(x, s.dim, s.index, source, s.wraps); },
      [&] {
        return CopyBackward{s.dim, Saved(s.index), s.source.shape()};
      },
      x, s.source);
  return x;
}

}  // namespace

Tensor select_slices(const Tensor& x, int dim, const Tensor& index) {
  Dims shape = x.shape();
  if (x.dim() != 0) shape[dim] = index.numel();
  Tensor out = make(shape, x.dtype(), x.device());
  WEFT_KERNEL(index_select, out)(out.raw_view(), x.raw_view(), dim, index.raw_view());
  if (should_record(x)) record(out, SelectBackward{x.shape(), dim, Saved(index)}, x);
  return out;
}

Tensor index_select(const Tensor& x, int dim, const Tensor& index, Location where) {
  const CallScope call("index_select", where);
  const Slices s = checked_slices(x, dim, index);
  if (WEFT_UNLIKELY(x.dim() == 0 && s.index.numel() != 1)) {
    raise_shapes(mismatch_text("index", "one index of a 0-d tensor", s.index.numel()), "use expand");
  }
  return select_slices(x, s.dim, s.index);
}

Tensor index_add(const Tensor& x, int dim, const Tensor& index, const Tensor& given, Scalar alpha, Location where) {
  const CallScope call("index_add", where);
  const Tensor source = times(checked(given), alpha);
  const Slices s = checked_slices(x, dim, index, source);
  Tensor out = target_copy(x);
  add_slices(out, s.dim, s.index, source);
  if (should_record(x, source)) record(out, AddBackward{s.dim, Saved(s.index), source.shape()}, x, source);
  return out;
}

const Tensor& index_add_(const Tensor& x, int dim, const Tensor& index, const Tensor& given, Scalar alpha,
                         Location where) {
  const CallScope call("index_add_", where);
  const Tensor source = times(checked(given), alpha);
  Slices s = checked_slices(x, dim, index, source);
  check_target(x);
  s.index = unaliased(s.index, x);
  s.source = unaliased(s.source, x);
  write_recorded(
      x, [&] { add_slices(x, s.dim, s.index, s.source); },
      [&] {
        return AddBackward{s.dim, Saved(s.index), source.shape()};
      },
      x, source);
  return x;
}

Tensor index_copy(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location where) {
  const CallScope call("index_copy", where);
  return copied(x, checked_slices(x, dim, index, source));
}
const Tensor& index_copy_(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location where) {
  const CallScope call("index_copy_", where);
  return copied_in_place(x, checked_slices(x, dim, index, source));
}

Tensor index_fill(const Tensor& x, int dim, const Tensor& index, const Operand& value) {
  const CallScope call("index_fill", value.where);
  const Tensor v = fill_value(checked(x), value);
  if (!should_record(v)) return copied(x, filled_slices(x, dim, index, v));
  return masked_fill(x, filled_mask(x, dim, index), v);
}
const Tensor& index_fill_(const Tensor& x, int dim, const Tensor& index, const Operand& value) {
  const CallScope call("index_fill_", value.where);
  const Tensor v = fill_value(checked(x), value);
  if (!should_record(v)) return copied_in_place(x, filled_slices(x, dim, index, v));
  check_target(x);
  return masked_fill_(x, filled_mask(x, dim, index), v);
}

namespace {

// x[..., index[j], ...] for a list that may count from the end. Kernels that are recorded have room for examples in
// index_select alone.
Tensor take_slices(const Tensor& x, int dim, const Tensor& index) {
  if (WEFT_UNLIKELY(detail::capture_recorder != nullptr)) {
    return select_slices(x, dim, from_beginning(index, size_along(x, dim)));
  }
  std::vector<Index> items(static_cast<size_t>(dim), Slice());
  items.emplace_back(index);
  return getitem(x, items);
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& index, std::optional<int64_t> axis, Location where) {
  const CallScope call("take", where);
  checked(x);
  if (!axis) return take(x.reshape({-1}), index, 0);
  const int d = wrap_dim(*axis, x.dim());
  const Tensor at = checked_index(index, x);
  const Tensor whole = x.dim() == 0 ? x.reshape({1}) : x;
  const Tensor out = take_slices(whole, d, at.reshape({-1}));
  if (at.dim() == 1) return out;
  Dims shape = whole.shape();
  shape.erase(d);
  for (int i = 0; i < at.dim(); ++i) shape.insert(d + i, at.sizes()[static_cast<size_t>(i)]);
  return out.view(shape);
}

namespace {

void check_put(const Tensor& x, const Tensor& index, const Tensor& source) {
  checked(x);
  checked(index);
  check_source(x, checked(source));
  if (WEFT_LIKELY(index.numel() == source.numel())) return;
  raise_shapes(fmt::format("{} indices for {} elements of the source", index.numel(), source.numel()),
               "give one index for each element");
}

std::array<std::optional<Tensor>, 1> list_of(const Tensor& x, const Tensor& index) {
  return {checked_index(index, x).reshape({-1})};
}

}  // namespace

Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate, Location where) {
  const CallScope call("put", where);
  check_put(x, index, source);
  return index_put(x.reshape({-1}), list_of(x, index), source.reshape({-1}), accumulate, where).reshape(x.shape());
}

const Tensor& put_(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate, Location where) {
  const CallScope call("put_", where);
  check_put(x, index, source);
  check_target(x);
  if (!x.is_contiguous()) return x.copy_(put(x, index, source, accumulate));
  index_put_(x.view({-1}), list_of(x, index), source.reshape({-1}), accumulate, where);
  return x;
}

namespace {

struct EmbeddingBackward {
  Dims shape;
  Saved indices;
  int64_t padding_idx;  // -1: none
  bool sparse;

  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor list = indices.get(self).flatten(0, -1);
    Tensor rows = g.reshape({list.numel(), shape[1]});
    if (sparse && detail::takes_rows(self, 0, shape)) {
      give_table_rows(self, 0, list, std::move(rows), padding_idx);
      return {};
    }
    const Tensor none = zero_target(shape, g);
    if (WEFT_UNLIKELY(recording())) {
      const Tensor out = index_add(none, 0, list, rows);
      if (padding_idx < 0) return out;
      return index_fill(out, 0, full({}, padding_idx, {DType::i64, g.device()}), 0);
    }
    add_slices(none, 0, list, rows);
    if (padding_idx >= 0) none.select(0, padding_idx).zero_();
    return none;
  }
};

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t padding_idx, Location where) {
  return embedding(weight, indices, {padding_idx < 0 ? std::nullopt : std::optional(padding_idx)}, where);
}

Tensor embedding(const Tensor& weight, const Tensor& indices, const EmbeddingOptions& options, Location where) {
  const CallScope call("embedding", where);
  checked(weight);
  const Tensor at = checked_index(indices, weight);
  expect_shape("weight", weight, weight.dim() == 2, "[count, width]");
  const int64_t count = weight.sizes()[0], given = options.padding_idx.value_or(-1);
  const int64_t padding_idx = options.padding_idx && given < 0 ? given + count : given;
  if (WEFT_UNLIKELY(options.padding_idx && (padding_idx < 0 || padding_idx >= count))) {
    raise<IndexError>({.problem = fmt::format("there is no row {} to pad with among {}", given, count)});
  }
  Dims shape = at.shape();
  shape.push_back(weight.sizes()[1]);
  Tensor out = make(shape, weight.dtype(), weight.device());
  {
    NoGradGuard unrecorded;
    const Tensor list = at.flatten(0, -1), rows = out.view({at.numel(), weight.sizes()[1]});
    WEFT_KERNEL(index_select, out)(rows.raw_view(), weight.raw_view(), 0, list.raw_view());
  }
  if (should_record(weight))
    record(out, EmbeddingBackward{weight.shape(), Saved(at), padding_idx, options.sparse}, weight);
  return out;
}

namespace {

Tensor call_embedding(const Tensor& weight, const Tensor& indices, int64_t padding_idx, bool sparse) {
  return embedding(weight, indices, {padding_idx < 0 ? std::nullopt : std::optional(padding_idx), sparse});
}

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
          {make.tensor({2, 3}), int64_t{1}, make.indices({0}, 3), make.tensor({2, 0})},
          {make.tensor({2, 3}), int64_t{1}, make.indices({4}, 3), make.tensor({2, 4}), int64_t{2}}};
}

std::vector<Values> index_copy_samples(SampleMaker& make) {
  return {{make.tensor({4, 3}), int64_t{0}, make.indices({2}, 4), make.tensor({2, 3})},
          {make.tensor({2, 5, 3}), int64_t{-2}, make.indices({4}, 3), make.tensor({2, 4, 3})},
          {make.tensor({3}), int64_t{0}, make.indices({}, 3), make.tensor({1})},
          {make.tensor({}), int64_t{0}, make.indices({1}, 1), make.tensor({})},
          {make.tensor({2, 3}), int64_t{1}, make.indices({0}, 3), make.tensor({2, 0})}};
}

std::vector<Values> index_fill_samples(SampleMaker& make) {
  return {{make.tensor({4, 3}), int64_t{0}, make.indices({3}, 4), make.tensor({})},
          {make.tensor({2, 5, 3}), int64_t{-2}, make.indices({2}, 5), int64_t{1}},
          {make.tensor({}), int64_t{0}, make.indices({1}, 1), make.tensor({})},
          {make.tensor({2, 3}), int64_t{1}, make.indices({0}, 3), make.tensor({})}};
}

std::vector<Values> take_samples(SampleMaker& make) {
  return {{make.tensor({4, 3}), make.indices({2, 5}, 12)},
          {make.tensor({2, 3, 4}), make.indices({2, 2}, 3), int64_t{1}},
          {make.tensor({2, 3}), make.indices({}, 3), int64_t{-1}},
          {make.tensor({}), make.indices({2}, 1)},
          {make.tensor({2, 3}), make.indices({0, 2}, 3), int64_t{0}}};
}

std::vector<Values> put_samples(SampleMaker& make) {
  return {{make.tensor({4, 3}), make.indices({4}, 3), make.tensor({2, 2})},
          {make.tensor({4, 3}), make.indices({6}, 12), make.tensor({6}), true},
          {make.tensor({}), make.indices({}, 1), make.tensor({1}), true}};
}

std::vector<Values> embedding_samples(SampleMaker& make) {
  return {
      {make.tensor({5, 3}), make.indices({2, 4}, 5)},
      {make.tensor({5, 3}), make.indices({}, 5)},
      {make.tensor({5, 3}), make.indices({2, 4}, 5), int64_t{-1}, true},
      {make.tensor({5, 3}), make.indices({2, 4}, 3), int64_t{4}},  // where it changes nothing: gradients are checked

      {make.tensor({5, 3}), make.indices({0, 2}, 5)}};
}

Partition selected(const WholeCall& call) {
  const Tensor &x = call.inputs()[0], &index = call.inputs()[1];
  if (x.dim() == 0 || index.dim() != 1) return parts::whole(call);
  std::string in = parts::letters(x.dim()), out = in;
  const auto dim = static_cast<size_t>(wrap_dim(detail::integer_in(call["dim"]), x.dim()));
  in[dim] = '1', out[dim] = 'i';
  return {.letters = in + ",i->" + out, .linearity = Linearity::first};
}

Partition take_partition(const WholeCall& call) {
  if (!std::holds_alternative<std::monostate>(call["axis"])) return parts::whole(call);
  const std::string word = parts::letters(call.inputs()[1].dim());
  return {.letters = parts::notation({parts::uncut(call.inputs()[0]), word}, {word}), .linearity = Linearity::first};
}

/// Of the rows that this rank has; the others count as zeros, and the sum over ranks is the row that was asked for.
Value look_up_part(PartCall& part, int64_t all_rows) {
  const Tensor weight = part.tensor("weight"), given = part.tensor("indices"),
               indices = given - part.inputs[0].begin[0];
  const int64_t rows = part.inputs[0].sizes[0], padding = std::get<int64_t>(part["padding_idx"]);
  if (rows == 0) return zeros(part.results[0].sizes, {weight.dtype(), weight.device()});
  const Tensor is_row = logical_and(given >= 0, given < all_rows), is_here = logical_and(indices >= 0, indices < rows);
  const Tensor is_elsewhere = logical_and(is_row, logical_not(is_here));
  const int64_t local = padding - part.inputs[0].begin[0];
  const Tensor found =
      embedding(weight, where(is_elsewhere, 0, indices), padding >= 0 && local < rows && local >= 0 ? local : -1);
  return masked_fill(found, is_elsewhere.unsqueeze(-1), 0);
}

Partition looked_up(const WholeCall& call) {
  const std::string word = parts::letters(call.inputs()[1].dim());
  const int64_t rows = call.inputs()[0].size(0);
  return {
      .letters = "vh," + word + "->" + word + "h", .linearity = Linearity::first, .on_parts = [rows](PartCall& part) {
        return part.inputs[0].sizes[0] == rows ? part.run() : look_up_part(part, rows);
      }};
}

constexpr auto any = OpRecord::Domain::any;
constexpr OpRecord index_op_records[] = {
    {"index_select", "index_select(x, dim, index)", "The slices of x at index (1-d) along dim.", true, any,
     index_select_samples, selected, detail::boxed<&weft::index_select>},
    {"index_add",
     "index_add(x, dim, index, source, *, alpha=1)",
     "x with alpha times the slices of source added at index along dim; duplicates add, in order.",
     true,
     any,
     index_add_samples,
     parts::along,
     detail::boxed<&weft::index_add>,
     {},
     detail::boxed<&weft::index_add_>},
    {"index_copy", "index_copy(x, dim, index, source)",
     "x with its slices at index along dim replaced by those of source; of duplicates the last wins.", true, any,
     index_copy_samples, parts::along, detail::boxed<&weft::index_copy>},
    {"index_fill", "index_fill(x, dim, index, value)",
     "x with its slices at index along dim filled with value, a number or 0-d, converted to x's dtype.", true, any,
     index_fill_samples, parts::along, detail::boxed<&weft::index_fill>},
    {"take", "take(x, index, axis=None)",
     "The slices of x at index, of any shape, along axis; without one, elements of the flattened x.", true, any,
     take_samples, take_partition, detail::boxed<&weft::take>},
    {"put", "put(x, index, source, accumulate=False)",
     "x, seen flat, with the elements of source put at index, or added; of duplicates the last wins.", true, any,
     put_samples, parts::whole, detail::boxed<&weft::put>},
    {"embedding", "embedding(weight, indices|input, padding_idx=-1, *, sparse=False)",
     "Rows of weight [count, width] at indices: [..., width]. The row padding_idx gets no gradient. With sparse, a "
     "leaf "
     "keeps its gradient as rows.",
     true, any, embedding_samples, looked_up, detail::boxed<call_embedding>},
};

}  // namespace

std::span<const OpRecord> index_records() { return index_op_records; }

}  // namespace weft
