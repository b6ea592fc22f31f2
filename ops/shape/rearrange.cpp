// Flipping, rolling, windows.
#include "../rearrange.hpp"

#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/records.hpp"
#include "../index.hpp"
#include "../pointwise.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// ---- flip -----------------------------------------------------------------------------------------------------------

struct FlipBackward {
  Dims dims;
  Tensor operator()(Tensor&& g) { return flip(g, dims); }
};

View reversed(const View& x, int dim) {
  View view = x;
  Layout& layout = view.layout;
  if (layout.numel != 0) view.data = static_cast<char*>(view.data) + (layout.sizes[dim] - 1) * layout.strides[dim];
  layout.strides[dim] = -layout.strides[dim];
  finish_layout(layout);
  return view;
}

// ---- roll -----------------------------------------------------------------------------------------------------------

struct RollBackward {
  Dims back, dims;
  Tensor operator()(Tensor&& g) { return roll(g, back, dims); }
};

View part_of(const View& x, int dim, int64_t first, int64_t count) {
  View view = x;
  view.data = static_cast<char*>(view.data) + first * view.layout.strides[dim];
  view.layout.sizes[dim] = count;
  finish_layout(view.layout);
  return view;
}

// x moved on by `shift` in [0, size) along one dimension.
Tensor rolled(const Tensor& x, int64_t shift, int dim) {
  const Tensor out = make(x.sizes(), x.dtype(), x.device());
  if (out.numel() == 0) return out;
  const auto copy = WEFT_KERNEL(copy, out);
  const int64_t kept = x.sizes()[static_cast<size_t>(dim)] - shift;
  if (shift == 0) {
    copy(out.raw_view(), x.raw_view());
    return out;
  }
  copy(part_of(out.raw_view(), dim, shift, kept), part_of(x.raw_view(), dim, 0, kept));
  copy(part_of(out.raw_view(), dim, 0, shift), part_of(x.raw_view(), dim, kept, shift));
  return out;
}

// ---- unfold ---------------------------------------------------------------------------------------------------------

Tensor windows(const Tensor& x, int dim, int64_t size, int64_t step) {
  Layout layout = x.raw_view().layout;
  layout.sizes[layout.rank] = size;
  layout.strides[layout.rank] = layout.strides[dim];
  layout.sizes[dim] = (layout.sizes[dim] - size) / step + 1;
  if (layout.sizes[dim] > 1) layout.strides[dim] *= step;
  ++layout.rank;
  check_sizes(sizes_of(layout), layout.dtype);
  finish_layout(layout);
  return make_view(x, layout, x.data_ptr());
}

struct UnfoldBackward {
  Dims shape;
  int dim;
  int64_t size, step;

  Tensor operator()(Tensor&& g) {
    const Tensor whole = zeros(shape, {g.dtype(), g.device()});
    if (step >= size) {
      unfold(whole, dim, size, step).copy_(g);
      return whole;
    }
    // Windows and the places inside one, side by side: element (w, i) came from w * step + i.
    const int64_t count = g.sizes()[static_cast<size_t>(dim)];
    const TensorOptions options{DType::i64, g.device()};
    const Tensor first = arange(0, count * step, step, options).unsqueeze(1);
    const Tensor within = arange(0, size, 1, options);
    const Tensor index = (first + within).reshape({-1});
    Dims order, flat = shape;
    for (int i = 0; i < shape.size(); ++i) {
      order.push_back(i);
      if (i == dim) order.push_back(shape.size());
    }
    flat[dim] = count * size;
    return index_add(whole, dim, index, g.permute(order).reshape(flat), 1);
  }
};

}  // namespace

Tensor flip(const Tensor& x, const Dims& dims, Location where) {
  const CallScope call("flip", where);
  checked(x);
  View from = x.raw_view();
  uint32_t seen = 0;
  for (const int64_t dim : dims) {
    const int d = wrap_dim(dim, x.dim());
    if (WEFT_UNLIKELY((seen >> d & 1) != 0)) {
      raise<ValueError>({.problem = fmt::format("dimension {} is named twice", d)});
    }
    seen |= 1u << d;
    if (x.dim() != 0) from = reversed(from, d);
  }
  const Tensor out = make(x.sizes(), x.dtype(), x.device());
  WEFT_KERNEL(copy, out)(out.raw_view(), from);
  if (should_record(x)) record(out, FlipBackward{dims}, x);
  return out;
}

Tensor fliplr(const Tensor& x, Location where) {
  const CallScope call("fliplr", where);
  expect_rank_at_least("x", checked(x), 2);
  return flip(x, 1);
}

Tensor flipud(const Tensor& x, Location where) {
  const CallScope call("flipud", where);
  expect_rank_at_least("x", checked(x), 1);
  return flip(x, 0);
}

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims, Location where) {
  const CallScope call("roll", where);
  checked(x);
  if (dims.empty() && shifts.size() == 1) {
    return roll(x.reshape({-1}), shifts, 0).reshape(x.shape());
  }
  if (WEFT_UNLIKELY(shifts.size() != dims.size() || shifts.empty())) {
    raise<ValueError>({.problem = fmt::format("{} shifts for {} dimensions", shifts.size(), dims.size()),
                       .remedy = "give one shift for each, or one alone"});
  }
  Tensor out = x;
  Dims back;
  for (int i = 0; i < dims.size(); ++i) {
    if (WEFT_UNLIKELY(x.dim() == 0)) {
      raise<IndexError>(
          {.problem = fmt::format("a 0-d tensor has no dimension {}", dims[i]), .remedy = "give the shift alone"});
    }
    const int d = wrap_dim(dims[i], x.dim());
    const int64_t n = std::max<int64_t>(x.sizes()[static_cast<size_t>(d)], 1);
    const int64_t rest = shifts[i] % n, shift = rest < 0 ? rest + n : rest;
    back.push_back(n - shift);
    out = rolled(out, shift, d);
  }
  if (should_record(x)) record(out, RollBackward{back, dims}, x);
  return out;
}

Tensor unfold(const Tensor& x, int dim, int64_t size, int64_t step, Location where) {
  const CallScope call("unfold", where);
  checked(x);
  const int d = wrap_dim(dim, x.dim());
  const int64_t n = x.dim() == 0 ? 1 : x.sizes()[static_cast<size_t>(d)];
  if (WEFT_UNLIKELY(size < 0 || size > n || step <= 0)) {
    raise<ValueError>({.problem = fmt::format("windows of {} elements, {} apart, do not fit dimension {} of size {}",
                                              size, step, d, n),
                       .remedy = "the size is in [0, size(dim)], the step is positive"});
  }
  if (x.dim() == 0) return x.reshape({1}).narrow(0, 0, size);
  if (WEFT_UNLIKELY(x.dim() == max_rank)) {
    raise<ShapeError>({.problem = fmt::format("a tensor has at most {} dimensions", max_rank)});
  }
  const Tensor out = windows(x, d, size, step);
  if (should_record(x)) record(out, UnfoldBackward{x.shape(), d, size, step}, x);
  return out;
}

namespace {

std::vector<Values> flip_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), Dims{0}},
          {make.tensor({2, 3, 2}), Dims{-1, 0}},
          {make.tensor({3}), Dims()},
          {make.tensor({}), Dims{0}},
          {make.tensor({0, 2}), Dims{0, 1}}};
}
std::vector<Values> matrix_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})}, {make.tensor({2, 3, 2})}, {make.tensor({0, 2})}};
}
std::vector<Values> roll_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), Dims{1}, Dims{1}},
          {make.tensor({2, 3, 4}), Dims{-7, 2}, Dims{2, 0}},
          {make.tensor({2, 3}), Dims{2}},
          {make.tensor({}), Dims{2}},
          {make.tensor({0, 3}), Dims{1}, Dims{0}}};
}
std::vector<Values> unfold_samples(SampleMaker& make) {
  return {{make.tensor({7}), int64_t{0}, int64_t{3}, int64_t{2}},
          {make.tensor({2, 5, 2}), int64_t{1}, int64_t{2}, int64_t{1}},
          {make.tensor({2, 5}), int64_t{-1}, int64_t{2}, int64_t{3}},
          {make.tensor({}), int64_t{0}, int64_t{1}, int64_t{1}},
          {make.tensor({0, 3}), int64_t{1}, int64_t{2}, int64_t{1}},
          {make.tensor({3}), int64_t{0}, int64_t{0}, int64_t{1}}};
}

Partition windowed(const WholeCall& call) {
  const Tensor& x = call.inputs()[0];
  if (x.dim() == 0) return parts::whole(call);
  std::string word = parts::letters(x.dim());
  word[static_cast<size_t>(wrap_dim(detail::integer_in(call["dim"]), x.dim()))] = '1';
  return {.letters = word + "->" + word + "1", .linearity = Linearity::together};
}

constexpr auto any_type = OpRecord::Domain::any;
constexpr OpRecord rearrange_op_records[] = {
    {"flip", "flip(x, dims)", "A copy of x with the order along dims reversed.", true, any_type, flip_samples,
     parts::along, detail::boxed<&weft::flip>},
    {"fliplr", "fliplr(x)", "flip along dimension 1.", true, any_type, matrix_samples, parts::along_second,
     detail::boxed<&weft::fliplr>},
    {"flipud", "flipud(x)", "flip along dimension 0.", true, any_type, matrix_samples, parts::along_first,
     detail::boxed<&weft::flipud>},
    {"roll", "roll(x, shifts, dims=())",
     "A copy of x moved on by shifts along dims, where elements that leave at one end enter at the other; without dims "
     "x is "
     "seen flat.",
     true, any_type, roll_samples, parts::along, detail::boxed<&weft::roll>},
    {"unfold", "unfold(x, dim|dimension, size, step)",
     "A view of the windows of size elements, step apart, along dim; a last dimension holds each window's elements.",
     true, any_type, unfold_samples, windowed, detail::boxed<&weft::unfold>},
};

}  // namespace

std::span<const OpRecord> rearrange_records() { return rearrange_op_records; }

}  // namespace weft
