// Views: the Tensor methods that share storage, each with the gradient that undoes it.
#include <functional>

#include <weft/autograd/from_ops.hpp>
#include <weft/ops/detail/common.hpp>
#include <weft/ops/detail/selection.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/join.hpp>

namespace weft {

namespace {

Tensor viewed(const Tensor& x, const Layout& layout, void* data) { return make_view(x, layout, data); }

template <class Formula>
Tensor recorded_view(const Tensor& x, const Layout& layout, void* data, const char* op, Location where,
                     Formula&& make_formula) {
  Tensor out = viewed(x, layout, data);
  if (should_record(x)) record(out, op, where, make_formula(), x);
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
};

struct SliceBack {
  Dims shape;
  int dim;
  int64_t first, count, step;
  Tensor operator()(Node& self, Tensor&& g);
};

void* shifted(const Tensor& x, int64_t bytes) { return static_cast<char*>(x.data_ptr()) + bytes; }

// `count` elements from `first` on, `step` apart; all inside.
Tensor slice_exact(const Tensor& x, int dim, int64_t first, int64_t count, int64_t step, const char* op,
                   Location where) {
  Layout layout = x.raw_view().layout;
  void* data = count == 0 ? x.data_ptr() : shifted(x, first * layout.strides[dim]);
  layout.sizes[dim] = count;
  layout.strides[dim] *= step;
  finish_layout(layout);
  return recorded_view(x, layout, data, op, where, [&] { return SliceBack{x.shape(), dim, first, count, step}; });
}

Tensor SliceBack::operator()(Node& self, Tensor&& g) {
  Tensor whole = zeros(shape, {g.dtype(), g.device()}, self.where);
  slice_exact(whole, dim, first, count, step, "slice", self.where).copy_(g, self.where);
  return whole;
}

Layout with_sizes(const Layout& from, std::span<const int64_t> sizes, std::span<const int64_t> byte_strides) {
  Layout layout = from;
  layout.rank = static_cast<uint8_t>(sizes.size());
  for (int i = 0; i < layout.rank; ++i) {
    layout.sizes[i] = sizes[i];
    layout.strides[i] = byte_strides[i];
  }
  finish_layout(layout);
  return layout;
}

// Fills in one -1 and checks the element count.
Dims resolve_shape(const Tensor& x, const Dims& wanted, const char* op, Location where) {
  Dims shape = wanted;
  int open = -1;
  int64_t known = 1;
  bool bad = false;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && open < 0) open = i;
    else if (shape[i] < 0) bad = true;
    else if (__builtin_mul_overflow(known, shape[i], &known)) bad = true;
  }
  if (open >= 0 && known != 0 && x.numel() % known == 0) shape[open] = x.numel() / known;
  else if (open >= 0) bad = true;
  if (WEFT_UNLIKELY(bad || shape.product() != x.numel())) {
    raise<ShapeError>({.op = op,
                       .problem = fmt::format("{} elements of shape {} do not make shape {}", x.numel(),
                                              x.shape().text(), wanted.text()),
                       .remedy = "one size may be -1"},
                      where);
  }
  return shape;
}

Tensor view_contiguous(const Tensor& x, const Dims& shape, const char* op, Location where) {
  Layout layout = contiguous_layout(shape, x.dtype(), op, where);
  layout.device_type = x.raw_view().layout.device_type;
  layout.device_index = x.raw_view().layout.device_index;
  return recorded_view(x, layout, x.data_ptr(), op, where, [&] { return ReshapeBack{x.shape()}; });
}

Tensor view_as(const Tensor& x, const Dims& shape, const Dims& strides, const char* op, Location where) {
  return recorded_view(x, with_sizes(x.raw_view().layout, shape, strides), x.data_ptr(), op, where,
                       [&] { return ReshapeBack{x.shape()}; });
}

}  // namespace

Tensor Tensor::view(const Dims& wanted, Location where) const {
  checked(*this, "view", where);
  const Dims shape = resolve_shape(*this, wanted, "view", where);
  if (WEFT_LIKELY(is_contiguous())) return view_contiguous(*this, shape, "view", where);
  const auto strides = view_strides(layout(), shape);
  if (WEFT_UNLIKELY(!strides)) {
    raise<ShapeError>({.op = "view",
                       .problem = fmt::format("strides {} of shape {} do not allow shape {} without a copy",
                                              this->strides().text(), this->shape().text(), shape.text()),
                       .remedy = "use reshape(), which copies where it must"},
                      where);
  }
  return view_as(*this, shape, *strides, "view", where);
}

Tensor Tensor::reshape(const Dims& wanted, Location where) const {
  checked(*this, "reshape", where);
  const Dims shape = resolve_shape(*this, wanted, "reshape", where);
  if (WEFT_LIKELY(is_contiguous())) return view_contiguous(*this, shape, "reshape", where);
  if (const auto strides = view_strides(layout(), shape)) return view_as(*this, shape, *strides, "reshape", where);
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
  Layout swapped = layout();
  if (dim() != 0) {
    std::swap(swapped.sizes[a], swapped.sizes[b]);
    std::swap(swapped.strides[a], swapped.strides[b]);
    finish_layout(swapped);
  }
  return recorded_view(*this, swapped, data_ptr(), "transpose", where,
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
  Dims from, back = Dims::filled(dim(), -1), new_sizes, new_strides;
  bool bad = dims.size() != dim();
  for (int i = 0; i < dims.size() && !bad; ++i) {
    const int d = wrap_dim(dims[i], dim(), "permute", where);
    bad = back[d] != -1;
    back[d] = i;
    new_sizes.push_back(layout().sizes[d]);
    new_strides.push_back(layout().strides[d]);
  }
  if (bad) {
    raise<ShapeError>(
        {.op = "permute", .problem = fmt::format("{} is no order of the {} dimensions", dims.text(), dim())}, where);
  }
  return recorded_view(*this, with_sizes(layout(), new_sizes, new_strides), data_ptr(), "permute", where,
                       [&] { return [back](Node& self, Tensor&& g) { return g.permute(back, self.where); }; });
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
  Layout rest = layout();
  void* data = shifted(*this, i * rest.strides[d]);
  for (int k = d; k + 1 < rest.rank; ++k) {
    rest.sizes[k] = rest.sizes[k + 1];
    rest.strides[k] = rest.strides[k + 1];
  }
  --rest.rank;
  finish_layout(rest);
  return recorded_view(*this, rest, data, "select", where, [&] { return SelectBack{shape(), d, i}; });
}

Tensor Tensor::unsqueeze(int dim, Location where) const {
  checked(*this, "unsqueeze", where);
  if (this->dim() == max_rank) {
    raise<ShapeError>({.op = "unsqueeze", .problem = fmt::format("a tensor has at most {} dimensions", max_rank)},
                      where);
  }
  const int d = wrap_dim(dim, this->dim() + 1, "unsqueeze", where);
  Layout wider = layout();
  for (int k = wider.rank; k > d; --k) {
    wider.sizes[k] = wider.sizes[k - 1];
    wider.strides[k] = wider.strides[k - 1];
  }
  wider.sizes[d] = 1;
  wider.strides[d] = d < layout().rank ? layout().sizes[d] * layout().strides[d] : itemsize();
  ++wider.rank;
  return recorded_view(*this, wider, data_ptr(), "unsqueeze", where,
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
  Dims shape = wanted;
  const int extra = shape.size() - dim();
  bool bad = extra < 0;
  for (int i = 0; i < shape.size() && !bad; ++i) {
    const int64_t own = i < extra ? 1 : layout().sizes[i - extra];
    if (shape[i] == -1 && i >= extra) shape[i] = own;
    bad = shape[i] < 0 || (own != 1 && own != shape[i]);
  }
  if (WEFT_UNLIKELY(bad)) {
    raise<ShapeError>({.op = "expand",
                       .problem = fmt::format("shape {} does not expand to {}", this->shape().text(), wanted.text()),
                       .remedy = "only dimensions of size 1 can be repeated"},
                      where);
  }
  const View wide = broadcast_view(raw_view(), shape);
  return recorded_view(*this, wide.layout, data_ptr(), "expand", where, [&] {
    return [own = this->shape()](Node& self, Tensor&& g) { return sum_to(std::move(g), own, self.where); };
  });
}

Tensor Tensor::diagonal(int64_t offset, int dim0, int dim1, Location where) const {
  checked(*this, "diagonal", where);
  const int a = wrap_dim(dim0, dim(), "diagonal", where);
  const int b = wrap_dim(dim1, dim(), "diagonal", where);
  if (a == b || dim() < 2) raise<ShapeError>({.op = "diagonal", .problem = "needs two different dimensions"}, where);
  const int64_t row = offset >= 0 ? 0 : -offset;
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
  void* data = length == 0 ? data_ptr() : shifted(*this, row * layout().strides[a] + column * layout().strides[b]);
  return recorded_view(*this, with_sizes(layout(), new_sizes, new_strides), data, "diagonal", where, [&] {
    return PartBack{shape(), [=](const Tensor& whole, Location w) { return whole.diagonal(offset, a, b, w); }};
  });
}

namespace {

// True where two index tuples may reach one element.
bool may_overlap(const Dims& shape, const Dims& strides) {
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return false;
    if (shape[i] > 1) steps.emplace_back(std::abs(strides[i]), shape[i]);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (auto [stride, size] : steps) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

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

  PlaceInBase(const View& base_view, const View& view) : base(base_view.layout), shape(sizes_of(view.layout)) {
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
  if (!may_overlap(region.shape, region.strides)) {
    region.of(flat, where).copy_(g, where);
    return region.base_shaped(flat, where);
  }
  const Tensor positions = arange(0, region.base_span(), 1, {DType::i64, g.device()}, where);
  const Tensor index = region.of(positions, where).reshape({-1}, where);
  return region.base_shaped(index_add(flat, 0, index, g.reshape({-1}, where), where), where);
}

}  // namespace

Tensor Tensor::as_strided(const Dims& shape, const Dims& strides, std::optional<int64_t> storage_offset,
                          Location where) const {
  checked(*this, "as_strided", where);
  bool bad = shape.size() != strides.size();
  Layout layout = contiguous_layout(shape, dtype(), "as_strided", where);
  layout.device_type = this->layout().device_type;
  layout.device_index = this->layout().device_index;
  for (int i = 0; i < shape.size() && !bad; ++i) layout.strides[i] = strides[i] * itemsize();
  finish_layout(layout);
  const int64_t offset = storage_offset.value_or(this->storage_offset()) * itemsize();
  const ByteSpan span = byte_span(layout);
  bad = bad || (layout.numel != 0 &&
                (offset + span.low < 0 || offset + span.high > static_cast<int64_t>(impl_->storage->bytes)));
  if (bad) {
    raise<ShapeError>(
        {.op = "as_strided",
         .problem = fmt::format("shape {} with strides {} leaves the storage of {} elements", shape.text(),
                                strides.text(), impl_->storage->bytes / static_cast<size_t>(itemsize()))},
        where);
  }
  void* data = static_cast<char*>(impl_->storage->data) + offset;
  return recorded_view(*this, layout, data, "as_strided", where, [&] {
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
  set_edge(node, 0, base);
  return node;
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
  set_edge(node, 0, base);
  node->edges[1] = Edge(region_value, 0);
  node->order = std::max(node->order, region_value->order + 1);
  release(region_value);
  return node;
}

}  // namespace detail

Tensor Tensor::detach() const {
  checked(*this, "detach", Location::none());
  return adopt(detail::new_alias(impl_, layout(), data_ptr()));
}

namespace {

// Pieces of one tensor along a dimension, with one node: the gradient is written piece by piece into one buffer.
std::vector<Tensor> pieces(const Tensor& x, int dim, int64_t size, bool drop_dim, const char* op, Location where) {
  const int64_t n = x.sizes()[dim];
  std::vector<Tensor> out;
  {
    NoGradGuard unrecorded;
    for (int64_t first = 0; first < n || (first == 0 && !drop_dim); first += size) {
      const int64_t count = std::min(size, n - first);
      out.push_back(drop_dim ? x.select(dim, first, where) : slice_exact(x, dim, first, count, 1, op, where));
    }
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
  return pieces(*this, d, std::max<int64_t>(1, (sizes()[d] + chunks - 1) / chunks), false, "chunk", where);
}

std::vector<Tensor> Tensor::unbind(int dim, Location where) const {
  checked(*this, "unbind", where);
  const int d = wrap_dim(dim, this->dim(), "unbind", where);
  if (this->dim() == 0) raise<ShapeError>({.op = "unbind", .problem = "a 0-d tensor has no dimension"}, where);
  return pieces(*this, d, 1, true, "unbind", where);
}

}  // namespace weft
