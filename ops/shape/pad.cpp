// Edges put around a tensor, and cut off.
#include "../pad.hpp"

#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/fits.hpp"
#include "../detail/records.hpp"
#include "../join.hpp"
#include "../rearrange.hpp"
#include "../../tensor/checked.hpp"

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

Tensor repeated(const Tensor& x, int d, int64_t index, int64_t count) {
  Dims shape = x.shape();
  shape[d] = count;
  return x.narrow(d, index, 1).expand(shape);
}

// x with what `mode` puts before and after one dimension; both are 0 or more.
Tensor extended(const Tensor& x, int d, int64_t before, int64_t after, Padding mode) {
  const int64_t n = x.sizes()[static_cast<size_t>(d)];
  std::vector<Tensor> parts;
  if (before != 0) {
    if (mode == Padding::reflect) parts.push_back(flip(x.narrow(d, 1, before), d));
    else if (mode == Padding::replicate) parts.push_back(repeated(x, d, 0, before));
    else parts.push_back(x.narrow(d, n - before, before));
  }
  parts.push_back(x);
  if (after != 0) {
    if (mode == Padding::reflect) parts.push_back(flip(x.narrow(d, n - 1 - after, after), d));
    else if (mode == Padding::replicate) parts.push_back(repeated(x, d, n - 1, after));
    else parts.push_back(x.narrow(d, 0, after));
  }
  return parts.size() == 1 ? x : cat(parts, d);
}

Tensor cropped(const Tensor& x, int d, int64_t before, int64_t after) {
  if (before >= 0 && after >= 0) return x;
  const int64_t first = std::max<int64_t>(-before, 0);
  return x.narrow(d, first, x.sizes()[static_cast<size_t>(d)] - first - std::max<int64_t>(-after, 0));
}

// Whether the elements that the edges take are there.
void check_enough(const Tensor& x, int d, int64_t before, int64_t after, Padding mode) {
  const int64_t n = x.sizes()[static_cast<size_t>(d)], most = std::max(before, after);
  const int64_t kept = n + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
  const bool enough = mode == Padding::reflect ? most < n : mode == Padding::circular ? most <= kept : true;
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
  Tensor out = x;
  for (int d = batch; d < x.dim(); ++d) {
    const int64_t before = edges.before[d], after = edges.after[d];
    const int64_t more = std::max<int64_t>(before, 0), more_after = std::max<int64_t>(after, 0);
    // circular takes from what is left, the others from what was there.
    if (mode == Padding::circular) out = extended(cropped(out, d, before, after), d, more, more_after, mode);
    else out = cropped(extended(out, d, more, more_after, mode), d, before, after);
  }
  return out.is_contiguous() && !out.shares_storage(x) ? out : out.clone();
}

bool is_zero(Scalar value) { return value.to<double>() == 0; }

}  // namespace

Tensor pad(const Tensor& x, std::span<const int64_t> padding, Padding mode, Scalar value, Location where) {
  const CallScope call("pad", where);
  const Edges edges = edges_of(x, padding);
  if (mode == Padding::constant) {
    check_fits(value, x.dtype());
    return constant_padded(x, edges, value);
  }
  if (!is_zero(value)) raise<ValueError>({.problem = "this mode takes no value"});
  return repeat_padded(x, edges, static_cast<int>(padding.size() / 2), mode);
}

Tensor pad(const Tensor& x, std::initializer_list<int64_t> padding, Padding mode, Scalar value, Location where) {
  return pad(x, std::span(padding.begin(), padding.size()), mode, value, where);
}

namespace {

Tensor call_pad(const Tensor& x, const Value& padding, const std::string& mode, std::optional<Scalar> value) {
  constexpr std::pair<const char*, Padding> modes[] = {{"constant", Padding::constant},
                                                       {"reflect", Padding::reflect},
                                                       {"replicate", Padding::replicate},
                                                       {"circular", Padding::circular}};
  for (const auto& [text, kind] : modes) {
    if (mode == text) return pad(x, integers_in(padding, 1), kind, value.value_or(0));
  }
  raise<ValueError>(
      {.problem = fmt::format("mode is 'constant', 'reflect', 'replicate' or 'circular', not '{}'", mode)});
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

constexpr OpRecord pad_op_records[] = {
    {"pad", "pad(x, pad, mode='constant', value=None)",
     "x with edges around its last dimensions: two numbers for each, from the last one on, negative to take elements "
     "away. Edges have the value, or mode 'reflect', 'replicate' or 'circular'.",
     true, OpRecord::Domain::any, pad_samples, detail::boxed<call_pad>},
};

}  // namespace

std::span<const OpRecord> pad_records() { return pad_op_records; }

}  // namespace weft
