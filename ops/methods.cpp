// Tensor's methods and those of x[…]: each is the free function of its name.
#include <type_traits>

#include "attention.hpp"
#include "axes.hpp"
#include "combine.hpp"
#include "complex.hpp"
#include "create.hpp"
#include "distance.hpp"
#include "distribution.hpp"
#include "diagonal.hpp"
#include "differences.hpp"
#include "index.hpp"
#include "subscript.hpp"
#include "join.hpp"
#include "linalg.hpp"
#include "loss.hpp"
#include "masked.hpp"
#include "matmul.hpp"
#include "norm.hpp"
#include "pad.hpp"
#include "pieces.hpp"
#include "pointwise.hpp"
#include "random.hpp"
#include "rearrange.hpp"
#include "reduce.hpp"
#include "scan.hpp"
#include "scatter.hpp"
#include "search.hpp"
#include "softmax.hpp"
#include "sort.hpp"
#include "special.hpp"
#include "statistics.hpp"
#include "detail/promote.hpp"
#include "../tensor/index.hpp"

namespace weft {
namespace {

// The functions of the methods: weft's, except for these.
namespace functions {
using namespace weft;
using linalg::cholesky_inverse, linalg::cholesky_solve, linalg::cross, linalg::det, linalg::logdet, linalg::matrix_exp,
    linalg::matrix_power;
using weft::clip;

Tensor inverse(const Tensor& x, Location where) { return linalg::inv(x, where); }
Tensor pinverse(const Tensor& x, double rcond, Location where) { return linalg::pinv(x, {}, rcond, false, where); }
Tensor polygamma(const Operand& x, int64_t n) { return weft::polygamma(n, x); }
Tensor where(const Operand& x, const Operand& condition, const Operand& other) {
  return weft::where(condition, x, other);
}

using Bound = std::optional<Scalar>;
Tensor clip(const Operand& x, const Tensor& low, const Tensor& high) { return clip_by(x, low, high); }
Tensor clamp(const Operand& x, Bound low, Bound high) { return weft::clip(x, low, high); }
Tensor clamp(const Operand& x, const Tensor& low, const Tensor& high) { return clip_by(x, low, high); }
const Tensor& clamp_(const Tensor& x, const Tensor& low, const Tensor& high, Location where) {
  const CallScope call("clamp_", where);
  return clip_by_(x, low, high);
}
const Tensor& clamp_(const Tensor& x, Bound low, Bound high, Location where) {
  const auto number = [](Bound bound) { return bound ? Operand(*bound).tensor() : Tensor(); };
  return clamp_(x, number(low), number(high), where);
}
const Tensor& clip_(const Tensor& x, const Tensor& low, const Tensor& high, Location where) {
  return clamp_(x, low, high, where);
}
const Tensor& clip_(const Tensor& x, Bound low, Bound high, Location where) { return clamp_(x, low, high, where); }
}  // namespace functions

// Options that the method does not have.
struct DefaultOptions {
  template <class T>
    requires(std::is_aggregate_v<T> || std::is_enum_v<T>)
  operator T() const { return T(); }
};

// The function takes x as an operand or as a tensor; the location is its last argument, or only the operands have it.
template <class F, class... A>
[[gnu::always_inline]] inline decltype(auto) call(const F& function, const Tensor& x, Location where, const A&... a) {
  constexpr DefaultOptions none;
  if constexpr (requires { function(Operand(x, where), a..., where); }) {
    return function(Operand(x, where), a..., where);
  } else if constexpr (requires { function(x, a..., where); }) {
    return function(x, a..., where);
  } else if constexpr (requires { function(Operand(x, where), a..., none, where); }) {
    return function(Operand(x, where), a..., none, where);
  } else if constexpr (requires { function(x, a..., none, where); }) {
    return function(x, a..., none, where);
  } else if constexpr (requires { function(Operand(x, where), a...); }) {
    return function(Operand(x, where), a...);
  } else {
    return function(x, a...);
  }
}

}  // namespace

#define WEFT_CALL(name, x, ...) \
  call([](const auto&... a) -> decltype(functions::name(a...)) { return functions::name(a...); }, x, __VA_ARGS__)
#define WEFT_METHOD(result, name, parameters, ...)                                     \
  result Tensor::name parameters const { return WEFT_CALL(name, *this, __VA_ARGS__); } \
  result Indexed::name parameters const { return WEFT_CALL(name, elements(), __VA_ARGS__); }
#define WEFT_WRITE(name, parameters, ...)                                                     \
  const Tensor& Tensor::name parameters const { return WEFT_CALL(name, *this, __VA_ARGS__); } \
  Tensor Indexed::name parameters&& {                                                         \
    return write([&](const Tensor& x) { WEFT_CALL(name, x, __VA_ARGS__); });                  \
  }                                                                                           \
  Tensor Indexed::name parameters const& { return WEFT_CALL(name, elements(), __VA_ARGS__); }
#define WEFT_OWN_METHOD(result, name, parameters, location, ...) \
  result Indexed::name parameters const { return elements().name(__VA_ARGS__ __VA_OPT__(, ) location); }

#include <weft_generated/methods.inc>

#define WEFT_UNARY_METHOD(name, ...)                 \
  WEFT_METHOD(Tensor, name, (Location where), where) \
  WEFT_WRITE(name##_, (Location where), where)
WEFT_UNARY_OPS(WEFT_UNARY_METHOD)
#define WEFT_COMPARE_METHOD(name, ...) WEFT_METHOD(Tensor, name, (const Operand& other), other.where, other)
WEFT_COMPARE_OPS(WEFT_COMPARE_METHOD)
#define WEFT_BINARY_METHOD(name, ...) \
  WEFT_COMPARE_METHOD(name)           \
  WEFT_WRITE(name##_, (const Operand& other), other.where, other)
WEFT_BINARY_OPS(WEFT_BINARY_METHOD)
WEFT_INTEGER_OPS(WEFT_BINARY_METHOD)

}  // namespace weft
