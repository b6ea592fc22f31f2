// Attention in tiles of queries and keys: scores lie in a group's memory alone, and the gradient computes them anew
// from log_sum_exp. Every sum goes over its terms in one order, so that no result depends on a race.
#pragma once

#include "tile.hpp"

namespace weft::portable {

/// A tile of scores has 16 T queries and keys.
template <class C>
struct AttentionTile;
template <>
struct AttentionTile<float> {
  enum { size = attention_edge_f32 / int(tile_edge) };
};
#if defined(WEFT_HAS_DOUBLE) || defined(__CUDACC__)
template <>
struct AttentionTile<double> {
  enum { size = attention_edge_f64 / int(tile_edge) };
};
#endif

/// What a group computes: columns from `column` on of the rows from `first` on of one head's result.
struct AttentionGroup {
  int64_t batch, head, first, column;
  bool active;
};
/// `rows` are queries or keys. The last first where `backwards`: under a causal mask the last queries have most work.
WEFT_DEVICE AttentionGroup attention_group(const Attention& plan, int64_t rows, int edge, bool backwards) {
  const int64_t blocks = (rows + edge - 1) / edge, number = tile_number();
  const int64_t head = number / blocks, block = number - head * blocks;
  AttentionGroup group;
  group.batch = head / plan.heads;
  group.head = head - group.batch * plan.heads;
  group.first = (backwards ? blocks - 1 - block : block) * edge;
  group.column = weft_group(1) * attention_columns;
  group.active = group.batch < plan.batch;
  return group;
}

WEFT_DEVICE int64_t head_offset(const Heads& heads, const AttentionGroup& group) {
  return group.batch * heads.batch + group.head * heads.head;
}
/// One head's rows, or its columns as rows.
template <class C>
WEFT_DEVICE StridedRows<C> head_rows(In data, const Heads& heads, const AttentionGroup& group, int64_t rows,
                                     int64_t columns) {
  const StridedRows<C> all = {data + head_offset(heads, group), rows, heads.row, columns, heads.column, heads.dtype};
  return all;
}
template <class C>
WEFT_DEVICE StridedRows<C> columns_of(const StridedRows<C>& rows) {
  const StridedRows<C> all = {rows.data, rows.depth, rows.step, rows.rows, rows.row_step, rows.dtype};
  return all;
}

/// What makes scores of one head's products of queries and keys.
template <class C>
struct Scoring {
  In mask;
  C scale;
  bool has_mask, causal;
  int64_t queries, keys, row, column;

  WEFT_DEVICE C score(C product, int64_t query, int64_t key) const {
    if (query >= queries || key >= keys || (causal && key > query)) return Limits<C>::lowest();
    const C scaled = product * scale;
    return has_mask ? scaled + peek<C>(mask + query * row + key * column) : scaled;
  }
};
template <class C>
WEFT_DEVICE Scoring<C> scoring_of(In mask, const Attention& plan, const AttentionGroup& group, C scale) {
  Scoring<C> s;
  s.mask = mask + (plan.has_mask ? head_offset(plan.mask, group) : 0);
  s.scale = scale;
  s.has_mask = plan.has_mask != 0;
  s.causal = plan.causal != 0;
  s.queries = plan.queries;
  s.keys = plan.keys;
  s.row = plan.mask.row;
  s.column = plan.mask.column;
  return s;
}

template <class C, int T>
WEFT_DEVICE void put_weights(WEFT_LOCAL C* weights, const C (&x)[T][T]) {
  for (int i = 0; i < T; ++i) {
    for (int j = 0; j < T; ++j) weights[tile_column(j) * (tile_edge * T + 1) + tile_row(i)] = x[i][j];
  }
}

/// What a work-item has of a group's result: T x T of its numbers in each of W tiles that lie side by side.
template <class C, int T>
struct ResultTiles {
  enum { W = attention_columns / (tile_edge * T) };
  C sum[W][T][T];

  WEFT_DEVICE void clear() {
    for (int w = 0; w < W; ++w) clear_tile<C, T>(sum[w]);
  }
  WEFT_DEVICE void scale_row(int i, C factor) {
    for (int w = 0; w < W; ++w) {
      for (int j = 0; j < T; ++j) sum[w][i][j] = factor == 0 ? 0 : sum[w][i][j] * factor;
    }
  }
  /// Adds the weights times the rows of `columns`' operand from `begin` on; every work-item has put its weights.
  WEFT_DEVICE void add(const WEFT_LOCAL C* weights, const StridedRows<C>& columns, int64_t first_column, int64_t begin,
                       WEFT_LOCAL C* right) {
    WEFT_UNROLL
    for (int w = 0; w < W; ++w) {
      if (first_column + w * tile_edge * T >= columns.rows) continue;
      TileReader<C, T, StridedRows<C>> reader;
      reader.start(columns, first_column + w * tile_edge * T);
      for (int p = 0; p < tile_edge * T && begin + p < columns.depth; p += tile_edge) {
        reader.read(right, columns, begin + p);
        weft_barrier();
        add_products<C, T>(sum[w], weights + p * (tile_edge * T + 1), right);
        weft_barrier();
      }
    }
  }
  /// By way of the tile in shared memory, so that the stores are compiled once.
  WEFT_DEVICE void put(Out out, const Heads& heads, const AttentionGroup& group, int64_t rows, int64_t columns,
                       WEFT_LOCAL C* shared) const {
    const Out to = out + head_offset(heads, group);
    WEFT_UNROLL
    for (int w = 0; w < W; ++w) {
      put_weights<C, T>(shared, sum[w]);
      put_own_numbers(to, heads, group, rows, columns, w * tile_edge * T, shared);
    }
  }

 private:
  static WEFT_DEVICE void put_own_numbers(Out to, const Heads& heads, const AttentionGroup& group, int64_t rows,
                                          int64_t columns, int shift, const WEFT_LOCAL C* shared) {
    for (int n = 0; n < T * T; ++n) {
      const int i = n / T, j = n % T;
      const int64_t row = group.first + tile_row(i), column = group.column + shift + tile_column(j);
      if (row >= rows || column >= columns) continue;
      Memory<C>::store(to + row * heads.row + column * heads.column, heads.dtype,
                       shared[tile_column(j) * (tile_edge * T + 1) + tile_row(i)]);
    }
  }
};

// ---- forward --------------------------------------------------------------------------------------------------------

/// The rows' softmax so far, in every work-item of a row: the largest score, and its own part of the sum.
template <class C, int T>
struct RunningSoftmax {
  C top[T], sum[T];

  WEFT_DEVICE void clear() {
    for (int i = 0; i < T; ++i) {
      top[i] = Limits<C>::lowest();
      sum[i] = 0;
    }
  }
  /// A tile of scores to weights; what the weights before are multiplied by. All work-items call it together.
  WEFT_DEVICE void take(C (&s)[T][T], C (&rescale)[T], WEFT_LOCAL C* shared) {
    for (int i = 0; i < T; ++i) {
      C largest = s[i][0];
      for (int j = 1; j < T; ++j) largest = Larger::combine(largest, s[i][j]);
      shared[at(i, weft_local(0))] = largest;
    }
    weft_barrier();
    for (int i = 0; i < T; ++i) {
      C next = top[i];
      for (int x = 0; x < tile_edge; ++x) next = Larger::combine(next, shared[at(i, x)]);
      rescale[i] = top[i] == Limits<C>::lowest() ? 0 : exp(top[i] - next);
      sum[i] = rescale[i] == 0 ? 0 : sum[i] * rescale[i];
      for (int j = 0; j < T; ++j) {
        s[i][j] = next == Limits<C>::lowest() ? 0 : exp(s[i][j] - next);
        sum[i] += s[i][j];
      }
      top[i] = next;
    }
    weft_barrier();
  }
  /// The sum of all work-items' parts. All call it together.
  WEFT_DEVICE void finish(WEFT_LOCAL C* shared) {
    for (int i = 0; i < T; ++i) shared[at(i, weft_local(0))] = sum[i];
    weft_barrier();
    for (int i = 0; i < T; ++i) {
      sum[i] = 0;
      for (int x = 0; x < tile_edge; ++x) sum[i] += shared[at(i, x)];
    }
  }

 private:
  static WEFT_DEVICE int at(int i, int x) { return x * (tile_edge * T + 1) + tile_row(i); }
};

template <class C, int T>
WEFT_DEVICE void attention_tile(Out out, Out log_sum_exp, In q, In k, In v, In mask, const Attention& plan, C scale,
                                WEFT_LOCAL C* left, WEFT_LOCAL C* right, WEFT_LOCAL C* weights) {
  enum { edge = tile_edge * T };
  const AttentionGroup group = attention_group(plan, plan.queries, edge, plan.causal != 0);
  if (!group.active) return;
  const StridedRows<C> queries = head_rows<C>(q, plan.q, group, plan.queries, plan.depth);
  const StridedRows<C> keys = head_rows<C>(k, plan.k, group, plan.keys, plan.depth);
  const StridedRows<C> values = columns_of(head_rows<C>(v, plan.v, group, plan.keys, plan.width));
  const Scoring<C> scoring = scoring_of<C>(mask, plan, group, scale);
  const int64_t seen = plan.causal && group.first + edge < plan.keys ? group.first + edge : plan.keys;
  ResultTiles<C, T> result;
  RunningSoftmax<C, T> softmax;
  result.clear();
  softmax.clear();
  for (int64_t key = 0; key < seen; key += edge) {
    C s[T][T], rescale[T];
    multiply_rows<C, T>(s, queries, keys, group.first, key, 0, plan.depth, left, right);
    for (int i = 0; i < T; ++i) {
      for (int j = 0; j < T; ++j) s[i][j] = scoring.score(s[i][j], group.first + tile_row(i), key + tile_column(j));
    }
    softmax.take(s, rescale, left);
    put_weights<C, T>(weights, s);
    for (int i = 0; i < T; ++i) result.scale_row(i, rescale[i]);
    result.add(weights, values, group.column, key, right);
  }
  softmax.finish(left);
  for (int i = 0; i < T; ++i) {
    const bool blind = softmax.top[i] == Limits<C>::lowest();
    result.scale_row(i, blind ? 0 : 1 / softmax.sum[i]);
    const int64_t query = group.first + tile_row(i);
    if (weft_group(1) != 0 || weft_local(0) != 0 || query >= plan.queries) continue;
    poke<C>(log_sum_exp + head_offset(plan.log_sum_exp, group) + query * plan.log_sum_exp.row,
            blind ? softmax.top[i] : softmax.top[i] + log(softmax.sum[i]));
  }
  result.put(out, plan.out, group, plan.queries, plan.width, weights);
}

// ---- gradient -------------------------------------------------------------------------------------------------------

struct AttentionInputs {
  In q, k, v, g, log_sum_exp, delta, mask;
};

/// One head's operands and what the weights are made of.
template <class C>
struct AttentionHead {
  StridedRows<C> q, k, v, g;
  Scoring<C> scoring;
  In log_sum_exp, delta;
  int64_t log_sum_exp_step, delta_step;

  /// exp(score - log_sum_exp) from the product of the query and the key.
  WEFT_DEVICE C weight(C product, int64_t query, int64_t key) const {
    if (query >= scoring.queries) return 0;
    const C lse = peek<C>(log_sum_exp + query * log_sum_exp_step);
    return lse == Limits<C>::lowest() ? 0 : exp(scoring.score(product, query, key) - lse);
  }
  /// The gradient of the product from the weight and from that of the weight; a weight of 0 passes nothing on.
  WEFT_DEVICE C gradient(C weight, C d, int64_t query) const {
    if (weight == 0) return 0;
    return weight * (d - peek<C>(delta + query * delta_step)) * scoring.scale;
  }
};
template <class C>
WEFT_DEVICE AttentionHead<C> attention_head(const AttentionInputs& in, const Attention& plan,
                                            const AttentionGroup& group, C scale) {
  AttentionHead<C> head;
  head.q = head_rows<C>(in.q, plan.q, group, plan.queries, plan.depth);
  head.k = head_rows<C>(in.k, plan.k, group, plan.keys, plan.depth);
  head.v = head_rows<C>(in.v, plan.v, group, plan.keys, plan.width);
  head.g = head_rows<C>(in.g, plan.g, group, plan.queries, plan.width);
  head.scoring = scoring_of<C>(in.mask, plan, group, scale);
  head.log_sum_exp = in.log_sum_exp + head_offset(plan.log_sum_exp, group);
  head.delta = in.delta + head_offset(plan.delta, group);
  head.log_sum_exp_step = plan.log_sum_exp.row;
  head.delta_step = plan.delta.row;
  return head;
}

/// dq = ds k, by rows of queries.
template <class C, int T>
WEFT_DEVICE void query_gradient_tile(Out dq, const AttentionInputs& in, const Attention& plan, C scale,
                                     WEFT_LOCAL C* left, WEFT_LOCAL C* right, WEFT_LOCAL C* weights) {
  enum { edge = tile_edge * T };
  const AttentionGroup group = attention_group(plan, plan.queries, edge, plan.causal != 0);
  if (!group.active) return;
  const AttentionHead<C> head = attention_head<C>(in, plan, group, scale);
  const StridedRows<C> key_columns = columns_of(head.k);
  const int64_t seen = plan.causal && group.first + edge < plan.keys ? group.first + edge : plan.keys;
  ResultTiles<C, T> result;
  result.clear();
  for (int64_t key = 0; key < seen; key += edge) {
    C weight[T][T], d[T][T];
    multiply_rows<C, T>(weight, head.q, head.k, group.first, key, 0, plan.depth, left, right);
    multiply_rows<C, T>(d, head.g, head.v, group.first, key, 0, plan.width, left, right);
    for (int i = 0; i < T; ++i) {
      const int64_t query = group.first + tile_row(i);
      for (int j = 0; j < T; ++j) {
        d[i][j] = head.gradient(head.weight(weight[i][j], query, key + tile_column(j)), d[i][j], query);
      }
    }
    put_weights<C, T>(weights, d);
    result.add(weights, key_columns, group.column, key, right);
  }
  result.put(dq, plan.dq, group, plan.queries, plan.depth, weights);
}

/// dk = dsᵀ q and dv = wᵀ g, by rows of keys.
template <class C, int T>
WEFT_DEVICE void key_gradient_tile(Out dk, Out dv, const AttentionInputs& in, const Attention& plan, C scale,
                                   WEFT_LOCAL C* left, WEFT_LOCAL C* right, WEFT_LOCAL C* weights) {
  enum { edge = tile_edge * T };
  const AttentionGroup group = attention_group(plan, plan.keys, edge, false);
  if (!group.active) return;
  const AttentionHead<C> head = attention_head<C>(in, plan, group, scale);
  const StridedRows<C> query_columns = columns_of(head.q), gradient_columns = columns_of(head.g);
  ResultTiles<C, T> by_scores, by_weights;
  by_scores.clear();
  by_weights.clear();
  for (int64_t first = plan.causal ? group.first : 0; first < plan.queries; first += edge) {
    C weight[T][T], d[T][T];
    multiply_rows<C, T>(weight, head.k, head.q, group.first, first, 0, plan.depth, left, right);
    for (int i = 0; i < T; ++i) {
      for (int j = 0; j < T; ++j) {
        weight[i][j] = head.weight(weight[i][j], first + tile_column(j), group.first + tile_row(i));
      }
    }
    put_weights<C, T>(weights, weight);
    by_weights.add(weights, gradient_columns, group.column, first, right);
    multiply_rows<C, T>(d, head.v, head.g, group.first, first, 0, plan.width, left, right);
    for (int i = 0; i < T; ++i) {
      for (int j = 0; j < T; ++j) d[i][j] = head.gradient(weight[i][j], d[i][j], first + tile_column(j));
    }
    put_weights<C, T>(weights, d);
    by_scores.add(weights, query_columns, group.column, first, right);
  }
  by_scores.put(dk, plan.dk, group, plan.keys, plan.depth, weights);
  by_weights.put(dv, plan.dv, group, plan.keys, plan.width, weights);
}

}  // namespace weft::portable
