// Accuracy, top-k, precision, recall, F1 and the confusion matrix, from counts of classes.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../io/tiles.hpp"
#include "../../ops/create.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/index.hpp"
#include "../../ops/join.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/reduce.hpp"
#include "../../ops/rearrange.hpp"
#include "../../ops/scatter.hpp"
#include "../../ops/axes.hpp"
#include "../metrics.hpp"
#include "classes-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::train {

namespace {

double quotient(int64_t part, int64_t whole) {
  return whole == 0 ? NAN : static_cast<double>(part) / static_cast<double>(whole);
}

Tensor pair_of(const Tensor& a, const Tensor& b) { return stack({a.to(i64), b.to(i64)}); }

}  // namespace

// ---- accuracy -------------------------------------------------------------------------------------------------------

void Accuracy::update(const Tensor& predictions, const Tensor& targets, Location where) {
  const CallScope call("Accuracy", where);
  const NoGradGuard unrecorded;
  const Classes c = read_classes(predictions, targets, {{}, options_.threshold, options_.ignore_index});
  counts_.add(pair_of(sum(eq(c.predicted, c.actual).to(i64) * c.valid), sum(c.valid)), c.nan_scores, c.bad_targets);
}

std::pair<int64_t, int64_t> Accuracy::counts(Location where) const {
  const std::vector<int64_t> counts = counts_.read(2, "Accuracy", where);
  return {counts[0], counts[1]};
}

double Accuracy::value(Location where) const {
  const auto [right, all] = counts(where);
  return quotient(right, all);
}

void Accuracy::restore(const std::vector<double>& state, Location where) {
  counts_.restore(state, 2, "Accuracy", where);
}

// ---- top-k ----------------------------------------------------------------------------------------------------------

TopK::TopK(int64_t k, std::optional<int64_t> ignore_index, Location where) : k_(k), ignore_index_(ignore_index) {
  if (k < 1) raise<ValueError>({.op = "TopK", .problem = mismatch_text("k", "at least 1", k)}, where);
}

void TopK::update(const Tensor& scores, const Tensor& targets, Location where) {
  const CallScope call("TopK", where);
  const NoGradGuard unrecorded;
  check_batch(scores, targets, false);
  expect_dtype("scores", scores, is_floating(scores.dtype()), "a floating-point tensor");
  check_scores(scores, targets, {});
  if (scores.size(1) < k_) {
    raise<ShapeError>({.problem = fmt::format("there are fewer than {} classes", k_), .details = describe(scores)});
  }
  const Classes c = read_classes(scores, targets, {{}, 0, ignore_index_});
  // [N · …, C], in the order of the targets.
  const int64_t classes = scores.size(1);
  const Tensor rows = scores.detach().movedim({1}, {-1}).reshape({-1, classes});
  const Tensor own = gather(rows, 1, c.actual.unsqueeze(1));
  const Tensor earlier = lt(arange(0, classes, 1, {i64, scores.device()}), c.actual.unsqueeze(1));
  const Tensor ahead = logical_or(gt(rows, own), logical_and(eq(rows, own), earlier));
  const Tensor hits = lt(sum(ahead, Dims{1}), k_).to(i64) * c.valid;
  counts_.add(pair_of(sum(hits), sum(c.valid)), c.nan_scores, c.bad_targets);
}

double TopK::value(Location where) const {
  const std::vector<int64_t> counts = counts_.read(2, "TopK", where);
  return quotient(counts[0], counts[1]);
}

void TopK::restore(const std::vector<double>& state, Location where) { counts_.restore(state, 2, "TopK", where); }

// ---- precision, recall, F1 ------------------------------------------------------------------------------------------

ClassScores::ClassScores(ClassScoresOptions options, Location where) : options_(options) {
  const auto require = [&](bool holds, const char* problem) {
    if (!holds) raise<ValueError>({.op = "ClassScores", .problem = problem}, where);
  };
  const double zero = options.zero_division;
  require(options.classes >= (options.multilabel ? 1 : 2), "there are at least two classes, or one label");
  require(zero == 0 || zero == 1 || std::isnan(zero), "zero_division is 0, 1 or NaN");
  require(options.average != Average::binary || (options.classes == 2 && !options.multilabel),
          "Average::binary is of two classes; others are averaged as micro, macro or weighted");
}

void ClassScores::update(const Tensor& predictions, const Tensor& targets, Location where) {
  const CallScope call("ClassScores", where);
  const NoGradGuard unrecorded;
  if (!options_.multilabel) {
    const Classes c = read_classes(predictions, targets, {options_.classes, options_.threshold, options_.ignore_index});
    const Tensor right = eq(c.predicted, c.actual).to(i64) * c.valid;
    counts_.add(
        stack({occurrences(c.actual, right, options_.classes), occurrences(c.predicted, c.valid, options_.classes),
               occurrences(c.actual, c.valid, options_.classes)}),
        c.nan_scores, c.bad_targets);
    return;
  }
  check_batch(predictions, targets, true);
  if (targets.dim() < 2 || targets.size(1) != options_.classes) {
    raise<ShapeError>(
        {.problem = fmt::format("targets are [N, {}, …]", options_.classes), .details = describe(targets)});
  }
  const Classes c = read_classes(predictions, targets, {2, options_.threshold, options_.ignore_index});
  const auto by_label = [&](const Tensor& flat) {
    return sum(flat.reshape(targets.shape()).movedim({1}, {0}).reshape({options_.classes, -1}), Dims{1});
  };
  counts_.add(stack({by_label(c.predicted * c.actual), by_label(c.predicted), by_label(c.actual)}), c.nan_scores,
              c.bad_targets);
}

std::vector<ClassScores::OneClass> ClassScores::read(Location where) const {
  const auto n = static_cast<size_t>(options_.classes);
  const std::vector<int64_t> counts = counts_.read(3 * n, "ClassScores", where);
  std::vector<OneClass> out;
  for (size_t i = 0; i < n; ++i) {
    out.push_back(
        {static_cast<double>(counts[i]), static_cast<double>(counts[n + i]), static_cast<double>(counts[2 * n + i])});
  }
  return out;
}

double ClassScores::share(double part, double whole) const {
  return whole == 0 ? options_.zero_division : part / whole;
}

// (1 + β²) · right / (β² · actual + predicted), the weighted harmonic mean of precision and recall.
double ClassScores::f_of(const OneClass& c, double beta) const {
  if (std::isinf(beta)) return share(c.right, c.actual);
  return share((1 + beta * beta) * c.right, beta * beta * c.actual + c.predicted);
}

template <class Figure>
double ClassScores::averaged(Figure figure, Location where) const {
  const std::vector<OneClass> classes = read(where);
  if (options_.average == Average::binary) return figure(classes[1]);
  if (options_.average == Average::micro) {
    OneClass all{};
    for (const OneClass& c : classes) all.right += c.right, all.predicted += c.predicted, all.actual += c.actual;
    return figure(all);
  }
  double sum = 0, weights = 0;
  for (const OneClass& c : classes) {
    const double value = figure(c), weight = options_.average == Average::macro ? 1 : c.actual;
    if (std::isnan(value)) continue;
    sum += weight * value;
    weights += weight;
  }
  return share(sum, weights);
}

double ClassScores::precision(Location where) const {
  return averaged([&](const OneClass& c) { return share(c.right, c.predicted); }, where);
}
double ClassScores::recall(Location where) const {
  return averaged([&](const OneClass& c) { return share(c.right, c.actual); }, where);
}
double ClassScores::f_beta(double beta, Location where) const {
  if (!(beta >= 0)) raise<ValueError>({.op = "f_beta", .problem = mismatch_text("beta", "at least 0", beta)}, where);
  return averaged([&](const OneClass& c) { return f_of(c, beta); }, where);
}

std::vector<ClassScores::OfClass> ClassScores::per_class(Location where) const {
  std::vector<OfClass> out;
  for (const OneClass& c : read(where)) {
    out.push_back({share(c.right, c.predicted), share(c.right, c.actual), f_of(c, 1), static_cast<int64_t>(c.actual)});
  }
  return out;
}

void ClassScores::restore(const std::vector<double>& state, Location where) {
  counts_.restore(state, 3 * static_cast<size_t>(options_.classes), "ClassScores", where);
}

// ---- confusion matrix -----------------------------------------------------------------------------------------------

ConfusionMatrix::ConfusionMatrix(int64_t classes, AccuracyOptions options, Location where)
    : classes_(classes), options_(options) {
  constexpr int64_t limit = int64_t{1} << 15;
  if (classes >= 2 && classes <= limit) return;
  raise<ValueError>({.op = "ConfusionMatrix",
                     .problem = mismatch_text("classes", fmt::format("a number in [2, {}]", limit), classes)},
                    where);
}

void ConfusionMatrix::update(const Tensor& predictions, const Tensor& targets, Location where) {
  const CallScope call("ConfusionMatrix", where);
  const NoGradGuard unrecorded;
  const Classes c = read_classes(predictions, targets, {classes_, options_.threshold, options_.ignore_index});
  counts_.add(occurrences(c.actual * classes_ + c.predicted, c.valid, classes_ * classes_), c.nan_scores,
              c.bad_targets);
}

Tensor ConfusionMatrix::matrix(Location where) const {
  const auto n = static_cast<size_t>(classes_);
  return tensor(counts_.read(n * n, "ConfusionMatrix", where)).reshape({classes_, classes_}, where);
}

double ConfusionMatrix::value(Location where) const {
  const auto n = static_cast<size_t>(classes_);
  const std::vector<int64_t> counts = counts_.read(n * n, "ConfusionMatrix", where);
  int64_t right = 0, all = 0;
  for (size_t i = 0; i < counts.size(); ++i) all += counts[i], right += i % (n + 1) == 0 ? counts[i] : 0;
  return quotient(right, all);
}

std::string ConfusionMatrix::text(const std::vector<std::string>& names, Location where) const {
  const auto n = static_cast<size_t>(classes_);
  const std::vector<int64_t> counts = counts_.read(n * n, "ConfusionMatrix", where);
  const auto name = [&](size_t i) { return i < names.size() ? names[i] : std::to_string(i); };
  size_t width = std::string("is \\ taken for").size();
  std::vector<size_t> columns;
  for (size_t i = 0; i < n; ++i) {
    width = std::max(width, name(i).size());
    size_t own = name(i).size();
    for (size_t row = 0; row < n; ++row) own = std::max(own, std::to_string(counts[row * n + i]).size());
    columns.push_back(own);
  }
  std::string out = fmt::format("{:<{}}", "is \\ taken for", width);
  for (size_t i = 0; i < n; ++i) out += fmt::format("  {:>{}}", name(i), columns[i]);
  for (size_t row = 0; row < n; ++row) {
    out += fmt::format("\n{:<{}}", name(row), width);
    for (size_t i = 0; i < n; ++i) out += fmt::format("  {:>{}}", counts[row * n + i], columns[i]);
  }
  return out + '\n';
}

std::string ConfusionMatrix::svg(const std::vector<std::string>& names, Location where) const {
  std::vector<std::string> shown = names;
  for (auto i = std::ssize(shown); i < classes_; ++i) shown.push_back(std::to_string(i));
  return io::tiles_svg(matrix(where), {.names = shown, .row_label = "is", .column_label = "taken for"}, where);
}

void ConfusionMatrix::restore(const std::vector<double>& state, Location where) {
  counts_.restore(state, static_cast<size_t>(classes_ * classes_), "ConfusionMatrix", where);
}

}  // namespace weft::train
