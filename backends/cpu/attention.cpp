// Attention without the matrix of all weights: blocks of scores stay in the cache between the matrix products, and the
// gradient computes them anew from log_sum_exp.
#include <weft/backends/cpu/kernels.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <weft/backends/cpu/attention_rows.hpp>
#include <weft/backends/cpu/matrix_view.hpp>
#include <weft/backends/cpu/thread_pool.hpp>

namespace weft::cpu {
namespace {

/// Queries at once; twice as many where all of them see every key and no gradient shares the cache.
constexpr int64_t query_block = 64, wide_query_block = 128;
constexpr int64_t key_block = 512;

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
  void clear(int64_t batch, int64_t head) const {
    for (int64_t i = 0; i < rows_of(view_); ++i) std::fill_n(at(batch, head, i), columns_of(view_), T{0});
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

template <class T>
struct Problem {
  Sizes z;
  GemmCode code;
  T scale;
  View mask;

  Problem(const View& q, const View& k, const View& v, const View& mask_, const AttentionSettings& s)
      : z(q, k, v, s.causal),
        code(choose_gemm<T>(std::min(z.queries, query_block), std::min(z.keys, key_block), z.depth)),
        scale(static_cast<T>(s.scale)),
        mask(mask_) {}

  ScoreBlock<T> block(T* scores, int64_t b, int64_t h, int64_t i, int64_t rows, int64_t j, int64_t columns) const {
    ScoreBlock<T> r{scores, rows, columns, columns, scale, z.causal, i - j + 1, nullptr, 0, 0};
    if (mask.data != nullptr) {
      const int64_t* s = mask.layout.strides;
      r.mask = static_cast<const char*>(mask.data) + b * s[0] + h * s[1] + i * s[2] + j * s[3];
      r.mask_row = s[2];
      r.mask_column = s[3];
    }
    return r;
  }
};

/// Results for one block of queries; `scores` holds as many rows of key_block numbers.
template <class T>
void query_block_forward(const Problem<T>& p, const Rows<T>& out, const View& log_sum_exp, const Rows<T>& q,
                         const Rows<T>& k, const Rows<T>& v, int64_t b, int64_t h, int64_t first, int64_t rows,
                         T* scores) {
  constexpr T nothing = -std::numeric_limits<T>::infinity();
  const int64_t visible = p.z.visible(first, rows);
  T top[wide_query_block], sum[wide_query_block] = {}, rescale[wide_query_block];
  std::fill_n(top, rows, nothing);
  for (int64_t j = 0; j < visible; j += key_block) {
    const int64_t columns = std::min(key_block, visible - j);
    gemm<T>(p.code, rows, columns, p.z.depth, q.matrix(b, h, first), k.matrix(b, h, j).transposed(), {}, scores,
            columns);
    softmax_block(p.block(scores, b, h, first, rows, j, columns), {top, sum, rescale});
    if (j > 0) scale_rows(rows, p.z.width, out.at(b, h, first), out.stride(), rescale);
    gemm<T>(p.code, rows, p.z.width, columns, {scores, columns, 1}, v.matrix(b, h, j),
            j > 0 ? out.addend(b, h, first) : Addend<T>{}, out.at(b, h, first), out.stride());
  }
  for (int64_t i = 0; i < rows; ++i) {
    rescale[i] = top[i] == nothing ? 0 : 1 / sum[i];
    element<T>(log_sum_exp, b, h, first + i) = top[i] == nothing ? nothing : top[i] + std::log(sum[i]);
  }
  scale_rows(rows, p.z.width, out.at(b, h, first), out.stride(), rescale);
}

/// So many tasks of a number of multiply-adds that a chunk of them is worth a thread.
int64_t tasks_per_chunk(int64_t multiplies) {
  return std::max<int64_t>((int64_t{1} << 17) / std::max<int64_t>(multiplies, 1), 1);
}

template <class T>
void forward(const View& out, const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
             const AttentionSettings& settings) {
  using Use = typename Rows<T>::Use;
  const Problem<T> p(q, k, v, mask, settings);
  const Rows<T> x(q, Use::read), y(k, Use::read), z(v, Use::read), result(out, Use::write);
  const int64_t rows = std::clamp<int64_t>(p.z.queries, 1, p.z.causal ? query_block : wide_query_block);
  const int64_t blocks = (p.z.queries + rows - 1) / rows, columns = std::min(p.z.keys, key_block);
  const int64_t chunk = tasks_per_chunk(rows * p.z.keys * (p.z.depth + p.z.width));
  parallel_for(p.z.batch * p.z.heads * blocks, chunk, [&](int64_t begin, int64_t end) {
    const Workspace scores(static_cast<size_t>(rows * columns) * sizeof(T));
    for (int64_t t = begin; t < end; ++t) {
      // The last blocks first: under a causal mask they have the most work.
      const int64_t head = t / blocks, first = (blocks - 1 - t % blocks) * rows;
      query_block_forward(p, result, log_sum_exp, x, y, z, head / p.z.heads, head % p.z.heads, first,
                          std::min(rows, p.z.queries - first), scores.as<T>());
    }
  });
  result.finish();
}

template <class T>
struct Gradient {
  const Rows<T>&dq, &dk, &dv, &g, &out, &q, &k, &v;
  const View& log_sum_exp;
};

/// What one block of queries gives to dq, and adds to dk and dv; `work` holds two blocks of scores.
template <class T>
void query_block_gradient(const Problem<T>& p, const Gradient<T>& r, int64_t b, int64_t h, int64_t first, T* work) {
  const int64_t rows = std::min(query_block, p.z.queries - first), visible = p.z.visible(first, rows);
  const int64_t depth = p.z.depth, width = p.z.width;
  T delta[query_block], lse[query_block];
  dot_rows(rows, width, r.g.at(b, h, first), r.g.stride(), r.out.at(b, h, first), r.out.stride(), delta);
  for (int64_t i = 0; i < rows; ++i) lse[i] = element<T>(r.log_sum_exp, b, h, first + i);
  const Matrix<T> g = r.g.matrix(b, h, first), q = r.q.matrix(b, h, first);
  for (int64_t j = 0; j < visible; j += key_block) {
    const int64_t columns = std::min(key_block, visible - j);
    T *weights = work, *d = work + rows * columns;
    const Matrix<T> w{weights, columns, 1}, s{d, columns, 1};
    gemm<T>(p.code, rows, columns, depth, q, r.k.matrix(b, h, j).transposed(), {}, weights, columns);
    const ScoreBlock<T> block = p.block(weights, b, h, first, rows, j, columns);
    weights_block(block, lse);
    gemm<T>(p.code, columns, width, rows, w.transposed(), g, r.dv.addend(b, h, j), r.dv.at(b, h, j), r.dv.stride());
    gemm<T>(p.code, rows, columns, width, g, r.v.matrix(b, h, j).transposed(), {}, d, columns);
    score_gradient_block(block, d, delta);
    gemm<T>(p.code, rows, depth, columns, s, r.k.matrix(b, h, j), j > 0 ? r.dq.addend(b, h, first) : Addend<T>{},
            r.dq.at(b, h, first), r.dq.stride());
    gemm<T>(p.code, columns, depth, rows, s.transposed(), q, r.dk.addend(b, h, j), r.dk.at(b, h, j), r.dk.stride());
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
  const int64_t rows = std::min(p.z.queries, query_block), columns = std::min(p.z.keys, key_block);
  const int64_t chunk = tasks_per_chunk(p.z.queries * p.z.keys * (p.z.depth + p.z.width));
  // One task a head: dk and dv sum over its blocks of queries in order.
  parallel_for(p.z.batch * p.z.heads, chunk, [&](int64_t begin, int64_t end) {
    const Workspace work(static_cast<size_t>(2 * rows * columns) * sizeof(T));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t batch = task / p.z.heads, head = task % p.z.heads;
      if (p.z.keys == 0) dx.clear(batch, head);
      dy.clear(batch, head);
      dz.clear(batch, head);
      for (int64_t first = 0; first < p.z.queries; first += query_block) {
        query_block_gradient(p, r, batch, head, first, work.as<T>());
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
