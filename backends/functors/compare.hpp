// Comparisons and logical ops: two operands of one dtype, a bool result, no gradient.
#if !defined(WEFT_FUNCTORS_COMPARE) || defined(WEFT_SIMD_FUNCTORS)  // each SIMD target compiles the formulas again
#define WEFT_FUNCTORS_COMPARE

#include "math.hpp"

// clang-format off
namespace weft::WEFT_FUNCTORS {

// Scalars only: T is a plain C++ number (float for the 16-bit floats); loops over these vectorise by themselves.
struct Equal {
  template <class T> static WEFT_FN bool value(T a, T b) { return a == b; }
};
struct NotEqual {
  template <class T> static WEFT_FN bool value(T a, T b) { return a != b; }
};
struct Less {
  template <class T> static WEFT_FN bool value(T a, T b) { return a < b; }
};
struct LessEqual {
  template <class T> static WEFT_FN bool value(T a, T b) { return a <= b; }
};
struct Greater {
  template <class T> static WEFT_FN bool value(T a, T b) { return a > b; }
};
struct GreaterEqual {
  template <class T> static WEFT_FN bool value(T a, T b) { return a >= b; }
};
struct LogicalAnd {
  template <class T> static WEFT_FN bool value(T a, T b) { return (a != T(0)) & (b != T(0)); }
};
struct LogicalOr {
  template <class T> static WEFT_FN bool value(T a, T b) { return (a != T(0)) | (b != T(0)); }
};
struct LogicalXor {
  template <class T> static WEFT_FN bool value(T a, T b) { return (a != T(0)) != (b != T(0)); }
};

}  // namespace weft::WEFT_FUNCTORS
// clang-format on

#endif
