// Reading x[…]: a view if possible, else a copy of the elements that index tensors select.
#include "../subscript.hpp"

#include <algorithm>
#include <memory>
#include <new>

#include "../../backends/index_plan.hpp"
#include "../create.hpp"
#include "../detail/masked.hpp"
#include "../detail/subscript_part.hpp"
#include "../detail/take_index.hpp"
#include "../index.hpp"
#include "../scatter.hpp"

namespace weft {

Index::Index(std::initializer_list<int64_t> list) : Index(std::span(list.begin(), list.size())) {}

Index::Index(const std::vector<int64_t>& list) : Index(std::span(list)) {}

Index::Index(std::span<const int64_t> list) : kind(Kind::tensor), tensor(weft::tensor(list)) {}

Index::Index(const std::vector<bool>& list) : kind(Kind::tensor), tensor(empty(list.size(), boolean)) {
  std::copy(list.begin(), list.end(), static_cast<bool*>(tensor.raw_view().data));
}

void detail::OwnIndices::copy(std::span<const Index> items) {
  if (count_ > few) first_ = static_cast<Index*>(::operator new(count_ * sizeof(Index)));
  std::uninitialized_copy(items.begin(), items.end(), first_);
}
void detail::OwnIndices::destroy() {
  std::destroy_n(first_, count_);
  if (count_ > few) ::operator delete(first_);
}

Operand::Operand(Indexed&& part, Location here)
    : where(here), temporary(true), number_(Tensor(std::move(part))), tensor_(&number_) {}

Operand::Operand(const Indexed& part, Location here) : where(here), number_(part.elements()), tensor_(&number_) {}

Tensor Indexed::read_at_once() const { return getitem(source_, indices_.items(), where_); }

Tensor Indexed::read() const {
  if (WEFT_UNLIKELY(version_of(source_) != version_) && !is_basic(indices_.items())) {
    raise<ValueError>({.op = "getitem",
                       .problem = "x was written after auto y = x[...], before the first use of y",
                       .remedy = "write Tensor y = x[...], which copies the elements at once"},
                      where_);
  }
  if (WEFT_LIKELY(grad_mode() == mode_)) return getitem(source_, indices_.items(), where_);
  const GradModeGuard as_written(mode_);
  return getitem(source_, indices_.items(), where_);
}

namespace {

// x[i], the commonest index of all, where nothing is recorded; nothing where it does not fit.
Tensor row(const Tensor& x, int64_t index) {
  const Layout& from = x.raw_view().layout;
  const int64_t n = from.sizes[0], i = index < 0 ? index + n : index;
  if (WEFT_UNLIKELY(i < 0 || i >= n)) return {};
  Tensor out = make_view(x);
  take_index(out.impl()->view, x.raw_view(), 0, i);
  return out;
}

// x[index] by one tensor of indices into the first dimension.
Tensor slices(const Tensor& x, const Tensor& index) {
  IndexPlan plan;
  View base;
  plan_slices(plan, base, x.raw_view(), 0, index.raw_view(), true);
  Tensor out = make(sizes_of(base.layout), x.dtype(), x.device());
  WEFT_KERNEL(index_get, x)(out.raw_view(), base, plan);
  return out;
}

}  // namespace

Tensor getitem(const Tensor& x, std::span<const Index> items, Location where) {
  const CallScope call("getitem", where);
  checked(x);
  if (items.size() == 1 && items[0].kind == Index::Kind::integer && x.dim() != 0 && !should_record(x)) {
    if (Tensor out = row(x, items[0].start); WEFT_LIKELY(out.defined())) return out;
  }
  if (const Tensor* index = single_index_list(x, items); index != nullptr && !should_record(x))
    return slices(x, *index);
  if (WEFT_LIKELY(is_basic(items))) {
    Region region;
    parse(region, x, items);
    return read_recorded(x, region);
  }
  if (Tensor mask = only_mask(x, items); mask.defined() && mask.dim() == x.dim()) {
    const int64_t count = count_true(mask);
    return read_recorded(x, MaskSelection{std::move(mask), count});
  }
  Selection selection;
  parse(selection, x, items);
  return read_recorded(x, selection);
}

Tensor index(const Tensor& x, const IndexList& list) { return getitem(x, list.items(), list.where); }

Tensor index(const Tensor& x, std::span<const std::optional<Tensor>> list, Location where) {
  return getitem(x, as_indices(list), where);
}

std::vector<Index> as_indices(std::span<const std::optional<Tensor>> list) {
  std::vector<Index> items;
  items.reserve(list.size());
  for (const auto& tensor : list) items.push_back(tensor ? Index(*tensor) : Index(Slice()));
  return items;
}

Region slices_region(const Tensor& x, const Dims& axes, const Dims& starts, const Dims& ends, const Dims& steps) {
  const int n = axes.size();
  if (starts.size() != n || ends.size() != n || (!steps.empty() && steps.size() != n)) {
    raise<ValueError>({.problem = fmt::format("{} axes, {} starts, {} ends and {} steps do not go together", n,
                                              starts.size(), ends.size(), steps.size()),
                       .remedy = "give one of each for every axis"});
  }
  Region region;
  region.whole = x.shape();
  for (int d = 0; d < x.dim(); ++d) {
    region.source[d] = static_cast<int8_t>(d);
    region.sizes[d] = x.sizes()[d];
    region.first[d] = 0;
    region.step[d] = 1;
  }
  region.rank = static_cast<int8_t>(x.dim());
  uint32_t seen = 0;
  for (int i = 0; i < n; ++i) {
    if (x.dim() == 0) raise<IndexError>({.problem = "a 0-d tensor has no dimension to slice"});
    const int d = wrap_dim(axes[i], x.dim());
    if ((seen >> d & 1) != 0) raise<ValueError>({.problem = fmt::format("axis {} is named twice", d)});
    seen |= 1u << d;
    const SliceRange range = slice_range(starts[i], ends[i], steps.empty() ? 1 : steps[i], x.sizes()[d]);
    region.first[d] = range.first;
    region.step[d] = range.step;
    region.sizes[d] = range.count;
  }
  return region;
}

Tensor slice(const Tensor& x, const Dims& axes, const Dims& starts, const Dims& ends, Location where) {
  const CallScope call("slice", where);
  return read_recorded(x, slices_region(checked(x), axes, starts, ends, {}));
}

Tensor strided_slice(const Tensor& x, const Dims& axes, const Dims& starts, const Dims& ends, const Dims& steps,
                     Location where) {
  const CallScope call("strided_slice", where);
  return read_recorded(x, slices_region(checked(x), axes, starts, ends, steps));
}

}  // namespace weft
