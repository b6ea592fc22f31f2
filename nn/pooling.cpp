#include "pooling.hpp"

#include <array>

#include "description-inl.hpp"

namespace weft::nn {

template <class O>
static auto stride_of(Dims O::*stride, int tuple_size = 0) {
  return option("stride", stride).or_as("kernel_size").tuple_of(tuple_size);
}

template <int dims>
static auto describe(Of<MaxPool<dims>>) {
  using O = MaxPoolOptions;
  return described(name_for("MaxPool", dims), name_for("max_pool", dims), required<Dims>("kernel_size"),
                   stride_of(&O::stride), option("padding", &O::padding), option("dilation", &O::dilation),
                   python_option("return_indices", false).hidden(), option("ceil_mode", &O::ceil_mode));
}
template <int dims>
static auto describe(Of<MaxUnpool<dims>>) {
  using O = UnpoolOptions;
  return described(name_for("MaxUnpool", dims), name_for("max_unpool", dims),
                   required<Dims>("kernel_size").tuple_of(dims), stride_of(&O::stride, dims),
                   option("padding", &O::padding).tuple_of(dims),
                   option("output_size", &O::output_size).hidden().in_cpp_only());
}
template <int dims>
static auto describe(Of<FractionalMaxPool<dims>>) {
  using O = FractionalPoolOptions;
  return described(name_for("FractionalMaxPool", dims), name_for("fractional_max_pool", dims),
                   required<Dims>("kernel_size").hidden(), option("output_size", &O::output_size).hidden(),
                   option("output_ratio", &O::output_ratio).hidden(), python_option("return_indices", false).hidden(),
                   python_option("_random_samples", Attribute()).hidden());
}
template <int dims>
static auto describe(Of<AvgPool<dims>>) {
  using O = AveragePoolOptions;
  constexpr int tuple_size = dims == 1 ? 1 : 0;  // as in PyTorch, where only AvgPool1d prints tuples
  const auto divisor = option("divisor_override", &O::divisor_override).hidden();
  return described(name_for("AvgPool", dims), name_for("avg_pool", dims),
                   required<Dims>("kernel_size").tuple_of(tuple_size), stride_of(&O::stride, tuple_size),
                   option("padding", &O::padding).tuple_of(tuple_size), option("ceil_mode", &O::ceil_mode).hidden(),
                   option("count_include_pad", &O::count_include_pad).hidden(),
                   dims == 1 ? divisor.in_cpp_only() : divisor);
}
template <int dims>
static auto describe(Of<LPPool<dims>>) {
  return described(name_for("LPPool", dims), name_for("lp_pool", dims), required<double>("norm_type"),
                   required<Dims>("kernel_size"), option("stride", Dims()), option("ceil_mode", false));
}
template <int dims>
static auto describe(Of<AdaptiveAvgPool<dims>>) {
  return described(name_for("AdaptiveAvgPool", dims), name_for("adaptive_avg_pool", dims),
                   required<Dims>("output_size"));
}
template <int dims>
static auto describe(Of<AdaptiveMaxPool<dims>>) {
  return described(name_for("AdaptiveMaxPool", dims), name_for("adaptive_max_pool", dims),
                   required<Dims>("output_size"), python_option("return_indices", false).hidden());
}

template <int dims>
MaxPool<dims>::MaxPool(const Dims& kernel_size, const MaxPoolOptions& options, Location where)
    : kernel_size_(kernel_size), options_(options) {
  set_options(*this, where, kernel_size, options);
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
  set_options(*this, where, kernel_size, options);
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
  set_options(*this, where, kernel_size, options);
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
  this->set_function([kernel_size, options](const Tensor& x, bool, Location place) {
    return std::array{avg_pool1d, avg_pool2d, avg_pool3d}[dims - 1](x, kernel_size, options, place);
  });
  set_options(*this, where, kernel_size, options);
  this->forward(empty_batch(dims, 1, reach_of(kernel_size)), where);
}

template <int dims>
LPPool<dims>::LPPool(double norm_type, const Dims& kernel_size, const Dims& stride, bool ceil_mode, Location where) {
  this->set_function([=](const Tensor& x, bool, Location place) {
    const auto pool = std::array{lp_pool1d, lp_pool2d, lp_pool3d}[dims - 1];
    return pool(x, norm_type, kernel_size, stride, ceil_mode, place);
  });
  set_options(*this, where, norm_type, kernel_size, stride, ceil_mode);
  this->forward(empty_batch(dims, 1, reach_of(kernel_size)), where);
}

template <int dims>
AdaptiveAvgPool<dims>::AdaptiveAvgPool(const Dims& output_size, Location where) {
  this->set_function([output_size](const Tensor& x, bool, Location place) {
    const auto pool = std::array{adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d}[dims - 1];
    return pool(x, output_size, place);
  });
  set_options(*this, where, output_size);
  this->forward(empty_batch(dims), where);
}

template <int dims>
AdaptiveMaxPool<dims>::AdaptiveMaxPool(const Dims& output_size, Location where) : output_size_(output_size) {
  set_options(*this, where, output_size);
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

template <int dims>
static void add_pools(LayerList& list) {
  list.add<MaxPool<dims>, MaxUnpool<dims>, AvgPool<dims>, LPPool<dims>, AdaptiveAvgPool<dims>, AdaptiveMaxPool<dims>>();
  if constexpr (dims > 1) list.add<FractionalMaxPool<dims>>();
}
void detail::describe_pools(LayerList& list) { add_pools<1>(list), add_pools<2>(list), add_pools<3>(list); }

}  // namespace weft::nn
