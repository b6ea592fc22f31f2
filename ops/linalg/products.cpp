// Products of vectors and matrices with sums around them.
#include <algorithm>

#include "../../tensor/checked.hpp"
#include "../detail/autocast.hpp"
#include "../detail/parts.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../index.hpp"
#include "../rearrange.hpp"
#include "../reduce.hpp"
#include "common.hpp"
#include "samples.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

void check_same_dtype(const Tensor& a, const Tensor& b) {
  check_same_device({&checked(a), &checked(b)});
  expect_one_dtype("a and b", a, b, "convert one with to(dtype)");
}

/// f(input, a, b). Sums of 16-bit floats are computed in f32 and rounded once.
template <class F>
Tensor rounded_once(const Tensor& input, const Tensor& a, const Tensor& b, const F& f) {
  check_same_dtype(checked(input), a);
  check_same_dtype(a, b);
  return f(to_compute_type(input), to_compute_type(a), to_compute_type(b)).to(a.dtype());
}

/// beta * input + alpha * product; input broadcasts to the product.
Tensor added(const Tensor& input, const Tensor& product, Scalar beta, Scalar alpha) {
  const auto whole = broadcast(input.sizes(), product.sizes());
  if (!whole || !(*whole == product.shape())) {
    raise<ShapeError>({.problem = fmt::format("shape {} does not broadcast to the product's {}", input.shape().text(),
                                              product.shape().text())});
  }
  const auto factor = [&](Scalar x) { return whole_among_integers(x, product.dtype()); };
  const Tensor scaled = times(product, factor(alpha));
  return beta.is_zero() ? scaled : times(input, factor(beta)) + scaled;
}

}  // namespace

Tensor inner(const Tensor& a, const Tensor& b, Location where) {
  const CallScope call("inner", where);
  WEFT_IN_LOWER(inner, a, b, where);
  check_same_dtype(a, b);
  if (a.dim() == 0 || b.dim() == 0) return a * b;
  if (a.size(-1) != b.size(-1)) {
    raise<ShapeError>(
        {.problem = fmt::format("the last sizes of {} and {} differ", a.shape().text(), b.shape().text())});
  }
  return tensordot(a, b, Dims{-1}, Dims{-1});
}

Tensor vdot(const Tensor& a, const Tensor& b, Location where) {
  const CallScope call("vdot", where);
  WEFT_IN_LOWER(vdot, a, b, where);
  return dot(conjugate(a), b);
}

Tensor kron(const Tensor& a, const Tensor& b, Location where) {
  const CallScope call("kron", where);
  check_same_device({&checked(a), &checked(b)});
  const int rank = std::max(a.dim(), b.dim());
  if (rank > max_rank / 2)
    return [&]() -> Tensor {
      raise_mismatch<ShapeError>("operands", fmt::format("at most {} dimensions", max_rank / 2), rank);
    }();
  // Dimension d of the result is a's outside and b's within.
  Dims left, right, shape;
  for (int d = 0; d < rank; ++d) {
    const int i = d - (rank - a.dim()), j = d - (rank - b.dim());
    const int64_t m = i < 0 ? 1 : a.size(i), n = j < 0 ? 1 : b.size(j);
    left.push_back(m), left.push_back(1);
    right.push_back(1), right.push_back(n);
    const Checked size = Checked(m) * n;
    if (!size.fits()) {
      raise<ShapeError>({.problem = fmt::format("sizes {} and {} of {} and {} exceed 64 bits together", m, n,
                                                a.shape().text(), b.shape().text())});
    }
    shape.push_back(size.value());
  }
  return (a.reshape(left) * b.reshape(right)).reshape(shape);
}

Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha, Location where) {
  const CallScope call("baddbmm", where);
  WEFT_IN_LOWER(baddbmm, input, a, b, beta, alpha, where);
  return rounded_once(input, a, b, [&](const Tensor& x, const Tensor& left, const Tensor& right) {
    return added(x, bmm(left, right), beta, alpha);
  });
}

Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha, Location where) {
  const CallScope call("addbmm", where);
  WEFT_IN_LOWER(addbmm, input, a, b, beta, alpha, where);
  checked(input);
  expect_shape("a", a, checked(a).dim() == 3, "[b, n, k]");
  expect_shape("b", b, checked(b).dim() == 3, "[b, k, m]");
  check_same_dtype(a, b);
  if (a.size(0) != b.size(0) || a.size(2) != b.size(1)) {
    raise<ShapeError>(
        {.problem = fmt::format("shapes {} and {} cannot be multiplied", a.shape().text(), b.shape().text())});
  }
  // The batch joins the dimension that is summed over: one product.
  const int64_t depth = a.size(0) * a.size(2);
  const Tensor left = a.permute({1, 0, 2}).reshape({a.size(1), depth}), right = b.reshape({depth, b.size(2)});
  return rounded_once(input, left, right, [&](const Tensor& x, const Tensor& l, const Tensor& r) {
    return added(x, mm(l, r), beta, alpha);
  });
}

Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha, Location where) {
  const CallScope call("addmv", where);
  WEFT_IN_LOWER(addmv, input, a, b, beta, alpha, where);
  return rounded_once(input, a, b, [&](const Tensor& x, const Tensor& left, const Tensor& right) {
    return added(x, mv(left, right), beta, alpha);
  });
}

Tensor addr(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha, Location where) {
  const CallScope call("addr", where);
  return rounded_once(input, a, b, [&](const Tensor& x, const Tensor& left, const Tensor& right) {
    return added(x, outer(left, right), beta, alpha);
  });
}

namespace linalg {

Tensor vecdot(const Tensor& a, const Tensor& b, int dim, Location where) {
  const CallScope call("linalg_vecdot", where);
  WEFT_IN_LOWER(linalg::vecdot, a, b, dim, where);
  check_same_dtype(a, b);
  const auto shape = broadcast(a.sizes(), b.sizes());
  if (!shape) {
    raise<ShapeError>(
        {.problem = fmt::format("shapes {} and {} do not broadcast", a.shape().text(), b.shape().text())});
  }
  const int at = wrap_dim(dim, shape->size());
  const Tensor left = conjugate(a);
  if (shape->size() == 0) return left * b;
  if (is_inexact(a.dtype()) && at == shape->size() - 1 && a.dim() > 0 && b.dim() > 0 && a.size(-1) == b.size(-1)) {
    return matmul(left.unsqueeze(-2), b.unsqueeze(-1)).squeeze(-1).squeeze(-1);
  }
  return sum(left * b, {at}, false, a.dtype());
}

Tensor cross(const Tensor& a, const Tensor& b, int dim, Location where) {
  const CallScope call("linalg_cross", where);
  check_same_dtype(a, b);
  const auto shape = broadcast(a.sizes(), b.sizes());
  if (!shape || a.dim() != b.dim()) {
    raise<ShapeError>({.problem = fmt::format("shapes {} and {} do not fit", a.shape().text(), b.shape().text())});
  }
  const int at = wrap_dim(dim, shape->size());
  if (shape->size() == 0 || a.size(at) != 3 || b.size(at) != 3) {
    raise_mismatch<ShapeError>(fmt::format("dimension {} of a and b", at), "size 3",
                               fmt::format("shapes {} and {}", a.shape().text(), b.shape().text()));
  }
  const auto turned = [&](const Tensor& x, int64_t by) { return roll(x, Dims{-by}, Dims{at}); };
  return turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1);
}

}  // namespace linalg

namespace {

std::vector<Values> inner_samples(SampleMaker& make) {
  return {{make.tensor({3}), make.tensor({3})},
          {make.tensor({2, 3}), make.tensor({4, 3})},
          {make.tensor({}), make.tensor({2})},
          {make.tensor({2, 0}), make.tensor({0})}};
}
std::vector<Values> vdot_samples(SampleMaker& make) {
  return {{make.tensor({3}), make.tensor({3})}, {make.tensor({0}), make.tensor({0})}};
}
std::vector<Values> kron_samples(SampleMaker& make) {
  return {{make.tensor({2, 2}), make.tensor({3, 2})},
          {make.tensor({2}), make.tensor({2, 3})},
          {make.tensor({}), make.tensor({2})},
          {make.tensor({0, 2}), make.tensor({2, 2})}};
}
std::vector<Values> baddbmm_samples(SampleMaker& make) {
  return {{make.tensor({2, 3, 2}), make.tensor({2, 3, 4}), make.tensor({2, 4, 2})},
          {make.tensor({2}), make.tensor({2, 3, 4}), make.tensor({2, 4, 2}), int64_t{2}, int64_t{3}},
          {make.tensor({2}), make.tensor({2, 3, 4}), make.tensor({2, 4, 2}), int64_t{0}}};
}
std::vector<Values> addbmm_samples(SampleMaker& make) {
  return {{make.tensor({3, 2}), make.tensor({2, 3, 4}), make.tensor({2, 4, 2})},
          {make.tensor({2}), make.tensor({2, 3, 4}), make.tensor({2, 4, 2}), int64_t{2}, int64_t{3}},
          {make.tensor({3, 2}), make.tensor({0, 3, 4}), make.tensor({0, 4, 2})}};
}
std::vector<Values> addmv_samples(SampleMaker& make) {
  return {{make.tensor({3}), make.tensor({3, 4}), make.tensor({4})},
          {make.tensor({}), make.tensor({3, 4}), make.tensor({4}), int64_t{2}, int64_t{3}}};
}
std::vector<Values> addr_samples(SampleMaker& make) {
  return {{make.tensor({3, 2}), make.tensor({3}), make.tensor({2})},
          {make.tensor({2}), make.tensor({3}), make.tensor({2}), int64_t{2}, int64_t{3}}};
}
std::vector<Values> vecdot_samples(SampleMaker& make) {
  return {{make.tensor({3}), make.tensor({3})},
          {make.tensor({2, 3}), make.tensor({3})},
          {make.tensor({2, 3, 2}), make.tensor({3, 1}), int64_t{1}},
          {make.tensor({2, 0}), make.tensor({2, 0})}};
}
std::vector<Values> cross_samples(SampleMaker& make) {
  return {{make.tensor({3}), make.tensor({3})},
          {make.tensor({2, 3}), make.tensor({1, 3})},
          {make.tensor({3, 2}), make.tensor({3, 2}), int64_t{0}},
          {make.tensor({0, 3}), make.tensor({0, 3})}};
}

constexpr OpRecord records[] = {
    {"inner", "inner(a, b|other)", "Sums of products over the last dimension of both; a 0-d operand multiplies.",
     OpFacts(true, Autocast::lower), OpRecord::Domain::numeric, inner_samples, parts::whole,
     detail::boxed<weft::inner>},
    {"vdot", "vdot(a, b|other)", "The sum of conj(a) * b of two 1-d tensors, 0-d.", OpFacts(true, Autocast::lower),
     OpRecord::Domain::numeric, vdot_samples, parts::whole, detail::boxed<weft::vdot>},
    {"kron", "kron(a, b|other)", "Kronecker's product: every product of an element of a and one of b.", true,
     OpRecord::Domain::any, kron_samples, parts::whole, detail::boxed<weft::kron>},
    {"baddbmm", "baddbmm(input, a|batch1, b|batch2, *, beta=1, alpha=1)",
     "beta * input + alpha * (a x b) for batches of matrices; input broadcasts.", OpFacts(true, Autocast::lower),
     OpRecord::Domain::numeric, baddbmm_samples, parts::whole, detail::boxed<weft::baddbmm>},
    {"addbmm", "addbmm(input, a|batch1, b|batch2, *, beta=1, alpha=1)",
     "beta * input + alpha * the sum of the products over the batch.", OpFacts(true, Autocast::lower),
     OpRecord::Domain::numeric, addbmm_samples, parts::whole, detail::boxed<weft::addbmm>},
    {"addmv", "addmv(input, a|mat, b|vec, *, beta=1, alpha=1)", "beta * input + alpha * (a [m, k] x b [k]).",
     OpFacts(true, Autocast::lower), OpRecord::Domain::numeric, addmv_samples, parts::whole,
     detail::boxed<weft::addmv>},
    {"addr", "addr(input, a|vec1, b|vec2, *, beta=1, alpha=1)", "beta * input + alpha * outer(a, b).", true,
     OpRecord::Domain::numeric, addr_samples, parts::whole, detail::boxed<weft::addr>},
    {"linalg_vecdot", "linalg_vecdot(a|x, b|y, dim=-1)", "The sum of conj(a) * b along dim; shapes broadcast.",
     OpFacts(true, Autocast::lower), OpRecord::Domain::numeric, vecdot_samples, parts::whole,
     detail::boxed<linalg::vecdot>},
    {"linalg_cross", "linalg_cross(a, b|other, dim=-1)", "The cross product along dim, of size 3; others broadcast.",
     true, OpRecord::Domain::numeric, cross_samples, parts::whole, detail::boxed<linalg::cross>},
};

}  // namespace

std::span<const OpRecord> product_records() { return records; }

}  // namespace weft
