// Attention without the matrix of all weights: blocks of scores stay in the cache between the matrix products.
//
// 24 queries are processed at a time, so that a causal mask skips nearly half of the products and the scores stay in
// the cache. Keys and values are packed once for all queries of a head on a thread. log2(e) is folded into the
// scale, and the weights are powers of two.
#include "../kernels.hpp"

#include <cmath>
#include <limits>
#include <memory>

#include "attention_few.hpp"
#include "attention_problem.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {
namespace {

/// The number of queries per block: small blocks skip keys hidden by a causal mask, and keep scores in the cache.
constexpr int64_t query_block = 24;

/// Keys or values of consecutive sequences: in place or, for blocks and other dtypes, gathered.
template <class T>
class SequenceRows {
 public:
  SequenceRows(const View& view, const AttentionPlan& plan) : view_(view), block_size_(plan.block_size) {
    const bool widens = plan.sequences.data != nullptr && view.layout.dtype != dtype_of<T>();
    const bool unit = columns_of(view) <= 1 || column_bytes(view) == itemsize(view.layout.dtype);
    if (plan.blocks.data == nullptr && !(widens && unit)) rows_ = std::make_unique<Rows<T>>(view, Rows<T>::Use::read);
  }
  Matrix<T> matrix(const Sequence& s, int64_t head, std::optional<Workspace>& memory) const {
    if (rows_) return rows_->matrix(s.batch, head, s.key);
    const int64_t width = columns_of(view_);
    memory.emplace(static_cast<size_t>(std::max<int64_t>(s.keys * width, 1)) * sizeof(T));
    T* const to = memory->template as<T>();
    const int64_t* steps = view_.layout.strides;
    each_run(s, block_size_, 0, s.keys, [&](int64_t row, int64_t j, int64_t count) {
      const char* from = static_cast<const char*>(view_.data) + head * steps[1] + row * steps[2];
      widen_stored(count, width, {from, steps[2], 0, view_.layout.dtype}, to + j * width);
    });
    return {to, width, 1};
  }

 private:
  View view_;
  int64_t block_size_;
  std::unique_ptr<Rows<T>> rows_;  // null where rows are brought together
};

/// A thread's memory for the blocks of one head after another.
template <class T>
struct ForwardWork {
  Right<T> keys, values;
  Workspace scores;
  std::optional<Workspace> key_rows, value_rows;
  int64_t head = -1;

  explicit ForwardWork(const Problem<T>& p)
      : keys(p.keys, p.depth, p.queries),
        values(p.width, p.keys, p.queries),
        scores(static_cast<size_t>(query_block * score_stride(std::min(p.keys, key_block))) * sizeof(T)) {}
};

template <class T>
struct Forward {
  const Rows<T>&out, &q;
  const SequenceRows<T>&k, &v;
  const View& log_sum_exp;
};

/// Results for one block of queries of sequence number n.
template <class T>
void query_block_forward(const Problem<T>& p, const Forward<T>& r, int64_t n, const Sequence& s, int64_t head,
                         int64_t first, const ForwardWork<T>& work) {
  constexpr T nothing = -std::numeric_limits<T>::infinity(), ln2 = static_cast<T>(0.6931471805599453);
  const int64_t rows = std::min(query_block, s.queries - first), row = s.query + first;
  const KeyRange seen = p.visible(s, first, rows);
  T* scores = work.scores.template as<T>();
  T* out = r.out.at(s.batch, head, row);
  T top[query_block], sum[query_block] = {}, rescale[query_block];
  std::fill_n(top, rows, nothing);
  for (int64_t j = seen.begin; j < seen.end; j += key_block) {
    const int64_t columns = std::min(key_block, seen.end - j), stride = score_stride(columns);
    work.keys.multiply(rows, columns, p.depth, r.q.matrix(s.batch, head, row), 0, j, {}, scores, stride);
    softmax_block(p.block(scores, n, s, head, first, rows, j, columns), {top, sum, rescale});
    if (j > seen.begin) scale_rows(rows, p.width, out, r.out.stride(), rescale);
    work.values.multiply(rows, p.width, columns, {scores, stride, 1}, j, 0,
                         j > seen.begin ? r.out.addend(s.batch, head, row) : Addend<T>{}, out, r.out.stride());
  }
  for (int64_t i = 0; i < rows; ++i) {
    rescale[i] = top[i] == nothing ? 0 : 1 / sum[i];
    element<T>(r.log_sum_exp, s.batch, head, row + i) = top[i] == nothing ? nothing : top[i] * ln2 + std::log(sum[i]);
  }
  scale_rows(rows, p.width, out, r.out.stride(), rescale);
}

/// Blocks of queries that a thread takes at once: whole heads where there are many, since each packs its operands.
template <class T>
int64_t blocks_per_chunk(const Problem<T>& p, int64_t blocks) {
  constexpr int64_t enough = 16;
  const int64_t share = std::clamp<int64_t>(blocks * p.sequences * p.heads / enough, 1, blocks);
  const int64_t multiplies = std::min(p.queries, query_block) * p.keys * (p.depth + p.width);
  return std::max(share, tasks_per_chunk(multiplies));
}

template <class T>
void forward_in_blocks(const Problem<T>& p, const Forward<T>& r) {
  const int64_t blocks = (p.queries + query_block - 1) / query_block;
  parallel_for(p.sequences * p.heads * blocks, blocks_per_chunk(p, blocks), [&](int64_t begin, int64_t end) {
    ForwardWork<T> work(p);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t n = t / blocks / p.heads, head = t / blocks % p.heads, group = head / p.heads_per_group();
      // The last blocks first: under a causal mask they have the most work.
      const int64_t first = (blocks - 1 - t % blocks) * query_block;
      const Sequence s = p.sequence(n);
      if (first >= s.queries) continue;
      if (n * p.groups + group != work.head) {
        work.keys.set(s.keys, p.depth, r.k.matrix(s, group, work.key_rows).transposed());
        work.values.set(p.width, s.keys, r.v.matrix(s, group, work.value_rows));
        work.head = n * p.groups + group;
      }
      query_block_forward(p, r, n, s, head, first, work);
    }
  });
}

template <class T>
void forward(const View& out, const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
             const AttentionPlan& plan) {
  const Problem<T> p(q, k, v, mask, plan);
  if (p.heads == 0 || p.sequences == 0) return;
  const Rows<T> result(out, Rows<T>::Use::write), queries(q, Rows<T>::Use::read);
  if (has_few_queries(p, k, v)) {
    forward_by_stored_rows(p, result, log_sum_exp, queries, k, v);
  } else {
    const SequenceRows<T> keys(k, plan), values(v, plan);
    forward_in_blocks(p, Forward<T>{result, queries, keys, values, log_sum_exp});
  }
  result.finish();
}

}  // namespace

void attention(const View& out, const View& log_sum_exp, const View& q, const View& k, const View& v, const View& mask,
               const AttentionPlan& plan) {
  switch (q.layout.dtype) {
    case DType::f64:
      return forward<double>(out, log_sum_exp, q, k, v, mask, plan);
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return forward<float>(out, log_sum_exp, q, k, v, mask, plan);
    default:
      unsupported("attention", q);
  }
}

}  // namespace weft::cpu
