// Formulas for weft::map, and how many instructions an element of their loops may take: with AVX2, by GCC 12, for
// values, gradients and second derivatives of f32. A loop that is no SIMD code takes about eight times as many.
#pragma once

namespace weft::testing {

/// A template of one's own, called twice.
template <class V>
auto bump(V x, V y) {
  return x * y + exp(-x * x) - log1p(y);
}

// clang-format off
/// Columns: name, number of operands, limits for the value, the gradient and the second derivative, formula.
#define WEFT_MAP_FORMULAS(X) \
  X(arithmetic, 2, 2, 2, 4, [](auto x, auto y) { return x * y + x - 2 * y; }) \
  X(damped, 2, 6, 7, 11, [](auto x, auto y) { return x * exp(-y); }) \
  X(log1p, 1, 9, 1, 3, [](auto x) { return log1p(x); }) \
  X(tanh, 1, 7, 7, 10, [](auto x) { return tanh(x); }) \
  X(softplus, 1, 15, 7, 9, [](auto x) { return softplus(x); }) \
  X(gelu_tanh, 1, 9, 11, 26, [](auto x) { return gelu_tanh(x); }) \
  X(gates, 1, 7, 10, 24, [](auto x) { return silu(x) * sigmoid(x); }) \
  X(bounds, 3, 4, 8, 10, [](auto x, auto y, auto z) { \
    return maximum(minimum(x, y), z) + select(x > y, x * z, y); }) \
  X(roots, 1, 15, 14, 23, [](auto x) { return sqrt(x) + rsqrt(x + 1) + floor(4 * x); }) \
  X(six, 6, 9, 16, 35, [](auto a, auto b, auto c, auto d, auto e, auto g) { \
    return a * b * c + tanh(d * e) * g + a * g * g; }) \
  X(twenty, 2, 43, 55, 133, [](auto x, auto y) { \
    auto a = x * y + exp(-x), b = log(a * a + 1) * tanh(y), c = a * b - x / (1 + y * y); \
    auto d = sigmoid(c) * expm1(b * 0.1); \
    return d * d + c * a - log1p(abs(b)) + x; }) \
  X(own_template, 2, 30, 35, 52, [](auto x, auto y) { return bump(x, y) * bump(y, x); })
// clang-format on

}  // namespace weft::testing
