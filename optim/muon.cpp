#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "../ops/detail/common.hpp"
#include "../ops/matmul.hpp"
#include "../ops/pointwise.hpp"
#include "../ops/reduce.hpp"
#include "rule-inl.hpp"
#include "step_by_ops-inl.hpp"

namespace weft::optim {

namespace {
constexpr const char* rates[] = {"original", "match_rms_adamw", "spectral_unclamped"};
constexpr auto coefficient(const char* name, Option<double> MuonOptions::*member, int part) {
  return field(name, member).from(-highest, highest).in_tuple("ns_coefficients", part);
}
}  // namespace

template <>
struct Description<MuonOptions> {
  using O = MuonOptions;
  static constexpr auto fields =
      std::tuple(field("lr", &O::lr), field("weight_decay", &O::weight_decay), field("momentum", &O::momentum),
                 field("nesterov", &O::nesterov), coefficient("ns_a", &O::ns_a, 0), coefficient("ns_b", &O::ns_b, 1),
                 coefficient("ns_c", &O::ns_c, 2), field("eps", &O::eps), field("ns_steps", &O::ns_steps).from(0, 99),
                 field("adjust_lr_fn", &O::adjust_lr_fn).one_of(rates));
};

namespace {

constexpr Rule rule = {"Muon", infos<MuonOptions>, [](std::span<const double>) -> const char* { return nullptr; }};

/// Approximates the nearest matrix with orthonormal rows or columns: x ← a x + (b x xᵀ + c (x xᵀ)²) x drives its
/// singular values towards 1.
Tensor orthogonal(const Tensor& matrix, const MuonOptions& o) {
  const bool is_tall = matrix.size(0) > matrix.size(1);
  Tensor x = matrix.to(bf16);
  if (is_tall) x = x.t();
  x = x / maximum(norm(x), double{o.eps});
  for (int64_t i = 0; i < o.ns_steps; ++i) {
    const Tensor gram = matmul(x, x.t());
    x = addmm(x, addmm(gram, gram, gram, double{o.ns_b}, double{o.ns_c}), x, double{o.ns_a}, 1.0);
  }
  return is_tall ? x.t() : x;
}

double adjusted(double lr, MuonRate by, double rows, double columns) {
  if (by == MuonRate::match_rms_adamw) return lr * 0.2 * std::sqrt(std::max(rows, columns));
  const double ratio = rows / columns;
  return lr * std::sqrt(by == MuonRate::original ? std::max(1.0, ratio) : ratio);
}

}  // namespace

MatrixOptimizer::MatrixOptimizer(const Rule& r) : Optimizer(r, {"momentum_buffer"}) {}

void MatrixOptimizer::check_group(const Group& group, Location where) const {
  for (const Tensor& p : group.parameters) {
    if (p.dim() == 2) continue;
    raise<ValueError>({.op = name_,
                       .problem = "a parameter is not a matrix",
                       .details = describe(p),
                       .remedy = "give biases, norms and embeddings to another optimizer, such as AdamW"},
                      where);
  }
}

void MatrixOptimizer::step(Location where) {
  const auto update_of = [](const Group& group, const Tensor& p, const std::vector<Tensor>& state, int64_t) {
    const auto o = options_of<MuonOptions>(group.values);
    const DType wide = compute_type(p.dtype());
    const Tensor &buffer = state[0], g = p.grad().to(wide);
    const Tensor average = buffer + (1 - o.momentum) * (g - buffer);
    const Tensor direction = orthogonal(o.nesterov ? g + double{o.momentum} * (average - g) : average, o);
    const double rate = adjusted(o.lr, o.adjust_lr_fn, static_cast<double>(p.size(0)), static_cast<double>(p.size(1)));
    const Tensor value = p.to(wide) * (1 - o.lr * o.weight_decay) - rate * direction.to(wide);
    return Update{value.to(p.dtype()), {average}};
  };
  step_by_ops(update_of, where);
}

template <>
const Rule& rule_of<MuonOptions>() {
  return rule;
}
template class OptimizerOf<MuonOptions, MatrixOptimizer>;
template MuonOptions options_named<MuonOptions>(const NamedOptions&, Location);

}  // namespace weft::optim
