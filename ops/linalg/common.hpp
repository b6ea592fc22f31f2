// Helpers of the ops of linear algebra. Not public.
#pragma once

#include <utility>

#include "../../autograd/mode.hpp"
#include "../../backends/linalg.hpp"
#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/common.hpp"
#include "../detail/complex.hpp"
#include "../detail/reducing.hpp"
#include "../linalg.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"

namespace weft::linalg {

/// The conjugate transpose.
inline Tensor mH(const Tensor& x) { return conjugate(x).transpose(-2, -1); }
/// A vector along the last dimension as a diagonal's factor: [..., n] beside rows or beside columns.
inline Tensor by_rows(const Tensor& v) { return v.unsqueeze(-1); }
inline Tensor by_columns(const Tensor& v) { return v.unsqueeze(-2); }

/// ShapeError where x is no matrix, or none with as many rows as columns.
void check_matrix(const Tensor& x);
void check_square(const Tensor& x);
/// DTypeError unless x is a tensor of floating-point or complex numbers.
void check_numbers(const Tensor& x);
/// DTypeError or DeviceError unless both are of one such dtype on one device.
void check_alike(const Tensor& a, const Tensor& b);

/// Where an operand came from, and its results go to.
struct Home {
  DType dtype;
  Device device;
  explicit Home(const Tensor& x) : dtype(checked(x).dtype()), device(x.device()) {}
  Tensor operator()(const Tensor& result) const {
    const bool narrow = is_floating(result.dtype()) && is_floating(dtype);
    return result.to(narrow ? dtype : result.dtype()).to(device);
  }
};
/// x as the kernels take it: f32, f64, c64 or c128, on the CPU or on meta.
Tensor brought(const Tensor& x);

/// Runs f with a list of operands; in an autocast's scope with them in its 16-bit type, and outside of the scope.
template <class F>
Tensor in_lower(std::span<const Tensor> operands, F&& f) {
  if (WEFT_LIKELY(!autocasting())) return f(operands);
  std::vector<Tensor> list;
  for (const Tensor& t : operands) list.push_back(detail::lowered(checked(t)));
  const detail::AutocastModeGuard off({});
  return f(std::span<const Tensor>(list));
}

/// Where elements of matrices are 0 but for rounding, beside a scale that broadcasts.
Tensor are_negligible(const Tensor& x, const Tensor& scale);
/// x / (v_j - v_i) of eigenvalues v, 0 on the diagonal. Two values may be equal up to rounding, with an `influence`
/// that is negligible beside the diagonal of `scale`. Then the loss does not depend on their vectors, and the result is
/// 0.
Tensor over_differences(const Tensor& x, const Tensor& values, const Tensor& influence, const Tensor& scale);

/// The dimensions before the last two, and the same with others behind.
Dims batch_of(const Tensor& x);
Dims with(Dims batch, std::initializer_list<int64_t> more);
/// The batch that both broadcast to; ShapeError.
Dims common_batch(const Tensor& a, const Tensor& b);

/// t's last `count` dimensions, and those before as one.
View batched(const Tensor& t, int count);
/// x's matrices with a batch of this shape, contiguous; not recorded.
Tensor dense(const Tensor& x, const Dims& batch);
/// The same as memory of its own, which a kernel may write.
Tensor dense_copy(const Tensor& x, const Dims& batch);

/// A kernel as it is kept for replays: outputs come first.
using Kernel = void (*)(const View* views, bool first, bool second);
/// Runs it, unless on meta, and tells observers and recordings. `in_batches`: the first dimension of every view counts
/// independent calls.
void run(const char* name, std::initializer_list<View> outputs, std::initializer_list<View> inputs, Kernel kernel,
         bool first = false, bool second = false, bool in_batches = true);

/// LinAlgError where an element of info (i32, of a batch) is not 0; `problem` follows "matrix 3 of the batch".
void check_info(const Tensor& info, const char* problem);
/// The same of an iteration: not finite, or not converged.
void check_converged(const Tensor& info);

/// AutogradError where the gradient of complex vectors depends on their phase, which is any: the imaginary part of the
/// diagonal of `product`, that of vectorsᴴ and their gradient, is not 0.
void check_phase(const Tensor& product);

/// Makes the running op's node the producer of several results.
template <class F>
void record_results(std::span<const Tensor> outputs, std::span<const Tensor> inputs, F backward) {
  GeneralNode* const node = make_general_node(inputs, static_cast<int>(outputs.size()), std::move(backward));
  for (size_t i = 0; i < outputs.size(); ++i) {
    node->refs.increment();
    set_history(outputs[i].impl(), node, static_cast<uint16_t>(i));
  }
  release(node);
}

}  // namespace weft::linalg
