#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../ops/distance.hpp"
#include "../../ops/matmul.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/random.hpp"
#include "../../ops/reduce.hpp"
#include "../config.hpp"
#include "../module_state-inl.hpp"
#include "../path-inl.hpp"
#include "norms-inl.hpp"

namespace weft::nn {

namespace {

[[noreturn]] void refuse(const char* op, std::string problem, Location where) {
  raise<ValueError>({.op = op, .problem = std::move(problem)}, where);
}

int checked_dim(const char* op, int dim, const Tensor& weight, Location where) {
  const int rank = weight.dim();
  if (dim >= -rank && dim < rank) return dim < 0 ? dim + rank : dim;
  refuse(op, fmt::format("there is no dimension {} of the weight {}", dim, weight.shape().text()), where);
}

}  // namespace

namespace detail {

constexpr const char* weight_norm_class = "_WeightNorm";

WeightNorm::WeightNorm(std::optional<int> dim) : dim_(dim) {
  set_class_name(weight_norm_class);
  set_config({{"dim", dim ? Attribute(*dim) : Attribute()}});
  set_extra_repr({});
}

Tensor WeightNorm::lengths(const Tensor& v, Location where) const {
  if (!dim_ || v.dim() == 0) return vector_norm(v, 2, {}, false, {}, where);
  Dims others;
  for (int d = 0; d < v.dim(); ++d) {
    if (d != *dim_) others.push_back(d);
  }
  return others.empty() ? abs(v) : vector_norm(v, 2, others, true, {}, where);
}

Tensor WeightNorm::forward(const Tensor& g, const Tensor& v, Location where) const {
  if (v.numel() == 0) return v * g;  // empty rows have no direction and no gradient
  return v * (g / lengths(v, where));
}

std::pair<Tensor, Tensor> WeightNorm::right_inverse(const Tensor& weight) const {
  return {lengths(weight, Location::none()), weight};
}

SpectralNorm::SpectralNorm(const Tensor& weight, const SpectralNormOptions& options, Location where)
    : options_(options), dim_(checked_dim("nn::spectral_norm", options.dim.value_or(0), weight, where)) {
  if (options.n_power_iterations < 1) {
    refuse("nn::spectral_norm", fmt::format("n_power_iterations is {}", options.n_power_iterations), where);
  }
  set_class_name("_SpectralNorm");
  set_config({{"n_power_iterations", options.n_power_iterations}, {"eps", options.eps}, {"dim", dim_}});
  set_extra_repr({});
  if (weight.dim() < 2) return;
  const NoGradGuard unrecorded;
  const Tensor matrix = as_matrix(weight.detach());
  const TensorOptions like{weight.dtype(), weight.device()};
  u_ = normalized(randn(Dims(matrix.size(0)), like));
  v_ = normalized(randn(Dims(matrix.size(1)), like));
  register_buffer("_u", u_, where);
  register_buffer("_v", v_, where);
  iterate(matrix, 15);
}

Tensor SpectralNorm::normalized(const Tensor& x) const { return normalize(x, {.dims = 0, .eps = options_.eps}); }

Tensor SpectralNorm::as_matrix(const Tensor& weight) const {
  const Tensor rows_first = weight.movedim(dim_, 0);
  int64_t columns = 1;
  for (int d = 1; d < rows_first.dim(); ++d) columns *= rows_first.size(d);
  return rows_first.reshape({rows_first.size(0), columns});
}

void SpectralNorm::iterate(const Tensor& matrix, int64_t times) const {
  const NoGradGuard unrecorded;
  for (int64_t i = 0; i < times; ++i) {
    u_.copy_(normalized(mv(matrix, v_)));
    v_.copy_(normalized(mv(matrix.t(), u_)));
  }
}

Tensor SpectralNorm::forward(const Tensor& weight, Location) const {
  if (weight.dim() < 2) return normalized(weight);
  const Tensor matrix = as_matrix(weight);
  if (is_training() && !recomputing()) {
    ForwardScope::undo_on_failure([u = Tensor(u_), v = Tensor(v_), before_u = u_.clone(), before_v = v_.clone()] {
      const NoGradGuard unrecorded;
      u.copy_(before_u), v.copy_(before_v);
    });
    iterate(matrix.detach(), options_.n_power_iterations);
  }
  // Copies, because later uses overwrite the buffers before backward reads them.
  const Tensor u = u_.clone(), v = v_.clone();
  return weight / dot(u, mv(matrix, v));
}

namespace {

void put_present_names(const Module& module, const std::string& path, const StateDict& values,
                       std::optional<StateDict>& out) {
  for (const ParametrizedTensor& p : parametrized_of(module)) {
    if (p.steps[0].class_name() != weight_norm_class) continue;
    const std::string old = joined(path, p.name), present = joined(joined(path, parametrizations), p.name);
    const auto g = values.find(old + "_g"), v = values.find(old + "_v");
    if (g == values.end() || v == values.end()) continue;
    if (!out) out = values;
    out->erase(g->first), out->erase(v->first);
    out->insert_or_assign(present + ".original0", g->second);
    out->insert_or_assign(present + ".original1", v->second);
  }
  for (const auto& [name, child] : StateAccess::state(module).children) {
    put_present_names(child, joined(path, name), values, out);
  }
}

}  // namespace

std::optional<StateDict> with_present_names(const Module& module, const StateDict& values) {
  std::optional<StateDict> out;
  put_present_names(module, "", values, out);
  return out;
}

}  // namespace detail

void weight_norm(const Module& module, std::string_view name, std::optional<int> dim, Location where) {
  const Tensor weight = detail::present_tensor("nn::weight_norm", module, name, where);
  if (dim.value_or(0) == -1) dim.reset();
  if (dim) dim = checked_dim("nn::weight_norm", *dim, weight, where);
  register_parametrization(module, name, detail::WeightNorm(dim), true, where);
}

void spectral_norm(const Module& module, std::string_view name, const SpectralNormOptions& options, Location where) {
  const Tensor weight = detail::present_tensor("nn::spectral_norm", module, name, where);
  SpectralNormOptions given = options;
  if (!given.dim) given.dim = module.class_name().starts_with("ConvTranspose") ? 1 : 0;
  register_parametrization(module, name, detail::SpectralNorm(weight, given, where), false, where);
}

}  // namespace weft::nn
