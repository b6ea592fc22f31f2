// Seeing which operands of recorded ops are broadcast. Not public.
#pragma once

#include "../../tensor/callback.hpp"
#include "../../tensor/tensor.hpp"

namespace weft::detail {

/// Called within a recorded binary op with its operands, which may have the same shape, and its result.
using BroadcastWatch = Callback<void(const Tensor& a, const Tensor& b, const Tensor& result)>;
/// This thread's, or null.
extern WEFT_API constinit thread_local const BroadcastWatch* broadcast_watch;

}  // namespace weft::detail
