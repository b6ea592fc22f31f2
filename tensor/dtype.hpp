// Element types: names, sizes, categories, C++ types, and PyTorch's promotion rules.
#pragma once

#include <iosfwd>
#include <optional>
#include <string_view>
#include <type_traits>

#include "atomic.hpp"
#include "complex.hpp"
#include "config.hpp"
#include "location.hpp"
#include "view.hpp"

namespace weft {

/// Allows weft::f32, weft::i64 and weft::boolean.
using enum DType;

namespace detail {
inline constexpr uint8_t item_sizes[dtype_count] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 1, 1, 1, 8, 16};
}
/// Size of the largest element, and of one element, in bytes.
inline constexpr int64_t max_item = 16;
constexpr int64_t itemsize(DType t) { return detail::item_sizes[static_cast<int>(t)]; }
/// Real floating-point types.
constexpr bool is_floating(DType t) { return t >= DType::f16 && t <= DType::f8_e8m0fnu; }
constexpr bool is_complex(DType t) { return t >= DType::c64; }
/// Real and complex floating-point types: the ones that have gradients.
constexpr bool is_inexact(DType t) { return t >= DType::f16; }
/// Signed and unsigned integer types, without bool.
constexpr bool is_integer(DType t) { return t >= DType::u8 && t <= DType::i64; }
constexpr bool is_signed(DType t) {
  return (is_inexact(t) && t != DType::f8_e8m0fnu) || t == DType::i8 || t == DType::i16 || t == DType::i32 ||
         t == DType::i64;
}
/// The 8-bit floats: they support storage and conversion, but no arithmetic.
constexpr bool is_storage_only(DType t) { return t >= DType::f8_e4m3fn && t <= DType::f8_e8m0fnu; }
/// The type used for arithmetic: f32 for the smaller floats, u64 for u16 and u32, else `t` itself.
constexpr DType compute_type(DType t) {
  if (t == DType::u16 || t == DType::u32) return DType::u64;
  return t == DType::f16 || t == DType::bf16 || is_storage_only(t) ? DType::f32 : t;
}
/// The dtype of the real and imaginary parts; `t` itself if it is real.
constexpr DType real_type(DType t) { return t == DType::c64 ? DType::f32 : t == DType::c128 ? DType::f64 : t; }
/// The complex dtype that can represent values of `t`: c128 for f64, `t` itself if it is complex, else c64.
constexpr DType complex_type(DType t) { return is_complex(t) ? t : t == DType::f64 ? DType::c128 : DType::c64; }

/// How a conversion to a floating-point dtype treats values beyond its largest. NaN always stays NaN.
enum class Overflow : uint8_t {
  by_format,  ///< as ieee, but in f8_e4m3fn the largest value of the same sign
  ieee,       ///< infinity; NaN in 8-bit floats without one: all but f8_e5m2
  saturate    ///< the largest value of the same sign, for infinities too
};

/// PyTorch's name of the dtype: "float32", "bool", "bfloat16", "float8_e4m3fn".
WEFT_API const char* name(DType t);
WEFT_API std::ostream& operator<<(std::ostream& out, DType t);
/// The dtype with this name, or nothing for an unknown name.
WEFT_API std::optional<DType> find_dtype(std::string_view name);
/// The inverse of `name`. Raises ValueError for an unknown name.
WEFT_API DType dtype_from_name(const char* name, Location where = {});

/// The smallest dtype that both convert to, as PyTorch's `promote_types` (f16 with c64 is c64). Where PyTorch defines
/// none (u16, u32 and u64 with others), the Python array API standard applies. Raises DTypeError for an 8-bit float
/// with another float, and for u64 with a signed integer.
WEFT_API DType promote(DType a, DType b, Location where = {});

namespace detail {
extern WEFT_API Atomic<DType> process_default_dtype;
}
/// The dtype of new tensors and floating-point literals, and of results that an op computes from integers in floating
/// point. f32 unless set.
inline DType default_dtype() { return detail::process_default_dtype.load(MemoryOrder::relaxed); }
/// Sets the default dtype for all threads. Raises DTypeError unless it is f32, f64, f16 or bf16.
WEFT_API void set_default_dtype(DType dtype, Location where = {});

/// A complex type with real() and imag() of float or double: weft::Complex, std::complex and compatible types.
template <class T>
concept ComplexNumber = requires(const T& z) {
  z.real();
  z.imag();
  requires std::is_same_v<typename T::value_type, float> || std::is_same_v<typename T::value_type, double>;
  requires sizeof(T) == 2 * sizeof(typename T::value_type);
};

/// C++ types of single elements: bool, integers, floats of 8 to 64 bits, complex numbers.
template <class T>
concept Element = std::is_integral_v<T> || std::is_same_v<T, float> || std::is_same_v<T, double> ||
    std::is_same_v<T, float16> || std::is_same_v<T, bfloat16> || std::is_same_v<T, float8_e4m3fn> ||
    std::is_same_v<T, float8_e5m2> || std::is_same_v<T, float8_e4m3fnuz> || std::is_same_v<T, float8_e5m2fnuz> ||
    std::is_same_v<T, float8_e8m0fnu> || ComplexNumber<T>;

/// The DType of a C++ type; integers are mapped by size and sign.
template <class T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>) return DType::boolean;
  else if constexpr (std::is_same_v<U, float>) return DType::f32;
  else if constexpr (std::is_same_v<U, double>) return DType::f64;
  else if constexpr (std::is_same_v<U, float16>) return DType::f16;
  else if constexpr (std::is_same_v<U, bfloat16>) return DType::bf16;
  else if constexpr (std::is_same_v<U, float8_e4m3fn>) return DType::f8_e4m3fn;
  else if constexpr (std::is_same_v<U, float8_e5m2>) return DType::f8_e5m2;
  else if constexpr (std::is_same_v<U, float8_e4m3fnuz>) return DType::f8_e4m3fnuz;
  else if constexpr (std::is_same_v<U, float8_e5m2fnuz>) return DType::f8_e5m2fnuz;
  else if constexpr (std::is_same_v<U, float8_e8m0fnu>) return DType::f8_e8m0fnu;
  else if constexpr (ComplexNumber<U>) return sizeof(U) == 8 ? DType::c64 : DType::c128;
  else {
    static_assert(std::is_integral_v<U>, "not an element type");
    constexpr bool s = std::is_signed_v<U>;
    if constexpr (sizeof(U) == 1) return s ? DType::i8 : DType::u8;
    else if constexpr (sizeof(U) == 2) return s ? DType::i16 : DType::u16;
    else if constexpr (sizeof(U) == 4) return s ? DType::i32 : DType::u32;
    else return s ? DType::i64 : DType::u64;
  }
}

/// Calls `f.template operator()<T>()` with the C++ type T of `t`.
template <class F>
decltype(auto) visit_dtype(DType t, F&& f) {
  switch (t) {
    case DType::boolean:
      return f.template operator()<bool>();
    case DType::u8:
      return f.template operator()<uint8_t>();
    case DType::i8:
      return f.template operator()<int8_t>();
    case DType::u16:
      return f.template operator()<uint16_t>();
    case DType::i16:
      return f.template operator()<int16_t>();
    case DType::u32:
      return f.template operator()<uint32_t>();
    case DType::i32:
      return f.template operator()<int32_t>();
    case DType::u64:
      return f.template operator()<uint64_t>();
    case DType::i64:
      return f.template operator()<int64_t>();
    case DType::f16:
      return f.template operator()<float16>();
    case DType::bf16:
      return f.template operator()<bfloat16>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::f8_e4m3fn:
      return f.template operator()<float8_e4m3fn>();
    case DType::f8_e5m2:
      return f.template operator()<float8_e5m2>();
    case DType::f8_e4m3fnuz:
      return f.template operator()<float8_e4m3fnuz>();
    case DType::f8_e5m2fnuz:
      return f.template operator()<float8_e5m2fnuz>();
    case DType::f8_e8m0fnu:
      return f.template operator()<float8_e8m0fnu>();
    case DType::c64:
      return f.template operator()<Complex<float>>();
    default:
      return f.template operator()<Complex<double>>();
  }
}

/// Reads the element at an address of any alignment. For bool, any nonzero byte is true.
template <class T>
T element_at(const void* address) {
  if constexpr (std::is_same_v<T, bool>) {
    return element_at<uint8_t>(address) != 0;
  } else {
    T element;
    __builtin_memcpy(&element, address, sizeof(T));
    return element;
  }
}

}  // namespace weft
