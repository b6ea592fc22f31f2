// Learning-rate schedulers.
#pragma once

#include <vector>

#include <torch/optim/optimizer.h>

namespace torch::optim {

/// Changes the learning rates of all groups at each step.
class LRScheduler {
 public:
  explicit LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {}
  virtual ~LRScheduler() = default;
  void step();

 protected:
  /// The next rate of each group.
  virtual std::vector<double> get_lrs() = 0;
  std::vector<double> get_current_lrs() const;

  unsigned step_count_ = 0;

 private:
  Optimizer& optimizer_;
};

/// Multiplies the rate by gamma after each `step_size` steps.
class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, unsigned step_size, double gamma = 0.1)
      : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {}

 private:
  std::vector<double> get_lrs() override;
  const unsigned step_size_;
  const double gamma_;
};

/// Multiplies the rate by `factor` when a measure has not improved for `patience` steps.
class ReduceLROnPlateauScheduler {
 public:
  enum SchedulerMode { min, max };
  enum ThresholdMode { rel, abs };
  ReduceLROnPlateauScheduler(Optimizer& optimizer, SchedulerMode mode = min, float factor = 0.1F, int patience = 10,
                             double threshold = 1e-4, ThresholdMode threshold_mode = rel, int cooldown = 0,
                             const std::vector<float>& min_lr = {}, double eps = 1e-8, bool verbose = false);
  virtual ~ReduceLROnPlateauScheduler() = default;
  void step(float metric);

 private:
  bool is_better(float metric) const;
  void reduce_lr();

  Optimizer& optimizer_;
  SchedulerMode mode_;
  float factor_;
  int patience_, cooldown_, cooldown_left_ = 0, bad_steps_ = 0, steps_ = 0;
  double threshold_;
  ThresholdMode threshold_mode_;
  std::vector<float> min_lrs_;
  double eps_;
  bool verbose_;
  float best_;
};

}  // namespace torch::optim
