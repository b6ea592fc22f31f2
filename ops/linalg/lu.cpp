// LU factors, and solutions and determinants from them.
#include <cmath>

#include "../complex.hpp"
#include "../detail/autocast.hpp"
#include "../detail/parts.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../diagonal.hpp"
#include "../index.hpp"
#include "../join.hpp"
#include "../masked.hpp"
#include "../reduce.hpp"
#include "common.hpp"
#include "samples.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::linalg {

namespace {

struct Factors {
  Tensor lu, pivots, info;
};
Factors empty_factors(const Tensor& x, const Dims& batch) {
  const int64_t m = x.size(-2), n = x.size(-1);
  return {make(with(batch, {m, n}), x.dtype(), x.device()), make(with(batch, {std::min(m, n)}), DType::i32, x.device()),
          make(batch, DType::i32, x.device())};
}
Factors factored(const Tensor& x) {
  const Factors f = empty_factors(x, batch_of(x));
  run("lu_factor", {batched(f.lu, 2), batched(f.pivots, 1), batched(f.info, 0)}, {batched(dense(x, batch_of(x)), 2)},
      [](const View* v, bool, bool) { cpu::lu_factor(v[0], v[1], v[2], v[3]); });
  return f;
}
/// Not recorded; all of one batch.
Tensor solved_with(const Factors& f, const Tensor& b, bool adjoint) {
  const Dims batch = common_batch(f.lu, b);
  const Tensor x = dense_copy(b, batch);
  Tensor lu = f.lu, pivots = f.pivots;
  if (!(batch_of(lu) == batch)) {
    lu = dense(lu, batch);
    pivots = pivots.expand(with(batch, {lu.size(-1)})).contiguous();
  }
  run(
      "lu_solve", {batched(x, 2)}, {batched(lu, 2), batched(pivots, 1)},
      [](const View* v, bool turned, bool) { cpu::lu_solve(v[0], v[1], v[2], turned); }, adjoint);
  return x;
}

void check_regular(const Factors& f) { check_info(f.info, "is singular: its pivot {} is 0"); }

/// Row i of the permuted matrix is row order[i], i64.
Tensor order_of(const Tensor& pivots, int64_t rows) {
  Dims batch = pivots.shape();
  batch.erase(batch.size() - 1);
  const Tensor order = make(with(batch, {rows}), DType::i64, pivots.device());
  run("pivots_to_order", {batched(order, 1)}, {batched(pivots.contiguous(), 1)}, [](const View* v, bool, bool) {
    const int64_t count = v[0].layout.sizes[0], m = v[0].layout.sizes[1], k = v[1].layout.sizes[1];
    auto* to = static_cast<int64_t*>(v[0].data);
    const auto* from = static_cast<const int32_t*>(v[1].data);
    for (int64_t b = 0; b < count; ++b, to += m, from += k) {
      for (int64_t i = 0; i < m; ++i) to[i] = i;
      for (int64_t j = 0; j < k; ++j) std::swap(to[j], to[std::clamp<int64_t>(from[j] - 1, 0, m - 1)]);
    }
  });
  return order;
}
/// P with x = P L U.
Tensor permutation_of(const Tensor& pivots, int64_t rows, DType dtype) {
  const Tensor order = order_of(pivots, rows);
  const Tensor places = arange(rows, {DType::i64, pivots.device()});
  return eq(by_columns(order), by_rows(places)).to(dtype);
}

struct Triangles {
  Tensor l, u;
};
Triangles unpacked(const Tensor& lu) {
  const int64_t k = std::min(lu.size(-2), lu.size(-1));
  const Tensor left = lu.narrow(-1, 0, k), ones = eye(lu.size(-2), k, {lu.dtype(), lu.device()});
  return {tril(left, -1) + ones, triu(lu.narrow(-2, 0, k))};
}

/// The gradient of x = P L U (PyTorch's plu_backward: Walter and Lehmann 2012), for one factor with a zero gradient of
/// the other. For a tall or wide x, the triangles of its square part share the contribution of the rest.
Tensor factor_gradient(const Tensor& gl, const Tensor& gu, const Tensor& p, const Triangles& f) {
  const int64_t m = f.l.size(-2), n = f.u.size(-1), k = std::min(m, n);
  const auto turn = [&](const Tensor& x) { return matmul(p, x); };
  const Tensor l1 = f.l.narrow(-2, 0, k), u1 = f.u.narrow(-1, 0, k);
  Tensor low = matmul(mH(l1), gl.narrow(-2, 0, k)), high = matmul(gu.narrow(-1, 0, k), mH(u1));
  if (m > k) high = high - matmul(mH(f.l.narrow(-2, k, m - k)), gl.narrow(-2, k, m - k));
  if (n > k) low = low - matmul(gu.narrow(-1, k, n - k), mH(f.u.narrow(-1, k, n - k)));
  const auto over_u = [&](const Tensor& x) { return mH(solve_triangular(u1, mH(x), true)); };  // x u⁻ᴴ
  const auto under_l = [&](const Tensor& x) { return solve_triangular(mH(l1), x, true, true, true); };
  const Tensor corner = under_l(over_u(tril(low, -1) + triu(high)));
  if (m > k) return turn(cat({corner, over_u(gl.narrow(-2, k, m - k))}, -2));
  if (n > k) return turn(cat({corner, under_l(gu.narrow(-1, k, n - k))}, -1));
  return turn(corner);
}

struct PackedBackward {
  SavedOutput lu;
  Tensor pivots;
  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor packed = lu.get(self);
    const int64_t k = std::min(packed.size(-2), packed.size(-1));
    return factor_gradient(tril(g.narrow(-1, 0, k), -1), triu(g.narrow(-2, 0, k)),
                           permutation_of(pivots, packed.size(-2), packed.dtype()), unpacked(packed));
  }
};

// ---- solutions ------------------------------------------------------------------------------------------------------

Tensor solution(const Tensor& a, const Tensor& b, Tensor* info = nullptr);

// a x = b: the gradient of b is a⁻ᴴ g, that of a its product with -xᴴ.
struct SolveBackward {
  Saved a;
  SavedOutput x;
  Factors factors;
  Dims b_shape;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor& left = a.get(self);
    const Tensor gb = recording() ? solution(mH(left), incoming[0]) : solved_with(factors, incoming[0], true);
    if (self.wants(0)) outgoing[0] = sum_to(-matmul(gb, mH(x.get(self))), left.sizes());
    if (self.wants(1)) outgoing[1] = sum_to(Tensor(gb), b_shape);
  }
};

// Both on the CPU or meta. Raises LinAlgError for a singular matrix, unless `info` receives the status.
Tensor solution(const Tensor& a, const Tensor& b, Tensor* info) {
  const Dims batch = common_batch(a, b);
  const bool one_matrix = Dims(batch).product() > 1 && batch_of(a).product() == 1;
  Factors f;
  Tensor x;
  if (one_matrix) {  // which is factored once
    f = factored(a);
    if (info == nullptr) check_regular(f);
    const NoGradGuard unrecorded;
    x = solved_with(f, b.detach(), false);
  } else {
    f = empty_factors(a, batch);
    x = dense_copy(b, batch);
    run("solve", {batched(x, 2), batched(f.lu, 2), batched(f.pivots, 1), batched(f.info, 0)},
        {batched(dense(a, batch), 2)}, [](const View* v, bool, bool) { cpu::solve(v[0], v[1], v[2], v[3], v[4]); });
    if (info == nullptr) check_regular(f);
  }
  if (info != nullptr) *info = f.info;
  if (should_record(a, b)) record(x, SolveBackward{Saved(a), SavedOutput(x), f, b.shape()}, a, b);
  return x;
}

void check_sides(const Tensor& a, const Tensor& b, bool left) {
  check_square(a);
  check_matrix(b);
  check_alike(a, b);
  if (a.size(-1) == b.size(left ? -2 : -1)) return;
  raise<ShapeError>(
      {.problem = fmt::format("{} equations do not fit a right side of shape {}", a.size(-1), b.shape().text()),
       .details = fmt::format("the matrix has shape {}", a.shape().text())});
}

Tensor solve_either(const Tensor& a, const Tensor& b, bool left, Tensor* info) {
  if (left) return solution(a, b, info);
  return solution(a.transpose(-2, -1), b.transpose(-2, -1), info).transpose(-2, -1).contiguous();
}

// y = x⁻¹: -yᴴ g yᴴ.
struct InverseBackward {
  SavedOutput inverse;
  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor y = mH(inverse.get(self));
    return -matmul(y, matmul(g, y));
  }
};

// ---- determinants ---------------------------------------------------------------------------------------------------

/// 1 or -1 for an even or odd number of exchanges.
Tensor parity_of(const Tensor& pivots, DType dtype) {
  const Tensor moved = ne(pivots, arange(1, pivots.size(-1) + 1, 1, {DType::i32, pivots.device()}));
  return 1 - 2 * remainder(sum(moved, {-1}), 2).to(real_type(dtype));
}
Tensor determinant_of(const Factors& f) {
  return prod(f.lu.diagonal(0, -2, -1), {-1}) * parity_of(f.pivots, f.lu.dtype());
}

// The determinants of x without row i and column j, with their signs, recorded: defined and differentiable for every
// rank.
Tensor cofactors(const Tensor& x) {
  const int64_t n = x.size(-1);
  const Dims batch(x.sizes().first(static_cast<size_t>(x.dim() - 2)));
  const auto sized = [&](std::initializer_list<int64_t> last) {
    Dims shape = batch;
    for (const int64_t size : last) shape.push_back(size);
    return shape;
  };
  const Tensor at = arange(0, n, 1, {DType::i64, x.device()});
  const Tensor others = masked_select(at.expand({n, n}), ne(by_columns(at), by_rows(at)));  // n - 1 for each of n
  const Tensor rows = index_select(x, -2, others), both = index_select(rows, -1, others);
  const Tensor minors = both.reshape(sized({n, n - 1, n, n - 1})).transpose(-3, -2);
  const Tensor signs = 1 - 2 * remainder(by_columns(at) + by_rows(at), 2);
  return linalg::det(minors) * signs;
}

// The transposed adjugate of real matrices, recorded, of singular ones too: of x = u diag(s) v it is det(u) det(v)
// u diag(products of the other s) v. Equal s have no second derivative.
Tensor transposed_adjugate(const Tensor& x) {
  const auto [u, s, v] = svd(x, false);
  const int64_t n = x.size(-1);
  const Tensor own = eye(n, {}, {DType::boolean, x.device()});
  const Tensor others = prod(masked_fill(by_columns(s).expand(x.sizes()), own, 1), {-1});
  Tensor sign;
  {
    const NoGradGuard unrecorded;
    sign = round(det(u) * det(v));
  }
  return matmul(u * by_columns(others), v) * by_rows(by_rows(sign));
}

// The adjoint of the adjugate, conj(det(x)) x⁻ᴴ. Where a pivot is 0, it is replaced by one that is hardly more.
struct DeterminantBackward {
  Saved x;
  SavedOutput determinant;
  Factors factors;

  static constexpr int64_t most_minors = 64;  // n² determinants of n - 1 rows

  // Whether derivatives by the inverse would lose their digits.
  bool is_nearly_singular() const {
    const NoGradGuard unrecorded;
    const Tensor pivots = abs(factors.lu.diagonal(0, -2, -1));
    const int64_t n = pivots.size(-1);
    const double epsilon = machine_epsilon(pivots.dtype());
    const double least = n <= most_minors ? std::sqrt(epsilon) : epsilon * static_cast<double>(n);
    return any(amin(pivots, {-1}) <= amax(pivots, {-1}) * least).item<bool>();
  }
  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor& a = x.get(self);
    const Tensor one = eye(a.size(-1), {}, {a.dtype(), a.device()});
    if (a.numel() == 0) return zeros_like(a);
    if (recording()) {
      const bool singular = !is_meta(a) && is_nearly_singular();
      if (singular && a.size(-1) <= most_minors) return by_rows(by_rows(g)) * conjugate(cofactors(a));
      if (singular && !is_complex(a.dtype())) return by_rows(by_rows(g)) * transposed_adjugate(a);
      return by_rows(by_rows(g * conjugate(determinant.get(self)))) * solution(mH(a), one);
    }
    const Tensor pivots = factors.lu.diagonal(0, -2, -1);
    const double epsilon = machine_epsilon(real_type(a.dtype()));
    const Tensor size = amax(abs(pivots), {-1}, true) * epsilon;
    const Tensor least = masked_fill(maximum(size, epsilon * 1e-3), ne(pivots, 0), 0);
    const Factors regular{factors.lu + diag_embed(least.expand(pivots.shape())), factors.pivots, {}};
    return by_rows(by_rows(g * conjugate(determinant_of(regular)))) * solved_with(regular, one, true);
  }
};

// (g - i im(conj(gs) s)) x⁻ᴴ for the logarithm's gradient g and that of the sign s, which moves where it is complex.
struct LogarithmBackward {
  Saved x;
  SavedOutput sign;
  Factors factors;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor& a = x.get(self);
    Tensor g = incoming[1];
    if (is_complex(a.dtype()) && incoming[0].defined()) {
      const Tensor turn = imag(conjugate(incoming[0]) * sign.get(self, 0));
      g = complex(g.defined() ? g : zeros_like(turn), -turn);
    }
    if (!g.defined()) return;  // a real sign does not move
    const Tensor one = eye(a.size(-1), {}, {a.dtype(), a.device()});
    const Tensor inverse = recording() ? solution(mH(a), one) : solved_with(factors, one, true);
    outgoing[0] = by_rows(by_rows(g)) * inverse;
  }
};

// x on the CPU or meta.
SignAndLogarithm sign_and_logarithm(const Tensor& x) {
  const Factors f = factored(x);
  SignAndLogarithm out;
  {
    const NoGradGuard unrecorded;
    const Tensor pivots = f.lu.diagonal(0, -2, -1);
    out.sign = prod(sgn(pivots), {-1}) * parity_of(f.pivots, x.dtype());
    out.logabsdet = sum(log(abs(pivots)), {-1});
  }
  if (should_record(x)) {
    const Tensor results[] = {out.sign, out.logabsdet}, inputs[] = {x};
    record_results(results, inputs, LogarithmBackward{Saved(x), SavedOutput(out.sign), f});
  }
  return out;
}

}  // namespace

namespace {

LuFactor packed(const Tensor& operand, Tensor* info) {
  check_matrix(operand);
  const Home home(operand);
  const Tensor x = brought(operand);
  const Factors f = factored(x);
  if (info != nullptr) *info = home(f.info);
  else check_regular(f);
  if (should_record(x)) record(f.lu, PackedBackward{SavedOutput(f.lu), f.pivots}, x);
  return {home(f.lu), home(f.pivots)};
}

}  // namespace

LuFactor lu_factor(const Tensor& x, Location where) {
  const CallScope call("linalg_lu_factor", where);
  WEFT_IN_FULL(linalg::lu_factor, x, where);
  return packed(x, nullptr);
}
LuFactorAndInfo lu_factor_ex(const Tensor& x, Location where) {
  const CallScope call("linalg_lu_factor_ex", where);
  WEFT_IN_FULL(linalg::lu_factor_ex, x, where);
  LuFactorAndInfo out;
  const LuFactor f = packed(x, &out.info);
  out.lu = f.lu;
  out.pivots = f.pivots;
  return out;
}

Lu lu(const Tensor& operand, Location where) {
  const CallScope call("linalg_lu", where);
  WEFT_IN_FULL(linalg::lu, operand, where);
  check_matrix(operand);
  const Home home(operand);
  const Tensor x = brought(operand);
  const Factors f = factored(x);
  if (should_record(x)) record(f.lu, PackedBackward{SavedOutput(f.lu), f.pivots}, x);
  const Triangles t = unpacked(f.lu);
  return {home(permutation_of(f.pivots, x.size(-2), x.dtype())), home(t.l), home(t.u)};
}

Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left, bool adjoint, Location where) {
  const CallScope call("linalg_lu_solve", where);
  WEFT_IN_FULL(linalg::lu_solve, lu, pivots, b, left, adjoint, where);
  check_sides(lu, b, left);
  expect_dtype("pivots", checked(pivots), DType::i32);
  Dims expected = lu.shape();
  expected.erase(expected.size() - 1);
  if (!(pivots.shape() == expected)) {
    raise<ShapeError>({.problem = fmt::format("pivots of shape {} do not fit factors of shape {}",
                                              pivots.shape().text(), lu.shape().text())});
  }
  check_same_device({&lu, &pivots});
  common_batch(lu, b);
  const Home home(b);
  const Tensor factors = brought(lu), rows = is_meta(pivots) ? pivots : pivots.to(Device());
  if (!is_meta(rows)) {
    check_elements([rows, n = lu.size(-1)] {
      if (all(logical_and(rows >= 1, rows <= n)).item<bool>()) return;
      raise<ValueError>({.problem = fmt::format("pivots name rows from 1 to {}, and one of them another", n)});
    });
  }
  const Tensor right = left ? brought(b) : mH(brought(b));
  const bool turned = left == adjoint;
  Tensor x;
  if (!should_record(factors, right)) {
    x = solved_with({factors.contiguous(), rows.contiguous(), {}}, right, turned);
  } else {
    const Triangles t = unpacked(factors);
    const Tensor p = permutation_of(rows, factors.size(-1), factors.dtype());
    x = turned ? matmul(p, solve_triangular(mH(t.l), solve_triangular(mH(t.u), right, false), true, true, true))
               : solve_triangular(t.u, solve_triangular(t.l, matmul(mH(p), right), false, true, true), true);
  }
  return home(left ? x : mH(x).contiguous());
}

namespace {

Tensor solved(const Tensor& a, const Tensor& b, bool left, Tensor* info) {
  check_square(a);
  check_alike(a, b);
  Dims vectors = a.shape();
  vectors.erase(vectors.size() - 1);
  const bool vector = b.dim() == 1 || (b.dim() + 1 == a.dim() && b.shape() == vectors);
  const Tensor right = vector ? b.unsqueeze(left ? -1 : -2) : b;
  check_sides(a, right, left);
  const Home home(b);
  const Tensor x = home(solve_either(brought(a), brought(right), left, info));
  if (info != nullptr) *info = home(*info);
  return vector ? x.squeeze(left ? -1 : -2) : x;
}

Tensor inverted(const Tensor& operand, Tensor* info) {
  check_square(operand);
  const Home home(operand);
  const Tensor x = brought(operand);
  Tensor inverse;
  {
    const NoGradGuard unrecorded;
    inverse = solution(x.detach(), eye(x.size(-1), {}, {x.dtype(), x.device()}), info);
  }
  if (should_record(x)) record(inverse, InverseBackward{SavedOutput(inverse)}, x);
  if (info != nullptr) *info = home(*info);
  return home(inverse);
}

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b, bool left, Location where) {
  const CallScope call("linalg_solve", where);
  WEFT_IN_FULL(linalg::solve, a, b, left, where);
  return solved(a, b, left, nullptr);
}
ResultAndInfo solve_ex(const Tensor& a, const Tensor& b, bool left, bool check_errors, Location where) {
  const CallScope call("linalg_solve_ex", where);
  WEFT_IN_FULL(linalg::solve_ex, a, b, left, check_errors, where);
  ResultAndInfo out;
  out.result = solved(a, b, left, check_errors ? nullptr : &out.info);
  if (check_errors) out.info = zeros(batch_of(a), {DType::i32, a.device()});
  return out;
}

Tensor inv(const Tensor& x, Location where) {
  const CallScope call("linalg_inv", where);
  WEFT_IN_FULL(linalg::inv, x, where);
  return inverted(x, nullptr);
}
ResultAndInfo inv_ex(const Tensor& x, bool check_errors, Location where) {
  const CallScope call("linalg_inv_ex", where);
  WEFT_IN_FULL(linalg::inv_ex, x, check_errors, where);
  ResultAndInfo out;
  out.result = inverted(x, check_errors ? nullptr : &out.info);
  if (check_errors) out.info = zeros(batch_of(x), {DType::i32, x.device()});
  return out;
}

Tensor det(const Tensor& operand, Location where) {
  const CallScope call("linalg_det", where);
  WEFT_IN_FULL(linalg::det, operand, where);
  check_square(operand);
  const Home home(operand);
  const Tensor x = brought(operand);
  const Factors f = factored(x);
  Tensor out;
  {
    const NoGradGuard unrecorded;
    out = determinant_of(f);
  }
  if (should_record(x)) record(out, DeterminantBackward{Saved(x), SavedOutput(out), f}, x);
  return home(out);
}

SignAndLogarithm slogdet(const Tensor& operand, Location where) {
  const CallScope call("linalg_slogdet", where);
  WEFT_IN_FULL(linalg::slogdet, operand, where);
  check_square(operand);
  const Home home(operand);
  const SignAndLogarithm out = sign_and_logarithm(brought(operand));
  return {home(out.sign), home(out.logabsdet)};
}

Tensor logdet(const Tensor& operand, Location where) {
  const CallScope call("logdet", where);
  WEFT_IN_FULL(linalg::logdet, operand, where);
  check_square(operand);
  const Home home(operand);
  const SignAndLogarithm out = sign_and_logarithm(brought(operand));
  if (is_complex(operand.dtype())) return home(log(out.sign) + out.logabsdet);
  return home(weft::where(out.sign < 0, out.sign * NAN, out.logabsdet));
}

namespace {

std::vector<Tensor> call_solve_ex(const Tensor& a, const Tensor& b, bool left, bool check_errors) {
  auto [result, info] = solve_ex(a, b, left, check_errors);
  return {result, info};
}
std::vector<Tensor> call_inv_ex(const Tensor& x, bool check_errors) {
  auto [inverse, info] = inv_ex(x, check_errors);
  return {inverse, info};
}
std::vector<Tensor> call_lu_factor(const Tensor& x) {
  auto [lu, pivots] = lu_factor(x);
  return {lu, pivots};
}
std::vector<Tensor> call_lu_factor_ex(const Tensor& x, bool check_errors) {
  if (check_errors) {
    auto [lu, pivots] = lu_factor(x);
    return {lu, pivots, zeros(batch_of(x), {DType::i32, x.device()})};
  }
  auto [lu, pivots, info] = lu_factor_ex(x);
  return {lu, pivots, info};
}
std::vector<Tensor> call_lu(const Tensor& x) {
  auto [p, l, u] = lu(x);
  return {p, l, u};
}
std::vector<Tensor> call_slogdet(const Tensor& x) {
  auto [sign, logarithm] = slogdet(x);
  return {sign, logarithm};
}

std::vector<Values> factor_samples(SampleMaker& make) {
  return {{samples::regular(make, {3, 3})},
          {samples::regular(make, {2, 4, 2})},
          {samples::regular(make, {2, 2, 3})},
          {samples::regular(make, {5, 3, 3})},
          {make.tensor({0, 0})},
          {make.tensor({2, 0, 3})}};
}
std::vector<Values> square_samples(SampleMaker& make) {
  return {{samples::regular(make, {3, 3})},
          {samples::regular(make, {2, 1, 2, 2})},
          {samples::regular(make, {5, 4, 4})},
          {samples::regular(make, {1, 1})},
          {make.tensor({0, 0})},
          {make.tensor({0, 3, 3})}};
}
std::vector<Values> solve_samples(SampleMaker& make) {
  return {{samples::regular(make, {3, 3}), make.tensor({3, 2})},
          {samples::regular(make, {3, 3}), make.tensor({3})},
          {samples::regular(make, {2, 3, 3}), make.tensor({2, 3})},
          {samples::regular(make, {5, 1, 2, 2}), make.tensor({3, 2, 1})},
          {samples::regular(make, {2, 2}), make.tensor({4, 2, 3})},
          {samples::regular(make, {2, 2}), make.tensor({4, 3, 2}), false},
          {make.tensor({0, 0}), make.tensor({0, 2})},
          {samples::regular(make, {2, 2}), make.tensor({2, 0})}};
}
std::vector<Values> lu_solve_samples(SampleMaker& make) {
  const auto pivots = [&](const Dims& shape, int64_t n) {
    return (arange(1, n + 1, 1, {DType::i32, make.device()}) * ones(shape, {DType::i32, make.device()})).contiguous();
  };
  return {{samples::regular(make, {3, 3}), pivots({3}, 3), make.tensor({3, 2})},
          {samples::regular(make, {2, 3, 3}), pivots({2, 3}, 3), make.tensor({2, 3, 1}), true, true},
          {samples::regular(make, {2, 2}), pivots({2}, 2), make.tensor({3, 4, 2}), false},
          {make.tensor({0, 0}), pivots({0}, 0), make.tensor({0, 2})}};
}

constexpr OpRecord records[] = {
    {"linalg_lu_factor", "linalg_lu_factor(x) -> (LU, pivots)",
     "x = p l u with row exchanges, l and u packed into LU; row j was exchanged with row pivots[j], both from 1. "
     "LinAlgError where x is singular.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, factor_samples, parts::all_but_last<2>,
     detail::boxed<call_lu_factor>},
    {"linalg_lu_factor_ex", "linalg_lu_factor_ex(x, *, check_errors=False) -> (LU, pivots, info)",
     "linalg_lu_factor, and for each matrix the number, from 1, of its first pivot that is 0, or 0.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, factor_samples, parts::all_but_last<2>,
     detail::boxed<call_lu_factor_ex>},
    {"linalg_lu", "linalg_lu(x) -> (P, L, U)", "x = P L U: P is a permutation, L has ones on its diagonal.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, factor_samples, parts::whole, detail::boxed<call_lu>},
    {"linalg_lu_solve", "linalg_lu_solve(LU, pivots, b, left=True, adjoint=False)",
     "The solution of a x = b, of x a = b, or of aᴴ x = b, from linalg_lu_factor(a).", OpFacts(true, Autocast::full),
     OpRecord::Domain::floating, lu_solve_samples, parts::whole, detail::boxed<linalg::lu_solve>},
    {"linalg_solve", "linalg_solve(a, b, left=True)",
     "The solution of a x = b, or of x a = b; b holds matrices, or vectors where it is 1-d or has a's shape without "
     "the "
     "last dimension. LinAlgError where a is singular.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, solve_samples, parts::whole,
     detail::boxed<linalg::solve>},
    {"linalg_solve_ex", "linalg_solve_ex(a, b, *, left=True, check_errors=False) -> (result, info)",
     "linalg_solve, and for each matrix the number, from 1, of its first pivot that is 0, or 0.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, solve_samples, parts::whole,
     detail::boxed<call_solve_ex>},
    {"linalg_inv_ex", "linalg_inv_ex(x, *, check_errors=False) -> (inverse, info)",
     "linalg_inv, and for each matrix the number, from 1, of its first pivot that is 0, or 0.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, square_samples, parts::all_but_last<2>,
     detail::boxed<call_inv_ex>},
    {"linalg_inv", "linalg_inv(x)", "The inverse; LinAlgError where x is singular.", OpFacts(true, Autocast::full),
     OpRecord::Domain::floating, square_samples, parts::all_but_last<2>, detail::boxed<linalg::inv>},
    {"linalg_det", "linalg_det(x)", "The determinant.", OpFacts(true, Autocast::full), OpRecord::Domain::floating,
     square_samples, parts::all_but_last<2>, detail::boxed<linalg::det>},
    {"linalg_slogdet", "linalg_slogdet(x) -> (sign, logabsdet)",
     "The determinant's sign, a number of magnitude 1, and the logarithm of its magnitude.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, square_samples, parts::all_but_last<2>,
     detail::boxed<call_slogdet>},
    {"logdet", "logdet(x)", "The logarithm of the determinant; NaN where it is a negative real number.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, square_samples, parts::all_but_last<2>,
     detail::boxed<linalg::logdet>},
};

}  // namespace
}  // namespace weft::linalg

namespace weft {
std::span<const OpRecord> lu_records() { return linalg::records; }
}  // namespace weft
