// The size of a page depends on what it displays, not on the length of the run: a column covers as many steps as
// needed and keeps their extremes.
#include "../detail/columns.hpp"

#include <algorithm>

namespace weft::detail {

namespace {

constexpr size_t most_columns = 240, least_columns = 48;
/// Maximum number of cells of all tensors; a page of this size opens in less than two seconds.
constexpr size_t most_cells = 72000;

void keep_greatest(double& known, double v) {
  if (!std::isnan(v) && !(known >= v)) known = v;
}
void keep_least(double& known, double v) {
  if (!std::isnan(v) && !(known <= v)) known = v;
}

void add(Cell& cell, const Statistics& s) {
  cell.bad = std::max(cell.bad, s.non_finite);
  if (s.count > 0 && s.non_finite >= s.count) return;  // a tensor without finite elements has no other figures
  const double rms = s.rms();
  if (!(cell.rms >= rms)) {
    cell.mean = s.mean, cell.deviation = s.deviation;
  }
  keep_greatest(cell.rms, rms), keep_least(cell.least, rms);
  keep_greatest(cell.high, s.high), keep_least(cell.low, s.low);
  keep_greatest(cell.zeros, s.zero_share());
}

}  // namespace

Columns::Columns(const History& history) {
  const size_t n = history.steps.size(), tensors = history.watched.size();
  const size_t column_limit = std::clamp(most_cells / std::max<size_t>(1, tensors), least_columns, most_columns);
  const size_t stride = std::max<size_t>(1, (n + column_limit - 1) / column_limit), columns = (n + stride - 1) / stride;
  merged_ = stride > 1;
  begins_.resize(columns), ends_.resize(columns), losses_.resize(columns), counts_.resize(tensors);
  values_.resize(columns * tensors), gradients_.resize(columns * tensors);
  // The first column may have fewer steps.
  const size_t lacking = columns * stride - n;
  for (size_t i = 0; i < n; ++i) {
    const size_t column = (i + lacking) / stride;
    if (i == 0 || (i + lacking) % stride == 0) begins_[column] = history.steps[i].step;
    ends_[column] = history.steps[i].step;
    add(history.steps[i], column);
  }
}

void Columns::add(const HistoryStep& step, size_t column) {
  LossColumn& loss = losses_[column];
  if (step.loss) {
    if (!loss.last || std::isfinite(*loss.last)) loss.last = step.loss;
    if (std::isfinite(*step.loss)) {
      loss.low = std::min(loss.low, *step.loss), loss.high = std::max(loss.high, *step.loss);
    }
  }
  for (size_t i = 0; i < std::min(step.observations.size(), counts_.size()); ++i) {
    const Observation& o = step.observations[i];
    const size_t at = i * size() + column;
    if (o.value) detail::add(values_[at], *o.value), counts_[i] = o.value->count;
    if (o.gradient) detail::add(gradients_[at], *o.gradient);
    if (o.gradient && !o.value) counts_[i] = o.gradient->count;
    if (o.update_ratio && std::isfinite(*o.update_ratio)) keep_greatest(values_[at].ratio, *o.update_ratio);
  }
}

}  // namespace weft::detail
