#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "../../../tensor/error.hpp"
#include "../kernels.hpp"
#include "loops.hpp"
#include "loops_walk.hpp"

namespace weft::cpu {
namespace {

constexpr int64_t grain = 65536;

int log2_of(int64_t item) { return std::countr_zero(static_cast<uint64_t>(item)); }
UnaryLoop loop_of(DType to, DType from) { return convert_loops.loop[static_cast<int>(to)][static_cast<int>(from)]; }

/// Bytes of one item size from one place to another.
struct Move {
  int64_t item;
  bool streams;

  void operator()(char* const* p, unsigned repeated, int64_t n) const {
    if (repeated != 0) {
      alignas(max_item) char element[max_item];  // the element may lie in the output
      std::memcpy(element, p[1], static_cast<size_t>(item));
      return convert_loops.fill[log2_of(item)](p[0], element, n);
    }
    if (!streams) {
      if (p[0] != p[1]) copy_bytes(p[0], p[1], n * item);
      return;
    }
    convert_loops.stream(p[0], p[1], n * item);
  }
};

/// A cast: in one loop, or by way of f32 in blocks.
struct Cast {
  UnaryLoop loop, widen = nullptr, narrow = nullptr;
  int64_t out_item, in_item;

  Cast(DType to, DType from) : loop(loop_of(to, from)), out_item(itemsize(to)), in_item(itemsize(from)) {
    if (loop != nullptr) return;
    const UnaryLoop to_odd = compute_type(to) != to ? convert_loops.to_odd[static_cast<int>(from)] : nullptr;
    widen = to_odd != nullptr ? to_odd : loop_of(DType::f32, from);
    narrow = loop_of(to, DType::f32);
    if (widen == nullptr || narrow == nullptr) refuse(to, from);
  }
  /// An imaginary part would be lost.
  [[noreturn, gnu::cold]] static void refuse(DType to, DType from) {
    raise<DTypeError>({.problem = fmt::format("{} has imaginary parts, which {} does not hold", name(from), name(to)),
                       .remedy = "take real(x), imag(x) or abs(x)"});
  }
  void run(char* out, const char* in, int64_t n) const {
    if (loop != nullptr) return loop(out, in, n);
    alignas(64) float block[walk_block];
    for (int64_t i = 0; i < n; i += walk_block) {
      const int64_t count = std::min(walk_block, n - i);
      widen(block, in + i * in_item, count);
      narrow(out + i * out_item, block, count);
    }
  }
  void operator()(char* const* p, unsigned repeated, int64_t n) const {
    if (repeated == 0) return run(p[0], p[1], n);
    alignas(max_item) char element[max_item];
    run(element, p[1], 1);
    convert_loops.fill[log2_of(out_item)](p[0], element, n);
  }
};

struct Fill {
  UnaryLoop loop;
  alignas(max_item) char element[max_item];
  void operator()(char* const* p, unsigned, int64_t n) const { loop(p[0], element, n); }
};

/// The number of contiguous bytes before the first gap.
int64_t run_bytes(const Layout& layout) {
  int64_t bytes = itemsize(layout.dtype);
  for (int d = layout.rank - 1; d >= 0; --d) {
    if (layout.sizes[d] == 1) continue;
    if (layout.strides[d] != bytes) break;
    bytes *= layout.sizes[d];
  }
  return bytes;
}

}  // namespace

void copy(const View& out, const View& in) {
  const DType to = out.layout.dtype, from = in.layout.dtype;
  const int64_t out_item = itemsize(to), n = out.layout.numel;
  const bool flat = out.layout.contiguous && in.layout.contiguous && (!in.layout.host_scalar || n == 1);
  if (to == from) {
    Move move{out_item, false};
    char* const pointers[2] = {static_cast<char*>(out.data), static_cast<char*>(in.data)};
    if (flat && n <= grain) {
      if (n > 0) move(pointers, 0, n);
      return;
    }
    move.streams =
        2 * n * out_item >= stream_bytes && std::min(run_bytes(out.layout), run_bytes(in.layout)) >= stream_run;
    Walk walk(out, out_item, grain);
    walk.moves_only = true;
    walk.streams = move.streams;
    walk.add(in, out_item);
    return run_walk(walk, move);
  }
  const Cast cast(to, from);
  if (flat && n <= grain) return cast.run(static_cast<char*>(out.data), static_cast<const char*>(in.data), n);
  Walk walk(out, out_item, grain);
  walk.add(in, cast.in_item);
  run_walk(walk, cast);
}

void fill(const View& out, Scalar value) {
  const DType to = out.layout.dtype;
  Fill job{convert_loops.fill[log2_of(itemsize(to))], {}};
  if (value.is_floating()) {
    const double x = value.to<double>();
    if (to == DType::f64) std::memcpy(job.element, &x, sizeof(x));
    else Cast(to, DType::f64).run(job.element, reinterpret_cast<const char*>(&x), 1);
  } else {
    const uint64_t x = value.to<uint64_t>();
    const DType from = value.held_as() == DType::u64 ? DType::u64 : DType::i64;
    if (to == from) std::memcpy(job.element, &x, sizeof(x));
    else Cast(to, from).run(job.element, reinterpret_cast<const char*>(&x), 1);
  }
  if (out.layout.contiguous && out.layout.numel <= grain) return job.loop(out.data, job.element, out.layout.numel);
  Walk walk(out, itemsize(to), grain);
  run_walk(walk, job);
}

}  // namespace weft::cpu
