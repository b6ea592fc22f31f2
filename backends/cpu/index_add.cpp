// Adding by index. Every index is checked before the first write. Work is cut between threads by destination, so that
// each destination receives its terms in order; 16-bit floats are summed in f32 and rounded once.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <vector>

#include <weft/backends/cpu/indices.hpp>
#include <weft/backends/cpu/kernels.hpp>
#include <weft/backends/cpu/thread_pool.hpp>

namespace weft::cpu {
namespace {

template <class T>
T added(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) return a | b;
  else if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else return a + b;
}

template <class F>
void with_addable(const char* kernel, const View& view, F&& body) {
  switch (view.layout.dtype) {
    case DType::boolean:
      return body(bool{});
    case DType::u8:
      return body(uint8_t{});
    case DType::i8:
      return body(int8_t{});
    case DType::i16:
      return body(int16_t{});
    case DType::i32:
      return body(int32_t{});
    case DType::i64:
      return body(int64_t{});
    case DType::f16:
      return body(float16{});
    case DType::bf16:
      return body(bfloat16{});
    case DType::f32:
      return body(float{});
    case DType::f64:
      return body(double{});
    default:
      unsupported(kernel, view);
  }
}

template <class T>
constexpr bool is_half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

// ---- scatter --------------------------------------------------------------------------------------------------------

/// A block of `width` columns; along the other side lie `rows` indices and the `size` destinations they name.
struct ScatterBlock {
  char* out;
  const char* source;
  int64_t index, rows, width, size;
  int64_t out_row, out_step, source_row, source_step, index_row, index_step;
};

template <class T, class I>
void scatter_block(const ScatterBlock& at, const char* indices, float* sums) {
  if constexpr (is_half<T>) {
    const DType t = dtype_of<T>();
    for (int64_t i = 0; i < at.size; ++i) {
      load_line(sums + i * at.width, at.out + i * at.out_row, at.out_step, at.width, t);
    }
    for (int64_t i = 0; i < at.rows; ++i) {
      for (int64_t c = 0; c < at.width; ++c) {
        int64_t row = index_at<I>(indices, at.index + i * at.index_row + c * at.index_step);
        wraps_into(row, at.size);
        sums[row * at.width + c] +=
            to_float(*reinterpret_cast<const T*>(at.source + i * at.source_row + c * at.source_step));
      }
    }
    for (int64_t i = 0; i < at.size; ++i) {
      store_line(at.out + i * at.out_row, at.out_step, t, static_cast<const float*>(sums + i * at.width), at.width);
    }
  } else if (at.width == 1) {
    for (int64_t i = 0; i < at.rows; ++i) {
      int64_t row = index_at<I>(indices, at.index + i * at.index_row);
      wraps_into(row, at.size);
      T& to = *reinterpret_cast<T*>(at.out + row * at.out_row);
      to = added(to, *reinterpret_cast<const T*>(at.source + i * at.source_row));
    }
  } else {
    for (int64_t i = 0; i < at.rows; ++i) {
      for (int64_t c = 0; c < at.width; ++c) {
        int64_t row = index_at<I>(indices, at.index + i * at.index_row + c * at.index_step);
        wraps_into(row, at.size);
        T& to = *reinterpret_cast<T*>(at.out + row * at.out_row + c * at.out_step);
        to = added(to, *reinterpret_cast<const T*>(at.source + i * at.source_row + c * at.source_step));
      }
    }
  }
}

template <class T, class I>
void scatter_typed(const View& out, int dim, const View& index, const View& source) {
  const int last = index.layout.rank - 1;
  const int inner = dim == last ? -1 : last;
  Walk<3> walk;
  for (int d = 0; d < index.layout.rank; ++d) {
    if (d == dim || d == inner) continue;
    walk.push(index.layout.sizes[d], {out.layout.strides[d], source.layout.strides[d], index.layout.strides[d]});
  }
  const int64_t rows = index.layout.sizes[dim], size = out.layout.sizes[dim];
  const int64_t columns = inner < 0 ? 1 : index.layout.sizes[inner];
  const int64_t fitting = is_half<T> ? std::clamp<int64_t>((1 << 18) / std::max<int64_t>(size, 1), 1, 64) : 64;
  const int64_t block = std::min(columns, fitting), blocks = (columns + block - 1) / block;
  const auto stride = [](const View& view, int d) { return d < 0 ? 0 : view.layout.strides[d]; };
  parallel_for(walk.count * blocks, rows_per_chunk(rows * block, 8192), [&](int64_t begin, int64_t end) {
    const Scratch sums(size * block * (int64_t)sizeof(float), is_half<T>);
    for (int64_t t = begin; t < end; ++t) {
      const Cursor<3> at(walk, t / blocks);
      const int64_t first = t % blocks * block;
      const int64_t out_step = stride(out, inner), source_step = stride(source, inner),
                    index_step = stride(index, inner);
      scatter_block<T, I>(
          {bytes(out) + at.offset[0] + first * out_step, bytes(source) + at.offset[1] + first * source_step,
           at.offset[2] + first * index_step, rows, std::min(block, columns - first), size, out.layout.strides[dim],
           out_step, source.layout.strides[dim], source_step, index.layout.strides[dim], index_step},
          bytes(index), sums.as<float>());
    }
  });
}

template <class T>
void scatter_sum(const View& out, int dim, const View& index, const View& source) {
  with_index_type(index, [&](auto type) { scatter_typed<T, decltype(type)>(out, dim, index, source); });
}

// ---- index_add by rows ----------------------------------------------------------------------------------------------

/// The positions j of an index, sorted by destination and, for one destination, by j.
struct Groups {
  std::vector<int64_t> order, starts;

  Groups(const std::vector<int64_t>& rows, int64_t size) : order(rows.size()) {
    const int64_t n = static_cast<int64_t>(rows.size());
    if (size <= 4 * n + 1024) {
      std::vector<int64_t> next(static_cast<size_t>(size) + 1, 0);
      for (const int64_t row : rows) ++next[static_cast<size_t>(row) + 1];
      std::partial_sum(next.begin(), next.end(), next.begin());
      for (int64_t j = 0; j < n; ++j)
        order[static_cast<size_t>(next[static_cast<size_t>(rows[static_cast<size_t>(j)])]++)] = j;
    } else {
      std::iota(order.begin(), order.end(), int64_t{0});
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return rows[static_cast<size_t>(a)] < rows[static_cast<size_t>(b)];
      });
    }
    for (size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || rows[static_cast<size_t>(order[i])] != rows[static_cast<size_t>(order[i - 1])]) {
        starts.push_back(static_cast<int64_t>(i));
      }
    }
    starts.push_back(n);
  }
  int64_t count() const { return static_cast<int64_t>(starts.size()) - 1; }
};

template <class T>
void add_run(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
  if (to_step == (int64_t)sizeof(T) && from_step == (int64_t)sizeof(T)) {
    T* out = reinterpret_cast<T*>(to);
    const T* in = reinterpret_cast<const T*>(from);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = added(out[i], in[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    T& out = *reinterpret_cast<T*>(to + i * to_step);
    out = added(out, *reinterpret_cast<const T*>(from + i * from_step));
  }
}

/// Adds the lines source + order[k] * stride to one destination line.
template <class T>
void add_lines(char* to, int64_t to_step, const char* source, int64_t stride, int64_t from_step, int64_t n,
               const int64_t* order, int64_t count) {
  if constexpr (is_half<T>) {
    constexpr int64_t chunk = 1024;
    alignas(64) float sum[chunk], term[chunk];
    for (int64_t i = 0; i < n; i += chunk) {
      const int64_t size = std::min(chunk, n - i);
      load_line(sum, to + i * to_step, to_step, size, dtype_of<T>());
      for (int64_t k = 0; k < count; ++k) {
        load_line(term, source + order[k] * stride + i * from_step, from_step, size, dtype_of<T>());
        for (int64_t j = 0; j < size; ++j) sum[j] += term[j];
      }
      store_line(to + i * to_step, to_step, dtype_of<T>(), static_cast<const float*>(sum), size);
    }
  } else {
    for (int64_t k = 0; k < count; ++k) add_run<T>(to, to_step, source + order[k] * stride, from_step, n);
  }
}

template <class T>
void add_groups(const View& out, int dim, const std::vector<int64_t>& rows, const View& source) {
  const Groups groups(rows, out.layout.sizes[dim]);
  const Layout* const layouts[] = {&source.layout, &out.layout};
  const Walk<2> outer = walk_of(layouts, 0, dim);
  Walk<2> inner = walk_of(layouts, dim + 1, out.layout.rank);
  int64_t step[2];
  const int64_t n = inner.pop(step);
  const int64_t per_group = inner.count * n * (static_cast<int64_t>(rows.size()) / groups.count() + 1);
  parallel_for(outer.count * groups.count(), rows_per_chunk(per_group), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t group = t % groups.count();
      const int64_t first = groups.starts[static_cast<size_t>(group)];
      const int64_t count = groups.starts[static_cast<size_t>(group) + 1] - first;
      const int64_t* order = groups.order.data() + first;
      const int64_t row = rows[static_cast<size_t>(order[0])];
      const Cursor<2> at(outer, t / groups.count());
      char* to = bytes(out) + at.offset[1] + row * out.layout.strides[dim];
      const char* from = bytes(source) + at.offset[0];
      Cursor<2> line(inner, 0);
      for (int64_t i = 0; i < inner.count; ++i, line.next()) {
        add_lines<T>(to + line.offset[1], step[1], from + line.offset[0], source.layout.strides[dim], step[0], n, order,
                     count);
      }
    }
  });
}

/// A 1-d index seen with the sizes of `source`, stride 0 but along `dim`.
View broadcast_index(const View& index, int dim, const View& source) {
  View result = at_least_1d(index);
  const int64_t stride = result.layout.strides[0];
  result.layout.rank = source.layout.rank;
  result.layout.numel = source.layout.numel;
  result.layout.contiguous = 0;
  for (int d = 0; d < source.layout.rank; ++d) {
    result.layout.sizes[d] = source.layout.sizes[d];
    result.layout.strides[d] = d == dim ? stride : 0;
  }
  return result;
}

}  // namespace

void scatter(Scatter mode, const View& out_view, int dim, const View& index_view, const View& source_view) {
  check_index_type("scatter", index_view);
  if (mode != Scatter::sum) unsupported("scatter", out_view);
  const View out = at_least_1d(out_view), index = at_least_1d(index_view), source = at_least_1d(source_view);
  if (index.layout.numel == 0) return;
  raise_first_invalid(index, dim, out.layout.sizes[dim]);
  with_addable("scatter", out, [&](auto zero) { scatter_sum<decltype(zero)>(out, dim, index, source); });
}

void index_add(const View& out_view, int dim, const View& index, const View& source_view) {
  check_index_type("index_add", index);
  const View out = at_least_1d(out_view), source = at_least_1d(source_view);
  const std::vector<int64_t> rows = resolve(index, dim, out.layout.sizes[dim]);
  if (source.layout.numel == 0) return;
  int64_t slab = 1;
  for (int d = dim + 1; d < out.layout.rank; ++d) slab *= out.layout.sizes[d];
  const bool by_rows = slab >= 8;
  const View spread = broadcast_index(index, dim, source);
  with_addable("index_add", out, [&](auto zero) {
    if (by_rows) add_groups<decltype(zero)>(out, dim, rows, source);
    else scatter_sum<decltype(zero)>(out, dim, spread, source);
  });
}

}  // namespace weft::cpu
