// Writing by tensors of indices. Every index is checked before the first write. Threads share the destinations, never
// one of them, and each goes through the indices in order: so the last value wins, and sums have one order.
#include <algorithm>
#include <limits>
#include <vector>

#include <weft/backends/cpu/combine.hpp>
#include <weft/backends/cpu/groups.hpp>
#include <weft/backends/cpu/index_offsets.hpp>
#include <weft/backends/cpu/kernels.hpp>
#include <weft/backends/cpu/loops.hpp>
#include <weft/backends/cpu/slab.hpp>
#include <weft/backends/cpu/thread_pool.hpp>
#include <weft/tensor/threads.hpp>

namespace weft::cpu {
namespace {

/// One thread's share of memory: cache lines by a hash of their number.
struct Part {
  uint64_t number, count;
  bool has(const char* address) const {
    const auto line = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address) / 64);
    return (uint64_t{line * 0x9e3779b1u} * count) >> 32 == number;
  }
};

/// What an index position's elements do to their destinations.
template <class T, Scatter mode>
struct Put {
  static void elements(char* base, int64_t base_step, const char* values, int64_t step, const int64_t* offset,
                       int64_t n, Part part) {
    if (part.count == 1) {
      for (int64_t i = 0; i < n; ++i) {
        T& to = *reinterpret_cast<T*>(base + i * base_step + offset[i]);
        to = combined<mode>(to, *reinterpret_cast<const T*>(values + i * step));
      }
      return;
    }
    // Others' destinations are replaced by ones that nobody reads: a branch would be mispredicted half of the time.
    T unread[16] = {};
    for (int64_t i = 0; i < n; ++i) {
      char* const address = base + i * base_step + offset[i];
      T& to = *(part.has(address) ? reinterpret_cast<T*>(address) : &unread[i & 15]);
      to = combined<mode>(to, *reinterpret_cast<const T*>(values + i * step));
    }
  }
  static void run(BinaryLoop add, char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
    if (to_step == (int64_t)sizeof(T) && from_step == (int64_t)sizeof(T)) {
      if constexpr (mode == Scatter::replace) copy_run(to, from, n * (int64_t)sizeof(T));
      else add(to, to, from, n);
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      T& out = *reinterpret_cast<T*>(to + i * to_step);
      out = combined<mode>(out, *reinterpret_cast<const T*>(from + i * from_step));
    }
  }
};

template <class T, Scatter mode, int K>
void put(const View& base, const View& values, const IndexPlan& plan) {
  constexpr int64_t piece = 4096, worthwhile = 65536, ahead = 4;
  Walk<2> outer;
  const SelectionWalk<K> walk(values, base, plan, &outer);
  Walk<2> slab = walk.slab;
  int64_t step[2];
  const int64_t run = slab.pop(step), positions = walk.lines.count * walk.length;
  const int64_t fetched = step[1] == (int64_t)sizeof(T) ? std::min<int64_t>(run * step[1], 1024) : 64;
  const bool single = run == 1 && slab.count == 1;
  const int64_t pieces = (run + piece - 1) / piece, apart = outer.count * pieces;
  const int64_t work = positions * slab.count * std::min(run, piece);
  const int threads = num_threads();
  const Slot type = slot_of(base.layout.dtype);
  const BinaryLoop add =
      mode == Scatter::sum ? binary_loops.loop[static_cast<int>(BinaryOp::add)][type][0] : BinaryLoop{};
  const int64_t parts = work * apart < worthwhile || apart >= threads ? 1 : std::min(threads, 8);
  parallel_for(apart * parts, parts > 1 ? 1 : rows_per_chunk(work), [&](int64_t begin, int64_t end) {
    OffsetBlock<K> offsets(plan);
    for (int64_t t = begin; t < end; ++t) {
      const Part part = {static_cast<uint64_t>(t % parts), static_cast<uint64_t>(parts)};
      const int64_t first = t / parts % pieces * piece, width = std::min(piece, run - first);
      const Cursor<2> out(outer, t / parts / pieces);
      char* const to = bytes(base) + out.offset[1] + first * step[1];
      const char* const from = bytes(values) + out.offset[0] + first * step[0];
      Cursor<2 + K> at(walk.lines, 0);
      for (int64_t line = 0; line < walk.lines.count; ++line, at.next()) {
        for (int64_t j = 0; j < walk.length; j += offset_block) {
          const int64_t n = std::min(offset_block, walk.length - j);
          const int64_t* const offset = offsets(at.offset + 2, walk.step + 2, j, n);
          char* const line_to = to + at.offset[1] + j * walk.step[1];
          const char* const line_from = from + at.offset[0] + j * walk.step[0];
          if (single) {
            Put<T, mode>::elements(line_to, walk.step[1], line_from, walk.step[0], offset, n, part);
            continue;
          }
          for (int64_t i = 0; i < n; ++i) {
            if (i + ahead < n) {
              const char* const next = line_to + (i + ahead) * walk.step[1] + offset[i + ahead];
              for (int64_t b = 0; b < fetched; b += 64) __builtin_prefetch(next + b, 1);
            }
            char* const slab_to = line_to + i * walk.step[1] + offset[i];
            const char* const slab_from = line_from + i * walk.step[0];
            if (parts > 1 && !part.has(slab_to)) continue;
            Cursor<2> row(slab, 0);
            for (int64_t r = 0; r < slab.count; ++r, row.next()) {
              Put<T, mode>::run(add, slab_to + row.offset[1], step[1], slab_from + row.offset[0], step[0], width);
            }
          }
        }
      }
    }
  });
}

template <class T>
T rounded(float x) {
  if constexpr (std::is_same_v<T, float16>) return to_float16(x);
  else return to_bfloat16(x);
}

/// Sums of single elements that lie close together: in an array of floats between the same places.
template <class T>
void add_in_singles(char* base, const char* values, const std::vector<int64_t>& to, const std::vector<int64_t>& from) {
  T* const out = reinterpret_cast<T*>(base);
  const Scratch scratch((*std::max_element(to.begin(), to.end()) + 1) * (int64_t)sizeof(float));
  float* const sums = scratch.as<float>();
  for (const int64_t place : to) sums[place] = to_float(out[place]);
  for (size_t p = 0; p < to.size(); ++p) sums[to[p]] += to_float(*reinterpret_cast<const T*>(values + from[p]));
  for (const int64_t place : to) out[place] = rounded<T>(sums[place]);
}

/// Sums of 16-bit floats: the positions are grouped by destination, and each destination is rounded once.
template <class T, int K>
void put_rounded_sums(const View& base, const View& values, const IndexPlan& plan) {
  Walk<2> free;
  const SelectionWalk<K> walk(values, base, plan, &free);
  for (int d = 0; d < walk.slab.rank; ++d) {
    free.push(walk.slab.sizes[d], {walk.slab.strides[0][d], walk.slab.strides[1][d]});
  }
  int64_t step[2];
  const int64_t width = free.pop(step), count = walk.lines.count * walk.length;
  std::vector<int64_t> to(static_cast<size_t>(count)), from(static_cast<size_t>(count));
  OffsetBlock<K> offsets(plan);
  Cursor<2 + K> at(walk.lines, 0);
  for (size_t p = 0; p < to.size(); at.next()) {
    for (int64_t j = 0; j < walk.length; j += offset_block) {
      const int64_t n = std::min(offset_block, walk.length - j);
      const int64_t* const offset = offsets(at.offset + 2, walk.step + 2, j, n);
      for (int64_t i = 0; i < n; ++i, ++p) {
        to[p] = at.offset[1] + (j + i) * walk.step[1] + offset[i];
        from[p] = at.offset[0] + (j + i) * walk.step[0];
      }
    }
  }
  const int64_t lowest = *std::min_element(to.begin(), to.end());
  const int64_t highest = *std::max_element(to.begin(), to.end());
  std::vector<int64_t> keys(to.size());
  for (size_t p = 0; p < to.size(); ++p) keys[p] = (to[p] - lowest) / (int64_t)sizeof(T);
  if (width == 1 && free.count == 1 && (highest - lowest) / (int64_t)sizeof(T) <= 4 * count + 1024) {
    return add_in_singles<T>(bytes(base) + lowest, bytes(values), keys, from);
  }
  const Groups groups(keys, (highest - lowest) / (int64_t)sizeof(T) + 1);
  const int64_t per_group = free.count * width * (count / groups.count() + 1);
  parallel_for(groups.count(), rows_per_chunk(per_group), [&](int64_t begin, int64_t end) {
    constexpr int64_t block = 512;
    float sum[block], term[block];
    for (int64_t g = begin; g < end; ++g) {
      const int64_t *member = groups.order.data() + groups.starts[static_cast<size_t>(g)],
                    *last = groups.order.data() + groups.starts[static_cast<size_t>(g) + 1];
      char* const destination = bytes(base) + to[static_cast<size_t>(*member)];
      if (width == 1 && free.count == 1) {
        T& out = *reinterpret_cast<T*>(destination);
        float total = to_float(out);
        for (; member != last; ++member) {
          total += to_float(*reinterpret_cast<const T*>(bytes(values) + from[static_cast<size_t>(*member)]));
        }
        out = rounded<T>(total);
        continue;
      }
      Cursor<2> row(free, 0);
      for (int64_t r = 0; r < free.count; ++r, row.next()) {
        for (int64_t c = 0; c < width; c += block) {
          const int64_t n = std::min(block, width - c);
          char* const out = destination + row.offset[1] + c * step[1];
          load_line(sum, out, step[1], n, dtype_of<T>());
          for (const int64_t* m = member; m != last; ++m) {
            const char* source = bytes(values) + from[static_cast<size_t>(*m)] + row.offset[0] + c * step[0];
            load_line(term, source, step[0], n, dtype_of<T>());
            for (int64_t i = 0; i < n; ++i) sum[i] += term[i];
          }
          store_line(out, step[1], dtype_of<T>(), static_cast<const float*>(sum), n);
        }
      }
    }
  });
}

}  // namespace

void index_put(const View& base, const View& values, const IndexPlan& plan, bool accumulate) {
  check_plan("index_put", plan);
  if (accumulate) with_addable("index_put", base, [](auto) {});
  if (values.layout.numel == 0) return;
  with_index_count(plan, [&](auto count) {
    constexpr int K = decltype(count)::value;
    if (!accumulate) {
      with_item(itemsize(base.layout.dtype),
                [&](auto word) { put<decltype(word), Scatter::replace, K>(base, values, plan); });
    } else {
      with_addable("index_put", base, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (is_half_type<T>) put_rounded_sums<T, K>(base, values, plan);
        else put<T, Scatter::sum, K>(base, values, plan);
      });
    }
  });
}

void index_add(const View& out_view, int dim, const View& index, const View& source_view) {
  View out = at_least_1d(out_view);
  const View source = at_least_1d(source_view);
  const IndexPlan plan = plan_along(broadcast_index(index, dim, source), dim, out);
  out.layout.strides[dim] = 0;
  index_put(out, source, plan, true);
}

}  // namespace weft::cpu
