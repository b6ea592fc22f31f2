// Dropout and normalization layers.
#pragma once

#include <torch/nn/modules/common.h>
#include <torch/nn/options/common.h>

namespace torch::nn {

TORCH_PLAIN_CLASS(Dropout, DropoutOptions, Tensor, Tensor input)
TORCH_PLAIN_CLASS(Dropout2d, Dropout2dOptions, Tensor, Tensor input)
TORCH_PLAIN_CLASS(Dropout3d, Dropout3dOptions, Tensor, Tensor input)
TORCH_PLAIN_CLASS(AlphaDropout, AlphaDropoutOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(FeatureAlphaDropout, FeatureAlphaDropoutOptions, Tensor, const Tensor& input)

namespace detail {
/// Weight, bias and running statistics of batch and instance norm.
template <class Derived, class Options_>
class NormImplBase : public Cloneable<Derived> {
 public:
  explicit NormImplBase(const Options_& options_) : options(options_) {}
  void reset() override {
    const auto create = [&](const char* name, bool wanted, double value) {
      return this->register_parameter(name, wanted ? at::full({options.num_features()}, value, kFloat) : Tensor(),
                                      wanted);
    };
    weight = create("weight", options.affine(), 1);
    bias = create("bias", options.affine(), 0);
    const bool track = options.track_running_stats();
    running_mean = this->register_buffer("running_mean", track ? at::zeros({options.num_features()}) : Tensor());
    running_var = this->register_buffer("running_var", track ? at::ones({options.num_features()}) : Tensor());
    num_batches_tracked = this->register_buffer("num_batches_tracked", track ? at::zeros({}, kLong) : Tensor());
    reset_parameters();
  }
  void reset_running_stats() {
    if (!options.track_running_stats()) return;
    running_mean.zero_();
    running_var.fill_(1);
    num_batches_tracked.zero_();
  }
  void reset_parameters() {
    const NoGradGuard unrecorded;
    reset_running_stats();
    if (!options.affine()) return;
    weight.fill_(1);
    bias.zero_();
  }

  Options_ options;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  virtual void _check_input_dim(const Tensor& input) = 0;
};
}  // namespace detail

#define TORCH_NORM(Name)                                                                     \
  class Name##Impl : public detail::NormImplBase<Name##Impl, Name##Options> {                \
   public:                                                                                   \
    explicit Name##Impl(const Name##Options& options_) : NormImplBase(options_) { reset(); } \
    Tensor forward(const Tensor& input);                                                     \
    void pretty_print(std::ostream& stream) const override;                                  \
                                                                                             \
   protected:                                                                                \
    void _check_input_dim(const Tensor& input) override;                                     \
  };                                                                                         \
  TORCH_MODULE(Name);
TORCH_NORM(BatchNorm1d)
TORCH_NORM(BatchNorm2d)
TORCH_NORM(BatchNorm3d)
TORCH_NORM(InstanceNorm1d)
TORCH_NORM(InstanceNorm2d)
TORCH_NORM(InstanceNorm3d)
#undef TORCH_NORM

class LayerNormImpl : public Cloneable<LayerNormImpl> {
 public:
  LayerNormImpl(std::vector<int64_t> normalized_shape) : LayerNormImpl(LayerNormOptions(std::move(normalized_shape))) {}
  explicit LayerNormImpl(LayerNormOptions options_);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  LayerNormOptions options;
  Tensor weight, bias;
};
TORCH_MODULE(LayerNorm);

class GroupNormImpl : public Cloneable<GroupNormImpl> {
 public:
  GroupNormImpl(int64_t num_groups, int64_t num_channels) : GroupNormImpl(GroupNormOptions(num_groups, num_channels)) {}
  explicit GroupNormImpl(const GroupNormOptions& options_);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  GroupNormOptions options;
  Tensor weight, bias;
};
TORCH_MODULE(GroupNorm);

TORCH_PLAIN_CLASS(LocalResponseNorm, LocalResponseNormOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(CrossMapLRN2d, CrossMapLRN2dOptions, Tensor, const Tensor& input)

}  // namespace torch::nn
