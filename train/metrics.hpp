// Metrics of a model over many batches.
//
//   train::Accuracy accuracy;
//   for (auto& [x, y] : validation) accuracy.update(model(x), y);
//   accuracy.value();
//
// `update` adds a batch without waiting for a device; `value` waits. Counts are exact integers and sums are doubles, so
// results do not depend on how data is split into batches, up to rounding. `merge` adds the data of another metric with
// the same options, for example of another process. `reset` clears the metric. Values over no data are NaN.
//
// Predictions and targets must be on one device. Class scores are floating-point [N, C] or [N, C, d1, …], higher for
// likelier classes, with integer targets in [0, C) of that shape without C. Predicted classes are integers of the
// targets' shape. Among equal scores the first wins. Binary and multi-label scores are floating-point with the targets'
// shape. A label is predicted if its score is above the threshold: 0.5 for probabilities, 0 for logits. `value` raises
// NonFiniteError for NaN scores and IndexError for targets out of range: `update` cannot check them without waiting.
//
// NaN scores and invalid classes are counted on the device and raised by `value()`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../tensor/index.hpp"

namespace weft::train {

/// Mean and standard deviation of a stream of numbers, in doubles, by a stable algorithm (Welford 1962; Chan, Golub and
/// LeVeque 1983).
class WEFT_API MeanStd {
 public:
  /// Adds a number with a weight. Raises ValueError for a weight that is negative or not finite.
  void update(double value, double weight = 1, Location where = {});
  /// Adds all elements of a tensor of any shape, each with weight 1. Raises DTypeError for complex or undefined ones.
  void update(const Tensor& values, Location where = {});
  /// Adds a tensor of one element, such as a batch's mean loss, with a weight, without waiting for its device. Raises
  /// ShapeError for more elements; ValueError as for numbers.
  void update(const Tensor& value, double weight, Location where = {});
  void merge(const MeanStd& other);
  void reset() { *this = {}; }

  /// The sum of the weights.
  double count() const { return folded().count_; }
  double mean() const;
  /// The sum of squared distances from the mean, divided by `count - correction`; NaN if that is not positive.
  double variance(double correction = 0) const;
  double std(double correction = 0) const;
  double value() const { return mean(); }

  /// {count, mean, sum of squared distances}.
  std::vector<double> state() const;
  /// Raises ValueError unless there are three numbers.
  void restore(const std::vector<double>& state, Location where = {});

 private:
  const MeanStd& folded() const;
  void add(double count, double mean, double squares) const;

  mutable double count_ = 0, mean_ = 0, squares_ = 0;
  void wait_for(double count, const Tensor& mean, const Tensor& squares);
  /// Batches on devices that are not yet synchronized: count, and [mean, sum of squared distances].
  mutable std::vector<std::pair<double, Tensor>> waiting_;
};

/// Perplexity: exp of the mean loss per token.
class WEFT_API Perplexity {
 public:
  explicit Perplexity(int64_t ignore_index = -100) : ignore_index_(ignore_index) {}
  /// Class scores (logits) and targets, as in cross_entropy; targets equal to `ignore_index` are skipped.
  void update(const Tensor& logits, const Tensor& targets, Location where = {});
  /// Adds a mean loss (0-d) over `count` tokens.
  void update_loss(const Tensor& mean_loss, int64_t count, Location where = {});
  void merge(const Perplexity& other);
  void reset() { sums_.clear(), total_ = 0, count_ = 0; }
  double value() const;

  /// {sum of losses, count}.
  std::vector<double> state() const;
  void restore(const std::vector<double>& state, Location where = {});

 private:
  void fold() const;

  int64_t ignore_index_;
  mutable double total_ = 0, count_ = 0;
  /// Sums of losses and counts of batches that are not yet synchronized.
  mutable std::vector<std::pair<Tensor, Tensor>> sums_;
};

/// Errors of numeric predictions.
class WEFT_API Regression {
 public:
  /// Floating-point or integer tensors of one shape. Raises ShapeError if shapes differ.
  void update(const Tensor& predictions, const Tensor& targets, Location where = {});
  void merge(const Regression& other);
  void reset() { *this = {}; }

  double mean_absolute_error() const { return absolute_.mean(); }
  double mean_squared_error() const { return squared_.mean(); }
  double root_mean_squared_error() const;
  /// 1 - squared error / variance of the targets: 1 is perfect, 0 equals predicting their mean. NaN for fewer than two
  /// targets. For constant targets 1 if all predictions are exact, else 0.
  double r2() const;
  double value() const { return root_mean_squared_error(); }

 private:
  MeanStd absolute_, squared_, targets_;
};

namespace detail {

/// Integer counts, summed on the batches' device, and error counts: NaN scores and targets out of range.
class WEFT_API Counts {
 public:
  /// Adds i64 `counts`, and 0-d bool or i64 `nan_scores` and `bad_targets`.
  void add(const Tensor& counts, const Tensor& nan_scores, const Tensor& bad_targets);
  void merge(const Counts& other);
  void reset() { on_device_ = {}, on_host_.clear(); }
  /// The counts; `size` zeros before the first update. Raises NonFiniteError and IndexError if errors were counted.
  std::vector<int64_t> read(size_t size, const char* metric, Location where) const;
  std::vector<double> state() const;
  void restore(const std::vector<double>& state, size_t size, const char* metric, Location where);

 private:
  void fold() const;
  /// The two error counts, then the counts.
  mutable Tensor on_device_;
  mutable std::vector<int64_t> on_host_;
};

}  // namespace detail

struct AccuracyOptions {
  /// For binary and multi-label scores.
  double threshold = 0.5;
  /// Targets of this value are skipped.
  std::optional<int64_t> ignore_index = {};
};

/// The fraction of correct predictions; with several labels each counts separately.
class WEFT_API Accuracy {
 public:
  explicit Accuracy(AccuracyOptions options = {}) : options_(options) {}
  void update(const Tensor& predictions, const Tensor& targets, Location where = {});
  void merge(const Accuracy& other) { counts_.merge(other.counts_); }
  void reset() { counts_.reset(); }
  double value(Location where = {}) const;
  /// Number of correct predictions, and of all predictions.
  std::pair<int64_t, int64_t> counts(Location where = {}) const;
  std::vector<double> state() const { return counts_.state(); }
  void restore(const std::vector<double>& state, Location where = {});

 private:
  AccuracyOptions options_;
  detail::Counts counts_;
};

/// The fraction of samples with their class among the k highest scores; among equal scores the first classes.
class WEFT_API TopK {
 public:
  /// Raises ValueError for k < 1.
  explicit TopK(int64_t k, std::optional<int64_t> ignore_index = {}, Location where = {});
  /// Raises ShapeError for fewer than k classes.
  void update(const Tensor& scores, const Tensor& targets, Location where = {});
  void merge(const TopK& other) { counts_.merge(other.counts_); }
  void reset() { counts_.reset(); }
  double value(Location where = {}) const;
  std::vector<double> state() const { return counts_.state(); }
  void restore(const std::vector<double>& state, Location where = {});

 private:
  int64_t k_;
  std::optional<int64_t> ignore_index_;
  detail::Counts counts_;
};

/// How the values of several classes are combined.
enum class Average : uint8_t {
  binary,    ///< the value of label 1, for binary scores or two classes
  micro,     ///< from the total counts of all classes
  macro,     ///< the mean
  weighted,  ///< the mean, weighted by the number of occurrences
};

struct ClassScoresOptions {
  /// Number of classes, or of labels for multi-label scores. 2 for binary scores.
  int64_t classes = 2;
  Average average = Average::binary;
  /// Whether scores are [N, classes] of independent labels, with targets (bool or 0 and 1) of that shape.
  bool multilabel = false;
  double threshold = 0.5;
  /// The value of a class with a zero denominator: 0, 1, or NaN, which averages skip.
  double zero_division = 0;
  std::optional<int64_t> ignore_index = {};
};

/// Precision, recall and F1 of classes, as scikit-learn's precision_recall_fscore_support with labels = all classes.
class WEFT_API ClassScores {
 public:
  /// Raises ValueError for fewer than two classes (one label), a zero_division other than 0, 1 and NaN, and
  /// Average::binary for more than two classes or several labels.
  explicit ClassScores(ClassScoresOptions options = {}, Location where = {});
  void update(const Tensor& predictions, const Tensor& targets, Location where = {});
  void merge(const ClassScores& other) { counts_.merge(other.counts_); }
  void reset() { counts_.reset(); }

  double precision(Location where = {}) const;
  double recall(Location where = {}) const;
  double f1(Location where = {}) const { return f_beta(1, where); }
  /// Weights recall beta times as much as precision. Raises ValueError for a negative beta.
  double f_beta(double beta, Location where = {}) const;
  double value(Location where = {}) const { return f1(where); }

  struct OfClass {
    double precision, recall, f1;
    /// Number of occurrences of the class.
    int64_t support;
  };
  std::vector<OfClass> per_class(Location where = {}) const;

  std::vector<double> state() const { return counts_.state(); }
  void restore(const std::vector<double>& state, Location where = {});

 private:
  struct OneClass {
    double right, predicted, actual;
  };
  std::vector<OneClass> read(Location where) const;
  template <class Figure>
  double averaged(Figure figure, Location where) const;
  double share(double part, double whole) const;
  double f_of(const OneClass& c, double beta) const;

  ClassScoresOptions options_;
  detail::Counts counts_;
};

/// Counts of each pair of actual and predicted class.
class WEFT_API ConfusionMatrix {
 public:
  /// Raises ValueError for fewer than two classes. With two classes binary scores are also accepted.
  explicit ConfusionMatrix(int64_t classes, AccuracyOptions options = {}, Location where = {});
  void update(const Tensor& predictions, const Tensor& targets, Location where = {});
  void merge(const ConfusionMatrix& other) { counts_.merge(other.counts_); }
  void reset() { counts_.reset(); }

  /// i64 [classes, classes] on the CPU: rows are actual classes, columns predicted ones.
  Tensor matrix(Location where = {}) const;
  /// The fraction on the diagonal: the accuracy.
  double value(Location where = {}) const;
  /// A plain text table; classes without `names` are numbered.
  std::string text(const std::vector<std::string>& names = {}, Location where = {}) const;
  /// An SVG picture.
  std::string svg(const std::vector<std::string>& names = {}, Location where = {}) const;
  std::vector<double> state() const { return counts_.state(); }
  void restore(const std::vector<double>& state, Location where = {});

 private:
  int64_t classes_;
  AccuracyOptions options_;
  detail::Counts counts_;
};

struct RocAucOptions {
  /// 1 for binary scores; else each class against the rest, or each label.
  int64_t classes = 1;
  bool multilabel = false;
  /// macro or weighted, over the classes with both positive and negative samples.
  Average average = Average::macro;
};

/// The area under the ROC curve: the probability that a positive sample has a higher score than a negative one, with
/// equal scores counted half (Hanley and McNeil 1982). Exact: it keeps a copy of every batch on its device.
class WEFT_API RocAuc {
 public:
  /// Raises ValueError for classes < 1, and for an average other than macro and weighted.
  explicit RocAuc(RocAucOptions options = {}, Location where = {});
  /// Binary scores, or [N, classes] with class targets, or with targets of the same shape for labels.
  void update(const Tensor& scores, const Tensor& targets, Location where = {});
  void merge(const RocAuc& other);
  void reset() { batches_.clear(); }

  /// NaN without both positive and negative samples. Raises NonFiniteError for a NaN score, IndexError for an invalid
  /// target.
  double value(Location where = {}) const;
  std::vector<double> per_class(Location where = {}) const;

 private:
  struct Area {
    double value;
    int64_t positives;
  };
  std::vector<Area> areas(Location where) const;

  RocAucOptions options_;
  std::vector<std::pair<Tensor, Tensor>> batches_;
};

}  // namespace weft::train
