// Attention without the matrix of all weights: blocks of scores stay in the cache between the matrix products, and the
// gradient computes them anew from log_sum_exp.
#include "../kernels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_rows.hpp"
#include "matrix_view.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {
namespace {

/// Queries at once: few of them keep what a causal mask hides out of the products, and their scores in the cache; a
/// gradient sums over them, which pays with more.
constexpr int64_t query_block = 24, gradient_query_block = 72;
constexpr int64_t key_block = 512;
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
  void clear(int64_t batch, int64_t head, int64_t first) const {
    for (int64_t i = first; i < rows_of(view_); ++i) std::fill_n(at(batch, head, i), columns_of(view_), T{0});
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

struct Sizes {
  int64_t batch, heads, queries, keys, depth, width;  // width: of a value
  bool causal;

  Sizes(const View& q, const View& k, const View& v, bool causal_)
      : batch(q.layout.sizes[0]),
        heads(q.layout.sizes[1]),
        queries(q.layout.sizes[2]),
        keys(k.layout.sizes[2]),
        depth(q.layout.sizes[3]),
        width(v.layout.sizes[3]),
        causal(causal_) {}
  /// The keys that some of the `rows` queries from `first` on see.
  int64_t visible(int64_t first, int64_t rows) const { return causal ? std::min(keys, first + rows) : keys; }
};

/// Distance between rows of scores: a power of two of bytes would let them push each other out of the cache.
constexpr int64_t score_stride(int64_t columns) { return columns + 16; }

template <class T>
struct Problem {
  Sizes z;
  T scale;
  View mask;

  Problem(const View& q, const View& k, const View& v, const View& mask_, const AttentionSettings& s)
      : z(q, k, v, s.causal), scale(static_cast<T>(s.scale)), mask(mask_) {}

  ScoreBlock<T> block(T* scores, int64_t b, int64_t h, int64_t i, int64_t rows, int64_t j, int64_t columns) const {
    ScoreBlock<T> r{scores, rows, columns, score_stride(columns), scale, z.causal, i - j + 1, nullptr, 0, 0};
    if (mask.data != nullptr) {
      const int64_t* s = mask.layout.strides;
      r.mask = static_cast<const char*>(mask.data) + b * s[0] + h * s[1] + i * s[2] + j * s[3];
      r.mask_row = s[2];
      r.mask_column = s[3];
    }
    return r;
  }
};

/// The right operand of one head's products: packed where enough of them share it, unless it lies well already.
template <class T>
class Right {
 public:
  Right(int64_t n, int64_t k, int64_t queries) : n_(n), k_(k), shared_(queries >= least_queries_to_pack) {}
  void set(Matrix<T> b) {
    matrix_ = b;
    if (!shared_) return;
    if (b.column == 1 && b.row == n_) {
      panels_ = {b.data, 1, b.row};
      return;
    }
    if (!memory_) memory_.emplace(static_cast<size_t>(packed_size<T>(n_, k_)) * sizeof(T));
    panels_ = pack_right(n_, k_, b, memory_->template as<T>());
  }
  /// c[m, n] = start + a[m, k] · its rows from p and columns from j on.
  void multiply(int64_t m, int64_t n, int64_t k, Matrix<T> a, int64_t p, int64_t j, Addend<T> start, T* c,
                int64_t stride) const {
    if (shared_) panels_gemm(m, n, k, a, panels_.from(p, j), start, c, stride);
    else native_gemm(m, n, k, a, matrix_.from(p, j), start, c, stride);
  }

 private:
  int64_t n_, k_;
  bool shared_;
  Matrix<T> matrix_{};
  Panels<T> panels_;
  std::optional<Workspace> memory_;
};

/// A thread's memory for the blocks of one head after another.
template <class T>
struct ForwardWork {
  Right<T> keys, values;
  Workspace scores;
  int64_t head = -1;

  explicit ForwardWork(const Sizes& z)
      : keys(z.keys, z.depth, z.queries),
        values(z.width, z.keys, z.queries),
        scores(static_cast<size_t>(query_block * score_stride(std::min(z.keys, key_block))) * sizeof(T)) {}
};

template <class T>
struct Forward {
  const Rows<T>&out, &q, &k, &v;
  const View& log_sum_exp;
};

/// Results for one block of queries.
template <class T>
void query_block_forward(const Problem<T>& p, const Forward<T>& r, int64_t b, int64_t h, int64_t first,
                         const ForwardWork<T>& work) {
  constexpr T nothing = -std::numeric_limits<T>::infinity(), ln2 = static_cast<T>(0.6931471805599453);
  const int64_t rows = std::min(query_block, p.z.queries - first), visible = p.z.visible(first, rows);
  T* scores = work.scores.template as<T>();
  T* out = r.out.at(b, h, first);
  T top[query_block], sum[query_block] = {}, rescale[query_block];
  std::fill_n(top, rows, nothing);
  for (int64_t j = 0; j < visible; j += key_block) {
    const int64_t columns = std::min(key_block, visible - j), stride = score_stride(columns);
    work.keys.multiply(rows, columns, p.z.depth, r.q.matrix(b, h, first), 0, j, {}, scores, stride);
    softmax_block(p.block(scores, b, h, first, rows, j, columns), {top, sum, rescale});
    if (j > 0) scale_rows(rows, p.z.width, out, r.out.stride(), rescale);
    work.values.multiply(rows, p.z.width, columns, {scores, stride, 1}, j, 0,
                         j > 0 ? r.out.addend(b, h, first) : Addend<T>{}, out, r.out.stride());
  }
  for (int64_t i = 0; i < rows; ++i) {
    rescale[i] = top[i] == nothing ? 0 : 1 / sum[i];
    element<T>(r.log_sum_exp, b, h, first + i) = top[i] == nothing ? nothing : top[i] * ln2 + std::log(sum[i]);
  }
  scale_rows(rows, p.z.width, out, r.out.stride(), rescale);
}

/// So many tasks of a number of multiply-adds that a chunk of them is worth a thread.
int64_t tasks_per_chunk(int64_t multiplies) {
  return std::max<int64_t>((int64_t{1} << 17) / std::max<int64_t>(multiplies, 1), 1);
}

/// Blocks of queries that a thread takes at once: whole heads where there are many, since each packs its operands.
int64_t blocks_per_chunk(const Sizes& z, int64_t blocks) {
  constexpr int64_t enough = 16;
  const int64_t share = std::clamp<int64_t>(blocks * z.batch * z.heads / enough, 1, blocks);
  const int64_t multiplies = std::min(z.queries, query_block) * z.keys * (z.depth + z.width);
  return std::max(share, tasks_per_chunk(multiplies));
}

template <class T>
void forward(const View& out, const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
             const AttentionSettings& settings) {
  using Use = typename Rows<T>::Use;
  const Problem<T> p(q, k, v, mask, settings);
  const Rows<T> x(q, Use::read), y(k, Use::read), z(v, Use::read), result(out, Use::write);
  const Forward<T> r{result, x, y, z, log_sum_exp};
  const int64_t blocks = (p.z.queries + query_block - 1) / query_block;
  parallel_for(p.z.batch * p.z.heads * blocks, blocks_per_chunk(p.z, blocks), [&](int64_t begin, int64_t end) {
    ForwardWork<T> work(p.z);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t task = t / blocks, batch = task / p.z.heads, head = task % p.z.heads;
      if (task != work.head) {
        work.keys.set(y.matrix(batch, head, 0).transposed());
        work.values.set(z.matrix(batch, head, 0));
        work.head = task;
      }
      // The last blocks first: under a causal mask they have the most work.
      query_block_forward(p, r, batch, head, (blocks - 1 - t % blocks) * query_block, work);
    }
  });
  result.finish();
}

template <class T>
struct Gradient {
  const Rows<T>&dq, &dk, &dv, &g, &out, &q, &k, &v;
  const View& log_sum_exp;
};

/// A thread's memory for one head after another.
template <class T>
struct GradientWork {
  Right<T> keys, keys_transposed, values_transposed;
  int64_t block;  // numbers in one block of scores
  Workspace scores;

  explicit GradientWork(const Sizes& z)
      : keys(z.depth, z.keys, z.queries),
        keys_transposed(z.keys, z.depth, z.queries),
        values_transposed(z.keys, z.width, z.queries),
        block(std::min(z.queries, gradient_query_block) * score_stride(std::min(z.keys, key_block))),
        scores(static_cast<size_t>(2 * block) * sizeof(T)) {}
};

/// What one block of queries gives to dq, and adds to dk and dv, or writes there.
template <class T>
void query_block_gradient(const Problem<T>& p, const Gradient<T>& r, int64_t b, int64_t h, int64_t first, bool adds,
                          const GradientWork<T>& work) {
  const int64_t rows = std::min(gradient_query_block, p.z.queries - first), visible = p.z.visible(first, rows);
  const int64_t depth = p.z.depth, width = p.z.width;
  T delta[gradient_query_block], lse[gradient_query_block];
  dot_rows(rows, width, r.g.at(b, h, first), r.g.stride(), r.out.at(b, h, first), r.out.stride(), delta);
  for (int64_t i = 0; i < rows; ++i) lse[i] = element<T>(r.log_sum_exp, b, h, first + i);
  const Matrix<T> g = r.g.matrix(b, h, first), q = r.q.matrix(b, h, first);
  T *weights = work.scores.template as<T>(), *d = weights + work.block;
  for (int64_t j = 0; j < visible; j += key_block) {
    const int64_t columns = std::min(key_block, visible - j), stride = score_stride(columns);
    const Matrix<T> w{weights, stride, 1}, s{d, stride, 1};
    work.keys_transposed.multiply(rows, columns, depth, q, 0, j, {}, weights, stride);
    const ScoreBlock<T> block = p.block(weights, b, h, first, rows, j, columns);
    weights_block(block, lse);
    native_gemm(columns, width, rows, w.transposed(), g, adds ? r.dv.addend(b, h, j) : Addend<T>{}, r.dv.at(b, h, j),
                r.dv.stride());
    work.values_transposed.multiply(rows, columns, width, g, 0, j, {}, d, stride);
    score_gradient_block(block, d, delta);
    work.keys.multiply(rows, depth, columns, s, j, 0, j > 0 ? r.dq.addend(b, h, first) : Addend<T>{},
                       r.dq.at(b, h, first), r.dq.stride());
    native_gemm(columns, depth, rows, s.transposed(), q, adds ? r.dk.addend(b, h, j) : Addend<T>{}, r.dk.at(b, h, j),
                r.dk.stride());
  }
}

template <class T>
void backward(const View& dq, const View& dk, const View& dv, const View& g, const View& out, const View& log_sum_exp,
              const View& q, const View& k, const View& v, const View& mask, const AttentionSettings& settings) {
  using Use = typename Rows<T>::Use;
  const Problem<T> p(q, k, v, mask, settings);
  const Rows<T> x(q, Use::read), y(k, Use::read), z(v, Use::read), gradient(g, Use::read), result(out, Use::read);
  const Rows<T> dx(dq, Use::write), dy(dk, Use::write), dz(dv, Use::write);
  const Gradient<T> r{dx, dy, dz, gradient, result, x, y, z, log_sum_exp};
  const int64_t chunk = tasks_per_chunk(p.z.queries * p.z.keys * (p.z.depth + p.z.width));
  // The last queries see every key that any of them sees.
  const int64_t last = (p.z.queries - 1) / gradient_query_block * gradient_query_block;
  const int64_t seen = p.z.queries > 0 ? p.z.visible(last, p.z.queries - last) : 0;
  // One task a head: dk and dv sum over its blocks of queries in order.
  parallel_for(p.z.batch * p.z.heads, chunk, [&](int64_t begin, int64_t end) {
    GradientWork<T> work(p.z);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t batch = task / p.z.heads, head = task % p.z.heads;
      if (p.z.keys == 0) dx.clear(batch, head, 0);
      for (const Rows<T>* rows : {&dy, &dz}) rows->clear(batch, head, seen);
      work.keys.set(y.matrix(batch, head, 0));
      work.keys_transposed.set(y.matrix(batch, head, 0).transposed());
      work.values_transposed.set(z.matrix(batch, head, 0).transposed());
      for (int64_t first = last; first >= 0; first -= gradient_query_block) {
        query_block_gradient(p, r, batch, head, first, first < last, work);
      }
    }
  });
  dx.finish();
  dy.finish();
  dz.finish();
}

}  // namespace

void attention(const View& out, const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
               AttentionSettings settings) {
  switch (q.layout.dtype) {
    case DType::f64:
      return forward<double>(out, log_sum_exp, q, k, v, mask, settings);
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return forward<float>(out, log_sum_exp, q, k, v, mask, settings);
    default:
      unsupported("attention", q);
  }
}

void attention_gradient(const View& dq, const View& dk, const View& dv, const View& g, const View& out,
                        const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
                        AttentionSettings settings) {
  switch (q.layout.dtype) {
    case DType::f64:
      return backward<double>(dq, dk, dv, g, out, log_sum_exp, q, k, v, mask, settings);
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return backward<float>(dq, dk, dv, g, out, log_sum_exp, q, k, v, mask, settings);
    default:
      unsupported("attention_gradient", q);
  }
}

}  // namespace weft::cpu
