// Elements by their rank in a line, without sorting it: by the highest bits of the keys those are found that may have
// the rank, then by the next bits those among them.
#include <bit>

#include "../kernels.hpp"
#include "../lines.hpp"
#include "sort_loops.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {
namespace {

/// So few that each one's rank is counted.
constexpr int64_t few = 24;

/// The place in the stable order of keys[positions[i]], or of keys[i] without positions; i is that place's element.
template <class Key, class Position>
int64_t of_rank_among_few(const Key* keys, const Position* positions, int64_t n, int64_t rank) {
  const auto key = [&](int64_t i) { return keys[positions == nullptr ? i : static_cast<int64_t>(positions[i])]; };
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Key mine = key(i);
    int64_t before = 0;
    for (int64_t j = 0; j < n; ++j) before += key(j) < mine || (key(j) == mine && j < i);
    if (before == rank) found = i;
  }
  return found;
}

/// The position of the element of this rank; `positions` has room for n.
template <class Key, class Position>
int64_t position_of(const Key* keys, int64_t n, int64_t rank, KeyRange range, Position* positions) {
  constexpr int most_bits = 11;
  const int width = n < 4096 ? 8 : most_bits;
  Position counts[1 << most_bits];
  Key lowest = static_cast<Key>(range.lowest);
  int bits = 64 - std::countl_zero(range.highest - range.lowest);
  bool listed = false;
  const auto at = [&](int64_t i) { return listed ? static_cast<int64_t>(positions[i]) : i; };
  while (bits > 0 && n > few) {
    const int shift = std::max(bits - width, 0);
    const auto group = [&](int64_t i) { return static_cast<Key>(keys[at(i)] - lowest) >> shift; };
    std::fill_n(counts, int64_t{1} << (bits - shift), Position(0));
    for (int64_t i = 0; i < n; ++i) ++counts[group(i)];
    int64_t chosen = 0;
    for (; rank >= static_cast<int64_t>(counts[chosen]); ++chosen) rank -= static_cast<int64_t>(counts[chosen]);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) {
      const bool keeps = static_cast<int64_t>(group(i)) == chosen;
      positions[kept] = static_cast<Position>(at(i));
      kept += keeps;
    }
    lowest = static_cast<Key>(lowest + (static_cast<Key>(chosen) << shift));
    bits = shift;
    n = kept;
    listed = true;
  }
  return at(bits == 0 ? rank : of_rank_among_few(keys, listed ? positions : nullptr, n, rank));
}

/// The ranks' places in one line.
struct Ranks {
  char* order;
  const char* ranks;
  int64_t count, order_stride, ranks_stride;
};

template <class T, class Position>
void select_in_line(const char* line, int64_t stride, int64_t n, const Ranks& r, char* room) {
  using Key = Unsigned<sizeof(T)>;
  Key* const keys = reinterpret_cast<Key*>(room);
  Position* const positions = reinterpret_cast<Position*>(room + key_room(n, sizeof(T)));
  read_keys<T>(keys, line, stride, n, false);
  const KeyRange range = key_loops(dtype_of<T>()).range(keys, n);
  for (int64_t i = 0; i < r.count; ++i) {
    const int64_t rank = *reinterpret_cast<const int64_t*>(r.ranks + i * r.ranks_stride);
    *reinterpret_cast<int64_t*>(r.order + i * r.order_stride) = position_of(keys, n, rank, range, positions);
  }
}

}  // namespace

void select_rank(const View& order, const View& x, const View& ranks, int dim) {
  if (order.layout.numel == 0) return;
  const int64_t n = x.layout.sizes[dim], item = itemsize(x.layout.dtype);
  const bool is_short = n < INT64_C(0xffffffff);
  decltype(&select_in_line<float, uint32_t>) in_line = nullptr;
  with_computable("select_rank", x, [&](auto zero) {
    using T = decltype(zero);
    in_line = is_short ? select_in_line<T, uint32_t> : select_in_line<T, uint64_t>;
  });
  Walk<3> walk;
  for (int d = 0; d < x.layout.rank; ++d) {
    if (d != dim) walk.push(x.layout.sizes[d], {x.layout.strides[d], order.layout.strides[d], ranks.layout.strides[d]});
  }
  parallel_for(walk.count, rows_per_chunk(4 * n), [&](int64_t begin, int64_t end) {
    const Scratch scratch(key_room(n, item) + n * (is_short ? 4 : 8));
    Cursor<3> at(walk, begin);
    for (int64_t row = begin; row < end; ++row, at.next()) {
      const Ranks here = {bytes(order) + at.offset[1], bytes(ranks) + at.offset[2], order.layout.sizes[dim],
                          order.layout.strides[dim], ranks.layout.strides[dim]};
      in_line(bytes(x) + at.offset[0], x.layout.strides[dim], n, here, scratch.as<char>());
    }
  });
}

}  // namespace weft::cpu
