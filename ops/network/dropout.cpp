#include "../dropout.hpp"

#include <cmath>

#include "../create.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../pointwise.hpp"
#include "../random.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

void check_dropout(const Tensor& x, double p) {
  if (!is_complex(checked(x).dtype())) check_floating(x);
  expect_range("p", p, 0, 1);
}

// One for each channel of [N, C, ...].
Dims channels_of(const Tensor& x) {
  expect_shape("x", x, x.dim() >= 2, "[N, C, ...]");
  Dims shape = Dims::filled(x.dim(), 1);
  shape[0] = x.size(0);
  shape[1] = x.size(1);
  return shape;
}

// True where an element stays.
Tensor keep_mask(const Tensor& x, const Dims& shape, double p, Generator* generator) {
  return bernoulli_(empty(shape, {DType::boolean, x.device()}), 1 - p, generator);
}

Tensor without_channels(const Tensor& x, double p, bool training, Generator* generator) {
  const Dims shape = channels_of(x);
  if (!training || p == 0) return x;
  return where(keep_mask(x, shape, p, generator), x, 0) * (p == 1 ? 0 : 1 / (1 - p));
}

Tensor channel_dropout(const Tensor& x, double p, bool training, Generator* generator, int rank) {
  check_dropout(x, p);
  const bool one = rank != 2 && x.dim() == rank + 1;
  const bool fits = one || x.dim() == rank + 2 || (rank == 2 && x.dim() == 3);
  if (WEFT_UNLIKELY(!fits)) raise_rank("x", fmt::format("{} or {} dimensions", rank + 1, rank + 2), x);
  return one ? without_channels(x.unsqueeze(0), p, training, generator).squeeze(0)
             : without_channels(x, p, training, generator);
}

Tensor self_normalizing(const Tensor& x, const Dims& shape, double p, bool training, Generator* generator) {
  if (!training || p == 0 || x.numel() == 0) return x;
  if (p == 1) return x * 0;
  constexpr double saturation = 1.7580993408473766;  // of selu: its scale times its alpha
  const double scale = 1 / std::sqrt((saturation * saturation * p + 1) * (1 - p)), shift = saturation * scale * p;
  const Tensor wide = to_compute_type(x);
  return where(keep_mask(x, shape, p, generator), wide * scale + shift, shift - saturation * scale).to(x.dtype());
}

}  // namespace

Tensor dropout1d(const Tensor& x, double p, bool training, Generator* generator, Location where) {
  const CallScope call("dropout1d", where);
  return channel_dropout(x, p, training, generator, 1);
}
Tensor dropout2d(const Tensor& x, double p, bool training, Generator* generator, Location where) {
  const CallScope call("dropout2d", where);
  return channel_dropout(x, p, training, generator, 2);
}
Tensor dropout3d(const Tensor& x, double p, bool training, Generator* generator, Location where) {
  const CallScope call("dropout3d", where);
  return channel_dropout(x, p, training, generator, 3);
}

Tensor alpha_dropout(const Tensor& x, double p, bool training, Generator* generator, Location where) {
  const CallScope call("alpha_dropout", where);
  check_dropout(x, p);
  return self_normalizing(x, x.shape(), p, training, generator);
}
Tensor feature_alpha_dropout(const Tensor& x, double p, bool training, Generator* generator, Location where) {
  const CallScope call("feature_alpha_dropout", where);
  check_dropout(x, p);
  if (!training || p == 0) return x;
  return self_normalizing(x, channels_of(x), p, training, generator);
}

Tensor rrelu(const Tensor& x, double lower, double upper, bool training, Generator* generator, Location where) {
  const CallScope call("rrelu", where);
  check_floating(checked(x));
  if (WEFT_UNLIKELY(!(lower <= upper))) {
    raise<ValueError>({.problem = fmt::format("the slopes [{}, {}) are none", lower, upper)});
  }
  if (!training) return leaky_relu(x, (lower + upper) / 2);
  const Tensor slope = uniform_(empty(x.shape(), {compute_type(x.dtype()), x.device()}), lower, upper, generator);
  const Tensor wide = to_compute_type(x);
  return weft::where(wide <= 0, wide * slope, wide).to(x.dtype());
}

namespace {

template <int rank>
std::vector<Values> channel_samples(SampleMaker& make) {
  const Dims sizes = rank == 1 ? Dims{4} : rank == 2 ? Dims{2, 3} : Dims{2, 1, 2};
  Dims one(3), several{2, 3};
  for (const int64_t n : sizes) {
    one.push_back(n);
    several.push_back(n);
  }
  return {
      {make.tensor(several)}, {make.tensor(one), 0.3}, {make.tensor(several), 0.5, false}, {make.tensor(several), 1.0}};
}
std::vector<Values> alpha_samples(SampleMaker& make) {
  return {{make.tensor({2, 3, 2}), 0.4, true},
          {make.tensor({2, 3}), 0.5, false},
          {make.tensor({2, 3}), 1.0, true},
          {make.tensor({0, 2}), 0.5, true}};
}
std::vector<Values> rrelu_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})},
          {make.tensor({2, 3}), 0.1, 0.4, true},
          {make.tensor({}), 0.2, 0.2, true},
          {make.tensor({0, 2}), 0.1, 0.4, true}};
}

#define WEFT_CHANNEL_RECORD(rank, n)                                                                               \
  {                                                                                                                \
    "dropout" #n, "dropout" #n "(x, p=0.5, training|train=True, *, generator=None)",                               \
        "In training zeroes each channel with probability p and scales the others by 1 / (1 - p); else x itself.", \
        true, floating, channel_samples<rank>, parts::all_but_last<rank>, detail::boxed<dropout##n>                \
  }

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    WEFT_CHANNEL_RECORD(1, 1d),
    WEFT_CHANNEL_RECORD(2, 2d),
    WEFT_CHANNEL_RECORD(3, 3d),
    {"alpha_dropout", "alpha_dropout(x, p=0.5, training|train=False, *, generator=None)",
     "In training sets each element with probability p to selu's negative saturation, then shifts and scales all so "
     "that "
     "mean 0 and variance 1 stay (Klambauer et al. 2017).",
     true, floating, alpha_samples, parts::pointwise, detail::boxed<weft::alpha_dropout>},
    {"feature_alpha_dropout", "feature_alpha_dropout(x, p=0.5, training|train=False, *, generator=None)",
     "alpha_dropout of whole channels of [N, C, ...].", true, floating, alpha_samples, parts::leading<2>,
     detail::boxed<weft::feature_alpha_dropout>},
    {"rrelu", "rrelu(x, lower=0.125, upper=0.3333333333333333, training=False, *, generator=None)",
     "x where it is above 0, else x times a slope: in training uniform in [lower, upper), else their mean (Xu et al. "
     "2015).",
     true, floating, rrelu_samples, parts::pointwise, detail::boxed<weft::rrelu>},
};

}  // namespace

std::span<const OpRecord> dropout_records() { return records; }

}  // namespace weft
