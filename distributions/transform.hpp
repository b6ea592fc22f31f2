// Invertible elementwise functions with the logarithm of their derivative.
#pragma once

#include <string>

#include "../tensor/index.hpp"

namespace weft::distributions {

/// y = transform(x), x = transform.inverse()(y).
class WEFT_API Transform {
 public:
  enum class Kind : uint8_t { exp, affine, sigmoid, tanh };

  /// y of x: a new tensor with x's shape, broadcast with the parameters of an affine transform.
  Tensor operator()(const Tensor& x, Location where = {}) const;
  Transform inverse() const;
  /// log |dy/dx| at x, with y = transform(x).
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y, Location where = {}) const;
  /// Whether y is in the codomain; bool.
  Tensor in_codomain(const Tensor& y) const;
  /// 1 if increasing, -1 if decreasing; of y's shape or one that broadcasts to it.
  Tensor sign() const;
  /// The broadcast shape of x and the transform's parameters.
  Dims shape_with(const Dims& x) const;
  /// Compares function, direction and parameters.
  bool operator==(const Transform& other) const;
  /// "ExpTransform", with the prefix "inverse of " for an inverse.
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
