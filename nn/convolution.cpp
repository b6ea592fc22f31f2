#include "convolution.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "description-inl.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::nn {

namespace {

template <class Options>
constexpr bool transposed = std::is_same_v<Options, ConvTransposeOptions>;

Dims for_each_dim(const Dims& given, int dims) { return given.size() == 1 ? Dims::filled(dims, given[0]) : given; }

[[noreturn]] void raise_value(const std::string& layer, std::string problem, Location where) {
  raise<ValueError>({.op = layer.c_str(), .problem = std::move(problem)}, where);
}

void check_at_least(const std::string& layer, const char* what, const Dims& sizes, int64_t least, Location where) {
  for (const int64_t size : sizes) {
    if (size < least) raise_value(layer, mismatch_text(what, fmt::format("at least {}", least), size), where);
  }
}

void check_count(const std::string& layer, const char* what, const Dims& sizes, int dims, Location where) {
  if (sizes.size() == 1 || sizes.size() == dims) return;
  raise_value(layer, fmt::format("{} {} has {} numbers, not 1 or {}", what, sizes.text(), sizes.size(), dims), where);
}

template <class Options>
void check_steps(const std::string& layer, int dims, const Options& options, Location where) {
  const ConvolutionPadding padding = options.padding;
  check_count(layer, "stride", options.stride, dims, where);
  check_count(layer, "dilation", options.dilation, dims, where);
  if (!padding.same) check_count(layer, "padding", padding.sizes, dims, where);
  if constexpr (transposed<Options>) check_count(layer, "output_padding", options.output_padding, dims, where);
  check_at_least(layer, "stride", options.stride, 1, where);
  check_at_least(layer, "dilation", options.dilation, 1, where);
  check_at_least(layer, "padding", padding.sizes, 0, where);
  if constexpr (transposed<Options>) {
    check_at_least(layer, "output_padding", options.output_padding, 0, where);
    const Dims extra = for_each_dim(options.output_padding, dims), stride = for_each_dim(options.stride, dims),
               dilation = for_each_dim(options.dilation, dims);
    for (int d = 0; d < std::min({extra.size(), stride.size(), dilation.size()}); ++d) {
      if (extra[d] < std::max(stride[d], dilation[d])) continue;
      raise_value(
          layer,
          fmt::format("output_padding {} is not below stride {} or dilation {}", extra[d], stride[d], dilation[d]),
          where);
    }
  }
}

void check_sizes(const std::string& layer, int64_t in, int64_t out, const Dims& kernel, int dims, int64_t groups,
                 Location where) {
  for (const int64_t size : kernel) check_at_least(layer, "kernel", size, 1, where);
  if (kernel.size() != dims) {
    raise_value(layer, mismatch_text("kernel", fmt::format("{} sizes", dims), kernel.size()), where);
  }
  if (groups < 1 || in % groups != 0 || out % groups != 0) {
    raise_value(layer, fmt::format("{} groups do not divide {} and {} channels", groups, in, out), where);
  }
}

bool all_are(const Dims& sizes, int64_t value) {
  return std::ranges::all_of(sizes, [value](int64_t size) { return size == value; });
}

/// "1, 6, kernel_size=(5, 5), stride=(1, 1), padding=(2, 2)", as PyTorch prints it.
template <class Options>
std::string options_text(int64_t in, int64_t out, const Dims& kernel, const Options& options) {
  const auto each = [&](const Dims& sizes) { return python_tuple(for_each_dim(sizes, kernel.size())); };
  std::string text = fmt::format("{}, {}, kernel_size={}, stride={}", in, out, each(kernel), each(options.stride));
  const ConvolutionPadding padding = options.padding;
  if (padding.same) text += ", padding=same";
  else if (!all_are(padding.sizes, 0)) text += ", padding=" + each(padding.sizes);
  if (!all_are(options.dilation, 1)) text += ", dilation=" + each(options.dilation);
  if constexpr (transposed<Options>) {
    if (!all_are(options.output_padding, 0)) text += ", output_padding=" + each(options.output_padding);
  }
  if (options.groups != 1) text += fmt::format(", groups={}", options.groups);
  if (!options.bias) text += ", bias=False";
  if constexpr (!transposed<Options>) {
    const auto mode = static_cast<size_t>(options.padding_mode);
    if (mode != 0) text += fmt::format(", padding_mode={}", padding_modes[mode]);
  }
  return text;
}

/// Edges for weft::pad, last dimension first, if that does the padding; else empty.
Dims edges_of(const std::string& layer, const ConvOptions& options, const Dims& kernel, Location where) {
  if (options.padding.same && !all_are(options.stride, 1)) {
    raise_value(layer, "padding \"same\" goes with a stride of 1 only", where);
  }
  if (options.padding_mode == Padding::constant) return {};
  const int dims = kernel.size();
  const Dims padding = for_each_dim(options.padding.sizes, dims), dilation = for_each_dim(options.dilation, dims);
  if (padding.size() != dims || dilation.size() != dims) {
    raise_value(layer,
                fmt::format("{} paddings and {} dilations for {} dimensions", padding.size(), dilation.size(), dims),
                where);
  }
  Dims edges;
  for (int d = dims - 1; d >= 0; --d) {
    check_size(layer, "padding", padding[d], where);
    const Checked checked = Checked(std::max<int64_t>(kernel[d] - 1, 0)) * dilation[d];
    if (!checked.fits()) raise_value(layer, fmt::format("a dilation of {} is too large", dilation[d]), where);
    const int64_t reach = checked.value();
    edges.push_back(options.padding.same ? reach / 2 : padding[d]);
    edges.push_back(options.padding.same ? reach - reach / 2 : padding[d]);
  }
  return all_are(edges, 0) ? Dims() : edges;
}

ConvolutionOptions for_op(const ConvOptions& o) { return {o.stride, o.padding, o.dilation, o.groups}; }
TransposedConvolutionOptions for_op(const ConvTransposeOptions& o) {
  return {o.stride, o.padding, o.output_padding, o.groups, o.dilation};
}

}  // namespace

template <int dims>
static auto convolution() {
  using O = ConvOptions;
  return described(name_for("Conv", dims), "", required<int64_t>("in_channels").at_least(0),
                   required<int64_t>("out_channels").at_least(0), required<Dims>("kernel_size").tuple_of(dims),
                   option("stride", &O::stride).tuple_of(dims), option("padding", &O::padding).tuple_of(dims).hidden(),
                   option("dilation", &O::dilation).tuple_of(dims), option("groups", &O::groups),
                   option("bias", &O::bias), option("padding_mode", &O::padding_mode, padding_modes));
}
template <int dims>
static auto transposed_convolution() {
  using O = ConvTransposeOptions;
  return described(name_for("ConvTranspose", dims), "", required<int64_t>("in_channels").at_least(0),
                   required<int64_t>("out_channels").at_least(0), required<Dims>("kernel_size").tuple_of(dims),
                   option("stride", &O::stride).tuple_of(dims), option("padding", &O::padding).tuple_of(dims),
                   option("output_padding", &O::output_padding).tuple_of(dims),
                   option("dilation", &O::dilation).tuple_of(dims).python_at(8), option("groups", &O::groups),
                   option("bias", &O::bias), python_option("padding_mode", "zeros"));
}
static auto describe(Of<Conv1d>) { return convolution<1>(); }
static auto describe(Of<Conv2d>) { return convolution<2>(); }
static auto describe(Of<Conv3d>) { return convolution<3>(); }
static auto describe(Of<ConvTranspose1d>) { return transposed_convolution<1>(); }
static auto describe(Of<ConvTranspose2d>) { return transposed_convolution<2>(); }
static auto describe(Of<ConvTranspose3d>) { return transposed_convolution<3>(); }

namespace detail {

template <class Self, int dims, class Options>
Convolution<Self, dims, Options>::Convolution(int64_t in, int64_t out, const Dims& kernel, const Options& options,
                                              Location where)
    : options_(options) {
  const std::string layer = "nn::" + this->class_name();
  const Dims sizes = for_each_dim(kernel, dims);
  set_options_of<Self>(*this, where, in, out, sizes, options);
  check_sizes(layer, in, out, sizes, dims, options.groups, where);
  check_steps(layer, dims, options, where);
  this->set_extra_repr(options_text(in, out, sizes, options));
  if constexpr (!transposed<Options>) {
    edges_ = edges_of(layer, options, sizes, where);
    if (!edges_.empty()) {
      options_.padding = 0;
      Dims image{1, in};
      for (int d = 0; d < dims; ++d) image.push_back(*std::ranges::max_element(edges_) + 1);
      (void)pad(on_meta(image), edges_, options.padding_mode, 0, where);
    }
  }
  const int64_t first = transposed<Options> ? in : out, second = (transposed<Options> ? out : in) / options.groups;
  Dims shape{first, second};
  for (const int64_t size : sizes) shape.push_back(size);
  const int64_t fan_in = first == 0 ? 0 : shape.product() / first;
  weight = uniform_by_width(shape, fan_in, where);
  if (options.bias) bias = uniform_by_width(out, fan_in, where);
  this->register_parameter("weight", weight);
  this->register_parameter("bias", bias);
}

template <class Self, int dims, class Options>
Tensor Convolution<Self, dims, Options>::forward(const Tensor& x, Location where) const {
  const MemberTensor kernels = this->borrowed(weight, where), offsets = this->borrowed(bias, where);
  if constexpr (transposed<Options>) {
    const auto op = std::array{conv_transpose1d, conv_transpose2d, conv_transpose3d}[dims - 1];
    return op(x, kernels, offsets, for_op(options_), where);
  } else {
    const auto op = std::array{conv1d, conv2d, conv3d}[dims - 1];
    if (edges_.empty()) return op(x, kernels, offsets, for_op(options_), where);
    return op(pad(x, edges_, options_.padding_mode, 0, where), kernels, offsets, for_op(options_), where);
  }
}

}  // namespace detail

template class detail::Convolution<Conv1d, 1, ConvOptions>;
template class detail::Convolution<Conv2d, 2, ConvOptions>;
template class detail::Convolution<Conv3d, 3, ConvOptions>;
template class detail::Convolution<ConvTranspose1d, 1, ConvTransposeOptions>;
template class detail::Convolution<ConvTranspose2d, 2, ConvTransposeOptions>;
template class detail::Convolution<ConvTranspose3d, 3, ConvTransposeOptions>;

void detail::describe_convolutions(LayerList& list) {
  list.add<Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d>();
}

}  // namespace weft::nn
