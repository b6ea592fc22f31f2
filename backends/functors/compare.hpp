// Comparisons and logical ops: two operands of one dtype, a bool result, no gradient.
#if !defined(WEFT_FUNCTORS_COMPARE) || defined(WEFT_SIMD_FUNCTORS)  // each SIMD target compiles the formulas again
#define WEFT_FUNCTORS_COMPARE

#include "math.hpp"

// clang-format off
namespace weft::WEFT_FUNCTORS {

// value(a, b) is Mirror::value(b, a).
// Scalars only: T is a plain C++ number (float for the 16-bit floats); loops over these vectorise by themselves.
struct Equal {
  using Mirror = Equal;
  template <class T> static WEFT_FN bool value(T a, T b) { return a == b; }
};
struct NotEqual {
  using Mirror = NotEqual;
  template <class T> static WEFT_FN bool value(T a, T b) { return a != b; }
};
struct Less {
  using Mirror = struct Greater;
  template <class T> static WEFT_FN bool value(T a, T b) { return a < b; }
};
struct LessEqual {
  using Mirror = struct GreaterEqual;
  template <class T> static WEFT_FN bool value(T a, T b) { return a <= b; }
};
struct Greater {
  using Mirror = Less;
  template <class T> static WEFT_FN bool value(T a, T b) { return a > b; }
};
struct GreaterEqual {
  using Mirror = LessEqual;
  template <class T> static WEFT_FN bool value(T a, T b) { return a >= b; }
};
struct LogicalAnd {
  using Mirror = LogicalAnd;
  template <class T> static WEFT_FN bool value(T a, T b) { return (a != T(0)) & (b != T(0)); }
};
struct LogicalOr {
  using Mirror = LogicalOr;
  template <class T> static WEFT_FN bool value(T a, T b) { return (a != T(0)) | (b != T(0)); }
};
struct LogicalXor {
  using Mirror = LogicalXor;
  template <class T> static WEFT_FN bool value(T a, T b) { return (a != T(0)) != (b != T(0)); }
};

}  // namespace weft::WEFT_FUNCTORS
// clang-format on

#endif
