#include <torch/nn/functional.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>

#include <cmath>

#include "print_options.h"

namespace torch::nn {

namespace F = functional;
using detail::text;

namespace {

/// Values for pad(): each dimension's sizes, the last dimension first.
std::vector<int64_t> reversed_twice(const std::vector<std::pair<int64_t, int64_t>>& sides) {
  std::vector<int64_t> values;
  for (auto side = sides.rbegin(); side != sides.rend(); ++side) {
    values.push_back(side->first);
    values.push_back(side->second);
  }
  return values;
}

template <size_t D>
std::vector<int64_t> pad_of(const ConvOptions<D>& options) {
  std::vector<std::pair<int64_t, int64_t>> sides(D, {0, 0});
  for (size_t i = 0; i < D; ++i) {
    if (const auto* sizes = std::get_if<ExpandingArray<D>>(&options.padding())) {
      sides[i] = {(**sizes)[i], (**sizes)[i]};
    } else if (std::holds_alternative<enumtype::kSame>(options.padding())) {
      const int64_t total = (*options.dilation())[i] * ((*options.kernel_size())[i] - 1);
      sides[i] = {total / 2, total - total / 2};
    }
  }
  return reversed_twice(sides);
}

F::PadFuncOptions::mode_t pad_mode(const detail::conv_padding_mode_t& mode) {
  if (std::holds_alternative<enumtype::kReflect>(mode)) return kReflect;
  if (std::holds_alternative<enumtype::kReplicate>(mode)) return kReplicate;
  return kCircular;
}

/// kaiming_uniform_ for the weight and a uniform bias, as in every convolution and linear layer of libtorch.
void reset_kernel(const Tensor& weight, const Tensor& bias) {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  const double bound = 1 / std::sqrt(static_cast<double>(std::get<0>(init::_calculate_fan_in_and_fan_out(weight))));
  init::uniform_(bias, -bound, bound);
}

template <size_t D>
std::vector<int64_t> kernel_shape(int64_t first, int64_t second, const ExpandingArray<D>& kernel_size) {
  std::vector<int64_t> shape = {first, second};
  shape.insert(shape.end(), kernel_size->begin(), kernel_size->end());
  return shape;
}

template <size_t D>
bool is_zero(const ExpandingArray<D>& values) {
  return std::all_of(values->begin(), values->end(), [](int64_t v) { return v == 0; });
}

template <class Options>
void print_rest(std::ostream& out, const Options& options) {
  if (options.groups() != 1) out << ", groups=" << options.groups();
  if (!options.bias()) out << ", bias=false";
  if (!std::holds_alternative<enumtype::kZeros>(options.padding_mode())) {
    out << ", padding_mode=" << enumtype::get_enum_name(options.padding_mode());
  }
  out << ")";
}

#define CALLS(n)                                                                                          \
  Tensor convolve(const Tensor& x, const Tensor& weight, const F::ConvFuncOptions<n>& options) {          \
    return F::conv##n##d(x, weight, options);                                                             \
  }                                                                                                       \
  Tensor convolve(const Tensor& x, const Tensor& weight, const F::ConvTransposeFuncOptions<n>& options) { \
    return F::conv_transpose##n##d(x, weight, options);                                                   \
  }
CALLS(1) CALLS(2) CALLS(3)
#undef CALLS

}  // namespace

// ---- convolutions ----
template <size_t D, class Derived>
void ConvNdImpl<D, Derived>::reset() {
  TORCH_CHECK(options.in_channels() > 0 && options.groups() > 0 && options.out_channels() > 0,
              "in_channels, groups and out_channels must be a positive integer.");
  TORCH_CHECK(options.in_channels() % options.groups() == 0, "in_channels must be divisible by groups");
  TORCH_CHECK(options.out_channels() % options.groups() == 0, "out_channels must be divisible by groups");
  if (std::holds_alternative<enumtype::kSame>(options.padding())) {
    for (int64_t stride : *options.stride()) {
      TORCH_CHECK(stride == 1, "padding='same' is not supported for strided convolutions");
    }
  }
  weight = this->register_parameter(
      "weight",
      at::empty(kernel_shape(options.out_channels(), options.in_channels() / options.groups(), options.kernel_size())));
  bias =
      this->register_parameter("bias", options.bias() ? at::empty({options.out_channels()}) : Tensor(), options.bias());
  reset_parameters();
}
template <size_t D, class Derived>
void ConvNdImpl<D, Derived>::reset_parameters() {
  reset_kernel(weight, bias);
}
template <size_t D, class Derived>
Tensor ConvNdImpl<D, Derived>::forward(const Tensor& input) {
  F::ConvFuncOptions<D> call;
  call.bias(bias).stride(options.stride()).dilation(options.dilation()).groups(options.groups());
  if (std::holds_alternative<enumtype::kZeros>(options.padding_mode())) {
    return convolve(input, weight, call.padding(options.padding()));
  }
  const auto padding = F::PadFuncOptions(pad_of<D>(options)).mode(pad_mode(options.padding_mode()));
  return convolve(F::pad(input, padding), weight, call);
}
template <size_t D, class Derived>
void ConvNdImpl<D, Derived>::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Conv" << D << "d(" << options.in_channels() << ", " << options.out_channels()
         << ", kernel_size=" << options.kernel_size() << ", stride=" << options.stride();
  if (const auto* sizes = std::get_if<ExpandingArray<D>>(&options.padding())) {
    if (!is_zero(*sizes)) stream << ", padding=" << *sizes;
  } else {
    stream << (std::holds_alternative<enumtype::kSame>(options.padding()) ? ", padding='same'" : ", padding='valid'");
  }
  if (!(options.dilation() == ExpandingArray<D>(1))) stream << ", dilation=" << options.dilation();
  print_rest(stream, options);
}

// ---- transposed convolutions ----
template <size_t D, class Derived>
void ConvTransposeNdImpl<D, Derived>::reset() {
  TORCH_CHECK(options.in_channels() % options.groups() == 0, "in_channels must be divisible by groups");
  TORCH_CHECK(options.out_channels() % options.groups() == 0, "out_channels must be divisible by groups");
  weight = this->register_parameter(
      "weight",
      at::empty(kernel_shape(options.in_channels(), options.out_channels() / options.groups(), options.kernel_size())));
  bias =
      this->register_parameter("bias", options.bias() ? at::empty({options.out_channels()}) : Tensor(), options.bias());
  reset_parameters();
}
template <size_t D, class Derived>
void ConvTransposeNdImpl<D, Derived>::reset_parameters() {
  reset_kernel(weight, bias);
}
template <size_t D, class Derived>
Tensor ConvTransposeNdImpl<D, Derived>::forward(const Tensor& input, const optional<IntArrayRef>& output_size) {
  TORCH_CHECK(std::holds_alternative<enumtype::kZeros>(options.padding_mode()),
              "Only `zeros` padding mode is supported for ConvTranspose", D, "d");
  ExpandingArray<D> extra = options.output_padding();
  if (output_size) {
    // The padding that gives this size.
    const IntArrayRef wanted = output_size->size() == D + 2 ? output_size->slice(2) : *output_size;
    TORCH_CHECK(wanted.size() == D, "output_size must have ", D, " or ", D + 2, " elements (got ", wanted.size(), ")");
    for (size_t i = 0; i < D; ++i) {
      const int64_t least =
          (input.size(static_cast<int64_t>(i) + input.dim() - static_cast<int64_t>(D)) - 1) * (*options.stride())[i] -
          2 * (*options.padding())[i] + (*options.dilation())[i] * ((*options.kernel_size())[i] - 1) + 1;
      TORCH_CHECK(wanted[i] >= least && wanted[i] < least + (*options.stride())[i], "requested an output size of ",
                  wanted, ", but valid sizes of dimension ", i, " range from ", least, " to ",
                  least + (*options.stride())[i] - 1);
      (*extra)[i] = wanted[i] - least;
    }
  }
  return convolve(input, weight,
                  F::ConvTransposeFuncOptions<D>()
                      .bias(bias)
                      .stride(options.stride())
                      .padding(options.padding())
                      .output_padding(extra)
                      .groups(options.groups())
                      .dilation(options.dilation()));
}
template <size_t D, class Derived>
void ConvTransposeNdImpl<D, Derived>::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::ConvTranspose" << D << "d(" << options.in_channels() << ", " << options.out_channels()
         << ", kernel_size=" << options.kernel_size() << ", stride=" << options.stride();
  if (!is_zero(options.padding())) stream << ", padding=" << options.padding();
  if (!(options.dilation() == ExpandingArray<D>(1))) stream << ", dilation=" << options.dilation();
  if (!is_zero(options.output_padding())) stream << ", output_padding=" << options.output_padding();
  print_rest(stream, options);
}

#define INSTANCE(n)                             \
  template class ConvNdImpl<n, Conv##n##dImpl>; \
  template class ConvTransposeNdImpl<n, ConvTranspose##n##dImpl>;
INSTANCE(1)
INSTANCE(2)
INSTANCE(3)
#undef INSTANCE

    // ---- folds, shuffles, upsampling ----
    Tensor FoldImpl::forward(const Tensor& input) {
  return F::fold(input, options);
}
void FoldImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Fold(output_size=" << options.output_size() << ", kernel_size=" << options.kernel_size()
         << ", dilation=" << options.dilation() << ", padding=" << options.padding() << ", stride=" << options.stride()
         << ")";
}
Tensor UnfoldImpl::forward(const Tensor& input) { return F::unfold(input, options); }
void UnfoldImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Unfold(kernel_size=" << options.kernel_size() << ", dilation=" << options.dilation()
         << ", padding=" << options.padding() << ", stride=" << options.stride() << ")";
}
Tensor PixelShuffleImpl::forward(const Tensor& input) { return F::pixel_shuffle(input, options); }
void PixelShuffleImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::PixelShuffle(upscale_factor=" << options.upscale_factor() << ")";
}
Tensor PixelUnshuffleImpl::forward(const Tensor& input) { return F::pixel_unshuffle(input, options); }
void PixelUnshuffleImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::PixelUnshuffle(downscale_factor=" << options.downscale_factor() << ")";
}
Tensor UpsampleImpl::forward(const Tensor& input) {
  const F::InterpolateFuncOptions::mode_t mode =
      std::visit([](auto m) { return F::InterpolateFuncOptions::mode_t(m); }, options.mode());
  return F::interpolate(input, F::InterpolateFuncOptions()
                                   .size(options.size())
                                   .scale_factor(options.scale_factor())
                                   .mode(mode)
                                   .align_corners(options.align_corners()));
}
void UpsampleImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Upsample(";
  if (options.scale_factor()) stream << "scale_factor=" << ArrayRef<double>(*options.scale_factor());
  else stream << "size=" << IntArrayRef(*options.size());
  stream << ", mode=" << enumtype::get_enum_name(options.mode()) << ")";
}

}  // namespace torch::nn
