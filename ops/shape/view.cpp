// Views: the Tensor methods that share storage, each with the gradient that undoes it.
#include <algorithm>
#include <cmath>

#include "../../autograd/from_ops.hpp"
#include "../../autograd/program_watch.hpp"
#include "../detail/common.hpp"
#include "../detail/complex.hpp"
#include "../detail/subscript.hpp"
#include "../detail/take_index.hpp"
#include "../create.hpp"
#include "../index.hpp"
#include "../join.hpp"
#include "../../tensor/checked.hpp"
#include "../../tensor/overlap.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// Out of line, so that a view that is not recorded pays nothing for it.
template <class Backward>
[[gnu::noinline]] void record_view(const Tensor& out, Backward& make_backward, const Tensor& x) {
  record_with(out, make_backward, x);
}

/// A view of x. `arrange` receives the new tensor's View, copied from x except for sizes and strides, and completes it.
template <class Arrange, class Backward>
inline Tensor recorded_view(const Tensor& x, Arrange&& arrange, Backward&& make_backward) {
  Tensor out = make_view(x);
  arrange(out.impl()->view);
  if (should_record(x)) record_view(out, make_backward, x);
  return out;
}

// The gradient of a view that only rearranges: the same elements in the input's shape.
struct ReshapeBack {
  Dims shape;
  Tensor operator()(Tensor&& g) { return g.reshape(shape); }
};

// The gradient of a view onto a part: zeros with g written into the same part.
struct PartBack {
  Dims shape;
  Callback<Tensor(const Tensor&)> part;
  Tensor operator()(Tensor&& g) {
    Tensor whole = zeros(shape, {g.dtype(), g.device()});
    part(whole).copy_(g);
    return whole;
  }
};

struct SelectBack {
  Dims shape;
  int dim;
  int64_t index;
  Tensor operator()(Tensor&& g) {
    Tensor whole = zeros(shape, {g.dtype(), g.device()});
    whole.select(dim, index).copy_(g);
    return whole;
  }
  void add_to(Node&, const Tensor& sum, Tensor&& g) { sum.select(dim, index).add_(std::move(g)); }
};

struct SliceBack {
  Dims shape;
  int dim;
  int64_t first, count, step;
  Tensor operator()(Tensor&& g);
  void add_to(Node&, const Tensor& sum, Tensor&& g);
};

void copy_shape(Layout& to, const Layout& from) {
  for (int i = 0; i < from.rank; ++i) {
    to.sizes[i] = from.sizes[i];
    to.strides[i] = from.strides[i];
  }
}

void move_start(View& view, int64_t bytes) { view.data = static_cast<char*>(view.data) + bytes; }

// `count` elements from `first` on, `step` apart; all inside.
void set_range(View& view, int dim, int64_t first, int64_t count, int64_t step) {
  Layout& layout = view.layout;
  if (count != 0) move_start(view, first * layout.strides[dim]);
  layout.sizes[dim] = count;
  layout.strides[dim] *= step;
  finish_layout(layout);
}
// As set_range.
Tensor slice_exact(const Tensor& x, int dim, int64_t first, int64_t count, int64_t step) {
  const auto arrange = [&](View& view) {
    copy_shape(view.layout, x.raw_view().layout);
    set_range(view, dim, first, count, step);
  };
  return recorded_view(x, arrange, [&] { return SliceBack{x.shape(), dim, first, count, step}; });
}

Tensor SliceBack::operator()(Tensor&& g) {
  Tensor whole = zeros(shape, {g.dtype(), g.device()});
  slice_exact(whole, dim, first, count, step).copy_(g);
  return whole;
}

void SliceBack::add_to(Node&, const Tensor& sum, Tensor&& g) {
  slice_exact(sum, dim, first, count, step).add_(std::move(g));
}

void set_sizes(Layout& layout, std::span<const int64_t> sizes, std::span<const int64_t> byte_strides) {
  layout.rank = static_cast<uint8_t>(sizes.size());
  for (int i = 0; i < layout.rank; ++i) {
    layout.sizes[i] = sizes[i];
    layout.strides[i] = byte_strides[i];
  }
  finish_layout(layout);
}

// Whether the sizes make `numel` elements, more than none, as they are.
bool makes(const Dims& shape, int64_t numel) {
  int64_t product = 1;
  for (const int64_t n : shape) {
    if (n < 0 || __builtin_mul_overflow(product, n, &product)) return false;
  }
  return product == numel && numel != 0;
}

// Fills in one -1 and checks the element count.
Dims resolve_shape(const Tensor& x, const Dims& wanted) {
  Dims shape = wanted;
  int open = -1;
  Checked known = 1;
  bool bad = false;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && open < 0) open = i;
    else bad |= shape[i] < 0;
    if (i != open) known *= shape[i];
  }
  bad |= !known.fits();
  if (open >= 0 && !bad && known.value() != 0 && x.numel() % known.value() == 0) {
    shape[open] = x.numel() / known.value();
    known *= shape[open];
  } else {
    bad |= open >= 0;
  }
  if (x.numel() == 0 && !bad) check_sizes(shape, x.dtype());
  if (WEFT_UNLIKELY(bad || known.value() != x.numel())) {
    raise<ShapeError>({.problem = fmt::format("{} elements of shape {} do not make shape {}", x.numel(),
                                              x.shape().text(), wanted.text()),
                       .remedy = "one size may be -1"});
  }
  return shape;
}

// `shape` has as many elements as x, which is contiguous. Not recorded.
inline Tensor contiguous_view(const Tensor& x, const Dims& shape) {
  Tensor out = make_view(x);
  Layout& layout = out.impl()->view.layout;
  layout.rank = static_cast<uint8_t>(shape.size());
  int64_t step = itemsize(layout.dtype);
  for (int i = layout.rank - 1; i >= 0; --i) {
    const int64_t n = shape[i];
    layout.sizes[i] = n;
    layout.strides[i] = step;
    step *= n == 0 ? 1 : n;
  }
  return out;
}

Tensor view_as(const Tensor& x, const Dims& shape, const Dims& strides) {
  const auto arrange = [&](View& view) { set_sizes(view.layout, shape, strides); };
  return recorded_view(x, arrange, [&] { return ReshapeBack{x.shape()}; });
}

// A view of this shape; nothing where the strides do not allow it.
Tensor view_if_possible(const Tensor& x, const Dims& shape) {
  if (x.is_contiguous()) {
    Tensor out = contiguous_view(x, shape);
    if (should_record(x)) record(out, ReshapeBack{x.shape()}, x);
    return out;
  }
  const auto strides = view_strides(x.raw_view().layout, shape);
  return strides ? view_as(x, shape, *strides) : Tensor();
}

// The common case, in which nothing is raised or recorded, so that no name is needed.
inline bool is_plain_view(const Tensor& x, const Dims& wanted) {
  return x.defined() && x.is_contiguous() && makes(wanted, x.numel()) && !should_record(x);
}

[[noreturn, gnu::cold]] void raise_needs_copy(const Tensor& x, const Dims& shape) {
  raise<ShapeError>({.problem = fmt::format("strides {} of shape {} do not allow shape {} without a copy",
                                            x.strides().text(), x.shape().text(), shape.text()),
                     .remedy = "use reshape(), which copies where it must"});
}

}  // namespace

Tensor Tensor::view(const Dims& wanted, Location where) const {
  if (WEFT_LIKELY(is_plain_view(*this, wanted))) return contiguous_view(*this, wanted);
  const CallScope call("view", where);
  checked(*this);
  const Dims shape = resolve_shape(*this, wanted);
  Tensor out = view_if_possible(*this, shape);
  if (!out.defined()) raise_needs_copy(*this, shape);
  return out;
}

Tensor Tensor::view_bytes(DType dtype, Location where) const {
  const CallScope call("view_bytes", where);
  const Tensor& x = checked(*this);
  const auto refuse = [&](const char* problem) {
    raise<ShapeError>({.problem = problem, .details = x.shape().text() + " as " + weft::name(dtype)});
  };
  Layout layout = x.raw_view().layout;
  const int64_t from = x.itemsize(), to = weft::itemsize(dtype);
  layout.dtype = dtype;
  if (from != to) {
    if (layout.rank == 0) refuse("a 0-d tensor cannot be seen with elements of another size");
    const int last = layout.rank - 1;
    if (layout.sizes[last] > 1 && layout.strides[last] != from) refuse("the last dimension must have no gaps");
    if (layout.sizes[last] * from % to != 0) refuse("the last dimension is no multiple of the new element size");
    layout.sizes[last] = layout.sizes[last] * from / to;
    layout.strides[last] = to;
    for (int i = 0; i < last; ++i) {
      if (layout.strides[i] % to != 0) refuse("the strides are no multiples of the new element size");
    }
    if (reinterpret_cast<uintptr_t>(x.data_ptr()) % static_cast<uintptr_t>(to) != 0)
      refuse("the address is not aligned");
  }
  finish_layout(layout);
  return Tensor::adopt(detail::new_alias(x.impl(), layout, x.data_ptr()));
}

Tensor Tensor::reshape(const Dims& wanted, Location where) const {
  if (WEFT_LIKELY(is_plain_view(*this, wanted))) return contiguous_view(*this, wanted);
  const CallScope call("reshape", where);
  checked(*this);
  const Dims shape = resolve_shape(*this, wanted);
  Tensor out = view_if_possible(*this, shape);
  if (out.defined()) return out;
  return clone().view(shape);
}

Tensor Tensor::flatten(int start_dim, int end_dim, Location where) const {
  const CallScope call("flatten", where);
  checked(*this);
  if (dim() == 0) return reshape({1});
  const int first = wrap_dim(start_dim, dim());
  const int last = wrap_dim(end_dim, dim());
  if (first > last) raise<ValueError>({.problem = "start_dim comes after end_dim"});
  Dims shape;
  for (int i = 0; i < dim(); ++i) {
    if (i <= first || i > last) shape.push_back(sizes()[i]);
    else shape[first] *= sizes()[i];
  }
  return reshape(shape);
}

Tensor Tensor::transpose(int dim0, int dim1, Location where) const {
  const CallScope call("transpose", where);
  checked(*this);
  const int a = wrap_dim(dim0, dim());
  const int b = wrap_dim(dim1, dim());
  const auto arrange = [&](View& view) {
    if (dim() == 0) return;
    copy_shape(view.layout, layout());
    std::swap(view.layout.sizes[a], view.layout.sizes[b]);
    std::swap(view.layout.strides[a], view.layout.strides[b]);
    finish_layout(view.layout);
  };
  return recorded_view(*this, arrange, [&] { return [a, b](Tensor&& g) { return g.transpose(a, b); }; });
}

Tensor Tensor::t(Location where) const {
  const CallScope call("t", where);
  checked(*this);
  if (dim() > 2) {
    raise_rank("", "at most 2 dimensions", *this, "use transpose(dim0, dim1)");
  }
  return dim() < 2 ? *this : transpose(0, 1);
}

Tensor Tensor::permute(const Dims& dims, Location where) const {
  const CallScope call("permute", where);
  checked(*this);
  int order[max_rank];
  unsigned seen = 0;
  bool bad = dims.size() != dim();
  for (int i = 0; i < dims.size() && !bad; ++i) {
    order[i] = wrap_dim(dims[i], dim());
    bad = (seen >> order[i] & 1) != 0;
    seen |= 1u << order[i];
  }
  if (WEFT_UNLIKELY(bad)) {
    raise<ShapeError>({.problem = fmt::format("{} is no order of the {} dimensions", dims.text(), dim())});
  }
  const auto arrange = [&](View& view) {
    for (int i = 0; i < view.layout.rank; ++i) {
      view.layout.sizes[i] = layout().sizes[order[i]];
      view.layout.strides[i] = layout().strides[order[i]];
    }
    finish_layout(view.layout);
  };
  return recorded_view(*this, arrange, [&] {
    Dims back = Dims::filled(dim(), 0);
    for (int i = 0; i < dim(); ++i) back[order[i]] = i;
    return [back](Tensor&& g) { return g.permute(back); };
  });
}

Tensor Tensor::slice(int dim, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step,
                     Location where) const {
  const CallScope call("slice", where);
  checked(*this);
  if (this->dim() == 0) raise<IndexError>({.problem = "a 0-d tensor has no dimension to slice"});
  const int d = wrap_dim(dim, this->dim());
  const SliceRange range = slice_range(start, stop, step, layout().sizes[d]);
  return slice_exact(*this, d, range.first, range.count, range.step);
}

Tensor Tensor::narrow(int dim, int64_t start, int64_t length, Location where) const {
  const CallScope call("narrow", where);
  checked(*this);
  const int d = wrap_dim(dim, this->dim());
  const int64_t n = this->dim() == 0 ? 0 : layout().sizes[d];
  const int64_t first = start < 0 ? start + n : start;
  if (WEFT_UNLIKELY(this->dim() == 0 || first < 0 || length < 0 || first > n - length)) {
    raise<IndexError>(
        {.problem = fmt::format("start {} and length {} leave dimension {} of size {}", start, length, d, n)});
  }
  return slice_exact(*this, d, first, length, 1);
}

Tensor Tensor::narrow(int dim, const Tensor& start, int64_t length, Location where) const {
  const CallScope call("narrow", where);
  expect_dtype("start", start, is_integer(checked(start).dtype()), "an integer");
  return narrow(dim, index_numbers(start).item<int64_t>(), length);
}

Tensor Tensor::select(int dim, int64_t index, Location where) const {
  const CallScope call("select", where);
  checked(*this);
  if (this->dim() == 0) raise<IndexError>({.problem = "a 0-d tensor cannot be indexed"});
  const int d = wrap_dim(dim, this->dim());
  const int64_t n = layout().sizes[d];
  const int64_t i = index < 0 ? index + n : index;
  if (WEFT_UNLIKELY(i < 0 || i >= n)) {
    raise<IndexError>({.problem = fmt::format("index {} is out of range for axis {} of size {}", index, d, n)});
  }
  const auto arrange = [&](View& view) { take_index(view, raw_view(), d, i); };
  return recorded_view(*this, arrange, [&] { return SelectBack{shape(), d, i}; });
}

Tensor Tensor::unsqueeze(int dim, Location where) const {
  const CallScope call("unsqueeze", where);
  checked(*this);
  if (this->dim() == max_rank) {
    raise<ShapeError>({.problem = fmt::format("a tensor has at most {} dimensions", max_rank)});
  }
  const int d = wrap_dim(dim, this->dim() + 1);
  const auto arrange = [&](View& view) {
    Layout& wider = view.layout;
    copy_shape(wider, layout());
    for (int k = wider.rank; k > d; --k) {
      wider.sizes[k] = wider.sizes[k - 1];
      wider.strides[k] = wider.strides[k - 1];
    }
    wider.strides[d] = d < wider.rank ? wider.sizes[d] * wider.strides[d] : itemsize();
    wider.sizes[d] = 1;
    ++wider.rank;
  };
  return recorded_view(*this, arrange, [&] { return [d](Tensor&& g) { return g.squeeze(d); }; });
}

Tensor Tensor::squeeze(Location where) const {
  const CallScope call("squeeze", where);
  checked(*this);
  Dims kept, strides;
  for (int i = 0; i < dim(); ++i) {
    if (layout().sizes[i] == 1) continue;
    kept.push_back(layout().sizes[i]);
    strides.push_back(layout().strides[i]);
  }
  return weft::view_as(*this, kept, strides);
}

Tensor Tensor::squeeze(int dim, Location where) const {
  const CallScope call("squeeze", where);
  checked(*this);
  const int d = wrap_dim(dim, this->dim());
  Dims kept(sizes()), strides(std::span<const int64_t>(layout().strides, layout().rank));
  if (this->dim() != 0 && kept[d] == 1) {
    kept.erase(d);
    strides.erase(d);
  }
  return weft::view_as(*this, kept, strides);
}

Tensor Tensor::expand(const Dims& wanted, Location where) const {
  const CallScope call("expand", where);
  checked(*this);
  const int extra = wanted.size() - dim();
  const auto own = [&](int i) { return i < extra ? 1 : layout().sizes[i - extra]; };
  bool bad = extra < 0;
  for (int i = 0; i < wanted.size() && !bad; ++i) {
    const bool stays = wanted[i] == own(i) || (wanted[i] == -1 && i >= extra);
    bad = !stays && (own(i) != 1 || wanted[i] < 0);
  }
  if (WEFT_UNLIKELY(bad)) {
    raise<ShapeError>({.problem = fmt::format("shape {} does not expand to {}", shape().text(), wanted.text()),
                       .remedy = "only dimensions of size 1 can be repeated"});
  }
  const auto stays = [&](int i) { return i >= extra && (wanted[i] == own(i) || wanted[i] == -1); };
  Dims sizes = wanted;
  for (int i = 0; i < wanted.size(); ++i) sizes[i] = stays(i) ? own(i) : wanted[i];
  check_sizes(sizes, dtype());
  const auto arrange = [&](View& view) {
    view.layout.rank = static_cast<uint8_t>(wanted.size());
    for (int i = 0; i < wanted.size(); ++i) {
      view.layout.sizes[i] = sizes[i];
      view.layout.strides[i] = stays(i) ? layout().strides[i - extra] : 0;
    }
    finish_layout(view.layout);
  };
  return recorded_view(*this, arrange,
                       [&] { return [own = this->shape()](Tensor&& g) { return sum_to(std::move(g), own); }; });
}

Tensor Tensor::diagonal(int64_t offset, int dim0, int dim1, Location where) const {
  const CallScope call("diagonal", where);
  checked(*this);
  const int a = wrap_dim(dim0, dim());
  const int b = wrap_dim(dim1, dim());
  if (a == b || dim() < 2) raise<ShapeError>({.problem = "needs two different dimensions"});
  const int64_t row = offset >= 0 ? 0 : -std::max(offset, -layout().sizes[a]);
  const int64_t column = offset >= 0 ? offset : 0;
  const int64_t length = std::max<int64_t>(0, std::min(layout().sizes[a] - row, layout().sizes[b] - column));
  Dims new_sizes, new_strides;
  for (int i = 0; i < dim(); ++i) {
    if (i == a || i == b) continue;
    new_sizes.push_back(layout().sizes[i]);
    new_strides.push_back(layout().strides[i]);
  }
  // Only without elements is the sum beyond the range, and then any step does.
  int64_t step = 0;
  if (__builtin_add_overflow(layout().strides[a], layout().strides[b], &step)) step = 0;
  new_sizes.push_back(length);
  new_strides.push_back(step);
  const auto arrange = [&](View& view) {
    if (length != 0) move_start(view, row * layout().strides[a] + column * layout().strides[b]);
    set_sizes(view.layout, new_sizes, new_strides);
  };
  return recorded_view(*this, arrange, [&] {
    return PartBack{shape(), [=](const Tensor& whole) { return whole.diagonal(offset, a, b); }};
  });
}

namespace {

// A tensor of g's elements with the strides of `like` (a layout that is not contiguous).
Tensor in_geometry(const Tensor& g, const Layout& like) {
  if (like.contiguous) return g.contiguous();
  const ByteSpan span = byte_span(like);
  const int64_t item = itemsize(like.dtype);
  Tensor flat = zeros((span.high - span.low) / item, {g.dtype(), g.device()});
  Dims strides;
  for (int i = 0; i < like.rank; ++i) strides.push_back(like.strides[i] / item);
  flat.as_strided(Dims(sizes_of(like)), strides, -span.low / item).copy_(g);
  return flat;
}

// Where a view sits in its base, in elements; `origin` is relative to the base's lowest element.
struct PlaceInBase {
  Layout base;
  Dims shape, strides;
  int64_t origin;
  bool repeats;  ///< an element of the base may stand in the view twice

  PlaceInBase(const View& base_view, const View& view)
      : base(base_view.layout), shape(sizes_of(view.layout)), repeats(may_overlap(view.layout)) {
    const int64_t item = itemsize(base.dtype);
    for (int i = 0; i < view.layout.rank; ++i) strides.push_back(view.layout.strides[i] / item);
    const char* lowest = static_cast<const char*>(base_view.data) + byte_span(base).low;
    origin = (static_cast<const char*>(view.data) - lowest) / item;
  }
  Tensor of(const Tensor& geometry) const {
    return geometry.as_strided(shape, strides, geometry.storage_offset() + origin);
  }
  Tensor base_shaped(const Tensor& geometry) const {
    if (base.contiguous) return geometry.dim() == base.rank ? geometry : geometry.view(Dims(sizes_of(base)));
    const int64_t item = itemsize(base.dtype);
    Dims base_strides;
    for (int i = 0; i < base.rank; ++i) base_strides.push_back(base.strides[i] / item);
    return geometry.as_strided(Dims(sizes_of(base)), base_strides,
                               geometry.storage_offset() - byte_span(base).low / item);
  }
  int64_t base_span() const {
    const ByteSpan span = byte_span(base);
    return (span.high - span.low) / itemsize(base.dtype);
  }
};

// The gradient of reading a region: g added into zeros of the base's geometry.
Tensor region_gradient(const PlaceInBase& region, const Tensor& g) {
  Tensor flat = zeros(region.base_span(), {g.dtype(), g.device()});
  if (!region.repeats) {
    region.of(flat).copy_(g);
    return region.base_shaped(flat);
  }
  const Tensor positions = arange(0, region.base_span(), 1, {DType::i64, g.device()});
  const Tensor index = region.of(positions).reshape({-1});
  return region.base_shaped(index_add(flat, 0, index, g.reshape({-1}), 1));
}

}  // namespace

Tensor Tensor::as_strided(const Dims& shape, const Dims& strides, std::optional<int64_t> storage_offset,
                          Location where) const {
  const CallScope call("as_strided", where);
  checked(*this);
  Layout layout = strided_layout(shape, strides, dtype());
  layout.device_type = this->layout().device_type;
  layout.device_index = this->layout().device_index;
  const Checked offset = Checked(storage_offset.value_or(this->storage_offset())) * itemsize();
  const ByteSpan span = byte_span(layout);
  const Checked low = offset + span.low, high = offset + span.high;
  const bool ends_inside = layout.numel == 0 || high.value() <= static_cast<int64_t>(impl_->storage->bytes);
  const bool inside = low.fits() && high.fits() && low.value() >= 0 && ends_inside;  // of no elements none is outside
  if (!inside) {
    raise<ShapeError>(
        {.problem = fmt::format("shape {} with strides {} from {} on leaves the storage of {} elements", shape.text(),
                                strides.text(), storage_offset.value_or(this->storage_offset()),
                                impl_->storage->bytes / static_cast<size_t>(itemsize()))});
  }
  void* data = static_cast<char*>(impl_->storage->data) + offset.value();
  return recorded_view(
      *this,
      [&](View& view) {
        view = {data, layout};
      },
      [&] {
        return
            [region = PlaceInBase(raw_view(), View{data, layout})](Tensor&& g) { return region_gradient(region, g); };
      });
}

namespace {

// The elements of a view in a base of another dtype: both are viewed as real numbers if one of them is complex.
struct ViewTypes {
  bool base_complex, view_complex;
  bool differ() const { return base_complex != view_complex; }
};

ViewTypes types_of(const TensorImpl* base, const TensorImpl* view) {
  return {is_complex(base->view.layout.dtype), is_complex(view->view.layout.dtype)};
}

View as_numbers(const View& view) {
  if (!is_complex(view.layout.dtype)) return view;
  if (view.layout.rank == max_rank) {
    raise<ShapeError>({.problem =
                           "a view of other numbers into a complex tensor of 8 dimensions was written to, and its "
                           "history has no room for a dimension more"});
  }
  View out = view;
  Layout& layout = out.layout;
  layout.dtype = real_type(layout.dtype);
  layout.sizes[layout.rank] = 2;
  layout.strides[layout.rank++] = itemsize(layout.dtype);
  finish_layout(layout);
  return out;
}

PlaceInBase place_in(const TensorImpl* base, const TensorImpl* view) {
  const bool differ = types_of(base, view).differ();
  return differ ? PlaceInBase(as_numbers(base->view), as_numbers(view->view)) : PlaceInBase(base->view, view->view);
}

}  // namespace

namespace detail {

Node* make_view_node(TensorImpl* base, TensorImpl* view) {
  Node* node = make_node<1>([region = place_in(base, view), types = types_of(base, view)](Tensor&& g) {
    if (!types.differ()) return region_gradient(region, g);
    const Tensor whole = region_gradient(region, as_real(g));
    return types.base_complex ? as_complex(whole) : whole;
  });
  NodeHandle handle(node);
  node->op = "view";
  node->where = base->storage->last_write;
  set_edge(node, 0, base);
  return handle.take();
}

Node* make_region_node(TensorImpl* base, TensorImpl* view, Node* region_value) {
  Node* node = make_node<2>(
      [region = place_in(base, view), types = types_of(base, view)](Node& self, Tensor* incoming, Tensor* outgoing) {
        const bool differ = types.differ();
        const Tensor g = in_geometry(differ ? as_real(incoming[0]) : incoming[0], region.base);
        if (self.wants(1)) {
          const Tensor part = region.of(g).clone();
          outgoing[1] = differ && types.view_complex ? as_complex(part) : part;
        }
        if (!self.wants(0)) return;
        const Tensor rest = g.clone();
        region.of(rest).zero_();
        const Tensor whole = region.base_shaped(rest);
        outgoing[0] = differ && types.base_complex ? as_complex(whole) : whole;
      });
  NodeHandle handle(node);
  node->op = "write";
  node->where = region_value->where;
  set_edge(node, 0, base);
  node->edges[1] = Edge(region_value, 0);
  node->order = std::max(node->order, region_value->order + 1);
  return handle.take();
}

}  // namespace detail

Tensor Tensor::detach(Location where) const {
  const char* const outer = detail::current_call.op;
  const CallScope call("detach", where);
  checked(*this);
  Tensor out = adopt(detail::new_alias(impl_, layout(), data_ptr()));
  if (WEFT_UNLIKELY(detail::program_watch != nullptr) && detail::is_called_by_program(outer)) {
    detail::program_watch->on_detach(*this, out);
  }
  return out;
}

namespace {

// Pieces of one tensor along a dimension, with one node: the gradient is written piece by piece into one buffer.
constexpr int64_t most_pieces = int64_t{1} << 24;

void check_piece_count(int64_t count) {
  if (WEFT_UNLIKELY(count > most_pieces)) {
    raise<ShapeError>({.problem = fmt::format("{} tensors are too many, at most {}", count, most_pieces)});
  }
}

std::vector<Tensor> empty_pieces(const Tensor& x, int dim, int64_t count) {
  check_piece_count(count);
  std::vector<Tensor> out;
  out.reserve(static_cast<size_t>(count));
  while (std::ssize(out) < count) out.push_back(x.narrow(dim, 0, 0));
  return out;
}

std::vector<Tensor> pieces(const Tensor& x, int dim, int64_t size, bool drop_dim) {
  const int64_t n = x.sizes()[dim];
  size = std::min(size, std::max<int64_t>(n, 1));
  View piece = x.raw_view();
  const int64_t step = size * piece.layout.strides[dim];
  if (drop_dim) take_index(piece, piece, dim, 0);
  else set_range(piece, dim, 0, std::min(size, n), 1);
  check_piece_count(n / size);
  std::vector<Tensor> out;
  out.reserve(static_cast<size_t>(n / size + 1));
  for (int64_t first = 0; first < n || (first == 0 && !drop_dim); first += size) {
    if (n - first < size && first != 0) set_range(piece, dim, 0, n - first, 1);
    out.push_back(make_view(x, piece.layout, piece.data));
    move_start(piece, step);
  }
  if (!should_record(x) || out.empty()) return out;
  const Dims shape = x.shape();
  GeneralNode* node = make_general_node(
      {&x, 1}, static_cast<int>(out.size()),
      [=, count = static_cast<int>(out.size())](Node&, Tensor* incoming, Tensor* outgoing) {
        const Tensor& some = *std::find_if(incoming, incoming + count, [](auto& g) { return g.defined(); });
        Tensor whole = std::all_of(incoming, incoming + count, [](auto& g) { return g.defined(); })
                           ? empty(shape, {some.dtype(), some.device()})
                           : zeros(shape, {some.dtype(), some.device()});
        for (int i = 0; i < count; ++i) {
          if (!incoming[i].defined()) continue;
          const int64_t length = std::min(size, n - i * size);
          if (drop_dim) whole.select(dim, i).copy_(incoming[i]);
          else slice_exact(whole, dim, i * size, length, 1).copy_(incoming[i]);
        }
        outgoing[0] = std::move(whole);
      });
  for (size_t i = 0; i < out.size(); ++i) {
    if (i > 0) node->refs.increment();
    set_history(out[i].impl(), node, static_cast<uint16_t>(i));
  }
  return out;
}

}  // namespace

std::vector<Tensor> Tensor::split(int64_t size, int dim, Location where) const {
  const CallScope call("split", where);
  checked(*this);
  const int d = wrap_dim(dim, this->dim());
  if (this->dim() == 0 || size <= 0) {
    raise<ValueError>({.problem = fmt::format("cannot split shape {} into pieces of {}", shape().text(), size)});
  }
  return pieces(*this, d, size, false);
}

std::vector<Tensor> Tensor::chunk(int64_t chunks, int dim, Location where) const {
  const CallScope call("chunk", where);
  checked(*this);
  const int d = wrap_dim(dim, this->dim());
  if (this->dim() == 0 || chunks <= 0) {
    raise_value("chunks", fmt::format("at least 1 of shape {}", shape().text()), chunks);
  }
  const int64_t n = sizes()[d];
  if (n == 0) return empty_pieces(*this, d, chunks);
  return pieces(*this, d, n / chunks + (n % chunks != 0), false);
}

std::vector<Tensor> Tensor::unbind(int dim, Location where) const {
  const CallScope call("unbind", where);
  checked(*this);
  const int d = wrap_dim(dim, this->dim());
  if (this->dim() == 0) raise<ShapeError>({.problem = "a 0-d tensor has no dimension"});
  return pieces(*this, d, 1, true);
}

}  // namespace weft
