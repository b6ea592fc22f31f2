// Convolutions by cuDNN's graph API, an operation graph of one node; what it has no suitable engine for goes to the
// portable kernels. https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html
#include "library.hpp"

#if WEFT_HAS_CUDNN

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "plans.hpp"
#include "queue.hpp"
#include "../portable/host/host.hpp"
#include "../portable/host/launch.hpp"
#include "../portable/host/scratch_memory.hpp"

namespace weft::cuda {

namespace {

// ---- descriptors ----------------------------------------------------------------------------------------------------

constexpr cudnnBackendAttributeType_t type_of(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
constexpr cudnnBackendAttributeType_t type_of(cudnnConvolutionMode_t) { return CUDNN_TYPE_CONVOLUTION_MODE; }
constexpr cudnnBackendAttributeType_t type_of(cudnnBackendHeurMode_t) { return CUDNN_TYPE_HEUR_MODE; }
constexpr cudnnBackendAttributeType_t type_of(cudnnBackendDescriptor_t) { return CUDNN_TYPE_BACKEND_DESCRIPTOR; }
constexpr cudnnBackendAttributeType_t type_of(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
constexpr cudnnBackendAttributeType_t type_of(cudnnBackendNumericalNote_t) { return CUDNN_TYPE_NUMERICAL_NOTE; }
constexpr cudnnBackendAttributeType_t type_of(int64_t) { return CUDNN_TYPE_INT64; }
constexpr cudnnBackendAttributeType_t type_of(float) { return CUDNN_TYPE_FLOAT; }
constexpr cudnnBackendAttributeType_t type_of(double) { return CUDNN_TYPE_DOUBLE; }

using Attribute = cudnnBackendAttributeName_t;

/// An object of cuDNN's. It keeps what it refers to by itself.
class Descriptor {
 public:
  Descriptor(cudnnBackendDescriptorType_t type, int device) : device_(device) {
    WEFT_DNN(device, cudnnBackendCreateDescriptor, type, &handle_);
  }
  ~Descriptor() {
    if (handle_ != nullptr) dnn().cudnnBackendDestroyDescriptor(handle_);
  }
  Descriptor(Descriptor&& other) noexcept : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  cudnnBackendDescriptor_t handle() const { return handle_; }

  template <class T>
  Descriptor& set(Attribute name, const T* values, size_t count) {
    WEFT_DNN(device_, cudnnBackendSetAttribute, handle_, name, type_of(*values), static_cast<int64_t>(count), values);
    return *this;
  }
  template <class T>
  Descriptor& set(Attribute name, T value) {
    return set(name, &value, 1);
  }
  Descriptor& set(Attribute name, const Descriptor& part) { return set(name, part.handle_); }
  Descriptor& set(Attribute name, const std::vector<int64_t>& values) {
    return set(name, values.data(), values.size());
  }
  Descriptor& set_pointers(Attribute name, void* const* values, size_t count) {
    WEFT_DNN(device_, cudnnBackendSetAttribute, handle_, name, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(count),
             values);
    return *this;
  }

  /// At most `most` values. Where they are descriptors, `values` has some to be filled.
  template <class T>
  int64_t get(Attribute name, T* values, size_t most) const {
    int64_t count = 0;
    WEFT_DNN(device_, cudnnBackendGetAttribute, handle_, name, type_of(*values), static_cast<int64_t>(most), &count,
             values);
    return std::min(count, static_cast<int64_t>(most));
  }

  Descriptor&& finalize() && {
    WEFT_DNN(device_, cudnnBackendFinalize, handle_);
    return std::move(*this);
  }
  /// False where the library does not serve it.
  bool try_finalize() { return dnn().cudnnBackendFinalize(handle_) == CUDNN_STATUS_SUCCESS; }

 private:
  int device_;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

// ---- what is convolved ----------------------------------------------------------------------------------------------

/// Two spatial dimensions, or three: the outer ones that are 1 are left out.
struct Problem {
  Convolution product;
  DType dtype;
  bool adds;  ///< to what the result holds
  int dims;
  std::array<int64_t, 5> data, weight, result;  ///< their sizes, [batch or outputs, channels, spatial]
  ConvolutionSteps steps;
  int64_t alignment;
};
using Key = std::array<int64_t, 30>;

Key key_of(const Problem& p) {
  Key key = {
      static_cast<int64_t>(p.product), static_cast<int64_t>(p.dtype), p.adds, p.dims, p.alignment, p.steps.groups};
  auto next = key.begin() + 6;
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

cudnnDataType_t data_type(DType t) {
  if (t == DType::f64) return CUDNN_DATA_DOUBLE;
  return t == DType::f32 ? CUDNN_DATA_FLOAT : (t == DType::f16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16);
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

// ---- what the library is told ---------------------------------------------------------------------------------------

enum Operand : int64_t { data_id = 1, weight_id, result_id };

Descriptor tensor_of(const Problem& p, Operand id, const std::array<int64_t, 5>& all_sizes, int device) {
  std::vector<int64_t> sizes = {all_sizes[0], all_sizes[1]}, strides;
  for (int d = 3 - p.dims; d < 3; ++d) sizes.push_back(all_sizes[static_cast<size_t>(2 + d)]);
  strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0; stride *= sizes[d]) strides[d] = stride;
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, device);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(p.dtype))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t{id})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, p.alignment);
  return std::move(tensor).finalize();
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
  Attribute steps, data, weight, result, alpha, beta;
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

// Of versions before 9.8, which ask for it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
constexpr Attribute graph_handle = CUDNN_ATTR_OPERATIONGRAPH_HANDLE, plan_handle = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#pragma GCC diagnostic pop

Descriptor graph_of(const Problem& p, cudnnHandle_t handle, int device) {
  const OperationNames& names = operation_names[static_cast<size_t>(p.product)];
  const Descriptor steps = steps_of(p, device), data = tensor_of(p, data_id, p.data, device),
                   weight = tensor_of(p, weight_id, p.weight, device),
                   result = tensor_of(p, result_id, p.result, device);
  Descriptor operation(names.type, device);
  operation.set(names.steps, steps).set(names.data, data).set(names.weight, weight).set(names.result, result);
  if (p.dtype == DType::f64) operation.set(names.alpha, 1.0).set(names.beta, p.adds ? 1.0 : 0.0);
  else operation.set(names.alpha, 1.0f).set(names.beta, p.adds ? 1.0f : 0.0f);
  operation = std::move(operation).finalize();
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, device);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation).set(graph_handle, handle);
  return std::move(graph).finalize();
}

/// The same bits in every run, and no number rounded before it is multiplied.
bool is_exact(const Descriptor& configuration, DType dtype, int device) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, device);
  cudnnBackendDescriptor_t handle = engine.handle();
  configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, &handle, 1);
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT] = {};
  const int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, notes, std::size(notes));
  return std::none_of(notes, notes + count, [&](cudnnBackendNumericalNote_t note) {
    const bool rounds =
        note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS || note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    const bool in_tf32 = note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && dtype == DType::f32;
    return rounds || in_tf32 || note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
  });
}

struct Plan {
  std::optional<Descriptor> execution;  ///< none where the library does not serve the problem
  int64_t workspace_bytes = 0;
};

/// The first engine that serves, of those that `mode` proposes, the fastest first.
Plan plan_by(cudnnBackendHeurMode_t mode, const Problem& p, const Descriptor& graph, cudnnHandle_t handle, int device) {
  constexpr size_t most_engines = 16;
  constexpr int64_t most_workspace = int64_t{256} << 20;
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, device);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (!heuristic.try_finalize()) return {};
  std::vector<Descriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (size_t i = 0; i < most_engines; ++i) {
    handles.push_back(configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, device).handle());
  }
  const int64_t count = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, handles.data(), most_engines);
  for (int64_t i = 0; i < count; ++i) {
    const Descriptor& configuration = configurations[static_cast<size_t>(i)];
    if (!is_exact(configuration, p.dtype, device)) continue;
    Descriptor execution(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, device);
    execution.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration).set(plan_handle, handle);
    if (!execution.try_finalize()) continue;
    int64_t bytes = 0;
    execution.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, &bytes, 1);
    if (bytes <= most_workspace) return {std::move(execution), bytes};
  }
  return {};
}

Plan make_plan(const Problem& p, cudnnHandle_t handle, int device) {
  const Descriptor graph = graph_of(p, handle, device);
  Plan plan = plan_by(CUDNN_HEUR_MODE_A, p, graph, handle, device);
  return plan.execution ? std::move(plan) : plan_by(CUDNN_HEUR_MODE_FALLBACK, p, graph, handle, device);
}

struct DestroyHandle {
  void operator()(cudnnHandle_t handle) const { dnn().cudnnDestroy(handle); }
};
using OwnedHandle = std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, DestroyHandle>;
using Convolutions = Workplace<OwnedHandle, Key, Plan>;

Convolutions& convolutions_of(int device) {
  return Convolutions::of(device, [](int index) {
    cudnnHandle_t handle = nullptr;
    WEFT_DNN(index, cudnnCreate, &handle);
    return OwnedHandle(handle);
  });
}

// ---- the call -------------------------------------------------------------------------------------------------------

/// Room for a contiguous tensor's numbers in f32, for the duration of a kernel's host code; none for none.
class Wide {
 public:
  Wide(portable::host::Accelerator& device, const View& like) : view_(like) {
    Layout& l = view_.layout;
    if (like.data != nullptr) {
      memory_.emplace(device, static_cast<size_t>(std::max<int64_t>(l.numel, 1)) * sizeof(float));
      view_.data = memory_->data();
    }
    const int64_t factor = itemsize(DType::f32) / itemsize(l.dtype);
    for (int d = 0; d < l.rank; ++d) l.strides[d] *= factor;
    l.dtype = DType::f32;
  }
  const View& view() const { return view_; }

 private:
  View view_;
  std::optional<portable::host::ScratchMemory> memory_;
};

/// One number for each channel of `out`, over all its places.
View over_places(const View& bias, const View& out) {
  View wide = out;
  wide.data = bias.data;
  for (int d = 0; d < out.layout.rank; ++d) wide.layout.strides[d] = 0;
  wide.layout.strides[1] = bias.layout.rank == 0 ? 0 : bias.layout.strides[bias.layout.rank - 1];
  wide.layout.contiguous = 0;
  return wide;
}

void execute(const Plan& plan, const std::array<void*, 3>& operands, void* workspace, int device, cudaStream_t stream) {
  const cudnnHandle_t handle = convolutions_of(device).handle();
  WEFT_DNN(device, cudnnSetStream, handle, stream);
  constexpr int64_t ids[] = {data_id, weight_id, result_id};
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, device);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids, 3)
      .set_pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, operands.data(), 3)
      .set_pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &workspace, 1);
  pack = std::move(pack).finalize();
  WEFT_DNN(device, cudnnBackendExecute, handle, plan.execution->handle(), pack.handle());
}

bool is_empty(const View& view) { return view.layout.numel == 0; }

/// The portable kernels, which take no floats of 16 bits.
void convolve_portably(Convolution product, const View& out, const View& a, const View& b, const View& bias,
                       const ConvolutionSteps& steps) {
  if (itemsize(out.layout.dtype) > 2) return portable::host::convolution(product, out, a, b, bias, steps);
  portable::host::Accelerator& device = portable::host::device_of(out);
  const Wide wide_out(device, out), wide_a(device, a), wide_b(device, b), wide_bias(device, bias);
  for (const auto& [to, from] : {std::pair(&wide_a, &a), std::pair(&wide_b, &b), std::pair(&wide_bias, &bias)}) {
    if (from->data != nullptr) portable::host::copy(to->view(), *from);
  }
  portable::host::convolution(product, wide_out.view(), wide_a.view(), wide_b.view(), wide_bias.view(), steps);
  portable::host::copy(out, wide_out.view());
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
  Convolutions& known = convolutions_of(device);
  const auto plan = known.plan(key_of(p), [&] { return make_plan(p, known.handle(), device); });
  if (!plan->execution) return portably();
  const auto bytes = static_cast<size_t>(std::max<int64_t>(plan->workspace_bytes, 1));
  const portable::host::ScratchMemory workspace(queue.accelerator(), bytes);
  if (p.adds) portable::host::copy(out, over_places(bias, out));
  const std::array<void*, 3> operands = {data.data, weight.data, result.data};
  queue.run_library([plan, operands, memory = workspace.data(), device](cudaStream_t stream) {
    execute(*plan, operands, memory, device, stream);
  });
}

}  // namespace weft::cuda

#endif
