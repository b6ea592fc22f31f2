// Cholesky factors, and solutions with triangles.
#include "common.hpp"

#include "../detail/autocast.hpp"
#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../diagonal.hpp"
#include "samples.hpp"

namespace weft::linalg {

namespace {

// ---- triangles ------------------------------------------------------------------------------------------------------

Tensor triangle(const Tensor& x, bool upper, bool strict) {
  return upper ? triu(x, strict ? 1 : 0) : tril(x, strict ? -1 : 0);
}

Tensor solved(const Tensor& a, const Tensor& b, bool upper, bool unit);

// x = a⁻¹ b: the gradient of b is a⁻ᴴ g, that of a its product with -xᴴ.
struct TriangleBackward {
  Saved a;
  SavedOutput x;
  Dims b_shape;
  bool upper, unit;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor& t = a.get(self);
    const Tensor gb = solved(mH(t), incoming[0], !upper, unit);
    if (self.wants(0)) {
      Tensor ga = triangle(-matmul(gb, mH(x.get(self))), upper, unit);
      outgoing[0] = sum_to(std::move(ga), t.sizes());
    }
    if (self.wants(1)) outgoing[1] = sum_to(Tensor(gb), b_shape);
  }
};

// Both on the CPU or meta, of fitting sizes.
Tensor solved(const Tensor& a, const Tensor& b, bool upper, bool unit) {
  const Dims batch = common_batch(a, b);
  const Tensor x = dense_copy(b, batch);
  if (x.numel() != 0) {
    // A transpose is read without a copy.
    const bool by_column = a.stride(-1) != 1 && a.stride(-2) == 1;
    const Tensor rows = dense(by_column ? a.detach().transpose(-2, -1) : a, batch);
    View t = batched(rows, 2);
    if (by_column) std::swap(t.layout.strides[1], t.layout.strides[2]);
    t.layout.contiguous = 0;
    run(
        "solve_triangular", {batched(x, 2)}, {t},
        [](const View* v, bool up, bool ones) { cpu::solve_triangular(v[0], v[1], up, ones); }, upper, unit);
  }
  if (should_record(a, b)) record(x, TriangleBackward{Saved(a), SavedOutput(x), b.shape(), upper, unit}, a, b);
  return x;
}

void check_right_side(const Tensor& a, const Tensor& b, bool left) {
  check_square(a);
  check_matrix(b);
  check_alike(a, b);
  if (a.size(-1) == b.size(left ? -2 : -1)) return;
  raise<ShapeError>(
      {.problem = fmt::format("{} equations do not fit a right side of shape {}", a.size(-1), b.shape().text()),
       .details = fmt::format("the matrix has shape {}", a.shape().text())});
}

// ---- Cholesky -------------------------------------------------------------------------------------------------------

// x = l lᴴ: l⁻ᴴ p l⁻¹ of p, the lower half of lᴴ g, made Hermitian (Murray 2016).
struct CholeskyBackward {
  SavedOutput factor;
  bool upper;

  Tensor operator()(Node& self, Tensor&& incoming) {
    const Tensor out = factor.get(self);
    const Tensor l = upper ? mH(out) : out, g = upper ? mH(incoming) : incoming;
    const Tensor inside = tril(matmul(mH(l), g));
    const Tensor half = inside - diag_embed(inside.diagonal(0, -2, -1)) * 0.5;
    const Tensor left = solved(mH(l), half, true, false);
    const Tensor whole = mH(solved(mH(l), mH(left), true, false));
    return (whole + mH(whole)) * 0.5;
  }
};

// x on the CPU or meta.
FactorAndInfo factored(const Tensor& x, bool upper) {
  const Tensor l = make(x.sizes(), x.dtype(), x.device()), info = make(batch_of(x), DType::i32, x.device());
  run(
      "cholesky", {batched(l, 2), batched(info, 0)}, {batched(dense(x, batch_of(x)), 2)},
      [](const View* v, bool up, bool) { cpu::cholesky(v[0], v[1], v[2], up); }, upper);
  return {l, info};
}

FactorAndInfo cholesky_of(const Tensor& operand, bool upper, bool check) {
  check_square(operand);
  const Home home(operand);
  const Tensor x = brought(operand);
  const FactorAndInfo out = factored(x, upper);
  if (check) check_info(out.info, "is not positive definite: its leading minor {} is not positive");
  if (should_record(x)) record(out.factor, CholeskyBackward{SavedOutput(out.factor), upper}, x);
  return {home(out.factor), home(out.info)};
}

}  // namespace

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unitriangular, Location where) {
  const CallScope call("linalg_solve_triangular", where);
  WEFT_IN_FULL(linalg::solve_triangular, a, b, upper, left, unitriangular, where);
  check_right_side(a, b, left);
  const Home home(b);
  const Tensor t = brought(a), right = brought(b);
  if (left) return home(solved(t, right, upper, unitriangular));
  return home(
      solved(t.transpose(-2, -1), right.transpose(-2, -1), !upper, unitriangular).transpose(-2, -1).contiguous());
}

Tensor cholesky(const Tensor& x, bool upper, Location where) {
  const CallScope call("linalg_cholesky", where);
  WEFT_IN_FULL(linalg::cholesky, x, upper, where);
  return cholesky_of(x, upper, true).factor;
}
FactorAndInfo cholesky_ex(const Tensor& x, bool upper, bool check_errors, Location where) {
  const CallScope call("linalg_cholesky_ex", where);
  WEFT_IN_FULL(linalg::cholesky_ex, x, upper, check_errors, where);
  return cholesky_of(x, upper, check_errors);
}

Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper, Location where) {
  const CallScope call("cholesky_solve", where);
  WEFT_IN_FULL(linalg::cholesky_solve, b, factor, upper, where);
  check_right_side(factor, b, true);
  const Home home(b);
  const Tensor given = triangle(brought(factor), upper, false), l = upper ? mH(given) : given;
  return home(solved(mH(l), solved(l, brought(b), false, false), true, false));
}
Tensor cholesky_inverse(const Tensor& factor, bool upper, Location where) {
  const CallScope call("cholesky_inverse", where);
  WEFT_IN_FULL(linalg::cholesky_inverse, factor, upper, where);
  check_square(factor);
  const Home home(factor);
  const Tensor given = triangle(brought(factor), upper, false), l = upper ? mH(given) : given;
  const Tensor inverse = solved(l, eye(l.size(-1), {}, {l.dtype(), l.device()}), false, false);
  return home(matmul(mH(inverse), inverse));
}

namespace {

std::vector<Tensor> call_cholesky_ex(const Tensor& x, bool upper, bool check_errors) {
  auto [factor, info] = cholesky_ex(x, upper, check_errors);
  return {factor, info};
}

std::vector<Values> cholesky_samples(SampleMaker& make) {
  return {{samples::positive(make, {3, 3})},
          {samples::positive(make, {2, 2, 4, 4})},
          {samples::positive(make, {5, 2, 2}), true},
          {samples::positive(make, {1, 1})},
          {make.tensor({0, 0})},
          {make.tensor({0, 2, 2})}};
}
std::vector<Values> triangle_samples(SampleMaker& make) {
  return {{samples::regular(make, {3, 3}), make.tensor({3, 2}), false},
          {samples::regular(make, {3, 3}), make.tensor({2, 3, 1}), true},
          {samples::regular(make, {2, 1, 3, 3}), make.tensor({4, 2, 3}), false, false},
          {samples::regular(make, {5, 4, 4}), make.tensor({5, 4, 2}), true, true, true},
          {make.tensor({0, 0}), make.tensor({0, 2}), true},
          {samples::regular(make, {2, 2}), make.tensor({2, 0}), false}};
}
std::vector<Values> factor_solve_samples(SampleMaker& make) {
  return {{make.tensor({3, 2}), samples::regular(make, {3, 3})},
          {make.tensor({2, 3, 1}), samples::regular(make, {3, 3}), true},
          {make.tensor({0, 2}), make.tensor({0, 0})}};
}
std::vector<Values> factor_samples(SampleMaker& make) {
  return {{samples::regular(make, {3, 3})}, {samples::regular(make, {2, 2, 2}), true}, {make.tensor({0, 0})}};
}

constexpr OpRecord records[] = {
    {"linalg_cholesky", "linalg_cholesky(x, upper=False)",
     "The lower triangle l with x = l lᴴ of a positive definite x, of which the lower triangle is read; with upper the "
     "upper one. LinAlgError where x is not positive definite.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, cholesky_samples, parts::all_but_last<2>,
     detail::boxed<linalg::cholesky>},
    {"linalg_cholesky_ex", "linalg_cholesky_ex(x, upper=False, *, check_errors=False) -> (L, info)",
     "linalg_cholesky, and for each matrix the number, from 1, of its first leading minor that is not positive, or 0.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, cholesky_samples, parts::all_but_last<2>,
     detail::boxed<call_cholesky_ex>},
    {"linalg_solve_triangular", "linalg_solve_triangular(a, b, upper, left=True, unitriangular=False)",
     "The solution of a x = b, or of x a = b, for a triangle a; with unitriangular its diagonal counts as ones.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, triangle_samples, parts::whole,
     detail::boxed<linalg::solve_triangular>},
    {"cholesky_solve", "cholesky_solve(b, L, upper=False)", "The solution of a x = b for the Cholesky factor L of a.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, factor_solve_samples, parts::whole,
     detail::boxed<linalg::cholesky_solve>},
    {"cholesky_inverse", "cholesky_inverse(L, upper=False)", "The inverse of the matrix whose Cholesky factor is L.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, factor_samples, parts::all_but_last<2>,
     detail::boxed<linalg::cholesky_inverse>},
};

}  // namespace
}  // namespace weft::linalg

namespace weft {
std::span<const OpRecord> triangular_records() { return linalg::records; }
}  // namespace weft
