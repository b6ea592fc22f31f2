// One op over lists of tensors, as optimizers and clipping call them: each tensor with its partner in the other list,
// or with one number for all.
//
//   foreach_mul_(gradients, scale);
//   foreach_add_(parameters, updates, -lr);
//
// The tensors of a list may differ in shape, dtype and device. foreach_name gives new tensors, foreach_name_ writes
// into those of the first list. Errors are those of the op, ValueError where lists differ in length, and all are raised
// before anything is written.
//
// `foreach_name_` runs every tensor on `meta` before it writes the first, so an error changes no tensor.
#pragma once

#include <span>
#include <vector>

#include "../tensor/index.hpp"

// clang-format off
#define WEFT_FOREACH_UNARY(X) X(abs) X(exp) X(log) X(neg) X(reciprocal) X(rsqrt) X(sign) X(sqrt)
#define WEFT_FOREACH_BINARY(X) X(div) X(maximum) X(minimum) X(mul) X(pow)
// clang-format on

namespace weft {

using TensorList = std::span<const Tensor>;

#define WEFT_DECLARE_FOREACH(name)                                                      \
  WEFT_API std::vector<Tensor> foreach_##name(TensorList tensors, Location where = {}); \
  WEFT_API void foreach_##name##_(TensorList tensors, Location where = {});
WEFT_FOREACH_UNARY(WEFT_DECLARE_FOREACH)
#undef WEFT_DECLARE_FOREACH

#define WEFT_DECLARE_FOREACH(name)                                                                         \
  WEFT_API std::vector<Tensor> foreach_##name(TensorList tensors, TensorList others, Location where = {}); \
  WEFT_API std::vector<Tensor> foreach_##name(TensorList tensors, const Operand& other);                   \
  WEFT_API void foreach_##name##_(TensorList tensors, TensorList others, Location where = {});             \
  WEFT_API void foreach_##name##_(TensorList tensors, const Operand& other);
WEFT_FOREACH_BINARY(WEFT_DECLARE_FOREACH)
#undef WEFT_DECLARE_FOREACH

/// tensor + alpha * other and tensor - alpha * other. Errors as add.
[[nodiscard]] WEFT_API std::vector<Tensor> foreach_add(TensorList tensors, TensorList others, Scalar alpha = 1,
                                                       Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> foreach_add(TensorList tensors, const Operand& other);
WEFT_API void foreach_add_(TensorList tensors, TensorList others, Scalar alpha = 1, Location where = {});
WEFT_API void foreach_add_(TensorList tensors, const Operand& other);
[[nodiscard]] WEFT_API std::vector<Tensor> foreach_sub(TensorList tensors, TensorList others, Scalar alpha = 1,
                                                       Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> foreach_sub(TensorList tensors, const Operand& other);
WEFT_API void foreach_sub_(TensorList tensors, TensorList others, Scalar alpha = 1, Location where = {});
WEFT_API void foreach_sub_(TensorList tensors, const Operand& other);

/// a + value * b * c, a + value * b / c, and a + weight * (b - a). Errors as addcmul, addcdiv and lerp.
[[nodiscard]] WEFT_API std::vector<Tensor> foreach_addcmul(TensorList a, TensorList b, TensorList c, Scalar value = 1,
                                                           Location where = {});
WEFT_API void foreach_addcmul_(TensorList a, TensorList b, TensorList c, Scalar value = 1, Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> foreach_addcdiv(TensorList a, TensorList b, TensorList c, Scalar value = 1,
                                                           Location where = {});
WEFT_API void foreach_addcdiv_(TensorList a, TensorList b, TensorList c, Scalar value = 1, Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> foreach_lerp(TensorList a, TensorList b, Scalar weight, Location where = {});
WEFT_API void foreach_lerp_(TensorList a, TensorList b, Scalar weight, Location where = {});

/// The norm of each tensor, 0-d. Errors as vector_norm.
[[nodiscard]] WEFT_API std::vector<Tensor> foreach_norm(TensorList tensors, double order = 2, Location where = {});
WEFT_API void foreach_zero_(TensorList tensors, Location where = {});
WEFT_API void foreach_copy_(TensorList tensors, TensorList sources, Location where = {});

}  // namespace weft
