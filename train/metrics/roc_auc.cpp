#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/rearrange.hpp"
#include "../../ops/axes.hpp"
#include "../metrics.hpp"
#include "classes-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::train {

RocAuc::RocAuc(RocAucOptions options, Location where) : options_(options) {
  const auto require = [&](bool holds, const char* problem) {
    if (!holds) raise<ValueError>({.op = "RocAuc", .problem = problem}, where);
  };
  require(options.classes >= 1, "there is at least one class");
  require(options.average == Average::macro || options.average == Average::weighted,
          "classes are averaged as macro or weighted");
}

void RocAuc::update(const Tensor& scores, const Tensor& targets, Location where) {
  const CallScope call("RocAuc", where);
  const NoGradGuard unrecorded;
  const bool classes = options_.classes > 1 && !options_.multilabel;
  check_batch(scores, targets, !classes);
  expect_dtype("scores", scores, is_floating(scores.dtype()), "a floating-point tensor");
  if (classes) check_scores(scores, targets, options_.classes);
  if (options_.multilabel && (scores.dim() < 2 || scores.size(1) != options_.classes)) {
    raise<ShapeError>({.problem = fmt::format("scores are [N, {}, …]", options_.classes), .details = describe(scores)});
  }
  const bool by_class = options_.classes > 1 || options_.multilabel;
  // [N · …, classes], as the targets of labels.
  const auto rows = [&](const Tensor& x) { return x.movedim({1}, {-1}).reshape({-1, options_.classes}).clone(); };
  const Tensor given = scores.detach();
  batches_.emplace_back(by_class ? rows(given) : given.reshape({-1}).clone(),
                        options_.multilabel ? rows(targets) : targets.reshape({-1}).clone());
}

void RocAuc::merge(const RocAuc& other) {
  if (options_.classes != other.options_.classes || options_.multilabel != other.options_.multilabel) {
    raise<ValueError>({.op = "merge", .problem = "the metrics count different classes"}, Location::none());
  }
  const auto theirs = other.batches_;  // a copy, because `other` may be this object
  batches_.insert(batches_.end(), theirs.begin(), theirs.end());
}

namespace {

struct Sample {
  double score;
  bool positive;
};

// The fraction of pairs of a positive and a negative sample that are in order; ties count half.
double area_of(std::vector<Sample>& samples, int64_t positives) {
  const int64_t negatives = std::ssize(samples) - positives;
  if (positives == 0 || negatives == 0) return NAN;
  std::ranges::sort(samples, {}, &Sample::score);
  double doubled = 0;
  int64_t below = 0;
  for (size_t i = 0; i < samples.size();) {
    int64_t up = 0, down = 0;
    const double score = samples[i].score;
    for (; i < samples.size() && samples[i].score == score; ++i) ++(samples[i].positive ? up : down);
    doubled += static_cast<double>(up) * static_cast<double>(2 * below + down);
    below += down;
  }
  return doubled / 2 / (static_cast<double>(positives) * static_cast<double>(negatives));
}

}  // namespace

std::vector<RocAuc::Area> RocAuc::areas(Location where) const {
  const auto classes = static_cast<size_t>(options_.classes);
  const bool one_target = !options_.multilabel;
  std::vector<std::vector<Sample>> samples(classes);
  std::vector<int64_t> positives(classes, 0);
  for (const auto& [score_batch, target_batch] : batches_) {
    const std::vector<double> scores = score_batch.to_vector<double>(where);
    const std::vector<int64_t> targets = target_batch.to_vector<int64_t>(where);
    const int64_t class_count = classes > 1 && one_target ? options_.classes : 2;
    for (const int64_t t : targets) {
      if (t >= 0 && t < class_count) continue;
      raise<IndexError>({.op = "RocAuc", .problem = fmt::format("the target {} is not 0 to {}", t, class_count - 1)},
                        where);
    }
    for (size_t i = 0; i < scores.size(); ++i) {
      if (std::isnan(scores[i])) {
        raise<NonFiniteError>({.op = "RocAuc", .problem = fmt::format("the score of sample {} is NaN", i / classes)},
                              where);
      }
      const size_t c = i % classes;
      const int64_t target = targets[one_target ? i / classes : i];
      const bool positive = classes > 1 && one_target ? target == static_cast<int64_t>(c) : target == 1;
      samples[c].push_back({scores[i], positive});
      positives[c] += positive;
    }
  }
  std::vector<Area> out;
  for (size_t c = 0; c < classes; ++c) out.push_back({area_of(samples[c], positives[c]), positives[c]});
  return out;
}

std::vector<double> RocAuc::per_class(Location where) const {
  std::vector<double> out;
  for (const Area& a : areas(where)) out.push_back(a.value);
  return out;
}

double RocAuc::value(Location where) const {
  double sum = 0, weights = 0;
  for (const Area& a : areas(where)) {
    if (std::isnan(a.value)) continue;
    const double weight = options_.average == Average::macro ? 1 : static_cast<double>(a.positives);
    sum += weight * a.value;
    weights += weight;
  }
  return weights == 0 ? NAN : sum / weights;
}

}  // namespace weft::train
