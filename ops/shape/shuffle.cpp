// Quarter turns, and channels that change places with rows and columns.
#include "../detail/common.hpp"
#include "../detail/records.hpp"
#include "../rearrange.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

Tensor own_copy(const Tensor& out, const Tensor& x) { return out.shares_storage(x) ? out.clone() : out; }

void check_image(const Tensor& x) { expect_rank_at_least("x", checked(x), 3); }

void check_factor(int64_t factor) { expect_at_least("factor", factor, 1); }

// The product of all sizes before the last three.
int64_t images_in(const Tensor& x) {
  Dims batch;
  for (int i = 0; i + 3 < x.dim(); ++i) batch.push_back(x.sizes()[static_cast<size_t>(i)]);
  return batch.product();
}

// x's shape with other last three sizes.
Dims image_shape(const Tensor& x, Checked channels, Checked rows, Checked columns) {
  if (!channels.fits() || !rows.fits() || !columns.fits()) {
    raise<ShapeError>({.problem = "the result has more elements than 63 bits can count"});
  }
  Dims shape = x.shape();
  const int last = shape.size() - 1;
  shape[last - 2] = channels.value();
  shape[last - 1] = rows.value();
  shape[last] = columns.value();
  return shape;
}

bool divides(int64_t factor, int64_t n) { return n % factor == 0; }

}  // namespace

Tensor rot90(const Tensor& x, int64_t k, const Dims& dims, Location where) {
  const CallScope call("rot90", where);
  checked(x);
  if (dims.size() != 2) raise<ValueError>({.problem = fmt::format("{} dimensions make no plane", dims.size())});
  expect_rank_at_least("x", x, 2);
  const int a = wrap_dim(dims[0], x.dim()), b = wrap_dim(dims[1], x.dim());
  if (a == b) raise<ValueError>({.problem = fmt::format("dimension {} is named twice", a)});
  switch ((k % 4 + 4) % 4) {
    case 1:
      return flip(x, b).transpose(a, b);
    case 2:
      return flip(x, {a, b});
    case 3:
      return flip(x, a).transpose(a, b);
    default:
      return x.clone();
  }
}

Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor, Location where) {
  const CallScope call("pixel_shuffle", where);
  check_image(x);
  const int64_t r = upscale_factor, channels = x.size(-3), rows = x.size(-2), columns = x.size(-1);
  check_factor(r);
  const Checked square = Checked(r) * r;
  if (!square.fits() || !divides(square.value(), channels)) {
    raise<ShapeError>({.problem = fmt::format("{} channels are no multiple of {} * {}", channels, r, r)});
  }
  const int64_t kept = channels / square.value();
  const Dims shape = image_shape(x, kept, Checked(rows) * r, Checked(columns) * r);
  const Tensor parts = x.reshape({images_in(x), kept, r, r, rows, columns});
  return own_copy(parts.permute({0, 1, 4, 2, 5, 3}).reshape(shape), x);
}

Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor, Location where) {
  const CallScope call("pixel_unshuffle", where);
  check_image(x);
  const int64_t r = downscale_factor, channels = x.size(-3), rows = x.size(-2), columns = x.size(-1);
  check_factor(r);
  if (!divides(r, rows) || !divides(r, columns)) {
    raise<ShapeError>({.problem = fmt::format("{} rows and {} columns are no multiples of {}", rows, columns, r)});
  }
  const Dims shape = image_shape(x, Checked(channels) * r * r, rows / r, columns / r);
  const Tensor parts = x.reshape({images_in(x), channels, rows / r, r, columns / r, r});
  return own_copy(parts.permute({0, 1, 3, 5, 2, 4}).reshape(shape), x);
}

Tensor channel_shuffle(const Tensor& x, int64_t groups, Location where) {
  const CallScope call("channel_shuffle", where);
  check_image(x);
  if (groups <= 0) raise<ValueError>({.problem = fmt::format("{} groups are not positive", groups)});
  const int64_t batch = x.size(0), channels = x.size(1);
  if (!divides(groups, channels)) {
    raise<ShapeError>({.problem = fmt::format("{} channels do not make {} groups", channels, groups)});
  }
  Dims line = x.shape();
  line.erase(0);
  line.erase(0);
  const Tensor parts = x.reshape({batch, groups, channels / groups, line.product()});
  return own_copy(parts.transpose(1, 2).reshape(x.shape()), x);
}

namespace {

std::vector<Values> turn_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})},
          {make.tensor({2, 3, 2}), int64_t{-1}, Dims{-1, 0}},
          {make.tensor({2, 3}), int64_t{2}, Dims{1, 0}},
          {make.tensor({2, 3}), int64_t{4}},
          {make.tensor({0, 2}), int64_t{3}}};
}
std::vector<Values> shuffle_samples(SampleMaker& make) {
  return {{make.tensor({1, 8, 1, 2}), int64_t{2}},
          {make.tensor({4, 2, 3}), int64_t{2}},
          {make.tensor({2, 3, 2}), int64_t{1}},
          {make.tensor({0, 4, 2, 2}), int64_t{2}}};
}
std::vector<Values> unshuffle_samples(SampleMaker& make) {
  return {{make.tensor({1, 2, 2, 4}), int64_t{2}},
          {make.tensor({1, 3, 3}), int64_t{3}},
          {make.tensor({2, 3, 2}), int64_t{1}},
          {make.tensor({0, 1, 2, 2}), int64_t{2}}};
}
std::vector<Values> channel_samples(SampleMaker& make) {
  return {{make.tensor({2, 6, 2}), int64_t{3}},
          {make.tensor({1, 4, 2, 2}), int64_t{2}},
          {make.tensor({2, 2, 2}), int64_t{1}},
          {make.tensor({0, 4, 2}), int64_t{2}}};
}

constexpr auto any = OpRecord::Domain::any;
constexpr OpRecord shuffle_op_records[] = {
    {"rot90", "rot90(x, k=1, dims=(0, 1))", "x turned by k quarter turns, from the first dimension towards the second.",
     true, any, turn_samples, parts::along, detail::boxed<&weft::rot90>},
    {"pixel_shuffle", "pixel_shuffle(x, upscale_factor)",
     "[..., channels * r * r, rows, columns] as [..., channels, rows * r, columns * r].", true, any, shuffle_samples,
     parts::all_but_last<3>, detail::boxed<&weft::pixel_shuffle>},
    {"pixel_unshuffle", "pixel_unshuffle(x, downscale_factor)",
     "[..., channels, rows * r, columns * r] as [..., channels * r * r, rows, columns].", true, any, unshuffle_samples,
     parts::all_but_last<3>, detail::boxed<&weft::pixel_unshuffle>},
    {"channel_shuffle", "channel_shuffle(x, groups)",
     "The channels of [batch, channels, ...], seen as [groups, channels / groups], transposed.", true, any,
     channel_samples, parts::along_second, detail::boxed<&weft::channel_shuffle>},
};

}  // namespace

std::span<const OpRecord> shuffle_records() { return shuffle_op_records; }

}  // namespace weft
