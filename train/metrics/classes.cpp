#include "classes-inl.hpp"

#include <fmt/format.h>

#include "../../ops/create.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/index.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/reduce.hpp"
#include "../../ops/rearrange.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::train {

void check_batch(const Tensor& predictions, const Tensor& targets, bool one_shape) {
  checked(predictions), checked(targets);
  if (predictions.device() != targets.device()) {
    raise<DeviceError>({.problem = "predictions and targets are on different devices",
                        .details = describe(predictions) + "; " + describe(targets)});
  }
  if (is_floating(targets.dtype())) {
    raise_dtype("targets", "integers or bool", targets.dtype());
  }
  if (one_shape && !(predictions.shape() == targets.shape())) {
    raise<ShapeError>({.problem = "predictions and targets have different shapes",
                       .details = describe(predictions) + "; " + describe(targets)});
  }
}

void check_scores(const Tensor& scores, const Tensor& targets, std::optional<int64_t> count) {
  const auto refuse = [&](const std::string& problem) {
    raise<ShapeError>({.problem = problem, .details = describe(scores) + "; " + describe(targets)});
  };
  bool fit = scores.dim() == targets.dim() + 1 && targets.dim() >= 1 && scores.size(0) == targets.size(0);
  for (int d = 1; fit && d < targets.dim(); ++d) fit = scores.size(d + 1) == targets.size(d);
  if (!fit) refuse("scores are [N, C, …] for targets [N, …], or of the targets' shape");
  if (count && scores.size(1) != *count) refuse(fmt::format("there are scores of other than {} classes", *count));
  if (scores.size(1) < 1) refuse("there are scores of no class");
}

Tensor occurrences(const Tensor& classes, const Tensor& weights, int64_t count) {
  return index_add(zeros({count}, {i64, classes.device()}), 0, classes, weights);
}

Classes read_classes(const Tensor& predictions, const Tensor& targets, const ClassesAsked& asked) {
  const bool one_shape = predictions.defined() && targets.defined() && predictions.dim() == targets.dim();
  check_batch(predictions, targets, one_shape);
  Classes c;
  Tensor is_nan;
  std::optional<int64_t> count = asked.count;
  const Tensor given = predictions.detach();
  if (!is_floating(given.dtype())) {
    check_batch(predictions, targets, true);
    c.predicted = given.to(i64).reshape({-1});
  } else if (one_shape) {
    count = 2;
    if (asked.count && *asked.count != 2) {
      raise<ShapeError>({.problem = fmt::format("binary scores where there are {} classes", *asked.count),
                         .details = describe(predictions) + "; " + describe(targets)});
    }
    c.predicted = gt(given, asked.threshold).to(i64).reshape({-1});
    is_nan = isnan(given).reshape({-1});
  } else {
    check_scores(given, targets, count);
    count = given.size(1);
    c.predicted = argmax(given, 1).reshape({-1});
    is_nan = any(isnan(given), Dims{1}).reshape({-1});
  }
  c.actual = targets.to(i64).reshape({-1});
  Tensor valid =
      asked.ignore_index ? ne(c.actual, *asked.ignore_index) : ones(c.actual.shape(), {boolean, given.device()});
  const Tensor none = zeros({}, {i64, given.device()});
  c.nan_scores = is_nan.defined() ? sum(logical_and(is_nan, valid)) : none;
  c.bad_targets = none;
  if (count) {
    const auto outside = [&](const Tensor& x) { return logical_or(lt(x, 0), ge(x, *count)); };
    const Tensor bad = logical_and(logical_or(outside(c.actual), outside(c.predicted)), valid);
    c.bad_targets = sum(bad);
    valid = logical_and(valid, logical_not(bad));
  }
  c.valid = valid.to(i64);
  c.predicted = c.predicted * c.valid;
  c.actual = c.actual * c.valid;
  return c;
}

}  // namespace weft::train
