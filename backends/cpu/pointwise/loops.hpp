// The innermost loops of pointwise kernels: tables of functions over contiguous memory, one set for each SIMD target.
//
// Loops are keyed by operation, by compute type and, where operands may be one repeated element, by the bit mask of
// those operands. A null entry is a combination that does not exist. The tables hold the best target's loops from load
// time on; WEFT_CPU_TARGET=scalar, avx2 or avx512 in the environment selects another.
#pragma once

#include <cstring>

#include "../../dispatch.hpp"
#include "../../functors/lists.hpp"
#include "../item.hpp"

namespace weft::cpu {

/// The compute types, in the order of the tables; other dtypes are converted before and after the loops.
enum Slot : int8_t {
  slot_none = -1,
  slot_bool,
  slot_u8,
  slot_i8,
  slot_i16,
  slot_i32,
  slot_u64,
  slot_i64,
  slot_f32,
  slot_f64,
  slot_c64,
  slot_c128
};
inline constexpr int slot_count = 11;
inline constexpr Slot slots[dtype_count] = {slot_bool, slot_u8,   slot_i8,   slot_u64,  slot_i16, slot_u64, slot_i32,
                                            slot_u64,  slot_i64,  slot_f32,  slot_f32,  slot_f32, slot_f64, slot_none,
                                            slot_none, slot_none, slot_none, slot_none, slot_c64, slot_c128};
constexpr Slot slot_of(DType t) { return slots[static_cast<int>(t)]; }
/// Whether elements are converted to the type that arithmetic runs in, and back.
constexpr bool is_converted(DType t) { return compute_type(t) != t; }

/// The unsigned type of an integer type, for loops independent of the sign; other types unchanged.
template <class T>
using Bits = typename std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::make_unsigned<T>,
                                         std::type_identity<T>>::type;

using UnaryLoop = void (*)(void* out, const void* a, int64_t n);
using BinaryLoop = void (*)(void* out, const void* a, const void* b, int64_t n);
using TernaryLoop = void (*)(void* out, const void* a, const void* b, const void* c, int64_t n);

template <class Op>
inline constexpr int count_of = static_cast<int>(Op::count);

// Entries [op][slot][mask]. The masks that exist are 0 and those named.
struct UnaryLoops {
  UnaryLoop loop[count_of<UnaryOp>][slot_count][2];
};
struct GradientLoops {
  BinaryLoop loop[count_of<UnaryOp>][slot_count][4];
};
/// 1: `a` is one element. 2: `b` is.
struct BinaryLoops {
  BinaryLoop loop[count_of<BinaryOp>][slot_count][4];
};
struct CompareLoops {
  BinaryLoop loop[count_of<CompareOp>][slot_count][4];
  /// Whether some elements of a and b are equal, and so large that an integer may have been rounded to a.
  bool (*has_large_ties)(const double* a, const double* b, int64_t n);
};
/// 4: `c` is one element. 6: `b` and `c` are.
struct TernaryLoops {
  TernaryLoop loop[count_of<TernaryOp>][slot_count][8];
};
/// Entries [log2 of the item size][mask] of loops over condition, a and b. 2: `a` is one element. 4: `b` is. 6: both.
struct SelectLoops {
  TernaryLoop loop[item_sizes][8];
};
/// [to][from]
struct ConvertLoops {
  UnaryLoop loop[dtype_count][dtype_count];
  /// [from]: to f32 rounded to odd, on the way to 8 and 16 bits; null where f32 holds every number.
  UnaryLoop to_odd[dtype_count];
  /// Fills n elements of a size.
  UnaryLoop fill[item_sizes];
  /// Copies n bytes.
  UnaryLoop copy;
  /// The same; stores of whole cache lines of `out` bypass the caches.
  UnaryLoop stream;
  /// Transposes rows × columns elements of a size: out[r][c] = in[c][r], strides in bytes.
  void (*transpose[item_sizes])(char* out, int64_t out_stride, const char* in, int64_t in_stride, int64_t rows,
                                int64_t columns);
  /// Copies n elements of a size, `in_stride` bytes apart.
  void (*gather[item_sizes])(char* out, const char* in, int64_t in_stride, int64_t n);
};

extern UnaryLoops unary_loops;
extern GradientLoops gradient_loops;
extern BinaryLoops binary_loops;
extern TernaryLoops ternary_loops;
extern CompareLoops compare_loops;
extern SelectLoops select_loops;
extern ConvertLoops convert_loops;

/// Operands of so many bytes together push each other out of any cache: the output is written past them.
inline constexpr int64_t stream_bytes = int64_t{28} << 20;
/// Shorter runs have too many cache lines that are not written whole.
inline constexpr int64_t stream_run = 1024;

/// glibc copies 2 KiB and more by `rep movsb`, which takes ten times as long on Zen 3 and 4 if `out` is slightly above
/// `in` within a page.
inline void copy_bytes(void* out, const void* in, int64_t bytes) {
  if (bytes < 1024) std::memcpy(out, in, static_cast<size_t>(bytes));
  else convert_loops.copy(out, in, bytes);
}

// Each fills its tables with the loops of the chosen target.
void choose_unary_loops();
void choose_gradient_loops();
void choose_binary_loops();
void choose_integer_loops();
void choose_compare_loops();
void choose_convert_loops();
/// Those of complex numbers, behind the others.
void choose_complex_loops();
/// Those of them that have registers of complex numbers.
void choose_pair_loops();

/// "scalar", "avx2" or "avx512": restricts this process to that target or one below it. Not while kernels run.
bool use_simd_target(const char* name);

}  // namespace weft::cpu
