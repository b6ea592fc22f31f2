#include "pooling.hpp"

#include <array>

#include "layer-inl.hpp"

namespace weft::nn {

namespace {

Attribute given(const Dims& sizes) { return sizes.empty() ? Attribute() : Attribute(sizes); }

const Dims& stride_or_kernel(const Dims& stride, const Dims& kernel_size) {
  return stride.empty() ? kernel_size : stride;
}

}  // namespace

template <int dims>
MaxPool<dims>::MaxPool(const Dims& kernel_size, const MaxPoolOptions& options, Location where)
    : kernel_size_(kernel_size), options_(options) {
  this->set_config({{"kernel_size", kernel_size},
                    {"stride", given(options.stride)},
                    {"padding", options.padding},
                    {"dilation", options.dilation},
                    {"ceil_mode", options.ceil_mode}});
  Config shown = this->config();
  shown.set("stride", stride_or_kernel(options.stride, kernel_size));
  this->set_extra_repr(shown.text());
  this->set_class_name(name_for("MaxPool", dims));
  forward(empty_batch(dims, 1, reach_of(kernel_size, options.dilation)), where);
}

template <int dims>
Tensor MaxPool<dims>::forward(const Tensor& x, Location where) const {
  return std::array{max_pool1d, max_pool2d, max_pool3d}[dims - 1](x, kernel_size_, options_, where);
}

template <int dims>
ValuesAndIndices MaxPool<dims>::forward_with_indices(const Tensor& x, Location where) const {
  const auto pool = std::array{max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices}[dims - 1];
  return pool(x, kernel_size_, options_, where);
}

template <int dims>
MaxUnpool<dims>::MaxUnpool(const Dims& kernel_size, const UnpoolOptions& options, Location where)
    : kernel_size_(kernel_size), options_(options) {
  // As in PyTorch, which prints one number per dimension.
  const auto shown = [](const Dims& sizes) {
    std::array<int64_t, dims> each;
    each.fill(sizes.empty() ? 0 : sizes[0]);
    return python_tuple(sizes.size() == 1 ? Dims(each) : sizes);
  };
  this->set_config({{"kernel_size", kernel_size},
                    {"stride", given(options.stride)},
                    {"padding", options.padding},
                    {"output_size", given(options.output_size)}});
  this->set_extra_repr(fmt::format("kernel_size={}, stride={}, padding={}", shown(kernel_size),
                                   shown(stride_or_kernel(options.stride, kernel_size)), shown(options.padding)));
  this->set_class_name(name_for("MaxUnpool", dims));
  const auto pool = std::array{max_pool1d, max_pool2d, max_pool3d}[dims - 1];
  (void)pool(empty_batch(dims, 1, reach_of(kernel_size)), kernel_size,
             {.stride = options.stride, .padding = options.padding}, where);
}

template <int dims>
Tensor MaxUnpool<dims>::forward(const Tensor& x, const Tensor& indices, const Dims& output_size, Location where) const {
  const auto unpool = std::array{max_unpool1d, max_unpool2d, max_unpool3d}[dims - 1];
  return unpool(x, indices, kernel_size_, {options_.stride, options_.padding, output_size}, where);
}

template <int dims>
FractionalMaxPool<dims>::FractionalMaxPool(const Dims& kernel_size, const FractionalPoolOptions& options,
                                           Location where)
    : kernel_size_(kernel_size), options_(options) {
  this->set_config({{"kernel_size", kernel_size},
                    {"output_size", given(options.output_size)},
                    {"output_ratio", options.output_ratio.empty() ? Attribute() : Attribute(options.output_ratio)}});
  this->set_extra_repr({});
  this->set_class_name(name_for("FractionalMaxPool", dims));
  const auto pool = std::array{fractional_max_pool2d, fractional_max_pool3d}[dims - 2];
  const Checked reach = Checked(reach_of(kernel_size)) + reach_of(options.output_size);
  (void)pool(empty_batch(dims, 1, reach.fits() ? reach.value() : 0), kernel_size,
             {options.output_size, options.output_ratio}, where);
}

template <int dims>
ValuesAndIndices FractionalMaxPool<dims>::forward_with_indices(const Tensor& x, Location where) const {
  return std::array{fractional_max_pool2d, fractional_max_pool3d}[dims - 2](x, kernel_size_, options_, where);
}

template <int dims>
AvgPool<dims>::AvgPool(const Dims& kernel_size, const AveragePoolOptions& options, Location where) {
  // As in PyTorch, where only AvgPool1d prints tuples.
  const auto shown = dims == 1 ? python_tuple : python_sizes;
  this->set_function(
      [kernel_size, options](const Tensor& x, bool, Location place) {
        return std::array{avg_pool1d, avg_pool2d, avg_pool3d}[dims - 1](x, kernel_size, options, place);
      },
      {{"kernel_size", kernel_size},
       {"stride", given(options.stride)},
       {"padding", options.padding},
       {"ceil_mode", options.ceil_mode},
       {"count_include_pad", options.count_include_pad},
       {"divisor_override", options.divisor_override}},
      name_for("AvgPool", dims));
  this->set_extra_repr(fmt::format("kernel_size={}, stride={}, padding={}", shown(kernel_size),
                                   shown(stride_or_kernel(options.stride, kernel_size)), shown(options.padding)));
  this->forward(empty_batch(dims, 1, reach_of(kernel_size)), where);
}

template <int dims>
LPPool<dims>::LPPool(double norm_type, const Dims& kernel_size, const Dims& stride, bool ceil_mode, Location where) {
  this->set_function(
      [=](const Tensor& x, bool, Location place) {
        const auto pool = std::array{lp_pool1d, lp_pool2d, lp_pool3d}[dims - 1];
        return pool(x, norm_type, kernel_size, stride, ceil_mode, place);
      },
      {{"norm_type", norm_type}, {"kernel_size", kernel_size}, {"stride", given(stride)}, {"ceil_mode", ceil_mode}},
      name_for("LPPool", dims));
  this->forward(empty_batch(dims, 1, reach_of(kernel_size)), where);
}

template <int dims>
AdaptiveAvgPool<dims>::AdaptiveAvgPool(const Dims& output_size, Location where) {
  this->set_function(
      [output_size](const Tensor& x, bool, Location place) {
        const auto pool = std::array{adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d}[dims - 1];
        return pool(x, output_size, place);
      },
      {{"output_size", output_size}}, name_for("AdaptiveAvgPool", dims));
  this->forward(empty_batch(dims), where);
}

template <int dims>
AdaptiveMaxPool<dims>::AdaptiveMaxPool(const Dims& output_size, Location where) : output_size_(output_size) {
  this->set_config({{"output_size", output_size}});
  this->set_class_name(name_for("AdaptiveMaxPool", dims));
  forward(empty_batch(dims), where);
}

template <int dims>
Tensor AdaptiveMaxPool<dims>::forward(const Tensor& x, Location where) const {
  return std::array{adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d}[dims - 1](x, output_size_, where);
}

template <int dims>
ValuesAndIndices AdaptiveMaxPool<dims>::forward_with_indices(const Tensor& x, Location where) const {
  const auto pool = std::array{adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices,
                               adaptive_max_pool3d_with_indices}[dims - 1];
  return pool(x, output_size_, where);
}

template class MaxPool<1>;
template class MaxPool<2>;
template class MaxPool<3>;
template class MaxUnpool<1>;
template class MaxUnpool<2>;
template class MaxUnpool<3>;
template class FractionalMaxPool<2>;
template class FractionalMaxPool<3>;
WEFT_FOR_DIMS(AvgPool)
WEFT_FOR_DIMS(LPPool)
WEFT_FOR_DIMS(AdaptiveAvgPool)
template class AdaptiveMaxPool<1>;
template class AdaptiveMaxPool<2>;
template class AdaptiveMaxPool<3>;

}  // namespace weft::nn
