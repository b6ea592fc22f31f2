#include "transform.hpp"

#include "detail/kind.hpp"
#include "../ops/detail/common.hpp"

namespace weft::distributions {

Transform ExpTransform() { return Transform(Transform::Kind::exp); }
Transform SigmoidTransform() { return Transform(Transform::Kind::sigmoid); }
Transform TanhTransform() { return Transform(Transform::Kind::tanh); }
Transform AffineTransform(const Operand& loc, const Operand& scale) {
  const CallScope call("AffineTransform", loc.where);
  return Transform(Transform::Kind::affine, checked(loc.tensor()), checked(scale.tensor()));
}

Tensor Transform::forward(const Tensor& x) const {
  switch (kind_) {
    case Kind::exp:
      return exp(x);
    case Kind::affine:
      return loc_ + scale_ * x;
    case Kind::sigmoid: {
      const double epsilon = detail::epsilon_of(x.dtype());
      return clip(sigmoid(x), std::numeric_limits<float>::min(), 1 - epsilon);
    }
    case Kind::tanh:
      break;
  }
  return tanh(x);
}

Tensor Transform::backward(const Tensor& y) const {
  switch (kind_) {
    case Kind::exp:
      return log(y);
    case Kind::affine:
      return (y - loc_) / scale_;
    case Kind::sigmoid:
      return log(y) - log1p(-y);
    case Kind::tanh:
      break;
  }
  return atanh(y);
}

Tensor Transform::log_slope(const Tensor& x, const Tensor&) const {
  switch (kind_) {
    case Kind::exp:
      return x;
    case Kind::affine:
      return log(abs(scale_)) + zeros_like(x);
    case Kind::sigmoid:
      return -softplus(-x) - softplus(x);
    case Kind::tanh:
      break;
  }
  return 2 * (std::log(2.0) - x - softplus(-2 * x));
}

Tensor Transform::operator()(const Tensor& x, Location where) const {
  const CallScope call("transform", where);
  return inverted_ ? backward(checked(x)) : forward(checked(x));
}

Transform Transform::inverse() const {
  Transform turned = *this;
  turned.inverted_ = !inverted_;
  return turned;
}

Tensor Transform::log_abs_det_jacobian(const Tensor& x, const Tensor& y, Location where) const {
  const CallScope call("log_abs_det_jacobian", where);
  return inverted_ ? -log_slope(checked(y), checked(x)) : log_slope(checked(x), checked(y));
}

Tensor Transform::in_codomain(const Tensor& y) const {
  const bool whole_line = inverted_ || kind_ == Kind::affine;
  if (whole_line) return y == y;
  if (kind_ == Kind::exp) return y > 0;
  return kind_ == Kind::sigmoid ? logical_and(y >= 0, y <= 1) : logical_and(y >= -1, y <= 1);
}

Tensor Transform::sign() const {
  return kind_ == Kind::affine ? weft::sign(scale_.to(floating_point(scale_).dtype())) : ones({});
}

Dims Transform::shape_with(const Dims& x) const {
  return kind_ == Kind::affine ? detail::broadcast_all({x, loc_.shape(), scale_.shape()}) : x;
}

bool Transform::operator==(const Transform& other) const {
  if (kind_ != other.kind_ || inverted_ != other.inverted_) return false;
  if (kind_ != Kind::affine) return true;
  const auto same = [](const Tensor& a, const Tensor& b) {
    return a.impl() == b.impl() || (broadcast(a.sizes(), b.sizes()) && all(a == b).item<bool>());
  };
  return same(loc_, other.loc_) && same(scale_, other.scale_);
}

std::string Transform::text() const {
  constexpr const char* names[] = {"ExpTransform", "AffineTransform", "SigmoidTransform", "TanhTransform"};
  return (inverted_ ? "inverse of " : "") + std::string(names[static_cast<int>(kind_)]);
}

}  // namespace weft::distributions
