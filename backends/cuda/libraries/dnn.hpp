// cuDNN's graph API: descriptors, the operations that a graph is made of, and plans of engines that serve it.
// https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html
//
// cuDNN selects a fused engine by the pattern of operations, so attention and its gradient are written as formulas.
// Only engines that return the same bits in every run are used.
#pragma once

#include "library.hpp"

#if WEFT_HAS_CUDNN

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plans.hpp"
#include "../../../tensor/dtype.hpp"
#include "../../../tensor/error.hpp"

namespace weft::cuda {

// ---- descriptors ----------------------------------------------------------------------------------------------------

namespace detail {

template <class T>
inline constexpr cudnnBackendAttributeType_t attribute_type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
template <>
inline constexpr auto attribute_type<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr auto attribute_type<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
inline constexpr auto attribute_type<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
inline constexpr auto attribute_type<cudnnReduceTensorOp_t> = CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
template <>
inline constexpr auto attribute_type<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr auto attribute_type<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;
template <>
inline constexpr auto attribute_type<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
inline constexpr auto attribute_type<int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr auto attribute_type<float> = CUDNN_TYPE_FLOAT;
template <>
inline constexpr auto attribute_type<double> = CUDNN_TYPE_DOUBLE;
template <>
inline constexpr auto attribute_type<bool> = CUDNN_TYPE_BOOLEAN;
template <>
inline constexpr auto attribute_type<char> = CUDNN_TYPE_CHAR;

}  // namespace detail

/// A cuDNN object. It keeps the objects alive that it refers to.
class Descriptor {
 public:
  using Name = cudnnBackendAttributeName_t;

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
  Descriptor& set(Name name, const T* values, size_t count) {
    WEFT_DNN(device_, cudnnBackendSetAttribute, handle_, name, detail::attribute_type<T>, static_cast<int64_t>(count),
             values);
    return *this;
  }
  template <class T>
  Descriptor& set(Name name, T value) {
    return set(name, &value, 1);
  }
  Descriptor& set(Name name, const Descriptor& part) { return set(name, part.handle_); }
  Descriptor& set(Name name, const std::vector<int64_t>& values) { return set(name, values.data(), values.size()); }
  /// Addresses; as values they are descriptors of the same type.
  Descriptor& set_pointers(Name name, void* const* values, size_t count) {
    WEFT_DNN(device_, cudnnBackendSetAttribute, handle_, name, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(count),
             values);
    return *this;
  }

  /// At most `most` values. Where they are descriptors, `values` has some to be filled.
  template <class T>
  int64_t get(Name name, T* values, size_t most) const {
    int64_t count = 0;
    WEFT_DNN(device_, cudnnBackendGetAttribute, handle_, name, detail::attribute_type<T>, static_cast<int64_t>(most),
             &count, values);
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

cudnnDataType_t dnn_type(DType);

/// In elements.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes);
/// A tensor that a call gives; strides are counted in elements.
Descriptor dnn_tensor(int64_t id, cudnnDataType_t type, const std::vector<int64_t>& sizes,
                      const std::vector<int64_t>& strides, int64_t alignment, int device);

// ---- graphs ---------------------------------------------------------------------------------------------------------

/// Operations on tensors of four dimensions, written as formulas. A result is virtual unless it is assigned memory; its
/// dtype is f32 unless it is cast.
class OperationGraph {
 public:
  using Tensor = size_t;
  static constexpr int64_t first_own_id = 1000;  ///< those of a caller's are smaller
  explicit OperationGraph(int device) : device_(device) {}

  Tensor tensor(int64_t id, cudnnDataType_t type, const std::vector<int64_t>& sizes,
                const std::vector<int64_t>& strides);
  /// An f32 that the host gives with each call.
  Tensor number(int64_t id);
  /// That the next operation has this result, not one of its own.
  OperationGraph& into(Tensor result) {
    result_ = result;
    return *this;
  }
  /// That the next operation's result is rounded to this type.
  OperationGraph& as(cudnnDataType_t type) {
    type_ = type;
    return *this;
  }

  Tensor product(Tensor a, Tensor b);  ///< of matrices in the last two dimensions, batches broadcast
  Tensor transpose(Tensor x);          ///< of the last two dimensions
  Tensor pointwise(cudnnPointwiseMode_t mode, Tensor x) { return pointwise(mode, {x}); }
  Tensor pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor y) { return pointwise(mode, {x, y}); }
  Tensor index(Tensor like, int64_t dim);  ///< of each element along dim, as i32
  /// y where condition, else z.
  Tensor select(Tensor condition, Tensor y, Tensor z) {
    return pointwise(CUDNN_POINTWISE_BINARY_SELECT, {y, z, condition});
  }
  /// Over the last dimension, or to the sizes of the result that is given.
  Tensor reduce(cudnnReduceTensorOp_t op, Tensor x);

  /// Complete operations of other kinds are in separate graphs.
  static Descriptor of(const Descriptor& operation, cudnnHandle_t, int device);
  Descriptor finish(cudnnHandle_t) &&;

 private:
  struct Entry {
    Descriptor descriptor;
    std::vector<int64_t> sizes;
  };
  Tensor pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> operands, int64_t axis = -1);
  /// The result that the operation has.
  Tensor result(const std::vector<int64_t>& sizes);
  /// Virtual tensors.
  Tensor between(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides);
  const Descriptor& at(Tensor t) const { return tensors_[t].descriptor; }

  int device_;
  std::optional<Tensor> result_;
  std::optional<cudnnDataType_t> type_;
  std::vector<Entry> tensors_;
  std::vector<Descriptor> operations_;
};

// ---- plans ----------------------------------------------------------------------------------------------------------

/// The target of plans: a GPU by a handle, or a described one (cuDNN 9.8), for which plans do not run.
struct DnnTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;
  int device = 0;
};

struct DnnPlan {
  std::optional<Descriptor> execution;  ///< none where the library does not serve the graph
  int64_t workspace_bytes = 0;
};

struct DnnWishes {
  bool tensor_cores = true;  ///< which round operands of f32 to TF32
  int64_t most_workspace = int64_t{256} << 20;
};
/// By the first engine of the library's heuristic, the fastest first, that gives the same bits in every run and rounds
/// no operand.
DnnPlan make_plan(const Descriptor& graph, const DnnWishes&, const DnnTarget&);
/// The same, or empty for a graph that the library rejects: versions differ in the call that reports unsupported
/// graphs.
template <class MakeGraph>
DnnPlan make_plan_if_served(MakeGraph make_graph, const DnnWishes& wishes, const DnnTarget& target) {
  try {
    return make_plan(make_graph(), wishes, target);
  } catch (const DeviceError&) {
    return {};
  }
}

/// One operand of a call: a tensor's id and its memory, on the host where it is a number.
struct DnnOperand {
  int64_t id;
  void* data;
};
void execute(const DnnPlan&, std::span<const DnnOperand>, void* workspace, int device, cudaStream_t);

// ---- state of a thread
// -----------------------------------------------------------------------------------------------

struct DestroyDnnHandle {
  void operator()(cudnnHandle_t handle) const { dnn().cudnnDestroy(handle); }
};
using DnnHandle = std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, DestroyDnnHandle>;
/// The key of a plan: the kind of graph, and integers.
enum class DnnKind : int64_t { convolution, attention };
using DnnKey = std::array<int64_t, 48>;
using DnnWorkplace = Workplace<DnnHandle, DnnKey, DnnPlan>;
DnnWorkplace& dnn_workplace_of(int device);

}  // namespace weft::cuda

#endif
