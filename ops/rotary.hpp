// Rotary position embedding (Su et al. 2021): pairs of features are turned by an angle that grows with the position.
//
//   const Tensor rope = rope_table(arange(0, length, 1, i64), head_dim);  // once for all layers
//   const Tensor q = rotary_embedding(queries, rope);                      // queries [batch, length, heads, head_dim]
#pragma once

#include <optional>
#include <string_view>

#include "../tensor/index.hpp"

namespace weft {

/// How the frequencies of a model that was trained on `original_length` positions are changed for longer texts: not at
/// all; all divided by `factor` (Chen et al. 2023); with a larger base from that length on (dynamic NTK, as Hugging
/// Face's "dynamic"); low ones divided, high ones kept, those between in part, by turns within the original length
/// (YaRN, Peng et al. 2023); the same by wavelength (Llama 3.1).
enum class RopeScaling : uint8_t { none, linear, dynamic_ntk, yarn, llama3 };

/// Returns "none", "linear", "dynamic", "yarn" or "llama3".
WEFT_API const char* name(RopeScaling scaling);
/// ValueError for another name.
WEFT_API RopeScaling rope_scaling_named(std::string_view name, Location where = {});

struct RopeOptions {
  double theta = 10000;  ///< the base
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  int64_t original_length = 8192;
  double low_frequency = 1,
         high_frequency = 4;             ///< llama3: original_length over the wavelengths between which it blends
  double beta_fast = 32, beta_slow = 1;  ///< yarn: the turns between which it blends
  std::optional<double> attention_factor = {};  ///< yarn: what cos and sin are multiplied by; 0.1 ln(factor) + 1
};

/// theta^(-2 i / dim) for i in [0, dim / 2), scaled: f64 [dim / 2], radians for each position. `length` is that of the
/// text, which dynamic_ntk alone reads. ValueError unless dim is even and positive, theta and factor are positive, and
/// the other options make sense.
[[nodiscard]] WEFT_API Tensor rope_frequencies(int64_t dim, const RopeOptions& options = {}, int64_t length = 0,
                                               Device device = {}, Location where = {});

/// cos and sin of each position's angles, stacked: [2, B, S, 1, dim] of `dtype` on the device of positions [B, S] or
/// [S], integers of any kind and order. Computed in f64 and rounded once. Element i and i + dim / 2 have one angle or,
/// with `interleaved`, 2 i and 2 i + 1. The text of dynamic_ntk is as long as its row's largest position + 1. Errors
/// as rope_frequencies; ShapeError, DTypeError.
[[nodiscard]] WEFT_API Tensor rope_table(const Tensor& positions, int64_t dim, const RopeOptions& options = {},
                                         bool interleaved = false, DType dtype = DType::f32, Location where = {});

/// Pairs (a, b) of x's last dimension become (a cos - b sin, b cos + a sin): elements i and i + n / 2 or, with
/// `interleaved`, 2 i and 2 i + 1. rope [2, ..., n] has cos and sin, which broadcast to x [..., d]; n is even, and
/// elements of x from n on stay as they are. The result is new and contiguous, of x's dtype; 16-bit floats are computed
/// in f32 and rounded once. The gradient of x is the inverse rotation. ShapeError, DTypeError, DeviceError.
[[nodiscard]] WEFT_API Tensor rotary_embedding(const Tensor& x, const Tensor& rope, bool interleaved = false,
                                               Location where = {});

}  // namespace weft
