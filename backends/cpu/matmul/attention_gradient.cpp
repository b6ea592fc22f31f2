// The gradient of attention, which computes the weights anew from log_sum_exp, block by block.
#include "../kernels.hpp"

#include "attention_problem.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {
namespace {

/// Queries at once: products sum over them, which pays with more than the forward takes.
constexpr int64_t query_block = 72;

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

  explicit GradientWork(const Problem<T>& p)
      : keys(p.depth, p.keys, p.queries),
        keys_transposed(p.keys, p.depth, p.queries),
        values_transposed(p.keys, p.width, p.queries),
        block(std::min(p.queries, query_block) * score_stride(std::min(p.keys, key_block))),
        scores(static_cast<size_t>(2 * block) * sizeof(T)) {}
};

/// Computes dq of one block of queries of sequence n, and adds to dk and dv.
template <class T>
void query_block_gradient(const Problem<T>& p, const Gradient<T>& r, int64_t n, const Sequence& s, int64_t head,
                          int64_t first, const GradientWork<T>& work) {
  const int64_t rows = std::min(query_block, s.queries - first), row = s.query + first, b = s.batch;
  const int64_t group = head / p.heads_per_group();
  const KeyRange seen = p.visible(s, first, rows);
  if (seen.begin >= seen.end) return r.dq.clear(b, head, row, row + rows);
  T delta[query_block], lse[query_block];
  dot_rows(rows, p.width, r.g.at(b, head, row), r.g.stride(), r.out.at(b, head, row), r.out.stride(), delta);
  for (int64_t i = 0; i < rows; ++i) lse[i] = element<T>(r.log_sum_exp, b, head, row + i);
  const Matrix<T> g = r.g.matrix(b, head, row), q = r.q.matrix(b, head, row);
  T *weights = work.scores.template as<T>(), *d = weights + work.block;
  for (int64_t j = seen.begin; j < seen.end; j += key_block) {
    const int64_t columns = std::min(key_block, seen.end - j), stride = score_stride(columns), key = s.key + j;
    const Matrix<T> w{weights, stride, 1}, ds{d, stride, 1};
    work.keys_transposed.multiply(rows, columns, p.depth, q, 0, j, {}, weights, stride);
    const ScoreBlock<T> block = p.block(weights, n, s, head, first, rows, j, columns);
    weights_block(block, lse);
    native_gemm(columns, p.width, rows, w.transposed(), g, r.dv.addend(b, group, key), r.dv.at(b, group, key),
                r.dv.stride());
    work.values_transposed.multiply(rows, columns, p.width, g, 0, j, {}, d, stride);
    score_gradient_block(block, d, delta);
    work.keys.multiply(rows, p.depth, columns, ds, j, 0, j > seen.begin ? r.dq.addend(b, head, row) : Addend<T>{},
                       r.dq.at(b, head, row), r.dq.stride());
    native_gemm(columns, p.depth, rows, ds.transposed(), q, r.dk.addend(b, group, key), r.dk.at(b, group, key),
                r.dk.stride());
  }
}

/// All that one head of keys and values takes part in: dk and dv sum over its heads of queries, in order.
template <class T>
void group_gradient(const Problem<T>& p, const Gradient<T>& r, int64_t n, int64_t group, GradientWork<T>& work) {
  const Sequence s = p.sequence(n);
  for (const Rows<T>* rows : {&r.dk, &r.dv}) rows->clear(s.batch, group, s.key, s.key + s.keys);
  const Matrix<T> k = r.k.matrix(s.batch, group, s.key);
  work.keys.set(p.depth, s.keys, k);
  work.keys_transposed.set(s.keys, p.depth, k.transposed());
  work.values_transposed.set(s.keys, p.width, r.v.matrix(s.batch, group, s.key).transposed());
  const int64_t blocks = (s.queries + query_block - 1) / query_block;
  for (int64_t head = group * p.heads_per_group(); head < (group + 1) * p.heads_per_group(); ++head) {
    for (int64_t i = blocks - 1; i >= 0; --i) query_block_gradient(p, r, n, s, head, i * query_block, work);
  }
}

template <class T>
void backward(const View& dq, const View& dk, const View& dv, const View& g, const View& out, const View& log_sum_exp,
              const View& q, const View& k, const View& v, const View& mask, const AttentionPlan& plan) {
  using Use = typename Rows<T>::Use;
  const Problem<T> p(q, k, v, mask, plan);
  if (p.groups == 0) return;
  const Rows<T> x(q, Use::read), y(k, Use::read), z(v, Use::read), gradient(g, Use::read), result(out, Use::read);
  const Rows<T> dx(dq, Use::write), dy(dk, Use::write), dz(dv, Use::write);
  const Gradient<T> r{dx, dy, dz, gradient, result, x, y, z, log_sum_exp};
  const int64_t chunk = tasks_per_chunk(p.heads_per_group() * p.queries * p.keys * (p.depth + p.width));
  parallel_for(p.sequences * p.groups, chunk, [&](int64_t begin, int64_t end) {
    GradientWork<T> work(p);
    for (int64_t task = begin; task < end; ++task) group_gradient(p, r, task / p.groups, task % p.groups, work);
  });
  dx.finish();
  dy.finish();
  dz.finish();
}

}  // namespace

void attention_gradient(const View& dq, const View& dk, const View& dv, const View& g, const View& out,
                        const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
                        const AttentionPlan& plan) {
  switch (q.layout.dtype) {
    case DType::f64:
      return backward<double>(dq, dk, dv, g, out, log_sum_exp, q, k, v, mask, plan);
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return backward<float>(dq, dk, dv, g, out, log_sum_exp, q, k, v, mask, plan);
    default:
      unsupported("attention_gradient", q);
  }
}

}  // namespace weft::cpu
