// cuDNN's graph API for tests: graphs of one convolution, and chains of products, pointwise operations and sums,
// computed by the host in the stream's order, by the definition. It is a library of its own, which is opened in the
// place of NVIDIA's.
//
// Its heuristic proposes three engines: one that gives other bits in every run, one that computes in TF32, and an exact
// one. WEFT_TEST_CUDNN=none finds none that serves, =fallback only where it is asked for that mode.
#include "cudnn.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace weft::testing::dnn {

Tensor tensor_of(const Object& o) {
  const auto type = [&] {
    switch (one<cudnnDataType_t>(o, CUDNN_ATTR_TENSOR_DATA_TYPE)) {
      case CUDNN_DATA_DOUBLE:
        return CUDA_R_64F;
      case CUDNN_DATA_HALF:
        return CUDA_R_16F;
      case CUDNN_DATA_BFLOAT16:
        return CUDA_R_16BF;
      case CUDNN_DATA_INT32:
        return CUDA_R_32I;
      case CUDNN_DATA_BOOLEAN:
        return CUDA_R_8U;
      default:
        return CUDA_R_32F;
    }
  }();
  return {one<int64_t>(o, CUDNN_ATTR_TENSOR_UNIQUE_ID), one<int64_t>(o, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT), type,
          all<int64_t>(o, CUDNN_ATTR_TENSOR_DIMENSIONS), all<int64_t>(o, CUDNN_ATTR_TENSOR_STRIDES)};
}

bool advance(std::vector<int64_t>& at, const std::vector<int64_t>& sizes) {
  for (size_t d = sizes.size(); d-- > 0;) {
    if (++at[d] < sizes[d]) return true;
    at[d] = 0;
  }
  return false;
}

int64_t place(const Tensor& t, const std::vector<int64_t>& at) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset += at[d] * t.strides[d];
  return offset;
}

}  // namespace weft::testing::dnn

namespace {

using namespace weft::testing::dnn;

size_t size_of(Type type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    default:
      return 4;
  }
}

// ---- engines --------------------------------------------------------------------------------------------------------

enum Engine : int { unsteady, in_tf32, exact, engine_count };
constexpr int64_t workspace_bytes = 4096;

bool serves(cudnnBackendHeurMode_t mode) {
  const char* text = std::getenv("WEFT_TEST_CUDNN");
  const std::string wanted = text == nullptr ? "" : text;
  if (wanted == "none") return false;
  return wanted != "fallback" || mode == CUDNN_HEUR_MODE_FALLBACK;
}

std::vector<Object*> operations_of(const Object& graph) { return all<Object*>(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS); }
bool is_convolution(const std::vector<Object*>& operations) {
  constexpr cudnnBackendDescriptorType_t kinds[] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                                    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                                    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR};
  return operations.size() == 1 && std::ranges::count(kinds, operations[0]->type) != 0;
}
bool is_right(const Object& graph) {
  const std::vector<Object*> operations = operations_of(graph);
  return is_convolution(operations) ? is_right_convolution(*operations[0]) : is_right_chain(operations);
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }

const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the test library"; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new cudaStream_t(nullptr));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<cudaStream_t*>(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  *reinterpret_cast<cudaStream_t*>(handle) = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* out) {
  auto* const made = new Object;
  made->type = type;
  *out = made;
  return CUDNN_STATUS_SUCCESS;
}
// Never freed, because referring objects hold no copy; tests are short.
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
  static std::mutex mutex;
  static auto* const dropped = new std::list<Object*>;
  const std::lock_guard lock(mutex);
  dropped->push_back(object(handle));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t name, Type type,
                                       int64_t count, const void* values) {
  Object& o = *object(handle);
  if (o.finished || values == nullptr || count < 1) return CUDNN_STATUS_BAD_PARAM;
  const auto* const bytes = static_cast<const char*>(values);
  o.values[name] = {type, count, {bytes, bytes + static_cast<size_t>(count) * size_of(type)}};
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;
  for (Object* o_part : all<Object*>(o, name)) {
    if (!o_part->finished && o_part->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  Object& o = *object(handle);
  if (o.finished) return CUDNN_STATUS_BAD_PARAM;
  if (o.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && !is_right(o)) return CUDNN_STATUS_BAD_PARAM;
  if (o.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
      !serves(one<cudnnBackendHeurMode_t>(o, CUDNN_ATTR_ENGINEHEUR_MODE))) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  o.finished = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t name, Type,
                                       int64_t most, int64_t* count, void* values) {
  Object& o = *object(handle);
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count = std::min<int64_t>(engine_count, most);
    for (int64_t i = 0; i < *count; ++i) {
      Object& configuration = *static_cast<Object**>(values)[i];
      configuration.engine = static_cast<int>(i);
      configuration.graph = part(o, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    }
    return CUDNN_STATUS_SUCCESS;
  }
  *count = 1;
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    (*static_cast<Object**>(values))->engine = o.engine;
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    *count = o.engine == exact ? 0 : 1;
    if (*count == 1) {
      *static_cast<cudnnBackendNumericalNote_t*>(values) =
          o.engine == unsteady ? CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC : CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    }
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    if (!o.finished) return CUDNN_STATUS_BAD_PARAM;
    *static_cast<int64_t*>(values) = workspace_bytes;
  } else {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const Object& configuration = *part(*object(plan), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const auto ids = all<int64_t>(*object(pack), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = all<char*>(*object(pack), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (!object(pack)->finished || !object(plan)->finished || ids.size() != pointers.size() ||
      one<void*>(*object(pack), CUDNN_ATTR_VARIANT_PACK_WORKSPACE) == nullptr || configuration.engine == unsteady) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const Memory memory = [&](const Tensor& tensor) -> char* {
    const auto found = std::find(ids.begin(), ids.end(), tensor.id);
    if (found == ids.end()) return nullptr;
    char* const data = pointers[static_cast<size_t>(found - ids.begin())];
    return weft::testing::is_aligned(data, tensor.alignment) ? data : nullptr;
  };
  const std::vector<Object*> operations = operations_of(*configuration.graph);
  const auto work = is_convolution(operations) ? convolution(*operations[0], memory, configuration.engine == in_tf32)
                                               : chain(operations, memory);
  if (!work) return CUDNN_STATUS_BAD_PARAM;
  const bool queued = weft::testing::run_on(*reinterpret_cast<cudaStream_t*>(handle), work);
  return queued ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
