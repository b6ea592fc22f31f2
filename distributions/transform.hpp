// Invertible functions of single numbers, with the logarithm of their derivative.
#pragma once

#include <string>

#include "../tensor/index.hpp"

namespace weft::distributions {

/// A value: y = transform(x), x = transform.inverse()(y).
class WEFT_API Transform {
 public:
  enum class Kind : uint8_t { exp, affine, sigmoid, tanh };

  /// y of x; a new tensor of x's shape, or of what it and an affine transform's numbers broadcast to.
  Tensor operator()(const Tensor& x, Location where = {}) const;
  Transform inverse() const;
  /// log |dy/dx| at x, where y is this transform of it.
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y, Location where = {}) const;
  /// Whether y is one that x can become; bool.
  Tensor in_codomain(const Tensor& y) const;
  /// 1 where it rises, -1 where it falls; of y's shape or one that broadcasts to it.
  Tensor sign() const;
  /// What x and this transform's own numbers broadcast to.
  Dims shape_with(const Dims& x) const;
  /// The same function: kind, direction and numbers.
  bool operator==(const Transform& other) const;
  /// "ExpTransform", and with "inverse of ".
  std::string text() const;

 private:
  friend WEFT_API Transform ExpTransform();
  friend WEFT_API Transform SigmoidTransform();
  friend WEFT_API Transform TanhTransform();
  friend WEFT_API Transform AffineTransform(const Operand& loc, const Operand& scale);
  explicit Transform(Kind kind, Tensor loc = {}, Tensor scale = {})
      : kind_(kind), loc_(std::move(loc)), scale_(std::move(scale)) {}
  Tensor forward(const Tensor& x) const;
  Tensor backward(const Tensor& y) const;
  Tensor log_slope(const Tensor& x, const Tensor& y) const;

  Kind kind_;
  bool inverted_ = false;
  Tensor loc_, scale_;
};

/// exp(x).
WEFT_API Transform ExpTransform();
/// 1 / (1 + exp(-x)).
WEFT_API Transform SigmoidTransform();
WEFT_API Transform TanhTransform();
/// loc + scale x.
WEFT_API Transform AffineTransform(const Operand& loc, const Operand& scale);

}  // namespace weft::distributions
