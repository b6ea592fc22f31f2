// Formats of a Linear's weight other than a float tensor. Internal to nn/.
#pragma once

#include <cstdint>
#include <string_view>

#include "../../ops/quantize.hpp"
#include "../module.hpp"

namespace weft::nn::detail {

class WeightFormat {
 public:
  virtual ~WeightFormat() = default;
  /// x · Wᵀ + bias, recorded. `weight` is undefined if the layer stores codes, `bias` may be.
  virtual Tensor linear(const Module& layer, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        Location where) const = 0;
  /// As `linear`, for a float weight that has replaced the stored one.
  virtual Tensor linear_merged(const Tensor& x, const Tensor& weight, const Tensor& bias, Location where) const = 0;
};

/// Shape, dtype and device of a weight in floats. `stored` is the parameter itself, or undefined if the weight is
/// decoded or parametrized.
struct BaseWeight {
  Dims shape;
  DType dtype;
  Device device;
  ModuleTensor stored;
};

/// Codes of weft::quantize_weight, in the buffers `codes`, `scale` and, unless symmetric, `zero`.
class CodeFormat final : public WeightFormat {
 public:
  /// For codes of a weight with `columns` columns.
  CodeFormat(int64_t bits, int64_t group_size, int64_t columns)
      : bits(bits), group_size(group_size), columns(columns) {}

  Tensor linear(const Module& layer, const Tensor& x, const Tensor& weight, const Tensor& bias,
                Location where) const override;
  Tensor linear_merged(const Tensor& x, const Tensor& weight, const Tensor& bias, Location where) const override;
  /// The weight in floats, [out, columns], in the dtype of the bias if there is one, else in that of the scales.
  Tensor decoded(const Module& layer, Location where) const;
  BaseWeight describe(const Module& layer) const;
  /// The format of a shard of the columns. Raises ValueError if a shard would divide a group or a byte.
  CodeFormat shard(int count) const;
  /// Whether `count` shards of these columns together have several groups, so that a shard has its own scales.
  bool shards_scales(int count) const { return group_size > 0 && columns * count > group_size; }

  const int64_t bits, group_size, columns;
};

/// A float weight that is rounded to 8-bit floats in each product.
class Fp8Format final : public WeightFormat {
 public:
  Tensor linear(const Module&, const Tensor& x, const Tensor& weight, const Tensor& bias,
                Location where) const override {
    return linear_merged(x, weight, bias, where);
  }
  Tensor linear_merged(const Tensor& x, const Tensor& weight, const Tensor& bias, Location where) const override;
};

/// Whether a layer with codes stores them in the buffer of that name.
inline bool is_of_codes(std::string_view name) { return name == "codes" || name == "scale" || name == "zero"; }
/// Null unless the layer stores codes.
const CodeFormat* code_format_of(const Module& layer);
/// Makes a layer that stores codes an ordinary Linear with this weight.
void replace_codes(const Module& layer, const Tensor& weight);

}  // namespace weft::nn::detail
