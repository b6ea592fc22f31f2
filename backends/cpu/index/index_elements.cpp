// Reading by tensors of indices: offsets for a block of positions, then elements or runs of them.
#include <algorithm>
#include <atomic>

#include <hwy/cache_control.h>

#include "index_offsets.hpp"
#include "../kernels.hpp"
#include "../read_ahead.hpp"
#include "slab.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {
namespace {

template <class Word>
void get_elements(char* out, int64_t out_step, const char* base, int64_t base_step, const int64_t* offset, int64_t n) {
  if (out_step == (int64_t)sizeof(Word) && base_step == 0) {
    Word* to = reinterpret_cast<Word*>(out);
#pragma GCC unroll 8
    for (int64_t i = 0; i < n; ++i) to[i] = *reinterpret_cast<const Word*>(base + offset[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    *reinterpret_cast<Word*>(out + i * out_step) = *reinterpret_cast<const Word*>(base + i * base_step + offset[i]);
  }
}

/// Runs of bytes, written past the caches where `streams`; those that follow are on their way from memory.
void get_runs(char* out, int64_t out_step, const char* base, int64_t base_step, const int64_t* offset, int64_t n,
              int64_t run, bool streams) {
  constexpr int64_t ahead = 4;
  const int64_t fetched = std::min<int64_t>(run, 1024);
  for (int64_t i = 0; i < n; ++i) {
    if (i + ahead < n) prefetch(base + (i + ahead) * base_step + offset[i + ahead], fetched);
    const char* const from = base + i * base_step + offset[i];
    if (streams) convert_loops.stream(out + i * out_step, from, run);
    else copy_run(out + i * out_step, from, run);
  }
}

template <int K>
void get(const View& out, const View& base, const IndexPlan& plan) {
  const SelectionWalk<K> walk(out, base, plan);
  const int64_t item = itemsize(out.layout.dtype), n = walk.length;
  const SlabCopy slab(walk.slab, item);
  const int64_t run = slab.run(), out_step = walk.step[0], base_step = walk.step[1];
  const bool streams = run >= stream_run && 2 * out.layout.numel * item >= stream_bytes;
  parallel_for(walk.lines.count * n, rows_per_chunk(slab.elements()), [&](int64_t begin, int64_t end) {
    OffsetBlock<K> offsets(plan);
    Cursor<2 + K> at(walk.lines, begin / n);
    for (int64_t position = begin, j = begin % n; position < end; j = 0, at.next()) {
      const int64_t last = std::min(n, j + end - position);
      position += last - j;
      for (; j < last; j += offset_block) {
        const int64_t size = std::min(offset_block, last - j);
        const int64_t* offset = offsets(at.offset + 2, walk.step + 2, j, size);
        char* const to = bytes(out) + at.offset[0] + j * out_step;
        const char* const from = bytes(base) + at.offset[1] + j * base_step;
        if (run == item) {
          with_item(item,
                    [&](auto word) { get_elements<decltype(word)>(to, out_step, from, base_step, offset, size); });
        } else if (run > 0) {
          get_runs(to, out_step, from, base_step, offset, size, run, streams);
        } else {
          for (int64_t i = 0; i < size; ++i) slab(to + i * out_step, from + i * base_step + offset[i]);
        }
      }
    }
    if (streams) hwy::FlushStream();
  });
}

/// One index by which single elements are read; false where it is out of range.
bool get_by_one(const View& out, const View& base, const IndexPlan& plan, const SelectionWalk<1>& walk) {
  const View& index = plan.indices[0];
  const GatherLoop loop = gather_loop(out.layout.dtype, index.layout.dtype);
  const int64_t n = walk.length;
  std::atomic<bool> valid = true;
  parallel_for(walk.lines.count * n, rows_per_chunk(1), [&](int64_t begin, int64_t end) {
    Cursor<3> at(walk.lines, begin / n);
    for (int64_t position = begin, j = begin % n; position < end; j = 0, at.next()) {
      const int64_t size = std::min(n - j, end - position);
      const GatherLine line = {bytes(out) + at.offset[0] + j * walk.step[0],
                               bytes(base) + at.offset[1] + j * walk.step[1],
                               bytes(index) + at.offset[2] + j * walk.step[2],
                               size,
                               plan.sizes[0],
                               walk.step[0],
                               walk.step[1],
                               plan.strides[0],
                               walk.step[2],
                               plan.wraps};
      if (!loop(line)) valid.store(false, std::memory_order_relaxed);
      position += size;
    }
  });
  return valid.load(std::memory_order_relaxed);
}

}  // namespace

void index_get(const View& out, const View& base, const IndexPlan& plan) {
  if (plan.count == 1 && out.layout.rank == 1 && out.layout.numel > 0) {  // a list, checked as it is read
    const View& index = plan.indices[0];
    check_index_type("index_get", index);
    return read_list(out, base, base.layout.strides[0], index, plan.dims[0], plan.sizes[0], plan.strides[0],
                     plan.wraps);
  }
  if (plan.count == 1 && out.layout.numel > 0) {
    check_index_type("index_get", plan.indices[0]);
    const SelectionWalk<1> walk(out, base, plan);
    // Checked as they are read: `out` is the op's own, and nobody sees it when this raises.
    if (walk.slab.rank == 0 && get_by_one(out, base, plan, walk)) return;
  }
  check_plan("index_get", plan);
  if (out.layout.numel == 0) return;
  with_index_count(plan, [&](auto count) { get<decltype(count)::value>(out, base, plan); });
}

}  // namespace weft::cpu
