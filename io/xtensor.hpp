// Shares memory with xtensor in both directions, without a copy. Needs xtensor's headers, so <weft/weft.hpp> does not
// include this file.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xtensor.hpp>

#include "../ops/create.hpp"
#include "../tensor/index.hpp"

namespace weft {

/// Returns a tensor over the elements of an xarray, xtensor or strided adaptor, with its shape and strides. The array
/// is kept alive as long as any view of it. Errors as from_blob; ShapeError for more than 8 dimensions.
template <class Array>
Tensor from_xtensor(std::shared_ptr<Array> array, Location where = {}) {
  Dims shape, strides;
  for (size_t i = 0; i < array->dimension(); ++i) {
    shape.push_back(static_cast<int64_t>(array->shape(i)));
    strides.push_back(static_cast<int64_t>(array->strides()[i]));  // 0 where the size is 1
  }
  auto* first = array->data() + array->data_offset();
  return from_blob(first, shape, strides, std::move(array), where);
}

/// Same for a temporary or moved array, which the tensor then owns: `from_xtensor(std::move(a))`.
template <class Array>
  requires(!std::is_lvalue_reference_v<Array>)
Tensor from_xtensor(Array&& array, Location where = {}) {
  return from_xtensor(std::make_shared<std::remove_cvref_t<Array>>(std::move(array)), where);
}

/// Returns a writable xtensor view of the tensor's elements, with its strides. It does not keep the tensor alive, and
/// autograd does not see writes. Raises DTypeError unless T is the element type, and DeviceError unless the tensor is
/// on the CPU.
template <class T>
auto as_xtensor(const Tensor& tensor, Location where = {}) {
  if (!tensor.device().is_cpu()) {
    raise<DeviceError>(
        {.op = "as_xtensor", .problem = "xtensor sees host memory only", .remedy = "copy with to(\"cpu\")"}, where);
  }
  std::vector<size_t> shape;
  std::vector<std::ptrdiff_t> strides;
  int64_t low = 0, high = 0;  // the offsets of the elements, from the first one
  for (int i = 0; i < tensor.dim(); ++i) {
    const int64_t size = tensor.size(i), stride = size == 1 ? 0 : tensor.stride(i);
    (stride < 0 ? low : high) += (size - 1) * stride;
    shape.push_back(static_cast<size_t>(size));
    strides.push_back(stride);
  }
  const auto span = static_cast<size_t>(tensor.numel() == 0 ? 0 : high - low + 1);
  const auto first = static_cast<size_t>(tensor.numel() == 0 ? 0 : -low);
  T* data = tensor.data<T>(where);
  auto flat = xt::adapt(data - first, span, xt::no_ownership(), std::vector<size_t>{span});
  return xt::strided_view(std::move(flat), std::move(shape), std::move(strides), first, xt::layout_type::dynamic);
}

}  // namespace weft
