// Parses subscripts. All checks on the indices of a read or a write are here.
#include "../detail/subscript.hpp"

#include <algorithm>

#include "../detail/masked.hpp"

namespace weft {

namespace {

bool is_mask(const Index& item) { return item.tensor.dtype() == DType::boolean; }

const Tensor& checked_tensor(const Index& item) {
  const DType t = checked(item.tensor).dtype();
  if (WEFT_LIKELY(t == DType::boolean || (is_integer(t) && !is_storage_only(t)))) return item.tensor;
  raise<DTypeError>({.problem = fmt::format("an index of {} selects nothing: indices are integers or bools", name(t)),
                     .remedy = "convert it with to(weft::i64) or to(weft::boolean)"});
}

// Reads the indices of one tensor into a region and, where there are others than integers and slices, into a selection.
class Parser {
 public:
  Parser(Region& region, Selection* selection, const Tensor& x) : region_(region), selection_(selection), x_(x) {}

  void read(std::span<const Index> items) {
    const int missing = x_.dim() - count(items);
    region_.whole = x_.shape();
    for (const Index& item : items) {
      switch (item.kind) {
        case Index::Kind::integer:
          integer(item.start);
          break;
        case Index::Kind::slice:
          slice(item);
          break;
        case Index::Kind::none:
          axis(-1, 1);
          break;
        case Index::Kind::ellipsis:
          for (int i = 0; i < missing; ++i) full();
          break;
        case Index::Kind::boolean:
          boolean(item.start != 0);
          break;
        case Index::Kind::tensor:
          tensor(item);
          break;
      }
    }
    while (dim_ < x_.dim()) full();
    if (selection_ != nullptr) finish();
  }

 private:
  // How many dimensions the indices name, checked before any dimension is looked at.
  int count(std::span<const Index> items) const {
    int used = 0, ellipses = 0;
    for (const Index& item : items) {
      if (item.kind == Index::Kind::integer || item.kind == Index::Kind::slice) ++used;
      else if (item.kind == Index::Kind::ellipsis) ++ellipses;
      else if (item.kind == Index::Kind::tensor) {
        checked_tensor(item);
        used += is_mask(item) ? item.tensor.dim() : 1;
      }
    }
    if (WEFT_UNLIKELY(ellipses > 1)) fail("more than one Ellipsis", "one expands to all remaining dimensions");
    if (WEFT_UNLIKELY(used > x_.dim())) {
      fail(fmt::format("too many indices ({}) for tensor of dimension {}", used, x_.dim()),
           fmt::format("the shape is {}", x_.shape().text()));
    }
    return used;
  }

  void axis(int source, int64_t size) {
    if (WEFT_UNLIKELY(region_.rank == max_rank)) too_many_dimensions();
    region_.source[region_.rank] = static_cast<int8_t>(source);
    region_.sizes[region_.rank++] = size;
  }
  int64_t size() const { return x_.raw_view().layout.sizes[dim_]; }
  void full() {
    region_.first[dim_] = 0;
    region_.step[dim_] = 1;
    axis(dim_, size());
    ++dim_;
  }
  void integer(int64_t index) {
    const int64_t n = size(), i = index < 0 ? index + n : index;
    if (WEFT_UNLIKELY(i < 0 || i >= n)) out_of_range(index, n);
    region_.first[dim_++] = i;
  }
  void slice(const Index& item) {
    std::optional<int64_t> start, stop;
    if (item.has_start) start = item.start;
    if (item.has_stop) stop = item.stop;
    const SliceRange range = slice_range(start, stop, item.step, size());
    region_.first[dim_] = range.first;
    region_.step[dim_] = range.step;
    axis(dim_++, range.count);
  }

  // An index by a bool has one element or none, in a dimension of its own.
  void boolean(bool value) {
    const int64_t n = value ? 1 : 0;
    picked();
    join({&n, 1});
  }
  void tensor(const Index& item) {
    if (item.tensor.dim() == 0 && item.tensor.device().type == DeviceType::meta && !is_mask(item)) {
      integer(0);  // any value gives this shape
    } else if (item.tensor.dim() == 0) {
      if (is_mask(item)) boolean(item.tensor.item<bool>());
      else integer(index_numbers(item.tensor).item<int64_t>());
    } else if (is_mask(item)) {
      mask(item.tensor.to(x_.device()));
    } else {
      pick(index_numbers(item.tensor.to(x_.device())), 1);
    }
  }

  void mask(const Tensor& mask);

  // One tensor of indices into the next `span` dimensions together.
  void pick(const Tensor& index, int span) {
    picked();
    join(index.sizes());
    AdvancedIndices& advanced = selection_->advanced;
    int64_t extent = 1;
    for (int d = dim_; d < dim_ + span; ++d) {
      extent *= x_.sizes()[d];
      region_.first[d] = 0;
      region_.step[d] = 1;
    }
    advanced.dim[advanced.count] = static_cast<uint8_t>(dim_);
    advanced.span[advanced.count] = static_cast<uint8_t>(span);
    advanced.extent[advanced.count] = extent;
    selection_->index[advanced.count++] = index;
    dim_ += span;
  }
  // The axes of the indices replace the first index if no other axis is between the indices, else they come first.
  void picked() {
    if (first_pick_ < 0) first_pick_ = region_.rank;
    else separated_ |= last_pick_ != region_.rank;
    last_pick_ = region_.rank;
  }
  void join(std::span<const int64_t> sizes) {
    Dims& joined = selection_->advanced.joined;
    const auto both = broadcast(joined, sizes);
    if (WEFT_UNLIKELY(!both)) {
      fail(fmt::format("shape mismatch: indices of shapes {} and {} do not broadcast", joined.text(),
                       Dims(sizes).text()),
           "indices are used together, element by element");
    }
    joined = *both;
  }
  void finish() {
    AdvancedIndices& advanced = selection_->advanced;
    advanced.at = static_cast<uint8_t>(separated_ ? 0 : first_pick_);
    const int64_t positions = advanced.joined.product();
    advanced.distinct = positions <= 1 || positions == held_;
    if (WEFT_UNLIKELY(region_.rank + advanced.joined.size() > max_rank)) too_many_dimensions();
  }

  [[noreturn]] void fail(const std::string& problem, const std::string& details) const {
    raise<IndexError>({.problem = problem, .details = details});
  }
  [[noreturn]] void out_of_range(int64_t index, int64_t n) const {
    raise<IndexError>({.problem = fmt::format("index {} is out of range for axis {} of size {}", index, dim_, n)});
  }
  [[noreturn]] void too_many_dimensions() const {
    raise<ShapeError>({.problem = fmt::format("a tensor has at most {} dimensions", max_rank)});
  }

  Region& region_;
  Selection* selection_;
  const Tensor& x_;
  int dim_ = 0;
  int first_pick_ = -1, last_pick_ = -1;
  bool separated_ = false;
  int64_t held_ = -1;  // elements of the last mask that hold
};

void check_mask_shape(const Tensor& mask, const Tensor& x, int first) {
  for (int i = 0; i < mask.dim(); ++i) {
    if (WEFT_LIKELY(mask.sizes()[i] == x.sizes()[first + i])) continue;
    raise<IndexError>({.problem = fmt::format("a mask of shape {} does not fit axis {} of size {}", mask.shape().text(),
                                              first + i, x.sizes()[first + i]),
                       .details = fmt::format("the shape is {}", x.shape().text())});
  }
}

// A mask becomes its true row-major positions: one index if the masked dimensions of x can be merged, else one per
// dimension.
void Parser::mask(const Tensor& mask) {
  check_mask_shape(mask, x_, dim_);
  const bool merged = merged_stride(x_.raw_view().layout, dim_, mask.dim()).has_value();
  const Tensor dense = merged ? mask.contiguous() : mask;
  View truth = dense.raw_view();
  if (merged) {
    truth.layout.rank = 1;
    truth.layout.sizes[0] = truth.layout.numel;
    truth.layout.strides[0] = 1;
  }
  const int columns = truth.layout.rank;
  const int64_t rows = held_ = count_true(dense);
  const int64_t sizes[] = {columns, rows};
  const Tensor positions = make(sizes, DType::i64, x_.device());
  View out = positions.raw_view();
  std::swap(out.layout.sizes[0], out.layout.sizes[1]);
  std::swap(out.layout.strides[0], out.layout.strides[1]);
  finish_layout(out.layout);
  WEFT_KERNEL(nonzero, dense)(out, truth);
  if (merged) {
    Layout line = positions.raw_view().layout;
    line.rank = 1;
    line.sizes[0] = rows;
    line.strides[0] = itemsize(DType::i64);
    pick(Tensor::adopt(detail::new_alias(positions.impl(), line, positions.data_ptr())), mask.dim());
    return;
  }
  for (int i = 0; i < columns; ++i) pick(positions.select(0, i), 1);
}

}  // namespace

Dims Selection::shape() const {
  Dims out;
  for (int a = 0; a < advanced.at; ++a) out.push_back(region.sizes[a]);
  for (const int64_t n : advanced.joined) out.push_back(n);
  for (int a = advanced.at; a < region.rank; ++a) out.push_back(region.sizes[a]);
  return out;
}

View region_view(const View& whole, const Region& region) {
  View part;
  Layout& to = part.layout;
  const Layout& from = whole.layout;
  to.dtype = from.dtype;
  to.device_type = from.device_type;
  to.device_index = from.device_index;
  to.rank = static_cast<uint8_t>(region.rank);
  int64_t next = itemsize(from.dtype);  // what a new axis steps over
  for (int a = region.rank - 1; a >= 0; --a) {
    const int d = region.source[a];
    to.sizes[a] = region.sizes[a];
    to.strides[a] = d < 0 ? next : from.strides[d] * region.step[d];
    // Any step is valid for a tensor without elements.
    if (WEFT_UNLIKELY(__builtin_mul_overflow(to.sizes[a], to.strides[a], &next))) next = itemsize(from.dtype);
  }
  finish_layout(to);
  int64_t offset = 0;
  for (int d = 0; d < from.rank; ++d) offset += region.first[d] * from.strides[d];
  part.data = to.numel == 0 ? whole.data : static_cast<char*>(whole.data) + offset;
  return part;
}

SliceRange slice_range(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step, int64_t n) {
  if (WEFT_UNLIKELY(step == 0)) raise<ValueError>({.problem = "the step of a slice cannot be 0"});
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto bound = [&](std::optional<int64_t> v, int64_t otherwise) {
    if (!v) return otherwise;
    return std::clamp(*v < 0 ? *v + n : *v, low, high);
  };
  const int64_t first = bound(start, step > 0 ? 0 : n - 1);
  const int64_t last = bound(stop, step > 0 ? n : -1);
  const int64_t distance = step > 0 ? last - first : first - last;
  if (distance <= 0) return {0, 0, 1};
  if (step == 1) return {first, distance, 1};
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
  const int64_t count = static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / stride) + 1;
  return {first, count, count > 1 ? step : 1};
}

bool is_basic(std::span<const Index> items) {
  for (const Index& item : items) {
    if (item.kind == Index::Kind::boolean) return false;
    if (item.kind != Index::Kind::tensor) continue;
    if (!item.tensor.defined() || item.tensor.dim() != 0 || is_mask(item)) return false;
  }
  return true;
}

Tensor only_mask(const Tensor& x, std::span<const Index> items) {
  if (items.size() != 1 || items[0].kind != Index::Kind::tensor) return {};
  const Tensor& mask = checked_tensor(items[0]);
  if (!is_mask(items[0]) || mask.dim() == 0 || mask.dim() > x.dim()) return {};
  check_mask_shape(mask, x, 0);
  return mask.to(x.device());
}

const Tensor* single_index_list(const Tensor& x, std::span<const Index> items) {
  if (items.size() != 1 || items[0].kind != Index::Kind::tensor || !items[0].tensor.defined()) return nullptr;
  const Layout &index = items[0].tensor.raw_view().layout, &from = x.raw_view().layout;
  const bool fits = (index.dtype == DType::i64 || index.dtype == DType::i32) && index.rank > 0 && from.rank > 0 &&
                    index.rank + from.rank <= max_rank + 1 && index.numel > 0 && from.numel > 0 &&
                    index.device_type == from.device_type && index.device_index == from.device_index;
  return fits ? &items[0].tensor : nullptr;
}

void parse(Region& out, const Tensor& x, std::span<const Index> items) { Parser(out, nullptr, x).read(items); }
void parse(Selection& out, const Tensor& x, std::span<const Index> items) { Parser(out.region, &out, x).read(items); }

void check_indices(const Selection& selection) {
  for (int k = 0; k < selection.advanced.count; ++k) {
    const int64_t n = selection.advanced.extent[k];
    if (selection.index[k].device().type == DeviceType::meta) continue;
    for (const int64_t i : without_repeats(selection.index[k]).to_vector<int64_t>()) {
      if (i < -n || i >= n) index_out_of_range(i, selection.advanced.dim[k], n, true);
    }
  }
}

std::optional<int64_t> merged_stride(const Layout& layout, int dim, int span) {
  int inner = -1;  // the last dimension seen that has more than one element
  int64_t stride = 0;
  for (int d = dim + span - 1; d >= dim; --d) {
    if (layout.sizes[d] == 1) continue;
    if (inner < 0) stride = layout.strides[d];
    else if (layout.strides[d] != layout.sizes[inner] * layout.strides[inner]) return {};
    inner = d;
  }
  return stride;
}

void make_plan(IndexPlan& plan, View& base, const View& whole, const Selection& selection) {
  const Region& region = selection.region;
  const AdvancedIndices& advanced = selection.advanced;
  const int added = advanced.joined.size();
  base = region_view(whole, region);
  Layout& to = base.layout;
  for (int a = region.rank - 1; a >= advanced.at; --a) {
    to.sizes[a + added] = to.sizes[a];
    to.strides[a + added] = to.strides[a];
  }
  for (int i = 0; i < added; ++i) {
    to.sizes[advanced.at + i] = advanced.joined[i];
    to.strides[advanced.at + i] = 0;
  }
  to.rank = static_cast<uint8_t>(region.rank + added);
  finish_layout(to);

  plan.count = advanced.count;
  for (int k = 0; k < advanced.count; ++k) {
    const View& index = selection.index[k].raw_view();
    View& wide = plan.indices[k];
    wide.data = index.data;
    wide.layout = to;
    wide.layout.dtype = index.layout.dtype;
    std::fill_n(wide.layout.strides, to.rank, 0);
    const int own = index.layout.rank, shift = advanced.at + added - own;
    for (int i = 0; i < own; ++i) {
      wide.layout.strides[shift + i] =
          index.layout.sizes[i] == advanced.joined[added - own + i] ? index.layout.strides[i] : 0;
    }
    finish_layout(wide.layout);
    plan.sizes[k] = advanced.extent[k];
    plan.strides[k] = *merged_stride(whole.layout, advanced.dim[k], advanced.span[k]);
    plan.dims[k] = advanced.dim[k];
  }
}

}  // namespace weft
