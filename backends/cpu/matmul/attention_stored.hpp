// Rows of keys and values as they are stored, against a few queries. T is float or double.
#pragma once

#include <cstdint>

#include "../../../tensor/dtype.hpp"

namespace weft::cpu {

/// Rows of unit stride for each of some heads: of T or, where that is float, of f16 or bf16. Distances in bytes.
struct StoredRows {
  const char* data;
  int64_t row, head;
  DType dtype;
};

/// Most queries of one head of keys at once.
constexpr int64_t most_stored_queries = 8;

/// The queries of each of `groups` heads of keys, side by side.
struct StoredQueries {
  int64_t groups, queries;
};
/// scores[n][j] = q[n] · row j of its head, for `count` rows; n = group * queries + query.
void score_stored(StoredQueries n, int64_t count, int64_t depth, const float* const* q, StoredRows keys, float* scores,
                  int64_t stride);
void score_stored(StoredQueries n, int64_t count, int64_t depth, const double* const* q, StoredRows keys,
                  double* scores, int64_t stride);
/// out[n][width] += weights[n][j] * row j of its head
void add_stored(StoredQueries n, int64_t count, int64_t width, const float* weights, int64_t stride, StoredRows values,
                float* out);
void add_stored(StoredQueries n, int64_t count, int64_t width, const double* weights, int64_t stride, StoredRows values,
                double* out);
/// The rows of one head, dense in T.
void widen_stored(int64_t count, int64_t width, StoredRows rows, float* to);
void widen_stored(int64_t count, int64_t width, StoredRows rows, double* to);

}  // namespace weft::cpu
