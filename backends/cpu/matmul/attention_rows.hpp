// The row-wise parts of attention, between its matrix products. T is float or double.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::cpu {

/// A block of scores: row i sees those of the columns [first + i, last + i) that are there.
template <class T>
struct ScoreBlock {
  T* scores;
  int64_t rows, columns, stride;
  T scale;
  int64_t first, last;
  T slope;           ///< slope * (distance + column - row) is added to the scores
  int64_t distance;  ///< of column 0 from row 0
  const char* mask;  ///< null where absent; strides in bytes
  int64_t mask_row, mask_column;

  int64_t begin(int64_t row) const { return std::clamp<int64_t>(first + row, 0, columns); }
  int64_t end(int64_t row) const { return std::clamp<int64_t>(last + row, begin(row), columns); }
};

/// Scores to exp(score - top ln 2), zeros where hidden, and the running state of every row: its largest score so far
/// over ln 2, the sum of its weights relative to that, and the factor that earlier blocks' results need now.
template <class T>
struct SoftmaxState {
  T *top, *sum, *rescale;
};
void softmax_block(const ScoreBlock<float>& block, const SoftmaxState<float>& state);
void softmax_block(const ScoreBlock<double>& block, const SoftmaxState<double>& state);

/// Scores to weights exp(score - log_sum_exp).
void weights_block(const ScoreBlock<float>& block, const float* log_sum_exp);
void weights_block(const ScoreBlock<double>& block, const double* log_sum_exp);

/// d[i][j] = scale * weights[i][j] * (d[i][j] - delta[i])
void score_gradient_block(const ScoreBlock<float>& weights, float* d, const float* delta);
void score_gradient_block(const ScoreBlock<double>& weights, double* d, const double* delta);

/// row i of x times factor[i]
void scale_rows(int64_t rows, int64_t columns, float* x, int64_t stride, const float* factor);
void scale_rows(int64_t rows, int64_t columns, double* x, int64_t stride, const double* factor);
/// The dot products of rows.
void dot_rows(int64_t rows, int64_t columns, const float* x, int64_t x_stride, const float* y, int64_t y_stride,
              float* dots);
void dot_rows(int64_t rows, int64_t columns, const double* x, int64_t x_stride, const double* y, int64_t y_stride,
              double* dots);

}  // namespace weft::cpu
