#include <numeric>

#include <fmt/format.h>

#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/common.hpp"
#include "../matmul.hpp"
#include "../moe.hpp"
#include "checks-inl.hpp"
#include "token_rows-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

void check_grouped(const Tensor& x, const Tensor& weight, std::span<const int64_t> counts) {
  check_floating(checked(x));
  check_floating(checked(weight));
  check_same_device({&x, &weight});
  expect_one_dtype("x and weight", x, weight);
  expect_shape("x", x, x.dim() == 2, "[R, in]");
  expect_shape("weight", weight, weight.dim() == 3 && weight.size(2) == x.size(1), "[E, out, {}]", x.size(1));
  int64_t left = x.size(0);
  for (const int64_t n : counts) {
    if (n < 0 || n > left) raise<ShapeError>({.problem = fmt::format("a block of {} rows where {} are left", n, left)});
    left -= n;
  }
  if (left == 0 && std::ssize(counts) == weight.size(0)) return;
  raise<ShapeError>({.problem = fmt::format("{} numbers of rows that add up to {} for {} weights and {} rows",
                                            counts.size(), x.size(0) - left, weight.size(0), x.size(0))});
}

/// Calls f(e, first row, number of rows) for each block that has rows.
template <class F>
void each_block(const Sizes& counts, F f) {
  int64_t begin = 0;
  for (int64_t e = 0; e < std::ssize(counts); ++e) {
    const int64_t n = counts[static_cast<size_t>(e)];
    if (n > 0) f(e, begin, n);
    begin += n;
  }
}

/// x of each block times its weight [E, in, out]. Recorded.
Tensor products(const Tensor& x, const Tensor& weight, const Sizes& counts);
/// [E, a, b]: of each block the transpose of a times b, 0 where it has no rows. Recorded.
Tensor outer_products(const Tensor& a, const Tensor& b, const Sizes& counts);

Tensor turned(const Tensor& weight) { return weight.transpose(1, 2); }

struct ProductsBackward {
  Saved x, weight;
  Sizes counts;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    if (self.wants(0)) outgoing[0] = products(incoming[0], turned(weight.get(self)), counts);
    if (self.wants(1)) outgoing[1] = outer_products(x.get(self), incoming[0], counts);
  }
};

struct OuterProductsBackward {
  Saved a, b;
  Sizes counts;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    if (self.wants(0)) outgoing[0] = products(b.get(self), turned(incoming[0]), counts);
    if (self.wants(1)) outgoing[1] = products(a.get(self), incoming[0], counts);
  }
};

Tensor products(const Tensor& x, const Tensor& weight, const Sizes& counts) {
  const Tensor out = make(Dims{x.size(0), weight.size(2)}, x.dtype(), x.device());
  {
    const NoGradGuard unrecorded;
    each_block(counts, [&](int64_t e, int64_t begin, int64_t n) {
      matmul_out(out.narrow(0, begin, n), x.narrow(0, begin, n), weight.select(0, e));
    });
  }
  if (should_record(x, weight)) record(out, ProductsBackward{Saved(x), Saved(weight), counts}, x, weight);
  return out;
}

Tensor outer_products(const Tensor& a, const Tensor& b, const Sizes& counts) {
  const Tensor out = zeros({std::ssize(counts), a.size(1), b.size(1)}, {a.dtype(), a.device()});
  {
    const NoGradGuard unrecorded;
    each_block(counts, [&](int64_t e, int64_t begin, int64_t n) {
      matmul_out(out.select(0, e), a.narrow(0, begin, n).t(), b.narrow(0, begin, n));
    });
  }
  if (should_record(a, b)) record(out, OuterProductsBackward{Saved(a), Saved(b), counts}, a, b);
  return out;
}

}  // namespace

Tensor grouped_linear(const Tensor& x, const Tensor& weight, std::span<const int64_t> counts, Location where) {
  const CallScope call("grouped_linear", where);
  WEFT_IN_LOWER(grouped_linear, x, weight, counts, where);
  check_grouped(x, weight, counts);
  return products(x, turned(weight), Sizes(counts.begin(), counts.end()));
}

}  // namespace weft
