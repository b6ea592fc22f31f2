// Floats of 8 bits in blocks on every kind of device: the CPU's codes and scales, bit for bit, and its numbers.
#include "device_checks.hpp"

#include <limits>

#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/quantize.hpp>
#include <weft/ops/random.hpp>

namespace weft {
namespace {

using namespace test;

constexpr DType code_types[] = {f8_e4m3fn, f8_e5m2};

void expect_bits(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape().text(), expected.shape().text());
  ASSERT_EQ(actual.dtype(), expected.dtype());
  const Tensor a = actual.to(Device()).contiguous(), e = expected.contiguous();
  const auto *came = static_cast<const unsigned char*>(a.data_ptr()),
             *right = static_cast<const unsigned char*>(e.data_ptr());
  for (int64_t i = 0; i < e.nbytes(); ++i) {
    ASSERT_EQ(int{came[i]}, int{right[i]}) << "byte " << i << " of " << name(e.dtype());
  }
}
/// Of all magnitudes, with what is no number among them.
Tensor wide_range(const Dims& shape, DType t) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor special = tensor(std::vector<double>{0, -0.0, infinity, -infinity, nan, 1e-40, -1e-40, 3e4});
  const Tensor x = randn(shape) * exp(6 * randn({shape[0], 1})),
               picked = index_select(special, 0, randint(0, 8, {x.numel()}));
  return where(rand(shape) < 0.02, picked.reshape(shape), x).to(t);
}

void expect_quantized(Device on, const Tensor& x, const QuantOptions& options) {
  for (const QuantBlock block : {QuantBlock::row_1x128, QuantBlock::tile_128x128, QuantBlock::tensor}) {
    const QuantOut right = quant_blockwise(x, block, options), came = quant_blockwise(x.to(on), block, options);
    expect_bits(came.q, right.q);
    expect_bits(came.scale, right.scale);
    expect_bits(came.q_transposed, right.q_transposed);
    for (const DType t : {f16, bf16, f32}) {
      if (options.transpose_scale && block != QuantBlock::tensor) continue;  // then the scale is no operand of this
      expect_equal(dequant_blockwise(came.q, came.scale, t), dequant_blockwise(right.q, right.scale, t));
    }
  }
}

DEVICE_TEST(QuantizesBlocksOfAllKindsAndRaggedSizes) {
  for (const DType t : {f16, bf16, f32}) {
    for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {3, 127}, {5, 128}, {2, 129}, {129, 257}, {130, 5}, {4, 5000}, {300, 300}}) {
      SCOPED_TRACE(std::string(name(t)) + " " + std::to_string(m) + " x " + std::to_string(n));
      const Tensor x = wide_range({m, n}, t);
      for (const DType code : code_types) {
        expect_quantized(on, x, {.pow2 = true, .dtype = code});
        expect_quantized(on, x, {.eps = 0.5, .pow2 = false, .transpose_scale = true, .dtype = code});
      }
    }
  }
}

DEVICE_TEST(QuantizesAnyLayoutAndWhatHasNoNumbers) {
  const Tensor x = wide_range({140, 150}, f32), there = x.to(on);
  const QuantOptions both{.also_transposed = true};
  expect_quantized(on, x, both);
  for (const auto& view : {+[](const Tensor& t) { return t.t(); }, +[](const Tensor& t) { return t.flip({1}); },
                           +[](const Tensor& t) { return t.slice(1, 3, 140, 2); },
                           +[](const Tensor& t) {
                             return t.select(0, 1).unsqueeze(0).expand({5, 150});
                           }}) {
    const QuantOut right = quant_blockwise(view(x)), came = quant_blockwise(view(there));
    expect_bits(came.q, right.q);
    expect_bits(came.scale, right.scale);
  }
  for (const Tensor& none : {zeros({3, 200}), full({3, 200}, std::numeric_limits<double>::quiet_NaN())}) {
    expect_quantized(on, none, {});
  }
  expect_quantized(on, zeros({0, 5}), {});
}

/// Codes that are quantised anew have the scales of other blocks, and are rounded to bfloat16 between.
DEVICE_TEST(QuantizesCodesInOtherBlocks) {
  const QuantOut source = quant_blockwise(wide_range({150, 300}, f32));
  for (const DType code : code_types) {
    const auto again = [&](Device d) {
      const Tensor q = source.q.to(d), scale = source.scale.to(d);
      const Tensor out = empty({150, 300}, {code, d}), out_scale = empty({2, 300}, {f32, d});
      kernels(out.raw_view())
          .quantize_blocks(out.raw_view(), out_scale.raw_view(), q.raw_view(), scale.raw_view(), 128, 1, 1, 128, 0,
                           true);
      return std::pair(out, out_scale);
    };
    const auto [codes, scales] = again(on);
    const auto [right_codes, right_scales] = again({});
    expect_bits(codes, right_codes);
    expect_bits(scales, right_scales);
  }
}

}  // namespace
}  // namespace weft
