// Whether an op may write its result over an operand that nobody reads any more. Not public.
#pragma once

#include "common.hpp"

namespace weft {

/// True where `t` can become the result of an unrecorded op, head and memory: contiguous, seen by nobody but the
/// holders of `handles`, and with no place in a graph, which would stay with the head.
inline bool may_become_result(const Tensor& t, uint32_t handles = 1) {
  return detail::share_gradients && t.is_contiguous() && t.impl()->node == nullptr &&
         exclusively_owned(t.impl(), handles);
}

/// `t`, which may_become_result, as a fresh tensor of the mode that is on now.
inline Tensor as_result(Tensor&& t) {
  t.impl()->inference = detail::current_mode.inference;
  return std::move(t);
}
inline Tensor as_result(const Operand& temporary) {
  return as_result(std::move(const_cast<Tensor&>(temporary.tensor())));
}

}  // namespace weft
