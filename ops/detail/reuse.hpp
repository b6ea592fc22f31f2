// Whether an op may write its result over an operand that is no longer needed. Not public.
#pragma once

#include "common.hpp"

namespace weft {

/// True where the head and memory of `t` can become the result of an unrecorded op: contiguous, with no other handles
/// than the `handles` given, and with no node, since that would stay with the head.
inline bool can_reuse_as_result(const Tensor& t, uint32_t handles = 1) {
  return detail::share_gradients && t.is_contiguous() && t.impl()->node == nullptr &&
         exclusively_owned(t.impl(), handles);
}

/// `t`, for which can_reuse_as_result is true, as a fresh tensor of the current mode.
inline Tensor as_result(Tensor&& t) {
  t.impl()->inference = detail::current_mode.inference;
  return std::move(t);
}
inline Tensor as_result(const Operand& temporary) {
  return as_result(std::move(const_cast<Tensor&>(temporary.tensor())));
}

}  // namespace weft
