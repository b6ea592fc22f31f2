// ScalarType: libtorch's names of element types. It converts to and from weft::DType.
#pragma once

#include <ostream>

#include <weft/tensor/dtype.hpp>

#include <c10/util/Optional.h>

/// X(libtorch's name, weft's dtype, C++ type, libtorch's text, TypeMeta's text)
#define TORCH_SCALAR_TYPES(X)                                                           \
  X(Byte, u8, uint8_t, "Byte", "unsigned char")                                         \
  X(Char, i8, int8_t, "Char", "signed char")                                            \
  X(Short, i16, int16_t, "Short", "short int")                                          \
  X(Int, i32, int, "Int", "int")                                                        \
  X(Long, i64, int64_t, "Long", "long int")                                             \
  X(Half, f16, c10::Half, "Half", "c10::Half")                                          \
  X(Float, f32, float, "Float", "float")                                                \
  X(Double, f64, double, "Double", "double")                                            \
  X(ComplexFloat, c64, c10::complex<float>, "ComplexFloat", "c10::complex<float>")      \
  X(ComplexDouble, c128, c10::complex<double>, "ComplexDouble", "c10::complex<double>") \
  X(Bool, boolean, bool, "Bool", "bool")                                                \
  X(BFloat16, bf16, c10::BFloat16, "BFloat16", "c10::BFloat16")                         \
  X(UInt16, u16, uint16_t, "UInt16", "unsigned short")                                  \
  X(UInt32, u32, uint32_t, "UInt32", "unsigned int")                                    \
  X(UInt64, u64, uint64_t, "UInt64", "unsigned long")                                   \
  X(Float8_e5m2, f8_e5m2, weft::float8_e5m2, "Float8_e5m2", "c10::Float8_e5m2")         \
  X(Float8_e4m3fn, f8_e4m3fn, weft::float8_e4m3fn, "Float8_e4m3fn", "c10::Float8_e4m3fn")

namespace c10 {

using Half = weft::float16;
using BFloat16 = weft::bfloat16;
template <class T>
using complex = weft::Complex<T>;

/// An element type. Used as libtorch's enum of the same name, and as its TypeMeta.
struct ScalarType {
  weft::DType value = weft::DType::f32;

  constexpr ScalarType() = default;
  constexpr ScalarType(weft::DType dtype) : value(dtype) {}
  constexpr operator weft::DType() const { return value; }

#define TORCH_DECLARE(name, ...) static const ScalarType name;
  TORCH_SCALAR_TYPES(TORCH_DECLARE)
#undef TORCH_DECLARE

  // ---- TypeMeta ----
  template <class T>
  static constexpr ScalarType Make() {
    return weft::dtype_of<T>();
  }
  template <class T>
  static constexpr ScalarType Match() {
    return weft::dtype_of<T>();
  }
  constexpr ScalarType toScalarType() const { return *this; }
  size_t itemsize() const { return static_cast<size_t>(weft::itemsize(value)); }
  /// The C++ type, such as "float".
  const char* name() const;

  friend constexpr bool operator==(ScalarType a, ScalarType b) { return a.value == b.value; }
  friend constexpr bool operator==(ScalarType a, weft::DType b) { return a.value == b; }
};
/// libtorch's name, such as "Float".
const char* toString(ScalarType type);
std::ostream& operator<<(std::ostream& out, ScalarType type);

#define TORCH_DEFINE(name, dtype, ...)                              \
  inline constexpr ScalarType ScalarType::name{weft::DType::dtype}; \
  inline constexpr ScalarType k##name{weft::DType::dtype};
TORCH_SCALAR_TYPES(TORCH_DEFINE)
#undef TORCH_DEFINE
inline constexpr ScalarType kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong, kFloat16 = kHalf,
                            kFloat32 = kFloat, kFloat64 = kDouble, kU8 = kByte, kI8 = kChar, kI16 = kShort, kI32 = kInt,
                            kI64 = kLong, kF16 = kHalf, kF32 = kFloat, kF64 = kDouble, kUInt8 = kByte,
                            kComplex64 = kComplexFloat, kComplex128 = kComplexDouble;

template <class T>
struct CppTypeToScalarType {
  static constexpr ScalarType value = weft::dtype_of<T>();
};

inline bool isFloatingType(ScalarType type) { return weft::is_floating(type); }
inline bool isComplexType(ScalarType type) { return weft::is_complex(type); }
inline bool isIntegralType(ScalarType type, bool include_bool) {
  return weft::is_integer(type) || (include_bool && type == kBool);
}
inline bool isSignedType(ScalarType type) { return weft::is_signed(type); }
inline size_t elementSize(ScalarType type) { return type.itemsize(); }
inline ScalarType promoteTypes(ScalarType a, ScalarType b) { return weft::promote(a, b); }
inline ScalarType typeMetaToScalarType(ScalarType type) { return type; }
inline ScalarType scalarTypeToTypeMeta(ScalarType type) { return type; }

/// Sets the default dtype of new tensors. Raises DTypeError unless it is a floating-point type.
inline void set_default_dtype(ScalarType type) { weft::set_default_dtype(type); }
inline ScalarType get_default_dtype() { return weft::default_dtype(); }
inline ScalarType get_default_dtype_as_scalartype() { return weft::default_dtype(); }

/// The dtype argument of a Weft function.
inline optional<weft::DType> dtype_of(const optional<ScalarType>& type) {
  return type ? optional<weft::DType>(type->value) : nullopt;
}

}  // namespace c10

namespace caffe2 {
using TypeMeta = c10::ScalarType;
}
