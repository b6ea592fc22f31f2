#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "../kernels.hpp"
#include "loops.hpp"
#include "loops_walk.hpp"

namespace weft::cpu {
namespace {

/// Elements that are worth a thread: transcendental formulas sooner than plain arithmetic.
constexpr int64_t arithmetic_grain = 32768, transcendental_grain = 8192;
constexpr int64_t grain_of(PointwiseKind kind) {
  return serves_integers(kind) ? arithmetic_grain : transcendental_grain;
}
#define WEFT_GRAIN(name, F, kind, ...) grain_of(PointwiseKind::kind),
constexpr int64_t unary_grain[] = {WEFT_UNARY_OPS(WEFT_GRAIN)};
constexpr int64_t binary_grain[] = {WEFT_BINARY_OPS(WEFT_GRAIN) WEFT_INTEGER_OPS(WEFT_GRAIN)};
constexpr int64_t ternary_grain[] = {WEFT_TERNARY_OPS(WEFT_GRAIN)};
#undef WEFT_GRAIN
/// So many bytes of output are streamed at a time: the memory is slower where reads and writes come in longer turns.
constexpr int64_t stream_block = 256;

WEFT_FN void call(UnaryLoop loop, void* out, char* const* in, int64_t n) { loop(out, in[0], n); }
WEFT_FN void call(BinaryLoop loop, void* out, char* const* in, int64_t n) { loop(out, in[0], in[1], n); }
WEFT_FN void call(TernaryLoop loop, void* out, char* const* in, int64_t n) { loop(out, in[0], in[1], in[2], n); }

/// Runs a loop over operands that may be repeated, or that are widened to the loop's type.
template <int N, class Loop>
struct Job {
  const Loop* row;  // by the mask of repeated inputs
  int64_t out_item = 0;
  int64_t in_items[N] = {};
  int64_t wide_item = 0;
  UnaryLoop widen[N] = {};
  UnaryLoop narrow = nullptr;
  bool converts = false;
  bool streams = false;

  void operator()(char* const* p, unsigned repeated, int64_t n) const {
    const unsigned mask = repeated >> 1;
    if (!converts && !streams && row[mask] != nullptr) return call(row[mask], p[0], p + 1, n);
    staged(p, mask, n);
  }

  void staged(char* const* p, unsigned mask, int64_t n) const {
    alignas(64) char scratch[N + 1][walk_block * max_item];
    char* in[N];
    unsigned filled = mask;  // operands that stay the same for every block
    for (int k = 0; k < N; ++k) {
      in[k] = p[k + 1];
      if (widen[k] == nullptr || (mask >> k & 1) == 0) continue;
      widen[k](scratch[k], in[k], 1);
      in[k] = scratch[k];
    }
    for (; row[mask] == nullptr; mask &= mask - 1) fill(std::countr_zero(mask), in, scratch, std::min(n, walk_block));
    const int64_t block = streams ? stream_block / out_item : walk_block;
    for (int64_t i = 0; i < n; i += block) {
      const int64_t count = std::min(block, n - i);
      for (int k = 0; k < N; ++k) {
        if ((filled >> k & 1) != 0) continue;
        in[k] = p[k + 1] + i * in_items[k];
        if (widen[k] == nullptr) continue;
        widen[k](scratch[k], in[k], count);
        in[k] = scratch[k];
      }
      char* const target = p[0] + i * out_item;
      char* const out = narrow != nullptr || streams ? scratch[N] : target;
      call(row[mask], out, in, count);
      if (narrow != nullptr) narrow(target, out, count);
      else if (streams) convert_loops.stream(target, out, count * out_item);
    }
  }

  /// Repeats the element of operand k over a block.
  void fill(int k, char** in, char (*scratch)[walk_block * max_item], int64_t n) const {
    alignas(max_item) char element[max_item];
    const int64_t item = widen[k] != nullptr ? wide_item : in_items[k];
    std::memcpy(element, in[k], static_cast<size_t>(item));
    convert_loops.fill[std::countr_zero(static_cast<uint64_t>(item))](scratch[k], element, n);
    in[k] = scratch[k];
  }

  void set_out(DType type) {
    out_item = itemsize(type);
    if (!is_converted(type)) return;
    narrow = convert_loops.loop[static_cast<int>(type)][static_cast<int>(compute_type(type))];
    converts = true;
  }
  void set_in(int k, const View& in, DType type) {
    wide_item = itemsize(compute_type(type));
    in_items[k] = in.layout.host_scalar ? wide_item : itemsize(type);
    if (!is_converted(type) || in.layout.host_scalar) return;
    widen[k] = convert_loops.loop[static_cast<int>(compute_type(type))][static_cast<int>(type)];
    converts = true;
  }
};

/// True where the operand is as contiguous as a contiguous output, or one element on the host.
bool is_flat(const View& in) { return (in.layout.contiguous | in.layout.host_scalar) != 0; }

/// The memory range of an operand without repeated elements.
int64_t bytes_of(const View& view) {
  int64_t bytes = itemsize(view.layout.dtype);
  for (int d = 0; d < view.layout.rank; ++d) bytes *= view.layout.strides[d] != 0 ? view.layout.sizes[d] : 1;
  return bytes;
}

/// Large outputs of cheap formulas gain from stores past the caches; the others are limited by arithmetic or by
/// gathers. Every piece of the walk must begin at a cache line.
template <int N>
bool may_stream(const View& out, const View* const (&in)[N]) {
  const Layout& layout = out.layout;
  if (!layout.contiguous || reinterpret_cast<uintptr_t>(out.data) % 64 != 0) return false;
  int64_t bytes = layout.numel * itemsize(layout.dtype);
  if (bytes * (N + 1) < stream_bytes) return false;
  bool flat = true;
  const int last = layout.rank - 1;
  for (const View* view : in) {
    if (view->layout.host_scalar) continue;
    const int64_t step = view->layout.strides[last];
    if (view->data == out.data || (step != 0 && step != itemsize(view->layout.dtype))) return false;
    flat &= is_flat(*view);
    bytes += bytes_of(*view);
  }
  const bool whole_lines = flat || layout.sizes[last] * itemsize(layout.dtype) % 64 == 0;
  return whole_lines && bytes >= stream_bytes;
}

template <int N, class Loop>
__attribute__((noinline)) void walk(const Loop* row, int64_t grain, const View& out, DType type,
                                    const View* const (&in)[N]) {
  Job<N, Loop> job{.row = row};
  job.set_out(out.layout.dtype);
  Walk steps(out, job.out_item, grain);
  for (int k = 0; k < N; ++k) {
    job.set_in(k, *in[k], type);
    steps.add(*in[k], job.in_items[k]);
  }
  job.streams = steps.streams = job.narrow == nullptr && grain == arithmetic_grain && may_stream(out, in);
  run_walk(steps, job);
}

/// Small contiguous operands go straight to their loop.
template <int N, class Loop>
WEFT_FN bool call_flat(const Loop* row, int64_t grain, const View& out, const View* const (&in)[N]) {
  unsigned mask = 0;
  bool flat = out.layout.contiguous && out.layout.numel <= grain;
  for (int k = 0; k < N; ++k) {
    flat &= is_flat(*in[k]);
    mask |= static_cast<unsigned>(in[k]->layout.host_scalar) << k;
  }
  if (!flat || row[mask] == nullptr) return false;
  char* data[N];
  for (int k = 0; k < N; ++k) data[k] = static_cast<char*>(in[k]->data);
  call(row[mask], out.data, data, out.layout.numel);
  return true;
}
template <int N, class Loop>
WEFT_FN void start(const Loop* row, int64_t grain, const View& out, DType type, const View* const (&in)[N]) {
  if (!is_converted(type) && call_flat<N>(row, grain, out, in)) return;
  walk<N, Loop>(row, grain, out, type, in);
}

/// The dtype of operands, one of which may be a host scalar of the compute type.
DType common_type(const View& a, const View& b) { return a.layout.host_scalar ? b.layout.dtype : a.layout.dtype; }

/// Integers compared with floats as doubles. Rounding to a double keeps the order, so that only large equal ones are
/// compared once more, as integers.
struct MixedComparison {
  CompareOp op;
  DType types[2];  // of the integers and of the floats

  void operator()(char* const* p, unsigned repeated, int64_t n) const {
    constexpr int64_t block = walk_block;
    const BinaryLoop compare = compare_loops.loop[static_cast<int>(op)][slot_f64][0];
    alignas(64) double wide[2][block];
    const double* in[2] = {wide[0], wide[1]};
    for (int k = 0; k < 2; ++k) {
      if (!is_repeated(repeated, k)) continue;
      widen(wide[k], p[k + 1], types[k], 1);
      std::fill_n(wide[k] + 1, std::min(n, block) - 1, wide[k][0]);
    }
    for (int64_t i = 0; i < n; i += block) {
      const int64_t count = std::min(block, n - i);
      for (int k = 0; k < 2; ++k) {
        if (is_repeated(repeated, k)) continue;
        const char* from = p[k + 1] + i * itemsize(types[k]);
        if (types[k] == DType::f64) in[k] = reinterpret_cast<const double*>(from);
        else widen(wide[k], from, types[k], count);
      }
      auto* const out = reinterpret_cast<uint8_t*>(p[0]) + i;
      compare(out, in[0], in[1], count);
      if (itemsize(types[0]) < 8 || !compare_loops.has_large_ties(in[0], in[1], count)) continue;
      const int64_t step = is_repeated(repeated, 0) ? 0 : 8;
      if (types[0] == DType::u64) settle<uint64_t>(out, p[1] + i * step, step, in[0], in[1], count);
      else settle<int64_t>(out, p[1] + i * step, step, in[0], in[1], count);
    }
  }

 private:
  static bool is_repeated(unsigned repeated, int k) { return (repeated >> (k + 1) & 1) != 0; }
  static void widen(double* out, const void* in, DType type, int64_t n) {
    if (type == DType::f64) return static_cast<void>(std::memcpy(out, in, static_cast<size_t>(n) * sizeof(double)));
    const auto loop = [](DType to, DType from) {
      return convert_loops.loop[static_cast<int>(to)][static_cast<int>(from)];
    };
    if (!is_converted(type) || is_integer(type)) return loop(DType::f64, type)(out, in, n);
    float single[walk_block];
    loop(DType::f32, type)(single, in, n);
    loop(DType::f64, DType::f32)(out, single, n);
  }

  // The comparison of exactly signed differences with 0.
  template <class Whole>
  void settle(uint8_t* out, const char* whole, int64_t step, const double* rounded, const double* real,
              int64_t n) const {
    constexpr double end = 2 * static_cast<double>(Whole(1) << (std::numeric_limits<Whole>::digits - 1));
    double difference[walk_block], zeros[walk_block] = {};
    for (int64_t i = 0; i < n; ++i) {
      const bool tie = rounded[i] == real[i], beyond = real[i] >= end;
      const Whole a = element_at<Whole>(whole + i * step), b = static_cast<Whole>(tie && !beyond ? real[i] : 0);
      const int order = beyond ? -1 : (a > b) - (a < b);
      difference[i] = tie ? order : rounded[i] - real[i];
    }
    compare_loops.loop[static_cast<int>(op)][slot_f64][0](out, difference, zeros, n);
  }
};

void compare_mixed(CompareOp op, const View& out, const View& whole, const View& real) {
  const DType types[] = {whole.layout.dtype, real.layout.dtype};
  Walk steps(out, 1, arithmetic_grain);
  steps.add(whole, itemsize(types[0]));
  steps.add(real, itemsize(types[1]));
  run_walk(steps, MixedComparison{op, {types[0], types[1]}});
}

}  // namespace

void unary(UnaryOp op, const View& out, const View& a) {
  const DType type = out.layout.dtype;
  const Slot slot = slot_of(type);
  if (slot < 0) unsupported("unary", out);
  const UnaryLoop* row = unary_loops.loop[static_cast<int>(op)][slot];
  if (row[0] == nullptr) unsupported("unary", out);
  start<1>(row, unary_grain[static_cast<int>(op)], out, type, {&a});
}

void unary_gradient(UnaryOp op, const View& out, const View& g, const View& saved) {
  const DType type = out.layout.dtype;
  const Slot slot = slot_of(type);
  if (slot < 0) unsupported("unary_gradient", out);
  const BinaryLoop* row = gradient_loops.loop[static_cast<int>(op)][slot];
  if (row[0] == nullptr) unsupported("unary_gradient", out);
  start<2>(row, unary_grain[static_cast<int>(op)], out, type, {&g, &saved});
}

void binary(BinaryOp op, const View& out, const View& a, const View& b) {
  const DType type = out.layout.dtype;
  const Slot slot = slot_of(type);
  if (slot < 0) unsupported("binary", out);
  const BinaryLoop* row = binary_loops.loop[static_cast<int>(op)][slot];
  if (row[0] == nullptr) unsupported("binary", out);
  start<2>(row, binary_grain[static_cast<int>(op)], out, type, {&a, &b});
}

void compare(CompareOp op, const View& out, const View& a, const View& b) {
  const bool host_scalars = a.layout.host_scalar || b.layout.host_scalar;
  if (WEFT_UNLIKELY(a.layout.dtype != b.layout.dtype && !host_scalars)) return compare_mixed(op, out, a, b);
  const DType type = common_type(a, b);
  const Slot slot = slot_of(type);
  if (slot < 0) unsupported("compare", a);
  const BinaryLoop* row = compare_loops.loop[static_cast<int>(op)][slot];
  if (row[0] == nullptr) unsupported("compare", a.layout.host_scalar ? b : a);
  start<2>(row, arithmetic_grain, out, type, {&a, &b});
}

void ternary(TernaryOp op, const View& out, const View& a, const View& b, const View& c) {
  const DType type = out.layout.dtype;
  const Slot slot = slot_of(type);
  if (slot < 0) unsupported("ternary", out);
  const TernaryLoop* row = ternary_loops.loop[static_cast<int>(op)][slot];
  if (row[0] == nullptr) unsupported("ternary", out);
  start<3>(row, ternary_grain[static_cast<int>(op)], out, type, {&a, &b, &c});
}

void where(const View& out, const View& condition, const View& a, const View& b) {
  const DType type = out.layout.dtype;
  const int64_t item = itemsize(type);
  const View* in[3] = {&condition, &a, &b};
  View narrowed[3];
  uint64_t elements[3];
  for (int k = 1; k < 3 && is_converted(type); ++k) {  // host scalars are of the compute type, the loops move elements
    if (!in[k]->layout.host_scalar) continue;
    convert_loops.loop[static_cast<int>(type)][static_cast<int>(compute_type(type))](&elements[k], in[k]->data, 1);
    narrowed[k] = *in[k];
    narrowed[k].data = &elements[k];
    in[k] = &narrowed[k];
  }
  const TernaryLoop* row = select_loops.loop[std::countr_zero(static_cast<uint64_t>(item))];
  if (call_flat<3>(row, arithmetic_grain, out, {in[0], in[1], in[2]})) return;
  Job<3, TernaryLoop> job{.row = row};
  job.out_item = item;
  Walk steps(out, item, arithmetic_grain);
  for (int k = 0; k < 3; ++k) {
    job.in_items[k] = k == 0 ? 1 : item;
    steps.add(*in[k], job.in_items[k]);
  }
  job.streams = steps.streams = may_stream(out, in);
  run_walk(steps, job);
}

}  // namespace weft::cpu
