// cuDNN's graph API for tests, of graphs with one convolution: computed by the host in the stream's order, by the
// definition. It is a library of its own, which is opened in the place of NVIDIA's.
//
// Its heuristic proposes three engines: one that gives other bits in every run, one that computes in TF32, and an exact
// one. WEFT_TEST_CUDNN=none finds none that serves, =fallback only where it is asked for that mode.
#include <cudnn_graph.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "stand_in.hpp"

namespace {

using weft::testing::load;
using weft::testing::store;
using Type = cudnnBackendAttributeType_t;

struct Value {
  Type type;
  int64_t count;
  std::vector<char> bytes;
};

struct Object {
  cudnnBackendDescriptorType_t type;
  std::map<int, Value> values;
  bool finished = false;
  int engine = 0;           ///< of an engine and its configuration
  Object* graph = nullptr;  ///< of a configuration
};

/// What cuDNN would have a copy of; it lives as long as the program.
Object* object(void* handle) { return static_cast<Object*>(handle); }

size_t size_of(Type type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

template <class T>
std::vector<T> all(const Object& o, int name) {
  const auto found = o.values.find(name);
  if (found == o.values.end()) return {};
  std::vector<T> values(static_cast<size_t>(found->second.count));
  std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(T));
  return values;
}
template <class T>
T one(const Object& o, int name) {
  const std::vector<T> values = all<T>(o, name);
  return values.empty() ? T{} : values[0];
}
Object* part(const Object& o, int name) { return object(one<void*>(o, name)); }

// ---- a convolution --------------------------------------------------------------------------------------------------

/// An operation's attributes.
struct Names {
  int steps, data, weight, result, alpha, beta;
};
#define WEFT_NAMES(kind, x, w, y)                                                                       \
  return {                                                                                              \
    CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##x, \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##w, CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##y,   \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_BETA \
  }
Names names_of(cudnnBackendDescriptorType_t type) {
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) WEFT_NAMES(FORWARD, X, W, Y);
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) WEFT_NAMES(BWD_DATA, DX, W, DY);
  WEFT_NAMES(BWD_FILTER, X, DW, DY);
}
#undef WEFT_NAMES

struct Tensor {
  int64_t id, alignment;
  cudaDataType_t type;
  std::vector<int64_t> sizes, strides;
};
Tensor tensor_of(const Object& o) {
  constexpr cudaDataType_t types[] = {CUDA_R_32F, CUDA_R_64F, CUDA_R_16F};
  const auto type = one<cudnnDataType_t>(o, CUDNN_ATTR_TENSOR_DATA_TYPE);
  return {one<int64_t>(o, CUDNN_ATTR_TENSOR_UNIQUE_ID), one<int64_t>(o, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
          type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF : types[type], all<int64_t>(o, CUDNN_ATTR_TENSOR_DIMENSIONS),
          all<int64_t>(o, CUDNN_ATTR_TENSOR_STRIDES)};
}

struct Problem {
  cudnnBackendDescriptorType_t product;
  Tensor data, weight, result;
  std::vector<int64_t> stride, low, high, dilation;
  double alpha, beta;
  int64_t groups;
};

double factor(const Object& o, int name) {
  return o.values.at(name).type == CUDNN_TYPE_DOUBLE ? one<double>(o, name) : one<float>(o, name);
}

Problem problem_of(const Object& operation) {
  const Names names = names_of(operation.type);
  const Object& steps = *part(operation, names.steps);
  Problem p = {operation.type,
               tensor_of(*part(operation, names.data)),
               tensor_of(*part(operation, names.weight)),
               tensor_of(*part(operation, names.result)),
               all<int64_t>(steps, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
               all<int64_t>(steps, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
               all<int64_t>(steps, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
               all<int64_t>(steps, CUDNN_ATTR_CONVOLUTION_DILATIONS),
               factor(operation, names.alpha),
               factor(operation, names.beta),
               0};
  p.groups = p.data.sizes[1] / p.weight.sizes[1];
  return p;
}

/// The sizes follow from one another, as cuDNN requires.
bool is_right(const Problem& p) {
  const size_t rank = p.data.sizes.size();
  if (rank < 4 || p.weight.sizes.size() != rank || p.result.sizes.size() != rank || p.stride.size() != rank - 2) {
    return false;
  }
  if (p.data.sizes[1] % p.weight.sizes[1] != 0 || p.weight.sizes[0] % p.groups != 0) return false;
  if (p.result.sizes[0] != p.data.sizes[0] || p.result.sizes[1] != p.weight.sizes[0]) return false;
  for (size_t d = 0; d + 2 < rank; ++d) {
    if (p.low[d] < 0 || p.high[d] < 0 || p.stride[d] < 1 || p.dilation[d] < 1) return false;
    const int64_t reach = p.dilation[d] * (p.weight.sizes[d + 2] - 1) + 1;
    const int64_t room = p.data.sizes[d + 2] + p.low[d] + p.high[d] - reach;
    if (room < 0 || room / p.stride[d] + 1 != p.result.sizes[d + 2]) return false;
  }
  return true;
}

/// Goes through all positions of `sizes`.
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

/// Adds each product of a number of the data and one of the weight, or of the gradient, where it belongs.
void convolve(const Problem& p, char* data, char* weight, char* result, bool in_tf32) {
  const bool by_data = p.product == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  const bool forward = p.product == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const Tensor& target = forward ? p.result : by_data ? p.data : p.weight;
  char* const out = forward ? result : by_data ? data : weight;
  int64_t count = 1;
  for (const int64_t size : target.sizes) count *= size;
  std::vector<double> sums(static_cast<size_t>(count));
  const auto number = [&](const Tensor& t, const char* from, int64_t i) {
    const double x = load(from, t.type, i);
    return in_tf32 ? weft::testing::to_tf32(x) : x;
  };
  const int64_t outputs = p.weight.sizes[0] / p.groups, channels = p.weight.sizes[1];
  std::vector<int64_t> y(p.result.sizes.size()), x(y.size()), w(y.size());
  do {
    std::fill(w.begin(), w.end(), 0);
    do {  // w[0] is not walked: it is the result's channel
      w[0] = y[1];
      x[0] = y[0], x[1] = y[1] / outputs * channels + w[1];
      bool inside = true;
      for (size_t d = 2; d < y.size(); ++d) {
        x[d] = y[d] * p.stride[d - 2] - p.low[d - 2] + w[d] * p.dilation[d - 2];
        inside &= x[d] >= 0 && x[d] < p.data.sizes[d];
      }
      if (inside) {
        const int64_t at_x = place(p.data, x), at_w = place(p.weight, w), at_y = place(p.result, y);
        if (forward) sums[static_cast<size_t>(at_y)] += number(p.data, data, at_x) * number(p.weight, weight, at_w);
        else if (by_data)
          sums[static_cast<size_t>(at_x)] += number(p.result, result, at_y) * number(p.weight, weight, at_w);
        else sums[static_cast<size_t>(at_w)] += number(p.result, result, at_y) * number(p.data, data, at_x);
      }
      w[0] = 0;
      std::vector<int64_t> taps = p.weight.sizes;
      taps[0] = 1;
      if (!advance(w, taps)) break;
    } while (true);
  } while (advance(y, p.result.sizes));
  for (int64_t i = 0; i < count; ++i) {
    const double value = p.alpha * sums[static_cast<size_t>(i)];
    store(out, target.type, i, p.beta == 0 ? value : value + p.beta * load(out, target.type, i));
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

}  // namespace

extern "C" {

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
// What refers to it has no copy here, so it stays: tests are short.
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
  if (o.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR &&
      !is_right(problem_of(*part(o, CUDNN_ATTR_OPERATIONGRAPH_OPS)))) {
    return CUDNN_STATUS_BAD_PARAM;
  }
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
  const Problem p = problem_of(*part(*configuration.graph, CUDNN_ATTR_OPERATIONGRAPH_OPS));
  const auto ids = all<int64_t>(*object(pack), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = all<char*>(*object(pack), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (!object(pack)->finished || !object(plan)->finished || ids.size() != 3 || pointers.size() != 3 ||
      one<void*>(*object(pack), CUDNN_ATTR_VARIANT_PACK_WORKSPACE) == nullptr || configuration.engine == unsteady) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  char* operands[3] = {};
  const Tensor* const tensors[] = {&p.data, &p.weight, &p.result};
  for (size_t i = 0; i < 3; ++i) {
    const auto found = std::find(ids.begin(), ids.end(), tensors[i]->id);
    if (found == ids.end()) return CUDNN_STATUS_BAD_PARAM;
    operands[i] = pointers[static_cast<size_t>(found - ids.begin())];
    if (!weft::testing::is_aligned(operands[i], tensors[i]->alignment)) return CUDNN_STATUS_BAD_PARAM;
  }
  const bool tf32 = configuration.engine == in_tf32 && p.data.type == CUDA_R_32F;
  const bool queued = weft::testing::run_on(*reinterpret_cast<cudaStream_t*>(handle),
                                            [=] { convolve(p, operands[0], operands[1], operands[2], tf32); });
  return queued ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
