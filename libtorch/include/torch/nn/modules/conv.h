// Convolutions, folds, pixel shuffles and upsampling.
#pragma once

#include <torch/nn/modules/any.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/options/convolution.h>

namespace torch::nn {

/// A convolution over D dimensions.
template <size_t D, class Derived>
class ConvNdImpl : public Cloneable<Derived> {
 public:
  explicit ConvNdImpl(const ConvOptions<D>& options_) : options(options_) {}
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ConvOptions<D> options;
  Tensor weight, bias;
};
/// A transposed convolution over D dimensions.
template <size_t D, class Derived>
class ConvTransposeNdImpl : public Cloneable<Derived> {
 public:
  explicit ConvTransposeNdImpl(const ConvTransposeOptions<D>& options_) : options(options_) {}
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input, const optional<IntArrayRef>& output_size = nullopt);

  ConvTransposeOptions<D> options;
  Tensor weight, bias;

 protected:
  bool _forward_has_default_args() override { return true; }
  unsigned int _forward_num_required_args() override { return 1; }
  std::vector<AnyValue> _forward_populate_default_args(std::vector<AnyValue>&& arguments) override {
    if (arguments.size() < 2) arguments.emplace_back(optional<IntArrayRef>());
    return std::move(arguments);
  }
};

#define TORCH_CONVOLUTION(n)                                                                                           \
  class Conv##n##dImpl : public ConvNdImpl<n, Conv##n##dImpl> {                                                        \
   public:                                                                                                             \
    Conv##n##dImpl(int64_t in_channels, int64_t out_channels, ExpandingArray<n> kernel_size)                           \
        : Conv##n##dImpl(Conv##n##dOptions(in_channels, out_channels, kernel_size)) {}                                 \
    explicit Conv##n##dImpl(Conv##n##dOptions options_) : ConvNdImpl(options_) { reset(); }                            \
  };                                                                                                                   \
  TORCH_MODULE(Conv##n##d);                                                                                            \
  class ConvTranspose##n##dImpl : public ConvTransposeNdImpl<n, ConvTranspose##n##dImpl> {                             \
   public:                                                                                                             \
    ConvTranspose##n##dImpl(int64_t in_channels, int64_t out_channels, ExpandingArray<n> kernel_size)                  \
        : ConvTranspose##n##dImpl(ConvTranspose##n##dOptions(in_channels, out_channels, kernel_size)) {}               \
    explicit ConvTranspose##n##dImpl(ConvTranspose##n##dOptions options_) : ConvTransposeNdImpl(options_) { reset(); } \
  };                                                                                                                   \
  TORCH_MODULE(ConvTranspose##n##d);                                                                                   \
  extern template class ConvNdImpl<n, Conv##n##dImpl>;                                                                 \
  extern template class ConvTransposeNdImpl<n, ConvTranspose##n##dImpl>;
TORCH_CONVOLUTION(1)
TORCH_CONVOLUTION(2)
TORCH_CONVOLUTION(3)
#undef TORCH_CONVOLUTION

TORCH_PLAIN_CLASS(Fold, FoldOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Unfold, UnfoldOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(PixelShuffle, PixelShuffleOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(PixelUnshuffle, PixelUnshuffleOptions, Tensor, const Tensor& input)
TORCH_PLAIN_CLASS(Upsample, UpsampleOptions, Tensor, const Tensor& input)

}  // namespace torch::nn
