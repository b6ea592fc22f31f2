// Scattering along a dimension. Every index is checked before the first write. Work is cut between threads by
// destination, so that each destination receives its terms in order; 16-bit floats are combined in f32 and rounded
// once. Sums of many floats are carried in double.
#include <algorithm>

#include "combine.hpp"
#include "crowd.hpp"
#include "index_offsets.hpp"
#include "indices.hpp"
#include "../kernels.hpp"
#include "../../../tensor/layout.hpp"
#include "../../../tensor/threads.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {
namespace {

/// A block of `width` columns; along the other side are `rows` indices and their `size` destinations.
struct ScatterBlock {
  char* out;
  const char* source;
  int64_t index, rows, width, size;
  int64_t out_row, out_step, source_row, source_step, index_row, index_step;
  NextLine next;
};

template <class T, Scatter mode, class Sum>
void scatter_lines(const ScatterBlock& at, const View& index, char* to, int64_t row, int64_t step) {
  int64_t offset[offset_block];
  const bool tall = at.width == 1;
  const int64_t lines = tall ? 1 : at.rows, length = tall ? at.rows : at.width;
  const int64_t source_step = tall ? at.source_row : at.source_step, index_step = tall ? at.index_row : at.index_step;
  NextLine next = at.next;
  const int64_t piece = std::min(offset_block, next.piece);
  for (int64_t i = 0; i < lines; ++i) {
    for (int64_t first = 0; first < length; first += piece) {
      const int64_t n = std::min(piece, length - first);
      next.fetch();
      index_offsets(offset, bytes(index) + at.index + i * at.index_row + first * index_step, index.layout.dtype,
                    index_step, n, at.size, row, false);
      combine_at<T, mode, Sum>(to + (tall ? 0 : first * step), tall ? 0 : step, offset,
                               at.source + i * at.source_row + first * source_step, source_step, n);
    }
  }
}

/// Whether a destination may get many terms.
bool is_crowded(const ScatterBlock& at, const View& index) {
  if (at.rows <= few_terms) return false;
  if (2 * at.size <= at.rows) return true;
  CrowdSample sample(at.rows * at.width);
  with_index_type(index, [&](auto type) {
    const auto count = [&](int64_t i, int64_t c) {
      sample.count(index_at<decltype(type)>(bytes(index), at.index + i * at.index_row + c * at.index_step) * at.width +
                   c);
    };
    if (at.width == 1) {
      while (sample.next() < at.rows) count(sample.next(), 0);
      return;
    }
    for (int64_t i = 0, first = 0; i < at.rows; ++i, first += at.width) {
      while (sample.next() < first + at.width) count(i, sample.next() - first);
    }
  });
  return sample.is_crowded();
}

template <class T, Scatter mode, class Sum>
void scatter_block(const ScatterBlock& at, const View& index, Sum* sums) {
  if constexpr (std::is_same_v<T, Sum>) {
    scatter_lines<T, mode, T>(at, index, at.out, at.out_row, at.out_step);
  } else {
    constexpr int64_t item = sizeof(Sum);
    for (int64_t i = 0; i < at.size; ++i) {
      load_line(sums + i * at.width, at.out + i * at.out_row, at.out_step, at.width, dtype_of<T>());
    }
    scatter_lines<T, mode, Sum>(at, index, reinterpret_cast<char*>(sums), at.width * item, item);
    for (int64_t i = 0; i < at.size; ++i) {
      const Sum* const line = sums + i * at.width;
      store_line(at.out + i * at.out_row, at.out_step, dtype_of<T>(), line, at.width);
    }
  }
}

/// One column in double, where most destinations get no terms.
template <class T>
void scatter_column(const ScatterBlock& at, const View& index, int64_t c, double* sums) {
  const auto each = [&](auto&& body) {
    with_index_type(index, [&](auto type) {
      for (int64_t i = 0; i < at.rows; ++i) {
        const int64_t row = index_at<decltype(type)>(bytes(index), at.index + i * at.index_row + c * at.index_step);
        body(i, sums[row], at.out + row * at.out_row + c * at.out_step);
      }
    });
  };
  each([&](int64_t, double& sum, const char* out) { load_line(&sum, out, sizeof(T), 1, dtype_of<T>()); });
  each([&](int64_t i, double& sum, const char*) {
    const T term = element_at<T>(at.source + i * at.source_row + c * at.source_step);
    if constexpr (is_half_type<T>) sum += static_cast<double>(to_float(term));
    else sum += static_cast<double>(term);
  });
  each([&](int64_t, const double& sum, char* out) { store_line(out, sizeof(T), dtype_of<T>(), &sum, 1); });
}

/// In double, so many columns at a time that the sums stay in the cache.
template <class T>
void scatter_crowd(const ScatterBlock& at, const View& index) {
  if (at.size > 8 * at.rows) {
    const Scratch sums(at.size * (int64_t)sizeof(double));
    for (int64_t c = 0; c < at.width; ++c) scatter_column<T>(at, index, c, sums.as<double>());
    return;
  }
  const int64_t step = std::clamp<int64_t>((1 << 16) / at.size, 1, at.width);
  const Scratch sums(at.size * step * (int64_t)sizeof(double));
  for (int64_t c = 0; c < at.width; c += step) {
    ScatterBlock part = at;
    part.out += c * at.out_step;
    part.source += c * at.source_step;
    part.index += c * at.index_step;
    part.width = std::min(step, at.width - c);
    scatter_block<T, Scatter::sum, double>(part, index, sums.as<double>());
  }
}

template <class T, Scatter mode>
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
  const int64_t fitting = is_half_type<T> ? std::clamp<int64_t>((1 << 18) / std::max<int64_t>(size, 1), 1, 64) : 64;
  const int64_t block = std::min(columns, fitting), blocks = (columns + block - 1) / block;
  const auto stride = [](const View& view, int d) { return d < 0 ? 0 : view.layout.strides[d]; };
  using Sum = std::conditional_t<is_half_type<T>, float, T>;
  constexpr bool may_crowd = mode == Scatter::sum && std::is_same_v<Sum, float>;
  const LinePrefetcher<3> lines(walk, 0, out.layout, inner < 0 ? dim : -1, rows, 32);
  parallel_for(walk.count * blocks, rows_per_chunk(rows * block), [&](int64_t begin, int64_t end) {
    const Scratch sums(size * block * (int64_t)sizeof(float), is_half_type<T>);
    for (int64_t t = begin; t < end; ++t) {
      const Cursor<3> at(walk, t / blocks);
      const int64_t first = t % blocks * block;
      const int64_t out_step = stride(out, inner), source_step = stride(source, inner),
                    index_step = stride(index, inner);
      const ScatterBlock here = {bytes(out) + at.offset[0] + first * out_step,
                                 bytes(source) + at.offset[1] + first * source_step,
                                 at.offset[2] + first * index_step,
                                 rows,
                                 std::min(block, columns - first),
                                 size,
                                 out.layout.strides[dim],
                                 out_step,
                                 source.layout.strides[dim],
                                 source_step,
                                 index.layout.strides[dim],
                                 index_step,
                                 lines.after(bytes(out), t / blocks)};
      if constexpr (may_crowd) {
        if (is_crowded(here, index)) {
          scatter_crowd<T>(here, index);
          continue;
        }
      }
      scatter_block<T, mode, Sum>(here, index, sums.as<Sum>());
    }
  });
}

template <Scatter mode>
void scatter_numbers(const View& out, int dim, const View& index, const View& source) {
  with_computable("scatter", out,
                  [&](auto zero) { scatter_typed<Combining<decltype(zero), mode>, mode>(out, dim, index, source); });
}

/// One-dimensional cases use index_put, which has little overhead for a few elements.
bool scatter_list(Scatter mode, const View& out, const View& index, const View& source) {
  if (out.layout.rank != 1 || (mode != Scatter::replace && mode != Scatter::sum)) return false;
  IndexPlan plan;
  View base;
  plan_slices(plan, base, out, 0, index, false);
  index_put(base, source, plan, mode == Scatter::sum);
  return true;
}

View rows_of(const View& view, int64_t first, int64_t count) {
  View part = view;
  part.data = static_cast<char*>(view.data) + first * view.layout.strides[0];
  part.layout.sizes[0] = count;
  finish_layout(part.layout);
  return part;
}

}  // namespace

void scatter(Scatter mode, const View& out_view, int dim, const View& index_view, const View& source_view) {
  check_index_type("scatter", index_view);
  if (mode == Scatter::sum && is_complex(out_view.layout.dtype)) {
    for (int part = 0; part < 2; ++part) {
      scatter(mode, part_view(out_view, part), dim, index_view, part_view(source_view, part));
    }
    return;
  }
  if (mode != Scatter::replace && !is_computable(out_view.layout.dtype)) unsupported("scatter", out_view);
  if (index_view.layout.numel == 0) return;
  if (scatter_list(mode, out_view, index_view, source_view)) return;
  const View out = at_least_1d(out_view), index = at_least_1d(index_view), source = at_least_1d(source_view);
  raise_first_invalid(index, dim, out.layout.sizes[dim], false);
  switch (mode) {
    case Scatter::replace:
      return with_item(itemsize(out.layout.dtype),
                       [&](auto word) { scatter_typed<decltype(word), Scatter::replace>(out, dim, index, source); });
    case Scatter::sum:
      return scatter_numbers<Scatter::sum>(out, dim, index, source);
    case Scatter::prod:
      return scatter_numbers<Scatter::prod>(out, dim, index, source);
    case Scatter::max:
      return scatter_numbers<Scatter::max>(out, dim, index, source);
    case Scatter::min:
      return scatter_numbers<Scatter::min>(out, dim, index, source);
  }
}

// By one thread in blocks, so that a copied and checked block is still in the cache when it is written. The copy is not
// visible if a later block raises.
void scatter_copy(Scatter mode, const View& out, const View& x, int dim, const View& index, const View& source) {
  constexpr int64_t block = 1 << 17;  // bytes; the index, the source and x itself stand beside it
  const int64_t bytes = out.layout.numel * itemsize(out.layout.dtype);
  if (dim == 0 || bytes <= 8 * block || num_threads() > 1) {
    copy(out, x);
    return scatter(mode, out, dim, index, source);
  }
  const int64_t rows = out.layout.sizes[0], step = std::max<int64_t>(block / (bytes / rows), 1);
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t n = std::min(step, rows - first), named = std::min(n, index.layout.sizes[0] - first);
    const View part = rows_of(out, first, n);
    copy(part, rows_of(x, first, n));
    if (named > 0) scatter(mode, part, dim, rows_of(index, first, named), rows_of(source, first, named));
  }
}

}  // namespace weft::cpu
