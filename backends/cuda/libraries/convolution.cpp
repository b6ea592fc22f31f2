#include "convolution.hpp"

#if WEFT_HAS_CUDNN

#include <algorithm>

#include "converted.hpp"
#include "../queue.hpp"

namespace weft::cuda {

namespace {

// ---- operands -------------------------------------------------------------------------------------------------------

using Problem = ConvolutionProblem;

DnnKey key_of(const Problem& p) {
  DnnKey key = {static_cast<int64_t>(DnnKind::convolution),
                static_cast<int64_t>(p.product),
                static_cast<int64_t>(p.dtype),
                p.adds,
                p.dims,
                p.alignment,
                p.steps.groups};
  auto next = key.begin() + 7;
  for (const auto& sizes : {p.data, p.weight, p.result}) next = std::copy(sizes.begin(), sizes.end(), next);
  for (const auto& steps : {p.steps.stride, p.steps.padding, p.steps.dilation}) next = std::copy_n(steps, 3, next);
  return key;
}

std::array<int64_t, 5> sizes_of(const View& view) {
  std::array<int64_t, 5> sizes = {};
  std::copy_n(view.layout.sizes, 5, sizes.begin());
  return sizes;
}

bool is_plane(const Problem& p) {
  const bool thin = p.data[2] == 1 && p.weight[2] == 1 && p.result[2] == 1;
  return thin && p.steps.padding[0] == 0;
}

/// The last `dims` of three.
std::vector<int64_t> spatial(const Problem& p, const int64_t* three) { return {three + 3 - p.dims, three + 3}; }

/// Zeros at the high end, so that the result has its size.
std::vector<int64_t> high_padding(const Problem& p) {
  std::vector<int64_t> padding;
  for (int d = 3 - p.dims; d < 3; ++d) {
    const auto at = static_cast<size_t>(2 + d);
    const int64_t reach = (p.result[at] - 1) * p.steps.stride[d] + p.steps.dilation[d] * (p.weight[at] - 1) + 1;
    padding.push_back(std::max<int64_t>(reach - p.data[at] - p.steps.padding[d], 0));
  }
  return padding;
}

// ---- the library's description
// ---------------------------------------------------------------------------------------

enum Operand : int64_t { data_id = 1, weight_id, result_id };

Descriptor tensor_of(const Problem& p, Operand id, const std::array<int64_t, 5>& all_sizes, int device) {
  std::vector<int64_t> sizes = {all_sizes[0], all_sizes[1]};
  for (int d = 3 - p.dims; d < 3; ++d) sizes.push_back(all_sizes[static_cast<size_t>(2 + d)]);
  return dnn_tensor(id, dnn_type(p.dtype), sizes, dense_strides(sizes), p.alignment, device);
}

Descriptor steps_of(const Problem& p, int device) {
  Descriptor steps(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, device);
  steps.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, p.dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{p.dims})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, spatial(p, p.steps.dilation))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spatial(p, p.steps.stride))
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, spatial(p, p.steps.padding))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, high_padding(p));
  return std::move(steps).finalize();
}

/// The names of one operation's attributes.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  Descriptor::Name steps, data, weight, result, alpha, beta;
};
constexpr OperationNames operation_names[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

}  // namespace

Descriptor convolution_graph(const Problem& p, cudnnHandle_t handle, int device) {
  const OperationNames& names = operation_names[static_cast<size_t>(p.product)];
  const Descriptor steps = steps_of(p, device), data = tensor_of(p, data_id, p.data, device),
                   weight = tensor_of(p, weight_id, p.weight, device),
                   result = tensor_of(p, result_id, p.result, device);
  Descriptor operation(names.type, device);
  operation.set(names.steps, steps).set(names.data, data).set(names.weight, weight).set(names.result, result);
  if (p.dtype == DType::f64) operation.set(names.alpha, 1.0).set(names.beta, p.adds ? 1.0 : 0.0);
  else operation.set(names.alpha, 1.0f).set(names.beta, p.adds ? 1.0f : 0.0f);
  return OperationGraph::of(std::move(operation).finalize(), handle, device);
}

// ---- the call -------------------------------------------------------------------------------------------------------

namespace {

/// One number for each channel of `out`, over all its places.
View over_places(const View& bias, const View& out) {
  View wide = out;
  wide.data = bias.data;
  for (int d = 0; d < out.layout.rank; ++d) wide.layout.strides[d] = 0;
  wide.layout.strides[1] = bias.layout.rank == 0 ? 0 : bias.layout.strides[bias.layout.rank - 1];
  wide.layout.contiguous = 0;
  return wide;
}

bool is_empty(const View& view) { return view.layout.numel == 0; }

/// The portable kernels, which take no floats of 16 bits.
void convolve_portably(Convolution product, const View& out, const View& a, const View& b, const View& bias,
                       const ConvolutionSteps& steps) {
  if (itemsize(out.layout.dtype) > 2) return portable::host::convolution(product, out, a, b, bias, steps);
  const Converted wide_out(out, DType::f32), wide_a(a, DType::f32), wide_b(b, DType::f32), wide_bias(bias, DType::f32);
  for (const Converted* operand : {&wide_a, &wide_b, &wide_bias}) operand->read();
  portable::host::convolution(product, wide_out.view(), wide_a.view(), wide_b.view(), wide_bias.view(), steps);
  wide_out.write_back();
}

}  // namespace

void convolution(Convolution product, const View& out, const View& a, const View& b, const View& bias,
                 const ConvolutionSteps& steps) {
  const auto portably = [&] { convolve_portably(product, out, a, b, bias, steps); };
  const DType t = out.layout.dtype;
  if (find_dnn() == nullptr || is_empty(out) || is_empty(a) || is_empty(b)) return portably();
  if (!portable::host::is_computable_float(t) || a.layout.dtype != t || b.layout.dtype != t) return portably();
  const bool by_data = product == Convolution::by_data, by_weight = product == Convolution::by_weight;
  const View &data = by_data ? out : a, &weight = by_weight ? out : b, &result = by_data ? a : by_weight ? b : out;
  Problem p = {product, t, bias.data != nullptr, 3, sizes_of(data), sizes_of(weight), sizes_of(result), steps, 0};
  if (is_plane(p)) p.dims = 2;
  p.alignment = std::min({alignment_of(data.data), alignment_of(weight.data), alignment_of(result.data)});

  CudaQueue& queue = cuda_queue_of(out);
  const int device = queue.device().index;
  const CurrentDevice current(device);
  DnnWorkplace& known = dnn_workplace_of(device);
  const auto plan = known.plan(key_of(p), [&] {
    const DnnTarget target = {known.handle(), nullptr, device};
    return make_plan_if_served([&] { return convolution_graph(p, target.handle, device); }, wishes_of(p), target);
  });
  if (!plan->execution) return portably();
  const auto bytes = static_cast<size_t>(std::max<int64_t>(plan->workspace_bytes, 1));
  const portable::host::ScratchMemory workspace(queue.accelerator(), bytes);
  if (p.adds) portable::host::copy(out, over_places(bias, out));
  const std::array<DnnOperand, 3> operands = {
      {{data_id, data.data}, {weight_id, weight.data}, {result_id, result.data}}};
  queue.run_library([plan, operands, memory = workspace.data(), device](cudaStream_t stream) {
    execute(*plan, operands, memory, device, stream);
  });
}

}  // namespace weft::cuda

#endif
