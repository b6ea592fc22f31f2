// Elements of 1-d tensors in every combination, and their powers.
#include "../combine.hpp"

#include <algorithm>
#include <numeric>

#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../index.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../rearrange.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

void check_vector(const Tensor& x) { expect_rank("", checked(x), 1); }

// n over k; nothing where it is beyond 62 bits.
std::optional<int64_t> choices(int64_t n, int64_t k) {
  if (k > n) return 0;
  k = std::min(k, n - k);
  __extension__ using Wide = unsigned __int128;
  Wide count = 1;
  for (int64_t i = 1; i <= k; ++i) {
    count = count * static_cast<Wide>(n - k + i) / static_cast<Wide>(i);
    if (count >> 62 != 0) return {};
  }
  return static_cast<int64_t>(count);
}

std::optional<int64_t> count_of(int64_t n, int64_t r, bool with_replacement) {
  if (!with_replacement) return choices(n, r);
  if (n == 0) return 0;
  const Checked all = Checked(n) + r - 1;
  return all.fits() ? choices(all.value(), r) : std::nullopt;
}

// The positions of all choices in lexicographic order, one after the other.
void write_choices(int64_t* out, int64_t count, int64_t n, int64_t r, bool with_replacement) {
  if (count == 0) return;
  std::vector<int64_t> choice(static_cast<size_t>(r), 0);
  if (!with_replacement) std::iota(choice.begin(), choice.end(), 0);
  for (int64_t row = 0; row < count; ++row) {
    out = std::ranges::copy(choice, out).out;
    int64_t i = r - 1;
    const auto last = [&](int64_t place) { return with_replacement ? n - 1 : n - r + place; };
    while (i >= 0 && choice[static_cast<size_t>(i)] == last(i)) --i;
    if (i < 0) return;
    const int64_t next = choice[static_cast<size_t>(i)] + 1;
    for (int64_t j = i; j < r; ++j) choice[static_cast<size_t>(j)] = with_replacement ? next : next + j - i;
  }
}

// Element i of `t` in every row of the product that it belongs to.
Tensor product_column(const Tensor& t, int64_t before, int64_t after) {
  const int64_t n = t.numel();
  return t.reshape({1, n, 1}).expand({before, n, after}).reshape({before * n * after});
}

// Columns x^0 … x^(count - 1): multiplying the existing columns by x^m doubles their number.
Tensor powers_of(const Tensor& x, int64_t count) {
  Tensor powers = ones(x.shape(), {x.dtype(), x.device()}).narrow(1, 0, std::min<int64_t>(count, 1));
  while (powers.size(1) < count) {
    const int64_t m = powers.size(1);
    const Tensor next = powers.narrow(1, m - 1, 1) * x;
    powers = cat({powers, powers.narrow(1, 0, std::min(m, count - m)) * next}, 1);
  }
  return powers;
}

}  // namespace

Tensor cartesian_prod(std::span<const Tensor> tensors, Location where) {
  const CallScope call("cartesian_prod", where);
  if (tensors.empty()) raise<ValueError>({.problem = "there is no product of no tensors"});
  Checked rows = 1;
  for (const Tensor& t : tensors) {
    check_vector(t);
    check_same_device({tensors.data(), &t});
    expect_one_dtype("tensors", tensors[0], t);
    rows *= std::max<int64_t>(t.numel(), 1);
  }
  if (!rows.fits()) raise<ShapeError>({.problem = "the product has more rows than 63 bits can count"});
  if (tensors.size() == 1) return tensors[0];
  const bool none = std::ranges::any_of(tensors, [](const Tensor& t) { return t.numel() == 0; });
  std::vector<Tensor> columns;
  int64_t before = 1, after = none ? 0 : rows.value();
  for (const Tensor& t : tensors) {
    if (!none) after /= t.numel();
    columns.push_back(none ? t.narrow(0, 0, 0) : product_column(t, before, after));
    before *= t.numel();
  }
  return stack(columns, 1);
}

Tensor cartesian_prod(std::initializer_list<Tensor> tensors, Location where) {
  return cartesian_prod(std::span(tensors.begin(), tensors.size()), where);
}

Tensor combinations(const Tensor& x, int64_t r, bool with_replacement, Location where) {
  const CallScope call("combinations", where);
  check_vector(x);
  if (r < 0) raise<ValueError>({.problem = fmt::format("cannot choose {} elements", r)});
  if (r == 0) return x.narrow(0, 0, 0).clone();
  const std::optional<int64_t> count = count_of(x.numel(), r, with_replacement);
  if (!count) {
    raise<ShapeError>({.problem = fmt::format("there are too many choices of {} of {} elements", r, x.numel())});
  }
  check_sizes(Dims{*count, r}, DType::i64);
  Tensor positions = make(Dims{*count * r}, DType::i64, is_meta(x) ? x.device() : Device());
  if (positions.device().is_cpu()) {
    write_choices(static_cast<int64_t*>(positions.data_ptr()), *count, x.numel(), r, with_replacement);
  }
  return index_select(x, 0, positions.to(x.device())).reshape({*count, r});
}

Tensor vander(const Tensor& x, std::optional<int64_t> count, bool increasing, Location where) {
  const CallScope call("vander", where);
  check_vector(x);
  const int64_t n = count.value_or(x.numel());
  if (n < 0) raise<ValueError>({.problem = fmt::format("there are no {} powers", n)});
  const Tensor base = is_inexact(x.dtype()) ? x : x.to(DType::i64);
  check_sizes(Dims{x.numel(), n}, base.dtype());
  make(Dims{x.numel(), n}, base.dtype(), x.device());  // what there is no memory for fails before it grows
  const Tensor powers = powers_of(to_compute_type(base).unsqueeze(1), n).to(base.dtype());
  return increasing ? powers : flip(powers, 1);
}

namespace {

using List = std::vector<Tensor>;

std::vector<Values> product_samples(SampleMaker& make) {
  return {{List{make.tensor({2}), make.tensor({3}), make.tensor({1})}},
          {List{make.tensor({3})}},
          {List{make.tensor({0}), make.tensor({2})}}};
}
std::vector<Values> combinations_samples(SampleMaker& make) {
  return {{make.tensor({4})},
          {make.tensor({3}), int64_t{2}, true},
          {make.tensor({4}), int64_t{3}},
          {make.tensor({2}), int64_t{3}},
          {make.tensor({0}), int64_t{2}, true},
          {make.tensor({3}), int64_t{0}}};
}
std::vector<Values> vander_samples(SampleMaker& make) {
  return {{make.tensor({3})},
          {make.tensor({4}), int64_t{3}, true},
          {make.tensor({2}), int64_t{0}},
          {make.tensor({0}), int64_t{2}}};
}

using Product = Tensor (*)(std::span<const Tensor>, Location);

using enum OpRecord::Domain;
constexpr OpRecord combine_op_records[] = {
    {"cartesian_prod", "cartesian_prod(*tensors)",
     "Every choice of one element of each 1-d tensor, one a row; the last tensor varies fastest. One tensor alone as "
     "it "
     "is.",
     true, any, product_samples, parts::whole, detail::boxed<static_cast<Product>(&weft::cartesian_prod)>},
    {"combinations", "combinations(x, r=2, with_replacement=False)",
     "Every choice of r elements of a 1-d tensor in their order, one a row; with_replacement takes an element more "
     "than "
     "once, too.",
     true, any, combinations_samples, parts::whole, detail::boxed<&weft::combinations>},
    {"vander", "vander(x, N=None, increasing=False)",
     "The powers N - 1 ... 0 of each element of a 1-d tensor as a row, or 0 ... N - 1 if increasing; N is the number "
     "of "
     "elements unless given. Integers become int64.",
     true, any, vander_samples, parts::whole, detail::boxed<&weft::vander>},
};

}  // namespace

std::span<const OpRecord> combine_records() { return combine_op_records; }

}  // namespace weft
