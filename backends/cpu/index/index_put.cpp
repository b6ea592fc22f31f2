// Writing by tensors of indices. Every index is checked before the first write. Threads share the rows that are
// written, never one of them, and each goes through the indices in order: so the last value wins, and sums have one
// order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "combine.hpp"
#include "groups.hpp"
#include "hot_sums.hpp"
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

/// sums[0, n) += floats.
inline void add_run(double* __restrict sums, const char* from, int64_t step, int64_t n) {
  if (step == (int64_t)sizeof(float)) {
    const float* const terms = reinterpret_cast<const float*>(from);
    for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(terms[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(element_at<float>(from + i * step));
}

/// Terms of `hot` destinations are added there instead, [outer dimensions, slab].
template <class T, Scatter mode, int K>
void put(const View& base, const View& values, const IndexPlan& plan, HotSums* hot = nullptr) {
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
          const auto hot_row = [&](int64_t i) -> double* {
            double* const sums =
                hot == nullptr ? nullptr : hot->find(at.offset[1] + (j + i) * walk.step[1] + offset[i]);
            return sums == nullptr ? nullptr : sums + t / parts / pieces * slab.count * run + first;
          };
          if (single && hot == nullptr) {
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
            if constexpr (mode == Scatter::sum && std::is_same_v<T, float>) {
              if (double* sums = hot_row(i)) {
                for (int64_t r = 0; r < slab.count; ++r, row.next(), sums += run) {
                  add_run(sums, slab_from + row.offset[0], step[0], width);
                }
                continue;
              }
            }
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
                       plan.strides[0], plan.wraps)) {
    raise_first_invalid(index, plan.dims[0], plan.sizes[0], plan.wraps);
  }
  combine_at<T, mode>(bytes(base), base.layout.strides[0], offset, bytes(values), values.layout.strides[0], n);
}

template <class T, Scatter mode>
void put_any(const View& base, const View& values, const IndexPlan& plan) {
  if (is_short_list(values, plan)) return put_list<T, mode>(base, values, plan);
  with_index_count(plan, [&](auto count) { put<T, mode, decltype(count)::value>(base, values, plan); });
}

/// The bytes around `base` that a plan reaches.
struct Reach {
  int64_t low = 0, high = 0, rest = 0, item;
  Reach(const View& base, const IndexPlan& plan) : item(itemsize(base.layout.dtype)) {
    for (int d = 0; d < base.layout.rank; ++d) add(base.layout.sizes[d], base.layout.strides[d]);
    for (int k = 0; k < plan.count; ++k) add(plan.sizes[k], plan.strides[k]);
  }
  int64_t elements() const { return (high - low) / item + 1; }
  bool is_near(int64_t terms) const { return rest == 0 && elements() <= 4 * terms + 1024; }

 private:
  void add(int64_t size, int64_t stride) {
    (stride < 0 ? low : high) += stride * (size - 1);
    rest |= stride % item;
  }
};

/// The view's positions [begin, begin + size) of the first dimension.
View part_of(View view, int64_t begin, int64_t size) {
  Layout& l = view.layout;
  view.data = bytes(view) + begin * l.strides[0];
  l.numel = l.numel / l.sizes[0] * size;
  l.sizes[0] = size;
  return view;
}

/// Adds values of type T to sums of type Sum, with the strides in `base` and `plan`.
template <class T, class Sum, int K>
void add_values(const View& base, const View& values, const IndexPlan& plan) {
  Walk<2> outer;
  const SelectionWalk<K> walk(values, base, plan, &outer);
  Walk<2> slab = walk.slab;
  int64_t step[2];
  const int64_t run = slab.pop(step);
  parallel_for(outer.count, rows_per_chunk(values.layout.numel / outer.count), [&](int64_t begin, int64_t end) {
    OffsetBlock<K> offsets(plan);
    for (int64_t t = begin; t < end; ++t) {
      const Cursor<2> out(outer, t);
      Cursor<2 + K> at(walk.lines, 0);
      for (int64_t line = 0; line < walk.lines.count; ++line, at.next()) {
        for (int64_t j = 0; j < walk.length; j += offset_block) {
          const int64_t n = std::min(offset_block, walk.length - j);
          const int64_t* const offset = offsets(at.offset + 2, walk.step + 2, j, n);
          char* const to = bytes(base) + out.offset[1] + at.offset[1] + j * walk.step[1];
          const char* const from = bytes(values) + out.offset[0] + at.offset[0] + j * walk.step[0];
          Cursor<2> row(slab, 0);
          for (int64_t r = 0; r < slab.count; ++r, row.next()) {
            for (int64_t c = 0; c < run; ++c) {
              combine_at<T, Scatter::sum, Sum>(to + row.offset[1] + c * step[1], walk.step[1], offset,
                                               from + row.offset[0] + c * step[0], walk.step[0], n);
            }
          }
        }
      }
    }
  });
}
template <class T, class Sum>
void add_values(const View& base, const View& values, const IndexPlan& plan) {
  with_index_count(plan, [&](auto count) { add_values<T, Sum, decltype(count)::value>(base, values, plan); });
}

/// Adds 16-bit floats to wider ones, so many at a time that their copies as floats stay small.
template <class Sum>
void add_as_floats(const View& base, const View& values, const IndexPlan& plan) {
  constexpr int64_t block = int64_t{1} << 17;
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
    add_values<float, Sum>(part(base), wide, here);
  }
}

inline bool is_same(float a, float b) {
  return (a == b && std::signbit(a) == std::signbit(b)) || (is_nan(a) && is_nan(b));
}
template <class T>
  requires is_half_type<T>
bool is_same(T a, T b) { return a.bits == b.bits || (is_nan(to_float(a)) && is_nan(to_float(b))); }

/// Accumulates in wider temporaries of the indexed memory, which is rounded once. Elements without an index are not
/// written.
template <class T, class Sum>
void put_wide_sums(const View& base, const View& values, const IndexPlan& plan, const Reach& reach) {
  constexpr int64_t item = sizeof(T), wide = sizeof(Sum), block = 8192;
  const int64_t span = reach.elements();
  const Scratch sums(span * wide);
  char* const memory = bytes(base) + reach.low;
  parallel_for(span, block, [&](int64_t begin, int64_t end) {
    load_line(sums.as<Sum>() + begin, memory + begin * item, item, end - begin, dtype_of<T>());
  });
  View to = base;
  to.data = sums.as<char>() - reach.low / item * wide;
  to.layout.dtype = dtype_of<Sum>();
  for (int d = 0; d < to.layout.rank; ++d) to.layout.strides[d] = to.layout.strides[d] / item * wide;
  IndexPlan widened = plan;
  for (int k = 0; k < plan.count; ++k) widened.strides[k] = plan.strides[k] / item * wide;
  if constexpr (is_half_type<T>) add_as_floats<Sum>(to, values, widened);
  else add_values<T, Sum>(to, values, widened);
  parallel_for(span, block, [&](int64_t begin, int64_t end) {
    T rounded[block];
    T* const out = reinterpret_cast<T*>(memory) + begin;
    store_line(reinterpret_cast<char*>(rounded), item, dtype_of<T>(), sums.as<Sum>() + begin, end - begin);
    for (int64_t i = 0; i < end - begin; ++i) {
      if (!is_same(rounded[i], out[i])) out[i] = rounded[i];
    }
  });
}

/// Adds up to few_terms lines at a time in float, those of many in double.
class LineSum {
 public:
  static constexpr int64_t block = 512;

  /// to[0, n) += the lines of `count` members, line(i) being the i-th.
  template <class Line>
  void operator()(char* to, int64_t to_step, int64_t n, DType type, int64_t from_step, int64_t count, Line&& line) {
    if (count <= few_terms) {
      load_line(sum_, to, to_step, n, type);
      add(n, type, from_step, 0, count, line);
      return store_line(to, to_step, type, static_cast<const float*>(sum_), n);
    }
    load_line(total_, to, to_step, n, type);
    for (int64_t first = 0; first < count; first += few_terms) {
      std::fill_n(sum_, n, 0.0f);
      add(n, type, from_step, first, std::min(first + few_terms, count), line);
      for (int64_t i = 0; i < n; ++i) total_[i] += static_cast<double>(sum_[i]);
    }
    store_line(to, to_step, type, static_cast<const double*>(total_), n);
  }

 private:
  template <class Line>
  void add(int64_t n, DType type, int64_t step, int64_t begin, int64_t end, Line&& line) {
    for (int64_t m = begin; m < end; ++m) {
      const float* const term = read_line(term_, line(m), step, n, type);
      add_(reinterpret_cast<char*>(sum_), reinterpret_cast<char*>(sum_), reinterpret_cast<const char*>(term), n);
    }
  }

  const BinaryLoop add_ = binary_loops.loop[static_cast<int>(BinaryOp::add)][slot_of(DType::f32)][0];
  float sum_[block], term_[block];
  double total_[block];
};

/// Sums of 16-bit floats: the positions are grouped by destination, and each destination is rounded once.
template <class T, int K>
void put_grouped_sums(const View& base, const View& values, const IndexPlan& plan, Walk<2> free,
                      const SelectionWalk<K>& walk) {
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
  int64_t unit = walk.step[1];
  for (int k = 0; k < plan.count; ++k) unit = std::gcd(unit, plan.strides[k]);
  for (int d = 0; d < walk.lines.rank; ++d) unit = std::gcd(unit, walk.lines.strides[1][d]);
  unit = std::max<int64_t>(unit, 1);
  const int64_t lowest = *std::min_element(to.begin(), to.end());
  const int64_t highest = *std::max_element(to.begin(), to.end());
  std::vector<int64_t> keys(to.size());
  for (size_t p = 0; p < to.size(); ++p) keys[p] = (to[p] - lowest) / unit;
  const Groups groups(keys, (highest - lowest) / unit + 1);
  const int64_t blocks = (width + LineSum::block - 1) / LineSum::block, tasks = free.count * blocks;
  const int64_t per_task = std::min(width, LineSum::block) * (count / groups.count() + 1);
  parallel_for(groups.count() * tasks, rows_per_chunk(per_task), [&](int64_t begin, int64_t end) {
    LineSum sum;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t g = t / tasks, first = t % blocks * LineSum::block;
      const int64_t* const member = groups.order.data() + groups.starts[static_cast<size_t>(g)];
      const int64_t members = groups.starts[static_cast<size_t>(g) + 1] - groups.starts[static_cast<size_t>(g)];
      const Cursor<2> row(free, t % tasks / blocks);
      char* const out = bytes(base) + to[static_cast<size_t>(*member)] + row.offset[1] + first * step[1];
      const char* const in = bytes(values) + row.offset[0] + first * step[0];
      sum(out, step[1], std::min(LineSum::block, width - first), dtype_of<T>(), step[0], members,
          [&](int64_t m) { return in + from[static_cast<size_t>(member[m])]; });
    }
  });
}

/// Sums of f32; those of destinations that get many terms are carried in double.
template <int K>
void put_crowded_sums(const View& base, const View& values, const IndexPlan& plan, const Walk<2>& outer,
                      const SelectionWalk<K>& walk, const CrowdSample& sample) {
  Walk<2> slab = walk.slab;
  int64_t step[2];
  const int64_t run = slab.pop(step);
  HotSums hot(walk, plan, sample, outer.count * slab.count * run);
  put<float, Scatter::sum, K>(base, values, plan, &hot);
  hot.each([&](int64_t destination, const double* sums) {
    Cursor<2> out(outer, 0);
    for (int64_t o = 0; o < outer.count; ++o, out.next()) {
      Cursor<2> row(slab, 0);
      for (int64_t r = 0; r < slab.count; ++r, row.next(), sums += run) {
        char* const to = bytes(base) + destination + out.offset[1] + row.offset[1];
        for (int64_t c = 0; c < run; ++c) {
          float& element = *reinterpret_cast<float*>(to + c * step[1]);
          element = static_cast<float>(static_cast<double>(element) + sums[c]);
        }
      }
    }
  });
}

/// Sums of f32 or 16-bit floats. Those of many terms are carried in double.
template <class T, int K>
void put_float_sums(const View& base, const View& values, const IndexPlan& plan) {
  constexpr int64_t narrow = 16;
  Walk<2> outer;
  const SelectionWalk<K> walk(values, base, plan, &outer);
  const int64_t positions = walk.lines.count * walk.length, width = values.layout.numel / (positions * outer.count);
  const Reach reach(base, plan);
  const bool stands_in = width < narrow && reach.is_near(values.layout.numel);
  const bool is_dense = stands_in && positions > few_terms && 2 * reach.elements() <= values.layout.numel;
  if (is_dense) return put_wide_sums<T, double>(base, values, plan, reach);
  if constexpr (is_half_type<T>) {
    if (!stands_in) return put_grouped_sums<T, K>(base, values, plan, outer, walk);
  }
  const CrowdSample sample = sample_of(walk, plan);
  if constexpr (is_half_type<T>) {
    if (sample.is_crowded()) return put_wide_sums<T, double>(base, values, plan, reach);
    put_wide_sums<T, float>(base, values, plan, reach);
  } else {
    if (sample.is_crowded()) return put_crowded_sums<K>(base, values, plan, outer, walk, sample);
    put<T, Scatter::sum, K>(base, values, plan);
  }
}

}  // namespace

void index_put(const View& base, const View& values, const IndexPlan& plan, bool accumulate) {
  const DType type = base.layout.dtype;
  const bool sums_floats = accumulate && (type == DType::f32 || type == DType::f16 || type == DType::bf16);
  const bool widens = sums_floats && (type != DType::f32 || values.layout.numel > few_terms);
  const bool is_list = is_short_list(values, plan) && !widens;
  if (is_list) check_index_type("index_put", plan.indices[0]);
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
    if constexpr (is_half_type<T> || std::is_same_v<T, float>) {
      if (is_list) return put_list<float, Scatter::sum>(base, values, plan);
      with_index_count(plan, [&](auto count) { put_float_sums<T, decltype(count)::value>(base, values, plan); });
    } else {
      put_any<Combining<T, Scatter::sum>, Scatter::sum>(base, values, plan);
    }
  });
}

void index_add(const View& out, int dim, const View& index, const View& source) {
  IndexPlan plan;
  View base;
  plan_slices(plan, base, at_least_1d(out), dim, at_least_1d(index), false);
  index_put(base, at_least_1d(source), plan, true);
}

}  // namespace weft::cpu
