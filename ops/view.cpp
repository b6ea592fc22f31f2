// Views: the Tensor methods that share storage, each with the gradient that undoes it.
#include <algorithm>
#include <cmath>
#include <functional>

#include <weft/autograd/from_ops.hpp>
#include <weft/ops/detail/common.hpp>
#include <weft/ops/detail/selection.hpp>
#include <weft/ops/detail/take_index.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/join.hpp>
#include <weft/tensor/checked.hpp>
#include <weft/tensor/overlap.hpp>

namespace weft {

namespace {

// Out of line, so that a view that is not recorded pays nothing for it.
template <class Formula>
[[gnu::noinline]] void record_view(const Tensor& out, const char* op, Location where, Formula& make_formula,
                                   const Tensor& x) {
  record_with(out, op, where, make_formula, x);
}

/// A view of x. `arrange` is given the new tensor's own View, where all is x's but the sizes and strides, which are not
/// set yet, and writes what the view is.
template <class Arrange, class Formula>
inline Tensor recorded_view(const Tensor& x, Arrange&& arrange, const char* op, Location where,
                            Formula&& make_formula) {
  Tensor out = make_view(x);
  arrange(out.impl()->view);
  if (should_record(x)) record_view(out, op, where, make_formula, x);
  return out;
}

// The gradient of a view that only rearranges: the same elements in the input's shape.
struct ReshapeBack {
  Dims shape;
  Tensor operator()(Node& self, Tensor&& g) { return g.reshape(shape, self.where); }
};

// The gradient of a view onto a part: zeros with g written into the same part.
struct PartBack {
  Dims shape;
  std::function<Tensor(const Tensor&, Location)> part;
  Tensor operator()(Node& self, Tensor&& g) {
    Tensor whole = zeros(shape, {g.dtype(), g.device()}, self.where);
    part(whole, self.where).copy_(g, self.where);
    return whole;
  }
};

struct SelectBack {
  Dims shape;
  int dim;
  int64_t index;
  Tensor operator()(Node& self, Tensor&& g) {
    Tensor whole = zeros(shape, {g.dtype(), g.device()}, self.where);
    whole.select(dim, index, self.where).copy_(g, self.where);
    return whole;
  }
  void add_to(Node& self, const Tensor& sum, Tensor&& g) {
    sum.select(dim, index, self.where).add_(Operand(std::move(g), self.where));
  }
};

struct SliceBack {
  Dims shape;
  int dim;
  int64_t first, count, step;
  Tensor operator()(Node& self, Tensor&& g);
  void add_to(Node& self, const Tensor& sum, Tensor&& g);
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
Tensor slice_exact(const Tensor& x, int dim, int64_t first, int64_t count, int64_t step, const char* op,
                   Location where) {
  const auto arrange = [&](View& view) {
    copy_shape(view.layout, x.raw_view().layout);
    set_range(view, dim, first, count, step);
  };
  return recorded_view(x, arrange, op, where, [&] { return SliceBack{x.shape(), dim, first, count, step}; });
}

Tensor SliceBack::operator()(Node& self, Tensor&& g) {
  Tensor whole = zeros(shape, {g.dtype(), g.device()}, self.where);
  slice_exact(whole, dim, first, count, step, "slice", self.where).copy_(g, self.where);
  return whole;
}

void SliceBack::add_to(Node& self, const Tensor& sum, Tensor&& g) {
  slice_exact(sum, dim, first, count, step, "slice", self.where).add_(Operand(std::move(g), self.where));
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
Dims resolve_shape(const Tensor& x, const Dims& wanted, const char* op, Location where) {
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
  if (x.numel() == 0 && !bad) check_sizes(shape, x.dtype(), op, where);
  if (WEFT_UNLIKELY(bad || known.value() != x.numel())) {
    raise<ShapeError>({.op = op,
                       .problem = fmt::format("{} elements of shape {} do not make shape {}", x.numel(),
                                              x.shape().text(), wanted.text()),
                       .remedy = "one size may be -1"},
                      where);
  }
  return shape;
}

// `shape` has as many elements as x, which is contiguous.
inline Tensor view_contiguous(const Tensor& x, const Dims& shape, const char* op, Location where) {
  const auto arrange = [&](View& view) {
    Layout& layout = view.layout;
    layout.rank = static_cast<uint8_t>(shape.size());
    int64_t step = itemsize(layout.dtype);
    for (int i = layout.rank - 1; i >= 0; --i) {
      const int64_t n = shape[i];
      layout.sizes[i] = n;
      layout.strides[i] = step;
      step *= n == 0 ? 1 : n;
    }
  };
  return recorded_view(x, arrange, op, where, [&] { return ReshapeBack{x.shape()}; });
}

Tensor view_as(const Tensor& x, const Dims& shape, const Dims& strides, const char* op, Location where) {
  const auto arrange = [&](View& view) { set_sizes(view.layout, shape, strides); };
  return recorded_view(x, arrange, op, where, [&] { return ReshapeBack{x.shape()}; });
}

// A view of this shape; nothing where the strides do not allow it.
Tensor view_if_possible(const Tensor& x, const Dims& shape, const char* op, Location where) {
  if (x.is_contiguous()) return view_contiguous(x, shape, op, where);
  const auto strides = view_strides(x.raw_view().layout, shape);
  return strides ? view_as(x, shape, *strides, op, where) : Tensor();
}

[[noreturn, gnu::cold]] void raise_needs_copy(const Tensor& x, const Dims& shape, Location where) {
  raise<ShapeError>({.op = "view",
                     .problem = fmt::format("strides {} of shape {} do not allow shape {} without a copy",
                                            x.strides().text(), x.shape().text(), shape.text()),
                     .remedy = "use reshape(), which copies where it must"},
                    where);
}

}  // namespace

Tensor Tensor::view(const Dims& wanted, Location where) const {
  checked(*this, "view", where);
  if (WEFT_LIKELY(is_contiguous() && makes(wanted, numel()))) return view_contiguous(*this, wanted, "view", where);
  const Dims shape = resolve_shape(*this, wanted, "view", where);
  Tensor out = view_if_possible(*this, shape, "view", where);
  if (!out.defined()) raise_needs_copy(*this, shape, where);
  return out;
}

Tensor Tensor::reshape(const Dims& wanted, Location where) const {
  checked(*this, "reshape", where);
  if (WEFT_LIKELY(is_contiguous() && makes(wanted, numel()))) return view_contiguous(*this, wanted, "reshape", where);
  const Dims shape = resolve_shape(*this, wanted, "reshape", where);
  Tensor out = view_if_possible(*this, shape, "reshape", where);
  if (out.defined()) return out;
  return clone(where).view(shape, where);
}

Tensor Tensor::flatten(int start_dim, int end_dim, Location where) const {
  checked(*this, "flatten", where);
  if (dim() == 0) return reshape({1}, where);
  const int first = wrap_dim(start_dim, dim(), "flatten", where);
  const int last = wrap_dim(end_dim, dim(), "flatten", where);
  if (first > last) raise<ValueError>({.op = "flatten", .problem = "start_dim comes after end_dim"}, where);
  Dims shape;
  for (int i = 0; i < dim(); ++i) {
    if (i <= first || i > last) shape.push_back(sizes()[i]);
    else shape[first] *= sizes()[i];
  }
  return reshape(shape, where);
}

Tensor Tensor::transpose(int dim0, int dim1, Location where) const {
  checked(*this, "transpose", where);
  const int a = wrap_dim(dim0, dim(), "transpose", where);
  const int b = wrap_dim(dim1, dim(), "transpose", where);
  const auto arrange = [&](View& view) {
    if (dim() == 0) return;
    copy_shape(view.layout, layout());
    std::swap(view.layout.sizes[a], view.layout.sizes[b]);
    std::swap(view.layout.strides[a], view.layout.strides[b]);
    finish_layout(view.layout);
  };
  return recorded_view(*this, arrange, "transpose", where,
                       [&] { return [a, b](Node& self, Tensor&& g) { return g.transpose(a, b, self.where); }; });
}

Tensor Tensor::t(Location where) const {
  checked(*this, "t", where);
  if (dim() > 2) {
    raise<ShapeError>({.op = "t",
                       .problem = fmt::format("needs a tensor of rank 2 or less, not {}", shape().text()),
                       .remedy = "use transpose(dim0, dim1)"},
                      where);
  }
  return dim() < 2 ? *this : transpose(0, 1, where);
}

Tensor Tensor::permute(const Dims& dims, Location where) const {
  checked(*this, "permute", where);
  int order[max_rank];
  unsigned seen = 0;
  bool bad = dims.size() != dim();
  for (int i = 0; i < dims.size() && !bad; ++i) {
    order[i] = wrap_dim(dims[i], dim(), "permute", where);
    bad = (seen >> order[i] & 1) != 0;
    seen |= 1u << order[i];
  }
  if (WEFT_UNLIKELY(bad)) {
    raise<ShapeError>(
        {.op = "permute", .problem = fmt::format("{} is no order of the {} dimensions", dims.text(), dim())}, where);
  }
  const auto arrange = [&](View& view) {
    for (int i = 0; i < view.layout.rank; ++i) {
      view.layout.sizes[i] = layout().sizes[order[i]];
      view.layout.strides[i] = layout().strides[order[i]];
    }
    finish_layout(view.layout);
  };
  return recorded_view(*this, arrange, "permute", where, [&] {
    Dims back = Dims::filled(dim(), 0);
    for (int i = 0; i < dim(); ++i) back[order[i]] = i;
    return [back](Node& self, Tensor&& g) { return g.permute(back, self.where); };
  });
}

Tensor Tensor::slice(int dim, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step,
                     Location where) const {
  checked(*this, "slice", where);
  if (this->dim() == 0) raise<IndexError>({.op = "slice", .problem = "a 0-d tensor has no dimension to slice"}, where);
  const int d = wrap_dim(dim, this->dim(), "slice", where);
  const SliceRange range = slice_range(start, stop, step, layout().sizes[d], "slice", where);
  return slice_exact(*this, d, range.first, range.count, range.step, "slice", where);
}

Tensor Tensor::narrow(int dim, int64_t start, int64_t length, Location where) const {
  checked(*this, "narrow", where);
  const int d = wrap_dim(dim, this->dim(), "narrow", where);
  const int64_t n = this->dim() == 0 ? 0 : layout().sizes[d];
  const int64_t first = start < 0 ? start + n : start;
  if (WEFT_UNLIKELY(this->dim() == 0 || first < 0 || length < 0 || first > n - length)) {
    raise<IndexError>(
        {.op = "narrow",
         .problem = fmt::format("start {} and length {} leave dimension {} of size {}", start, length, d, n)},
        where);
  }
  return slice_exact(*this, d, first, length, 1, "narrow", where);
}

Tensor Tensor::narrow(int dim, const Tensor& start, int64_t length, Location where) const {
  if (!is_integer(checked(start, "narrow", where).dtype())) {
    raise<DTypeError>({.op = "narrow", .problem = fmt::format("the start is {}, not an integer", name(start.dtype()))},
                      where);
  }
  return narrow(dim, index_numbers(start, where).item<int64_t>(where), length, where);
}

Tensor Tensor::select(int dim, int64_t index, Location where) const {
  checked(*this, "select", where);
  if (this->dim() == 0) raise<IndexError>({.op = "select", .problem = "a 0-d tensor cannot be indexed"}, where);
  const int d = wrap_dim(dim, this->dim(), "select", where);
  const int64_t n = layout().sizes[d];
  const int64_t i = index < 0 ? index + n : index;
  if (WEFT_UNLIKELY(i < 0 || i >= n)) {
    raise<IndexError>(
        {.op = "select", .problem = fmt::format("index {} is out of range for axis {} of size {}", index, d, n)},
        where);
  }
  const auto arrange = [&](View& view) { take_index(view, raw_view(), d, i); };
  return recorded_view(*this, arrange, "select", where, [&] { return SelectBack{shape(), d, i}; });
}

Tensor Tensor::unsqueeze(int dim, Location where) const {
  checked(*this, "unsqueeze", where);
  if (this->dim() == max_rank) {
    raise<ShapeError>({.op = "unsqueeze", .problem = fmt::format("a tensor has at most {} dimensions", max_rank)},
                      where);
  }
  const int d = wrap_dim(dim, this->dim() + 1, "unsqueeze", where);
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
  return recorded_view(*this, arrange, "unsqueeze", where,
                       [&] { return [d](Node& self, Tensor&& g) { return g.squeeze(d, self.where); }; });
}

Tensor Tensor::squeeze(Location where) const {
  checked(*this, "squeeze", where);
  Dims kept, strides;
  for (int i = 0; i < dim(); ++i) {
    if (layout().sizes[i] == 1) continue;
    kept.push_back(layout().sizes[i]);
    strides.push_back(layout().strides[i]);
  }
  return view_as(*this, kept, strides, "squeeze", where);
}

Tensor Tensor::squeeze(int dim, Location where) const {
  checked(*this, "squeeze", where);
  const int d = wrap_dim(dim, this->dim(), "squeeze", where);
  Dims kept(sizes()), strides(std::span<const int64_t>(layout().strides, layout().rank));
  if (this->dim() != 0 && kept[d] == 1) {
    kept.erase(d);
    strides.erase(d);
  }
  return view_as(*this, kept, strides, "squeeze", where);
}

Tensor Tensor::expand(const Dims& wanted, Location where) const {
  checked(*this, "expand", where);
  const int extra = wanted.size() - dim();
  const auto own = [&](int i) { return i < extra ? 1 : layout().sizes[i - extra]; };
  bool bad = extra < 0;
  for (int i = 0; i < wanted.size() && !bad; ++i) {
    const bool stays = wanted[i] == own(i) || (wanted[i] == -1 && i >= extra);
    bad = !stays && (own(i) != 1 || wanted[i] < 0);
  }
  if (WEFT_UNLIKELY(bad)) {
    raise<ShapeError>({.op = "expand",
                       .problem = fmt::format("shape {} does not expand to {}", shape().text(), wanted.text()),
                       .remedy = "only dimensions of size 1 can be repeated"},
                      where);
  }
  const auto stays = [&](int i) { return i >= extra && (wanted[i] == own(i) || wanted[i] == -1); };
  Dims sizes = wanted;
  for (int i = 0; i < wanted.size(); ++i) sizes[i] = stays(i) ? own(i) : wanted[i];
  check_sizes(sizes, dtype(), "expand", where);
  const auto arrange = [&](View& view) {
    view.layout.rank = static_cast<uint8_t>(wanted.size());
    for (int i = 0; i < wanted.size(); ++i) {
      view.layout.sizes[i] = sizes[i];
      view.layout.strides[i] = stays(i) ? layout().strides[i - extra] : 0;
    }
    finish_layout(view.layout);
  };
  return recorded_view(*this, arrange, "expand", where, [&] {
    return [own = this->shape()](Node& self, Tensor&& g) { return sum_to(std::move(g), own, self.where); };
  });
}

Tensor Tensor::diagonal(int64_t offset, int dim0, int dim1, Location where) const {
  checked(*this, "diagonal", where);
  const int a = wrap_dim(dim0, dim(), "diagonal", where);
  const int b = wrap_dim(dim1, dim(), "diagonal", where);
  if (a == b || dim() < 2) raise<ShapeError>({.op = "diagonal", .problem = "needs two different dimensions"}, where);
  const int64_t row = offset >= 0 ? 0 : -std::max(offset, -layout().sizes[a]);
  const int64_t column = offset >= 0 ? offset : 0;
  const int64_t length = std::max<int64_t>(0, std::min(layout().sizes[a] - row, layout().sizes[b] - column));
  Dims new_sizes, new_strides;
  for (int i = 0; i < dim(); ++i) {
    if (i == a || i == b) continue;
    new_sizes.push_back(layout().sizes[i]);
    new_strides.push_back(layout().strides[i]);
  }
  new_sizes.push_back(length);
  new_strides.push_back(layout().strides[a] + layout().strides[b]);
  const auto arrange = [&](View& view) {
    if (length != 0) move_start(view, row * layout().strides[a] + column * layout().strides[b]);
    set_sizes(view.layout, new_sizes, new_strides);
  };
  return recorded_view(*this, arrange, "diagonal", where, [&] {
    return PartBack{shape(), [=](const Tensor& whole, Location w) { return whole.diagonal(offset, a, b, w); }};
  });
}

namespace {

// A tensor of g's elements whose strides are those of `like` (a layout that is not contiguous).
Tensor in_geometry(const Tensor& g, const Layout& like, Location where) {
  if (like.contiguous) return g.contiguous(where);
  const ByteSpan span = byte_span(like);
  const int64_t item = itemsize(like.dtype);
  Tensor flat = zeros((span.high - span.low) / item, {g.dtype(), g.device()}, where);
  Dims strides;
  for (int i = 0; i < like.rank; ++i) strides.push_back(like.strides[i] / item);
  flat.as_strided(Dims(sizes_of(like)), strides, -span.low / item, where).copy_(g, where);
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
  Tensor of(const Tensor& geometry, Location where) const { return geometry.as_strided(shape, strides, origin, where); }
  Tensor base_shaped(const Tensor& geometry, Location where) const {
    if (base.contiguous) return geometry.dim() == base.rank ? geometry : geometry.view(Dims(sizes_of(base)), where);
    const int64_t item = itemsize(base.dtype);
    Dims base_strides;
    for (int i = 0; i < base.rank; ++i) base_strides.push_back(base.strides[i] / item);
    return geometry.as_strided(Dims(sizes_of(base)), base_strides, -byte_span(base).low / item, where);
  }
  int64_t base_span() const {
    const ByteSpan span = byte_span(base);
    return (span.high - span.low) / itemsize(base.dtype);
  }
};

// The gradient of reading a region: g added into zeros of the base's geometry.
Tensor region_gradient(const PlaceInBase& region, const Tensor& g, Location where) {
  Tensor flat = zeros(region.base_span(), {g.dtype(), g.device()}, where);
  if (!region.repeats) {
    region.of(flat, where).copy_(g, where);
    return region.base_shaped(flat, where);
  }
  const Tensor positions = arange(0, region.base_span(), 1, {DType::i64, g.device()}, where);
  const Tensor index = region.of(positions, where).reshape({-1}, where);
  return region.base_shaped(index_add(flat, 0, index, g.reshape({-1}, where), 1, where), where);
}

}  // namespace

Tensor Tensor::as_strided(const Dims& shape, const Dims& strides, std::optional<int64_t> storage_offset,
                          Location where) const {
  checked(*this, "as_strided", where);
  Layout layout = strided_layout(shape, strides, dtype(), "as_strided", where);
  layout.device_type = this->layout().device_type;
  layout.device_index = this->layout().device_index;
  const Checked offset = Checked(storage_offset.value_or(this->storage_offset())) * itemsize();
  const ByteSpan span = byte_span(layout);
  const Checked low = offset + span.low, high = offset + span.high;
  const bool inside =
      low.fits() && high.fits() && low.value() >= 0 && high.value() <= static_cast<int64_t>(impl_->storage->bytes);
  if (!inside) {
    raise<ShapeError>(
        {.op = "as_strided",
         .problem = fmt::format("shape {} with strides {} from {} on leaves the storage of {} elements", shape.text(),
                                strides.text(), storage_offset.value_or(this->storage_offset()),
                                impl_->storage->bytes / static_cast<size_t>(itemsize()))},
        where);
  }
  void* data = static_cast<char*>(impl_->storage->data) + offset.value();
  return recorded_view(
      *this,
      [&](View& view) {
        view = {data, layout};
      },
      "as_strided", where,
      [&] {
        return [region = PlaceInBase(raw_view(), View{data, layout})](Node& self, Tensor&& g) {
          return region_gradient(region, g, self.where);
        };
      });
}

namespace detail {

Node* make_view_node(TensorImpl* base, TensorImpl* view) {
  Node* node = make_node<1>("view", base->storage->last_write,
                            [region = PlaceInBase(base->view, view->view)](Node& self, Tensor&& g) {
                              return region_gradient(region, g, self.where);
                            });
  NodeHandle handle(node);
  set_edge(node, 0, base);
  return handle.take();
}

Node* make_region_node(TensorImpl* base, TensorImpl* view, Node* region_value) {
  Node* node =
      make_node<2>("write", region_value->where,
                   [region = PlaceInBase(base->view, view->view)](Node& self, Tensor* incoming, Tensor* outgoing) {
                     const Tensor g = in_geometry(incoming[0], region.base, self.where);
                     if (self.wants(1)) outgoing[1] = region.of(g, self.where).clone(self.where);
                     if (!self.wants(0)) return;
                     const Tensor rest = g.clone(self.where);
                     region.of(rest, self.where).zero_(self.where);
                     outgoing[0] = region.base_shaped(rest, self.where);
                   });
  NodeHandle handle(node);
  set_edge(node, 0, base);
  node->edges[1] = Edge(region_value, 0);
  node->order = std::max(node->order, region_value->order + 1);
  return handle.take();
}

}  // namespace detail

Tensor Tensor::detach(Location where) const {
  checked(*this, "detach", where);
  return adopt(detail::new_alias(impl_, layout(), data_ptr()));
}

namespace {

// Pieces of one tensor along a dimension, with one node: the gradient is written piece by piece into one buffer.
std::vector<Tensor> pieces(const Tensor& x, int dim, int64_t size, bool drop_dim, const char* op, Location where) {
  const int64_t n = x.sizes()[dim];
  size = std::min(size, std::max<int64_t>(n, 1));
  View piece = x.raw_view();
  const int64_t step = size * piece.layout.strides[dim];
  if (drop_dim) take_index(piece, piece, dim, 0);
  else set_range(piece, dim, 0, std::min(size, n), 1);
  constexpr int64_t most = int64_t{1} << 24;
  if (WEFT_UNLIKELY(n / size > most)) {
    raise<ShapeError>({.op = op, .problem = fmt::format("{} tensors are too many", n / size)}, where);
  }
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
      op, where, {&x, 1}, static_cast<int>(out.size()),
      [=, count = static_cast<int>(out.size())](Node& self, Tensor* incoming, Tensor* outgoing) {
        const Tensor& some = *std::find_if(incoming, incoming + count, [](auto& g) { return g.defined(); });
        Tensor whole = std::all_of(incoming, incoming + count, [](auto& g) { return g.defined(); })
                           ? empty(shape, {some.dtype(), some.device()}, self.where)
                           : zeros(shape, {some.dtype(), some.device()}, self.where);
        for (int i = 0; i < count; ++i) {
          if (!incoming[i].defined()) continue;
          const int64_t length = std::min(size, n - i * size);
          if (drop_dim) whole.select(dim, i, self.where).copy_(incoming[i], self.where);
          else slice_exact(whole, dim, i * size, length, 1, op, self.where).copy_(incoming[i], self.where);
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
  checked(*this, "split", where);
  const int d = wrap_dim(dim, this->dim(), "split", where);
  if (this->dim() == 0 || size <= 0) {
    raise<ValueError>(
        {.op = "split", .problem = fmt::format("cannot split shape {} into pieces of {}", shape().text(), size)},
        where);
  }
  return pieces(*this, d, size, false, "split", where);
}

std::vector<Tensor> Tensor::chunk(int64_t chunks, int dim, Location where) const {
  checked(*this, "chunk", where);
  const int d = wrap_dim(dim, this->dim(), "chunk", where);
  if (this->dim() == 0 || chunks <= 0) {
    raise<ValueError>({.op = "chunk", .problem = fmt::format("cannot make {} chunks of {}", chunks, shape().text())},
                      where);
  }
  const int64_t n = sizes()[d];
  return pieces(*this, d, std::max<int64_t>(1, n / chunks + (n % chunks != 0)), false, "chunk", where);
}

std::vector<Tensor> Tensor::unbind(int dim, Location where) const {
  checked(*this, "unbind", where);
  const int d = wrap_dim(dim, this->dim(), "unbind", where);
  if (this->dim() == 0) raise<ShapeError>({.op = "unbind", .problem = "a 0-d tensor has no dimension"}, where);
  return pieces(*this, d, 1, true, "unbind", where);
}

}  // namespace weft
