#include "pooling.hpp"

#include <array>

#include "layer-inl.hpp"

namespace weft::nn {

namespace {

const Dims& stride_or_kernel(const Dims& stride, const Dims& kernel_size) {
  return stride.empty() ? kernel_size : stride;
}

}  // namespace

template <int dims>
MaxPool<dims>::MaxPool(const Dims& kernel_size, const MaxPoolOptions& options) {
  this->set_function(
      [kernel_size, options](const Tensor& x, bool, Location where) {
        return std::array{max_pool1d, max_pool2d, max_pool3d}[dims - 1](x, kernel_size, options, where);
      },
      fmt::format("kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}", python_sizes(kernel_size),
                  python_sizes(stride_or_kernel(options.stride, kernel_size)), python_sizes(options.padding),
                  python_sizes(options.dilation), python_bool(options.ceil_mode)),
      name_for("MaxPool", dims));
}

template <int dims>
AvgPool<dims>::AvgPool(const Dims& kernel_size, const AveragePoolOptions& options) {
  // As in PyTorch, whose AvgPool1d alone prints tuples.
  const auto shown = dims == 1 ? python_tuple : python_sizes;
  this->set_function(
      [kernel_size, options](const Tensor& x, bool, Location where) {
        return std::array{avg_pool1d, avg_pool2d, avg_pool3d}[dims - 1](x, kernel_size, options, where);
      },
      fmt::format("kernel_size={}, stride={}, padding={}", shown(kernel_size),
                  shown(stride_or_kernel(options.stride, kernel_size)), shown(options.padding)),
      name_for("AvgPool", dims));
}

template <int dims>
LPPool<dims>::LPPool(double norm_type, const Dims& kernel_size, const Dims& stride, bool ceil_mode) {
  this->set_function(
      [=](const Tensor& x, bool, Location where) {
        const auto pool = std::array{lp_pool1d, lp_pool2d, lp_pool3d}[dims - 1];
        return pool(x, norm_type, kernel_size, stride, ceil_mode, where);
      },
      fmt::format("norm_type={}, kernel_size={}, stride={}, ceil_mode={}", python_float(norm_type),
                  python_sizes(kernel_size), stride.empty() ? "None" : python_sizes(stride), python_bool(ceil_mode)),
      name_for("LPPool", dims));
}

template <int dims>
AdaptiveAvgPool<dims>::AdaptiveAvgPool(const Dims& output_size) {
  this->set_function(
      [output_size](const Tensor& x, bool, Location where) {
        const auto pool = std::array{adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d}[dims - 1];
        return pool(x, output_size, where);
      },
      "output_size=" + python_sizes(output_size), name_for("AdaptiveAvgPool", dims));
}

template <int dims>
AdaptiveMaxPool<dims>::AdaptiveMaxPool(const Dims& output_size) {
  this->set_function(
      [output_size](const Tensor& x, bool, Location where) {
        const auto pool = std::array{adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d}[dims - 1];
        return pool(x, output_size, where);
      },
      "output_size=" + python_sizes(output_size), name_for("AdaptiveMaxPool", dims));
}

WEFT_FOR_DIMS(MaxPool)
WEFT_FOR_DIMS(AvgPool)
WEFT_FOR_DIMS(LPPool)
WEFT_FOR_DIMS(AdaptiveAvgPool)
WEFT_FOR_DIMS(AdaptiveMaxPool)

}  // namespace weft::nn
