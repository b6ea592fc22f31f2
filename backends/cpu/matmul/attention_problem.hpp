// Shared by forward and gradient of attention on the CPU: operands, sequences, blocks of scores.
#pragma once

#include <algorithm>
#include <optional>

#include "../kernels.hpp"
#include "attention_rows.hpp"
#include "attention_stored.hpp"
#include "matrix_view.hpp"

namespace weft::cpu {

/// The number of keys in a block of scores; block starts are multiples of every panel's width.
constexpr int64_t key_block = 512, key_alignment = 64;
/// Fewer queries than this do not pay for packing keys and values.
constexpr int64_t least_queries_to_pack = 16;

/// An operand as rows of unit stride in T, a converted copy where it is not; outputs are copied back by `finish`.
template <class T>
class Rows {
 public:
  enum class Use { read, write };
  Rows(const View& view, Use use) : original_(view), view_(view) {
    const auto matrix = as_matrix<T>(view);
    if (view.layout.dtype == dtype_of<T>() && matrix && (matrix->column == 1 || rows_of(view) == 0)) return;
    if (use == Use::read) packed_.emplace(Packed::copy_of(view, dtype_of<T>()));
    else packed_.emplace(view, dtype_of<T>());
    view_ = packed_->view;
  }
  T* at(int64_t batch, int64_t head, int64_t row) const {
    const int64_t* s = view_.layout.strides;
    return reinterpret_cast<T*>(static_cast<char*>(view_.data) + batch * s[0] + head * s[1] + row * s[2]);
  }
  int64_t stride() const {
    return rows_of(view_) <= 1 ? columns_of(view_) : view_.layout.strides[2] / int64_t{sizeof(T)};
  }
  Matrix<T> matrix(int64_t batch, int64_t head, int64_t row) const { return {at(batch, head, row), stride(), 1}; }
  Addend<T> addend(int64_t batch, int64_t head, int64_t row) const { return {at(batch, head, row), stride()}; }
  void clear(int64_t batch, int64_t head, int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) std::fill_n(at(batch, head, i), columns_of(view_), T{0});
  }
  void finish() const {
    if (packed_) cpu::copy(original_, view_);
  }

 private:
  View original_, view_;
  std::optional<Packed> packed_;
};

template <class T>
T& element(const View& v, int64_t i, int64_t j, int64_t k) {
  const int64_t* s = v.layout.strides;
  return *reinterpret_cast<T*>(static_cast<char*>(v.data) + i * s[0] + j * s[1] + k * s[2]);
}

/// Where the rows of a sequence begin, and how many there are.
struct Sequence {
  int64_t batch, query, queries, key, keys;
  const int64_t* blocks;  ///< null where keys lie side by side
};
/// Keys [begin, end).
struct KeyRange {
  int64_t begin, end;
};

/// Calls f(row of the view, j, count) for contiguous runs of keys [begin, end).
template <class F>
void each_run(const Sequence& s, int64_t block_size, int64_t begin, int64_t end, F&& f) {
  if (s.blocks == nullptr) return f(s.key + begin, begin, end - begin);
  for (int64_t j = begin; j < end;) {
    const int64_t at = j % block_size, count = std::min(block_size - at, end - j);
    f(s.blocks[j / block_size] * block_size + at, j, count);
    j += count;
  }
}

/// Distance between rows of scores: a power of two of bytes would let them push each other out of the cache.
constexpr int64_t score_stride(int64_t columns) { return columns + 16; }

template <class T>
class Problem {
 public:
  int64_t sequences, heads, groups, queries, keys, depth, width;  ///< the most queries and keys; width: of a value

  Problem(const View& q, const View& k, const View& v, const View& mask, const AttentionPlan& plan)
      : sequences(q.layout.sizes[0]),
        heads(q.layout.sizes[1]),
        groups(k.layout.sizes[1]),
        queries(q.layout.sizes[2]),
        keys(k.layout.sizes[2]),
        depth(q.layout.sizes[3]),
        width(v.layout.sizes[3]),
        mask_(mask),
        plan_(plan) {
    if (plan.sequences.data == nullptr) return;
    sequences = plan.sequences.layout.sizes[0];
    queries = plan.most_queries;
    keys = plan.most_keys;
  }
  const AttentionPlan& plan() const { return plan_; }
  /// Of q, for one of k and v.
  int64_t heads_per_group() const { return heads / groups; }

  Sequence sequence(int64_t n) const {
    if (plan_.sequences.data == nullptr) return {n, 0, queries, 0, keys, nullptr};
    const int64_t* s = static_cast<const int64_t*>(plan_.sequences.data) + 4 * n;
    Sequence out{0, s[0], s[1], s[2], s[3], nullptr};
    if (plan_.blocks.data != nullptr) {
      out.blocks = static_cast<const int64_t*>(plan_.blocks.data) + n * plan_.blocks.layout.sizes[1];
    }
    return out;
  }
  /// The keys that some of `rows` queries from `first` on see; it begins with a panel.
  KeyRange visible(const Sequence& s, int64_t first, int64_t rows) const {
    const int64_t at = first + shift(s), end = std::clamp<int64_t>(at + rows + plan_.after, 0, s.keys);
    const int64_t begin = std::clamp<int64_t>(at - plan_.before, 0, end);
    return {begin / key_alignment * key_alignment, end};
  }
  /// The scores of the queries from i on and the keys from j on of sequence number n.
  ScoreBlock<T> block(T* scores, int64_t n, const Sequence& s, int64_t head, int64_t i, int64_t rows, int64_t j,
                      int64_t columns) const {
    const int64_t at = i + shift(s) - j;
    ScoreBlock<T> r{};
    r.scores = scores;
    r.rows = rows;
    r.columns = columns;
    r.stride = score_stride(columns);
    r.scale = static_cast<T>(plan_.scale);
    r.first = at - plan_.before;
    r.last = at + plan_.after + 1;
    r.distance = -at;
    r.slope = slope(n, head);
    if (mask_.data != nullptr) {
      const int64_t* steps = mask_.layout.strides;
      r.mask = static_cast<const char*>(mask_.data) + n * steps[0] + head * steps[1] + i * steps[2] + j * steps[3];
      r.mask_row = steps[2];
      r.mask_column = steps[3];
    }
    return r;
  }

 private:
  int64_t shift(const Sequence& s) const { return plan_.at_end ? s.keys - s.queries : 0; }
  T slope(int64_t n, int64_t head) const {
    if (plan_.slopes.data == nullptr) return 0;
    const int64_t* steps = plan_.slopes.layout.strides;
    return *reinterpret_cast<const T*>(static_cast<const char*>(plan_.slopes.data) + n * steps[0] + head * steps[1]);
  }

  View mask_;
  const AttentionPlan& plan_;
};

/// The right operand of one head's products: packed if enough products share it, unless its layout is already suitable.
template <class T>
class Right {
 public:
  /// For operands of up to n columns and k rows.
  Right(int64_t n, int64_t k, int64_t queries)
      : size_(packed_size<T>(n, k)), shared_(queries >= least_queries_to_pack) {}
  void set(int64_t n, int64_t k, Matrix<T> b) {
    matrix_ = b;
    if (!shared_) return;
    if (b.column == 1 && b.row == n) {
      panels_ = {b.data, 1, b.row};
      return;
    }
    if (!memory_) memory_.emplace(static_cast<size_t>(size_) * sizeof(T));
    panels_ = pack_right(n, k, b, memory_->template as<T>());
  }
  /// c[m, n] = start + a[m, k] · its rows from p and columns from j on.
  void multiply(int64_t m, int64_t n, int64_t k, Matrix<T> a, int64_t p, int64_t j, Addend<T> start, T* c,
                int64_t stride) const {
    if (shared_) panels_gemm(m, n, k, a, panels_.from(p, j), start, c, stride);
    else native_gemm(m, n, k, a, matrix_.from(p, j), start, c, stride);
  }

 private:
  int64_t size_;
  bool shared_;
  Matrix<T> matrix_{};
  Panels<T> panels_;
  std::optional<Workspace> memory_;
};

/// So many tasks of a number of multiply-adds that a chunk of them is worth a thread.
inline int64_t tasks_per_chunk(int64_t multiplies) {
  return std::max<int64_t>((int64_t{1} << 17) / std::max<int64_t>(multiplies, 1), 1);
}

}  // namespace weft::cpu
