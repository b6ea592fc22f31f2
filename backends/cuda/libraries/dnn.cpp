#include "dnn.hpp"

#if WEFT_HAS_CUDNN

namespace weft::cuda {

cudnnDataType_t dnn_type(DType t) {
  if (t == DType::f64) return CUDNN_DATA_DOUBLE;
  return t == DType::f32 ? CUDNN_DATA_FLOAT : (t == DType::f16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16);
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0; stride *= sizes[d]) strides[d] = stride;
  return strides;
}

namespace {

// Required by versions before 9.8.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
constexpr Descriptor::Name graph_handle = CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
                           plan_handle = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#pragma GCC diagnostic pop

Descriptor tensor_descriptor(int64_t id, cudnnDataType_t type, const std::vector<int64_t>& sizes,
                             const std::vector<int64_t>& strides, int64_t alignment, int device) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, device);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  return tensor;
}

constexpr int64_t usual_alignment = 16;

Descriptor graph_of(std::span<const cudnnBackendDescriptor_t> operations, cudnnHandle_t handle, int device) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, device);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations.data(), operations.size());
  if (handle != nullptr) graph.set(graph_handle, handle);
  return std::move(graph).finalize();
}

}  // namespace

Descriptor dnn_tensor(int64_t id, cudnnDataType_t type, const std::vector<int64_t>& sizes,
                      const std::vector<int64_t>& strides, int64_t alignment, int device) {
  return tensor_descriptor(id, type, sizes, strides, alignment, device).finalize();
}

// ---- graphs ---------------------------------------------------------------------------------------------------------

OperationGraph::Tensor OperationGraph::tensor(int64_t id, cudnnDataType_t type, const std::vector<int64_t>& sizes,
                                              const std::vector<int64_t>& strides) {
  tensors_.push_back({dnn_tensor(id, type, sizes, strides, usual_alignment, device_), sizes});
  return tensors_.size() - 1;
}

OperationGraph::Tensor OperationGraph::number(int64_t id) {
  const std::vector<int64_t> ones(4, 1);
  Descriptor tensor = tensor_descriptor(id, CUDNN_DATA_FLOAT, ones, ones, usual_alignment, device_);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  tensors_.push_back({std::move(tensor).finalize(), ones});
  return tensors_.size() - 1;
}

OperationGraph::Tensor OperationGraph::between(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  const cudnnDataType_t type = std::exchange(type_, std::nullopt).value_or(CUDNN_DATA_FLOAT);
  const int64_t id = first_own_id + static_cast<int64_t>(tensors_.size());
  Descriptor tensor = tensor_descriptor(id, type, sizes, strides, usual_alignment, device_);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  tensors_.push_back({std::move(tensor).finalize(), sizes});
  return tensors_.size() - 1;
}

OperationGraph::Tensor OperationGraph::result(const std::vector<int64_t>& sizes) {
  return result_ ? *std::exchange(result_, std::nullopt) : between(sizes, dense_strides(sizes));
}

OperationGraph::Tensor OperationGraph::product(Tensor a, Tensor b) {
  std::vector<int64_t> sizes = tensors_[a].sizes;
  sizes.back() = tensors_[b].sizes.back();
  const Tensor y = result(sizes);
  Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR, device_);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  how = std::move(how).finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, device_);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a))
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b))
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(y))
      .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  operations_.push_back(std::move(operation).finalize());
  return y;
}

OperationGraph::Tensor OperationGraph::transpose(Tensor x) {
  std::vector<int64_t> sizes = tensors_[x].sizes;
  std::vector<int64_t> strides = dense_strides(sizes);
  std::swap(sizes[2], sizes[3]);
  std::swap(strides[2], strides[3]);
  const Tensor y = between(sizes, strides);
  Descriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, device_);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, at(x)).set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, at(y));
  operations_.push_back(std::move(operation).finalize());
  return y;
}

OperationGraph::Tensor OperationGraph::pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> operands,
                                                 int64_t axis) {
  const Tensor* const x = operands.begin();
  const bool compares = mode >= CUDNN_POINTWISE_CMP_EQ && mode <= CUDNN_POINTWISE_CMP_LE;
  if (compares) as(CUDNN_DATA_BOOLEAN);
  const Tensor y = result(tensors_[x[0]].sizes);
  Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, device_);
  how.set(CUDNN_ATTR_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
  if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  how = std::move(how).finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, device_);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x[0]))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y));
  if (operands.size() > 1) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(x[1]));
  if (operands.size() > 2) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, at(x[2]));
  operations_.push_back(std::move(operation).finalize());
  return y;
}

OperationGraph::Tensor OperationGraph::index(Tensor like, int64_t dim) {
  return as(CUDNN_DATA_INT32).pointwise(CUDNN_POINTWISE_GEN_INDEX, {like}, dim);
}

OperationGraph::Tensor OperationGraph::reduce(cudnnReduceTensorOp_t op, Tensor x) {
  std::vector<int64_t> sizes = tensors_[x].sizes;
  sizes.back() = 1;
  const Tensor y = result(sizes);
  Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, device_);
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, op).set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  how = std::move(how).finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, device_);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x))
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(y))
      .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  operations_.push_back(std::move(operation).finalize());
  return y;
}

Descriptor OperationGraph::of(const Descriptor& operation, cudnnHandle_t handle, int device) {
  const cudnnBackendDescriptor_t only[] = {operation.handle()};
  return graph_of(only, handle, device);
}

Descriptor OperationGraph::finish(cudnnHandle_t handle) && {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor& operation : operations_) handles.push_back(operation.handle());
  return graph_of(handles, handle, device_);
}

// ---- plans ----------------------------------------------------------------------------------------------------------

namespace {

/// The same bits in every run, and no number rounded before it is multiplied.
bool is_exact(const Descriptor& configuration, const DnnWishes& wishes, int device) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, device);
  cudnnBackendDescriptor_t handle = engine.handle();
  configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, &handle, 1);
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT] = {};
  const int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, notes, std::size(notes));
  return std::none_of(notes, notes + count, [&](cudnnBackendNumericalNote_t note) {
    const bool rounds =
        note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS || note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    const bool in_tf32 = note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && !wishes.tensor_cores;
    return rounds || in_tf32 || note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
  });
}

/// The first engine that serves, of those that `mode` proposes.
DnnPlan plan_by(cudnnBackendHeurMode_t mode, const Descriptor& graph, const DnnWishes& wishes,
                const DnnTarget& target) {
  constexpr size_t most_engines = 16;
  const int device = target.device;
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, device);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.properties != nullptr) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
  if (!heuristic.try_finalize()) return {};
  std::vector<Descriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (size_t i = 0; i < most_engines; ++i) {
    handles.push_back(configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, device).handle());
  }
  const int64_t count = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, handles.data(), most_engines);
  for (int64_t i = 0; i < count; ++i) {
    const Descriptor& configuration = configurations[static_cast<size_t>(i)];
    if (!is_exact(configuration, wishes, device)) continue;
    Descriptor execution(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, device);
    execution.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (target.handle != nullptr) execution.set(plan_handle, target.handle);
    if (target.properties != nullptr) execution.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
    if (!execution.try_finalize()) continue;
    int64_t bytes = 0;
    execution.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, &bytes, 1);
    if (bytes <= wishes.most_workspace) return {std::move(execution), bytes};
  }
  return {};
}

}  // namespace

DnnPlan make_plan(const Descriptor& graph, const DnnWishes& wishes, const DnnTarget& target) {
  DnnPlan plan = plan_by(CUDNN_HEUR_MODE_A, graph, wishes, target);
  return plan.execution ? std::move(plan) : plan_by(CUDNN_HEUR_MODE_FALLBACK, graph, wishes, target);
}

void execute(const DnnPlan& plan, std::span<const DnnOperand> operands, void* workspace, int device,
             cudaStream_t stream) {
  constexpr size_t most_operands = 16;
  const cudnnHandle_t handle = dnn_workplace_of(device).handle();
  WEFT_DNN(device, cudnnSetStream, handle, stream);
  int64_t ids[most_operands];
  void* data[most_operands];
  for (size_t i = 0; i < operands.size(); ++i) ids[i] = operands[i].id, data[i] = operands[i].data;
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, device);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids, operands.size())
      .set_pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data, operands.size())
      .set_pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &workspace, 1);
  pack = std::move(pack).finalize();
  WEFT_DNN(device, cudnnBackendExecute, handle, plan.execution->handle(), pack.handle());
}

DnnWorkplace& dnn_workplace_of(int device) {
  return DnnWorkplace::of(device, [](int index) {
    cudnnHandle_t handle = nullptr;
    WEFT_DNN(index, cudnnCreate, &handle);
    return DnnHandle(handle);
  });
}

}  // namespace weft::cuda

#endif
