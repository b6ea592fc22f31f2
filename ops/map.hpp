// Your own pointwise op: a C++ lambda over numbers becomes one pass over tensors, with its derivatives.
//
//   Tensor y = weft::map([](auto x, auto y) { return x * exp(-y); }, a, b);
//
// The lambda takes `auto` arguments and may use + - * /, comparisons, select(mask, a, b), C++ numbers, what it captured
// by value, and every pointwise op by its name (exp, tanh, pow, maximum, gelu_erf, …; no `using` is needed). It is
// compiled for numbers, for dual numbers (the gradient) and for dual numbers of dual numbers (the second derivative):
// each is one loop that reads the operands once. docs/map.md has more.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <weft/ops/dual.hpp>
#include <weft/tensor/tensor.hpp>

// The loops are compiled for AVX2 and AVX-512 too and chosen when the program starts, so that they are fast without
// -march; a sanitized program starts too early for that choice.
#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__AVX2__) && !defined(__clang__) && __GNUC__ >= 12 && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WEFT_MAP_TARGETS __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define WEFT_MAP_TARGETS
#endif

namespace weft {

namespace detail {

/// The loops made of one function of n numbers, for f32, f64 and (values only) i64. All operands are contiguous.
struct MapProgram {
  using Loop = void (*)(const void* function, void* const* operands, int64_t count);
  int n;
  /// The output, then the n inputs.
  Loop value[3];
  /// n outputs, then the incoming gradient and the n inputs.
  Loop gradient[2] = {};
  /// The gradient for the incoming gradient and those for the inputs; then what gradient[] read, and one gradient for
  /// each of its outputs.
  Loop second[2] = {};
  /// What value[] writes: f32, f64, i64 or boolean.
  DType result[3];
  /// A copy of the function, as the graph keeps it.
  std::shared_ptr<const void> (*keep)(const void* function);
};

/// `operands`: as many as the program has inputs.
WEFT_API Tensor run_map(const MapProgram& program, const void* function, const Operand* const* operands);

/// The plain number of an element type; i64 stands for all integers and bool.
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

  template <class T>
  using Number = typename NumberOf<T>::type;
  /// With one derivative for each input.
  template <class T>
  using Gradient = math::Dual<math::Plain<T>, n>;
  /// With the derivative along one direction, of which there is one derivative for each input.
  template <class T>
  using Second = math::Dual<Gradient<T>, 1>;

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
  /// What an output of the function is stored as, where its inputs are T.
  template <class T>
  using Element = decltype(element_of<T>());
  static constexpr bool differentiable = !std::is_same_v<Returned<Number<float>>, bool>;

  template <class T, class R>
  static Element<T> stored(const R& y) {
    if constexpr (std::is_arithmetic_v<R>) return static_cast<Element<T>>(y);
    else if constexpr (std::is_same_v<R, math::Whole>) return y.value;
    else return y.value.value;
  }
  /// Input i with derivative 1 for itself.
  template <class T>
  static Gradient<T> seeded(T value, size_t i) {
    Gradient<T> x(value);
    x.slope[i] = 1;
    return x;
  }
  template <class T>
  static Second<T> seeded(T value, T direction, size_t i) {
    Second<T> x(seeded(value, i));
    x.slope[0] = direction;
    return x;
  }

  template <class T>
  [[gnu::always_inline]] static inline void value_piece(const F& f, int64_t i, int64_t end, Element<T>* __restrict out,
                                                        Each<k, const T>* __restrict... x) {
    for (; i < end; ++i) out[i] = stored<T>(f(Number<T>(x[i])...));
  }
  template <class T>
  [[gnu::always_inline]] static inline void gradient_piece(const F& f, int64_t i, int64_t end,
                                                           Each<k, T>* __restrict... out, const T* __restrict g,
                                                           Each<k, const T>* __restrict... x) {
    for (; i < end; ++i) {
      const Gradient<T> y(f(seeded(x[i], k)...));
      ((out[i] = g[i] * y.slope[k].value), ...);
    }
  }
  template <class T>
  [[gnu::always_inline]] static inline void second_piece(const F& f, int64_t i, int64_t end, T* __restrict g_out,
                                                         Each<k, T>* __restrict... out, const T* __restrict g,
                                                         Each<k, const T>* __restrict... x,
                                                         Each<k, const T>* __restrict... direction) {
    for (; i < end; ++i) {
      const Second<T> y(f(seeded(x[i], direction[i], k)...));
      g_out[i] = y.slope[0].value.value;
      ((out[i] = g[i] * y.slope[0].slope[k].value), ...);
    }
  }

  // Pieces of a constant length: compilers make SIMD code of those at -O2 already.
  static constexpr int64_t piece = 64;
  template <class T>
  WEFT_MAP_TARGETS static void value(const void* function, void* const* p, int64_t count) {
    const F& f = *static_cast<const F*>(function);
    int64_t i = 0;
    const auto run = [&](int64_t end) __attribute__((always_inline)) {
      value_piece<T>(f, i, end, static_cast<Element<T>*>(p[0]), static_cast<const T*>(p[1 + k])...);
    };
    for (; i + piece <= count; i += piece) run(i + piece);
    run(count);
  }
  template <class T>
  WEFT_MAP_TARGETS static void gradient(const void* function, void* const* p, int64_t count) {
    const F& f = *static_cast<const F*>(function);
    int64_t i = 0;
    const auto run = [&](int64_t end) __attribute__((always_inline)) {
      gradient_piece<T>(f, i, end, static_cast<T*>(p[k])..., static_cast<const T*>(p[n]),
                        static_cast<const T*>(p[n + 1 + k])...);
    };
    for (; i + piece <= count; i += piece) run(i + piece);
    run(count);
  }
  template <class T>
  static void second(const void* function, void* const* p, int64_t count) {
    const F& f = *static_cast<const F*>(function);
    int64_t i = 0;
    const auto run = [&](int64_t end) __attribute__((always_inline)) {
      second_piece<T>(f, i, end, static_cast<T*>(p[0]), static_cast<T*>(p[1 + k])..., static_cast<const T*>(p[n + 1]),
                      static_cast<const T*>(p[n + 2 + k])..., static_cast<const T*>(p[2 * n + 2 + k])...);
    };
    for (; i + piece <= count; i += piece) run(i + piece);
    run(count);
  }

  static std::shared_ptr<const void> keep(const void* function) {
    return std::make_shared<const F>(*static_cast<const F*>(function));
  }
};

template <class F, size_t... k>
constexpr MapProgram make_map_program(std::index_sequence<k...>) {
  using L = MapLoops<F, std::index_sequence<k...>>;
  MapProgram program = {
      .n = sizeof...(k),
      .value = {L::template value<float>, L::template value<double>, L::template value<int64_t>},
      .result = {dtype_of<typename L::template Element<float>>(), dtype_of<typename L::template Element<double>>(),
                 dtype_of<typename L::template Element<int64_t>>()},
      .keep = L::keep};
  if constexpr (L::differentiable) {
    program.gradient[0] = L::template gradient<float>;
    program.gradient[1] = L::template gradient<double>;
    program.second[0] = L::template second<float>;
    program.second[1] = L::template second<double>;
  }
  return program;
}
template <class F, int n>
inline constexpr MapProgram map_program = make_map_program<F>(std::make_index_sequence<n>());

template <class F, class... Operands>
Tensor map_over(const F& f, const Operands&... operands) {
  using Number = math::Number<float>;
  static_assert(std::is_invocable_v<const F&, std::conditional_t<true, Number, Operands>...>,
                "weft::map: the function must take one `auto` for each operand, and be callable while const");
  const Operand* const list[] = {&operands...};
  return run_map(map_program<F, sizeof...(Operands)>, &f, list);
}

}  // namespace detail

/// f of the elements of the operands, which broadcast and are promoted as in other ops; at most six, tensors or C++
/// numbers. A new contiguous tensor: of the operands' dtype where f gives a number (float32 where integers left the
/// integers: x / y, exp(x), x * 0.5), bool where it gives a bool. The computation runs in float32 for the 16-bit floats
/// and in int64 for integers. Twice differentiable in floating operands; a third derivative is a NotImplementedError.
/// f is copied into the graph and may be called from several threads at once: it must not change what it captured.
/// ShapeError where shapes do not broadcast, DeviceError where devices differ, NotImplementedError off the CPU.
template <class F>
Tensor map(const F& f, const Operand& a) {
  return detail::map_over(f, a);
}
template <class F>
Tensor map(const F& f, const Operand& a, const Operand& b) {
  return detail::map_over(f, a, b);
}
template <class F>
Tensor map(const F& f, const Operand& a, const Operand& b, const Operand& c) {
  return detail::map_over(f, a, b, c);
}
template <class F>
Tensor map(const F& f, const Operand& a, const Operand& b, const Operand& c, const Operand& d) {
  return detail::map_over(f, a, b, c, d);
}
template <class F>
Tensor map(const F& f, const Operand& a, const Operand& b, const Operand& c, const Operand& d, const Operand& e) {
  return detail::map_over(f, a, b, c, d, e);
}
template <class F>
Tensor map(const F& f, const Operand& a, const Operand& b, const Operand& c, const Operand& d, const Operand& e,
           const Operand& g) {
  return detail::map_over(f, a, b, c, d, e, g);
}

}  // namespace weft

#undef WEFT_MAP_TARGETS
