// Argument type that finds out which row of backends/functors/rows.hpp a function given to weft::map is; devices have
// kernels for rows only. The call computes nothing.
//
// A longer formula is rejected on devices and not split into ops: its derivatives would differ from those of the CPU
// loop, where the side that `select` drops has no infinities.
#pragma once

#include "../backends/functors/lists.hpp"
#include "../tensor/scalar.hpp"

namespace weft::math {

/// A row and its operands: arguments of the function, and numbers.
struct Row {
  enum Family : uint8_t { none, unary, binary, compare, ternary };
  struct Operand {
    int argument = -1;  ///< or none and a number
    Scalar number;
  };
  Family family = none;
  uint8_t op = 0;
  Operand operands[3];
};

/// Raised for functions that are no row: by a second operation, or a branch.
struct NotARow {};
[[noreturn]] WEFT_API void refuse_formula();

/// The result of a comparison. As the result of the function it is a row; converting it to bool is a branch.
class Truth {
 public:
  explicit Truth(const Row& row) : row_(row) {}
  operator bool() const { refuse_formula(); }
  const Row& row() const { return row_; }

 private:
  Row row_;
};

/// An argument, a number, or a row of these.
class Term {
 public:
  template <Arithmetic A>
  Term(A number) {
    row_.operands[0].number = number;
  }
  Term(const Truth& truth) : row_(truth.row()) {}
  static Term argument(int which) {
    Term term(0);
    term.row_.operands[0].argument = which;
    return term;
  }
  const Row& row() const { return row_; }

  friend Term operator+(const Term& a, const Term& b) { return of(Row::binary, BinaryOp::add, a, b); }
  friend Term operator-(const Term& a, const Term& b) { return of(Row::binary, BinaryOp::sub, a, b); }
  friend Term operator*(const Term& a, const Term& b) { return of(Row::binary, BinaryOp::mul, a, b); }
  friend Term operator/(const Term& a, const Term& b) { return of(Row::binary, BinaryOp::div, a, b); }
  friend Term operator-(const Term& a) { return of(Row::unary, UnaryOp::neg, a); }
  friend Term operator+(const Term& a) { return a; }
  Term& operator+=(const Term& b) { return *this = *this + b; }
  Term& operator-=(const Term& b) { return *this = *this - b; }
  Term& operator*=(const Term& b) { return *this = *this * b; }
  Term& operator/=(const Term& b) { return *this = *this / b; }
  friend Truth operator==(const Term& a, const Term& b) { return compared(CompareOp::eq, a, b); }
  friend Truth operator!=(const Term& a, const Term& b) { return compared(CompareOp::ne, a, b); }
  friend Truth operator<(const Term& a, const Term& b) { return compared(CompareOp::lt, a, b); }
  friend Truth operator<=(const Term& a, const Term& b) { return compared(CompareOp::le, a, b); }
  friend Truth operator>(const Term& a, const Term& b) { return compared(CompareOp::gt, a, b); }
  friend Truth operator>=(const Term& a, const Term& b) { return compared(CompareOp::ge, a, b); }

#define WEFT_TERM_UNARY(name, ...) \
  friend Term name(const Term& x) { return of(Row::unary, UnaryOp::name, x); }
#define WEFT_TERM_BINARY(name, ...) \
  friend Term name(const Term& a, const Term& b) { return of(Row::binary, BinaryOp::name, a, b); }
#define WEFT_TERM_TERNARY(name, ...) \
  friend Term name(const Term& a, const Term& b, const Term& c) { return of(Row::ternary, TernaryOp::name, a, b, c); }
  WEFT_UNARY_OPS(WEFT_TERM_UNARY)
  WEFT_BINARY_OPS(WEFT_TERM_BINARY)
  WEFT_TERNARY_OPS(WEFT_TERM_TERNARY)
#undef WEFT_TERM_UNARY
#undef WEFT_TERM_BINARY
#undef WEFT_TERM_TERNARY
  friend Term rint(const Term& x) { return round(x); }
  friend Term select(bool, const Term&, const Term&) { refuse_formula(); }

 private:
  template <class Op, class... Terms>
  static Term of(Row::Family family, Op op, const Terms&... terms) {
    Term made(0);
    made.row_.family = family;
    made.row_.op = static_cast<uint8_t>(op);
    int k = 0;
    ((made.row_.operands[k++] = terms.leaf()), ...);
    return made;
  }
  static Truth compared(CompareOp op, const Term& a, const Term& b) { return Truth(of(Row::compare, op, a, b).row_); }
  const Row::Operand& leaf() const {
    if (row_.family != Row::none) refuse_formula();
    return row_.operands[0];
  }

  Row row_;
};

}  // namespace weft::math
