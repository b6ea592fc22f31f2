// Identity, Linear, Bilinear, Flatten, Unflatten.
#pragma once

#include <torch/nn/modules/any.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/options/common.h>

namespace torch::nn {

class IdentityImpl : public Cloneable<IdentityImpl> {
 public:
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input) { return input; }
};
TORCH_MODULE(Identity);

class LinearImpl : public Cloneable<LinearImpl> {
 public:
  LinearImpl(int64_t in_features, int64_t out_features) : LinearImpl(LinearOptions(in_features, out_features)) {}
  explicit LinearImpl(const LinearOptions& options_);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  LinearOptions options;
  Tensor weight, bias;
};
TORCH_MODULE(Linear);

class BilinearImpl : public Cloneable<BilinearImpl> {
 public:
  BilinearImpl(int64_t in1_features, int64_t in2_features, int64_t out_features)
      : BilinearImpl(BilinearOptions(in1_features, in2_features, out_features)) {}
  explicit BilinearImpl(const BilinearOptions& options_);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input1, const Tensor& input2);

  BilinearOptions options;
  Tensor weight, bias;
};
TORCH_MODULE(Bilinear);

TORCH_PLAIN_CLASS(Flatten, FlattenOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Unflatten, UnflattenOptions, Tensor, const Tensor& input)

}  // namespace torch::nn
