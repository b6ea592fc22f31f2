// Metrics of a model on many batches.
//
//   train::Accuracy accuracy;
//   for (auto& [x, y] : validation) accuracy.update(model(x), y);
//   accuracy.value();
//
// `update` takes a batch and does not wait for a device; `value` does. Counts are exact integers and sums are doubles,
// so no metric depends on how the data was cut into batches, but for rounding. `merge` adds what another one of the
// same options has seen, such as that of another process, and `reset` forgets everything. Values over nothing are NaN.
//
// Predictions and targets are on one device. Class scores are floating [N, C] or [N, C, d1, …], higher for likelier
// classes, with targets that are integers in [0, C) of that shape without C; classes that were decided already are
// integers of the targets' shape. The first of equal scores wins. Binary and multi-label scores are floating in the
// targets' own shape, and a label holds where its score is above the threshold: 0.5 for probabilities, 0 for logits.
// A NaN among the scores makes `value` raise NonFiniteError, a target outside its range IndexError: neither can be
// found sooner without waiting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../tensor/index.hpp"

namespace weft::train {

/// Mean and deviation of a stream of numbers, in doubles (Welford 1962; Chan, Golub and LeVeque 1983): no large sums
/// are subtracted from each other.
class WEFT_API MeanStd {
 public:
  /// A number that counts `weight` times. ValueError for a weight that is negative or not finite.
  void update(double value, double weight = 1, Location where = {});
  /// Every element of a tensor of any shape counts once. DTypeError for complex or undefined ones.
  void update(const Tensor& values, Location where = {});
  /// A tensor of one element, such as a batch's mean loss, that counts `weight` times; it is not waited for. ShapeError
  /// for more elements; ValueError as for numbers.
  void update(const Tensor& value, double weight, Location where = {});
  void merge(const MeanStd& other);
  void reset() { *this = {}; }

  /// The sum of the weights.
  double count() const { return folded().count_; }
  double mean() const;
  /// The sum of squared distances from the mean by `count - correction`, NaN where that is not positive.
  double variance(double correction = 0) const;
  double std(double correction = 0) const;
  double value() const { return mean(); }

  /// {count, mean, sum of squared distances}.
  std::vector<double> state() const;
  /// ValueError for other than three numbers.
  void restore(const std::vector<double>& state, Location where = {});

 private:
  const MeanStd& folded() const;
  void add(double count, double mean, double squares) const;

  mutable double count_ = 0, mean_ = 0, squares_ = 0;
  void wait_for(double count, const Tensor& mean, const Tensor& squares);
  /// Batches on devices that nobody has waited for: their count, and [mean, sum of squared distances].
  mutable std::vector<std::pair<double, Tensor>> waiting_;
};

/// exp of the mean loss of a token.
class WEFT_API Perplexity {
 public:
  explicit Perplexity(int64_t ignore_index = -100) : ignore_index_(ignore_index) {}
  /// Class scores (logits) and targets, as cross_entropy takes them; targets of `ignore_index` do not count.
  void update(const Tensor& logits, const Tensor& targets, Location where = {});
  /// A mean loss (0-d) over `count` tokens.
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
  /// Batches' sums of losses and counts that nobody has waited for.
  mutable std::vector<std::pair<Tensor, Tensor>> sums_;
};

/// Distances of numbers from their targets.
class WEFT_API Regression {
 public:
  /// Floating or integers, of one shape. ShapeError.
  void update(const Tensor& predictions, const Tensor& targets, Location where = {});
  void merge(const Regression& other);
  void reset() { *this = {}; }

  double mean_absolute_error() const { return absolute_.mean(); }
  double mean_squared_error() const { return squared_.mean(); }
  double root_mean_squared_error() const;
  /// 1 less the squared error by the targets' variance: 1 is perfect, 0 what guessing their mean gives. NaN for fewer
  /// than two targets; for targets that are all alike 1 where every prediction is exact, else 0.
  double r2() const;
  double value() const { return root_mean_squared_error(); }

 private:
  MeanStd absolute_, squared_, targets_;
};

namespace detail {

/// Integers that are summed on the device of the batches, and faults: how many NaN scores and bad targets there were.
class WEFT_API Counts {
 public:
  /// Adds i64 `counts`, and 0-d bool or i64 `nan_scores` and `bad_targets`.
  void add(const Tensor& counts, const Tensor& nan_scores, const Tensor& bad_targets);
  void merge(const Counts& other);
  void reset() { on_device_ = {}, on_host_.clear(); }
  /// NonFiniteError and IndexError where there were faults. `size` zeros before the first update.
  std::vector<int64_t> read(size_t size, const char* metric, Location where) const;
  std::vector<double> state() const;
  void restore(const std::vector<double>& state, size_t size, const char* metric, Location where);

 private:
  void fold() const;
  /// The two faults first, then the counts.
  mutable Tensor on_device_;
  mutable std::vector<int64_t> on_host_;
};

}  // namespace detail

struct AccuracyOptions {
  /// Of binary and multi-label scores.
  double threshold = 0.5;
  /// Targets of this value do not count.
  std::optional<int64_t> ignore_index = {};
};

/// The share of predictions that are right; of several labels each counts by itself.
class WEFT_API Accuracy {
 public:
  explicit Accuracy(AccuracyOptions options = {}) : options_(options) {}
  void update(const Tensor& predictions, const Tensor& targets, Location where = {});
  void merge(const Accuracy& other) { counts_.merge(other.counts_); }
  void reset() { counts_.reset(); }
  double value(Location where = {}) const;
  /// How many were right, and of how many.
  std::pair<int64_t, int64_t> counts(Location where = {}) const;
  std::vector<double> state() const { return counts_.state(); }
  void restore(const std::vector<double>& state, Location where = {});

 private:
  AccuracyOptions options_;
  detail::Counts counts_;
};

/// The share of samples whose class is among the k highest scores; of equal scores the first classes are.
class WEFT_API TopK {
 public:
  /// ValueError for k < 1.
  explicit TopK(int64_t k, std::optional<int64_t> ignore_index = {}, Location where = {});
  /// ShapeError for fewer than k classes.
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

/// How the classes' figures become one.
enum class Average : uint8_t {
  binary,    ///< that of label 1, of binary scores or of two classes
  micro,     ///< from the counts of all classes together
  macro,     ///< the mean
  weighted,  ///< the mean, weighted by how often each class occurs
};

struct ClassScoresOptions {
  /// 2 or more classes, or labels of multi-label scores. 2 for binary ones.
  int64_t classes = 2;
  Average average = Average::binary;
  /// Scores [N, classes] of labels that do not exclude each other, with targets (bool or 0 and 1) of that shape.
  bool multilabel = false;
  double threshold = 0.5;
  /// The figure of a class with nothing to divide by: 0, 1 or NaN, which averages then leave out.
  double zero_division = 0;
  std::optional<int64_t> ignore_index = {};
};

/// Precision, recall and F1 of classes, as scikit-learn's precision_recall_fscore_support with labels = all classes.
class WEFT_API ClassScores {
 public:
  /// ValueError for fewer than two classes (one label), a zero_division other than 0, 1 and NaN, and Average::binary of
  /// more than two classes or of several labels.
  explicit ClassScores(ClassScoresOptions options = {}, Location where = {});
  void update(const Tensor& predictions, const Tensor& targets, Location where = {});
  void merge(const ClassScores& other) { counts_.merge(other.counts_); }
  void reset() { counts_.reset(); }

  double precision(Location where = {}) const;
  double recall(Location where = {}) const;
  double f1(Location where = {}) const { return f_beta(1, where); }
  /// Recall counts beta times as much as precision. ValueError for a negative beta.
  double f_beta(double beta, Location where = {}) const;
  double value(Location where = {}) const { return f1(where); }

  struct OfClass {
    double precision, recall, f1;
    /// How often the class occurs.
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

/// How often each class was taken for each.
class WEFT_API ConfusionMatrix {
 public:
  /// ValueError for fewer than two classes. With two classes binary scores are taken as well.
  explicit ConfusionMatrix(int64_t classes, AccuracyOptions options = {}, Location where = {});
  void update(const Tensor& predictions, const Tensor& targets, Location where = {});
  void merge(const ConfusionMatrix& other) { counts_.merge(other.counts_); }
  void reset() { counts_.reset(); }

  /// i64 [classes, classes] on the CPU: a row for each class that is, a column for each that was predicted.
  Tensor matrix(Location where = {}) const;
  /// The share on the diagonal.
  double value(Location where = {}) const;
  /// A table of plain text; `names` of the classes, which are numbers otherwise.
  std::string text(const std::vector<std::string>& names = {}, Location where = {}) const;
  /// A picture as SVG.
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
  /// macro or weighted, over the classes that have samples of both kinds.
  Average average = Average::macro;
};

/// The area under the ROC curve: the probability that a positive sample has a higher score than a negative one, where
/// equal scores count half (Hanley and McNeil 1982). Exact: it keeps a copy of every batch, where that is.
class WEFT_API RocAuc {
 public:
  /// ValueError for classes < 1, and for an average other than macro and weighted.
  explicit RocAuc(RocAucOptions options = {}, Location where = {});
  /// Binary scores, or [N, classes] with the targets of class scores or, for labels, of that shape.
  void update(const Tensor& scores, const Tensor& targets, Location where = {});
  void merge(const RocAuc& other);
  void reset() { batches_.clear(); }

  /// NaN where only one kind of sample was seen. NonFiniteError for a NaN score, IndexError for a target that is none.
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
