// Edges put around a tensor, and cut off.
#include "../pad.hpp"

#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/fits.hpp"
#include "../detail/records.hpp"
#include "../join.hpp"
#include "../rearrange.hpp"
#include "../reduce.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/padding.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

/// Elements before and after each dimension; negative where they are taken away.
struct Edges {
  Dims before, after;
};

[[noreturn]] void raise_padding(int d, int64_t n, int64_t before, int64_t after) {
  raise<ShapeError>(
      {.problem = fmt::format("padding of {} and {} does not fit dimension {} of size {}", before, after, d, n)});
}

// The edges by dimension, and nothing overflows.
Edges edges_of(const Tensor& x, std::span<const int64_t> padding) {
  const int rank = checked(x).dim();
  if (padding.size() % 2 != 0 || padding.size() > 2 * static_cast<size_t>(rank)) {
    raise<ShapeError>({.problem = fmt::format("{} numbers do not pad shape {}", padding.size(), x.shape().text()),
                       .remedy = "two for each dimension, from the last one on"});
  }
  Edges edges{Dims::filled(rank, 0), Dims::filled(rank, 0)};
  for (int i = 0; i < static_cast<int>(padding.size() / 2); ++i) {
    const int d = rank - 1 - i;
    const int64_t before = padding[static_cast<size_t>(2 * i)], after = padding[static_cast<size_t>(2 * i + 1)];
    const int64_t n = x.sizes()[static_cast<size_t>(d)];
    const Checked size = Checked(n) + before + after;
    if (!size.fits() || size.value() < 0 || before < -n || after < -n) raise_padding(d, n, before, after);
    edges.before[d] = before;
    edges.after[d] = after;
  }
  return edges;
}

Dims padded_shape(const Tensor& x, const Edges& edges) {
  Dims shape = x.shape();
  for (int d = 0; d < shape.size(); ++d) shape[d] += edges.before[d] + edges.after[d];
  check_sizes(shape, x.dtype());
  return shape;
}

// ---- constant -------------------------------------------------------------------------------------------------------

Tensor constant_padded(const Tensor& x, const Edges& edges, Scalar value);

struct ConstantBackward {
  Edges back;
  Tensor operator()(Tensor&& g) { return constant_padded(g, back, 0); }
};

Edges opposite(const Edges& edges) {
  Edges back = edges;
  for (int d = 0; d < edges.before.size(); ++d) {
    back.before[d] = -edges.before[d];
    back.after[d] = -edges.after[d];
  }
  return back;
}

// The same range of elements along one dimension of the result and of x, which moves on by `before`.
void narrow_to_common(View& out, View& in, int d, int64_t before) {
  const int64_t from = std::max<int64_t>(before, 0), skipped = std::max<int64_t>(-before, 0);
  const int64_t count = std::min(out.layout.sizes[d] - from, in.layout.sizes[d] - skipped);
  for (const auto& [view, first] : {std::pair<View*, int64_t>{&out, from}, {&in, skipped}}) {
    view->layout.sizes[d] = std::max<int64_t>(count, 0);
    if (count > 0) view->data = static_cast<char*>(view->data) + first * view->layout.strides[d];
  }
}

Tensor constant_padded(const Tensor& x, const Edges& edges, Scalar value) {
  Tensor out;
  {
    const NoGradGuard unrecorded;
    out = full(padded_shape(x, edges), value, {x.dtype(), x.device()});
  }
  View to = out.raw_view(), from = x.raw_view();
  for (int d = 0; d < x.dim(); ++d) narrow_to_common(to, from, d, edges.before[d]);
  finish_layout(to.layout);
  finish_layout(from.layout);
  if (to.layout.numel != 0) WEFT_KERNEL(copy, out)(to, from);
  if (should_record(x)) record(out, ConstantBackward{opposite(edges)}, x);
  return out;
}

// ---- modes that repeat elements -------------------------------------------------------------------------------------

// Elements 0 and more around each dimension from `first` on, taken from those inside.
struct Repeats {
  Edges edges;
  int first;
  Padding mode;
};

// Copies `count` elements along d to `to` from `from`, from + step, … of the same tensor.
void copy_within(const Tensor& t, View region, int d, int64_t to, int64_t from, int64_t step, int64_t count) {
  if (count == 0) return;
  View out = region, in = region;
  const int64_t stride = region.layout.strides[d];
  out.data = static_cast<char*>(region.data) + to * stride;
  in.data = static_cast<char*>(region.data) + from * stride;
  in.layout.strides[d] = step * stride;
  out.layout.sizes[d] = in.layout.sizes[d] = count;
  finish_layout(out.layout);
  finish_layout(in.layout);
  if (out.layout.numel != 0) WEFT_KERNEL(copy, t)(out, in);
}

// Writes the padding of `t` around its interior: the last dimension first, so that the others copy whole lines.
void fill_edges(const Tensor& t, const Repeats& repeats) {
  const auto& [before, after] = repeats.edges;
  for (int d = t.dim() - 1; d >= repeats.first; --d) {
    View region = t.raw_view();
    for (int e = repeats.first; e < d; ++e) {
      region.data = static_cast<char*>(region.data) + before[e] * region.layout.strides[e];
      region.layout.sizes[e] -= before[e] + after[e];
    }
    const int64_t low = before[d], high = after[d], end = t.sizes()[static_cast<size_t>(d)] - high;
    switch (repeats.mode) {
      case Padding::reflect:
        copy_within(t, region, d, 0, 2 * low, -1, low);
        copy_within(t, region, d, end, end - 2, -1, high);
        break;
      case Padding::replicate:
        copy_within(t, region, d, 0, low, 0, low);
        copy_within(t, region, d, end, end - 1, 0, high);
        break;
      default:
        copy_within(t, region, d, 0, end - low, 1, low);
        copy_within(t, region, d, end, low, 1, high);
    }
  }
}

// The transpose of fill_edges: each edge is added to where it was taken from.
void add_edges(const Tensor& t, const Repeats& repeats) {
  const auto& [before, after] = repeats.edges;
  for (int d = repeats.first; d < t.dim(); ++d) {
    const int64_t low = before[d], high = after[d], end = t.sizes()[static_cast<size_t>(d)] - high;
    const Tensor first = t.narrow(d, 0, low), last = t.narrow(d, end, high);
    switch (repeats.mode) {
      case Padding::reflect:
        if (low > 0) t.narrow(d, low + 1, low).add_(flip(first, d));
        if (high > 0) t.narrow(d, end - 1 - high, high).add_(flip(last, d));
        break;
      case Padding::replicate:
        if (low > 0) t.narrow(d, low, 1).add_(sum(first, d, true));
        if (high > 0) t.narrow(d, end - 1, 1).add_(sum(last, d, true));
        break;
      default:
        if (low > 0) t.narrow(d, end - low, low).add_(first);
        if (high > 0) t.narrow(d, low, high).add_(last);
    }
  }
}

Tensor inside(const Tensor& t, const Edges& edges) {
  Tensor part = t;
  for (int d = 0; d < t.dim(); ++d) {
    const int64_t low = edges.before[d], size = t.sizes()[static_cast<size_t>(d)] - low - edges.after[d];
    if (size != part.sizes()[static_cast<size_t>(d)]) part = part.narrow(d, low, size);
  }
  return part;
}

Tensor with_edges(const Tensor& x, const Repeats& repeats);

Tensor without_edges(const Tensor& g, const Repeats& repeats) {
  Tensor x;
  {
    const NoGradGuard unrecorded;
    const Tensor t = g.clone();
    add_edges(t, repeats);
    x = inside(t, repeats.edges).contiguous();
  }
  if (should_record(g))
    record(
        x, [repeats](Tensor&& gg) { return with_edges(gg, repeats); }, g);
  return x;
}

Tensor with_edges(const Tensor& x, const Repeats& repeats) {
  const Tensor y = make(padded_shape(x, repeats.edges), x.dtype(), x.device());
  {
    const NoGradGuard unrecorded;
    inside(y, repeats.edges).copy_(x);
  }
  fill_edges(y, repeats);
  if (should_record(x))
    record(
        y, [repeats](Tensor&& g) { return without_edges(g, repeats); }, x);
  return y;
}

// Whether the elements that the edges take are there.
void check_enough(const Tensor& x, int d, int64_t before, int64_t after, Padding mode) {
  const int64_t n = x.sizes()[static_cast<size_t>(d)], needed = std::max(before, after);
  const int64_t kept = n + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
  const bool enough = mode == Padding::reflect ? needed < n : mode == Padding::circular ? needed <= kept : true;
  const int64_t least = mode == Padding::circular ? 0 : 1;
  if (n <= 0 || !enough || n + before + after < least) raise_padding(d, n, before, after);
}

Tensor repeat_padded(const Tensor& x, const Edges& edges, int padded_dims, Padding mode) {
  const int batch = x.dim() - padded_dims;
  if (padded_dims < 1 || padded_dims > 3 || batch < 1 || batch > 2) {
    raise<ShapeError>(
        {.problem = fmt::format("this mode does not pad {} dimensions of shape {}", padded_dims, x.shape().text()),
         .remedy = "it pads the last one to three behind one or two others"});
  }
  if (x.sizes()[static_cast<size_t>(batch - 1)] == 0) raise<ShapeError>({.problem = "there are no channels to pad"});
  for (int d = batch; d < x.dim(); ++d) check_enough(x, d, edges.before[d], edges.after[d], mode);
  padded_shape(x, edges);
  Edges additions = edges, cuts = edges;
  for (int d = 0; d < x.dim(); ++d) {
    for (Dims* sizes : {&additions.before, &additions.after}) (*sizes)[d] = std::max<int64_t>((*sizes)[d], 0);
    for (Dims* sizes : {&cuts.before, &cuts.after}) (*sizes)[d] = std::max<int64_t>(-(*sizes)[d], 0);
  }
  // circular reads the remaining elements, the other modes the original ones.
  const bool cuts_first = mode == Padding::circular;
  const Tensor out = with_edges(cuts_first ? inside(x, cuts) : x, {additions, batch, mode});
  return cuts_first ? out : inside(out, cuts).contiguous();
}

}  // namespace

Tensor pad(const Tensor& x, std::span<const int64_t> padding, Padding mode, Scalar value, Location where) {
  const CallScope call("pad", where);
  const Edges edges = edges_of(x, padding);
  if (mode == Padding::constant) {
    check_fits(value, x.dtype());
    return constant_padded(x, edges, value);
  }
  if (!value.is_zero()) raise<ValueError>({.problem = "this mode takes no value"});
  return repeat_padded(x, edges, static_cast<int>(padding.size() / 2), mode);
}

Tensor pad(const Tensor& x, std::initializer_list<int64_t> padding, Padding mode, Scalar value, Location where) {
  return pad(x, std::span(padding.begin(), padding.size()), mode, value, where);
}

Padding padding_named(const std::string& name) {
  constexpr std::pair<const char*, Padding> modes[] = {{"constant", Padding::constant},
                                                       {"reflect", Padding::reflect},
                                                       {"replicate", Padding::replicate},
                                                       {"circular", Padding::circular}};
  for (const auto& [text, mode] : modes) {
    if (name == text) return mode;
  }
  raise_value("mode", "'constant', 'reflect', 'replicate' or 'circular'", in_quotes(name));
}

namespace {

Tensor call_pad(const Tensor& x, const Value& padding, const std::string& mode, std::optional<Scalar> value) {
  return pad(x, integers_in(padding, 1), padding_named(mode), value.value_or(0));
}

std::vector<Values> pad_samples(SampleMaker& make) {
  const std::string reflect = "reflect", replicate = "replicate", circular = "circular", constant = "constant";
  return {{make.tensor({2, 3}), Dims{1, 2}},
          {make.tensor({2, 3}), Dims{-1, 2, 1, -1}, constant, int64_t{1}},
          {make.tensor({}), Dims()},
          {make.tensor({0, 2}), Dims{1, 0, 1, 1}},
          {make.tensor({2, 3}), Dims{2, 1}, reflect},
          {make.tensor({1, 2, 4, 3}), Dims{-1, 2, 3, 1}, reflect},
          {make.tensor({2, 3}), Dims{4, -1}, replicate},
          {make.tensor({1, 2, 2, 3}), Dims{1, 2, 0, 1, 2, 0}, replicate},
          {make.tensor({1, 2, 4, 3}), Dims{2, -1, 1, 3}, circular}};
}

Partition padded(const WholeCall& call) {
  const Tensor& x = call.inputs()[0];
  Dims last;
  for (int d = x.dim() - detail::dims_in(call["pad"]).size() / 2; d < x.dim(); ++d) last.push_back(d);
  return parts::aligned(call, last);
}

constexpr OpRecord pad_op_records[] = {
    {"pad", "pad(x, pad, mode='constant', value=None)",
     "x with edges around its last dimensions: two numbers for each, from the last one on, negative to take elements "
     "away. Edges have the value, or mode 'reflect', 'replicate' or 'circular'.",
     true, OpRecord::Domain::any, pad_samples, padded, detail::boxed<call_pad>},
};

}  // namespace

std::span<const OpRecord> pad_records() { return pad_op_records; }

}  // namespace weft
