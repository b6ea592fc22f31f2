// The byte offsets that an IndexPlan adds, a block at a time.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "index_loops.hpp"
#include "indices.hpp"
#include "../../dispatch.hpp"

namespace weft::cpu {

/// Offsets are computed for this many positions at once, which stay in the L1 cache.
inline constexpr int64_t offset_block = 512;

/// The offsets of blocks of a line of positions, for K or fewer indices. A block equal to the previous one costs
/// nothing.
template <int K>
class OffsetBlock {
 public:
  explicit OffsetBlock(const IndexPlan& plan) : plan_(plan) {}

  /// Index k of position j of the block is at[k] + j * step[k] bytes after its start.
  const int64_t* operator()(const int64_t* at, const int64_t* step, int64_t j, int64_t n) {
    bool known = n == n_;
    for (int k = 0; k < plan_.count; ++k) {
      const int64_t start = at[k] + j * step[k];
      known &= start == start_[k];
      start_[k] = start;
    }
    if (known) return offset_;
    n_ = n;
    for (int k = 0; k < plan_.count; ++k) {
      const View& index = plan_.indices[k];
      index_offsets(offset_, bytes(index) + start_[k], index.layout.dtype, step[k], n, plan_.sizes[k], plan_.strides[k],
                    k > 0);
    }
    return offset_;
  }

 private:
  const IndexPlan& plan_;
  int64_t n_ = -1, start_[K];
  int64_t offset_[offset_block];
};

/// Calls body(std::integral_constant<int, K>) with a K that is large enough for the plan's indices.
template <class F>
void with_index_count(const IndexPlan& plan, F&& body) {
  if (plan.count <= 1) return body(std::integral_constant<int, 1>());
  return body(std::integral_constant<int, max_rank>());
}

/// The dimensions of a selection: inside, as `slab`, those that no index depends on; around them `lines`, with `length`
/// positions in the innermost dimension. Operand 0 is the values, 1 the base, 2 and on the indices.
template <int K>
struct SelectionWalk {
  Walk<2 + K> lines;
  int64_t step[2 + K], length;
  Walk<2> slab;

  /// With `outer`, that gets the outer dimensions that no index depends on.
  SelectionWalk(const View& values, const View& base, const IndexPlan& plan, Walk<2>* outer = nullptr) {
    const Layout& sizes = values.layout;
    int inside = sizes.rank;
    while (inside > 0 && is_free(plan, base, inside - 1)) --inside;
    for (int d = 0; d < inside; ++d) {
      if (outer != nullptr && is_free(plan, base, d)) {
        outer->push(sizes.sizes[d], {values.layout.strides[d], base.layout.strides[d]});
        continue;
      }
      int64_t steps[2 + K] = {values.layout.strides[d], base.layout.strides[d]};
      for (int k = 0; k < plan.count; ++k) steps[2 + k] = plan.indices[k].layout.strides[d];
      lines.push(sizes.sizes[d], steps);
    }
    for (int d = inside; d < sizes.rank; ++d) {
      slab.push(sizes.sizes[d], {values.layout.strides[d], base.layout.strides[d]});
    }
    length = lines.pop(step);
  }

 private:
  // No index depends on the dimension, and its positions are different elements, unlike those of an expanded index.
  static bool is_free(const IndexPlan& plan, const View& base, int d) {
    if (base.layout.strides[d] == 0 && plan.indices[0].layout.sizes[d] > 1) return false;
    for (int k = 0; k < plan.count; ++k) {
      if (plan.indices[k].layout.strides[d] != 0) return false;
    }
    return true;
  }
};

/// The next line, to be prefetched while the current one is worked on, a piece at a time: all at once would be more
/// than the memory can deliver. By default there is nothing to fetch.
struct NextLine {
  const char *at = nullptr, *end = nullptr;
  int64_t share = 0, piece = std::numeric_limits<int64_t>::max();  // bytes to fetch for this many indices

  /// Called before each piece. Inlined, because compilers take a function that only prefetches to have no effect.
  [[gnu::always_inline]] void fetch() {
    for (const char* const stop = std::min(at + share, end); at < stop; at += 64) __builtin_prefetch(at);
  }
};

/// Lines along `dim` that are indexed at random, which hardware does not prefetch: the next one is fetched while the
/// current one is worked on. Does nothing for dim -1, for lines that are too short to matter or too long for the L1
/// cache, and for too few indices.
template <int N>
class LinePrefetcher {
 public:
  LinePrefetcher(const Walk<N>& walk, int operand, const Layout& layout, int dim, int64_t indices, int64_t piece)
      : walk_(walk), operand_(operand), piece_(piece) {
    if (dim < 0) return;
    const int64_t size = layout.sizes[dim], item = itemsize(layout.dtype);
    const int64_t length = layout.strides[dim] == item ? size * item : 0;
    if (length < 256 || length > 16384 || indices * 32 < length) return;
    length_ = length;
    share_ = (length * piece / indices + 63) / 64 * 64;
  }
  NextLine after(const char* base, int64_t t) const {
    if (length_ == 0 || t + 1 >= walk_.count) return {};
    const char* const line = base + Cursor<N>(walk_, t + 1).offset[operand_];
    return {line, line + length_, share_, piece_};
  }

 private:
  const Walk<N>& walk_;
  int operand_;
  int64_t piece_, length_ = 0, share_ = 0;
};

}  // namespace weft::cpu
