// Reading by index, for elements of any type.
#include <atomic>
#include <cstring>
#include <vector>

#include <weft/backends/cpu/indices.hpp>
#include <weft/backends/cpu/kernels.hpp>
#include <weft/backends/cpu/lines.hpp>
#include <weft/backends/cpu/thread_pool.hpp>

namespace weft::cpu {
namespace {

template <class F>
void with_item(int64_t size, F&& body) {
  switch (size) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    default:
      return body(uint64_t{});
  }
}

/// Copies what one index selects: `walk` holds the dimensions of out and x inside `dim`.
class SlabCopy {
 public:
  SlabCopy(const Walk<2>& walk, int64_t item) : walk_(walk), item_(item), length_(walk_.pop(step_)) {
    if (length_ == 1) step_[0] = step_[1] = item;
    contiguous_ = step_[0] == item && step_[1] == item;
  }
  /// The slab's bytes where it is one contiguous run, else -1.
  int64_t run() const { return contiguous_ && walk_.count == 1 ? length_ * item_ : -1; }
  int64_t elements() const { return walk_.count * length_; }
  void operator()(char* out, const char* x) const {
    Cursor<2> at(walk_, 0);
    for (int64_t i = 0; i < walk_.count; ++i, at.next()) {
      char* to = out + at.offset[0];
      const char* from = x + at.offset[1];
      if (contiguous_) {
        memcpy(to, from, static_cast<size_t>(length_ * item_));
        continue;
      }
      with_item(item_, [&](auto word) {
        using Word = decltype(word);
        for (int64_t j = 0; j < length_; ++j) {
          *reinterpret_cast<Word*>(to + j * step_[0]) = *reinterpret_cast<const Word*>(from + j * step_[1]);
        }
      });
    }
  }

 private:
  Walk<2> walk_;
  int64_t item_, step_[2], length_;
  bool contiguous_;
};

}  // namespace

void index_select(const View& out_view, const View& x_view, int dim, const View& index) {
  check_index_type("index_select", index);
  const View out = at_least_1d(out_view), x = at_least_1d(x_view);
  const std::vector<int64_t> rows = resolve(index, dim, x.layout.sizes[dim]);
  if (out.layout.numel == 0) return;
  const Layout* const layouts[] = {&out.layout, &x.layout};
  const Walk<2> outer = walk_of(layouts, 0, dim);
  const int64_t item = itemsize(out.layout.dtype);
  const SlabCopy copy(walk_of(layouts, dim + 1, out.layout.rank), item);
  const int64_t n = out.layout.sizes[dim], out_stride = out.layout.strides[dim], x_stride = x.layout.strides[dim];
  const int64_t run = copy.run();
  parallel_for(outer.count * n, rows_per_chunk(copy.elements()), [&](int64_t begin, int64_t end) {
    int64_t t = begin;
    for (Cursor<2> at(outer, begin / n); t < end; at.next()) {
      const int64_t last = (t / n + 1) * n < end ? n : end - t / n * n;
      char* const to = bytes(out) + at.offset[0];
      const char* const from = bytes(x) + at.offset[1];
      int64_t j = t % n;
      t += last - j;
      if (run == item) {
        with_item(item, [&](auto word) {
          using Word = decltype(word);
          for (; j < last; ++j) {
            *reinterpret_cast<Word*>(to + j * out_stride) =
                *reinterpret_cast<const Word*>(from + rows[static_cast<size_t>(j)] * x_stride);
          }
        });
      } else if (run > 0) {
        for (; j < last; ++j) {
          memcpy(to + j * out_stride, from + rows[static_cast<size_t>(j)] * x_stride, static_cast<size_t>(run));
        }
      } else {
        for (; j < last; ++j) copy(to + j * out_stride, from + rows[static_cast<size_t>(j)] * x_stride);
      }
    }
  });
}

namespace {

/// Rows of one block of columns; along the gathered dimension x is addressed by the indices alone.
struct GatherBlock {
  char* out;
  const char *x, *index;
  int64_t rows, width, size;
  int64_t out_row, out_step, x_step, x_stride, index_row, index_step;
};

/// False as soon as an index is out of range.
template <class Word, class I>
bool gather_block(const GatherBlock& at) {
  for (int64_t i = 0; i < at.rows; ++i) {
    char* const to = at.out + i * at.out_row;
    const char* const from = at.x;
    const char* const indices = at.index + i * at.index_row;
    for (int64_t c = 0; c < at.width; ++c) {
      int64_t row = index_at<I>(indices, c * at.index_step);
      if (!wraps_into(row, at.size)) [[unlikely]]
        return false;
      *reinterpret_cast<Word*>(to + c * at.out_step) =
          *reinterpret_cast<const Word*>(from + c * at.x_step + row * at.x_stride);
    }
  }
  return true;
}

template <class Word, class I>
bool gather_typed(const View& out, const View& x, int dim, const View& index) {
  constexpr int64_t column_block = 16;
  // Blocks of a few columns of all rows, so that what the indices reach stays in the cache; lines where the indices
  // reach along the line itself.
  const int last = out.layout.rank - 1;
  const bool by_columns = dim != last;
  Layout selected = x.layout;
  selected.strides[dim] = 0;
  Walk<3> walk;
  for (int d = 0; d < last; ++d) {
    if (d == dim) continue;
    walk.push(out.layout.sizes[d], {out.layout.strides[d], selected.strides[d], index.layout.strides[d]});
  }
  const int64_t rows = by_columns ? out.layout.sizes[dim] : 1, columns = out.layout.sizes[last];
  const int64_t block = by_columns ? column_block : columns, blocks = (columns + block - 1) / block;
  std::atomic<bool> valid = true;
  parallel_for(walk.count * blocks, rows_per_chunk(rows * block, 8192), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const Cursor<3> at(walk, t / blocks);
      const int64_t first = t % blocks * block, width = columns - first < block ? columns - first : block;
      const int64_t out_step = out.layout.strides[last], x_step = selected.strides[last];
      const int64_t index_step = index.layout.strides[last];
      const GatherBlock task = {bytes(out) + at.offset[0] + first * out_step,
                                bytes(x) + at.offset[1] + first * x_step,
                                bytes(index) + at.offset[2] + first * index_step,
                                rows,
                                width,
                                x.layout.sizes[dim],
                                by_columns ? out.layout.strides[dim] : 0,
                                out_step,
                                x_step,
                                x.layout.strides[dim],
                                by_columns ? index.layout.strides[dim] : 0,
                                index_step};
      if (!gather_block<Word, I>(task)) valid.store(false, std::memory_order_relaxed);
    }
  });
  return valid.load(std::memory_order_relaxed);
}

}  // namespace

void gather(const View& out_view, const View& x_view, int dim, const View& index_view) {
  check_index_type("gather", index_view);
  const View out = at_least_1d(out_view), x = at_least_1d(x_view), index = at_least_1d(index_view);
  if (out.layout.numel == 0) return;
  bool valid = true;
  with_item(itemsize(out.layout.dtype), [&](auto word) {
    with_index_type(index,
                    [&](auto type) { valid = gather_typed<decltype(word), decltype(type)>(out, x, dim, index); });
  });
  if (!valid) raise_first_invalid(index, dim, x.layout.sizes[dim]);
}

}  // namespace weft::cpu
