// The loops that weft::map makes of a function: its values, its gradients and its second derivatives, each as SIMD
// code.
//
// A loop is one function into which all callees are inlined first, so that its code depends neither on the rest of the
// file nor on the level of optimisation. For GCC this takes three things: loops call their body directly, with no
// always_inline function between them and the formula, because GCC may process one before its callees are ready;
// `flatten` inlines the formula and its callees whatever their size; an attribute sets the loop's optimisation level
// and contraction of products and sums.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "dual.hpp"
#include "row.hpp"
#include "../tensor/dtype.hpp"

#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEFT_MAP_SIMD noinline
#define WEFT_MAP_BODY
#define WEFT_MAP_INDEPENDENT
#elif defined(__clang__)
#define WEFT_MAP_SIMD noinline, flatten
#define WEFT_MAP_BODY [[gnu::flatten]]
#define WEFT_MAP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define WEFT_MAP_BODY
#define WEFT_MAP_SIMD noinline, flatten, optimize("O3", "fp-contract=off")
#define WEFT_MAP_INDEPENDENT _Pragma("GCC ivdep")
#endif

// Loops for AVX2 and AVX-512, besides those for the target that the file is compiled for; not where the file defines
// WEFT_MAP_ONE_TARGET before.
#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__AVX2__) && !defined(WEFT_MAP_ONE_TARGET) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WEFT_MAP_TARGETS
#endif

namespace weft::detail {

/// One loop, as compiled for no SIMD level in particular, for AVX2 and for AVX-512: see cpu::map_level().
struct MapLoop {
  /// count elements, contiguous in every operand; outputs come first.
  using Function = void (*)(const void* function, void* const* operands, int64_t count);
  Function at[3] = {};
};

/// The loops made of one function of n numbers, for f32, f64 and (values only) i64. All operands are contiguous.
struct MapProgram {
  int n;
  /// The output, then the n inputs.
  MapLoop value[3];
  /// n outputs, then the incoming gradient and the n inputs.
  MapLoop gradient[2] = {};
  /// The gradient for the incoming gradient and those for the inputs; then the inputs of gradient[], and one gradient
  /// for each of its outputs.
  MapLoop second[2] = {};
  /// The element type that value[] writes: f32, f64, i64 or boolean.
  DType result[3];
  /// The row that the function is; raises math::NotARow where it is none.
  math::Row (*row)(const void* function);
  /// A copy of the function, as the graph keeps it.
  std::shared_ptr<const void> (*keep)(const void* function);
};

// Runs body(0), body(1), … body(count - 1), which are independent of one another.
template <class Body>
__attribute__((WEFT_MAP_SIMD)) void map_loop(const Body body, int64_t count) {
  WEFT_MAP_INDEPENDENT for (int64_t i = 0; i < count; ++i) body(i);
}
#if defined(WEFT_MAP_TARGETS)
template <class Body>
__attribute__((WEFT_MAP_SIMD, target("arch=x86-64-v3"))) void map_loop_avx2(const Body body, int64_t count) {
  WEFT_MAP_INDEPENDENT for (int64_t i = 0; i < count; ++i) body(i);
}
template <class Body>
__attribute__((WEFT_MAP_SIMD, target("arch=x86-64-v4"))) void map_loop_avx512(const Body body, int64_t count) {
  WEFT_MAP_INDEPENDENT for (int64_t i = 0; i < count; ++i) body(i);
}
#endif

/// The C++ number type of an element type; i64 for all integers and bool.
template <class T>
struct NumberOf {
  using type = math::Number<T>;
};
template <>
struct NumberOf<int64_t> {
  using type = math::Whole;
};

template <class F, class Indices>
struct MapLoops;
/// The loops of a function F of n numbers; k counts 0 … n - 1.
template <class F, size_t... k>
struct MapLoops<F, std::index_sequence<k...>> {
  static constexpr int n = sizeof...(k);
  template <size_t, class T>
  using Each = T;
  /// A copy in the loop where that costs nothing, so that captures stay in registers.
  using Stored = std::conditional_t<std::is_trivially_copyable_v<F>, const F, const F&>;

  template <class T>
  using Number = typename NumberOf<T>::type;
  /// With one derivative for each input.
  template <class T>
  using Dual = math::Dual<math::Plain<T>, n>;
  /// With the derivative along one direction, which itself has one derivative for each input.
  template <class T>
  using SecondDual = math::Dual<Dual<T>, 1>;

  template <class N>
  using Returned = std::remove_cvref_t<std::invoke_result_t<const F&, Each<k, N>...>>;
  template <class T>
  static auto element_of() {
    using R = Returned<Number<T>>;
    if constexpr (std::is_same_v<R, bool>) return bool();
    else if constexpr (!std::is_integral_v<T>) return T();
    else if constexpr (std::is_integral_v<R> || std::is_same_v<R, math::Whole>) return int64_t();
    else return float();
  }
  /// The element type of the function's output, where its inputs are T.
  template <class T>
  using Element = decltype(element_of<T>());
  static constexpr bool differentiable = !std::is_same_v<Returned<Number<float>>, bool>;

  template <class T, class R>
  static WEFT_FN Element<T> stored(const R& y) {
    if constexpr (std::is_arithmetic_v<R>) return static_cast<Element<T>>(y);
    else if constexpr (std::is_same_v<R, math::Whole>) return y.value;
    else return y.value.value;
  }
  /// Input i with derivative 1 for itself.
  template <size_t i, class T>
  static WEFT_FN Dual<T> seeded(T value) {
    Dual<T> x(value);
    x.slope[i] = 1;
    return x;
  }
  template <size_t i, class T>
  static WEFT_FN SecondDual<T> seeded(T value, T direction) {
    SecondDual<T> x(seeded<i>(value));
    x.slope[0] = direction;
    return x;
  }

  template <class T>
  struct Value {
    Stored f;
    Element<T>* out;
    const T* x[n];

    Value(const F& function, void* const* p)
        : f(function), out(static_cast<Element<T>*>(p[0])), x{static_cast<const T*>(p[1 + k])...} {}
    WEFT_MAP_BODY void operator()(int64_t i) const { out[i] = stored<T>(f(Number<T>(x[k][i])...)); }
  };
  template <class T>
  struct Gradient {
    Stored f;
    T* out[n];
    const T *g, *x[n];

    Gradient(const F& function, void* const* p)
        : f(function),
          out{static_cast<T*>(p[k])...},
          g(static_cast<const T*>(p[n])),
          x{static_cast<const T*>(p[n + 1 + k])...} {}
    WEFT_MAP_BODY void operator()(int64_t i) const {
      const Dual<T> y(f(seeded<k>(x[k][i])...));
      ((out[k][i] = g[i] * y.slope[k].value), ...);
    }
  };
  template <class T>
  struct Second {
    Stored f;
    T *g_out, *out[n];
    const T *g, *x[n], *direction[n];

    Second(const F& function, void* const* p)
        : f(function),
          g_out(static_cast<T*>(p[0])),
          out{static_cast<T*>(p[1 + k])...},
          g(static_cast<const T*>(p[n + 1])),
          x{static_cast<const T*>(p[n + 2 + k])...},
          direction{static_cast<const T*>(p[2 * n + 2 + k])...} {}
    WEFT_MAP_BODY void operator()(int64_t i) const {
      const SecondDual<T> y(f(seeded<k>(x[k][i], direction[k][i])...));
      g_out[i] = y.slope[0].value.value;
      ((out[k][i] = g[i] * y.slope[0].slope[k].value), ...);
    }
  };

  template <class Body, void (*loop)(Body, int64_t)>
  static void run(const void* function, void* const* p, int64_t count) {
    loop(Body(*static_cast<const F*>(function), p), count);
  }
  /// Every SIMD level costs compile time: the first `levels` are compiled, and the highest of them serves those above.
  template <class Body, int levels>
  static constexpr MapLoop loops() {
#if defined(WEFT_MAP_TARGETS)
    if constexpr (levels == 3)
      return {run<Body, map_loop<Body>>, run<Body, map_loop_avx2<Body>>, run<Body, map_loop_avx512<Body>>};
    else return {run<Body, map_loop<Body>>, run<Body, map_loop_avx2<Body>>, run<Body, map_loop_avx2<Body>>};
#else
    return {run<Body, map_loop<Body>>, run<Body, map_loop<Body>>, run<Body, map_loop<Body>>};
#endif
  }

  static math::Row row(const void* function) {
    if constexpr (std::is_invocable_v<const F&, Each<k, math::Term>...>) {
      return math::Term((*static_cast<const F*>(function))(math::Term::argument(static_cast<int>(k))...)).row();
    } else {
      math::refuse_formula();
    }
  }
  static std::shared_ptr<const void> keep(const void* function) {
    return std::make_shared<const F>(*static_cast<const F*>(function));
  }
};

template <class F, size_t... k>
constexpr MapProgram make_map_program(std::index_sequence<k...>) {
  using L = MapLoops<F, std::index_sequence<k...>>;
  using math::Whole;
  MapProgram program = {
      .n = sizeof...(k),
      .value = {L::template loops<typename L::template Value<float>, 3>(),
                L::template loops<typename L::template Value<double>, 3>(),
                L::template loops<typename L::template Value<int64_t>, 2>()},
      .result = {dtype_of<typename L::template Element<float>>(), dtype_of<typename L::template Element<double>>(),
                 dtype_of<typename L::template Element<int64_t>>()},
      .row = L::row,
      .keep = L::keep};
  if constexpr (L::differentiable) {
    program.gradient[0] = L::template loops<typename L::template Gradient<float>, 3>();
    program.gradient[1] = L::template loops<typename L::template Gradient<double>, 3>();
    program.second[0] = L::template loops<typename L::template Second<float>, 2>();
    program.second[1] = L::template loops<typename L::template Second<double>, 2>();
  }
  return program;
}
template <class F, int n>
inline constexpr MapProgram map_program = make_map_program<F>(std::make_index_sequence<n>());

}  // namespace weft::detail

#undef WEFT_MAP_SIMD
#undef WEFT_MAP_BODY
#undef WEFT_MAP_INDEPENDENT
#undef WEFT_MAP_TARGETS
