// Masks: counting, coordinates, compressing and expanding. The mask becomes bits, counted by chunk. The counts give
// every chunk its offset in the list of selected elements, so chunks run in parallel.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <numeric>

#include "combine.hpp"
#include "../kernels.hpp"
#include "../lines.hpp"
#include "mask_loops.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {
namespace {

/// Has -0, which is false.
bool has_negative_zero(DType t) { return t == DType::f8_e4m3fn || t == DType::f8_e5m2; }
/// Whether bytes other than 0 are true, and 0 is false.
bool is_truth_of_byte(DType t) { return itemsize(t) == 1 && !has_negative_zero(t) && t != DType::f8_e8m0fnu; }

/// n elements' truth as bytes, not 0 where they are not; a stride of 0 repeats one.
void truth_bytes(uint8_t* to, const char* from, int64_t stride, int64_t n, DType t) {
  if (itemsize(t) == 1) {
    if (stride == 1) memcpy(to, from, static_cast<size_t>(n));
    else if (stride == 0) memset(to, *from, static_cast<size_t>(n));
    else
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(from[i * stride]);
    if (has_negative_zero(t)) {
      for (int64_t i = 0; i < n; ++i) to[i] &= 0x7f;
    }
    if (t == DType::f8_e8m0fnu) memset(to, 1, static_cast<size_t>(n));  // it has no zero
    return;
  }
  if (t == DType::u16) t = DType::i16;
  if (t == DType::u32) t = DType::i32;
  if (t == DType::u64) t = DType::i64;
  int32_t block[512];
  for (int64_t i = 0; i < n; i += 512) {
    const int64_t size = std::min<int64_t>(512, n - i);
    load_truth(block, from + i * stride, stride, size, t);
    for (int64_t k = 0; k < size; ++k) to[i + k] = static_cast<uint8_t>(block[k]);
  }
}

/// Calls body(offset, position, n) for the parts of lines that make up [begin, end); `lines` walks all but `n` of each.
template <int N, class F>
void for_lines(const Walk<N>& lines, const int64_t (&step)[N], int64_t n, int64_t begin, int64_t end, F&& body) {
  Cursor<N> at(lines, begin / n);
  for (int64_t position = begin, j = begin % n; position < end; j = 0, at.next()) {
    const int64_t size = std::min(n - j, end - position);
    body(at.offset[0] + j * step[0], position, size);
    position += size;
  }
}

/// The bits of elements that come in runs of any length, in row-major order.
class Truth {
 public:
  explicit Truth(const View& x) : x_(x), loops_(mask_loops()) {
    const Layout* const layouts[] = {&x.layout};
    walk_ = walk_of(layouts, 0, x.layout.rank);
    length_ = walk_.pop(step_);
    direct_ = walk_.count == 1 && step_[0] == 1 && is_truth_of_byte(x.layout.dtype);
  }
  /// Those of [begin, end).
  void bits(uint64_t* words, int64_t begin, int64_t end) const {
    if (direct_) return loops_.bits(words, reinterpret_cast<const uint8_t*>(bytes(x_)) + begin, end - begin);
    constexpr int64_t block = 2048;
    alignas(64) uint8_t truth[block];
    for (int64_t first = begin; first < end; first += block) {
      const int64_t last = std::min(first + block, end);
      for_lines(walk_, step_, length_, first, last, [&](int64_t offset, int64_t position, int64_t n) {
        truth_bytes(truth + (position - first), bytes(x_) + offset, step_[0], n, x_.layout.dtype);
      });
      loops_.bits(words + (first - begin) / 64, truth, last - first);
    }
  }

 private:
  const View& x_;
  const MaskLoops& loops_;
  Walk<1> walk_;
  int64_t step_[1], length_;
  bool direct_;
};

int64_t ones(const uint64_t* words, int64_t n) {
  int64_t count = 0;
  for (int64_t w = 0; w < (n + 63) / 64; ++w) count += std::popcount(words[w]);
  return count;
}

constexpr int log2_size(int64_t item) { return std::countr_zero(static_cast<uint64_t>(item)); }

/// The elements of a tensor beside its mask, as lines along the innermost dimension.
struct Lines {
  Walk<1> walk;
  int64_t step[1], length;
  bool dense;

  explicit Lines(const View& x) {
    const Layout* const layouts[] = {&x.layout};
    walk = walk_of(layouts, 0, x.layout.rank);
    length = walk.pop(step);
    dense = step[0] == itemsize(x.layout.dtype);
  }
  bool flat() const { return dense && walk.count == 1; }
  /// Calls body(offset, bits, n) for at most 64 elements of a line at a time; nothing for those without a bit.
  template <class F>
  void for_words(const MaskBits& mask, int64_t begin, int64_t end, F&& body) const {
    for_lines(walk, step, length, begin, end, [&](int64_t offset, int64_t position, int64_t n) {
      for (int64_t i = 0; i < n; i += 64) {
        const int64_t size = std::min<int64_t>(64, n - i);
        const uint64_t bits = mask.bits(position + i, size);
        if (bits != 0) body(offset + i * step[0], bits, size);
      }
    });
  }
};

}  // namespace

MaskBits::MaskBits(const View& mask) : numel_(mask.layout.numel), words_(small_words_), before_(small_before_) {
  const int64_t chunks = (numel_ + chunk - 1) / chunk;
  if (numel_ > small) {
    const int64_t words = (numel_ + 63) / 64;
    words_ = static_cast<uint64_t*>(::operator new(static_cast<size_t>(words + chunks + 1) * 8));
    before_ = reinterpret_cast<int64_t*>(words_ + words);
  }
  before_[0] = 0;
  const Truth truth(mask);
  parallel_for(numel_, chunk, [&](int64_t begin, int64_t end) {
    uint64_t* const words = words_ + begin / 64;
    truth.bits(words, begin, end);
    before_[begin / chunk + 1] = ones(words, end - begin);
  });
  std::partial_sum(before_, before_ + chunks + 1, before_);
}
MaskBits::~MaskBits() {
  if (words_ != small_words_) ::operator delete(words_);
}

uint64_t MaskBits::bits(int64_t position, int64_t n) const {
  const int64_t word = position / 64, shift = position % 64;
  uint64_t bits = words_[word] >> shift;
  if (shift + n > 64) bits |= words_[word + 1] << (64 - shift);
  return n == 64 ? bits : bits & ((uint64_t{1} << n) - 1);
}

int64_t count_nonzero(const View& x) {
  const Truth truth(x);
  std::atomic<int64_t> count = 0;
  parallel_for(x.layout.numel, 4 * MaskBits::chunk, [&](int64_t begin, int64_t end) {
    constexpr int64_t block = 4096;
    uint64_t words[block / 64];
    int64_t mine = 0;
    for (int64_t i = begin; i < end; i += block) {
      const int64_t last = std::min(i + block, end);
      truth.bits(words, i, last);
      mine += ones(words, last - i);
    }
    count.fetch_add(mine, std::memory_order_relaxed);
  });
  return count.load(std::memory_order_relaxed);
}

void nonzero(const View& out, const View& x) {
  const int rank = x.layout.rank;
  if (rank == 0 || out.layout.numel == 0) return;
  const MaskBits mask(x);
  const MaskLoops& loops = mask_loops();
  const int64_t row_step = out.layout.strides[0], column_step = out.layout.strides[1];
  const int64_t n = x.layout.sizes[rank - 1];
  parallel_for(mask.numel(), MaskBits::chunk, [&](int64_t begin, int64_t end) {
    const int64_t* const before = mask.before() + begin / MaskBits::chunk;
    char* to = bytes(out) + before[0] * row_step;
    if (rank == 1 && row_step == 8) {
      auto* const list = reinterpret_cast<int64_t*>(to);
      loops.positions(list, list + (before[1] - before[0]), begin, mask.words(begin), end - begin);
      return;
    }
    constexpr int64_t block = 1024;
    int64_t positions[block + 128], line = begin - begin % n, coordinates[max_rank];
    const auto locate = [&] {
      for (int64_t d = rank - 2, rest = line / n; d >= 0; --d) {
        coordinates[d] = rest % x.layout.sizes[d];
        rest /= x.layout.sizes[d];
      }
    };
    locate();
    for (int64_t i = begin; i < end; i += block) {
      const int64_t size = std::min(block, end - i);
      const int64_t* const last = loops.positions(positions, positions + block + 128, i, mask.words(i), size);
      for (const int64_t* p = positions; p != last; ++p, to += row_step) {
        if (*p - line >= n) {
          line = *p - *p % n;
          locate();
        }
        char* column = to;
        for (int d = 0; d < rank - 1; ++d, column += column_step) *reinterpret_cast<int64_t*>(column) = coordinates[d];
        *reinterpret_cast<int64_t*>(column) = *p - line;
      }
    }
  });
}

void masked_select(const View& out, const View& x, const View& mask_view) {
  if (out.layout.numel == 0) return;
  const MaskBits mask(mask_view);
  const int64_t item = itemsize(out.layout.dtype);
  const auto compress = mask_loops().compress[log2_size(item)];
  const Lines lines(x);
  parallel_for(mask.numel(), MaskBits::chunk, [&](int64_t begin, int64_t end) {
    const int64_t* const before = mask.before() + begin / MaskBits::chunk;
    if (before[0] == before[1]) return;
    char* to = bytes(out) + before[0] * item;
    const char* const room = bytes(out) + before[1] * item;
    if (lines.flat()) {
      compress(to, room, bytes(x) + begin * item, mask.words(begin), end - begin);
    } else if (lines.dense) {
      lines.for_words(mask, begin, end, [&](int64_t offset, uint64_t bits, int64_t n) {
        to = compress(to, room, bytes(x) + offset, &bits, n);
      });
    } else {
      with_item(item, [&](auto word) {
        using Word = decltype(word);
        lines.for_words(mask, begin, end, [&](int64_t offset, uint64_t bits, int64_t) {
          for (; bits != 0; bits &= bits - 1, to += sizeof(Word)) {
            memcpy(to, bytes(x) + offset + std::countr_zero(bits) * lines.step[0], sizeof(Word));
          }
        });
      });
    }
  });
}

void masked_scatter(const View& out, const View& mask_view, const View& source) {
  if (out.layout.numel == 0) return;
  const MaskBits mask(mask_view);
  const int64_t item = itemsize(out.layout.dtype);
  const auto expand = mask_loops().expand[log2_size(item)];
  const Lines lines(out);
  parallel_for(mask.numel(), MaskBits::chunk, [&](int64_t begin, int64_t end) {
    const int64_t* const before = mask.before() + begin / MaskBits::chunk;
    if (before[0] == before[1]) return;
    const char* from = bytes(source) + before[0] * item;
    const char* const room = bytes(source) + source.layout.numel * item;
    if (lines.flat()) {
      expand(bytes(out) + begin * item, from, room, mask.words(begin), end - begin);
    } else if (lines.dense) {
      lines.for_words(mask, begin, end, [&](int64_t offset, uint64_t bits, int64_t n) {
        from = expand(bytes(out) + offset, from, room, &bits, n);
      });
    } else {
      with_item(item, [&](auto word) {
        using Word = decltype(word);
        lines.for_words(mask, begin, end, [&](int64_t offset, uint64_t bits, int64_t) {
          for (; bits != 0; bits &= bits - 1, from += sizeof(Word)) {
            memcpy(bytes(out) + offset + std::countr_zero(bits) * lines.step[0], from, sizeof(Word));
          }
        });
      });
    }
  });
}

}  // namespace weft::cpu
