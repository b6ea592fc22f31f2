// Mean and deviation, perplexity and regression errors: sums of doubles over a stream.
#include <cmath>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/join.hpp"
#include "../../ops/loss.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/reduce.hpp"
#include "../../ops/rearrange.hpp"
#include "../metrics.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::train {

namespace {

/// Maximum number of batches to keep unsynchronized on a device.
constexpr size_t most_waiting = 256;

// The tensor in a dtype with sufficient precision for sums.
Tensor precise(const Tensor& x) {
  if (x.dtype() == f64) return x;
  return x.to(x.device().is_cpu() ? f64 : f32);
}

}  // namespace

// ---- mean and deviation ---------------------------------------------------------------------------------------------

void MeanStd::add(double count, double mean, double squares) const {
  if (count == 0) return;
  const double all = count_ + count, distance = mean - mean_;
  mean_ += distance * (count / all);
  squares_ += squares + distance * distance * (count_ * (count / all));
  count_ = all;
}

namespace {

void check_weight(double weight, Location where) {
  if (weight >= 0 && !std::isinf(weight)) return;
  raise<ValueError>({.op = "MeanStd", .problem = mismatch_text("weight", "a finite number of at least 0", weight)},
                    where);
}

}  // namespace

void MeanStd::update(double value, double weight, Location where) {
  check_weight(weight, where);
  add(weight, value, 0);
}

void MeanStd::update(const Tensor& values, Location where) {
  const CallScope call("MeanStd", where);
  const NoGradGuard unrecorded;
  const int64_t n = checked(values).numel();
  if (n == 0) return;
  const Tensor x = precise(values.detach().reshape({-1}));
  wait_for(static_cast<double>(n), weft::mean(x), weft::var(x, Dims{0}, 0) * static_cast<double>(n));
}

void MeanStd::update(const Tensor& value, double weight, Location where) {
  const CallScope call("MeanStd", where);
  const NoGradGuard unrecorded;
  if (checked(value).numel() != 1) {
    raise<ShapeError>({.problem = "a value with a weight must be one number", .details = describe(value)});
  }
  check_weight(weight, where);
  const Tensor x = precise(value.detach().reshape(Dims{}));
  wait_for(weight, x, zeros({}, {x.dtype(), x.device()}));
}

void MeanStd::wait_for(double count, const Tensor& mean, const Tensor& squares) {
  waiting_.emplace_back(count, stack({mean, squares}));
  if (mean.device().is_cpu() || waiting_.size() > most_waiting) folded();
}

const MeanStd& MeanStd::folded() const {
  for (const auto& [count, batch] : waiting_) {
    const std::vector<double> v = batch.to_vector<double>();
    add(count, v[0], v[1]);
  }
  waiting_.clear();
  return *this;
}

void MeanStd::merge(const MeanStd& other) {
  folded();
  other.folded();
  add(other.count_, other.mean_, other.squares_);
}

double MeanStd::mean() const { return folded().count_ == 0 ? NAN : mean_; }

double MeanStd::variance(double correction) const {
  const double whole = folded().count_ - correction;
  return whole > 0 ? squares_ / whole : NAN;
}

double MeanStd::std(double correction) const { return std::sqrt(variance(correction)); }

std::vector<double> MeanStd::state() const {
  folded();
  return {count_, mean_, squares_};
}

void MeanStd::restore(const std::vector<double>& state, Location where) {
  if (state.size() != 3) {
    raise<ValueError>({.op = "MeanStd", .problem = mismatch_text("state", "3 numbers", state.size())}, where);
  }
  *this = {};
  count_ = state[0], mean_ = state[1], squares_ = state[2];
}

// ---- perplexity -----------------------------------------------------------------------------------------------------

void Perplexity::update(const Tensor& logits, const Tensor& targets, Location where) {
  const CallScope call("Perplexity", where);
  const NoGradGuard unrecorded;
  const Tensor loss = cross_entropy(precise(checked(logits)), checked(targets),
                                    {.reduction = LossReduction::sum, .ignore_index = ignore_index_});
  sums_.emplace_back(loss, sum(ne(targets, ignore_index_)));
  if (sums_.size() > most_waiting) fold();
}

void Perplexity::update_loss(const Tensor& mean_loss, int64_t count, Location where) {
  const CallScope call("Perplexity", where);
  const NoGradGuard unrecorded;
  if (checked(mean_loss).numel() != 1) {
    raise<ShapeError>({.problem = "a mean loss is one number", .details = describe(mean_loss)});
  }
  if (count < 0) raise<ValueError>({.problem = fmt::format("a mean over {} tokens", count)});
  if (count == 0) return;
  const Tensor number = full({}, count, {i64, mean_loss.device()});
  sums_.emplace_back(precise(mean_loss.detach()).reshape({}) * static_cast<double>(count), number);
  if (sums_.size() > most_waiting) fold();
}

void Perplexity::fold() const {
  for (const auto& [sum, count] : sums_) {
    total_ += sum.item<double>();
    count_ += count.item<double>();
  }
  sums_.clear();
}

void Perplexity::merge(const Perplexity& other) {
  fold();
  other.fold();
  total_ += other.total_;
  count_ += other.count_;
}

double Perplexity::value() const {
  fold();
  return count_ == 0 ? NAN : std::exp(total_ / count_);
}

std::vector<double> Perplexity::state() const {
  fold();
  return {total_, count_};
}

void Perplexity::restore(const std::vector<double>& state, Location where) {
  if (state.size() != 2) {
    raise<ValueError>({.op = "Perplexity", .problem = mismatch_text("state", "2 numbers", state.size())}, where);
  }
  reset();
  total_ = state[0], count_ = state[1];
}

// ---- regression -----------------------------------------------------------------------------------------------------

void Regression::update(const Tensor& predictions, const Tensor& targets, Location where) {
  const CallScope call("Regression", where);
  const NoGradGuard unrecorded;
  if (!(checked(predictions).shape() == checked(targets).shape())) {
    raise<ShapeError>({.problem = "predictions and targets have different shapes",
                       .details = describe(predictions) + "; " + describe(targets)});
  }
  const Tensor error = precise(predictions.detach()) - precise(targets.detach());
  absolute_.update(abs(error));
  squared_.update(square(error));
  targets_.update(targets);
}

void Regression::merge(const Regression& other) {
  absolute_.merge(other.absolute_);
  squared_.merge(other.squared_);
  targets_.merge(other.targets_);
}

double Regression::root_mean_squared_error() const { return std::sqrt(mean_squared_error()); }

double Regression::r2() const {
  if (targets_.count() < 2) return NAN;
  const double variance = targets_.variance(), error = mean_squared_error();
  if (variance == 0) return error == 0 ? 1 : 0;
  return 1 - error / variance;
}

}  // namespace weft::train
