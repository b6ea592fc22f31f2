#include "../columns.hpp"

#include <algorithm>

#include "../create.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../detail/taps.hpp"
#include "../detail/windows.hpp"
#include "../pointwise.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

// ---- tap by tap -----------------------------------------------------------------------------------------------------

namespace {

/// x with zero padding, so that every tap at every position is inside.
Dims padded_shape(int64_t batch, int64_t channels, const Taps& t) {
  Dims shape{batch, channels};
  for (int d = 0; d < 3; ++d) {
    const int64_t reach = (t.out[d] - 1) * t.steps.stride[d] + (t.kernel[d] - 1) * t.steps.dilation[d] + 1;
    shape.push_back(std::max(t.steps.padding[d] + t.in[d], reach));
  }
  return shape;
}
Tensor middle(Tensor padded, const Taps& t) {
  for (int d = 0; d < 3; ++d) padded = padded.narrow(2 + d, t.steps.padding[d], t.in[d]);
  return padded;
}
/// Calls f(elements under one tap at all positions, index of the tap).
template <class F>
void for_taps(const Tensor& padded, const Taps& t, F&& f) {
  const auto under = [&](const Tensor& x, int d, int64_t tap) {
    const int64_t first = tap * t.steps.dilation[d], last = first + (t.out[d] - 1) * t.steps.stride[d];
    return x.slice(2 + d, first, last + 1, t.steps.stride[d]);
  };
  int64_t number = 0;
  for (int64_t i = 0; i < t.kernel[0]; ++i) {
    for (int64_t j = 0; j < t.kernel[1]; ++j) {
      for (int64_t k = 0; k < t.kernel[2]; ++k) f(under(under(under(padded, 0, i), 1, j), 2, k), number++);
    }
  }
}

}  // namespace

Tensor columns_of(const Tensor& x, const Taps& t) {
  const int64_t batch = x.size(0), channels = x.size(1);
  const Tensor padded = zeros(padded_shape(batch, channels, t), {x.dtype(), x.device()});
  middle(padded, t).copy_(x);
  const Tensor columns = make(Dims{batch, channels, t.count(), t.out[0], t.out[1], t.out[2]}, x.dtype(), x.device());
  for_taps(padded, t, [&](const Tensor& under, int64_t tap) { columns.select(2, tap).copy_(under); });
  return with_shape(columns, Dims{batch, channels * t.count(), t.positions()});
}

Tensor sums_of_columns(const Tensor& columns, int64_t channels, const Taps& t) {
  const int64_t batch = columns.size(0);
  const Tensor by_tap = columns.reshape({batch, channels, t.count(), t.out[0], t.out[1], t.out[2]});
  constexpr int64_t few = 256;
  const bool many = t.count() > few && is_floating(columns.dtype()) && columns.device().is_cpu();
  const DType wide = many ? DType::f64 : compute_type(columns.dtype());
  const Tensor padded = zeros(padded_shape(batch, channels, t), {wide, columns.device()});
  for_taps(padded, t, [&](const Tensor& under, int64_t tap) { under.add_(by_tap.select(2, tap)); });
  return middle(padded, t).to(columns.dtype()).contiguous();
}

// ---- blocks of images -----------------------------------------------------------------------------------------------

namespace {

struct Blocks {
  Dims size, dilation, padding, stride;
  /// The image, and the number of blocks along each of its dimensions.
  Dims image, counts;
};

Blocks blocks_of(const Dims& image, const Dims& kernel_size, const ColumnOptions& o) {
  Blocks b{for_each_dim(kernel_size, 2, "kernel_size", 1),
           for_each_dim(o.dilation, 2, "dilation", 1),
           for_each_dim(o.padding, 2, "padding", 0),
           for_each_dim(o.stride, 2, "stride", 1),
           image,
           {}};
  for (int i = 0; i < 2; ++i) {
    b.counts.push_back(count_windows(image[i], {b.size[i], b.stride[i], b.padding[i], b.dilation[i], false}));
  }
  return b;
}

ColumnOptions options_of_blocks(const Blocks& b) { return {b.dilation, b.padding, b.stride}; }

Taps taps_of(const Blocks& b) {
  return {{1, b.image[0], b.image[1]},
          {1, b.size[0], b.size[1]},
          {1, b.counts[0], b.counts[1]},
          {{1, b.stride[0], b.stride[1]}, {0, b.padding[0], b.padding[1]}, {1, b.dilation[0], b.dilation[1]}, 1}};
}

struct ImageBackward {
  Blocks blocks;
  Tensor operator()(Tensor&& g) { return im2col(g, blocks.size, options_of_blocks(blocks)); }
};
struct ColumnsBackward {
  Blocks blocks;
  Tensor operator()(Tensor&& g) { return col2im(g, blocks.image, blocks.size, options_of_blocks(blocks)); }
};

}  // namespace

Tensor im2col(const Tensor& x, const Dims& kernel_size, const ColumnOptions& options, Location where) {
  const CallScope call("im2col", where);
  expect_shape("x", x, checked(x).dim() == 3 || x.dim() == 4, "[N, C, H, W] or [C, H, W]");
  if (x.dim() == 3) return im2col(x.unsqueeze(0), kernel_size, options).squeeze(0);
  const Blocks blocks = blocks_of(x.sizes().last(2), kernel_size, options);
  Tensor out;
  {
    const NoGradGuard unrecorded;
    out = columns_of(x.unsqueeze(2), taps_of(blocks));
  }
  if (should_record(x)) record(out, ColumnsBackward{blocks}, x);
  return out;
}

Tensor col2im(const Tensor& x, const Dims& output_size, const Dims& kernel_size, const ColumnOptions& options,
              Location where) {
  const CallScope call("col2im", where);
  expect_shape("x", x, checked(x).dim() == 2 || x.dim() == 3, "[N, C * block, L] or [C * block, L]");
  expect_dtype("x", x, x.dtype() != DType::boolean, "numbers");
  if (x.dim() == 2) return col2im(x.unsqueeze(0), output_size, kernel_size, options).squeeze(0);
  const Blocks blocks = blocks_of(for_each_dim(output_size, 2, "output_size", 1), kernel_size, options);
  const int64_t block = blocks.size.product(), count = blocks.counts.product();
  if (WEFT_UNLIKELY(x.size(1) % block != 0 || x.size(2) != count)) {
    raise<ShapeError>(
        {.problem = fmt::format("columns {} do not fit {} blocks of {} elements", x.shape().text(), count, block)});
  }
  Tensor out;
  {
    const NoGradGuard unrecorded;
    const int64_t channels = x.size(1) / block;
    const Tensor sums = sums_of_columns(to_compute_type(x), channels, taps_of(blocks)).to(x.dtype());
    out = with_shape(sums, Dims{x.size(0), channels, blocks.image[0], blocks.image[1]});
  }
  if (should_record(x)) record(out, ImageBackward{blocks}, x);
  return out;
}

namespace {

Tensor call_im2col(const Tensor& x, const Dims& kernel_size, const Dims& dilation, const Dims& padding,
                   const Dims& stride) {
  return im2col(x, kernel_size, {dilation, padding, stride});
}
Tensor call_col2im(const Tensor& x, const Dims& output_size, const Dims& kernel_size, const Dims& dilation,
                   const Dims& padding, const Dims& stride) {
  return col2im(x, output_size, kernel_size, {dilation, padding, stride});
}

std::vector<Values> im2col_samples(SampleMaker& make) {
  return {{make.tensor({2, 1, 4, 3}), int64_t{2}},
          {make.tensor({2, 4, 5}), Dims{2, 3}, Dims{2, 1}, Dims{1, 0}, Dims{1, 2}},
          {make.tensor({1, 2, 3, 3}), int64_t{3}, int64_t{1}, int64_t{1}, int64_t{2}},
          {make.tensor({0, 2, 3, 3}), int64_t{2}}};
}
std::vector<Values> col2im_samples(SampleMaker& make) {
  return {{make.tensor({2, 4, 6}), Dims{4, 3}, int64_t{2}},
          {make.tensor({6, 4}), Dims{3, 4}, Dims{2, 3}, Dims{2, 1}, Dims{1, 0}, Dims{2, 1}},
          {make.tensor({1, 18, 4}), Dims{3, 3}, int64_t{3}, int64_t{1}, int64_t{1}, int64_t{2}},
          {make.tensor({0, 8, 4}), Dims{3, 3}, int64_t{2}}};
}

/// Example by example, where x of this rank has them.
template <int rank>
Partition of_examples(const WholeCall& call) {
  const Tensor &x = call.inputs()[0], &y = call.results().at(0);
  if (x.dim() != rank) return parts::whole(call);
  std::string in = parts::uncut(x), out = parts::uncut(y);
  in[0] = out[0] = 'n';
  return {.letters = in + "->" + out, .linearity = Linearity::together};
}

constexpr OpRecord records[] = {
    {"im2col", "im2col(x, kernel_size, dilation=1, padding=0, stride=1)",
     "The blocks of kernel_size that slide over the last two dimensions of [N, C, H, W] or [C, H, W], as columns: [N, "
     "C * "
     "block, count].",
     true, OpRecord::Domain::any, im2col_samples, of_examples<4>, detail::boxed<call_im2col>},
    {"col2im", "col2im(x, output_size, kernel_size, dilation=1, padding=0, stride=1)",
     "The image [N, C, *output_size]: each element is the sum of its copies in the columns of im2col.", true,
     OpRecord::Domain::numeric, col2im_samples, of_examples<3>, detail::boxed<call_col2im>},
};

}  // namespace

std::span<const OpRecord> columns_records() { return records; }

}  // namespace weft
