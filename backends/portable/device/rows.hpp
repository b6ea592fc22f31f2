// Softmax, norms and cross-entropy: a team of work-items shares one row.
#pragma once

#include "team.hpp"

namespace weft::portable {

/// The row of N operands that a team shares, none where it is not active: a launch may have more teams than rows.
template <int N>
struct TeamRow {
  Team team;
  bool active;
  int64_t offset[N];
};
template <int N>
WEFT_DEVICE TeamRow<N> team_row(const Rows<N>& rows) {
  TeamRow<N> row;
  row.team = team_here(false);
  row.active = row.team.number < rows.walk.count;
  offsets_at(rows.walk, row.active ? row.team.number : 0, row.offset);
  return row;
}

/// A lane's sum over its elements of f(i), combined over the team.
template <class C, class F>
WEFT_DEVICE C team_sum(const Team& team, WEFT_LOCAL C* shared, bool active, int64_t n, const F& f) {
  RunningSum<C> sum;
  for (int64_t i = team.lane; active && i < n; i += team.lanes) sum.add(f.at(i));
  return combine_team<Plus>(team, shared, sum.value());
}

template <class C, int N, class F>
WEFT_DEVICE C row_sum(const Rows<N>& rows, const TeamRow<N>& row, WEFT_LOCAL C* shared, const F& f) {
  return team_sum<C>(row.team, shared, row.active, rows.length, f);
}

// ---- softmax
// ----------------------------------------------------------------------------------------------------------

template <class C>
struct Line {
  In data;
  int64_t step;
  DType dtype;
  WEFT_DEVICE C at(int64_t i) const { return Memory<C>::load(data + i * step, dtype); }
};
template <class C>
struct ExpLine {
  Line<C> line;
  C shift;
  WEFT_DEVICE C at(int64_t i) const { return exp(line.at(i) - shift); }
};
template <class C>
struct ProductLine {
  Line<C> a, b;
  WEFT_DEVICE C at(int64_t i) const { return a.at(i) * b.at(i); }
};

template <class C, int N>
WEFT_DEVICE Line<C> line_of(const Rows<N>& rows, int k, In data, const TeamRow<N>& row) {
  Line<C> line;
  line.data = data + row.offset[k];
  line.step = rows.step[k];
  line.dtype = rows.dtype[k];
  return line;
}
template <class C, int N>
WEFT_DEVICE void put_item(const Rows<N>& rows, int k, Out data, const TeamRow<N>& row, int64_t i, C value) {
  Memory<C>::store(data + row.offset[k] + i * rows.step[k], rows.dtype[k], value);
}

template <class C>
WEFT_DEVICE C team_max(const Team& team, WEFT_LOCAL C* shared, bool active, int64_t n, const Line<C>& line) {
  C largest = Limits<C>::lowest();
  for (int64_t i = team.lane; active && i < n; i += team.lanes) largest = Larger::combine(largest, line.at(i));
  return combine_team<Larger>(team, shared, largest);
}

template <class C>
WEFT_DEVICE void softmax_team(Out out, In in, const Rows<2>& rows, bool logarithm, WEFT_LOCAL C* shared) {
  const TeamRow<2> row = team_row(rows);
  ExpLine<C> exps;
  exps.line = line_of<C>(rows, 1, in, row);
  exps.shift = team_max(row.team, shared, row.active, rows.length, exps.line);
  const C sum = row_sum<C>(rows, row, shared, exps);
  const C base = log(sum), scale = 1 / sum;
  for (int64_t i = row.team.lane; row.active && i < rows.length; i += row.team.lanes) {
    put_item(rows, 0, out, row, i, logarithm ? (exps.line.at(i) - exps.shift) - base : exps.at(i) * scale);
  }
}

template <class C>
WEFT_DEVICE void softmax_gradient_team(Out out, In g, In y, const Rows<3>& rows, bool logarithm, WEFT_LOCAL C* shared) {
  const TeamRow<3> row = team_row(rows);
  ProductLine<C> product;
  product.a = line_of<C>(rows, 1, g, row);
  product.b = line_of<C>(rows, 2, y, row);
  const C sum = logarithm ? row_sum<C>(rows, row, shared, product.a) : row_sum<C>(rows, row, shared, product);
  for (int64_t i = row.team.lane; row.active && i < rows.length; i += row.team.lanes) {
    const C gi = product.a.at(i), yi = product.b.at(i);
    put_item(rows, 0, out, row, i, logarithm ? gi - exp(yi) * sum : yi * (gi - sum));
  }
}

// ---- norms
// ------------------------------------------------------------------------------------------------------------

template <class C>
WEFT_DEVICE C matrix_at(In data, const Matrix& m, int64_t row, int64_t i) {
  return Memory<C>::load(data + row * m.row + i * m.column, m.dtype);
}
template <class C>
WEFT_DEVICE void put_matrix(Out data, const Matrix& m, int64_t row, int64_t i, C value) {
  Memory<C>::store(data + row * m.row + i * m.column, m.dtype, value);
}

template <class C, class L = Line<C>>
struct SquaredLine {
  L line;
  C center;
  WEFT_DEVICE C at(int64_t i) const {
    const C d = line.at(i) - center;
    return d * d;
  }
};
template <class C>
WEFT_DEVICE Line<C> row_line(In data, const Matrix& m, int64_t row) {
  Line<C> line;
  line.data = data + row * m.row;
  line.step = m.column;
  line.dtype = m.dtype;
  return line;
}

/// Layer norm where plan.centered, else RMS norm.
template <class C>
WEFT_DEVICE void norm_team(Out out, Out mean, Out rstd, In x, In weight, In bias, const Norm& plan, C epsilon,
                           WEFT_LOCAL C* shared) {
  const Team team = team_here(false);
  const bool active = team.number < plan.rows;
  const int64_t row = active ? team.number : 0;
  const C n = (C)plan.n;
  SquaredLine<C> squares;
  squares.line = row_line<C>(x, plan.x, row);
  squares.center = 0;
  if (plan.centered) squares.center = team_sum<C>(team, shared, active, plan.n, squares.line) / n;
  const C variance = team_sum<C>(team, shared, active, plan.n, squares) / n;
  const C inverse = 1 / sqrt(variance + epsilon);
  if (!active) return;
  if (team.lane == 0) {
    if (plan.mean.present) put_matrix<C>(mean, plan.mean, row, 0, squares.center);
    if (plan.rstd.present) put_matrix<C>(rstd, plan.rstd, row, 0, inverse);
  }
  for (int64_t i = team.lane; i < plan.n; i += team.lanes) {
    C y = (squares.line.at(i) - squares.center) * inverse;
    if (plan.weight.present) y = y * matrix_at<C>(weight, plan.weight, 0, i);
    if (plan.bias.present) y = y + matrix_at<C>(bias, plan.bias, 0, i);
    put_matrix<C>(out, plan.out, row, i, y);
  }
}

/// The RMS norm of a sum, which is stored first: each lane reads back its own elements.
template <class C>
WEFT_DEVICE void norm_residual_team(Out out, Out sum, Out rstd, In x, In residual, In bias, In weight, const Norm& plan,
                                    const Matrix& residual_at, const Matrix& sum_at, C epsilon, WEFT_LOCAL C* shared) {
  const Team team = team_here(false);
  const bool active = team.number < plan.rows;
  const int64_t row = active ? team.number : 0;
  for (int64_t i = team.lane; active && i < plan.n; i += team.lanes) {
    C t = matrix_at<C>(x, plan.x, row, i) + matrix_at<C>(residual, residual_at, row, i);
    if (plan.bias.present) t = t + matrix_at<C>(bias, plan.bias, 0, i);
    put_matrix<C>(sum, sum_at, row, i, t);
  }
  SquaredLine<C> squares;
  squares.line = row_line<C>((In)sum, sum_at, row);
  squares.center = 0;
  const C inverse = 1 / sqrt(team_sum<C>(team, shared, active, plan.n, squares) / (C)plan.n + epsilon);
  if (!active) return;
  if (team.lane == 0 && plan.rstd.present) put_matrix<C>(rstd, plan.rstd, row, 0, inverse);
  for (int64_t i = team.lane; i < plan.n; i += team.lanes) {
    C y = squares.line.at(i) * inverse;
    if (plan.weight.present) y = y * matrix_at<C>(weight, plan.weight, 0, i);
    put_matrix<C>(out, plan.out, row, i, y);
  }
}

/// Pairs of a line, rotated; a lane reads both before it writes either.
template <class C>
WEFT_DEVICE void rotary_team(Out out, In x, In cos, In sin, const Rows<4>& rows, bool interleaved, bool inverse) {
  const TeamRow<4> row = team_row(rows);
  const Line<C> from = line_of<C>(rows, 1, x, row), c = line_of<C>(rows, 2, cos, row),
                s = line_of<C>(rows, 3, sin, row);
  const int64_t pairs = rows.length / 2;
  for (int64_t p = row.team.lane; row.active && p < pairs; p += row.team.lanes) {
    const int64_t i = interleaved ? 2 * p : p, j = interleaved ? i + 1 : p + pairs;
    const C a = from.at(i), b = from.at(j), sign = inverse ? (C)-1 : (C)1;
    const C sin_a = sign * (inverse ? s.at(j) : s.at(i)), sin_b = sign * (inverse ? s.at(i) : s.at(j));
    put_item(rows, 0, out, row, i, a * c.at(i) - b * sin_a);
    put_item(rows, 0, out, row, j, b * c.at(j) + a * sin_b);
  }
}

/// g times the weight, alone or times the normalised x.
template <class C>
struct WeightedGradient {
  Line<C> g, x, weight;
  C center, inverse;
  bool has_weight;
  WEFT_DEVICE C at(int64_t i) const { return has_weight ? g.at(i) * weight.at(i) : g.at(i); }
  WEFT_DEVICE C hat(int64_t i) const { return (x.at(i) - center) * inverse; }
};
template <class C>
struct GradientTimesHat {
  WeightedGradient<C> inner;
  WEFT_DEVICE C at(int64_t i) const { return inner.at(i) * inner.hat(i); }
};

/// dx = rstd (gw - mean(gw) - xhat mean(gw xhat)), without the term mean(gw) where the norm does not center.
template <class C>
WEFT_DEVICE void norm_gradient_team(Out dx, In g, In x, In mean, In rstd, In weight, const Norm& plan,
                                    WEFT_LOCAL C* shared) {
  const Team team = team_here(false);
  const bool active = team.number < plan.rows;
  const int64_t row = active ? team.number : 0;
  GradientTimesHat<C> dot;
  WeightedGradient<C>& line = dot.inner;
  line.g = row_line<C>(g, plan.g, row);
  line.x = row_line<C>(x, plan.x, row);
  line.weight = row_line<C>(weight, plan.weight, 0);
  line.has_weight = plan.weight.present != 0;
  line.center = plan.centered ? matrix_at<C>(mean, plan.mean, row, 0) : 0;
  line.inverse = matrix_at<C>(rstd, plan.rstd, row, 0);
  const C mean_dot = team_sum<C>(team, shared, active, plan.n, dot) / (C)plan.n;
  C mean_sum = 0;
  if (plan.centered) mean_sum = team_sum<C>(team, shared, active, plan.n, line) / (C)plan.n;
  for (int64_t i = team.lane; active && i < plan.n; i += team.lanes) {
    put_matrix<C>(dx, plan.out, row, i, ((line.at(i) - mean_sum) - line.hat(i) * mean_dot) * line.inverse);
  }
}

/// dweight = sum over rows of g xhat, dbias = sum over rows of g: a team for each column.
template <class C>
WEFT_DEVICE void norm_columns_team(Out dweight, Out dbias, In g, In x, In mean, In rstd, const Norm& plan,
                                   WEFT_LOCAL C* shared) {
  const Team team = team_here(true);
  const bool active = team.number < plan.n;
  const int64_t i = active ? team.number : 0;
  RunningSum<C> weight_sum, bias_sum;
  for (int64_t row = team.lane; active && row < plan.rows; row += team.lanes) {
    const C gi = matrix_at<C>(g, plan.g, row, i);
    bias_sum.add(gi);
    if (!plan.weight.present) continue;
    const C center = plan.centered ? matrix_at<C>(mean, plan.mean, row, 0) : 0;
    weight_sum.add(gi * ((matrix_at<C>(x, plan.x, row, i) - center) * matrix_at<C>(rstd, plan.rstd, row, 0)));
  }
  const C all_weight = combine_team<Plus>(team, shared, weight_sum.value());
  const C all_bias = combine_team<Plus>(team, shared, bias_sum.value());
  if (!active || team.lane != 0) return;
  if (plan.weight.present) put_matrix<C>(dweight, plan.weight, 0, i, all_weight);
  if (plan.bias.present) put_matrix<C>(dbias, plan.bias, 0, i, all_bias);
}

// ---- cross-entropy
// ----------------------------------------------------------------------------------------------------

WEFT_DEVICE int64_t target_at(In targets, const Matrix& m, int64_t row) { return peek<int64_t>(targets + row * m.row); }

template <class C>
struct ShiftedLine {
  Line<C> line;
  C shift;
  WEFT_DEVICE C at(int64_t i) const { return line.at(i) - shift; }
};

template <class C>
WEFT_DEVICE void cross_entropy_team(Out losses, Out log_sum_exp, In logits, In targets, WEFT_GLOBAL BadIndex* bad,
                                    const CrossEntropy& plan, C smoothing, WEFT_LOCAL C* shared) {
  const Team team = team_here(false);
  const bool active = team.number < plan.rows;
  const int64_t row = active ? team.number : 0;
  ExpLine<C> exps;
  exps.line = row_line<C>(logits, plan.logits, row);
  exps.shift = team_max(team, shared, active, plan.classes, exps.line);
  const C log_sum = log(team_sum<C>(team, shared, active, plan.classes, exps));
  C all = 0;
  if (smoothing != 0) {
    ShiftedLine<C> shifted;
    shifted.line = exps.line;
    shifted.shift = exps.shift;
    all = team_sum<C>(team, shared, active, plan.classes, shifted);
  }
  if (!active || team.lane != 0) return;
  if (plan.log_sum_exp.present) put_matrix<C>(log_sum_exp, plan.log_sum_exp, row, 0, exps.shift + log_sum);
  const int64_t target = target_at(targets, plan.targets, row);
  C loss = 0;
  if (target != plan.ignore_index) {
    if (target < 0 || target >= plan.classes) return report_index(bad, plan.check, target, plan.classes);
    loss = log_sum - (exps.line.at(target) - exps.shift);
    if (smoothing != 0) loss = (1 - smoothing) * loss + smoothing * (log_sum - all / (C)plan.classes);
  }
  put_matrix<C>(losses, plan.losses, row, 0, loss);
}

template <class C>
WEFT_DEVICE void cross_entropy_gradient_item(Out dlogits, In g, In logits, In log_sum_exp, In targets,
                                             const CrossEntropy& plan, C smoothing, int64_t number) {
  if (number >= plan.rows * plan.classes) return;
  const int64_t row = number / plan.classes, i = number - row * plan.classes;
  const int64_t target = target_at(targets, plan.targets, row);
  C d = 0;
  if (target != plan.ignore_index) {
    const C lse = matrix_at<C>(log_sum_exp, plan.log_sum_exp, row, 0);
    d = exp(matrix_at<C>(logits, plan.logits, row, i) - lse) - smoothing / (C)plan.classes;
    if (i == target) d = d - (1 - smoothing);
    d = d * matrix_at<C>(g, plan.g, row, 0);
  }
  put_matrix<C>(dlogits, plan.out, row, i, d);
}

}  // namespace weft::portable
