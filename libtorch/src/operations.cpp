// Functions that are no methods.
#include <ATen/ATen.h>

#include <weft/ops/attention.hpp>
#include <weft/ops/axes.hpp>
#include <weft/ops/batch_norm.hpp>
#include <weft/ops/bilinear.hpp>
#include <weft/ops/combine.hpp>
#include <weft/ops/complex.hpp>
#include <weft/ops/convolution.hpp>
#include <weft/ops/diagonal.hpp>
#include <weft/ops/differences.hpp>
#include <weft/ops/distance.hpp>
#include <weft/ops/distribution.hpp>
#include <weft/ops/dropout.hpp>
#include <weft/ops/embedding_bag.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/loss.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/norm.hpp>
#include <weft/ops/pad.hpp>
#include <weft/ops/pool.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/search.hpp>
#include <weft/tensor/threads.hpp>

namespace at {

namespace {

Tensor given(const optional<Tensor>& tensor) { return tensor.value_or(Tensor()); }
weft::LossReduction reduction_of(int64_t reduction) { return static_cast<weft::LossReduction>(reduction); }
TensorPair pair(weft::ValuesAndIndices&& both) { return {std::move(both.values), std::move(both.indices)}; }
std::tuple<Tensor, Tensor> pair(weft::DispersionAndMean&& both) {
  return {std::move(both.dispersion), std::move(both.mean)};
}
std::tuple<Tensor, Tensor, Tensor> triple(weft::Unique&& found, const Tensor& x) {
  const auto defined = [&](Tensor t) { return t.defined() ? t : empty({0}, x.options().dtype(kLong)); };
  return {std::move(found.values), defined(std::move(found.inverse)), defined(std::move(found.counts))};
}

}  // namespace

// ---- threads ----
int get_num_threads() { return weft::num_threads(); }
void set_num_threads(int count) { weft::set_num_threads(count); }
int get_num_interop_threads() { return 1; }
void set_num_interop_threads(int) {}

Tensor& write_out(Tensor& out, const Tensor& result) {
  if (!out.defined()) out = result;
  else if (out.shape() != result.shape() && out.numel() == 0) out.resize_(result.shape()).copy_(result);
  else out.copy_(result);
  return out;
}

TensorVector where(const Tensor& condition) { return wrap(weft::where(condition)); }
bool can_cast(ScalarType from, ScalarType to) {
  const auto rank = [](ScalarType t) {
    return t == kBool ? 0 : weft::is_integer(t) ? 1 : weft::is_floating(t) ? 2 : 3;
  };
  return rank(from) <= rank(to);
}

// ---- joins ----
Tensor cat(TensorList tensors, int64_t dim, Location where) { return weft::cat(unwrap(tensors), i32(dim), where); }
Tensor stack(TensorList tensors, int64_t dim, Location where) { return weft::stack(unwrap(tensors), i32(dim), where); }
Tensor hstack(TensorList tensors) { return weft::hstack(unwrap(tensors)); }
Tensor vstack(TensorList tensors) { return weft::vstack(unwrap(tensors)); }
Tensor dstack(TensorList tensors) { return weft::dstack(unwrap(tensors)); }
Tensor column_stack(TensorList tensors) { return weft::column_stack(unwrap(tensors)); }
Tensor block_diag(TensorList tensors) { return weft::block_diag(unwrap(tensors)); }
Tensor cartesian_prod(TensorList tensors) { return weft::cartesian_prod(unwrap(tensors)); }
Tensor combinations(const Tensor& self, int64_t r, bool with_replacement) {
  return weft::combinations(self, r, with_replacement);
}
Tensor chain_matmul(TensorList matrices) { return weft::chain_matmul(unwrap(matrices)); }
Tensor einsum(std::string_view equation, TensorList tensors, OptionalIntArrayRef) {
  return weft::einsum(equation, unwrap(tensors));
}
TensorVector broadcast_tensors(TensorList tensors) { return wrap(weft::broadcast_tensors(unwrap(tensors))); }
TensorVector meshgrid(TensorList tensors, std::string_view indexing) {
  TORCH_CHECK(indexing == "ij" || indexing == "xy",
              "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: ", indexing);
  return wrap(weft::meshgrid(unwrap(tensors), indexing == "ij" ? weft::GridIndexing::ij : weft::GridIndexing::xy));
}
Tensor tensordot(const Tensor& a, const Tensor& b, IntArrayRef dims_a, IntArrayRef dims_b) {
  return weft::tensordot(a, b, dims_a, dims_b);
}
Tensor complex(const Tensor& real, const Tensor& imag) { return weft::complex(real, imag); }
Tensor polar(const Tensor& abs, const Tensor& angle) { return weft::polar(abs, angle); }

// ---- distances, sets, statistics ----
Tensor cdist(const Tensor& x1, const Tensor& x2, double p, optional<int64_t> compute_mode) {
  using enum weft::DistanceMode;
  const int64_t mode = compute_mode.value_or(0);
  return weft::cdist(x1, x2, p, mode == 0 ? automatic : mode == 1 ? product : difference);
}
Tensor pdist(const Tensor& self, double p) { return weft::pdist(self, p); }
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  return weft::cosine_similarity(x1, x2, i32(dim), eps);
}
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim) {
  return weft::pairwise_distance(x1, x2, p, eps, keepdim);
}
Tensor bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right) {
  return weft::bucketize(self, boundaries, right, out_int32);
}
Tensor searchsorted(const Tensor& sorted, const Operand& values, bool out_int32, bool right) {
  return weft::searchsorted(sorted, values, {.right = right, .out_int32 = out_int32});
}
Tensor isin(const Tensor& elements, const Tensor& tests, bool, bool invert) {
  return weft::isin(elements, tests, invert);
}
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim) { return weft::trapezoid(y, x, i32(dim)); }
Tensor trapezoid(const Tensor& y, const Scalar& dx, int64_t dim) { return weft::trapezoid(y, dx.toDouble(), i32(dim)); }
std::tuple<Tensor, Tensor> var_mean(const Tensor& self, bool unbiased) {
  return pair(weft::var_mean(self, {}, unbiased));
}
std::tuple<Tensor, Tensor> var_mean(const Tensor& self, IntArrayRef dim, bool unbiased, bool keepdim) {
  return pair(weft::var_mean(self, dim, unbiased, keepdim));
}
std::tuple<Tensor, Tensor> std_mean(const Tensor& self, bool unbiased) {
  return pair(weft::std_mean(self, {}, unbiased));
}
std::tuple<Tensor, Tensor> std_mean(const Tensor& self, IntArrayRef dim, bool unbiased, bool keepdim) {
  return pair(weft::std_mean(self, dim, unbiased, keepdim));
}
std::tuple<Tensor, Tensor, Tensor> unique_dim(const Tensor& self, int64_t dim, bool, bool inverse, bool counts) {
  return triple(weft::unique(self, {.return_inverse = inverse, .return_counts = counts, .dim = dim}), self);
}
std::tuple<Tensor, Tensor> _unique(const Tensor& self, bool sorted, bool inverse) {
  auto [values, indices, counts] = _unique2(self, sorted, inverse, false);
  return {values, indices};
}
std::tuple<Tensor, Tensor, Tensor> _unique2(const Tensor& self, bool, bool inverse, bool counts) {
  return triple(weft::unique(self, {.return_inverse = inverse, .return_counts = counts}), self);
}
std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& self, bool inverse, bool counts,
                                                      optional<int64_t> dim) {
  return triple(weft::unique_consecutive(self, {.return_inverse = inverse, .return_counts = counts, .dim = dim}), self);
}
std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& self, bool some, bool compute_uv) {
  if (!compute_uv) return {Tensor(), weft::linalg::svdvals(self), Tensor()};
  weft::linalg::Svd found = weft::linalg::svd(self, !some);
  return {std::move(found.u), std::move(found.s), Tensor(std::move(found.vh)).mH()};
}
std::tuple<Tensor, Tensor> qr(const Tensor& self, bool some) {
  weft::linalg::Qr found =
      weft::linalg::qr(self, some ? weft::linalg::QrMode::reduced : weft::linalg::QrMode::complete);
  return {std::move(found.q), std::move(found.r)};
}
std::tuple<Tensor, Tensor> slogdet(const Tensor& self) {
  weft::linalg::SignAndLogarithm found = weft::linalg::slogdet(self);
  return {std::move(found.sign), std::move(found.logabsdet)};
}
Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      std::string_view reduce, bool include_self) {
  return self.scatter_reduce(dim, index, source, reduce, include_self);
}
Tensor one_hot(const Tensor& self, int64_t num_classes) { return weft::one_hot(self, num_classes); }
Tensor tril_indices(int64_t row, int64_t col, int64_t offset, const TensorOptions& options) {
  return weft::tril_indices(row, col, offset, options);
}
Tensor triu_indices(int64_t row, int64_t col, int64_t offset, const TensorOptions& options) {
  return weft::triu_indices(row, col, offset, options);
}
Tensor constant_pad_nd(const Tensor& self, IntArrayRef pad, const Scalar& value) {
  return weft::pad(self, pad, weft::Padding::constant, value);
}

// ---- random ----
Tensor poisson(const Tensor& self, optional<Generator> generator) {
  return static_cast<const weft::Tensor&>(self).poisson(generator_of(generator));
}
Tensor binomial(const Tensor& count, const Tensor& prob, optional<Generator> generator) {
  return static_cast<const weft::Tensor&>(count).binomial(prob, generator_of(generator));
}
Tensor normal(double mean, double std, const Dims& size, optional<Generator> generator, const TensorOptions& options) {
  return empty(size, options).normal_(mean, std, generator);
}
Tensor normal(const Tensor& mean, double std, optional<Generator> generator) {
  return mean + std * empty_like(mean).normal_(0, 1, generator);
}
Tensor normal(double mean, const Tensor& std, optional<Generator> generator) {
  return mean + std * empty_like(std).normal_(0, 1, generator);
}
Tensor normal(const Tensor& mean, const Tensor& std, optional<Generator> generator) {
  return mean + std * empty_like(mean + std).normal_(0, 1, generator);
}

// ---- layers ----
Tensor linear(const Tensor& input, const Tensor& weight, const optional<Tensor>& bias, Location where) {
  return weft::linear(input, weight, given(bias), where);
}
Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight, const optional<Tensor>& bias) {
  return weft::bilinear(input1, input2, weight, given(bias));
}
#define DIMENSIONS(n)                                                                                                 \
  Tensor conv##n##d(const Tensor& input, const Tensor& weight, const optional<Tensor>& bias, const Dims& stride,      \
                    const Dims& padding, const Dims& dilation, int64_t groups, Location where) {                      \
    return weft::conv##n##d(input, weight, given(bias),                                                               \
                            {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups}, where);   \
  }                                                                                                                   \
  Tensor conv##n##d(const Tensor& input, const Tensor& weight, const optional<Tensor>& bias, const Dims& stride,      \
                    std::string_view padding, const Dims& dilation, int64_t groups, Location where) {                 \
    return weft::conv##n##d(input, weight, given(bias),                                                               \
                            {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups}, where);   \
  }                                                                                                                   \
  Tensor conv_transpose##n##d(const Tensor& input, const Tensor& weight, const optional<Tensor>& bias,                \
                              const Dims& stride, const Dims& padding, const Dims& output_padding, int64_t groups,    \
                              const Dims& dilation, Location where) {                                                 \
    return weft::conv_transpose##n##d(input, weight, given(bias),                                                     \
                                      {.stride = stride,                                                              \
                                       .padding = padding,                                                            \
                                       .output_padding = output_padding,                                              \
                                       .groups = groups,                                                              \
                                       .dilation = dilation},                                                         \
                                      where);                                                                         \
  }                                                                                                                   \
  Tensor max_pool##n##d(const Tensor& self, const Dims& kernel_size, const Dims& stride, const Dims& padding,         \
                        const Dims& dilation, bool ceil_mode, Location where) {                                       \
    return weft::max_pool##n##d(self, kernel_size,                                                                    \
                                {.stride = stride, .padding = padding, .dilation = dilation, .ceil_mode = ceil_mode}, \
                                where);                                                                               \
  }                                                                                                                   \
  TensorPair max_pool##n##d_with_indices(const Tensor& self, const Dims& kernel_size, const Dims& stride,             \
                                         const Dims& padding, const Dims& dilation, bool ceil_mode, Location where) { \
    return pair(weft::max_pool##n##d_with_indices(                                                                    \
        self, kernel_size, {.stride = stride, .padding = padding, .dilation = dilation, .ceil_mode = ceil_mode},      \
        where));                                                                                                      \
  }                                                                                                                   \
  Tensor avg_pool##n##d(const Tensor& self, const Dims& kernel_size, const Dims& stride, const Dims& padding,         \
                        bool ceil_mode, bool count_include_pad, optional<int64_t> divisor_override, Location where) { \
    return weft::avg_pool##n##d(self, kernel_size,                                                                    \
                                {.stride = stride,                                                                    \
                                 .padding = padding,                                                                  \
                                 .ceil_mode = ceil_mode,                                                              \
                                 .count_include_pad = count_include_pad,                                              \
                                 .divisor_override = divisor_override},                                               \
                                where);                                                                               \
  }                                                                                                                   \
  Tensor adaptive_avg_pool##n##d(const Tensor& self, const Dims& output_size, Location where) {                       \
    return weft::adaptive_avg_pool##n##d(self, output_size, where);                                                   \
  }                                                                                                                   \
  TensorPair adaptive_max_pool##n##d(const Tensor& self, const Dims& output_size, Location where) {                   \
    return pair(weft::adaptive_max_pool##n##d_with_indices(self, output_size, where));                                \
  }
DIMENSIONS(1)
DIMENSIONS(2)
DIMENSIONS(3)
#undef DIMENSIONS

Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t padding_idx, bool, bool sparse, Location where) {
  const optional<int64_t> padding = padding_idx < 0 ? nullopt : optional<int64_t>(padding_idx);
  return weft::embedding(weight, indices, weft::EmbeddingOptions{.padding_idx = padding, .sparse = sparse}, where);
}
std::tuple<Tensor, Tensor, Tensor, Tensor> embedding_bag(const Tensor& weight, const Tensor& indices,
                                                         const Tensor& offsets, bool, int64_t mode, bool sparse,
                                                         const optional<Tensor>& per_sample_weights,
                                                         bool include_last_offset, optional<int64_t> padding_idx) {
  TORCH_CHECK(mode >= 0 && mode <= 2, "embedding_bag: expected mode 0 (sum), 1 (mean) or 2 (max), got ", mode);
  return {weft::embedding_bag(indices, weight,
                              {.offsets = offsets,
                               .mode = static_cast<weft::BagMode>(mode),
                               .per_sample_weights = given(per_sample_weights),
                               .include_last_offset = include_last_offset,
                               .padding_idx = padding_idx,
                               .sparse = sparse}),
          Tensor(), Tensor(), Tensor()};
}
Tensor layer_norm(const Tensor& input, const Dims& normalized_shape, const optional<Tensor>& weight,
                  const optional<Tensor>& bias, double eps, bool, Location where) {
  return weft::layer_norm(input, normalized_shape, given(weight), given(bias), eps, where);
}
Tensor group_norm(const Tensor& input, int64_t num_groups, const optional<Tensor>& weight, const optional<Tensor>& bias,
                  double eps, bool, Location where) {
  return weft::group_norm(input, num_groups, given(weight), given(bias), eps, where);
}
Tensor batch_norm(const Tensor& input, const optional<Tensor>& weight, const optional<Tensor>& bias,
                  const optional<Tensor>& running_mean, const optional<Tensor>& running_var, bool training,
                  double momentum, double eps, bool, Location where) {
  return weft::batch_norm(input, given(running_mean), given(running_var), given(weight), given(bias),
                          {.training = training, .momentum = momentum, .eps = eps}, where);
}
Tensor dropout(const Tensor& input, double p, bool train, Location where) {
  return weft::dropout(input, p, train, nullptr, where);
}
Tensor& dropout_(Tensor& self, double p, bool train, Location where) {
  return self.copy_(weft::dropout(self, p, train, nullptr, where));
}
Tensor alpha_dropout(const Tensor& input, double p, bool train, Location where) {
  return weft::alpha_dropout(input, p, train, nullptr, where);
}
Tensor feature_dropout(const Tensor& input, double p, bool train, Location where) {
  return input.dim() == 5 ? weft::dropout3d(input, p, train, nullptr, where)
                          : weft::dropout2d(input, p, train, nullptr, where);
}
Tensor leaky_relu(const Tensor& self) { return weft::leaky_relu(self, 0.01); }
Tensor elu(const Tensor& self) { return weft::elu(self, 1.0); }
Tensor elu(const Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) {
  // scale * (x above 0, alpha * (exp(x * input_scale) - 1) below)
  const Tensor scaled = input_scale.is_one() ? self : self * input_scale;
  const Tensor below = weft::elu(scaled, alpha);
  const Tensor result = input_scale.is_one() ? below : Tensor(weft::where(self > 0, self, below));
  return scale.is_one() ? result : result * scale;
}
Tensor softplus(const Tensor& self, const Scalar& beta, const Scalar& threshold) {
  return weft::softplus(self, beta.toDouble(), threshold.toDouble());
}
Tensor hardtanh(const Tensor& self, const Scalar& min_val, const Scalar& max_val) {
  return weft::hardtanh(self, min_val, max_val);
}
Tensor threshold(const Tensor& self, const Scalar& threshold, const Scalar& value) {
  return weft::threshold(self, threshold, value);
}

// ---- losses ----
#define LOSS(name)                                                                                   \
  Tensor name(const Tensor& self, const Tensor& target, int64_t reduction, Location where) {         \
    return weft::name(self, target, weft::LossOptions{.reduction = reduction_of(reduction)}, where); \
  }
LOSS(mse_loss)
LOSS(l1_loss)
LOSS(soft_margin_loss)
#undef LOSS
Tensor huber_loss(const Tensor& self, const Tensor& target, int64_t reduction, double delta, Location where) {
  return weft::huber_loss(self, target, {.reduction = reduction_of(reduction), .delta = delta}, where);
}
Tensor smooth_l1_loss(const Tensor& self, const Tensor& target, int64_t reduction, double beta, Location where) {
  return weft::smooth_l1_loss(self, target, {.reduction = reduction_of(reduction), .beta = beta}, where);
}
Tensor kl_div(const Tensor& self, const Tensor& target, int64_t reduction, bool log_target, Location where) {
  return weft::kl_div(self, target, {.reduction = reduction_of(reduction), .log_target = log_target}, where);
}
Tensor nll_loss(const Tensor& self, const Tensor& target, const optional<Tensor>& weight, int64_t reduction,
                int64_t ignore_index, Location where) {
  return weft::nll_loss(self, target,
                        {.weight = given(weight), .reduction = reduction_of(reduction), .ignore_index = ignore_index},
                        where);
}
Tensor cross_entropy_loss(const Tensor& self, const Tensor& target, const optional<Tensor>& weight, int64_t reduction,
                          int64_t ignore_index, double label_smoothing, Location where) {
  return weft::cross_entropy(self, target,
                             {.weight = given(weight),
                              .reduction = reduction_of(reduction),
                              .ignore_index = ignore_index,
                              .label_smoothing = label_smoothing},
                             where);
}
Tensor binary_cross_entropy(const Tensor& self, const Tensor& target, const optional<Tensor>& weight, int64_t reduction,
                            Location where) {
  // libtorch's function compares shapes without dimensions of size 1; the one in nn::functional is strict.
  const bool same = self.shape() == target.shape() || self.squeeze().shape() != target.squeeze().shape();
  return weft::binary_cross_entropy(self, same ? target : target.reshape(self.shape()),
                                    {.weight = given(weight), .reduction = reduction_of(reduction)}, where);
}
Tensor binary_cross_entropy_with_logits(const Tensor& self, const Tensor& target, const optional<Tensor>& weight,
                                        const optional<Tensor>& pos_weight, int64_t reduction, Location where) {
  return weft::binary_cross_entropy_with_logits(
      self, target, {.weight = given(weight), .pos_weight = given(pos_weight), .reduction = reduction_of(reduction)},
      where);
}

}  // namespace at
