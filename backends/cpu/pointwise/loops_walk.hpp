// Walking strided operands: calls a kernel's body on runs that are contiguous or one repeated element.
#pragma once

#include <memory>
#include <type_traits>

#include "../../../tensor/dtype.hpp"

namespace weft::cpu {

inline constexpr int max_operands = 4;
/// The most elements per call of a body where operands had to be gathered.
inline constexpr int64_t walk_block = 512;

/// Operand 0 is the output. All operands share sizes; strides count bytes.
struct Walk {
  int count = 0;
  int rank = 0;
  int64_t numel = 0;
  /// Elements for one thread at a time.
  int64_t grain = 32768;
  /// The body only copies operand 1 to operand 0, so that tiles may be transposed instead of calling it.
  bool moves_only = false;
  /// The body's stores bypass the caches, so each thread waits for them at the end of a chunk.
  bool streams = false;
  /// Bytes of an element.
  int64_t items[max_operands];
  char* data[max_operands];
  int64_t sizes[max_rank];
  int64_t strides[max_operands][max_rank];

  explicit Walk(const View& out, int64_t item, int64_t grain_);
  void add(const View& in, int64_t item);
};

/// One operand's elements, in row-major order of the sizes; strides count bytes.
struct Elements {
  int rank;
  const int64_t *sizes, *strides;
  char* data;
  int64_t item;
};
/// Copies n of them from position `begin` on into `block`.
void gather_block(const Elements& from, int64_t begin, int64_t n, char* block);

/// body(context, pointers, repeated, n): n elements; bit k of `repeated` says that operand k is one element.
using WalkBody = void (*)(const void* context, char* const* pointers, unsigned repeated, int64_t n);
void run_walk(Walk& walk, WalkBody body, const void* context);

template <class F>
void run_walk(Walk& walk, const F& f) {
  run_walk(
      walk,
      [](const void* context, char* const* pointers, unsigned repeated, int64_t n) {
        (*static_cast<const F*>(context))(pointers, repeated, n);
      },
      std::addressof(f));
}

}  // namespace weft::cpu
