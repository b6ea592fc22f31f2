// Tensor's methods and those of x[…]: each is the free function of its name.
#include "attention.hpp"
#include "axes.hpp"
#include "combine.hpp"
#include "complex.hpp"
#include "create.hpp"
#include "distance.hpp"
#include "distribution.hpp"
#include "detail/promote.hpp"
#include "diagonal.hpp"
#include "differences.hpp"
#include "index.hpp"
#include "subscript.hpp"
#include "join.hpp"
#include "loss.hpp"
#include "masked.hpp"
#include "matmul.hpp"
#include "norm.hpp"
#include "pad.hpp"
#include "pieces.hpp"
#include "pointwise.hpp"
#include "random.hpp"
#include "rearrange.hpp"
#include "reduce.hpp"
#include "scan.hpp"
#include "scatter.hpp"
#include "search.hpp"
#include "softmax.hpp"
#include "sort.hpp"
#include "special.hpp"
#include "statistics.hpp"

namespace weft {

// WEFT_METHOD(result, name, (parameters), arguments of the free function), where x is the tensor or the selection; the
// location of the call is the last parameter and the last argument.
#define WEFT_WITH_PLACE(...) (__VA_ARGS__ __VA_OPT__(, ) Location where)
#define WEFT_METHOD(result, name, parameters, ...) \
  WEFT_OPERAND_METHOD(result, name, WEFT_WITH_PLACE parameters, __VA_ARGS__, where)
// The same for functions whose operand carries the location.
#define WEFT_OPERAND_METHOD(result, name, parameters, ...) \
  result Tensor::name parameters const {                   \
    const Tensor& x = *this;                               \
    return weft::name(__VA_ARGS__);                        \
  }                                                        \
  result Indexed::name parameters const {                  \
    const Tensor& x = elements();                          \
    return weft::name(__VA_ARGS__);                        \
  }
// One that x[…] has from Tensor, which defines it elsewhere.
#define WEFT_PART_METHOD(result, name, parameters, ...) \
  result Indexed::name WEFT_WITH_PLACE parameters const { return elements().name(__VA_ARGS__ __VA_OPT__(, ) where); }
// One that writes.
#define WEFT_PART_WRITE(name, parameters, ...)                   \
  Tensor Indexed::name parameters&& {                            \
    return write([&](const Tensor& x) { x.name(__VA_ARGS__); }); \
  }                                                              \
  Tensor Indexed::name parameters const& { return elements().name(__VA_ARGS__); }
#define WEFT_OPERAND_WRITE(name, parameters, ...)                                        \
  const Tensor& Tensor::name parameters const { return weft::name(*this, __VA_ARGS__); } \
  WEFT_PART_WRITE(name, parameters, __VA_ARGS__)
#define WEFT_WRITE(name, parameters, ...) \
  WEFT_OPERAND_WRITE(name, WEFT_WITH_PLACE parameters, __VA_ARGS__ __VA_OPT__(, ) where)

// ---- elementwise ----
#define WEFT_UNARY_METHOD(name, ...)                                     \
  WEFT_OPERAND_METHOD(Tensor, name, (Location where), Operand(x, where)) \
  WEFT_WRITE(name##_, ())
WEFT_UNARY_OPS(WEFT_UNARY_METHOD)
#define WEFT_BINARY_METHOD(name, ...)                                                       \
  WEFT_OPERAND_METHOD(Tensor, name, (const Operand& other), Operand(x, other.where), other) \
  WEFT_OPERAND_WRITE(name##_, (const Operand& other), other)
WEFT_BINARY_OPS(WEFT_BINARY_METHOD)
WEFT_INTEGER_OPS(WEFT_BINARY_METHOD)
#define WEFT_COMPARE_METHOD(name, ...) \
  WEFT_OPERAND_METHOD(Tensor, name, (const Operand& other), Operand(x, other.where), other)
WEFT_COMPARE_OPS(WEFT_COMPARE_METHOD)

Tensor Tensor::where(const Operand& condition, const Operand& other) const {
  return weft::where(condition, Operand(*this, condition.where), other);
}
Tensor Indexed::where(const Operand& condition, const Operand& other) const {
  return elements().where(condition, other);
}

Tensor Tensor::clamp(std::optional<Scalar> low, std::optional<Scalar> high, Location where) const {
  return weft::clip(Operand(*this, where), low, high);
}
Tensor Tensor::clamp(const Tensor& low, const Tensor& high, Location where) const {
  return clip_by(Operand(*this, where), low, high);
}
Tensor Tensor::clip(const Tensor& low, const Tensor& high, Location where) const { return clamp(low, high, where); }
const Tensor& Tensor::clamp_(std::optional<Scalar> low, std::optional<Scalar> high, Location where) const {
  const auto number = [](std::optional<Scalar> bound) { return bound ? Operand(*bound).tensor() : Tensor(); };
  return clamp_(number(low), number(high), where);
}
const Tensor& Tensor::clamp_(const Tensor& low, const Tensor& high, Location where) const {
  const CallScope call("clamp_", where);
  return clip_by_(*this, low, high);
}
const Tensor& Tensor::clip_(std::optional<Scalar> low, std::optional<Scalar> high, Location where) const {
  return clamp_(low, high, where);
}
const Tensor& Tensor::clip_(const Tensor& low, const Tensor& high, Location where) const {
  return clamp_(low, high, where);
}
WEFT_PART_METHOD(Tensor, clamp, (std::optional<Scalar> low, std::optional<Scalar> high), low, high)
WEFT_PART_METHOD(Tensor, clamp, (const Tensor& low, const Tensor& high), low, high)
WEFT_PART_METHOD(Tensor, clip, (const Tensor& low, const Tensor& high), low, high)
#define WEFT_WITH_RANGE(Bound) (Bound low, Bound high, Location where)
WEFT_PART_WRITE(clamp_, WEFT_WITH_RANGE(std::optional<Scalar>), low, high, where)
WEFT_PART_WRITE(clamp_, WEFT_WITH_RANGE(const Tensor&), low, high, where)
WEFT_PART_WRITE(clip_, WEFT_WITH_RANGE(std::optional<Scalar>), low, high, where)
WEFT_PART_WRITE(clip_, WEFT_WITH_RANGE(const Tensor&), low, high, where)

WEFT_OPERAND_METHOD(Tensor, cast, (DType dtype, Overflow overflow, Location where), Operand(x, where), dtype, overflow)
WEFT_METHOD(Tensor, unfold, (int dim, int64_t size, int64_t step), x, dim, size, step)
WEFT_METHOD(Tensor, real, (), x)
WEFT_METHOD(Tensor, imag, (), x)
WEFT_METHOD(Tensor, view_as_real, (), x)
WEFT_METHOD(Tensor, view_as_complex, (), x)
WEFT_METHOD(Tensor, angle, (), x)
WEFT_METHOD(Tensor, sgn, (), x)
WEFT_METHOD(Tensor, flip, (const Dims& dims), x, dims)
WEFT_METHOD(Tensor, fliplr, (), x)
WEFT_METHOD(Tensor, flipud, (), x)
WEFT_METHOD(Tensor, roll, (const Dims& shifts, const Dims& dims), x, shifts, dims)
WEFT_METHOD(Tensor, repeat, (const Dims& repeats), x, repeats)
WEFT_METHOD(Tensor, tile, (const Dims& repeats), x, repeats)
WEFT_METHOD(Tensor, movedim, (const Dims& source, const Dims& destination), x, source, destination)
WEFT_METHOD(Tensor, moveaxis, (const Dims& source, const Dims& destination), x, source, destination)
WEFT_METHOD(Tensor, swapaxes, (int dim0, int dim1), x, dim0, dim1)
WEFT_METHOD(Tensor, swapdims, (int dim0, int dim1), x, dim0, dim1)
WEFT_METHOD(Tensor, unflatten, (int dim, const Dims& sizes), x, dim, sizes)
WEFT_METHOD(Tensor, ravel, (), x)
WEFT_METHOD(Tensor, atleast_1d, (), x)
WEFT_METHOD(Tensor, atleast_2d, (), x)
WEFT_METHOD(Tensor, atleast_3d, (), x)
WEFT_METHOD(Tensor, broadcast_to, (const Dims& shape), x, shape)
WEFT_METHOD(std::vector<Tensor>, split_with_sizes, (std::span<const int64_t> sizes, int dim), x, sizes, dim)
WEFT_METHOD(std::vector<Tensor>, split_with_sizes, (std::initializer_list<int64_t> sizes, int dim), x, sizes, dim)
WEFT_METHOD(std::vector<Tensor>, tensor_split, (int64_t sections, int dim), x, sections, dim)
WEFT_METHOD(std::vector<Tensor>, tensor_split, (std::span<const int64_t> indices, int dim), x, indices, dim)
WEFT_METHOD(std::vector<Tensor>, tensor_split, (std::initializer_list<int64_t> indices, int dim), x, indices, dim)
WEFT_METHOD(std::vector<Tensor>, hsplit, (int64_t sections), x, sections)
WEFT_METHOD(std::vector<Tensor>, hsplit, (std::span<const int64_t> indices), x, indices)
WEFT_METHOD(std::vector<Tensor>, hsplit, (std::initializer_list<int64_t> indices), x, indices)
WEFT_METHOD(std::vector<Tensor>, vsplit, (int64_t sections), x, sections)
WEFT_METHOD(std::vector<Tensor>, vsplit, (std::span<const int64_t> indices), x, indices)
WEFT_METHOD(std::vector<Tensor>, vsplit, (std::initializer_list<int64_t> indices), x, indices)
WEFT_METHOD(std::vector<Tensor>, dsplit, (int64_t sections), x, sections)
WEFT_METHOD(std::vector<Tensor>, dsplit, (std::span<const int64_t> indices), x, indices)
WEFT_METHOD(std::vector<Tensor>, dsplit, (std::initializer_list<int64_t> indices), x, indices)
WEFT_METHOD(Tensor, repeat_interleave, (int64_t repeats, std::optional<int64_t> dim), x, repeats, dim)
WEFT_METHOD(Tensor, repeat_interleave,
            (const Tensor& repeats, std::optional<int64_t> dim, std::optional<int64_t> output_size), x, repeats, dim,
            output_size)
WEFT_METHOD(Tensor, rot90, (int64_t k, const Dims& dims), x, k, dims)
WEFT_METHOD(Tensor, pad, (std::span<const int64_t> padding, Padding mode, Scalar value), x, padding, mode, value)
WEFT_METHOD(Tensor, pad, (std::initializer_list<int64_t> padding, Padding mode, Scalar value), x, padding, mode, value)
WEFT_METHOD(Tensor, pixel_shuffle, (int64_t upscale_factor), x, upscale_factor)
WEFT_METHOD(Tensor, pixel_unshuffle, (int64_t downscale_factor), x, downscale_factor)
WEFT_METHOD(Tensor, channel_shuffle, (int64_t groups), x, groups)
WEFT_METHOD(Tensor, diag, (int64_t diagonal), x, diagonal)
WEFT_METHOD(Tensor, diag_embed, (int64_t offset, int dim1, int dim2), x, offset, dim1, dim2)
WEFT_METHOD(Tensor, trace, (), x)
WEFT_METHOD(Tensor, tril, (int64_t diagonal), x, diagonal)
WEFT_METHOD(Tensor, triu, (int64_t diagonal), x, diagonal)
WEFT_WRITE(tril_, (int64_t diagonal), diagonal)
WEFT_WRITE(triu_, (int64_t diagonal), diagonal)
WEFT_METHOD(Tensor, diagonal_scatter, (const Tensor& source, int64_t offset, int dim1, int dim2), x, source, offset,
            dim1, dim2)
WEFT_METHOD(Tensor, select_scatter, (const Tensor& source, int dim, int64_t index), x, source, dim, index)
WEFT_METHOD(Tensor, slice_scatter,
            (const Tensor& source, int dim, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step), x,
            source, dim, start, stop, step)
WEFT_METHOD(Tensor, combinations, (int64_t r, bool with_replacement), x, r, with_replacement)
WEFT_METHOD(Tensor, vander, (std::optional<int64_t> count, bool increasing), x, count, increasing)
WEFT_METHOD(Tensor, tensordot, (const Tensor& other, int64_t count), x, other, count)
WEFT_METHOD(Tensor, tensordot, (const Tensor& other, const Dims& dims, const Dims& dims_of_other), x, other, dims,
            dims_of_other)
WEFT_OPERAND_METHOD(Tensor, gelu, (Location where), Operand(x, where))
WEFT_OPERAND_METHOD(Tensor, gelu, (Approximate approximate, Location where), Operand(x, where), approximate)
WEFT_OPERAND_METHOD(Tensor, clip, (std::optional<Scalar> low, std::optional<Scalar> high, Location where),
                    Operand(x, where), low, high)
WEFT_OPERAND_METHOD(Tensor, add, (const Operand& other, Scalar alpha), Operand(x, other.where), other, alpha)
WEFT_OPERAND_METHOD(Tensor, sub, (const Operand& other, Scalar alpha), Operand(x, other.where), other, alpha)
WEFT_OPERAND_METHOD(Tensor, addcmul, (const Operand& b, const Operand& c, Scalar value), Operand(x, b.where), b, c,
                    value)
WEFT_OPERAND_METHOD(Tensor, round, (int64_t decimals, Location where), Operand(x, where), decimals)
WEFT_OPERAND_METHOD(Tensor, softplus, (double beta, double threshold, Location where), Operand(x, where), beta,
                    threshold)
WEFT_WRITE(round_, (int64_t decimals), decimals)
WEFT_OPERAND_METHOD(Tensor, lerp, (const Operand& end, const Operand& weight), Operand(x, end.where), end, weight)
WEFT_OPERAND_METHOD(Tensor, masked_fill, (const Operand& mask, const Operand& value), Operand(x, mask.where), mask,
                    value)
WEFT_OPERAND_METHOD(Tensor, logical_not, (Location where), Operand(x, where))
WEFT_OPERAND_METHOD(Tensor, isnan, (Location where), Operand(x, where))
WEFT_OPERAND_METHOD(Tensor, isinf, (Location where), Operand(x, where))
WEFT_OPERAND_METHOD(Tensor, isfinite, (Location where), Operand(x, where))
WEFT_OPERAND_METHOD(Tensor, isposinf, (Location where), Operand(x, where))
WEFT_OPERAND_METHOD(Tensor, isneginf, (Location where), Operand(x, where))
WEFT_OPERAND_METHOD(Tensor, isreal, (Location where), Operand(x, where))
WEFT_OPERAND_METHOD(Tensor, signbit, (Location where), Operand(x, where))
WEFT_OPERAND_METHOD(Tensor, isclose, (const Operand& other, double relative, double absolute, bool equal_nan),
                    Operand(x, other.where), other, relative, absolute, equal_nan)
WEFT_METHOD(bool, allclose, (const Tensor& other, double relative, double absolute, bool equal_nan), x, other, relative,
            absolute, equal_nan)
WEFT_METHOD(bool, equal, (const Tensor& other), x, other)
WEFT_OPERAND_METHOD(Tensor, addcdiv, (const Operand& b, const Operand& c, Scalar value), Operand(x, b.where), b, c,
                    value)
WEFT_OPERAND_METHOD(Tensor, threshold, (const Operand& edge, const Operand& value), Operand(x, edge.where), edge, value)
WEFT_OPERAND_METHOD(Tensor, hardtanh, (Location where), Operand(x, where))
WEFT_OPERAND_METHOD(Tensor, hardtanh, (const Operand& low, const Operand& high), Operand(x, low.where), low, high)
WEFT_OPERAND_METHOD(Tensor, prelu, (const Tensor& weight, Location where), Operand(x, where), weight)
WEFT_OPERAND_METHOD(Tensor, polygamma, (int64_t n, Location where), n, Operand(x, where))
WEFT_OPERAND_METHOD(Tensor, mvlgamma, (int64_t p, Location where), Operand(x, where), p)
WEFT_OPERAND_METHOD(Tensor, nextafter, (const Operand& other), Operand(x, other.where), other)
WEFT_OPERAND_METHOD(MantissaAndExponent, frexp, (Location where), Operand(x, where))
WEFT_METHOD(Tensor, positive, (), x)
WEFT_OPERAND_METHOD(Tensor, bitwise_not, (Location where), Operand(x, where))
WEFT_WRITE(bitwise_not_, ())
WEFT_OPERAND_METHOD(Tensor, logit, (std::optional<double> eps, Location where), Operand(x, where), eps)
WEFT_OPERAND_METHOD(Tensor, glu, (int64_t dim, Location where), Operand(x, where), dim)
WEFT_OPERAND_METHOD(Tensor, nan_to_num,
                    (double nan, std::optional<double> posinf, std::optional<double> neginf, Location where),
                    Operand(x, where), nan, posinf, neginf)
WEFT_OPERAND_METHOD(Tensor, float_power, (const Operand& exponent), Operand(x, exponent.where), exponent)
WEFT_OPERAND_METHOD(Tensor, ldexp, (const Operand& exponent), Operand(x, exponent.where), exponent)
WEFT_METHOD(Tensor, sum, (), x)
WEFT_METHOD(Tensor, sum, (const Dims& dims, bool keepdim, std::optional<DType> dtype), x, dims, keepdim, dtype)
WEFT_METHOD(Tensor, mean, (), x)
WEFT_METHOD(Tensor, mean, (const Dims& dims, bool keepdim, std::optional<DType> dtype), x, dims, keepdim, dtype)
WEFT_METHOD(Tensor, prod, (), x)
WEFT_METHOD(Tensor, prod, (const Dims& dims, bool keepdim, std::optional<DType> dtype), x, dims, keepdim, dtype)
WEFT_METHOD(Tensor, max, (), x)
WEFT_METHOD(ValuesAndIndices, max, (int dim, bool keepdim), x, dim, keepdim)
WEFT_METHOD(Tensor, min, (), x)
WEFT_METHOD(ValuesAndIndices, min, (int dim, bool keepdim), x, dim, keepdim)
WEFT_METHOD(Tensor, amax, (const Dims& dims, bool keepdim), x, dims, keepdim)
WEFT_METHOD(Tensor, amin, (const Dims& dims, bool keepdim), x, dims, keepdim)
WEFT_METHOD(Tensor, argmax, (std::optional<int64_t> dim, bool keepdim), x, dim, keepdim)
WEFT_METHOD(Tensor, argmin, (std::optional<int64_t> dim, bool keepdim), x, dim, keepdim)
WEFT_METHOD(Tensor, any, (), x)
WEFT_METHOD(Tensor, any, (const Dims& dims, bool keepdim), x, dims, keepdim)
WEFT_METHOD(Tensor, all, (), x)
WEFT_METHOD(Tensor, all, (const Dims& dims, bool keepdim), x, dims, keepdim)
WEFT_METHOD(Tensor, var, (), x)
WEFT_METHOD(Tensor, var, (const Dims& dims, double correction, bool keepdim), x, dims, correction, keepdim)
WEFT_METHOD(Tensor, std, (), x)
WEFT_METHOD(Tensor, std, (const Dims& dims, double correction, bool keepdim), x, dims, correction, keepdim)
WEFT_METHOD(Tensor, logsumexp, (const Dims& dims, bool keepdim), x, dims, keepdim)
WEFT_METHOD(Tensor, norm, (), x)
WEFT_METHOD(Tensor, norm, (const Dims& dims), x, dims)
WEFT_METHOD(Tensor, vector_norm, (double order, const Dims& dims, bool keepdim, std::optional<DType> dtype), x, order,
            dims, keepdim, dtype)
WEFT_METHOD(Tensor, max, (const Tensor& other), x, other)
WEFT_METHOD(Tensor, min, (const Tensor& other), x, other)
WEFT_METHOD(Tensor, cumsum, (std::optional<int64_t> dim, bool exclusive, bool reverse, std::optional<DType> dtype), x,
            dim, exclusive, reverse, dtype)
WEFT_METHOD(Tensor, softmax, (int dim, std::optional<DType> dtype), x, dim, dtype)
WEFT_METHOD(Tensor, log_softmax, (int dim, std::optional<DType> dtype), x, dim, dtype)
WEFT_METHOD(Tensor, matmul, (const Tensor& other), x, other)
WEFT_METHOD(Tensor, mm, (const Tensor& other), x, other)
WEFT_METHOD(Tensor, bmm, (const Tensor& other), x, other)
WEFT_METHOD(Tensor, mv, (const Tensor& other), x, other)
WEFT_METHOD(Tensor, dot, (const Tensor& other), x, other)
WEFT_METHOD(Tensor, outer, (const Tensor& other), x, other)
WEFT_METHOD(Tensor, addmm, (const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha), x, a, b, beta, alpha)
WEFT_METHOD(Tensor, linear, (const Tensor& weight, const Tensor& bias), x, weight, bias)
WEFT_METHOD(Tensor, embedding, (const Tensor& indices, int64_t padding_idx), x, indices, padding_idx)
WEFT_METHOD(Tensor, layer_norm, (const Dims& normalized_shape, const Tensor& weight, const Tensor& bias, double eps), x,
            normalized_shape, weight, bias, eps)
WEFT_METHOD(Tensor, rms_norm, (const Dims& normalized_shape, const Tensor& weight, std::optional<double> eps), x,
            normalized_shape, weight, eps, RmsCast::once)
WEFT_METHOD(Tensor, scaled_dot_product_attention, (const Tensor& k, const Tensor& v), x, k, v, {})
WEFT_METHOD(Tensor, scaled_dot_product_attention, (const Tensor& k, const Tensor& v, const AttentionOptions& options),
            x, k, v, options)
WEFT_METHOD(Tensor, dropout, (double p, bool training, Generator* generator), x, p, training, generator)
#define WEFT_LOSS_METHOD(name, Options)                                                                                \
  WEFT_OPERAND_METHOD(Tensor, name, (const Operand& target), Operand(x, target.where), target, Options(),              \
                      target.where)                                                                                    \
  WEFT_OPERAND_METHOD(Tensor, name, (const Operand& target, const Options& options), Operand(x, target.where), target, \
                      options, target.where)
WEFT_LOSS_METHOD(cross_entropy, CrossEntropyOptions)
WEFT_LOSS_METHOD(nll_loss, NllOptions)
WEFT_LOSS_METHOD(mse_loss, LossOptions)
WEFT_LOSS_METHOD(l1_loss, LossOptions)
WEFT_LOSS_METHOD(huber_loss, HuberOptions)
WEFT_LOSS_METHOD(smooth_l1_loss, SmoothL1Options)
WEFT_LOSS_METHOD(binary_cross_entropy_with_logits, BinaryCrossEntropyOptions)
WEFT_LOSS_METHOD(binary_cross_entropy, PlainBinaryOptions)
WEFT_LOSS_METHOD(kl_div, KlOptions)
WEFT_LOSS_METHOD(poisson_nll_loss, PoissonNllOptions)
WEFT_LOSS_METHOD(hinge_embedding_loss, HingeOptions)
WEFT_LOSS_METHOD(soft_margin_loss, LossOptions)
WEFT_LOSS_METHOD(multi_margin_loss, MultiMarginOptions)
WEFT_LOSS_METHOD(multilabel_margin_loss, LossOptions)
WEFT_LOSS_METHOD(multilabel_soft_margin_loss, PlainBinaryOptions)
#undef WEFT_LOSS_METHOD
#define WEFT_LOSS_METHOD(name, Options)                                                                                \
  WEFT_OPERAND_METHOD(Tensor, name, (const Operand& a, const Operand& b), Operand(x, a.where), a, b, Options(),        \
                      a.where)                                                                                         \
  WEFT_OPERAND_METHOD(Tensor, name, (const Operand& a, const Operand& b, const Options& options), Operand(x, a.where), \
                      a, b, options, a.where)
WEFT_LOSS_METHOD(gaussian_nll_loss, GaussianNllOptions)
WEFT_LOSS_METHOD(cosine_embedding_loss, MarginOptions)
WEFT_LOSS_METHOD(margin_ranking_loss, MarginOptions)
WEFT_LOSS_METHOD(triplet_margin_loss, TripletOptions)
WEFT_OPERAND_METHOD(Tensor, ctc_loss,
                    (const Operand& targets, const Operand& input_lengths, const Operand& target_lengths),
                    Operand(x, targets.where), targets, input_lengths, target_lengths, CtcOptions(), targets.where)
WEFT_OPERAND_METHOD(Tensor, ctc_loss,
                    (const Operand& targets, const Operand& input_lengths, const Operand& target_lengths,
                     const CtcOptions& options),
                    Operand(x, targets.where), targets, input_lengths, target_lengths, options, targets.where)
WEFT_METHOD(Tensor, normalize, (), x, NormalizeOptions())
WEFT_METHOD(Tensor, normalize, (const NormalizeOptions& options), x, options)
WEFT_OPERAND_METHOD(Tensor, cosine_similarity, (const Operand& other, int dim, double eps), Operand(x, other.where),
                    other, dim, eps, other.where)
WEFT_OPERAND_METHOD(Tensor, pairwise_distance, (const Operand& other, double p, double eps, bool keepdim),
                    Operand(x, other.where), other, p, eps, keepdim, other.where)
WEFT_METHOD(Tensor, cdist, (const Tensor& other, double p, DistanceMode mode), x, other, p, mode)
WEFT_METHOD(Tensor, pdist, (double p), x, p)
WEFT_OPERAND_METHOD(Tensor, index, (const IndexList& index), x, index)
WEFT_OPERAND_METHOD(Tensor, index_put, (const IndexList& index, const Operand& value, bool accumulate), x, index, value,
                    accumulate)
WEFT_METHOD(Tensor, index_select, (int dim, const Tensor& index), x, dim, index)
WEFT_METHOD(Tensor, index_add, (int dim, const Tensor& index, const Tensor& source, Scalar alpha), x, dim, index,
            source, alpha)
WEFT_METHOD(Tensor, index_copy, (int dim, const Tensor& index, const Tensor& source), x, dim, index, source)
WEFT_OPERAND_METHOD(Tensor, index_fill, (int dim, const Tensor& index, const Operand& value), x, dim, index, value)
WEFT_METHOD(Tensor, take, (const Tensor& index, std::optional<int64_t> axis), x, index, axis)
WEFT_METHOD(Tensor, put, (const Tensor& index, const Tensor& source, bool accumulate), x, index, source, accumulate)
WEFT_METHOD(Tensor, set_value,
            (const Operand& value, const Dims& starts, const Dims& ends, const Dims& steps, const Dims& axes), x, value,
            starts, ends, steps, axes)
WEFT_METHOD(Tensor, slice, (const Dims& axes, const Dims& starts, const Dims& ends), x, axes, starts, ends)
WEFT_METHOD(Tensor, strided_slice, (const Dims& axes, const Dims& starts, const Dims& ends, const Dims& steps), x, axes,
            starts, ends, steps)
WEFT_METHOD(Tensor, gather, (int dim, const Tensor& index), x, dim, index)
WEFT_METHOD(Tensor, take_along_dim, (const Tensor& indices, std::optional<int64_t> dim), x, indices, dim)
WEFT_OPERAND_METHOD(Tensor, scatter, (int dim, const Tensor& index, const Operand& source), x, dim, index, source)
WEFT_METHOD(Tensor, scatter_add, (int dim, const Tensor& index, const Tensor& source), x, dim, index, source)
WEFT_METHOD(Tensor, scatter_reduce,
            (int dim, const Tensor& index, const Tensor& source, ScatterReduction reduction, bool include_self), x, dim,
            index, source, reduction, include_self)
WEFT_METHOD(Tensor, masked_select, (const Tensor& mask), x, mask)
WEFT_METHOD(Tensor, masked_scatter, (const Tensor& mask, const Tensor& source), x, mask, source)
WEFT_METHOD(Tensor, nonzero, (), x)
WEFT_METHOD(Tensor, argwhere, (), x)
WEFT_METHOD(Tensor, count_nonzero, (const Dims& dims, bool keepdim), x, dims, keepdim)
WEFT_METHOD(Unique, unique, (), x, UniqueOptions())
WEFT_METHOD(Unique, unique, (const UniqueOptions& options), x, options)
WEFT_METHOD(Unique, unique_consecutive, (), x, UniqueOptions())
WEFT_METHOD(Unique, unique_consecutive, (const UniqueOptions& options), x, options)
WEFT_METHOD(Tensor, bincount, (const Tensor& weights, int64_t minlength), x, weights, minlength)
WEFT_METHOD(Tensor, one_hot, (int64_t classes), x, classes)
WEFT_OPERAND_METHOD(Tensor, searchsorted, (const Operand& values), x, values)
WEFT_OPERAND_METHOD(Tensor, searchsorted, (const Operand& values, const SearchOptions& options), x, values, options)
WEFT_OPERAND_METHOD(Tensor, bucketize, (const Tensor& boundaries, bool right, bool out_int32, Location where),
                    Operand(x, where), boundaries, right, out_int32)
WEFT_METHOD(Tensor, bernoulli, (Generator * generator), x, generator)
WEFT_METHOD(Tensor, poisson, (Generator * generator), x, generator)
WEFT_METHOD(Tensor, standard_gamma, (Generator * generator), x, generator)
WEFT_METHOD(Tensor, binomial, (const Tensor& p, Generator* generator), x, p, generator)
WEFT_METHOD(Tensor, multinomial, (int64_t samples, bool replacement, Generator* generator), x, samples, replacement,
            generator)
WEFT_METHOD(Tensor, new_empty, (const Dims& shape, const LikeOptions& options), x, shape, options)
WEFT_METHOD(Tensor, new_zeros, (const Dims& shape, const LikeOptions& options), x, shape, options)
WEFT_METHOD(Tensor, new_ones, (const Dims& shape, const LikeOptions& options), x, shape, options)
WEFT_METHOD(Tensor, new_full, (const Dims& shape, Scalar value, const LikeOptions& options), x, shape, value, options)

// ---- order and statistics ----
WEFT_OPERAND_METHOD(Tensor, isin, (const Operand& tests, bool invert), Operand(x, tests.where), tests, invert)
WEFT_METHOD(Tensor, softmin, (int dim, std::optional<DType> dtype), x, dim, dtype)
WEFT_METHOD(Tensor, cumprod, (int dim, std::optional<DType> dtype), x, dim, dtype)
WEFT_METHOD(Tensor, logcumsumexp, (int dim), x, dim)
WEFT_METHOD(ValuesAndIndices, cummax, (int dim), x, dim)
WEFT_METHOD(ValuesAndIndices, cummin, (int dim), x, dim)
WEFT_METHOD(ValuesAndIndices, sort, (int dim, bool descending), x, dim, descending)
WEFT_METHOD(Tensor, argsort, (int dim, bool descending), x, dim, descending)
WEFT_METHOD(Tensor, msort, (), x)
WEFT_METHOD(ValuesAndIndices, topk, (int64_t k, int dim, bool largest), x, k, dim, largest)
WEFT_METHOD(ValuesAndIndices, kthvalue, (int64_t k, int dim, bool keepdim), x, k, dim, keepdim)
WEFT_METHOD(ValuesAndIndices, mode, (int dim, bool keepdim), x, dim, keepdim)
WEFT_METHOD(Tensor, median, (), x)
WEFT_METHOD(ValuesAndIndices, median, (int dim, bool keepdim), x, dim, keepdim)
WEFT_METHOD(Tensor, nanmedian, (), x)
WEFT_METHOD(ValuesAndIndices, nanmedian, (int dim, bool keepdim), x, dim, keepdim)
WEFT_OPERAND_METHOD(Tensor, quantile, (const Operand& q, std::optional<int64_t> dim, bool keepdim), x, q, dim, keepdim)
WEFT_OPERAND_METHOD(Tensor, quantile,
                    (const Operand& q, std::optional<int64_t> dim, bool keepdim, QuantileInterpolation interpolation),
                    x, q, dim, keepdim, interpolation)
WEFT_OPERAND_METHOD(Tensor, nanquantile, (const Operand& q, std::optional<int64_t> dim, bool keepdim), x, q, dim,
                    keepdim)
WEFT_OPERAND_METHOD(Tensor, nanquantile,
                    (const Operand& q, std::optional<int64_t> dim, bool keepdim, QuantileInterpolation interpolation),
                    x, q, dim, keepdim, interpolation)
WEFT_METHOD(Tensor, nansum, (const Dims& dims, bool keepdim, std::optional<DType> dtype), x, dims, keepdim, dtype)
WEFT_METHOD(Tensor, nanmean, (const Dims& dims, bool keepdim, std::optional<DType> dtype), x, dims, keepdim, dtype)
WEFT_METHOD(MinMax, aminmax, (std::optional<int64_t> dim, bool keepdim), x, dim, keepdim)
WEFT_METHOD(DispersionAndMean, var_mean, (const Dims& dims, double correction, bool keepdim), x, dims, correction,
            keepdim)
WEFT_METHOD(DispersionAndMean, std_mean, (const Dims& dims, double correction, bool keepdim), x, dims, correction,
            keepdim)
WEFT_METHOD(Tensor, dist, (const Tensor& other, double p), x, other, p)
WEFT_METHOD(Tensor, renorm, (double p, int dim, double maxnorm), x, p, dim, maxnorm)
WEFT_METHOD(Tensor, cov, (int64_t correction, const Tensor& fweights, const Tensor& aweights), x, correction, fweights,
            aweights)
WEFT_METHOD(Tensor, corrcoef, (), x)
WEFT_METHOD(Tensor, histc, (int64_t bins, double low, double high), x, bins, low, high)
WEFT_METHOD(HistogramResult, histogram, (int64_t bins), x, bins, HistogramOptions())
WEFT_METHOD(HistogramResult, histogram, (int64_t bins, const HistogramOptions& options), x, bins, options)
WEFT_METHOD(HistogramResult, histogram, (const Tensor& edges), x, edges, HistogramOptions())
WEFT_METHOD(HistogramResult, histogram, (const Tensor& edges, const HistogramOptions& options), x, edges, options)
WEFT_METHOD(Tensor, diff, (int64_t n, int dim, const Tensor& prepend, const Tensor& append), x, n, dim, prepend, append)
WEFT_METHOD(Tensor, trapezoid, (double dx, int dim), x, dx, dim)
WEFT_METHOD(Tensor, trapezoid, (const Tensor& points, int dim), x, points, dim)
WEFT_METHOD(Tensor, cumulative_trapezoid, (double dx, int dim), x, dx, dim)
WEFT_METHOD(Tensor, cumulative_trapezoid, (const Tensor& points, int dim), x, points, dim)

// ---- in place ----
WEFT_OPERAND_WRITE(masked_fill_, (const Tensor& mask, const Operand& value), mask, value)
WEFT_WRITE(cumsum_, (int64_t dim, bool exclusive, bool reverse), dim, exclusive, reverse)
WEFT_OPERAND_WRITE(index_put_, (const IndexList& index, const Operand& value, bool accumulate), index, value,
                   accumulate)
WEFT_WRITE(index_add_, (int dim, const Tensor& index, const Tensor& source, Scalar alpha), dim, index, source, alpha)
WEFT_OPERAND_METHOD(Tensor, scatter, (int dim, const Tensor& index, const Operand& source, ScatterReduction reduction),
                    x, dim, index, source, reduction)
WEFT_OPERAND_WRITE(scatter_, (int dim, const Tensor& index, const Operand& source, ScatterReduction reduction), dim,
                   index, source, reduction)
WEFT_WRITE(index_copy_, (int dim, const Tensor& index, const Tensor& source), dim, index, source)
WEFT_OPERAND_WRITE(index_fill_, (int dim, const Tensor& index, const Operand& value), dim, index, value)
WEFT_WRITE(put_, (const Tensor& index, const Tensor& source, bool accumulate), index, source, accumulate)
WEFT_WRITE(set_value_,
           (const Operand& value, const Dims& starts, const Dims& ends, const Dims& steps, const Dims& axes), value,
           starts, ends, steps, axes)
WEFT_OPERAND_WRITE(scatter_, (int dim, const Tensor& index, const Operand& source), dim, index, source)
WEFT_WRITE(scatter_add_, (int dim, const Tensor& index, const Tensor& source), dim, index, source)
WEFT_WRITE(scatter_reduce_,
           (int dim, const Tensor& index, const Tensor& source, ScatterReduction reduction, bool include_self), dim,
           index, source, reduction, include_self)
WEFT_WRITE(masked_scatter_, (const Tensor& mask, const Tensor& source), mask, source)
WEFT_PART_WRITE(add_, (const Operand& other, Scalar alpha), other, alpha)
WEFT_PART_WRITE(sub_, (const Operand& other, Scalar alpha), other, alpha)
WEFT_WRITE(uniform_, (double low, double high, Generator* generator), low, high, generator)
WEFT_WRITE(normal_, (double mean, double deviation, Generator* generator), mean, deviation, generator)
WEFT_WRITE(bernoulli_, (double p, Generator* generator), p, generator)
WEFT_WRITE(exponential_, (double rate, Generator* generator), rate, generator)
WEFT_WRITE(geometric_, (double p, Generator* generator), p, generator)
WEFT_WRITE(cauchy_, (double median, double scale, Generator* generator), median, scale, generator)
WEFT_WRITE(log_normal_, (double mean, double deviation, Generator* generator), mean, deviation, generator)

// ---- defined elsewhere for Tensor ----
WEFT_PART_METHOD(Tensor, view, (const Dims& shape), shape)
WEFT_PART_METHOD(Tensor, view_bytes, (DType dtype), dtype)
WEFT_PART_METHOD(Tensor, reshape, (const Dims& shape), shape)
WEFT_PART_METHOD(Tensor, transpose, (int dim0, int dim1), dim0, dim1)
WEFT_PART_METHOD(Tensor, t, ())
WEFT_PART_METHOD(Tensor, permute, (const Dims& dims), dims)
WEFT_PART_METHOD(Tensor, slice, (int dim, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step), dim,
                 start, stop, step)
WEFT_PART_METHOD(Tensor, narrow, (int dim, int64_t start, int64_t length), dim, start, length)
WEFT_PART_METHOD(Tensor, narrow, (int dim, const Tensor& start, int64_t length), dim, start, length)
WEFT_PART_METHOD(Tensor, select, (int dim, int64_t index), dim, index)
WEFT_PART_METHOD(Tensor, unsqueeze, (int dim), dim)
WEFT_PART_METHOD(Tensor, squeeze, ())
WEFT_PART_METHOD(Tensor, squeeze, (int dim), dim)
WEFT_PART_METHOD(Tensor, expand, (const Dims& shape), shape)
WEFT_PART_METHOD(Tensor, diagonal, (int64_t offset, int dim0, int dim1), offset, dim0, dim1)
WEFT_PART_METHOD(Tensor, flatten, (int start_dim, int end_dim), start_dim, end_dim)
WEFT_PART_METHOD(Tensor, as_strided, (const Dims& shape, const Dims& strides, std::optional<int64_t> storage_offset),
                 shape, strides, storage_offset)
WEFT_PART_METHOD(std::vector<Tensor>, split, (int64_t size, int dim), size, dim)
WEFT_PART_METHOD(std::vector<Tensor>, chunk, (int64_t chunks, int dim), chunks, dim)
WEFT_PART_METHOD(std::vector<Tensor>, unbind, (int dim), dim)
WEFT_PART_METHOD(Tensor, detach, ())
WEFT_PART_METHOD(Tensor, clone, ())
WEFT_PART_METHOD(Tensor, contiguous, ())
WEFT_PART_METHOD(Tensor, to, (DType dtype), dtype)
WEFT_PART_METHOD(Tensor, to, (Device device), device)
WEFT_PART_METHOD(Tensor, to, (Device device, DType dtype), device, dtype)
WEFT_PART_METHOD(Tensor, to, (Device device, CopyOptions options), device, options)
WEFT_PART_METHOD(Tensor, pin_memory, (std::optional<Device> device), device)
WEFT_PART_METHOD(bool, is_pinned, (std::optional<Device> device), device)

}  // namespace weft
