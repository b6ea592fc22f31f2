#include "../columns.hpp"

#include "../create.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../detail/windows.hpp"
#include "../pointwise.hpp"

namespace weft {

namespace {

struct Blocks {
  Dims size, dilation, padding, stride;
  /// The image, and how many blocks lie along each of its dimensions.
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

// [N, C, H, W] with zeros around it.
Tensor empty_padded(const Blocks& b, const Dims& first, DType dtype, Device device) {
  const Dims edges{b.image[0] + 2 * b.padding[0], b.image[1] + 2 * b.padding[1]};  // fits, since blocks were counted
  return zeros(joined(first, edges), {dtype, device});
}
Tensor inside(const Tensor& padded, const Blocks& b) {
  return padded.narrow(2, b.padding[0], b.image[0]).narrow(3, b.padding[1], b.image[1]);
}

struct ImageBackward {
  Blocks blocks;
  Tensor operator()(Tensor&& g) { return im2col(g, blocks.size, options_of_blocks(blocks)); }
};
struct ColumnsBackward {
  Blocks blocks;
  Tensor operator()(Tensor&& g) { return col2im(g, blocks.image, blocks.size, options_of_blocks(blocks)); }
};

Tensor columns_of(const Tensor& image, const Blocks& b) {
  Tensor x = image;
  if (b.padding[0] != 0 || b.padding[1] != 0) {
    x = empty_padded(b, leading(image, 2), image.dtype(), image.device());
    inside(x, b).copy_(image);
  }
  for (const int i : {0, 1}) {
    x = x.unfold(2 + i, (b.size[i] - 1) * b.dilation[i] + 1, b.stride[i]).slice(-1, {}, {}, b.dilation[i]);
  }
  const Dims shape{x.size(0), x.size(1) * b.size.product(), b.counts.product()};
  return x.permute({0, 1, 4, 5, 2, 3}).contiguous().view(shape);
}

Tensor image_of(const Tensor& columns, const Blocks& b, int64_t channels) {
  const Tensor x =
      to_compute_type(columns).reshape({columns.size(0), channels, b.size[0], b.size[1], b.counts[0], b.counts[1]});
  const Tensor padded = empty_padded(b, {columns.size(0), channels}, x.dtype(), x.device());
  const auto every = [&](const Tensor& t, int i, int64_t place) {
    const int64_t begin = place * b.dilation[i];
    return t.slice(2 + i, begin, begin + (b.counts[i] - 1) * b.stride[i] + 1, b.stride[i]);
  };
  for (int64_t row = 0; row < b.size[0]; ++row) {
    for (int64_t column = 0; column < b.size[1]; ++column) {
      every(every(padded, 0, row), 1, column).add_(x.select(2, row).select(2, column));
    }
  }
  return inside(padded, b).to(columns.dtype()).contiguous();
}

}  // namespace

Tensor im2col(const Tensor& x, const Dims& kernel_size, const ColumnOptions& options, Location where) {
  const CallScope call("im2col", where);
  if (WEFT_UNLIKELY(checked(x).dim() != 3 && x.dim() != 4)) {
    raise<ShapeError>({.problem = fmt::format("takes [N, C, H, W] or [C, H, W], not {}", x.shape().text())});
  }
  if (x.dim() == 3) return im2col(x.unsqueeze(0), kernel_size, options).squeeze(0);
  const Blocks blocks = blocks_of(x.sizes().last(2), kernel_size, options);
  Tensor out;
  {
    const NoGradGuard unrecorded;
    out = columns_of(x, blocks);
  }
  if (should_record(x)) record(out, ColumnsBackward{blocks}, x);
  return out;
}

Tensor col2im(const Tensor& x, const Dims& output_size, const Dims& kernel_size, const ColumnOptions& options,
              Location where) {
  const CallScope call("col2im", where);
  if (WEFT_UNLIKELY(checked(x).dim() != 2 && x.dim() != 3)) {
    raise<ShapeError>({.problem = fmt::format("takes [N, C * block, L] or [C * block, L], not {}", x.shape().text())});
  }
  if (x.dtype() == DType::boolean) raise<DTypeError>({.problem = "takes numbers, not bool"});
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
    out = image_of(x, blocks, x.size(1) / block);
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

constexpr OpRecord records[] = {
    {"im2col", "im2col(x, kernel_size, dilation=1, padding=0, stride=1)",
     "The blocks of kernel_size that slide over the last two dimensions of [N, C, H, W] or [C, H, W], as columns: [N, "
     "C * "
     "block, count].",
     true, OpRecord::Domain::any, im2col_samples, detail::boxed<call_im2col>},
    {"col2im", "col2im(x, output_size, kernel_size, dilation=1, padding=0, stride=1)",
     "The image [N, C, *output_size] whose elements are the sums of what stands for them in the columns of im2col.",
     true, OpRecord::Domain::numeric, col2im_samples, detail::boxed<call_col2im>},
};

}  // namespace

std::span<const OpRecord> columns_records() { return records; }

}  // namespace weft
