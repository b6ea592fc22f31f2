// MNIST's images of digits.
#pragma once

#include <string>

#include <torch/data/datasets/base.h>

namespace torch::data::datasets {

/// Images f32 [1, 28, 28] in [0, 1], with targets i64.
class MNIST : public Dataset<MNIST> {
 public:
  enum class Mode { kTrain, kTest };

  /// Reads the files in the folder. Raises IoError if one is missing, FormatError if one is malformed.
  explicit MNIST(const std::string& root, Mode mode = Mode::kTrain);
  Example<> get(size_t index) override;
  optional<size_t> size() const override { return static_cast<size_t>(images_.size(0)); }
  bool is_train() const noexcept { return mode_ == Mode::kTrain; }
  const Tensor& images() const { return images_; }
  const Tensor& targets() const { return targets_; }

 private:
  Tensor images_, targets_;
  Mode mode_;
};

}  // namespace torch::data::datasets
