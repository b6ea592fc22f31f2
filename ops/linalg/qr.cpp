// QR factors and products of reflections.
#include <cmath>

#include "../complex.hpp"
#include "../detail/autocast.hpp"
#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../diagonal.hpp"
#include "../join.hpp"
#include "common.hpp"
#include "samples.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::linalg {

namespace {

// The gradient of x = q r with m >= n: (gq + q (l + lᴴ, diagonal counted once)) r⁻ᴴ. l is the lower triangle of r grᴴ -
// gqᴴ q with a real diagonal, like r's (Liao et al. 2019).
Tensor tall_gradient(const Tensor& gq, const Tensor& gr, const Tensor& q, const Tensor& r) {
  const Tensor inside = matmul(r, mH(gr)) - matmul(mH(gq), q);
  const Tensor below = tril(inside, -1);
  const Tensor lower = below + mH(below) + diag_embed(real(inside.diagonal(0, -2, -1)));
  const Tensor sum = gq + matmul(q, lower);
  return mH(solve_triangular(r, mH(sum), true));  // times r⁻ᴴ
}

struct QrBackward {
  SavedOutput q, r;
  QrMode mode;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor left = q.get(self, 0), right = r.get(self, 1);
    const int64_t m = left.size(-2), n = right.size(-1), k = std::min(m, n);
    if (mode == QrMode::r) {
      raise<AutogradError>({.problem = "mode r has no gradient", .remedy = "use QrMode::reduced"});
    }
    if (left.size(-1) > k) {
      raise<AutogradError>(
          {.problem = fmt::format("the complete factors of {} rows and {} columns have no gradient", m, n),
           .remedy = "use QrMode::reduced"});
    }
    const Tensor gq = incoming[0].defined() ? incoming[0] : zeros_like(left);
    const Tensor gr = incoming[1].defined() ? incoming[1] : zeros_like(right);
    if (m >= n) {
      outgoing[0] = tall_gradient(gq, gr, left, right);
      return;
    }
    // The first m columns are q u, the others y = q v.
    const Tensor u = right.narrow(-1, 0, m), v = right.narrow(-1, m, n - m), gv = gr.narrow(-1, m, n - m);
    const Tensor y = matmul(left, v);
    const Tensor first = tall_gradient(gq + matmul(y, mH(gv)), gr.narrow(-1, 0, m), left, u);
    outgoing[0] = cat({first, matmul(left, gv)}, -1);
  }
};

}  // namespace

Qr qr(const Tensor& operand, QrMode mode, Location where) {
  const CallScope call("linalg_qr", where);
  WEFT_IN_FULL(linalg::qr, operand, mode, where);
  check_matrix(operand);
  const Home home(operand);
  const Tensor x = brought(operand);
  const Dims batch = batch_of(x);
  const int64_t m = x.size(-2), n = x.size(-1), k = std::min(m, n);
  const int64_t columns = mode == QrMode::complete ? m : k;
  const Tensor r = make(with(batch, {columns, n}), x.dtype(), x.device());
  const Tensor q =
      mode == QrMode::r ? make(Dims{0}, x.dtype(), x.device()) : make(with(batch, {m, columns}), x.dtype(), x.device());
  if (mode == QrMode::r) {
    run("qr", {batched(r, 2)}, {batched(dense(x, batch), 2)}, [](const View* v, bool, bool) {
      cpu::qr(View{nullptr, v[0].layout}, v[0], v[1]);
    });
  } else {
    run("qr", {batched(q, 2), batched(r, 2)}, {batched(dense(x, batch), 2)},
        [](const View* v, bool, bool) { cpu::qr(v[0], v[1], v[2]); });
  }
  if (should_record(x)) {
    const Tensor results[] = {q, r}, inputs[] = {x};
    record_results(results, inputs, QrBackward{SavedOutput(q), SavedOutput(r), mode});
  }
  return {home(q), home(r)};
}

namespace {

// (I - tau v vᴴ) after one another, for gradients.
Tensor product_by_ops(const Tensor& x, const Tensor& tau) {
  const int64_t m = x.size(-2), n = x.size(-1);
  Tensor q = eye(m, n, {x.dtype(), x.device()}).expand(x.shape());
  const Tensor columns = tril(x, -1) + eye(m, n, {x.dtype(), x.device()});
  if (tau.size(-1) == 0) return q + 0 * x;
  for (int64_t j = tau.size(-1) - 1; j >= 0; --j) {
    const Tensor v = columns.narrow(-1, j, 1);
    q = q - by_rows(tau.narrow(-1, j, 1)) * matmul(v, matmul(mH(v), q));
  }
  return q;
}

}  // namespace

Tensor householder_product(const Tensor& operand, const Tensor& tau, Location where) {
  const CallScope call("linalg_householder_product", where);
  WEFT_IN_FULL(linalg::householder_product, operand, tau, where);
  check_matrix(operand);
  check_alike(operand, tau);
  const int64_t m = operand.size(-2), n = operand.size(-1);
  if (m < n) raise<ShapeError>({.problem = fmt::format("{} rows cannot hold {} reflections", m, n)});
  const Dims batch = batch_of(operand);
  const bool fits = tau.dim() + 1 == operand.dim() && tau.size(-1) <= n &&
                    Dims(std::span<const int64_t>(tau.sizes()).first(static_cast<size_t>(tau.dim() - 1))) == batch;
  if (!fits) {
    raise<ShapeError>({.problem = fmt::format("factors of shape {} do not fit reflections of shape {}",
                                              tau.shape().text(), operand.shape().text())});
  }
  const Home home(operand);
  const Tensor x = brought(operand), factors = brought(tau);
  if (should_record(x, factors)) return home(product_by_ops(x, factors));
  const Tensor q = make(x.sizes(), x.dtype(), x.device());
  run("householder_product", {batched(q, 2)}, {batched(dense(x, batch), 2), batched(factors.contiguous(), 1)},
      [](const View* v, bool, bool) { cpu::reflections(v[0], v[1], v[2]); });
  return home(q);
}

namespace {

std::vector<Tensor> call_qr(const Tensor& x, const std::string& mode) {
  const CallScope call("linalg_qr");
  QrMode m = QrMode::reduced;
  if (mode == "complete") m = QrMode::complete;
  else if (mode == "r") m = QrMode::r;
  else if (mode != "reduced") raise_value("mode", "'reduced', 'complete' or 'r'", in_quotes(mode));
  auto [q, r] = qr(x, m);
  return {q, r};
}

std::vector<Values> qr_samples(SampleMaker& make) {
  return {{samples::regular(make, {3, 3})},
          {samples::regular(make, {4, 2})},
          {samples::regular(make, {2, 2, 3})},
          {samples::regular(make, {2, 3, 3}), "complete"},
          {make.tensor({0, 2})},
          {make.tensor({2, 3, 0})}};
}
std::vector<Values> product_samples(SampleMaker& make) {
  return {{make.tensor({3, 3}), make.tensor({3}, 0.5, 1.5)},
          {make.tensor({2, 4, 2}), make.tensor({2, 2}, 0.5, 1.5)},
          {make.tensor({3, 2}), make.tensor({1}, 0.5, 1.5)},
          {make.tensor({3, 0}), make.tensor({0})}};
}

constexpr OpRecord records[] = {
    {"linalg_qr", "linalg_qr(x, mode='reduced') -> (Q, R)",
     "x = q r: q has orthonormal columns, r is upper triangular; with 'complete' q is square, with 'r' it is left "
     "empty.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, qr_samples, parts::whole, detail::boxed<call_qr>},
    {"linalg_householder_product", "linalg_householder_product(x, tau)",
     "The first columns of the product of the reflections I - tau[i] v vᴴ, where v is column i of x below the "
     "diagonal, "
     "with a 1 on it.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, product_samples, parts::whole,
     detail::boxed<linalg::householder_product>},
};

}  // namespace
}  // namespace weft::linalg

namespace weft {
std::span<const OpRecord> qr_records() { return linalg::records; }
}  // namespace weft
