// Attention in tiles of queries and keys: scores exist only in a group's memory, and the gradient recomputes them from
// log_sum_exp. Every sum has a fixed order, so no result depends on a race.
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

/// The work of a group: columns from `column` on of the rows from `first` on of one head's result, and the location of
/// the rows of its sequence.
struct AttentionGroup {
  int64_t sequence, batch, head, key_head, first, column, piece;
  int64_t query_row, queries, key_row, keys, shift;
};
/// `rows` are queries or keys. The last first where `backwards`: under a causal mask the last queries have most work.
WEFT_DEVICE AttentionGroup attention_group(const Attention& plan, In sequences, int64_t rows, int64_t heads, int edge,
                                           bool backwards) {
  const int64_t blocks = (rows + edge - 1) / edge, tile = tile_number(), number = tile / plan.pieces;
  const int64_t line = number / blocks, block = number - line * blocks;
  AttentionGroup group;
  group.sequence = line / heads;
  const int64_t head = line - group.sequence * heads;
  group.head = head;
  group.key_head = heads == plan.key_heads ? head : head / (plan.heads / plan.key_heads);
  group.first = (backwards ? blocks - 1 - block : block) * edge;
  group.column = weft_group(1) * attention_columns;
  group.piece = tile - number * plan.pieces;
  group.batch = group.sequence;
  group.query_row = group.key_row = 0;
  group.queries = plan.queries;
  group.keys = plan.keys;
  if (group.sequence >= plan.sequences) {
    group.queries = group.keys = 0;
  } else if (plan.has_sequences) {
    const In numbers = sequences + group.sequence * 32;
    group.batch = 0;
    group.query_row = peek<int64_t>(numbers);
    group.queries = peek<int64_t>(numbers + 8);
    group.key_row = plan.has_blocks ? 0 : peek<int64_t>(numbers + 16);
    group.keys = peek<int64_t>(numbers + 24);
  }
  group.shift = plan.at_end ? group.keys - group.queries : 0;
  return group;
}
/// Queries or keys [begin, end), from the beginning of a tile on.
struct TileRange {
  int64_t begin, end;
};
WEFT_DEVICE TileRange tile_range(int64_t begin, int64_t end, int64_t count, int edge) {
  TileRange range;
  range.begin = begin < 0 ? 0 : begin / edge * edge;
  range.end = end < count ? end : count;
  return range;
}
/// The keys that some query of a tile sees, and the queries that see some key.
WEFT_DEVICE TileRange seen_keys(const Attention& plan, const AttentionGroup& group, int edge) {
  const int64_t at = group.first + group.shift;
  return tile_range(at - plan.before, at + edge + plan.after, group.keys, edge);
}
WEFT_DEVICE TileRange seeing_queries(const Attention& plan, const AttentionGroup& group, int edge) {
  const int64_t at = group.first - group.shift;
  return tile_range(at - plan.after, at + edge + plan.before, group.queries, edge);
}

WEFT_DEVICE int64_t query_offset(const Heads& heads, const AttentionGroup& group) {
  return group.batch * heads.batch + group.head * heads.head + group.query_row * heads.row;
}
WEFT_DEVICE int64_t key_offset(const Heads& heads, const AttentionGroup& group) {
  return group.batch * heads.batch + group.key_head * heads.head + group.key_row * heads.row;
}
/// One head's rows, or its columns as rows.
template <class C>
WEFT_DEVICE StridedRows<C> query_rows(In data, const Heads& heads, const AttentionGroup& group, int64_t columns) {
  const StridedRows<C> all = {
      data + query_offset(heads, group), group.queries, heads.row, columns, heads.column, heads.dtype};
  return all;
}
template <class C>
WEFT_DEVICE StridedRows<C> key_rows(In data, const Heads& heads, const AttentionGroup& group, int64_t columns) {
  const StridedRows<C> all = {
      data + key_offset(heads, group), group.keys, heads.row, columns, heads.column, heads.dtype};
  return all;
}
template <class C>
WEFT_DEVICE StridedRows<C> columns_of(const StridedRows<C>& rows) {
  const StridedRows<C> all = {rows.data, rows.depth, rows.step, rows.rows, rows.row_step, rows.dtype};
  return all;
}

/// Rows of a sequence with keys in blocks; contiguous without blocks.
struct KeyBlocks {
  In table;
  int64_t size;
  bool present;

  WEFT_DEVICE int64_t row(int64_t key) const {
    if (!present) return key;
    const int64_t block = quotient(key, size);
    return peek<int64_t>(table + block * 8) * size + (key - block * size);
  }
};
WEFT_DEVICE KeyBlocks key_blocks(const Attention& plan, In blocks, const AttentionGroup& group) {
  KeyBlocks all;
  all.present = plan.has_blocks != 0;
  all.table = blocks + (all.present ? group.sequence * plan.blocks * 8 : 0);
  all.size = plan.block_size;
  return all;
}
/// Keys in blocks as rows.
template <class C>
struct BlockRows {
  typedef Place Row;
  typedef Place Depth;
  StridedRows<C> all;
  KeyBlocks blocks;

  WEFT_DEVICE bool runs_along() const { return all.runs_along(); }
  WEFT_DEVICE Place row(int64_t i) const {
    Place p;
    p.inside = i < all.rows;
    p.offset = p.inside ? blocks.row(i) * all.row_step : 0;
    return p;
  }
  WEFT_DEVICE Place at_depth(int64_t k) const { return all.at_depth(k); }
  WEFT_DEVICE C at(const Place& row, const Place& k) const { return all.at(row, k); }
};
/// Values in blocks as columns: row i is column i of all keys.
template <class C>
struct BlockColumns {
  typedef Place Row;
  typedef Place Depth;
  BlockRows<C> keys;
  int64_t rows, depth;

  WEFT_DEVICE bool runs_along() const { return !keys.runs_along(); }
  WEFT_DEVICE Place row(int64_t i) const { return keys.at_depth(i); }
  WEFT_DEVICE Place at_depth(int64_t k) const { return keys.row(k); }
  WEFT_DEVICE C at(const Place& row, const Place& k) const { return keys.at(k, row); }
};

/// Converts one head's products of queries and keys to scores.
template <class C>
struct Scoring {
  In mask;
  C scale, slope;
  bool has_mask;
  int64_t queries, keys, row, column, shift, before, after;

  WEFT_DEVICE C score(C product, int64_t query, int64_t key) const {
    const int64_t distance = key - query - shift;
    if (query >= queries || key >= keys || distance > after || distance < -before) return Limits<C>::lowest();
    C scaled = product * scale;
    if (slope != 0) scaled += slope * (C)distance;
    return has_mask ? scaled + peek<C>(mask + query * row + key * column) : scaled;
  }
};
template <class C>
WEFT_DEVICE Scoring<C> scoring_of(In mask, In slopes, const Attention& plan, const AttentionGroup& group, C scale) {
  Scoring<C> s;
  s.mask = mask + (plan.has_mask ? group.sequence * plan.mask.batch + group.head * plan.mask.head : 0);
  s.scale = scale;
  s.slope = 0;
  if (plan.has_slopes) {
    s.slope = peek<C>(slopes + group.sequence * plan.slopes.batch + group.head * plan.slopes.head);
  }
  s.has_mask = plan.has_mask != 0;
  s.queries = group.queries;
  s.keys = group.keys;
  s.row = plan.mask.row;
  s.column = plan.mask.column;
  s.shift = group.shift;
  s.before = plan.before;
  s.after = plan.after;
  return s;
}

template <class C, int T>
WEFT_DEVICE void put_weights(WEFT_LOCAL C* weights, const C (&x)[T][T]) {
  for (int i = 0; i < T; ++i) {
    for (int j = 0; j < T; ++j) weights[tile_column(j) * (tile_edge * T + 1) + tile_row(i)] = x[i][j];
  }
}

/// A work-item's part of a group's result: T x T elements in each of W adjacent tiles.
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
  template <class S>
  WEFT_DEVICE void add(const WEFT_LOCAL C* weights, const S& columns, int64_t first_column, int64_t begin,
                       WEFT_LOCAL C* right) {
    WEFT_UNROLL
    for (int w = 0; w < W; ++w) {
      if (first_column + w * tile_edge * T >= columns.rows) continue;
      TileReader<C, T, S> reader;
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
  WEFT_DEVICE void put(Out to, const Heads& heads, const AttentionGroup& group, int64_t rows, int64_t columns,
                       WEFT_LOCAL C* shared) const {
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
  /// Converts a tile of scores to weights; returns the factor of the earlier weights. All work-items call it together.
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

struct AttentionInputs {
  In q, k, v, g, log_sum_exp, delta, mask, slopes, sequences, blocks;
};

WEFT_DEVICE TileRange piece_of(TileRange keys, const Attention& plan, const AttentionGroup& group) {
  if (plan.pieces == 1) return keys;
  const int64_t begin = group.piece * plan.piece_keys, end = begin + plan.piece_keys;
  if (keys.begin < begin) keys.begin = begin;
  if (keys.end > end) keys.end = end;
  return keys;
}

template <class C, int T>
WEFT_DEVICE void attention_tile(Out out, Out log_sum_exp, const AttentionInputs& in, const Attention& plan, C scale,
                                WEFT_LOCAL C* left, WEFT_LOCAL C* right, WEFT_LOCAL C* weights) {
  enum { edge = tile_edge * T };
  const bool backwards = plan.after < attention_unlimited;
  const AttentionGroup group = attention_group(plan, in.sequences, plan.queries, plan.heads, edge, backwards);
  if (group.first >= group.queries) return;
  const StridedRows<C> queries = query_rows<C>(in.q, plan.q, group, plan.depth);
  const KeyBlocks blocks = key_blocks(plan, in.blocks, group);
  const BlockRows<C> keys = {key_rows<C>(in.k, plan.k, group, plan.depth), blocks};
  const BlockRows<C> value_rows = {key_rows<C>(in.v, plan.v, group, plan.width), blocks};
  const BlockColumns<C> values = {value_rows, plan.width, group.keys};
  const Scoring<C> scoring = scoring_of<C>(in.mask, in.slopes, plan, group, scale);
  const TileRange seen = piece_of(seen_keys(plan, group, edge), plan, group);
  out += group.piece * plan.out_step;
  log_sum_exp += group.piece * plan.log_sum_exp_step;
  ResultTiles<C, T> result;
  RunningSoftmax<C, T> softmax;
  result.clear();
  softmax.clear();
  for (int64_t key = seen.begin; key < seen.end; key += edge) {
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
    if (weft_group(1) != 0 || weft_local(0) != 0 || query >= group.queries) continue;
    poke<C>(log_sum_exp + query_offset(plan.log_sum_exp, group) + query * plan.log_sum_exp.row,
            blind ? softmax.top[i] : softmax.top[i] + log(softmax.sum[i]));
  }
  result.put(out + query_offset(plan.out, group), plan.out, group, group.queries, plan.width, weights);
}

/// One number of a result from those of all pieces, in their order.
template <class C>
WEFT_DEVICE void attention_join_item(Out out, Out log_sum_exp, In pieces, In piece_sums, const Attention& plan,
                                     int64_t item) {
  const int64_t columns = plan.width > 0 ? plan.width : 1, row = item / columns, column = item - row * columns;
  const int64_t line = row / plan.length, at = row - line * plan.length;
  const int64_t batch = line / plan.heads, head = line - batch * plan.heads;
  C top = Limits<C>::lowest();
  for (int64_t n = 0; n < plan.pieces; ++n) {
    top = Larger::combine(top, peek<C>(piece_sums + n * plan.log_sum_exp_step + row * (int)sizeof(C)));
  }
  const bool blind = top == Limits<C>::lowest();
  C sum = 0, value = 0;
  for (int64_t n = 0; n < plan.pieces && !blind; ++n) {
    const C own = peek<C>(piece_sums + n * plan.log_sum_exp_step + row * (int)sizeof(C));
    const C weight = own == Limits<C>::lowest() ? 0 : exp(own - top);
    sum += weight;
    if (weight == 0 || plan.width == 0) continue;
    value += weight * peek<C>(pieces + n * plan.out_step + (row * columns + column) * (int)sizeof(C));
  }
  if (plan.width > 0) {
    Memory<C>::store(out + batch * plan.out.batch + head * plan.out.head + at * plan.out.row + column * plan.out.column,
                     plan.out.dtype, blind ? 0 : value / sum);
  }
  if (column != 0) return;
  poke<C>(log_sum_exp + batch * plan.log_sum_exp.batch + head * plan.log_sum_exp.head + at * plan.log_sum_exp.row,
          blind ? top : top + log(sum));
}

// ---- gradient -------------------------------------------------------------------------------------------------------

/// One head's operands and the parameters of the weights.
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
  head.q = query_rows<C>(in.q, plan.q, group, plan.depth);
  head.k = key_rows<C>(in.k, plan.k, group, plan.depth);
  head.v = key_rows<C>(in.v, plan.v, group, plan.width);
  head.g = query_rows<C>(in.g, plan.g, group, plan.width);
  head.scoring = scoring_of<C>(in.mask, in.slopes, plan, group, scale);
  head.log_sum_exp = in.log_sum_exp + query_offset(plan.log_sum_exp, group);
  head.delta = in.delta + query_offset(plan.delta, group);
  head.log_sum_exp_step = plan.log_sum_exp.row;
  head.delta_step = plan.delta.row;
  return head;
}

/// dq = ds k, by rows of queries.
template <class C, int T>
WEFT_DEVICE void query_gradient_tile(Out dq, const AttentionInputs& in, const Attention& plan, C scale,
                                     WEFT_LOCAL C* left, WEFT_LOCAL C* right, WEFT_LOCAL C* weights) {
  enum { edge = tile_edge * T };
  const bool backwards = plan.after < attention_unlimited;
  const AttentionGroup group = attention_group(plan, in.sequences, plan.queries, plan.heads, edge, backwards);
  if (group.first >= group.queries) return;
  const AttentionHead<C> head = attention_head<C>(in, plan, group, scale);
  const StridedRows<C> key_columns = columns_of(head.k);
  const TileRange seen = seen_keys(plan, group, edge);
  ResultTiles<C, T> result;
  result.clear();
  for (int64_t key = seen.begin; key < seen.end; key += edge) {
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
  result.put(dq + query_offset(plan.dq, group), plan.dq, group, group.queries, plan.depth, weights);
}

/// dk = dsᵀ q and dv = wᵀ g, by rows of keys: they sum over their heads of queries, in order.
template <class C, int T>
WEFT_DEVICE void key_gradient_tile(Out dk, Out dv, const AttentionInputs& in, const Attention& plan, C scale,
                                   WEFT_LOCAL C* left, WEFT_LOCAL C* right, WEFT_LOCAL C* weights) {
  enum { edge = tile_edge * T };
  AttentionGroup group = attention_group(plan, in.sequences, plan.keys, plan.key_heads, edge, false);
  if (group.first >= group.keys) return;
  const int64_t shared = plan.heads / plan.key_heads;
  const TileRange seeing = seeing_queries(plan, group, edge);
  ResultTiles<C, T> by_scores, by_weights;
  by_scores.clear();
  by_weights.clear();
  group.key_head = group.head;
  for (int64_t n = 0; n < shared; ++n) {
    group.head = group.key_head * shared + n;
    const AttentionHead<C> head = attention_head<C>(in, plan, group, scale);
    const StridedRows<C> query_columns = columns_of(head.q), gradient_columns = columns_of(head.g);
    for (int64_t first = seeing.begin; first < seeing.end; first += edge) {
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
  }
  by_scores.put(dk + key_offset(plan.dk, group), plan.dk, group, group.keys, plan.depth, weights);
  by_weights.put(dv + key_offset(plan.dv, group), plan.dv, group, group.keys, plan.width, weights);
}

}  // namespace weft::portable
