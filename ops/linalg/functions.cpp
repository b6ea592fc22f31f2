// Powers and exponentials of matrices, chains of products, and equations of tensors.
#include <cmath>

#include "../detail/autocast.hpp"
#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../join.hpp"
#include "../reduce.hpp"
#include "../scan.hpp"
#include "common.hpp"
#include "samples.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::linalg {

namespace {

/// The identity with x's sizes, a tensor of its own.
Tensor identity_like(const Tensor& x) { return eye(x.size(-1), {}, {x.dtype(), x.device()}).expand(x.shape()).clone(); }

Tensor power_of(const Tensor& x, uint64_t n) {
  if (n == 0) return identity_like(x) + 0 * x;
  Tensor square = x, out;
  for (;; square = matmul(square, square)) {
    if ((n & 1) != 0) out = out.defined() ? matmul(out, square) : square;
    if ((n >>= 1) == 0) return out;
  }
}

// The Taylor polynomial of degree 18 by five products (Bader, Blanes and Casas 2019, table 4).
Tensor taylor_18(const Tensor& a) {
  const Tensor one = eye(a.size(-1), {}, {a.dtype(), a.device()});
  const Tensor a2 = matmul(a, a), a3 = matmul(a2, a), a6 = matmul(a3, a3);
  const Tensor b1 = a * -0.10036558103014462001 - a2 * 0.00802924648241156960 - a3 * 0.00089213849804572995;
  const Tensor b2 = a * 0.39784974949964507614 + a2 * 1.36783778460411719922 + a3 * 0.49828962252538267755 -
                    a6 * 0.00063789819459472330;
  const Tensor b3 = one * -10.9676396052962062593 + a * 1.68015813878906197182 + a2 * 0.05717798464788655127 -
                    a3 * 0.00698210122488052084 + a6 * 0.00003349750170860705;
  const Tensor b4 = one * -0.09043168323908105619 - a * 0.06764045190713819075 + a2 * 0.06759613017704596460 +
                    a3 * 0.02955525704293155274 - a6 * 0.00001391802575160607;
  const Tensor b5 = a2 * -0.09233646193671185927 - a3 * 0.01693649390020817171 - a6 * 0.00001400867981820361;
  const Tensor a9 = matmul(b1, b5) + b4;
  return b2 + matmul(b3 + a9, a9);
}

Tensor exponential(const Tensor& x) {
  if (x.numel() == 0) return x.clone();
  int squarings = 0;
  if (!is_meta(x)) {
    const NoGradGuard unrecorded;
    const double size = max(amax(sum(abs(x.detach()), {-2}), {-1})).item<double>();
    if (std::isfinite(size) && size > 1.09) squarings = static_cast<int>(std::ceil(std::log2(size / 1.09)));
  }
  Tensor out = taylor_18(x * std::ldexp(1.0, -squarings));
  for (int i = 0; i < squarings; ++i) out = matmul(out, out);
  return out;
}

// ---- chains ---------------------------------------------------------------------------------------------------------

/// Where to cut chains of matrices sizes[i] x sizes[i + 1]: cut[i][j] is the last matrix of the left part of i … j.
class ChainOrder {
 public:
  explicit ChainOrder(const std::vector<int64_t>& sizes) : n_(sizes.size() - 1), cut_(n_ * n_) {
    std::vector<double> cost(n_ * n_, 0);
    for (size_t length = 2; length <= n_; ++length) {
      for (size_t i = 0; i + length <= n_; ++i) {
        const size_t j = i + length - 1;
        double best = INFINITY;
        for (size_t k = i; k < j; ++k) {
          const double own =
              static_cast<double>(sizes[i]) * static_cast<double>(sizes[k + 1]) * static_cast<double>(sizes[j + 1]);
          const double all = cost[i * n_ + k] + cost[(k + 1) * n_ + j] + own;
          if (all < best) best = all, cut_[i * n_ + j] = k;
        }
        cost[i * n_ + j] = best;
      }
    }
  }
  Tensor product(std::span<const Tensor> list, size_t i, size_t j) const {
    if (i == j) return list[i];
    const size_t k = cut_[i * n_ + j];
    return mm(product(list, i, k), product(list, k + 1, j));
  }

 private:
  size_t n_;
  std::vector<size_t> cut_;
};

Tensor chain_of(std::span<const Tensor> given, bool vectors) {
  std::vector<Tensor> list(given.begin(), given.end());
  if (list.size() < (vectors ? 2 : 1)) {
    raise_value("tensors", fmt::format("at least {}", vectors ? 2 : 1), list.size());
  }

  const bool row = vectors && checked(list.front()).dim() == 1, column = vectors && checked(list.back()).dim() == 1;
  if (row) list.front() = list.front().unsqueeze(0);
  if (column) list.back() = list.back().unsqueeze(1);
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < list.size(); ++i) {
    if (checked(list[i]).dim() != 2) raise_rank(fmt::format("operand {}", i), "a matrix", given[i]);
    check_same_device({&list[0], &list[i]});
    expect_one_dtype("operands", list[0], list[i], "convert one with to(dtype)");
    if (i > 0 && list[i].size(0) != sizes.back()) {
      raise<ShapeError>({.problem = fmt::format("shapes {} and {} cannot be multiplied", given[i - 1].shape().text(),
                                                given[i].shape().text())});
    }
    if (i == 0) sizes.push_back(list[i].size(0));
    sizes.push_back(list[i].size(1));
  }
  Tensor out = list.size() == 1 ? list[0].clone() : ChainOrder(sizes).product(list, 0, list.size() - 1);
  if (column) out = out.squeeze(-1);
  return row ? out.squeeze(0) : out;
}

}  // namespace

Tensor matrix_power(const Tensor& operand, int64_t n, Location where) {
  const CallScope call("linalg_matrix_power", where);
  WEFT_IN_FULL(linalg::matrix_power, operand, n, where);
  check_square(operand);
  check_numbers(operand);
  const Tensor x = to_compute_type(operand);
  const uint64_t count = n < 0 ? uint64_t{0} - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  const Tensor out = power_of(n < 0 ? inv(x) : x, count).to(operand.dtype());
  return n == 1 ? out.clone() : out;
}

Tensor matrix_exp(const Tensor& operand, Location where) {
  const CallScope call("linalg_matrix_exp", where);
  WEFT_IN_FULL(linalg::matrix_exp, operand, where);
  check_square(operand);
  check_numbers(operand);
  return exponential(to_compute_type(operand)).to(operand.dtype());
}

Tensor multi_dot(std::span<const Tensor> tensors, Location where) {
  const CallScope call("linalg_multi_dot", where);
  return in_lower(tensors, [](std::span<const Tensor> list) { return chain_of(list, true); });
}

Tensor vander(const Tensor& x, std::optional<int64_t> n, Location where) {
  const CallScope call("linalg_vander", where);
  WEFT_IN_FULL(linalg::vander, x, n, where);
  expect_rank_at_least("x", checked(x), 1);
  const int64_t count = n.value_or(x.size(-1));
  if (n) expect_at_least("n", count, 2);
  const DType dtype = x.dtype() == DType::boolean || is_integer(x.dtype()) ? DType::i64 : x.dtype();
  const Tensor values = x.to(dtype).unsqueeze(-1);
  const Tensor first = ones(values.shape(), {dtype, x.device()});
  if (count <= 1) return count == 0 ? first.narrow(-1, 0, 0).clone() : first;
  const Tensor powers = cumprod(values.expand(with(x.shape(), {count - 1})), -1);
  return cat({first, powers}, -1);
}

Tensor tensorsolve(const Tensor& a, const Tensor& b, const Dims& dims, Location where) {
  const CallScope call("linalg_tensorsolve", where);
  WEFT_IN_FULL(linalg::tensorsolve, a, b, dims, where);
  check_alike(a, b);
  Dims order, last;
  const auto is_last = [&](int64_t d) { return std::ranges::find(last, d) != last.end(); };
  for (const int64_t d : dims) {
    const int at = wrap_dim(d, a.dim());
    if (is_last(at)) raise<ValueError>({.problem = fmt::format("dimension {} is named twice", at)});
    last.push_back(at);
  }
  for (int d = 0; d < a.dim(); ++d) {
    if (!is_last(d)) order.push_back(d);
  }
  for (const int64_t d : last) order.push_back(d);
  const Tensor turned = a.dim() == 0 || dims.empty() ? a : a.permute(order);
  Dims shape;
  for (int d = b.dim(); d < turned.dim(); ++d) shape.push_back(turned.size(d));
  if (b.dim() > a.dim() || shape.product() != b.numel() || shape.product() * b.numel() != a.numel()) {
    raise<ShapeError>({.problem = fmt::format("shape {} is no square system for a right side of shape {}",
                                              turned.shape().text(), b.shape().text())});
  }
  const int64_t n = b.numel();
  return solve(turned.reshape({n, n}), b.reshape({n})).reshape(shape);
}

Tensor tensorinv(const Tensor& x, int64_t ind, Location where) {
  const CallScope call("linalg_tensorinv", where);
  WEFT_IN_FULL(linalg::tensorinv, x, ind, where);
  check_numbers(x);
  expect_at_least("ind", ind, 1);
  int64_t left = 1, right = 1;
  Dims shape;
  for (int d = static_cast<int>(std::min<int64_t>(ind, x.dim())); d < x.dim(); ++d) {
    right *= x.size(d);
    shape.push_back(x.size(d));
  }
  for (int d = 0; d < std::min<int64_t>(ind, x.dim()); ++d) {
    left *= x.size(d);
    shape.push_back(x.size(d));
  }
  if (left != right) {
    raise<ShapeError>({.problem = fmt::format("the first {} dimensions of {} have a product of {}, the others of {}",
                                              ind, x.shape().text(), left, right)});
  }
  return inv(x.reshape({left, right})).reshape(shape);
}

namespace {

std::vector<Values> power_samples(SampleMaker& make) {
  return {{samples::regular(make, {3, 3}), int64_t{3}},
          {samples::regular(make, {2, 2, 2}), int64_t{-2}},
          {samples::regular(make, {2, 2}), int64_t{0}},
          {samples::regular(make, {2, 2}), int64_t{1}},
          {make.tensor({0, 0}), int64_t{2}}};
}
std::vector<Values> exp_samples(SampleMaker& make) {
  return {{make.tensor({3, 3}, -0.5, 0.5)}, {make.tensor({2, 2, 2})}, {make.tensor({1, 1})}, {make.tensor({0, 0})}};
}
std::vector<Values> chain_samples(SampleMaker& make) {
  return {{std::vector<Tensor>{make.tensor({2, 3}), make.tensor({3, 4}), make.tensor({4, 2})}},
          {std::vector<Tensor>{make.tensor({3}), make.tensor({3, 2}), make.tensor({2})}},
          {std::vector<Tensor>{make.tensor({2, 0}), make.tensor({0, 3})}}};
}
std::vector<Values> matrix_chain_samples(SampleMaker& make) {
  return {{std::vector<Tensor>{make.tensor({2, 3}), make.tensor({3, 4}), make.tensor({4, 1}), make.tensor({1, 2})}},
          {std::vector<Tensor>{make.tensor({2, 3})}}};
}
std::vector<Values> vander_samples(SampleMaker& make) {
  return {{make.tensor({3})}, {make.tensor({2, 3}), int64_t{2}}, {make.tensor({2}), int64_t{4}}, {make.tensor({2, 0})}};
}
std::vector<Values> tensorsolve_samples(SampleMaker& make) {
  const Tensor x = samples::regular(make, {6, 6});
  return {{x.reshape({2, 3, 6}), make.tensor({2, 3})},
          {x.reshape({2, 3, 6}).permute({0, 2, 1}), make.tensor({2, 3}), Dims{1}}};
}
std::vector<Values> tensorinv_samples(SampleMaker& make) {
  const Tensor x = samples::regular(make, {6, 6});
  return {{x.reshape({2, 3, 6})}, {x.reshape({6, 3, 2}), int64_t{1}}};
}

constexpr OpRecord records[] = {
    {"linalg_matrix_power", "linalg_matrix_power(x, n)",
     "x times itself n times; the inverse's power for a negative n.", OpFacts(true, Autocast::full),
     OpRecord::Domain::floating, power_samples, parts::all_but_last<2>, detail::boxed<linalg::matrix_power>},
    {"linalg_matrix_exp", "linalg_matrix_exp(x)", "e to the power x, for matrices.",
     OpFacts(true, Autocast::full, OpFacts::reads_values), OpRecord::Domain::floating, exp_samples, parts::whole,
     detail::boxed<linalg::matrix_exp>},
    {"linalg_multi_dot", "linalg_multi_dot(tensors)",
     "The product of matrices in the order that takes the fewest multiplications; the first and the last may be 1-d.",
     OpFacts(true, Autocast::lower), OpRecord::Domain::numeric, chain_samples, parts::whole,
     detail::boxed<linalg::multi_dot>},
    {"chain_matmul", "chain_matmul(*matrices)", "The product of matrices, as linalg_multi_dot.",
     OpFacts(true, Autocast::lower), OpRecord::Domain::numeric, matrix_chain_samples, parts::whole,
     detail::boxed<weft::chain_matmul>},
    {"linalg_vander", "linalg_vander(x, N=None)", "Powers 0 … N - 1 of each number, as a last dimension.",
     OpFacts(true, Autocast::full), OpRecord::Domain::any, vander_samples, parts::whole, detail::boxed<linalg::vander>},
    {"linalg_tensorsolve", "linalg_tensorsolve(a, b, dims=None)", "The x with tensordot(a, x, x.dim()) = b.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, tensorsolve_samples, parts::whole,
     detail::boxed<linalg::tensorsolve>},
    {"linalg_tensorinv", "linalg_tensorinv(x, ind=2)", "The inverse of the map that tensordot with x is.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, tensorinv_samples, parts::whole,
     detail::boxed<linalg::tensorinv>},
};

}  // namespace
}  // namespace weft::linalg

namespace weft {

Tensor chain_matmul(std::span<const Tensor> tensors, Location where) {
  const CallScope call("chain_matmul", where);
  return linalg::in_lower(tensors, [](std::span<const Tensor> list) { return linalg::chain_of(list, false); });
}

std::span<const OpRecord> matrix_function_records() { return linalg::records; }

}  // namespace weft
