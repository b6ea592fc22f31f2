// Sorted lines, and places in them. A line becomes pairs of key and position, which are sorted by radix; long lines by
// blocks in parallel that are merged. A stable order is unique, so threads do not change it.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "../kernels.hpp"
#include "../lines.hpp"
#include "sort_keys.hpp"
#include "../thread_pool.hpp"
#include "../../../tensor/threads.hpp"

namespace weft::cpu {
namespace {

template <class Number>
struct Entry {
  Number key, position;
};

template <class E>
void insertion_sort(E* entries, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const E entry = entries[i];
    int64_t j = i;
    for (; j > 0 && entry.key < entries[j - 1].key; --j) entries[j] = entries[j - 1];
    entries[j] = entry;
  }
}

/// Sorts by the low `digits` bytes of the keys; `spare` has room for n more.
template <class E>
void radix_sort(E* entries, E* spare, int64_t n, int digits) {
  if (n <= 40) return insertion_sort(entries, n);
  int64_t counts[8][256];
  memset(counts, 0, sizeof(counts[0]) * static_cast<size_t>(digits));
  for (int64_t i = 0; i < n; ++i) {
    for (int d = 0; d < digits; ++d) ++counts[d][entries[i].key >> (8 * d) & 255];
  }
  E *from = entries, *to = spare;
  for (int d = 0; d < digits; ++d) {
    if (counts[d][from->key >> (8 * d) & 255] == n) continue;
    int64_t next = 0;
    for (int64_t& count : counts[d]) next += std::exchange(count, next);
    for (int64_t i = 0; i < n; ++i) to[counts[d][from[i].key >> (8 * d) & 255]++] = from[i];
    std::swap(from, to);
  }
  if (from != entries) memcpy(entries, from, static_cast<size_t>(n) * sizeof(E));
}

/// Writes elements [begin, end) of the merge of two sorted lists; of equal ones, those of `a` come first.
template <class E>
void merge_part(E* to, const E* a, int64_t n, const E* b, int64_t m, int64_t begin, int64_t end) {
  // How many of the first `begin` come from a.
  int64_t low = std::max<int64_t>(0, begin - m), high = std::min(begin, n);
  while (low < high) {
    const int64_t i = low + (high - low) / 2;
    if (a[i].key <= b[begin - i - 1].key) low = i + 1;
    else high = i;
  }
  const E *next_a = a + low, *next_b = b + (begin - low), *last_a = a + n, *last_b = b + m;
  to += begin;
  for (int64_t left = end - begin; left > 0; --left, ++to) {
    if (next_a == last_a || next_b == last_b) {
      memcpy(static_cast<void*>(to), next_a == last_a ? next_b : next_a, static_cast<size_t>(left) * sizeof(E));
      return;
    }
    const bool second = next_b->key < next_a->key;
    *to = second ? *next_b : *next_a;
    next_a += !second;
    next_b += second;
  }
}

template <class E>
void sort_long(E* entries, E* spare, int64_t n, int digits) {
  constexpr int64_t worthwhile = 65536, piece = 16384;
  int64_t blocks = 1;
  while (blocks < num_threads() && blocks < 64 && n / (2 * blocks) >= worthwhile / 2) blocks *= 2;
  if (blocks == 1) return radix_sort(entries, spare, n, digits);
  const int64_t size = (n + blocks - 1) / blocks;
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * size;
      radix_sort(entries + first, spare + first, std::min(size, n - first), digits);
    }
  });
  E *from = entries, *to = spare;
  for (int64_t width = size; width < n; width *= 2) {
    for (int64_t first = 0; first < n; first += 2 * width) {
      const int64_t a = std::min(width, n - first), b = std::min(width, n - first - a);
      parallel_for(a + b, piece, [&](int64_t begin, int64_t end) {
        merge_part(to + first, from + first, a, from + first + a, b, begin, end);
      });
    }
    std::swap(from, to);
  }
  if (from != entries) memcpy(static_cast<void*>(entries), from, static_cast<size_t>(n) * sizeof(E));
}

template <class T>
struct Line {
  using Key = Unsigned<sizeof(T)>;
  const char* data;
  int64_t stride, n;
  Key flip;

  Key key(int64_t i) const { return static_cast<Key>(sort_key(element_at<T>(data + i * stride)) ^ flip); }
  /// The integer of that key.
  T value(Key key) const { return static_cast<T>(sort_key(static_cast<T>(key ^ flip))); }
};

/// line[i] = from[entries[i].position]; the values go through `spare` where they are sorted in place.
template <class T, class E>
void store_sorted(char* to, int64_t stride, const char* from, int64_t from_stride, const E* entries, E* spare,
                  int64_t n) {
  if (to != from) {
    for (int64_t i = 0; i < n; ++i) {
      const char* element = from + static_cast<int64_t>(entries[i].position) * from_stride;
      *reinterpret_cast<T*>(to + i * stride) = element_at<T>(element);
    }
    return;
  }
  char* const values = reinterpret_cast<char*>(spare);
  constexpr int64_t item = sizeof(T);
  for (int64_t i = 0; i < n; ++i) {
    memcpy(values + i * item, from + static_cast<int64_t>(entries[i].position) * from_stride, item);
  }
  for (int64_t i = 0; i < n; ++i) memcpy(to + i * stride, values + i * item, item);
}

/// Where a sorted line and its order go; either may be null.
struct Target {
  char *out, *order;
  int64_t out_stride, order_stride;
};

/// A key whose position nobody asks for.
template <class Number>
struct Bare {
  Number key;
};

/// Sorts integers by their keys alone: equal ones are the same.
template <class Number, class T>
void sort_values(const Line<T>& line, typename Line<T>::Key lowest, uint64_t range, int digits, const Target& to,
                 void* scratch) {
  const auto store = [&](int64_t i, uint64_t key) {
    *reinterpret_cast<T*>(to.out + i * to.out_stride) = line.value(static_cast<typename Line<T>::Key>(key + lowest));
  };
  constexpr uint64_t few = 65536;  // counts that fit the cache
  if (range < few && range < static_cast<uint64_t>(line.n)) {
    int64_t* const counts = static_cast<int64_t*>(scratch);
    std::fill_n(counts, range + 1, int64_t{0});
    for (int64_t i = 0; i < line.n; ++i) ++counts[static_cast<typename Line<T>::Key>(line.key(i) - lowest)];
    int64_t i = 0;
    for (uint64_t key = 0; key <= range; ++key) {
      for (const int64_t end = i + counts[key]; i < end; ++i) store(i, key);
    }
    return;
  }
  using E = Bare<Number>;
  E *const entries = static_cast<E*>(scratch), *const spare = entries + line.n;
  for (int64_t i = 0; i < line.n; ++i) entries[i].key = static_cast<Number>(line.key(i) - lowest);
  sort_long(entries, spare, line.n, digits);
  for (int64_t i = 0; i < line.n; ++i) store(i, entries[i].key);
}

/// Sorts by the keys' difference from the lowest of them, which is below 256 to the power of `digits`.
template <class E, class T>
void sort_line(const Line<T>& line, typename Line<T>::Key lowest, int digits, const Target& to, void* scratch) {
  E *const entries = static_cast<E*>(scratch), *const spare = entries + line.n;
  using Number = decltype(E::key);
  for (int64_t i = 0; i < line.n; ++i) {
    entries[i] = {static_cast<Number>(line.key(i) - lowest), static_cast<Number>(i)};
  }
  sort_long(entries, spare, line.n, digits);
  for (int64_t i = 0; to.order != nullptr && i < line.n; ++i) {
    *reinterpret_cast<int64_t*>(to.order + i * to.order_stride) = static_cast<int64_t>(entries[i].position);
  }
  if (to.out != nullptr) store_sorted<T>(to.out, to.out_stride, line.data, line.stride, entries, spare, line.n);
}

template <class T>
void sort_elements(const char* from, int64_t stride, int64_t n, bool descending, const Target& to, void* scratch) {
  using Key = Unsigned<sizeof(T)>;
  const Line<T> line = {from, stride, n, descending ? Key(~Key(0)) : Key(0)};
  Key lowest = line.key(0), highest = lowest;
  for (int64_t i = 1; i < n; ++i) {
    lowest = std::min(lowest, line.key(i));
    highest = std::max(highest, line.key(i));
  }
  const auto range = static_cast<uint64_t>(static_cast<Key>(highest - lowest));
  const int digits = (64 - std::countl_zero(range) + 7) / 8;
  const bool narrow = digits <= 4 && n <= INT64_C(0xffffffff);
  if constexpr (std::is_integral_v<T>) {
    if (to.order == nullptr) {
      if (narrow) sort_values<uint32_t>(line, lowest, range, digits, to, scratch);
      else sort_values<uint64_t>(line, lowest, range, digits, to, scratch);
      return;
    }
  }
  if (narrow) sort_line<Entry<uint32_t>>(line, lowest, digits, to, scratch);
  else sort_line<Entry<uint64_t>>(line, lowest, digits, to, scratch);
}

/// How many elements of a sorted line have a key below `key`, or not above it.
template <class T>
int64_t place(const char* line, int64_t stride, int64_t n, Unsigned<sizeof(T)> key, bool right) {
  int64_t first = 0;
  while (n > 0) {
    const int64_t half = n / 2;
    const auto middle = sort_key(element_at<T>(line + (first + half) * stride));
    const bool beyond = right ? middle <= key : middle < key;
    first += beyond ? half + 1 : 0;
    n = beyond ? n - half - 1 : half;
  }
  return first;
}

template <class T>
int64_t place_of(const char* value, const char* line, int64_t stride, int64_t n, bool right) {
  return place<T>(line, stride, n, sort_key(element_at<T>(value)), right);
}

}  // namespace

void sort(const View& out_view, const View& order_view, const View& x_view, int dim, bool descending) {
  const View x = at_least_1d(x_view);
  decltype(&sort_elements<float>) sort_row = nullptr;
  with_computable("sort", x, [&](auto zero) { sort_row = sort_elements<decltype(zero)>; });
  if (x.layout.numel == 0) return;
  const auto like_x = [](View view) { return view.data == nullptr ? view : at_least_1d(view); };
  const View out = like_x(out_view), order = like_x(order_view);
  const auto stride = [](const View& view, int d) { return view.data == nullptr ? 0 : view.layout.strides[d]; };
  Walk<3> walk;
  for (int d = 0; d < x.layout.rank; ++d) {
    if (d != dim) walk.push(x.layout.sizes[d], {x.layout.strides[d], stride(out, d), stride(order, d)});
  }
  const int64_t n = x.layout.sizes[dim];
  parallel_for(walk.count, rows_per_chunk(8 * n), [&](int64_t begin, int64_t end) {
    const Scratch scratch(2 * n * (int64_t)sizeof(Entry<uint64_t>));
    Cursor<3> at(walk, begin);
    for (int64_t row = begin; row < end; ++row, at.next()) {
      const Target to = {out.data == nullptr ? nullptr : bytes(out) + at.offset[1],
                         order.data == nullptr ? nullptr : bytes(order) + at.offset[2], stride(out, dim),
                         stride(order, dim)};
      sort_row(bytes(x) + at.offset[0], x.layout.strides[dim], n, descending, to, scratch.as<char>());
    }
  });
}

void searchsorted(const View& out_view, const View& sorted, const View& values_view, bool right) {
  decltype(&place_of<float>) place_in = nullptr;
  with_computable("searchsorted", sorted, [&](auto zero) { place_in = place_of<decltype(zero)>; });
  if (values_view.layout.numel == 0) return;
  const View out = at_least_1d(out_view), values = at_least_1d(values_view);
  const int last = values.layout.rank - 1;
  const bool shared = sorted.layout.rank == 1;
  Walk<3> walk;
  for (int d = 0; d < values.layout.rank; ++d) {
    const int64_t stride = shared || d == last ? 0 : sorted.layout.strides[d];
    walk.push(values.layout.sizes[d], {out.layout.strides[d], values.layout.strides[d], stride});
  }
  const int line_dim = sorted.layout.rank - 1;
  const int64_t n = sorted.layout.sizes[line_dim], stride = sorted.layout.strides[line_dim];
  parallel_for(walk.count, 4096, [&](int64_t begin, int64_t end) {
    Cursor<3> at(walk, begin);
    for (int64_t i = begin; i < end; ++i, at.next()) {
      *reinterpret_cast<int64_t*>(bytes(out) + at.offset[0]) =
          place_in(bytes(values) + at.offset[1], bytes(sorted) + at.offset[2], stride, n, right);
    }
  });
}

}  // namespace weft::cpu
