#include <weft/backends/cpu/indices.hpp>

#include <weft/backends/cpu/kernels.hpp>

namespace weft::cpu {

void check_index_type(const char* kernel, const View& index) {
  if (index.layout.dtype != DType::i32 && index.layout.dtype != DType::i64) unsupported(kernel, index);
}

std::vector<int64_t> resolve(const View& index, int dim, int64_t size) {
  const View flat = at_least_1d(index);
  const int64_t n = flat.layout.sizes[0], stride = flat.layout.strides[0];
  std::vector<int64_t> result(static_cast<size_t>(n));
  with_index_type(flat, [&](auto type) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t given = index_at<decltype(type)>(bytes(flat), j * stride);
      int64_t row = given;
      if (!wraps_into(row, size)) index_out_of_range(given, dim, size);
      result[static_cast<size_t>(j)] = row;
    }
  });
  return result;
}

namespace {
template <class I>
bool all_valid(const char* line, int64_t step, int64_t n, int64_t size) {
  int64_t lowest = 0, highest = -1;
  if (step == (int64_t)sizeof(I)) {
    const I* p = reinterpret_cast<const I*>(line);
    I low = 0, high = -1;
    for (int64_t j = 0; j < n; ++j) {
      low = p[j] < low ? p[j] : low;
      high = p[j] > high ? p[j] : high;
    }
    lowest = low, highest = high;
  } else {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t index = index_at<I>(line, j * step);
      lowest = index < lowest ? index : lowest;
      highest = index > highest ? index : highest;
    }
  }
  return lowest >= -size && highest < size;
}
}  // namespace

void raise_first_invalid(const View& index, int dim, int64_t size) {
  const Layout* const layouts[] = {&index.layout};
  Walk<1> walk = walk_of(layouts, 0, index.layout.rank);
  int64_t step[1];
  const int64_t n = walk.pop(step);
  with_index_type(index, [&](auto type) {
    using I = decltype(type);
    Cursor<1> at(walk, 0);
    for (int64_t i = 0; i < walk.count; ++i, at.next()) {
      const char* line = bytes(index) + at.offset[0];
      if (all_valid<I>(line, step[0], n, size)) continue;
      for (int64_t j = 0; j < n; ++j) {
        const int64_t given = index_at<I>(line, j * step[0]);
        int64_t row = given;
        if (!wraps_into(row, size)) index_out_of_range(given, dim, size);
      }
    }
  });
}

}  // namespace weft::cpu
