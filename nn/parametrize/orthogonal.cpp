#include "orthogonal-inl.hpp"

#include <cmath>

#include <fmt/format.h>

#include "../../autograd/function.hpp"
#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/diagonal.hpp"
#include "../../ops/join.hpp"
#include "../../ops/matmul.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/random.hpp"
#include "../../ops/reduce.hpp"
#include "../config.hpp"
#include "parametrized-inl.hpp"

namespace weft::nn::detail {

namespace {

constexpr const char* op = "nn::orthogonal";

Tensor transposed(const Tensor& x) { return x.transpose(-2, -1); }
Tensor identity(const Tensor& like, int64_t rows, int64_t columns) {
  return eye(rows, columns, TensorOptions{like.dtype(), like.device()});
}
double largest(const Tensor& x) { return x.numel() == 0 ? 0 : abs(x).max().item<double>(); }

/// The maximum absolute column sum.
double one_norm(const Tensor& x) { return x.numel() == 0 ? 0 : sum(abs(x), {-2}).max().item<double>(); }

/// Matrix exponential by scaling and squaring (Higham 2005): Taylor series of x / 2^s, which has norm at most 1/2, then
/// s squarings.
Tensor matrix_exp(const Tensor& x) {
  double norm = 0;
  if (!is_meta(x)) {
    const NoGradGuard unrecorded;
    norm = one_norm(x);
  }
  const int squarings = norm > 0.5 && std::isfinite(norm) ? static_cast<int>(std::ceil(std::log2(norm))) + 1 : 0;
  const int terms = x.dtype() == DType::f64 ? 16 : 9;
  const Tensor small = x * std::ldexp(1.0, -squarings), one = identity(x, x.size(-1), x.size(-1));
  Tensor out = one + small / terms;
  for (int i = terms - 1; i >= 1; --i) out = one + matmul(small, out) / i;
  for (int i = 0; i < squarings; ++i) out = matmul(out, out);
  return out;
}

/// Inverse of a well-conditioned matrix by Newton's iteration (Schulz 1933).
struct Inverse : autograd::Function<Inverse> {
  static Tensor forward(Context& context, const Tensor& x) {
    Tensor out = transposed(x).contiguous();
    if (x.numel() > 0 && !is_meta(x)) {
      const Tensor one = identity(x, x.size(-1), x.size(-1));
      const Tensor columns = amax(sum(abs(x), {-2}, true), {-1}, true),
                   rows = amax(sum(abs(x), {-1}, true), {-2}, true);
      out = out / (columns * rows);
      double before = HUGE_VAL;
      for (int i = 0; i < 100; ++i) {
        const Tensor rest = one - matmul(x, out);
        const double error = largest(rest);
        if (!(error < before)) break;
        before = error;
        out = out + matmul(out, rest);
      }
    }
    context.save({out});
    return out;
  }
  static Tensor backward(Context& context, const Tensor& g) {
    const Tensor back = transposed(context.saved(0));
    return -matmul(back, matmul(g, back));
  }
};

/// The first columns of the product of the reflections I - tau v vᵀ, where v is a column of `below` with 1 on the
/// diagonal.
Tensor reflections(const Tensor& below, const Tensor& tau) {
  const int64_t rows = below.size(-2), columns = below.size(-1);
  const Tensor start = identity(below, rows, columns), vectors = below + start;
  Tensor out = start;
  for (int64_t i = columns - 1; i >= 0; --i) {
    const Tensor v = vectors.narrow(-1, i, 1), factor = tau.narrow(-1, i, 1).unsqueeze(-1);
    out = out - factor * v * matmul(transposed(v), out);
  }
  return out;
}

/// QR factorisation in f64 on the host, in the format of LAPACK's geqrf: R on and above the diagonal, reflection
/// vectors below.
struct Factored {
  Tensor packed, tau;
};

void factor(double* a, double* tau, int64_t rows, int64_t columns) {
  const auto at = [&](int64_t i, int64_t j) -> double& { return a[i * columns + j]; };
  for (int64_t j = 0; j < columns; ++j) {
    double rest = 0;
    for (int64_t i = j + 1; i < rows; ++i) rest += at(i, j) * at(i, j);
    tau[j] = 0;
    if (rest == 0) continue;
    const double head = at(j, j), beta = -std::copysign(std::sqrt(head * head + rest), head);
    tau[j] = (beta - head) / beta;
    for (int64_t i = j + 1; i < rows; ++i) at(i, j) /= head - beta;
    at(j, j) = beta;
    for (int64_t k = j + 1; k < columns; ++k) {
      double along = at(j, k);
      for (int64_t i = j + 1; i < rows; ++i) along += at(i, j) * at(i, k);
      at(j, k) -= tau[j] * along;
      for (int64_t i = j + 1; i < rows; ++i) at(i, k) -= tau[j] * along * at(i, j);
    }
  }
}

Factored factored(const Tensor& x) {
  const int64_t rows = x.size(-2), columns = x.size(-1), each = rows * columns;
  Dims widths = x.shape();
  widths.erase(widths.size() - 2);
  const Factored out{x.detach().to(f64).to(Device()).contiguous().clone(), zeros(widths, f64)};
  for (int64_t i = 0; each > 0 && i < x.numel() / each; ++i) {
    factor(out.packed.data<double>() + i * each, out.tau.data<double>() + i * columns, rows, columns);
  }
  return out;
}

/// Signs, with 1 for 0.
Tensor signs_of(const Tensor& x) { return where(x < 0, -1.0, 1.0).to(x.dtype()); }

/// The Q factor of x for an R with positive diagonal, in x's dtype and on its device.
Tensor made_orthogonal(const Tensor& x) {
  const Factored f = factored(x);
  const Tensor signs = signs_of(f.packed.diagonal(0, -2, -1)).unsqueeze(-2);
  return (reflections(tril(f.packed, -1), f.tau) * signs).to(x.dtype()).to(x.device());
}

bool is_orthogonal(const Tensor& x) {
  const int64_t n = x.size(-1);
  const double epsilon = x.dtype() == DType::f64 ? 0x1p-52 : x.dtype() == DType::f32 ? 0x1p-23 : 0x1p-10;
  const Tensor wide = x.to(f64);
  return largest(matmul(transposed(wide), wide) - identity(wide, n, n)) <= 10 * static_cast<double>(n) * epsilon;
}

}  // namespace

OrthogonalMap map_for(const Tensor& weight, std::optional<OrthogonalMap> given, Location where) {
  if (weight.dim() < 2) {
    raise<ValueError>({.op = op, .problem = "the weight " + weight.shape().text() + " is no matrix"}, where);
  }
  const bool square = weight.size(-1) == weight.size(-2);
  return given.value_or(square ? OrthogonalMap::matrix_exp : OrthogonalMap::householder);
}

MappedOrthogonal::MappedOrthogonal(const Tensor& weight, OrthogonalMap map, bool has_base)
    : shape_(weight.shape()), map_(map) {
  set_class_name("_Orthogonal");
  set_config({{"orthogonal_map", orthogonal_maps[static_cast<size_t>(map)]}, {"use_trivialization", has_base}});
  set_extra_repr({});
  if (!has_base) return;
  const int64_t side = std::max(weight.size(-2), weight.size(-1));
  Dims shape = weight.shape();
  shape[shape.size() - 2] = shape[shape.size() - 1] = side;
  base_ = Buffer(identity(weight, side, side).expand(shape).contiguous());
  register_buffer("base", base_);
}

Tensor MappedOrthogonal::forward(const Tensor& weight, Location) const {
  const bool wide = weight.size(-2) < weight.size(-1);
  const DType dtype = weight.dtype();
  const Tensor given = wide ? transposed(weight) : weight, x = given.to(compute_type(dtype));
  const int64_t rows = x.size(-2), columns = x.size(-1);
  Tensor out;
  if (map_ == OrthogonalMap::householder) {
    const Tensor below = tril(x, -1), tau = 2.0 / (1.0 + sum(square(below), {-2}));
    out = reflections(below, tau) * trunc(x.detach().diagonal(0, -2, -1)).unsqueeze(-2);
  } else {
    Tensor lower = tril(x);
    Dims rest = x.shape();
    rest[rest.size() - 1] = rows - columns;
    if (rows != columns) lower = cat({lower, zeros(rest, TensorOptions{x.dtype(), x.device()})}, -1);
    const Tensor skew = lower - transposed(lower), one = identity(x, rows, rows);
    out = map_ == OrthogonalMap::matrix_exp ? matrix_exp(skew) : matmul(Inverse::apply(one - skew / 2), one + skew / 2);
    out = out.narrow(-1, 0, columns);
  }
  if (base_.defined()) out = matmul(base_.to(out.dtype()), out);
  return (wide ? transposed(out) : out).to(dtype);
}

Tensor Orthogonal::right_inverse(const Tensor& value) const {
  if (!(value.shape() == shape_)) {
    raise<ShapeError>({.op = op, .problem = "the value has another shape than the weight", .details = describe(value)});
  }
  const NoGradGuard unrecorded;
  const bool wide = value.size(-2) < value.size(-1);
  const Tensor q = wide ? transposed(value) : value;
  const int64_t rows = q.size(-2), columns = q.size(-1);
  if (!base_.defined()) {
    const Factored f = factored(q);
    const Tensor diagonal = f.packed.diagonal(0, -2, -1);
    // A reflection that LAPACK omits is encoded as tau = 2, which flips the sign.
    diagonal.copy_(signs_of(diagonal) * where(f.tau == 0.0, -1.0, 1.0));
    const Tensor packed = f.packed.to(value.dtype()).to(value.device());
    return wide ? transposed(packed).contiguous() : packed;
  }
  Tensor whole = q;
  if (rows != columns) {
    Dims rest = q.shape();
    rest[rest.size() - 1] = rows - columns;
    whole = cat({q, randn(rest, TensorOptions{q.dtype(), q.device()})}, -1);
  }
  base_.copy_(rows == columns && is_orthogonal(whole) ? whole : made_orthogonal(whole));
  const Tensor origin = zeros(value.shape(), TensorOptions{value.dtype(), value.device()});
  origin.diagonal(0, -2, -1).fill_(-1);
  return origin;
}

}  // namespace weft::nn::detail

namespace weft::nn {

void orthogonal(const Module& module, std::string_view name, const OrthogonalOptions& options, Location where) {
  const Tensor weight = detail::present_tensor("nn::orthogonal", module, name, where);
  const OrthogonalMap map = detail::map_for(weight, options.map, where);
  const bool has_base = options.use_trivialization;
  if (detail::has_right_inverse(map, has_base)) {
    register_parametrization(module, name, detail::Orthogonal(weight, map, has_base), true, where);
  } else {
    register_parametrization(module, name, detail::MappedOrthogonal(weight, map, has_base), true, where);
  }
}

}  // namespace weft::nn
