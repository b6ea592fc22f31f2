#include "../channels.hpp"

#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

Tensor local_response_norm(const Tensor& x, int64_t size, double alpha, double beta, double k, Location where) {
  const CallScope call("local_response_norm", where);
  WEFT_IN_FULL(local_response_norm, x, size, alpha, beta, k, where);
  check_floating(checked(x));
  expect_shape("x", x, x.dim() >= 3, "[N, C, L, ...]");
  expect_at_least("size", size, 1);
  if (x.numel() == 0) return x.clone();
  const Tensor wide = to_compute_type(x).flatten(2);
  const auto edge = [&](int64_t channels) {
    return zeros({wide.size(0), channels, wide.size(2)}, {wide.dtype(), wide.device()});
  };
  const Tensor squares = cat({edge(size / 2), square(wide), edge((size - 1) / 2)}, 1);
  const Tensor means = mean(squares.unfold(1, size, 1), -1);
  return (wide / pow(means * alpha + k, beta)).reshape(x.shape()).to(x.dtype());
}

Tensor maxout(const Tensor& x, int64_t groups, int axis, Location where) {
  const CallScope call("maxout", where);
  const int dim = wrap_dim(axis, checked(x).dim());
  const int64_t size = x.dim() == 0 ? 1 : x.size(dim);
  if (WEFT_UNLIKELY(groups < 1 || size % groups != 0 || x.dim() == max_rank)) {
    raise<ValueError>(
        {.problem = fmt::format("groups of {} do not divide dimension {} of {}", groups, dim, x.shape().text())});
  }
  if (x.dim() == 0) return x.clone();
  Dims shape = x.shape();
  shape[dim] = size / groups;
  shape.insert(dim + 1, groups);
  return max(x.reshape(shape), dim + 1).values;
}

namespace {

std::vector<Values> norm_samples(SampleMaker& make) {
  return {{make.tensor({2, 5, 3}), int64_t{3}},
          {make.tensor({2, 3, 2, 2}), int64_t{2}, 0.5, 0.6, 1.5},
          {make.tensor({1, 2, 3}), int64_t{7}, 0.1},
          {make.tensor({0, 2, 3}), int64_t{2}}};
}
std::vector<Values> maxout_samples(SampleMaker& make) {
  return {{make.tensor({2, 4, 3}), int64_t{2}},
          {make.tensor({2, 3}), int64_t{3}, int64_t{-1}},
          {make.tensor({0, 4}), int64_t{2}},
          {make.tensor({}), int64_t{1}, int64_t{0}}};
}

constexpr OpRecord records[] = {
    {"local_response_norm", "local_response_norm(x, size, alpha=0.0001, beta=0.75, k=1.0)",
     "x / (k + alpha * mean(x^2))^beta with the mean over size neighbouring channels of [N, C, ...] (Krizhevsky et al. "
     "2012).",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, norm_samples, parts::along_second,
     detail::boxed<weft::local_response_norm>},
    {"maxout", "maxout(x, groups, axis|dim=1)",
     "The largest of each `groups` neighbouring elements along axis (Goodfellow et al. 2013).", true,
     OpRecord::Domain::numeric, maxout_samples, parts::along, detail::boxed<weft::maxout>},
};

}  // namespace

std::span<const OpRecord> channel_records() { return records; }

}  // namespace weft
