// Pools and paddings.
#pragma once

#include <torch/nn/modules/any.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/options/convolution.h>

namespace torch::nn {

#define TORCH_POOLS(n)                                                                                 \
  TORCH_PLAIN_CLASS(AvgPool##n##d, AvgPool##n##dOptions, Tensor, const Tensor& input)                  \
  class MaxPool##n##dImpl : public detail::PlainLayer<MaxPool##n##dImpl, MaxPool##n##dOptions> {       \
   public:                                                                                             \
    using PlainLayer::PlainLayer;                                                                      \
    Tensor forward(const Tensor& input);                                                               \
    std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);                              \
    void pretty_print(std::ostream& stream) const override;                                            \
  };                                                                                                   \
  TORCH_MODULE(MaxPool##n##d);                                                                         \
  class AdaptiveMaxPool##n##dImpl                                                                      \
      : public detail::PlainLayer<AdaptiveMaxPool##n##dImpl, AdaptiveMaxPool##n##dOptions> {           \
   public:                                                                                             \
    using PlainLayer::PlainLayer;                                                                      \
    Tensor forward(const Tensor& input);                                                               \
    std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);                              \
    void pretty_print(std::ostream& stream) const override;                                            \
  };                                                                                                   \
  TORCH_MODULE(AdaptiveMaxPool##n##d);                                                                 \
  TORCH_PLAIN_CLASS(AdaptiveAvgPool##n##d, AdaptiveAvgPool##n##dOptions, Tensor, const Tensor& input)  \
  class MaxUnpool##n##dImpl : public detail::PlainLayer<MaxUnpool##n##dImpl, MaxUnpool##n##dOptions> { \
   public:                                                                                             \
    using PlainLayer::PlainLayer;                                                                      \
    Tensor forward(const Tensor& input, const Tensor& indices,                                         \
                   const optional<std::vector<int64_t>>& output_size = nullopt);                       \
    void pretty_print(std::ostream& stream) const override;                                            \
                                                                                                       \
   protected:                                                                                          \
    FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(optional<std::vector<int64_t>>())})                          \
  };                                                                                                   \
  TORCH_MODULE(MaxUnpool##n##d);                                                                       \
  TORCH_PLAIN_CLASS(LPPool##n##d, LPPool##n##dOptions, Tensor, const Tensor& input)                    \
  TORCH_PLAIN_CLASS(ReflectionPad##n##d, ReflectionPad##n##dOptions, Tensor, const Tensor& input)      \
  TORCH_PLAIN_CLASS(ReplicationPad##n##d, ReplicationPad##n##dOptions, Tensor, const Tensor& input)    \
  TORCH_PLAIN_CLASS(ZeroPad##n##d, ZeroPad##n##dOptions, Tensor, const Tensor& input)                  \
  TORCH_PLAIN_CLASS(ConstantPad##n##d, ConstantPad##n##dOptions, Tensor, const Tensor& input)
TORCH_POOLS(1)
TORCH_POOLS(2)
TORCH_POOLS(3)
#undef TORCH_POOLS

#define TORCH_FRACTIONAL(n)                                                                                        \
  class FractionalMaxPool##n##dImpl : public Cloneable<FractionalMaxPool##n##dImpl> {                              \
   public:                                                                                                         \
    FractionalMaxPool##n##dImpl(ExpandingArray<n> kernel_size)                                                     \
        : FractionalMaxPool##n##dImpl(FractionalMaxPool##n##dOptions(kernel_size)) {}                              \
    explicit FractionalMaxPool##n##dImpl(FractionalMaxPool##n##dOptions options_) : options(std::move(options_)) { \
      reset();                                                                                                     \
    }                                                                                                              \
    void reset() override;                                                                                         \
    void pretty_print(std::ostream& stream) const override;                                                        \
    Tensor forward(const Tensor& input);                                                                           \
    std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);                                          \
                                                                                                                   \
    FractionalMaxPool##n##dOptions options;                                                                        \
    Tensor _random_samples;                                                                                        \
  };                                                                                                               \
  TORCH_MODULE(FractionalMaxPool##n##d);
TORCH_FRACTIONAL(2)
TORCH_FRACTIONAL(3)
#undef TORCH_FRACTIONAL

}  // namespace torch::nn
