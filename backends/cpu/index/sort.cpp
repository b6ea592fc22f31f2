// Sorted lines, and positions in them. A line becomes pairs of key and position, which are sorted by radix; long lines
// by blocks in parallel that are merged. If only the first few elements are wanted, only keys that may be among them
// are sorted. A stable order is unique, so it does not depend on threads.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "../kernels.hpp"
#include "../lines.hpp"
#include "sort_loops.hpp"
#include "../thread_pool.hpp"
#include "../../../tensor/threads.hpp"

namespace weft::cpu {
namespace {

template <class Number>
struct Entry {
  Number key, position;
};

/// Lines so short that each element's place is counted, against all others.
constexpr int64_t few_elements = 32;

template <class E>
void insertion_sort(E* entries, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const E entry = entries[i];
    int64_t j = i;
    for (; j > 0 && entry.key < entries[j - 1].key; --j) entries[j] = entries[j - 1];
    entries[j] = entry;
  }
}

template <int width, class E>
void radix_passes(E* entries, E* spare, int64_t n, int bits) {
  constexpr int buckets = 1 << width, mask = buckets - 1, most = (64 + width - 1) / width;
  uint32_t counts[most][buckets];
  const int passes = (bits + width - 1) / width;
  memset(counts, 0, sizeof(counts[0]) * static_cast<size_t>(passes));
  for (int64_t i = 0; i < n; ++i) {
    for (int p = 0; p < passes; ++p) ++counts[p][entries[i].key >> (width * p) & mask];
  }
  E *from = entries, *to = spare;
  for (int p = 0; p < passes; ++p) {
    const int shift = width * p;
    if (counts[p][from->key >> shift & mask] == static_cast<uint64_t>(n)) continue;
    uint32_t next = 0;
    for (uint32_t& count : counts[p]) next += std::exchange(count, next);
    for (int64_t i = 0; i < n; ++i) to[counts[p][from[i].key >> shift & mask]++] = from[i];
    std::swap(from, to);
  }
  if (from != entries) memcpy(static_cast<void*>(entries), from, static_cast<size_t>(n) * sizeof(E));
}

/// Sorts fewer than 2^32 entries by the low `bits` of the keys; `spare` has room for n more.
template <class E>
void radix_sort(E* entries, E* spare, int64_t n, int bits) {
  constexpr int64_t few = 40, many = 1024, most = 65536;  // between these counts of 11 bits pay off
  if (n <= few) return insertion_sort(entries, n);
  if (n >= many && n <= most && (bits + 10) / 11 < (bits + 7) / 8) return radix_passes<11>(entries, spare, n, bits);
  radix_passes<8>(entries, spare, n, bits);
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
void sort_long(E* entries, E* spare, int64_t n, int bits) {
  constexpr int64_t worthwhile = 65536, piece = 16384;
  int64_t blocks = 1;
  while (blocks < num_threads() && blocks < 64 && n / (2 * blocks) >= worthwhile / 2) blocks *= 2;
  while (n / blocks >= INT64_C(0xffffffff)) blocks *= 2;
  if (blocks == 1) return radix_sort(entries, spare, n, bits);
  const int64_t size = (n + blocks - 1) / blocks;
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * size;
      radix_sort(entries + first, spare + first, std::min(size, n - first), bits);
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

/// A line and its keys, inverted where it is to descend.
template <class T>
struct Line {
  using Key = Unsigned<sizeof(T)>;
  const char* data;
  int64_t stride, n;
  Key* keys;
  bool descending;

  /// The element at `position`, by its key where that tells it, since positions are far apart.
  T element(Key key, int64_t position) const {
    const Key ascending = descending ? static_cast<Key>(~key) : key;
    if (is_shared<T>(ascending)) return element_at<T>(data + position * stride);
    return element_of<T>(ascending);
  }
};

/// Where the first `count` of a sorted line and their order go; either may be null.
struct Target {
  char *out, *order;
  int64_t out_stride, order_stride, count;
};

template <class E>
void store_order(const Target& to, const E* entries) {
  for (int64_t i = 0; to.order != nullptr && i < to.count; ++i) {
    *reinterpret_cast<int64_t*>(to.order + i * to.order_stride) = static_cast<int64_t>(entries[i].position);
  }
}

/// Entries with keys relative to `lowest`. In-place sorting copies the values through `spare`.
template <class T, class E>
void store_sorted(const Target& to, const Line<T>& line, typename Line<T>::Key lowest, const E* entries, E* spare) {
  const auto element = [&](int64_t i) {
    const auto key = static_cast<typename Line<T>::Key>(entries[i].key + lowest);
    return line.element(key, static_cast<int64_t>(entries[i].position));
  };
  const auto store = [&](int64_t i, T value) { *reinterpret_cast<T*>(to.out + i * to.out_stride) = value; };
  if (to.out != line.data) {
    for (int64_t i = 0; i < to.count; ++i) store(i, element(i));
    return;
  }
  T* const values = reinterpret_cast<T*>(spare);
  for (int64_t i = 0; i < to.count; ++i) values[i] = element(i);
  for (int64_t i = 0; i < to.count; ++i) store(i, values[i]);
}

/// The first `to.count` of the n elements at these positions of the line, or of the whole line, in their order.
template <class T>
void sort_few(const KeyLoops& loops, const Line<T>& line, const Target& to, const uint32_t* positions = nullptr,
              int64_t n = 0) {
  if (positions == nullptr) n = line.n;
  const auto position = [&](int64_t i) { return positions == nullptr ? i : static_cast<int64_t>(positions[i]); };
  int32_t places[few_elements];
  typename Line<T>::Key keys[few_elements];
  for (int64_t i = 0; positions != nullptr && i < few_elements; ++i) keys[i] = i < n ? line.keys[positions[i]] : 0;
  loops.ranks(places, positions == nullptr ? line.keys : keys, n);
  T values[few_elements];
  for (int64_t i = 0; i < n; ++i) {
    values[places[i]] = element_at<T>(line.data + position(i) * line.stride);
    if (to.order == nullptr || places[i] >= to.count) continue;
    *reinterpret_cast<int64_t*>(to.order + places[i] * to.order_stride) = position(i);
  }
  for (int64_t i = 0; to.out != nullptr && i < to.count; ++i) {
    *reinterpret_cast<T*>(to.out + i * to.out_stride) = values[i];
  }
}

/// How many bits a number takes.
int bits_of(uint64_t number) { return 64 - std::countl_zero(number); }

/// A key without a position.
template <class Number>
struct Bare {
  Number key;
};

/// Whether integers of few different keys were sorted by counting them; equal ones are the same.
template <class T>
bool sort_by_counting(const Line<T>& line, const Target& to, void* scratch) {
  using Key = typename Line<T>::Key;
  const auto key = [&](int64_t i) {
    const Key ascending = sort_key(element_at<T>(line.data + i * line.stride));
    return line.descending ? static_cast<Key>(~ascending) : ascending;
  };
  Key lowest = key(0), highest = lowest;
  for (int64_t i = 1; i < line.n; ++i) {
    const Key here = key(i);
    lowest = std::min(lowest, here);
    highest = std::max(highest, here);
  }
  const auto range = static_cast<uint64_t>(static_cast<Key>(highest - lowest));
  constexpr uint64_t few = 65536;  // counts that fit the cache
  if (range >= few || range >= static_cast<uint64_t>(line.n)) return false;
  int64_t* const counts = static_cast<int64_t*>(scratch);
  std::fill_n(counts, range + 1, int64_t{0});
  for (int64_t i = 0; i < line.n; ++i) ++counts[static_cast<Key>(key(i) - lowest)];
  int64_t i = 0;
  for (uint64_t k = 0; k <= range; ++k) {
    const T value = line.element(static_cast<Key>(k + lowest), 0);
    for (const int64_t end = i + counts[k]; i < end; ++i) *reinterpret_cast<T*>(to.out + i * to.out_stride) = value;
  }
  return true;
}

/// Sorts integers by their keys alone.
template <class Number, class T>
void sort_values(const Line<T>& line, typename Line<T>::Key lowest, int bits, const Target& to, void* scratch) {
  using E = Bare<Number>;
  E *const entries = static_cast<E*>(scratch), *const spare = entries + line.n;
  for (int64_t i = 0; i < line.n; ++i) entries[i].key = static_cast<Number>(line.keys[i] - lowest);
  sort_long(entries, spare, line.n, bits);
  for (int64_t i = 0; i < line.n; ++i) {
    const auto key = static_cast<typename Line<T>::Key>(entries[i].key + lowest);
    *reinterpret_cast<T*>(to.out + i * to.out_stride) = line.element(key, 0);
  }
}

/// Sorts by the keys' difference from the lowest of them, which has so many bits.
template <class E, class T>
void sort_line(const Line<T>& line, typename Line<T>::Key lowest, int bits, const Target& to, void* scratch) {
  E *const entries = static_cast<E*>(scratch), *const spare = entries + line.n;
  using Number = decltype(E::key);
  for (int64_t i = 0; i < line.n; ++i) {
    entries[i] = {static_cast<Number>(line.keys[i] - lowest), static_cast<Number>(i)};
  }
  sort_long(entries, spare, line.n, bits);
  store_order(to, entries);
  if (to.out != nullptr) store_sorted<T>(to, line, lowest, entries, spare);
}

/// So many groups of keys that few are as low as the k lowest of the groups' lowest ones.
int64_t groups_for(int64_t k) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(32, 2 * k))));
}

/// Brings the key that belongs at count - 1 there, and lower ones before it.
template <class Key>
void order_first(const KeyLoops& loops, Key* keys, int64_t count, int64_t n) {
  if (n > few_elements) return std::nth_element(keys, keys + count - 1, keys + n);
  int32_t places[few_elements];
  Key sorted[few_elements];
  loops.ranks(places, keys, n);
  for (int64_t i = 0; i < n; ++i) sorted[places[i]] = keys[i];
  std::copy_n(sorted, n, keys);
}

/// The first `to.count` of the sorted line. The lowest key of each group bounds how high these are.
template <class E, class T>
void select_line(const KeyLoops& loops, const Line<T>& line, const Target& to, void* scratch) {
  using Key = typename Line<T>::Key;
  const int64_t groups = groups_for(to.count);
  Key* const least = static_cast<Key*>(scratch);
  loops.lowest(least, groups, line.keys, line.n);
  order_first(loops, least, to.count, groups);
  const Key limit = least[to.count - 1], lowest = *std::min_element(least, least + to.count);
  E* const entries = static_cast<E*>(scratch);
  uint32_t* const positions = reinterpret_cast<uint32_t*>(entries + 2 * line.n);
  const int64_t n = loops.up_to(positions, limit, line.keys, line.n);
  if (n <= few_elements) return sort_few(loops, line, to, positions, n);
  using Number = decltype(E::key);
  for (int64_t i = 0; i < n; ++i) {
    entries[i] = {static_cast<Number>(line.keys[positions[i]] - lowest), static_cast<Number>(positions[i])};
  }
  radix_sort(entries, entries + n, n, bits_of(static_cast<Key>(limit - lowest)));
  store_order(to, entries);
  if (to.out != nullptr) store_sorted<T>(to, line, lowest, entries, entries + n);
}

/// Bytes that sorting a line takes, or selecting from it.
int64_t line_room(int64_t n, int64_t item, bool selects) {
  const bool wide = item == 8 || n >= INT64_C(0xffffffff);
  const auto entry = static_cast<int64_t>(wide ? sizeof(Entry<uint64_t>) : sizeof(Entry<uint32_t>));
  return key_room(n, item) + n * (2 * entry + (selects ? static_cast<int64_t>(sizeof(uint32_t)) : 0));
}

template <class T>
void sort_elements(const char* from, int64_t stride, int64_t n, bool descending, const Target& to, char* room) {
  using Key = typename Line<T>::Key;
  Line<T> line = {from, stride, n, reinterpret_cast<Key*>(room), descending};
  char* const scratch = room + key_room(n, sizeof(T));
  const bool values_alone = std::is_integral_v<T> && to.order == nullptr && to.count == n;
  if constexpr (std::is_integral_v<T>) {
    if (values_alone && sort_by_counting(line, to, scratch)) return;
  }
  const KeyLoops& loops = key_loops(dtype_of<T>());
  read_keys<T>(line.keys, from, stride, n, descending);
  if (n <= few_elements) return sort_few(loops, line, to);
  const bool short_line = n < INT64_C(0xffffffff);
  if (short_line && 2 * groups_for(to.count) <= n) {
    return select_line<Entry<std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>>(loops, line, to, scratch);
  }
  const KeyRange range = loops.range(line.keys, n);
  const Key lowest = static_cast<Key>(range.lowest);
  const int bits = bits_of(range.highest - range.lowest);
  const bool narrow = bits <= 32 && short_line;
  if constexpr (std::is_integral_v<T>) {
    if (values_alone && narrow) return sort_values<uint32_t>(line, lowest, bits, to, scratch);
    if (values_alone) return sort_values<uint64_t>(line, lowest, bits, to, scratch);
  }
  if (narrow) sort_line<Entry<uint32_t>>(line, lowest, bits, to, scratch);
  else sort_line<Entry<uint64_t>>(line, lowest, bits, to, scratch);
}

/// How many elements of a sorted line have a key below `key`, or not above it.
template <class T>
int64_t place(const char* line, int64_t stride, int64_t n, Unsigned<sizeof(T)> key, bool right) {
  const auto beyond = [&](int64_t i) {
    const auto middle = sort_key(element_at<T>(line + i * stride));
    return right ? middle <= key : middle < key;
  };
  // The steps of KeyLoops::places, so that lines that are not sorted give the same there.
  int64_t first = 0;
  for (; n > 1; n -= n / 2) first += beyond(first + n / 2 - 1) ? n / 2 : 0;
  return first + (n == 1 && beyond(first) ? 1 : 0);
}

template <class T>
int64_t place_of(const char* value, const char* line, int64_t stride, int64_t n, bool right) {
  return place<T>(line, stride, n, sort_key(element_at<T>(value)), right);
}

/// Contiguous values, searched in a few common sorted ones.
bool search_list(const View& out, const View& sorted, const View& values, bool right) {
  constexpr int64_t few = 4096, block = 512;
  const int64_t count = sorted.layout.numel, item = itemsize(sorted.layout.dtype);
  const bool lie_as_one = sorted.layout.contiguous && values.layout.contiguous && out.layout.contiguous;
  if (sorted.layout.rank != 1 || count > few || values.layout.numel < count || !lie_as_one) return false;
  const KeyLoops& loops = key_loops(sorted.layout.dtype);
  const Scratch line(count * item);
  loops.read(line.as<char>(), sorted.data, count, false);
  parallel_for(values.layout.numel, 8 * few, [&](int64_t begin, int64_t end) {
    uint64_t keys[block];
    for (int64_t i = begin; i < end; i += block) {
      const int64_t n = std::min(block, end - i);
      loops.read(keys, bytes(values) + i * item, n, false);
      loops.places(static_cast<int64_t*>(out.data) + i, line.as<char>(), count, keys, n, right);
    }
  });
  return true;
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
  const int64_t n = x.layout.sizes[dim], item = itemsize(x.layout.dtype);
  const View& first = out.data == nullptr ? order : out;
  const int64_t count = first.layout.sizes[dim];
  if (count == 0) return;
  parallel_for(walk.count, rows_per_chunk(8 * n), [&](int64_t begin, int64_t end) {
    const Scratch scratch(line_room(n, item, count < n));
    Cursor<3> at(walk, begin);
    for (int64_t row = begin; row < end; ++row, at.next()) {
      const Target to = {out.data == nullptr ? nullptr : bytes(out) + at.offset[1],
                         order.data == nullptr ? nullptr : bytes(order) + at.offset[2], stride(out, dim),
                         stride(order, dim), count};
      sort_row(bytes(x) + at.offset[0], x.layout.strides[dim], n, descending, to, scratch.as<char>());
    }
  });
}

void searchsorted(const View& out_view, const View& sorted, const View& values_view, bool right) {
  decltype(&place_of<float>) place_in = nullptr;
  with_computable("searchsorted", sorted, [&](auto zero) { place_in = place_of<decltype(zero)>; });
  if (values_view.layout.numel == 0) return;
  const View out = at_least_1d(out_view), values = at_least_1d(values_view);
  if (search_list(out, sorted, values, right)) return;
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
