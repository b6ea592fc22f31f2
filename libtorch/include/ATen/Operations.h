// The ops of Tensor as functions, and those that are functions only.
#pragma once

#include <ATen/core/Tensor.h>

namespace at {

// ---- methods as functions ----
#define AT_OP(Result, name, parameters, arguments, ...)                            \
  inline Result name(const Tensor& self, AT_LIST parameters Location where = {}) { \
    return self.name(AT_LIST arguments where);                                     \
  }
#include <ATen/core/Operations.inc>
#undef AT_OP
#define AT_WRITE(name, parameters, arguments, ...)                                  \
  inline Tensor& name(const Tensor& self, AT_LIST parameters Location where = {}) { \
    return self.name(AT_LIST arguments where);                                      \
  }
#include <ATen/core/Writes.inc>
#undef AT_WRITE
#define AT_UNARY(name, ...)                                                                       \
  inline Tensor name(const Tensor& self, Location where = {}) { return self.name(where); }        \
  inline Tensor& name##_(const Tensor& self, Location where = {}) { return self.name##_(where); } \
  inline Tensor& name##_out(Tensor& out, const Tensor& self) { return write_out(out, self.name()); }
Tensor& write_out(Tensor& out, const Tensor& result);
WEFT_UNARY_OPS(AT_UNARY)
AT_UNARY_NAMES(AT_UNARY)
#undef AT_UNARY
#define AT_BINARY(name, ...)                                                                       \
  inline Tensor name(const Tensor& self, const Operand& other) { return self.name(other); }        \
  inline Tensor& name##_(const Tensor& self, const Operand& other) { return self.name##_(other); } \
  inline Tensor& name##_out(Tensor& out, const Tensor& self, const Operand& other) {               \
    return write_out(out, self.name(other));                                                       \
  }
WEFT_BINARY_OPS(AT_BINARY)
WEFT_INTEGER_OPS(AT_BINARY)
AT_BINARY_NAMES(AT_BINARY)
WEFT_COMPARE_OPS(AT_BINARY)
#undef AT_BINARY
#define AT_COMPARE_FUNCTION(name, ...) \
  inline Tensor name(const Tensor& self, const Operand& other) { return self.name(other); }
AT_COMPARE_NAMES(AT_COMPARE_FUNCTION)
#undef AT_COMPARE_FUNCTION
inline Tensor pow(const Scalar& base, const Tensor& exponent) { return weft::pow(base, exponent); }
inline Tensor remainder(const Scalar& a, const Tensor& b) { return weft::remainder(a, b); }
inline Tensor maximum(const Tensor& a, const Tensor& b) { return a.maximum(b); }
inline Tensor minimum(const Tensor& a, const Tensor& b) { return a.minimum(b); }
Tensor index(const Tensor& self, std::initializer_list<optional<Tensor>> indices);
Tensor& index_put_(const Tensor& self, std::initializer_list<optional<Tensor>> indices, const Tensor& values,
                   bool accumulate = false);

// ---- conditions ----
inline Tensor where(const Tensor& condition, const Operand& a, const Operand& b) {
  return weft::where(condition, a, b);
}
TensorVector where(const Tensor& condition);
inline bool is_floating_point(const Tensor& self) { return self.is_floating_point(); }
inline bool is_complex(const Tensor& self) { return self.is_complex(); }
inline bool is_nonzero(const Tensor& self) { return self.is_nonzero(); }
inline int64_t numel(const Tensor& self) { return self.numel(); }
inline int64_t size(const Tensor& self, int64_t dim) { return self.size(dim); }
inline ScalarType result_type(const Tensor& a, const Tensor& b) { return weft::result_type(a, b); }
inline ScalarType promote_types(ScalarType a, ScalarType b) { return weft::promote(a, b); }
bool can_cast(ScalarType from, ScalarType to);

inline Tensor _reshape_alias(const Tensor& self, const Dims& size, const Dims& stride) {
  return self.as_strided(size, stride);
}

// ---- joins ----
Tensor cat(TensorList tensors, int64_t dim = 0, Location where = {});
Tensor stack(TensorList tensors, int64_t dim = 0, Location where = {});
inline Tensor concat(TensorList tensors, int64_t dim = 0, Location where = {}) { return cat(tensors, dim, where); }
inline Tensor concatenate(TensorList tensors, int64_t dim = 0, Location where = {}) { return cat(tensors, dim, where); }
Tensor hstack(TensorList tensors);
Tensor vstack(TensorList tensors);
Tensor dstack(TensorList tensors);
Tensor column_stack(TensorList tensors);
Tensor block_diag(TensorList tensors);
Tensor cartesian_prod(TensorList tensors);
Tensor combinations(const Tensor& self, int64_t r = 2, bool with_replacement = false);
Tensor chain_matmul(TensorList matrices);
Tensor einsum(std::string_view equation, TensorList tensors, OptionalIntArrayRef path = nullopt);
TensorVector broadcast_tensors(TensorList tensors);
TensorVector meshgrid(TensorList tensors, std::string_view indexing = "ij");
Tensor tensordot(const Tensor& a, const Tensor& b, IntArrayRef dims_a, IntArrayRef dims_b);
Tensor complex(const Tensor& real, const Tensor& imag);
Tensor polar(const Tensor& abs, const Tensor& angle);
Tensor cdist(const Tensor& x1, const Tensor& x2, double p = 2, optional<int64_t> compute_mode = nullopt);
Tensor pdist(const Tensor& self, double p = 2);
Tensor bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32 = false, bool right = false);
Tensor searchsorted(const Tensor& sorted, const Operand& values, bool out_int32 = false, bool right = false);
Tensor isin(const Tensor& elements, const Tensor& tests, bool assume_unique = false, bool invert = false);
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1);
Tensor trapezoid(const Tensor& y, const Scalar& dx = 1, int64_t dim = -1);
std::tuple<Tensor, Tensor> var_mean(const Tensor& self, bool unbiased = true);
std::tuple<Tensor, Tensor> var_mean(const Tensor& self, IntArrayRef dim, bool unbiased = true, bool keepdim = false);
inline std::tuple<Tensor, Tensor> var_mean(const Tensor& self, int dim) { return var_mean(self, IntArrayRef({dim})); }
std::tuple<Tensor, Tensor> std_mean(const Tensor& self, bool unbiased = true);
std::tuple<Tensor, Tensor> std_mean(const Tensor& self, IntArrayRef dim, bool unbiased = true, bool keepdim = false);
inline std::tuple<Tensor, Tensor> std_mean(const Tensor& self, int dim) { return std_mean(self, IntArrayRef({dim})); }
std::tuple<Tensor, Tensor, Tensor> unique_dim(const Tensor& self, int64_t dim, bool sorted = true,
                                              bool return_inverse = false, bool return_counts = false);
std::tuple<Tensor, Tensor> _unique(const Tensor& self, bool sorted = true, bool return_inverse = false);
std::tuple<Tensor, Tensor, Tensor> _unique2(const Tensor& self, bool sorted = true, bool return_inverse = false,
                                            bool return_counts = false);
std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& self, bool return_inverse = false,
                                                      bool return_counts = false, optional<int64_t> dim = nullopt);
std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& self, bool some = true, bool compute_uv = true);
std::tuple<Tensor, Tensor> qr(const Tensor& self, bool some = true);
std::tuple<Tensor, Tensor> slogdet(const Tensor& self);
Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      std::string_view reduce, bool include_self = true);
Tensor one_hot(const Tensor& self, int64_t num_classes = -1);
Tensor tril_indices(int64_t row, int64_t col, int64_t offset = 0, const TensorOptions& options = kLong);
Tensor triu_indices(int64_t row, int64_t col, int64_t offset = 0, const TensorOptions& options = kLong);
Tensor constant_pad_nd(const Tensor& self, IntArrayRef pad, const Scalar& value = 0);
Tensor poisson(const Tensor& self, optional<Generator> generator = nullopt);
Tensor binomial(const Tensor& count, const Tensor& prob, optional<Generator> generator = nullopt);
Tensor normal(double mean, double std, const Dims& size, optional<Generator> generator = nullopt,
              const TensorOptions& options = {});
Tensor normal(const Tensor& mean, double std = 1, optional<Generator> generator = nullopt);
Tensor normal(double mean, const Tensor& std, optional<Generator> generator = nullopt);
Tensor normal(const Tensor& mean, const Tensor& std, optional<Generator> generator = nullopt);
#define AT_OUT(name, parameters, ...)                           \
  template <class... A>                                         \
  Tensor& name##_out(Tensor& out, A&&... arguments) {           \
    return write_out(out, name(std::forward<A>(arguments)...)); \
  }
AT_OUT(cat, )
AT_OUT(linear, )
AT_OUT(stack, ) AT_OUT(matmul, ) AT_OUT(mm, ) AT_OUT(bmm, ) AT_OUT(addmm, ) AT_OUT(sum, ) AT_OUT(mean, ) AT_OUT(clamp, )
    AT_OUT(index_select, ) AT_OUT(masked_select, ) AT_OUT(gather, )
#undef AT_OUT

    // ---- layers ----
    Tensor linear(const Tensor& input, const Tensor& weight, const optional<Tensor>& bias = {}, Location where = {});
Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight, const optional<Tensor>& bias = {});
#define AT_CONVOLUTION(n)                                                                                              \
  Tensor conv##n##d(const Tensor& input, const Tensor& weight, const optional<Tensor>& bias = {},                      \
                    const Dims& stride = 1, const Dims& padding = 0, const Dims& dilation = 1, int64_t groups = 1,     \
                    Location where = {});                                                                              \
  Tensor conv##n##d(const Tensor& input, const Tensor& weight, const optional<Tensor>& bias, const Dims& stride,       \
                    std::string_view padding, const Dims& dilation = 1, int64_t groups = 1, Location where = {});      \
  Tensor conv_transpose##n##d(const Tensor& input, const Tensor& weight, const optional<Tensor>& bias = {},            \
                              const Dims& stride = 1, const Dims& padding = 0, const Dims& output_padding = 0,         \
                              int64_t groups = 1, const Dims& dilation = 1, Location where = {});                      \
  Tensor max_pool##n##d(const Tensor& self, const Dims& kernel_size, const Dims& stride = {}, const Dims& padding = 0, \
                        const Dims& dilation = 1, bool ceil_mode = false, Location where = {});                        \
  TensorPair max_pool##n##d_with_indices(const Tensor& self, const Dims& kernel_size, const Dims& stride = {},         \
                                         const Dims& padding = 0, const Dims& dilation = 1, bool ceil_mode = false,    \
                                         Location where = {});                                                         \
  Tensor avg_pool##n##d(const Tensor& self, const Dims& kernel_size, const Dims& stride = {}, const Dims& padding = 0, \
                        bool ceil_mode = false, bool count_include_pad = true,                                         \
                        optional<int64_t> divisor_override = nullopt, Location where = {});                            \
  Tensor adaptive_avg_pool##n##d(const Tensor& self, const Dims& output_size, Location where = {});                    \
  TensorPair adaptive_max_pool##n##d(const Tensor& self, const Dims& output_size, Location where = {});
AT_CONVOLUTION(1)
AT_CONVOLUTION(2)
AT_CONVOLUTION(3)
#undef AT_CONVOLUTION
Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t padding_idx = -1, bool scale_grad_by_freq = false,
                 bool sparse = false, Location where = {});
/// The sums (mode 0), means (1) or maxima (2) of rows, bag by bag. The other results, which libtorch saves for its
/// gradient, are undefined.
std::tuple<Tensor, Tensor, Tensor, Tensor> embedding_bag(const Tensor& weight, const Tensor& indices,
                                                         const Tensor& offsets, bool scale_grad_by_freq = false,
                                                         int64_t mode = 0, bool sparse = false,
                                                         const optional<Tensor>& per_sample_weights = {},
                                                         bool include_last_offset = false,
                                                         optional<int64_t> padding_idx = nullopt);
Tensor layer_norm(const Tensor& input, const Dims& normalized_shape, const optional<Tensor>& weight = {},
                  const optional<Tensor>& bias = {}, double eps = 1e-5, bool cudnn_enable = true, Location where = {});
Tensor group_norm(const Tensor& input, int64_t num_groups, const optional<Tensor>& weight = {},
                  const optional<Tensor>& bias = {}, double eps = 1e-5, bool cudnn_enabled = true, Location where = {});
Tensor batch_norm(const Tensor& input, const optional<Tensor>& weight, const optional<Tensor>& bias,
                  const optional<Tensor>& running_mean, const optional<Tensor>& running_var, bool training,
                  double momentum, double eps, bool cudnn_enabled = true, Location where = {});
Tensor dropout(const Tensor& input, double p, bool train, Location where = {});
Tensor& dropout_(Tensor& self, double p, bool train, Location where = {});
Tensor alpha_dropout(const Tensor& input, double p, bool train, Location where = {});
Tensor feature_dropout(const Tensor& input, double p, bool train, Location where = {});
Tensor leaky_relu(const Tensor& self);
Tensor elu(const Tensor& self);
Tensor elu(const Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale = 1);
Tensor softplus(const Tensor& self, const Scalar& beta, const Scalar& threshold = 20);
Tensor hardtanh(const Tensor& self, const Scalar& min_val = -1, const Scalar& max_val = 1);
Tensor threshold(const Tensor& self, const Scalar& threshold, const Scalar& value);
inline Tensor log_sigmoid(const Tensor& self) { return self.logsigmoid(); }
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim = 1, double eps = 1e-8);
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p = 2, double eps = 1e-6, bool keepdim = false);

namespace Reduction {
enum Reduction { None, Mean, Sum, END };
}
Tensor mse_loss(const Tensor& self, const Tensor& target, int64_t reduction = Reduction::Mean, Location where = {});
Tensor l1_loss(const Tensor& self, const Tensor& target, int64_t reduction = Reduction::Mean, Location where = {});
Tensor huber_loss(const Tensor& self, const Tensor& target, int64_t reduction = Reduction::Mean, double delta = 1,
                  Location where = {});
Tensor smooth_l1_loss(const Tensor& self, const Tensor& target, int64_t reduction = Reduction::Mean, double beta = 1,
                      Location where = {});
Tensor soft_margin_loss(const Tensor& self, const Tensor& target, int64_t reduction = Reduction::Mean,
                        Location where = {});
Tensor kl_div(const Tensor& self, const Tensor& target, int64_t reduction = Reduction::Mean, bool log_target = false,
              Location where = {});
Tensor nll_loss(const Tensor& self, const Tensor& target, const optional<Tensor>& weight = {},
                int64_t reduction = Reduction::Mean, int64_t ignore_index = -100, Location where = {});
Tensor cross_entropy_loss(const Tensor& self, const Tensor& target, const optional<Tensor>& weight = {},
                          int64_t reduction = Reduction::Mean, int64_t ignore_index = -100, double label_smoothing = 0,
                          Location where = {});
Tensor binary_cross_entropy(const Tensor& self, const Tensor& target, const optional<Tensor>& weight = {},
                            int64_t reduction = Reduction::Mean, Location where = {});
Tensor binary_cross_entropy_with_logits(const Tensor& self, const Tensor& target, const optional<Tensor>& weight = {},
                                        const optional<Tensor>& pos_weight = {}, int64_t reduction = Reduction::Mean,
                                        Location where = {});

}  // namespace at
