#include "convolution.hpp"

#include <algorithm>

#include "layer-inl.hpp"

namespace weft::nn {

namespace {

Dims for_each_dim(const Dims& given, int dims) { return given.size() == 1 ? Dims::filled(dims, given[0]) : given; }

void check_sizes(const char* layer, int64_t in, int64_t out, const Dims& kernel, int dims, int64_t groups,
                 Location where) {
  check_size(layer, "in", in, where);
  check_size(layer, "out", out, where);
  for (const int64_t size : kernel) check_size(layer, "kernel", size, where);
  if (kernel.size() != dims) {
    raise<ValueError>({.op = layer, .problem = fmt::format("{} kernel sizes for {} dimensions", kernel.size(), dims)},
                      where);
  }
  if (groups < 1 || in % groups != 0 || out % groups != 0) {
    raise<ValueError>(
        {.op = layer, .problem = fmt::format("{} groups do not divide {} and {} channels", groups, in, out)}, where);
  }
}

Dims weight_shape(int64_t first, int64_t second, const Dims& kernel) {
  Dims shape{first, second};
  for (const int64_t size : kernel) shape.push_back(size);
  return shape;
}

bool all_are(const Dims& sizes, int64_t value) {
  return std::ranges::all_of(sizes, [value](int64_t size) { return size == value; });
}

/// "1, 6, kernel_size=(5, 5), stride=(1, 1), padding=(2, 2)": what PyTorch prints.
std::string options_text(int64_t in, int64_t out, const Dims& kernel, const Dims& stride, const std::string& padding,
                         const Dims& dilation, const Dims& output_padding, int64_t groups, bool bias) {
  const int dims = kernel.size();
  std::string text = fmt::format("{}, {}, kernel_size={}, stride={}", in, out, python_tuple(kernel),
                                 python_tuple(for_each_dim(stride, dims)));
  if (!padding.empty()) text += ", padding=" + padding;
  if (!all_are(dilation, 1)) text += ", dilation=" + python_tuple(for_each_dim(dilation, dims));
  if (!all_are(output_padding, 0)) text += ", output_padding=" + python_tuple(for_each_dim(output_padding, dims));
  if (groups != 1) text += fmt::format(", groups={}", groups);
  return bias ? text : text + ", bias=False";
}
std::string padding_text(const Dims& padding, int dims) {
  return all_are(padding, 0) ? "" : python_tuple(for_each_dim(padding, dims));
}

}  // namespace

namespace detail {

template <class Self, int dims>
Convolution<Self, dims>::Convolution(int64_t in, int64_t out, const Dims& kernel, const ConvOptions& options,
                                     Location where)
    : options_{options.stride, options.padding, options.dilation, options.groups} {
  const Dims sizes = for_each_dim(kernel, dims);
  check_sizes("nn::Conv", in, out, sizes, dims, options.groups, where);
  const Dims shape = weight_shape(out, in / options.groups, sizes);
  const int64_t fan_in = out == 0 ? 0 : shape.product() / out;
  weight = uniform_by_width(shape, fan_in, where);
  if (options.bias) bias = uniform_by_width(out, fan_in, where);
  this->register_parameter("weight", weight);
  this->register_parameter("bias", bias);
  const std::string padding = options.padding.same ? "same" : padding_text(options.padding.sizes, dims);
  this->set_extra_repr(
      options_text(in, out, sizes, options.stride, padding, options.dilation, 0, options.groups, options.bias));
}

template <class Self, int dims>
Tensor Convolution<Self, dims>::forward(const Tensor& x, Location where) const {
  if constexpr (dims == 1) return conv1d(x, weight, bias, options_, where);
  else if constexpr (dims == 2) return conv2d(x, weight, bias, options_, where);
  else return conv3d(x, weight, bias, options_, where);
}

template <class Self, int dims>
TransposedConvolution<Self, dims>::TransposedConvolution(int64_t in, int64_t out, const Dims& kernel,
                                                         const ConvTransposeOptions& options, Location where)
    : options_{options.stride, options.padding, options.output_padding, options.groups, options.dilation} {
  const Dims sizes = for_each_dim(kernel, dims);
  check_sizes("nn::ConvTranspose", in, out, sizes, dims, options.groups, where);
  const Dims shape = weight_shape(in, out / options.groups, sizes);
  const int64_t fan_in = in == 0 ? 0 : shape.product() / in;
  weight = uniform_by_width(shape, fan_in, where);
  if (options.bias) bias = uniform_by_width(out, fan_in, where);
  this->register_parameter("weight", weight);
  this->register_parameter("bias", bias);
  this->set_extra_repr(options_text(in, out, sizes, options.stride, padding_text(options.padding, dims),
                                    options.dilation, options.output_padding, options.groups, options.bias));
}

template <class Self, int dims>
Tensor TransposedConvolution<Self, dims>::forward(const Tensor& x, Location where) const {
  if constexpr (dims == 1) return conv_transpose1d(x, weight, bias, options_, where);
  else if constexpr (dims == 2) return conv_transpose2d(x, weight, bias, options_, where);
  else return conv_transpose3d(x, weight, bias, options_, where);
}

}  // namespace detail

template class detail::Convolution<Conv1d, 1>;
template class detail::Convolution<Conv2d, 2>;
template class detail::Convolution<Conv3d, 3>;
template class detail::TransposedConvolution<ConvTranspose1d, 1>;
template class detail::TransposedConvolution<ConvTranspose2d, 2>;
template class detail::TransposedConvolution<ConvTranspose3d, 3>;

}  // namespace weft::nn
