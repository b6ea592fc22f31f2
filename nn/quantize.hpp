// Low-precision Linear layers: weights of 8 or 4 bits for inference, 8-bit floats for training.
//
//   nn::quantize(model, {.targets = {"attention", "mlp"}, .bits = 4});     // then only for inference
//   nn::convert_to_fp8(model, {"attention", "mlp"});                       // then train as before
//
// A layer is converted in the state that all copies of a Linear share, so any module that contains one can be converted
// without changing its class; other layers cost one comparison. docs/quantization.md has error bounds and measurements.
#pragma once

#include <string>
#include <vector>

#include "layers.hpp"
#include "../ops/quantize.hpp"

namespace weft::nn {

struct QuantizeOptions {
  /// ECMAScript regular expressions for module names; if empty, all Linear layers.
  std::vector<std::string> targets = {};
  int64_t bits = 8;
  int64_t group_size = 128;
  bool symmetric = true;
};

/// A Linear with a quantized weight: the buffers `codes`, `scale` and, unless symmetric, `zero` of
/// weft::quantize_weight. Calls weft::quantized_linear. Initialised as a Linear. Raises ValueError as Linear and
/// quantize_weight.
class WEFT_API QuantizedLinear : public Linear {
 public:
  QuantizedLinear(int64_t in, int64_t out, const WeightQuantOptions& options = {}, bool bias = true,
                  Location where = {});
};

/// Converts every Linear with a name that a pattern matches to a QuantizedLinear; returns the names. The out_proj of a
/// MultiheadAttention is skipped, because that layer reads the weight itself. The parameter `weight` is removed, and
/// its memory freed unless another layer of `model` holds it; a member that refers to it becomes [0, in]. State dicts
/// use the buffers' names, and load into a model quantized with the same options. `to` a 16-bit dtype also rounds
/// scales: convert a model before quantizing it. A layer may have a LoRA adapter, before or after (QLoRA), or be
/// sharded. Raises ValueError, before any change, if nothing matches, for an invalid pattern or format, for a weight
/// that is not finite, for a parametrized weight, for an adapter that is merged or shared, and for groups that shards
/// would divide.
WEFT_API std::vector<std::string> quantize(const Module& model, const QuantizeOptions& options = {},
                                           Location where = {});

/// A Linear computed in 8-bit floats, forward and backward, by weft::gemm_fp8_blockwise: x and gradients are scaled in
/// rows of 128, the weight in tiles of 128 x 128. The weight itself is unchanged, for the optimizer. Backward saves the
/// codes of x, not x. x and the result are f16, bf16 or f32.
class WEFT_API Fp8Linear : public Linear {
 public:
  Fp8Linear(int64_t in, int64_t out, bool bias = true, Location where = {});
};

/// Converts every Linear that quantize would convert to an Fp8Linear, all of them without a pattern; returns the names.
/// Weights and state dicts do not change. A layer may be adapted, parametrized or sharded. Raises ValueError if nothing
/// matches, and for an invalid pattern.
WEFT_API std::vector<std::string> convert_to_fp8(const Module& model, const std::vector<std::string>& targets = {},
                                                 Location where = {});

}  // namespace weft::nn
