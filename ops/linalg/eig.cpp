// Eigenvalues of any square matrices.
#include "../complex.hpp"
#include "../detail/autocast.hpp"
#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../diagonal.hpp"
#include "common.hpp"
#include "samples.hpp"

namespace weft::linalg {

namespace {

// x v = v diag(w): v⁻ᴴ (diag(gw) + (vᴴ gv - vᴴ v re(diag(vᴴ gv))) / conj(w_j - w_i)) vᴴ, where the second term keeps
// the vectors' lengths (Boeddeker et al. 2017; PyTorch's linalg_eig_backward).
struct EigBackward {
  SavedOutput values, vectors;
  DType dtype;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor w = values.get(self, 0), v = vectors.get(self, 1), vh = mH(v);
    Tensor inside;
    if (incoming[1].defined()) {
      const Tensor along = matmul(vh, incoming[1]), stretch = real(along.diagonal(0, -2, -1));
      check_phase(along);
      const Tensor turned = along - matmul(vh, v) * by_columns(stretch);
      inside = over_differences(turned, conjugate(w), turned, along);
    }
    if (incoming[0].defined()) {
      const Tensor diagonal = diag_embed(incoming[0]);
      inside = inside.defined() ? inside + diagonal : diagonal;
    }
    if (inside.defined()) outgoing[0] = in_dtype(solve(vh, matmul(inside, vh)), dtype);
  }
};

// x on the CPU or meta.
Eigen eigen_of(const Tensor& x, bool with_vectors) {
  const Dims batch = batch_of(x);
  const DType dtype = complex_type(x.dtype());
  const Tensor values = make(with(batch, {x.size(-1)}), dtype, x.device());
  const Tensor vectors = with_vectors ? make(x.sizes(), dtype, x.device()) : Tensor();
  const Tensor info = make(batch, DType::i32, x.device()), held = dense(x, batch);
  if (with_vectors) {
    run("general_eigen", {batched(values, 1), batched(vectors, 2), batched(info, 0)}, {batched(held, 2)},
        [](const View* v, bool, bool) { cpu::general_eigen(v[0], v[1], v[2], v[3]); });
  } else {
    run("general_eigen", {batched(values, 1), batched(info, 0)}, {batched(held, 2)},
        [](const View* v, bool, bool) { cpu::general_eigen(v[0], View{}, v[1], v[2]); });
  }
  check_converged(info);
  if (should_record(x)) {
    const Tensor results[] = {values, vectors}, inputs[] = {x};
    record_results(results, inputs, EigBackward{SavedOutput(values), SavedOutput(vectors), x.dtype()});
  }
  return {values, vectors};
}

}  // namespace

Eigen eig(const Tensor& operand, Location where) {
  const CallScope call("linalg_eig", where);
  WEFT_IN_FULL(linalg::eig, operand, where);
  check_square(operand);
  const Home home(operand);
  const Eigen out = eigen_of(brought(operand), true);
  return {home(out.values), home(out.vectors)};
}

Tensor eigvals(const Tensor& operand, Location where) {
  const CallScope call("linalg_eigvals", where);
  WEFT_IN_FULL(linalg::eigvals, operand, where);
  check_square(operand);
  const Home home(operand);
  const Tensor x = brought(operand);
  return home(eigen_of(x, should_record(x)).values);
}

namespace {

std::vector<Tensor> call_eig(const Tensor& x) {
  auto [values, vectors] = eig(x);
  return {values, vectors};
}

std::vector<Values> eig_samples(SampleMaker& make) {
  return {{samples::spread(make, {3, 3})},
          {samples::spread(make, {2, 2, 2})},
          {samples::spread(make, {5, 4, 4})},
          {samples::spread(make, {1, 1})},
          {make.tensor({0, 0})},
          {make.tensor({0, 2, 2})}};
}

constexpr OpRecord records[] = {
    {"linalg_eig", "linalg_eig(x) -> (eigenvalues, eigenvectors)",
     "Eigenvalues and eigenvectors, in columns of length 1, of any square x; both complex, in any order.", true,
     OpRecord::Domain::floating, eig_samples, parts::all_but_last<2>, detail::boxed<call_eig>},
    {"linalg_eigvals", "linalg_eigvals(x)", "Eigenvalues of any square x, complex, in any order.", true,
     OpRecord::Domain::floating, eig_samples, parts::all_but_last<2>, detail::boxed<linalg::eigvals>},
};

}  // namespace
}  // namespace weft::linalg

namespace weft {
std::span<const OpRecord> eig_records() { return linalg::records; }
}  // namespace weft
