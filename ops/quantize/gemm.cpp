#include "../../autograd/mode.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "blocks-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

void check_operand(const char* what, const Tensor& codes, const Tensor& scale, QuantBlock block) {
  expect_matrix(what, checked(codes));
  if (block == QuantBlock::tensor) {
    raise<ValueError>({.problem = fmt::format("blocks of {} are 1 x 128 or 128 x 128", what)});
  }
  require_codes(what, codes, scale, sides_of(block, codes.size(0), codes.size(1)));
}

void check_gemm(const Tensor& a, const Tensor& a_scale, const Tensor& b, const Tensor& b_scale, DType dtype,
                const BlockwiseGemmOptions& options) {
  check_operand("a", a, a_scale, options.a_block);
  check_operand("b", b, b_scale, options.b_block);
  check_same_device({&a, &b});
  expect_shape("b", b, b.size(1) == a.size(1), "[n, {}]", a.size(1));
  if (options.bias && options.bias->defined()) {
    raise<NotImplementedError>({.problem = "a bias is not added here", .remedy = "add it to the result"});
  }
  if (dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f32) {
    raise_dtype("dtype", "float16, bfloat16 or float32", dtype);
  }
  if (options.accumulate && !(options.out && options.out->defined() && dtype != DType::f16)) {
    raise<ValueError>({.problem = "the sum is added to `out`, in float32 or bfloat16"});
  }
}

}  // namespace

Tensor gemm_fp8_blockwise(const Tensor& a, const Tensor& a_scale, const Tensor& b, const Tensor& b_scale,
                          DType out_dtype, const BlockwiseGemmOptions& options, Location where) {
  const CallScope call("gemm_fp8_blockwise", where);
  check_gemm(a, a_scale, b, b_scale, out_dtype, options);
  const Dims shape{a.size(0), b.size(0)};
  const bool given = options.out && options.out->defined();
  if (given) check_out(*options.out, shape, out_dtype, a.device(), {&a, &b});
  const NoGradGuard unrecorded;
  const Tensor out = given ? *options.out : make(shape, out_dtype, a.device());
  if (out.numel() == 0) return out;
  const BlockSides a_sides = sides_of(options.a_block, a.size(0), a.size(1));
  const BlockSides b_sides = sides_of(options.b_block, b.size(0), b.size(1));
  const auto kernel = kernels(out.raw_view()).blockwise_matmul;
  if (kernel != nullptr) {
    const Tensor left = a.contiguous(), right = b.contiguous();
    kernel(out.raw_view(), options.accumulate ? out.raw_view() : View(), left.raw_view(), a_scale.raw_view(),
           right.raw_view(), b_scale.raw_view(), a_sides.rows, b_sides.rows);
    if (given) note_write(out);
    return out;
  }
  const Tensor left = dequantized(a, a_scale, a_sides, DType::f32);
  const Tensor right = dequantized(b, b_scale, b_sides, DType::f32);
  Tensor product = matmul(left, right.t());
  if (options.accumulate) product = product + out.to(DType::f32);
  if (!given) return product.to(out_dtype);
  out.copy_(product.to(out_dtype));
  return out;
}

}  // namespace weft
