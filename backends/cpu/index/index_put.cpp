// Writing by tensors of indices. Every index is checked before the first write. Threads share the rows that are
// written, never one of them, and each goes through the indices in order: so the last value wins, and sums have one
// order.
#include <algorithm>
#include <limits>
#include <vector>

#include "combine.hpp"
#include "groups.hpp"
#include "index_offsets.hpp"
#include "../kernels.hpp"
#include "../pointwise/loops.hpp"
#include "slab.hpp"
#include "../thread_pool.hpp"
#include "../../../tensor/threads.hpp"

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

/// Puts a run of n elements that one index position names.
template <class T, Scatter mode>
void put_run(BinaryLoop add, char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
  if (to_step == (int64_t)sizeof(T) && from_step == (int64_t)sizeof(T)) {
    if constexpr (mode == Scatter::replace) copy_run(to, from, n * (int64_t)sizeof(T));
    else add(to, to, from, n);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    T& out = *reinterpret_cast<T*>(to + i * to_step);
    out = combined<mode>(element_at<T>(&out), element_at<T>(from + i * from_step));
  }
}

template <class T, Scatter mode, int K>
void put(const View& base, const View& values, const IndexPlan& plan) {
  constexpr int64_t piece = 4096, worthwhile = 65536, ahead = 8;
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
  using Signed =
      std::conditional_t<std::is_integral_v<T> && sizeof(T) != 1, std::make_signed<T>, std::type_identity<T>>;
  const Slot type = slot_of(dtype_of<typename Signed::type>());  // a sum's bits are the same with a sign and without
  const BinaryLoop add =
      mode == Scatter::sum ? binary_loops.loop[static_cast<int>(BinaryOp::add)][type][0] : BinaryLoop{};
  // Of single elements a thread would read all indices to find its own, which takes longer than writing them all.
  const int64_t parts = single || work * apart < worthwhile || apart >= threads ? 1 : std::min(threads, 8);
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
            combine_at<T, mode>(line_to, walk.step[1], offset, line_from, walk.step[0], n);
            continue;
          }
          for (int64_t i = 0; i < n; ++i) {
            if (i + ahead < n) {
              const char* const next = line_to + (i + ahead) * walk.step[1] + offset[i + ahead];
              if (parts == 1) {
                for (int64_t b = 0; b < fetched; b += 64) __builtin_prefetch(next + b, 1);
              } else if (part.has(next)) {  // what a thread reads has gaps too
                const char* const source = line_from + (i + ahead) * walk.step[0];
                for (int64_t b = 0; b < fetched; b += 64)
                  __builtin_prefetch(next + b, 1), __builtin_prefetch(source + b);
              }
            }
            char* const slab_to = line_to + i * walk.step[1] + offset[i];
            const char* const slab_from = line_from + i * walk.step[0];
            if (parts > 1 && !part.has(slab_to)) continue;
            Cursor<2> row(slab, 0);
            for (int64_t r = 0; r < slab.count; ++r, row.next()) {
              put_run<T, mode>(add, slab_to + row.offset[1], step[1], slab_from + row.offset[0], step[0], width);
            }
          }
        }
      }
    }
  });
}

/// A list of single elements that fits a block: nothing to walk, and checked as offsets are made.
bool is_short_list(const View& values, const IndexPlan& plan) {
  const int64_t n = values.layout.numel;
  return plan.count == 1 && values.layout.rank == 1 && n > 0 && n <= offset_block;
}
template <class T, Scatter mode>
void put_list(const View& base, const View& values, const IndexPlan& plan) {
  int64_t offset[offset_block];
  const View& index = plan.indices[0];
  const int64_t n = values.layout.numel;
  if (!checked_offsets(offset, bytes(index), index.layout.dtype, index.layout.strides[0], n, plan.sizes[0],
                       plan.strides[0])) {
    raise_first_invalid(index, plan.dims[0], plan.sizes[0]);
  }
  combine_at<T, mode>(bytes(base), base.layout.strides[0], offset, bytes(values), values.layout.strides[0], n);
}

template <class T, Scatter mode>
void put_any(const View& base, const View& values, const IndexPlan& plan) {
  if (is_short_list(values, plan)) return put_list<T, mode>(base, values, plan);
  with_index_count(plan, [&](auto count) { put<T, mode, decltype(count)::value>(base, values, plan); });
}

template <class T>
T rounded(float x) {
  if constexpr (std::is_same_v<T, float16>) return to_float16(x);
  else return to_bfloat16(x);
}

/// The view's positions [begin, begin + size) of the first dimension.
View part_of(View view, int64_t begin, int64_t size) {
  Layout& l = view.layout;
  view.data = bytes(view) + begin * l.strides[0];
  l.numel = l.numel / l.sizes[0] * size;
  l.sizes[0] = size;
  return view;
}

/// Adds 16-bit floats to floats, so many at a time that their copies as floats stay small.
void add_as_floats(const View& base, const View& values, const IndexPlan& plan) {
  constexpr int64_t block = int64_t{1} << 20;
  const int rank = values.layout.rank;
  const int64_t rows = rank == 0 ? 1 : values.layout.sizes[0], width = values.layout.numel / rows;
  const int64_t step = std::clamp<int64_t>(block / width, 1, rows);
  const Scratch terms(step * width * (int64_t)sizeof(float));
  for (int64_t begin = 0; begin < rows; begin += step) {
    const auto part = [&](const View& view) {
      return rank == 0 ? view : part_of(view, begin, std::min(step, rows - begin));
    };
    const View from = part(values);
    View wide = from;
    wide.data = terms.as<char>();
    wide.layout.dtype = DType::f32;
    wide.layout.contiguous = 1;
    int64_t next = sizeof(float);
    for (int d = rank - 1; d >= 0; --d) {
      wide.layout.strides[d] = next;
      next *= from.layout.sizes[d];
    }
    copy(wide, from);
    IndexPlan here = plan;
    for (int k = 0; k < plan.count; ++k) here.indices[k] = part(plan.indices[k]);
    put_any<float, Scatter::sum>(part(base), wide, here);
  }
}

/// Sums of single 16-bit floats into memory that reaches not much further than what is added: in floats that stand in
/// for it, rounded once. False where it reaches further. What no index names is not written.
template <class T>
bool put_sums_in_floats(const View& base, const View& values, const IndexPlan& plan) {
  constexpr int64_t item = sizeof(T), wide = sizeof(float), block = 8192;
  int64_t low = 0, high = 0, rest = 0;
  const auto reach = [&](int64_t size, int64_t stride) {
    (stride < 0 ? low : high) += stride * (size - 1);
    rest |= stride % item;
  };
  for (int d = 0; d < base.layout.rank; ++d) reach(base.layout.sizes[d], base.layout.strides[d]);
  for (int k = 0; k < plan.count; ++k) reach(plan.sizes[k], plan.strides[k]);
  const int64_t span = (high - low) / item + 1;
  if (rest != 0 || span > 4 * values.layout.numel + 1024) return false;

  const Scratch sums(span * wide);
  char* const memory = bytes(base) + low;
  parallel_for(span, block, [&](int64_t begin, int64_t end) {
    load_line(sums.as<float>() + begin, memory + begin * item, item, end - begin, dtype_of<T>());
  });
  View to = base;
  to.data = sums.as<char>() - low / item * wide;
  to.layout.dtype = DType::f32;
  for (int d = 0; d < to.layout.rank; ++d) to.layout.strides[d] *= wide / item;
  IndexPlan widened = plan;
  for (int k = 0; k < plan.count; ++k) widened.strides[k] *= wide / item;
  add_as_floats(to, values, widened);
  parallel_for(span, block, [&](int64_t begin, int64_t end) {
    T rounded[block];
    T* const out = reinterpret_cast<T*>(memory) + begin;
    store_line(reinterpret_cast<char*>(rounded), item, dtype_of<T>(), sums.as<float>() + begin, end - begin);
    for (int64_t i = 0; i < end - begin; ++i) {
      const bool same = rounded[i].bits == out[i].bits || (is_nan(to_float(rounded[i])) && is_nan(to_float(out[i])));
      if (!same) out[i] = rounded[i];
    }
  });
  return true;
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
  if (width == 1 && free.count == 1 && put_sums_in_floats<T>(base, values, plan)) return;
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
  const DType type = base.layout.dtype;
  const bool in_floats = accumulate && (type == DType::f16 || type == DType::bf16);
  if (is_short_list(values, plan) && !in_floats) check_index_type("index_put", plan.indices[0]);
  else check_plan("index_put", plan);
  if (accumulate && is_complex(type)) {
    for (int part = 0; part < 2; ++part) index_put(part_view(base, part), part_view(values, part), plan, true);
    return;
  }
  if (accumulate && !is_computable(type)) unsupported("index_put", base);
  if (values.layout.numel == 0) return;
  if (!accumulate) {
    with_item(itemsize(base.layout.dtype),
              [&](auto word) { put_any<decltype(word), Scatter::replace>(base, values, plan); });
    return;
  }
  with_computable("index_put", base, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (is_half_type<T>) {
      with_index_count(plan, [&](auto count) { put_rounded_sums<T, decltype(count)::value>(base, values, plan); });
    } else {
      put_any<Combining<T, Scatter::sum>, Scatter::sum>(base, values, plan);
    }
  });
}

void index_add(const View& out, int dim, const View& index, const View& source) {
  IndexPlan plan;
  View base;
  plan_slices(plan, base, at_least_1d(out), dim, at_least_1d(index));
  index_put(base, at_least_1d(source), plan, true);
}

}  // namespace weft::cpu
