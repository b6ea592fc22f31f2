// Linear layers in low precision: weights of 8 or 4 bits for inference, 8-bit floats for training.
//
//   nn::quantize(model, {.targets = {"attention", "mlp"}, .bits = 4});     // then only for inference
//   nn::convert_to_fp8(model, {"attention", "mlp"});                       // then train as before
//
// A layer is changed in the state that all copies of a Linear share, so any module that has one can be, and no class
// changes; a layer that is not pays one comparison. docs/quantization.md has error bounds and figures.
#pragma once

#include <string>
#include <vector>

#include "layers.hpp"
#include "../ops/quantize.hpp"

namespace weft::nn {

struct QuantizeOptions {
  /// Regular expressions (ECMAScript's) that find the names of modules; all of them where there is none.
  std::vector<std::string> targets = {};
  int64_t bits = 8;
  int64_t group_size = 128;
  bool symmetric = true;
};

/// A Linear whose weight is held as the buffers `codes`, `scale` and, unless symmetric, `zero` of
/// weft::quantize_weight: weft::quantized_linear of x. It has the first values of a Linear. ValueError as Linear and
/// quantize_weight.
class WEFT_API QuantizedLinear : public Linear {
 public:
  QuantizedLinear(int64_t in, int64_t out, const WeightQuantOptions& options = {}, bool bias = true,
                  Location where = {});
};

/// Makes a QuantizedLinear of every Linear that a pattern finds, but for the out_proj of a MultiheadAttention, whose
/// weight that layer reads itself; returns their names. The parameter `weight` is gone,
/// and its memory given back unless another layer of `model` holds it; it is [0, in] where a member still names it.
/// State is saved and loaded by the buffers' names, into a model that was quantised alike. `to` a 16-bit dtype rounds
/// scales, too: convert a model first. ValueError where nothing is found, for a pattern or a format that is none, for a
/// weight that is not finite, and for layers with an adapter, in parts or parametrized; then nothing was changed.
WEFT_API std::vector<std::string> quantize(const Module& model, const QuantizeOptions& options = {},
                                           Location where = {});

/// A Linear that is computed in 8-bit floats, forward and backward: x and gradients in rows of 128, the weight in tiles
/// of 128 x 128, products by weft::gemm_fp8_blockwise. The weight itself stays as it is, for the optimizer. For
/// backward it keeps the codes of x, not x. x is f16, bf16 or f32, as the result is.
class WEFT_API Fp8Linear : public Linear {
 public:
  Fp8Linear(int64_t in, int64_t out, bool bias = true, Location where = {});
};

/// Makes an Fp8Linear of every Linear that quantize would find, of all without a pattern; returns their names. Weights,
/// and what is saved, stay as they are. ValueError as quantize.
WEFT_API std::vector<std::string> convert_to_fp8(const Module& model, const std::vector<std::string>& targets = {},
                                                 Location where = {});

}  // namespace weft::nn
