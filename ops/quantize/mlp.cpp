#include "../../autograd/mode.hpp"
#include "../create.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "blocks-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

constexpr DType code_type = DType::f8_e4m3fn;

/// A weight as [out, in], and its scale for each output: [out, 1] or, where outputs share it, [1, 1].
Quantized upright(const char* what, const Tensor& x, const Quantized& w, int64_t in, bool transposed) {
  expect_dtype(what, checked(w.q), is_fp8(w.q.dtype()), "an 8-bit float");
  expect_dtype("scale", checked(w.scale), DType::f32);
  check_same_device({&x, &w.q, &w.scale});
  expect_matrix(what, w.q);
  const Tensor q = transposed ? w.q.t() : w.q;
  if (q.size(0) != in) raise_shape(what, transposed ? fmt::format("[out, {}]", in) : fmt::format("[{}, out]", in), w.q);
  const bool shared = w.scale.dim() == 0;
  expect_shape("scale", w.scale, shared || w.scale.shape() == Dims(q.size(1)), "[] or [{}]", q.size(1));
  return {q.t(), w.scale.detach().reshape({shared ? 1 : q.size(1), 1})};
}

void check_call(const Tensor& x, const Fp8MlpOptions& o) {
  const DType d = checked(x).dtype();
  expect_dtype("x", x, d == DType::f16 || d == DType::bf16 || d == DType::f32, "float16, bfloat16 or float32");
  expect_shape("x", x, x.dim() > 0, "[..., H]");
  if (!(o.fp8_max > 0 && o.fp8_max <= 448)) raise_value("fp8_max", "a number in (0, 448]", o.fp8_max);
  for (const auto& [what, scale] : {std::pair{"x_scale", &o.x_scale}, {"hidden_scale", &o.hidden_scale}}) {
    if (!*scale) continue;
    expect_dtype(what, checked(**scale), DType::f32);
    expect_shape(what, **scale, (*scale)->dim() == 0, "[]");
    check_same_device({&x, &**scale});
  }
}

/// The smallest scale with a finite reciprocal.
constexpr double least_scale = 0x1p-126;

/// Codes of rows x [m, k] and their scales [m, 1], or [1, 1] where one was given.
Quantized activations(const Tensor& x, const std::optional<Tensor>& given, double largest_number) {
  const Tensor numbers = x.to(DType::f32);
  Tensor scale;
  if (given) {
    scale = given->detach().reshape({1, 1});
  } else if (x.numel() == 0) {
    scale = ones({1, 1}, {DType::f32, x.device()});
  } else {
    const Tensor largest = amax(where(isfinite(numbers), abs(numbers), 0), {1}, true);
    scale = where(largest == 0, 1, maximum(largest / largest_number, least_scale));
  }
  return {clip(numbers / scale, -largest_number, largest_number).to(code_type), scale};
}

/// a bᵀ.
Tensor product(const Quantized& a, const Quantized& b, DType dtype) {
  const int64_t blocks = blocks_of(a.q.size(1));
  return gemm_fp8_blockwise(a.q, a.scale.expand({a.q.size(0), blocks}), b.q, b.scale.expand({b.q.size(0), blocks}),
                            dtype, {.b_block = QuantBlock::row_1x128});
}

}  // namespace

Tensor fused_fp8_mlp(const Tensor& x, const Quantized& proj, const std::optional<Quantized>& up, const Quantized& down,
                     const Fp8MlpOptions& options, Location where) {
  const CallScope call("fused_fp8_mlp", where);
  check_call(x, options);
  const NoGradGuard unrecorded;
  const int64_t in = x.size(-1);
  const Quantized first = upright("proj", x, proj, in, options.transposed_weights);
  const Quantized second = up ? upright("up", x, *up, in, options.transposed_weights) : Quantized();
  const int64_t outputs = first.q.size(0), f = up ? outputs : outputs / 2;
  if (up && second.q.size(0) != f) raise_rank("up", fmt::format("{} outputs like proj", f), up->q);
  if (!up && outputs % 2 != 0) raise_rank("proj", "an even number of outputs", proj.q);
  const Quantized last = upright("down", x, down, f, options.transposed_weights);
  Dims shape = x.shape();
  int64_t rows = 1;
  for (int d = 0; d + 1 < x.dim(); ++d) rows *= x.size(d);
  shape[shape.size() - 1] = last.q.size(0);
  const Quantized a = activations(x.detach().reshape({rows, in}), options.x_scale, options.fp8_max);
  const Tensor both = product(a, first, DType::f32);
  const Tensor hidden =
      up ? swiglu(both, product(a, second, DType::f32)) : swiglu(both.narrow(1, 0, f), both.narrow(1, f, f));
  return product(activations(hidden, options.hidden_scale, options.fp8_max), last, x.dtype()).reshape(shape);
}

}  // namespace weft
