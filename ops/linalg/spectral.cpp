// Eigenvalues of Hermitian matrices and singular values.
#include <cmath>

#include "../detail/autocast.hpp"
#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../diagonal.hpp"
#include "../reduce.hpp"
#include "common.hpp"
#include "samples.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::linalg {

namespace {

// ---- Hermitian matrices ---------------------------------------------------------------------------------------------

// x = v diag(w) vᴴ: v (diag(gw) + vᴴ gv / (w_j - w_i)) vᴴ (Giles 2008, 3.1), made Hermitian.
struct EigenBackward {
  SavedOutput values, vectors;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor w = values.get(self, 0), v = vectors.get(self, 1);
    Tensor inside;
    if (incoming[1].defined()) {
      const Tensor along = matmul(mH(v), incoming[1]);
      check_phase(along);
      inside = over_differences(along, w, along, along);
    }
    if (incoming[0].defined()) {
      const Tensor diagonal = diag_embed(incoming[0]).to(v.dtype());
      inside = inside.defined() ? inside + diagonal : diagonal;
    }
    if (!inside.defined()) return;
    outgoing[0] = matmul(v, matmul((inside + mH(inside)) * 0.5, mH(v)));
  }
};

// x on the CPU or meta.
Eigen eigen_of(const Tensor& x, bool upper, bool with_vectors) {
  const Dims batch = batch_of(x);
  const int64_t n = x.size(-1);
  const Tensor values = make(with(batch, {n}), real_type(x.dtype()), x.device());
  const Tensor info = make(batch, DType::i32, x.device());
  const Tensor vectors = with_vectors ? make(x.sizes(), x.dtype(), x.device()) : Tensor();
  const Tensor held = dense(x, batch);  // it may be a copy, which nobody else holds
  const View a = batched(held, 2);
  if (with_vectors) {
    run(
        "symmetric_eigen", {batched(values, 1), batched(vectors, 2), batched(info, 0)}, {a},
        [](const View* v, bool up, bool) { cpu::symmetric_eigen(v[0], v[1], v[2], v[3], up); }, upper);
  } else {
    run(
        "symmetric_eigen", {batched(values, 1), batched(info, 0)}, {a},
        [](const View* v, bool up, bool) { cpu::symmetric_eigen(v[0], View{}, v[1], v[2], up); }, upper);
  }
  check_converged(info);
  if (should_record(x)) {
    const Tensor results[] = {values, vectors}, inputs[] = {x};
    record_results(results, inputs, EigenBackward{SavedOutput(values), SavedOutput(vectors)});
  }
  return {values, vectors};
}

// ---- singular values ------------------------------------------------------------------------------------------------

// x = u diag(s) vh (Townsend 2016; PyTorch's svd_backward). Vectors beyond min(m, n) add nothing.
struct SvdBackward {
  SavedOutput u, s, vh;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor values = s.get(self, 1);
    const int64_t k = values.size(-1);
    const Tensor left = u.get(self, 0).narrow(-1, 0, k), right = mH(vh.get(self, 2).narrow(-2, 0, k));
    const int64_t m = left.size(-2), n = right.size(-2);
    const auto skew = [](const Tensor& x) { return x - mH(x); };
    Tensor inside, out;
    const auto add = [](Tensor& to, const Tensor& more) { to = to.defined() ? to + more : more; };
    // 0 if a value is 0 and the loss does not depend on the choice of its vector.
    const auto over_values = [&](const Tensor& rest, const Tensor& gradient) {
      if (rest.numel() == 0) return rest;
      Tensor idle;
      {
        const NoGradGuard unrecorded;
        const Tensor zero = are_negligible(by_columns(values), by_rows(amax(values, {-1}, true)));
        idle = logical_and(zero, are_negligible(rest, amax(abs(gradient), {-2}, true)));
      }
      return masked_fill(rest / masked_fill(by_columns(values), idle, 1), idle, 0);
    };
    Tensor products, turned;  // of both vectors and their gradients
    if (incoming[0].defined()) {
      const Tensor gu = incoming[0].narrow(-1, 0, k), along = matmul(mH(left), gu);
      add(products, along);
      // A common phase of both vectors is free; only the phase of u alone remains.
      if (is_complex(along.dtype())) add(inside, diag_embed(skew(along).diagonal(0, -2, -1) / (2 * values)));
      add(turned, skew(along) * by_columns(values));
      if (m > k) add(out, matmul(over_values(gu - matmul(left, along), gu), mH(right)));
    }
    if (incoming[2].defined()) {
      const Tensor gv = mH(incoming[2].narrow(-2, 0, k)), along = matmul(mH(right), gv);
      add(products, along);
      add(turned, by_rows(values) * skew(along));
      if (n > k) add(out, matmul(left, mH(over_values(gv - matmul(right, along), gv))));
    }
    if (products.defined()) {
      check_phase(products);
      add(inside, over_differences(turned, square(values), products, products));
    }
    if (incoming[1].defined()) add(inside, diag_embed(incoming[1]).to(left.dtype()));
    if (inside.defined()) add(out, matmul(left, matmul(inside, mH(right))));
    if (out.defined()) outgoing[0] = out;
  }
};

// x on the CPU or meta.
Svd svd_of(const Tensor& x, bool full) {
  const Dims batch = batch_of(x);
  const int64_t m = x.size(-2), n = x.size(-1), k = std::min(m, n);
  const auto made = [&](std::initializer_list<int64_t> sizes) {
    return make(with(batch, sizes), x.dtype(), x.device());
  };
  const Tensor u = made({m, full ? m : k}), vh = made({full ? n : k, n});
  const Tensor s = make(with(batch, {k}), real_type(x.dtype()), x.device());
  const Tensor info = make(batch, DType::i32, x.device());
  run("singular_values", {batched(u, 2), batched(s, 1), batched(vh, 2), batched(info, 0)},
      {batched(dense(x, batch), 2)},
      [](const View* v, bool, bool) { cpu::singular_values(v[0], v[1], v[2], v[3], v[4]); });
  check_converged(info);
  if (should_record(x)) {
    const Tensor results[] = {u, s, vh}, inputs[] = {x};
    record_results(results, inputs, SvdBackward{SavedOutput(u), SavedOutput(s), SavedOutput(vh)});
  }
  return {u, s, vh};
}

Tensor singular_of(const Tensor& x) {
  if (should_record(x)) return svd_of(x, false).s;
  const Dims batch = batch_of(x);
  const Tensor s = make(with(batch, {std::min(x.size(-2), x.size(-1))}), real_type(x.dtype()), x.device());
  const Tensor info = make(batch, DType::i32, x.device());
  run("singular_values", {batched(s, 1), batched(info, 0)}, {batched(dense(x, batch), 2)},
      [](const View* v, bool, bool) { cpu::singular_values(View{}, v[0], View{}, v[1], v[2]); });
  check_converged(info);
  return s;
}

}  // namespace

Eigen eigh(const Tensor& operand, bool upper, Location where) {
  const CallScope call("linalg_eigh", where);
  WEFT_IN_FULL(linalg::eigh, operand, upper, where);
  check_square(operand);
  const Home home(operand);
  const Eigen out = eigen_of(brought(operand), upper, true);
  return {home(out.values), home(out.vectors)};
}

Tensor eigvalsh(const Tensor& operand, bool upper, Location where) {
  const CallScope call("linalg_eigvalsh", where);
  WEFT_IN_FULL(linalg::eigvalsh, operand, upper, where);
  check_square(operand);
  const Home home(operand);
  const Tensor x = brought(operand);
  return home(eigen_of(x, upper, should_record(x)).values);
}

Svd svd(const Tensor& operand, bool full_matrices, Location where) {
  const CallScope call("linalg_svd", where);
  WEFT_IN_FULL(linalg::svd, operand, full_matrices, where);
  check_matrix(operand);
  const Home home(operand);
  const Svd out = svd_of(brought(operand), full_matrices);
  return {home(out.u), home(out.s), home(out.vh)};
}

Tensor svdvals(const Tensor& operand, Location where) {
  const CallScope call("linalg_svdvals", where);
  WEFT_IN_FULL(linalg::svdvals, operand, where);
  check_matrix(operand);
  const Home home(operand);
  return home(singular_of(brought(operand)));
}

namespace {

bool upper_in(const std::string& triangle) {
  if (triangle == "L" || triangle == "U") return triangle == "U";
  raise_value("UPLO", "'L' or 'U'", in_quotes(triangle));
}
std::vector<Tensor> call_eigh(const Tensor& x, const std::string& triangle) {
  const CallScope call("linalg_eigh");
  auto [values, vectors] = eigh(x, upper_in(triangle));
  return {values, vectors};
}
Tensor call_eigvalsh(const Tensor& x, const std::string& triangle) {
  const CallScope call("linalg_eigvalsh");
  return eigvalsh(x, upper_in(triangle));
}
std::vector<Tensor> call_svd(const Tensor& x, bool full_matrices) {
  auto [u, s, vh] = svd(x, full_matrices);
  return {u, s, vh};
}

std::vector<Values> symmetric_samples(SampleMaker& make) {
  return {{samples::symmetric(make, {3, 3})},
          {samples::symmetric(make, {2, 2, 2})},
          {samples::symmetric(make, {4, 4}), "U"},
          {samples::symmetric(make, {1, 1})},
          {make.tensor({0, 0})},
          {make.tensor({0, 2, 2})}};
}
std::vector<Values> svd_samples(SampleMaker& make) {
  return {{samples::spread(make, {3, 3})},
          {samples::spread(make, {4, 2}), false},
          {samples::spread(make, {2, 2, 3}), false},
          {samples::spread(make, {5, 2, 2})},
          {make.tensor({0, 2})},
          {make.tensor({0, 2, 3}), false}};
}
std::vector<Values> value_samples(SampleMaker& make) {
  return {{samples::spread(make, {3, 3})},    {samples::spread(make, {4, 2})}, {samples::spread(make, {2, 2, 3})},
          {samples::spread(make, {5, 2, 2})}, {make.tensor({0, 2})},           {make.tensor({0, 2, 3})}};
}

constexpr OpRecord records[] = {
    {"linalg_eigh", "linalg_eigh(x, UPLO='L') -> (eigenvalues, eigenvectors)",
     "Eigenvalues in ascending order and eigenvectors, in columns, of a Hermitian x, of which one triangle is read.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, symmetric_samples, parts::all_but_last<2>,
     detail::boxed<call_eigh>},
    {"linalg_eigvalsh", "linalg_eigvalsh(x, UPLO='L')",
     "Eigenvalues in ascending order of a Hermitian x, of which one triangle is read.", OpFacts(true, Autocast::full),
     OpRecord::Domain::floating, symmetric_samples, parts::all_but_last<2>, detail::boxed<call_eigvalsh>},
    {"linalg_svd", "linalg_svd(x, full_matrices=True) -> (U, S, Vh)",
     "x = u diag(s) vh with singular values s in descending order; without full_matrices u and vh have min(m, n) "
     "columns "
     "and rows.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, svd_samples, parts::all_but_last<2>,
     detail::boxed<call_svd>},
    {"linalg_svdvals", "linalg_svdvals(x)", "Singular values in descending order.", OpFacts(true, Autocast::full),
     OpRecord::Domain::floating, value_samples, parts::all_but_last<2>, detail::boxed<linalg::svdvals>},
};

}  // namespace
}  // namespace weft::linalg

namespace weft {
std::span<const OpRecord> spectral_records() { return linalg::records; }
}  // namespace weft
