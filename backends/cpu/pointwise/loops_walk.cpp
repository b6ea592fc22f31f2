#include "loops_walk.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <hwy/cache_control.h>

#include "loops.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {

Walk::Walk(const View& out, int64_t item, int64_t grain_) : numel(out.layout.numel), grain(grain_) {
  for (int d = 0; d < out.layout.rank; ++d) {
    if (out.layout.sizes[d] != 1) sizes[rank++] = out.layout.sizes[d];
  }
  add(out, item);
}

void Walk::add(const View& in, int64_t item) {
  items[count] = item;
  data[count] = static_cast<char*>(in.data);
  int kept = 0;
  if (in.layout.host_scalar) {
    for (; kept < rank; ++kept) strides[count][kept] = 0;
  } else {
    for (int d = 0; d < in.layout.rank; ++d) {
      if (in.layout.sizes[d] != 1) strides[count][kept++] = in.layout.strides[d];
    }
  }
  ++count;
}

namespace {

void swap_dimensions(Walk& walk, int a, int b) {
  std::swap(walk.sizes[a], walk.sizes[b]);
  for (int k = 0; k < walk.count; ++k) std::swap(walk.strides[k][a], walk.strides[k][b]);
}

/// Makes the output's strides positive and descending, and merges contiguous dimensions.
void simplify(Walk& walk) {
  for (int d = 0; d < walk.rank; ++d) {
    if (walk.strides[0][d] >= 0) continue;
    for (int k = 0; k < walk.count; ++k) {
      walk.data[k] += walk.strides[k][d] * (walk.sizes[d] - 1);
      walk.strides[k][d] = -walk.strides[k][d];
    }
  }
  for (int i = 1; i < walk.rank; ++i) {
    for (int d = i; d > 0 && walk.strides[0][d - 1] < walk.strides[0][d]; --d) swap_dimensions(walk, d - 1, d);
  }
  int last = 0;
  for (int d = 1; d < walk.rank; ++d) {
    bool joins = true;
    for (int k = 0; k < walk.count; ++k) joins &= walk.strides[k][last] == walk.strides[k][d] * walk.sizes[d];
    if (!joins) ++last;
    walk.sizes[last] = joins ? walk.sizes[last] * walk.sizes[d] : walk.sizes[d];
    for (int k = 0; k < walk.count; ++k) walk.strides[k][last] = walk.strides[k][d];
  }
  walk.rank = walk.rank == 0 ? 0 : last + 1;
}

/// A position in the outer dimensions, advanced in row-major order.
struct Cursor {
  const Walk& walk;
  int dims;  // the dimensions it counts: 0 … dims - 1
  int64_t index[max_rank];
  char* data[max_operands];

  Cursor(const Walk& w, int dims_, int64_t position) : walk(w), dims(dims_) {
    for (int k = 0; k < w.count; ++k) data[k] = w.data[k];
    for (int d = dims - 1; d >= 0; --d) {
      index[d] = position % w.sizes[d];
      position /= w.sizes[d];
      for (int k = 0; k < w.count; ++k) data[k] += index[d] * w.strides[k][d];
    }
  }
  void advance() {
    for (int d = dims - 1; d >= 0; --d) {
      for (int k = 0; k < walk.count; ++k) data[k] += walk.strides[k][d];
      if (++index[d] < walk.sizes[d]) return;
      for (int k = 0; k < walk.count; ++k) data[k] -= walk.strides[k][d] * walk.sizes[d];
      index[d] = 0;
    }
  }
};

template <class T>
void scatter(char* out, int64_t out_stride, const char* in, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(out + i * out_stride, in + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
}
void scatter(int64_t item, char* out, int64_t out_stride, const char* in, int64_t n) {
  switch (item) {
    case 1:
      return scatter<uint8_t>(out, out_stride, in, n);
    case 2:
      return scatter<uint16_t>(out, out_stride, in, n);
    case 4:
      return scatter<uint32_t>(out, out_stride, in, n);
    case 8:
      return scatter<uint64_t>(out, out_stride, in, n);
    default:
      return scatter<complex128>(out, out_stride, in, n);
  }
}

void gather(int64_t item, char* out, const char* in, int64_t stride, int64_t n) {
  const int size = std::countr_zero(static_cast<uint64_t>(item));
  if (stride == item) copy_bytes(out, in, n * item);
  else if (stride == 0) convert_loops.fill[size](out, in, n);
  else convert_loops.gather[size](out, in, stride, n);
}

/// Copies `n` elements from position `begin` on: to `block`, or from it.
void move_block(const Elements& x, int64_t begin, int64_t n, char* block, bool gathers) {
  const int inner = x.rank - 1;
  const int64_t size = x.sizes[inner], stride = x.strides[inner];
  int64_t index[max_rank];
  char* p = x.data;
  for (int d = inner; d >= 0; --d) {
    index[d] = begin % x.sizes[d];
    begin /= x.sizes[d];
    p += index[d] * x.strides[d];
  }
  for (;;) {
    const int64_t run = std::min(n, size - index[inner]);
    if (gathers) gather(x.item, block, p, stride, run);
    else scatter(x.item, p, stride, block, run);
    n -= run;
    if (n == 0) return;
    block += run * x.item;
    p -= index[inner] * stride;
    index[inner] = 0;
    for (int d = inner - 1; d >= 0; --d) {
      p += x.strides[d];
      if (++index[d] < x.sizes[d]) break;
      p -= x.strides[d] * x.sizes[d];
      index[d] = 0;
    }
  }
}
Elements elements_of(const Walk& walk, int k) {
  return {walk.rank, walk.sizes, walk.strides[k], walk.data[k], walk.items[k]};
}

enum class Order : uint8_t { contiguous, repeated, scattered };

/// The layout of operand k along the whole walk.
Order order_of(const Walk& walk, int k) {
  int64_t dense = walk.items[k];
  bool contiguous = true, repeated = true;
  for (int d = walk.rank - 1; d >= 0; --d) {
    contiguous &= walk.strides[k][d] == dense;
    repeated &= walk.strides[k][d] == 0;
    dense *= walk.sizes[d];
  }
  return contiguous ? Order::contiguous : repeated ? Order::repeated : Order::scattered;
}

/// The first operand that reads the same elements as operand k.
int first_like(const Walk& walk, int k) {
  for (int j = 1; j < k; ++j) {
    if (walk.data[j] == walk.data[k] && walk.items[j] == walk.items[k] &&
        std::equal(walk.strides[j], walk.strides[j] + walk.rank, walk.strides[k])) {
      return j;
    }
  }
  return k;
}

/// parallel_for over parts of a walk.
template <class F>
void for_chunks(const Walk& walk, int64_t n, int64_t chunk, F&& body) {
  parallel_for(n, chunk, [&](int64_t begin, int64_t end) {
    body(begin, end);
    if (walk.streams) hwy::FlushStream();
  });
}

/// Any layout: blocks in row-major order, with scattered operands buffered on the stack.
void run_blocks(const Walk& walk, WalkBody body, const void* context) {
  Order orders[max_operands];
  int like[max_operands];
  unsigned repeated = 0;
  for (int k = 0; k < walk.count; ++k) {
    orders[k] = order_of(walk, k);
    like[k] = first_like(walk, k);
    if (orders[k] == Order::repeated) repeated |= 1u << k;
  }
  const bool direct = walk.moves_only && orders[0] == Order::contiguous && orders[1] == Order::scattered;
  for_chunks(walk, walk.numel, std::max(walk.grain / 4, walk_block), [&](int64_t begin, int64_t end) {
    if (direct) return gather_block(elements_of(walk, 1), begin, end - begin, walk.data[0] + begin * walk.items[0]);
    alignas(64) char scratch[max_operands][walk_block * max_item];
    char* p[max_operands];
    for (int64_t i = begin; i < end; i += walk_block) {
      const int64_t n = std::min(walk_block, end - i);
      for (int k = 0; k < walk.count; ++k) {
        p[k] = orders[k] == Order::scattered ? scratch[like[k]] : walk.data[k];
        if (orders[k] == Order::contiguous) p[k] += i * walk.items[k];
        if (k > 0 && orders[k] == Order::scattered && like[k] == k) gather_block(elements_of(walk, k), i, n, p[k]);
      }
      body(context, p, repeated, n);
      if (orders[0] == Order::scattered) move_block(elements_of(walk, 0), i, n, p[0], false);
    }
  });
}

/// Every operand is contiguous or repeated along the last dimension.
void run_rows(const Walk& walk, WalkBody body, const void* context, unsigned repeated) {
  const int inner = walk.rank - 1;
  const int64_t size = walk.sizes[inner], pieces = (size + walk.grain - 1) / walk.grain;
  const int64_t rows = walk.numel / size, rows_at_once = std::max<int64_t>(1, walk.grain / size);
  for_chunks(walk, rows * pieces, pieces > 1 ? 1 : rows_at_once, [&](int64_t begin, int64_t end) {
    Cursor cursor(walk, inner, begin / pieces);
    if (pieces > 1) {
      const int64_t first = begin % pieces * walk.grain, n = std::min(walk.grain, size - first);
      for (int k = 0; k < walk.count; ++k) cursor.data[k] += first * walk.strides[k][inner];
      return body(context, cursor.data, repeated, n);
    }
    for (int64_t row = begin; row < end; ++row, cursor.advance()) body(context, cursor.data, repeated, size);
  });
}

constexpr int64_t tile_bytes = 64, tile_columns = 128;

/// Tiles of the last two dimensions, where `transposed` operands are contiguous along the one before the last.
void run_tiles(const Walk& walk, WalkBody body, const void* context, unsigned repeated, unsigned transposed) {
  const int inner = walk.rank - 1, outer = walk.rank - 2;
  int64_t largest = 1;
  for (int k = 1; k < walk.count; ++k) {
    if ((transposed >> k & 1) != 0) largest = std::max(largest, walk.items[k]);
  }
  const int64_t tile_rows = tile_bytes / largest, rows = walk.sizes[outer], columns = walk.sizes[inner];
  const int64_t bands = (rows + tile_rows - 1) / tile_rows, all_bands = walk.numel / (rows * columns) * bands;
  const int64_t bands_at_once = std::max<int64_t>(1, walk.grain / (tile_rows * columns));
  const bool direct = walk.moves_only && transposed == 2;
  for_chunks(walk, all_bands, bands_at_once, [&](int64_t begin, int64_t end) {
    alignas(64) char scratch[max_operands][tile_bytes * tile_columns];
    for (int64_t band = begin; band < end; ++band) {
      const Cursor cursor(walk, outer, band / bands);
      const int64_t first_row = band % bands * tile_rows, height = std::min(tile_rows, rows - first_row);
      for (int64_t c = 0; c < columns; c += tile_columns) {
        const int64_t width = std::min(tile_columns, columns - c);
        char* p[max_operands];
        int64_t steps[max_operands];
        for (int k = 0; k < walk.count; ++k) {
          steps[k] = walk.strides[k][outer];
          p[k] = cursor.data[k] + first_row * steps[k] + c * walk.strides[k][inner];
          if ((transposed >> k & 1) == 0 || direct) continue;
          const int64_t item = walk.items[k];
          convert_loops.transpose[std::countr_zero(static_cast<uint64_t>(item))](scratch[k], width * item, p[k],
                                                                                 walk.strides[k][inner], height, width);
          p[k] = scratch[k];
          steps[k] = width * item;
        }
        if (direct) {
          convert_loops.transpose[std::countr_zero(static_cast<uint64_t>(walk.items[0]))](
              p[0], steps[0], p[1], walk.strides[1][inner], height, width);
          continue;
        }
        for (int64_t r = 0; r < height; ++r) {
          body(context, p, repeated, width);
          for (int k = 0; k < walk.count; ++k) p[k] += steps[k];
        }
      }
    }
  });
}

/// The dimension to pair with the last one: all strided operands are contiguous along it. -1 where there is none.
int tile_partner(const Walk& walk, unsigned strided) {
  if (walk.rank < 2 || (strided & 1) != 0 || walk.sizes[walk.rank - 1] < 8) return -1;
  for (int d = walk.rank - 2; d >= 0; --d) {
    bool fits = walk.sizes[d] >= 8;
    for (int k = 1; k < walk.count; ++k) fits &= (strided >> k & 1) == 0 || walk.strides[k][d] == walk.items[k];
    if (fits) return d;
  }
  return -1;
}

}  // namespace

void gather_block(const Elements& from, int64_t begin, int64_t n, char* block) {
  move_block(from, begin, n, block, true);
}

void run_walk(Walk& walk, WalkBody body, const void* context) {
  if (walk.numel == 0) return;
  simplify(walk);
  if (walk.rank == 0) return body(context, walk.data, 0, 1);
  unsigned repeated = 0, strided = 0;
  const int inner = walk.rank - 1;
  for (int k = 0; k < walk.count; ++k) {
    if (walk.strides[k][inner] == 0) repeated |= 1u << k;
    else if (walk.strides[k][inner] != walk.items[k]) strided |= 1u << k;
  }
  const bool few_rows = walk.numel <= 8 * walk.sizes[inner];
  if (strided == 0 && (few_rows || walk.sizes[inner] >= 16)) return run_rows(walk, body, context, repeated);
  if (strided != 0) {
    const int partner = tile_partner(walk, strided);
    if (partner >= 0) {
      for (int d = partner; d < inner - 1; ++d) swap_dimensions(walk, d, d + 1);
      return run_tiles(walk, body, context, repeated, strided);
    }
  }
  run_blocks(walk, body, context);
}

}  // namespace weft::cpu
