// Writing x[…]: in place, or into a copy.
#include <algorithm>

#include "../../backends/index_plan.hpp"
#include "../create.hpp"
#include "../detail/fits.hpp"
#include "../detail/masked.hpp"
#include "../detail/records.hpp"
#include "../detail/subscript_part.hpp"
#include "../subscript.hpp"
#include "../pointwise.hpp"
#include "../detail/parts.hpp"

namespace weft {

namespace {

// The source: `value` without leading sizes of 1 beyond the rank of `shape`; it must broadcast to `shape`.
Tensor checked_value(const Tensor& v, const Dims& shape) {
  if (v.dim() == 0 || std::ranges::equal(v.sizes(), shape)) return v;
  const int extra = std::max(0, v.dim() - shape.size());
  const bool ones = std::all_of(v.sizes().begin(), v.sizes().begin() + extra, [](int64_t n) { return n == 1; });
  const auto joined = ones ? broadcast(v.sizes().subspan(static_cast<size_t>(extra)), shape) : std::nullopt;
  if (WEFT_UNLIKELY(!joined || !(*joined == shape))) {
    raise<ShapeError>({.problem = fmt::format("a value of shape {} does not broadcast to the selected shape {}",
                                              v.shape().text(), shape.text())});
  }
  return extra == 0 ? v : v.view(Dims(v.sizes().subspan(static_cast<size_t>(extra))));
}

// The value as the kernels take it: in no memory that the write changes, and but for regions in x's dtype and on its
// device. Edges lead to the value itself.
Tensor kernel_value(const Tensor& value, const Tensor& x, const Region&) { return unaliased(value, x); }
template <class Part>
Tensor kernel_value(const Tensor& value, const Tensor& x, const Part&) {
  if (WEFT_LIKELY(!value.shares_storage(x) && value.dtype() == x.dtype() && value.device() == x.device())) return value;
  const NoGradGuard unrecorded;
  return unaliased(value, x).to(x.dtype()).to(x.device());
}

template <class Part>
void put_in_place(const Tensor& x, const Part& part, const Tensor& value, bool add) {
  const Tensor v = checked_value(value, shape_of(part));
  write_recorded(
      x, [&] { write_part(x, part, kernel_value(v, x, part), add); }, [&] { return WriteBackward<Part>(part, add, v); },
      x, v);
}

template <class Part>
Tensor put_in_copy(const Tensor& x, const Part& part, const Tensor& value, bool add) {
  const Tensor v = checked_value(value, shape_of(part));
  Tensor out = make_like(x);
  WEFT_KERNEL(copy, x)(out.raw_view(), x.raw_view());
  write_part(out, part, kernel_value(v, out, part), add);
  if (should_record(x, v)) record(out, WriteBackward<Part>(part, add, v), x, v);
  return out;
}

// A mask with dimensions of size 1 for those of x that it leaves, and a value that needs no count: where() serves.
struct Fill {
  Tensor mask, value;
};
std::optional<Fill> mask_fill(const Tensor& x, const Tensor& mask, const Tensor& v) {
  const int rest = x.dim() - mask.dim(), extra = std::max(0, v.dim() - rest);
  if (!std::all_of(v.sizes().begin(), v.sizes().begin() + extra, [](int64_t n) { return n == 1; })) return {};
  Dims wide = mask.shape();
  for (int i = 0; i < rest; ++i) wide.push_back(1);
  Dims rest_shape(x.sizes().subspan(static_cast<size_t>(mask.dim())));
  return Fill{rest == 0 ? mask : mask.view(wide), checked_value(v, rest_shape)};
}

bool broadcasts_to(const Layout& from, const Layout& to) {
  const int shift = to.rank - from.rank;
  if (shift < 0) return false;
  for (int i = 0; i < from.rank; ++i) {
    if (from.sizes[i] != 1 && from.sizes[i] != to.sizes[shift + i]) return false;
  }
  return true;
}

// x[index] = value, or += with `add`, by one tensor of indices where nothing is recorded; false where it is something
// else, or where the value does not broadcast as it is.
bool put_slices(const Tensor& x, std::span<const Index> items, const Tensor& v, bool add) {
  const Tensor* index = single_index_list(x, items);
  if (index == nullptr || index->shares_storage(x) || should_record(x, v)) return false;
  alignas(max_item) unsigned char buffer[max_item];
  View number, wide;
  const View* from = &v.raw_view();
  if (v.impl()->wrapped_number && x.device().is_cpu()) {
    number = scalar_view(v.impl(), x.dtype(), buffer);
    number.layout.host_scalar = 0;
    from = &number;
  }
  if (from->layout.dtype != x.dtype() || v.device() != x.device() || v.shares_storage(x)) return false;
  IndexPlan plan;
  View base;
  plan_slices(plan, base, x.raw_view(), 0, index->raw_view(), true);
  if (!same_sizes(from->layout, base.layout)) {
    if (!broadcasts_to(from->layout, base.layout)) return false;
    wide = broadcast_view(*from, sizes_of(base.layout));
    from = &wide;
  }
  write_unrecorded(x, [&] { WEFT_KERNEL(index_put, x)(base, *from, plan, add); });
  return true;
}

// x[mask] = number, the usual way to blank elements out, where nothing is recorded; false where it is something else.
bool fill_where(const Tensor& x, std::span<const Index> items, const Operand& value) {
  if (items.size() != 1 || items[0].kind != Index::Kind::tensor) return false;
  const Tensor& mask = items[0].tensor;
  if (!mask.defined() || !fills_directly(x, mask, value) || mask.shares_storage(x)) return false;
  write_unrecorded(x, [&] { fill_directly(x, x, mask, value); });
  return true;
}

// The write to x must not change the indices that it goes by.
void keep_apart(Selection& selection, const Tensor& x) {
  for (Tensor& index : std::span(selection.index, selection.advanced.count)) index = unaliased(index, x);
}

// Calls put(part) for the part that the indices select.
template <class Put>
void with_part(const Tensor& x, std::span<const Index> items, const Tensor& value, bool add, Put&& put) {
  if (WEFT_LIKELY(is_basic(items))) {
    Region region;
    parse(region, x, items);
    return put(region);
  }
  if (Tensor mask = only_mask(x, items); mask.defined() && !add) {
    if (const auto fill = mask_fill(x, mask, value)) return put(*fill);
    if (mask.dim() == x.dim()) {
      const int64_t count = count_true(mask);
      return put(MaskSelection{unaliased(mask, x), count});
    }
  }
  Selection selection;
  parse(selection, x, items);
  keep_apart(selection, x);
  put(selection);
}

void put_items_(const Tensor& x, std::span<const Index> items, const Operand& value, bool add) {
  check_target(x);
  const Tensor& v = checked(value.tensor());
  if (v.impl()->wrapped_number) check_number_fits(value, x.dtype());
  if (!add && fill_where(x, items, value)) return;
  if (put_slices(x, items, v, add)) return;
  with_part(x, items, v, add, [&]<class Part>(const Part& part) {
    if constexpr (std::is_same_v<Part, Fill>) fill_by_mask_(x, part.mask, part.value);
    else put_in_place(x, part, v, add);
  });
}

Tensor put_items(const Tensor& x, std::span<const Index> items, const Operand& value, bool add) {
  checked(x);
  const Tensor& v = checked(value.tensor());
  if (v.impl()->wrapped_number) check_number_fits(value, x.dtype());
  Tensor out;
  with_part(x, items, v, add, [&]<class Part>(const Part& part) {
    if constexpr (std::is_same_v<Part, Fill>) out = fill_by_mask(x, part.mask, part.value);
    else out = put_in_copy(x, part, v, add);
  });
  return out;
}

}  // namespace

const Tensor& setitem(const Tensor& x, std::span<const Index> items, const Operand& value, Location where) {
  const CallScope call("setitem", where);
  put_items_(x, items, value, false);
  return x;
}

Tensor index_put(const Tensor& x, const IndexList& list, const Operand& value, bool accumulate) {
  const CallScope call("index_put", list.where);
  return put_items(x, list.items(), value, accumulate);
}
Tensor index_put(const Tensor& x, std::span<const std::optional<Tensor>> list, const Operand& value, bool accumulate,
                 Location where) {
  const CallScope call("index_put", where);
  return put_items(x, as_indices(list), value, accumulate);
}
const Tensor& index_put_(const Tensor& x, const IndexList& list, const Operand& value, bool accumulate) {
  const CallScope call("index_put_", list.where);
  put_items_(x, list.items(), value, accumulate);
  return x;
}
const Tensor& index_put_(const Tensor& x, std::span<const std::optional<Tensor>> list, const Operand& value,
                         bool accumulate, Location where) {
  const CallScope call("index_put_", where);
  put_items_(x, as_indices(list), value, accumulate);
  return x;
}

Tensor set_value(const Tensor& x, const Operand& value, const Dims& starts, const Dims& ends, const Dims& steps,
                 const Dims& axes, Location where) {
  const CallScope call("set_value", where);
  const Tensor& v = checked(value.tensor());
  const Region region = slices_region(checked(x), axes, starts, ends, steps);
  return put_in_copy(x, region, v, false);
}
const Tensor& set_value_(const Tensor& x, const Operand& value, const Dims& starts, const Dims& ends, const Dims& steps,
                         const Dims& axes, Location where) {
  const CallScope call("set_value_", where);
  const Tensor& v = checked(value.tensor());
  const Region region = slices_region(check_target(x), axes, starts, ends, steps);
  put_in_place(x, region, v, false);
  return x;
}

// ---- the source of a write ------------------------------------------------------------------------------------------

Tensor Indexed::operator=(const Operand& value) && {
  setitem(source_, indices_.items(), value, where_);
  return std::move(source_);
}
Tensor Indexed::operator=(const Indexed& value) && { return std::move(*this) = Operand(value.elements(), where_); }

// Views change in place, selected elements are read and written once.
Tensor Indexed::write(void (*change)(const Tensor& part, void* context), void* context) {
  const CallScope call("setitem", where_);
  checked(source_);
  if (is_basic(indices_.items())) {
    Tensor part = read();
    change(part, context);
    return part;
  }
  check_target(source_);
  Selection selection;
  parse(selection, source_, indices_.items());
  keep_apart(selection, source_);
  Tensor part = read_recorded(source_, selection);
  change(part, context);
  put_in_place(source_, selection, part, false);
  return part;
}

Tensor Indexed::operator+=(const Operand& value) && {
  write([&](const Tensor& part) { part += value; });
  return std::move(source_);
}
Tensor Indexed::operator-=(const Operand& value) && {
  write([&](const Tensor& part) { part -= value; });
  return std::move(source_);
}
Tensor Indexed::operator*=(const Operand& value) && {
  write([&](const Tensor& part) { part *= value; });
  return std::move(source_);
}
Tensor Indexed::operator/=(const Operand& value) && {
  write([&](const Tensor& part) { part /= value; });
  return std::move(source_);
}

const Tensor& Indexed::operator+=(const Operand& value) & { return elements() += value; }
const Tensor& Indexed::operator-=(const Operand& value) & { return elements() -= value; }
const Tensor& Indexed::operator*=(const Operand& value) & { return elements() *= value; }
const Tensor& Indexed::operator/=(const Operand& value) & { return elements() /= value; }

// A plain write does not read the old values.
Tensor Indexed::fill_(Scalar value, Location where) && {
  setitem(source_, indices_.items(), value, where);
  return getitem(source_, indices_.items(), where_);
}
Tensor Indexed::zero_(Location where) && { return std::move(*this).fill_(0, where); }
Tensor Indexed::copy_(const Tensor& source, Location where) && {
  setitem(source_, indices_.items(), source, where);
  return getitem(source_, indices_.items(), where_);
}
Tensor Indexed::copy_(const Tensor& source, CopyOptions options, Location where) && {
  write([&](const Tensor& part) { part.copy_(source, options, where); });
  return getitem(source_, indices_.items(), where_);
}
Tensor Indexed::fill_(Scalar value, Location where) const& { return elements().fill_(value, where); }
Tensor Indexed::zero_(Location where) const& { return elements().zero_(where); }
Tensor Indexed::copy_(const Tensor& source, Location where) const& { return elements().copy_(source, where); }
Tensor Indexed::copy_(const Tensor& source, CopyOptions options, Location where) const& {
  return elements().copy_(source, options, where);
}
Tensor Indexed::fill_diagonal_(Scalar value, Location where) && {
  return write([&](const Tensor& x) { x.fill_diagonal_(value, where); });
}
Tensor Indexed::fill_diagonal_(Scalar value, Location where) const& { return elements().fill_diagonal_(value, where); }

// ---- records --------------------------------------------------------------------------------------------------------

namespace {

// Records speak of lists of tensors, in which an undefined one is a full slice.
std::vector<Index> as_indices(std::span<const Tensor> list) {
  std::vector<Index> items;
  for (const Tensor& tensor : list) items.push_back(tensor.defined() ? Index(tensor) : Index(Slice()));
  return items;
}
Tensor index_list(const Tensor& x, std::span<const Tensor> list) { return getitem(x, as_indices(list)); }
Tensor index_put_list(const Tensor& x, std::span<const Tensor> list, const Operand& value, bool accumulate) {
  const CallScope call("index_put");
  return put_items(x, as_indices(list), value, accumulate);
}

using Tensors = std::vector<Tensor>;

std::vector<Values> index_samples(SampleMaker& make) {
  return {{make.tensor({4, 3}), Tensors{make.indices({5}, 4)}},
          {make.tensor({4, 3, 2}), Tensors{make.indices({2, 1}, 4), make.indices({3}, 3)}},
          {make.tensor({2, 3, 2}), Tensors{make.mask({2, 3})}},
          {make.tensor({2, 3}), Tensors{make.mask({2, 3})}},
          {make.tensor({0, 3}), Tensors{make.indices({0}, 1)}}};
}
std::vector<Values> index_put_samples(SampleMaker& make) {
  return {{make.tensor({4, 3}), Tensors{make.indices({5}, 4)}, make.tensor({5, 3}), true},
          {make.tensor({4, 3}), Tensors{make.indices({2, 2}, 4)}, make.tensor({2, 1, 1}), true},
          {make.tensor({4, 3}), Tensors{make.indices({5}, 4)}, make.tensor({3})},
          {make.tensor({4, 3}), Tensors{make.indices({5}, 4)}, make.tensor({5, 3})},
          {make.tensor({4, 3}), Tensors{make.indices({9}, 2), make.indices({9}, 3)}, make.tensor({9})},
          {make.tensor({2, 3}), Tensors{make.mask({2, 3})}, make.tensor({})},
          {make.tensor({4, 3}), Tensors{make.indices({0}, 4)}, int64_t{1}}};
}
std::vector<Values> set_value_samples(SampleMaker& make) {
  return {{make.tensor({6}), make.tensor({2}), Dims{4}, Dims{0}, Dims{-2}, Dims{0}},
          {make.tensor({3, 4}), make.tensor({2, 1}), Dims{0, 1}, Dims{3, 4}, Dims{2, 2}, Dims{0, 1}},
          {make.tensor({3, 4}), int64_t{1}, Dims{1}, Dims{-1}, Dims(), Dims{1}},
          {make.tensor({3, 4}), make.tensor({}), Dims{5}, Dims{9}, Dims{1}, Dims{0}}};
}
std::vector<Values> slice_samples(SampleMaker& make) {
  return {{make.tensor({3, 4}), Dims{1}, Dims{1}, Dims{-1}},
          {make.tensor({3, 4}), Dims{0, -1}, Dims{1, 0}, Dims{100, 2}},
          {make.tensor({2, 0}), Dims{0}, Dims{5}, Dims{9}}};
}
std::vector<Values> strided_slice_samples(SampleMaker& make) {
  return {{make.tensor({3, 4}), Dims{1}, Dims{3}, Dims{-100}, Dims{-2}},
          {make.tensor({5, 2}), Dims{0}, Dims{0}, Dims{5}, Dims{3}}};
}

bool takes_masks(const std::vector<Tensor>& indices) {
  return std::ranges::any_of(indices, [](const Tensor& t) { return !t.defined() || t.dtype() == DType::boolean; });
}
/// '1' for dimensions that are indexed, a letter for the others.
std::string word_behind(const Tensor& x, size_t indexed) {
  return std::string(indexed, '1') + parts::letters(x.dim() - static_cast<int>(indexed));
}
/// The source for x, broadcast from the right.
std::string written_word(const Tensor& value, const Tensor& x, const std::string& word) {
  std::string out = parts::uncut(value);
  for (int d = 1; d <= std::min(value.dim(), x.dim()); ++d) {
    if (value.size(-d) != 1) out[out.size() - static_cast<size_t>(d)] = word[word.size() - static_cast<size_t>(d)];
  }
  return out;
}

Partition indexed(const WholeCall& call) {
  const Tensor& x = call.inputs()[0];
  const auto& indices = std::get<std::vector<Tensor>>(call["indices"]);
  if (takes_masks(indices)) return parts::whole(call);
  std::vector<std::string> in{word_behind(x, indices.size())};
  for (const Tensor& t : indices) in.push_back(parts::uncut(t));
  const std::string kept = in[0].substr(indices.size());
  const auto broadcast = static_cast<size_t>(call.results().at(0).dim()) - kept.size();
  return {.letters = parts::notation(in, std::vector{std::string(broadcast, '1') + kept}),
          .linearity = Linearity::first};
}

Partition put_at(const WholeCall& call) {
  const Tensor& x = call.inputs()[0];
  const auto& indices = std::get<std::vector<Tensor>>(call["indices"]);
  if (takes_masks(indices)) return parts::whole(call);
  std::vector<std::string> in{word_behind(x, indices.size())};
  for (const Tensor& t : indices) in.push_back(parts::uncut(t));
  if (const Tensor value = call.tensor("value"); value.defined()) {
    in.push_back(written_word(value, x, in[0].substr(indices.size()).insert(0, static_cast<size_t>(max_rank), '1')));
  }
  return {.letters = parts::notation(in, std::vector{in[0]})};
}

Partition set_along(const WholeCall& call) {
  const Tensor &x = call.inputs()[0], value = call.tensor("value");
  std::string word = parts::letters(x.dim());
  for (const int64_t d : parts::dims_of(call["axes"], x.dim())) word[static_cast<size_t>(d)] = '1';
  std::vector<std::string> in{word};
  if (value.defined()) in.push_back(written_word(value, x, word));
  return {.letters = parts::notation(in, std::vector{word})};
}

constexpr auto any = OpRecord::Domain::any;
constexpr OpRecord indexing_op_records[] = {
    {"index", "index(x, indices)",
     "x[indices]: the elements that a list of integer tensors and masks selects; the shapes of the integers broadcast "
     "together.",
     OpFacts(true, OpFacts::reads_values), any, index_samples, indexed, detail::boxed<&index_list>},
    {"index_put", "index_put(x, indices, value|values, accumulate=False)",
     "A copy of x with x[indices] = value, or += with accumulate, where every duplicate adds. Without it the last "
     "duplicate stays, and it alone gets the gradient.",
     OpFacts(true, OpFacts::reads_values), any, index_put_samples, put_at, detail::boxed<&index_put_list>},
    {"set_value", "set_value(x, value, starts, ends, steps, axes)",
     "A copy of x with value in the slices from starts to ends by steps along axes.",
     OpFacts(true, OpFacts::reads_values), any, set_value_samples, set_along, detail::boxed<&weft::set_value>},
    {"slice", "slice(x, axes, starts, ends)", "A view of x from starts to ends along axes, clamped.", true, any,
     slice_samples, parts::along, detail::boxed<&weft::slice>},
    {"strided_slice", "strided_slice(x, axes, starts, ends, steps)",
     "A view of x from starts to ends by steps, negative ones included.", true, any, strided_slice_samples,
     parts::along, detail::boxed<&weft::strided_slice>},
};

}  // namespace

std::span<const OpRecord> subscript_records() { return indexing_op_records; }

}  // namespace weft
