// backward, grad, nodes of the graph, grad modes and user-written functions.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <weft/autograd/function.hpp>
#include <weft/autograd/mode.hpp>

#include <ATen/core/ivalue.h>

namespace weft {
class AnomalyGuard;
}

namespace at {

struct GradMode {
  static bool is_enabled() { return weft::grad_mode().enabled; }
  static void set_enabled(bool on) { weft::set_grad_mode({.enabled = on, .inference = weft::grad_mode().inference}); }
};
class AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled) : saved_(weft::grad_mode()) { GradMode::set_enabled(enabled); }
  ~AutoGradMode() { weft::set_grad_mode(saved_); }
  AutoGradMode(const AutoGradMode&) = delete;

 private:
  weft::GradMode saved_;
};
using NoGradGuard = weft::NoGradGuard;

}  // namespace at

namespace c10 {

class InferenceMode {
 public:
  explicit InferenceMode(bool enabled = true) : saved_(weft::grad_mode()) {
    weft::set_grad_mode({.enabled = !enabled, .inference = enabled});
  }
  ~InferenceMode() { weft::set_grad_mode(saved_); }
  InferenceMode(const InferenceMode&) = delete;
  static bool is_enabled() { return weft::grad_mode().inference; }

 private:
  weft::GradMode saved_;
};

}  // namespace c10

namespace torch::autograd {

using Variable = at::Tensor;
using variable_list = std::vector<Variable>;
using tensor_list = std::vector<at::Tensor>;
using at::AutoGradMode;
using at::GradMode;
using at::IValue;
using at::optional;
using c10::InferenceMode;

struct Edge {
  std::shared_ptr<Node> function;
  uint32_t input_nr = 0;
  bool is_valid() const { return function != nullptr; }
};

/// A recorded op.
struct Node {
  explicit Node(weft::Node* node);
  ~Node();
  Node(const Node&) = delete;
  /// "AddBackward0", "torch::autograd::AccumulateGrad"
  std::string name() const;
  std::vector<Edge> next_edges() const;
  Edge next_edge(size_t i) const { return next_edges()[i]; }
  uint32_t num_inputs() const;
  uint32_t num_outputs() const;
  uint64_t sequence_nr() const;
  weft::Node* get() const { return node_; }

 private:
  weft::Node* node_;
};

/// Adds to the gradients of all leaves, or of `inputs` only.
void backward(const variable_list& tensors, const variable_list& grad_tensors = {},
              optional<bool> retain_graph = std::nullopt, bool create_graph = false, const variable_list& inputs = {});
/// Gradients of `outputs` for `inputs`. Raises AutogradError for an unused input unless allow_unused.
variable_list grad(const variable_list& outputs, const variable_list& inputs, const variable_list& grad_outputs = {},
                   optional<bool> retain_graph = std::nullopt, bool create_graph = false, bool allow_unused = false);

/// Backward passes in this scope raise an error at the first NaN.
class DetectAnomalyGuard {
 public:
  explicit DetectAnomalyGuard(bool check_nan = true);
  ~DetectAnomalyGuard();
  DetectAnomalyGuard(const DetectAnomalyGuard&) = delete;

 private:
  std::unique_ptr<weft::AnomalyGuard> guard_;
};
struct AnomalyMode {
  static bool is_enabled();
  static void set_enabled(bool on, bool check_nan = true);
};

using IndexRange = std::pair<size_t, size_t>;

/// Carries values from a function's forward to its backward.
class AutogradContext {
 public:
  AutogradContext() = default;
  AutogradContext(const AutogradContext&) = delete;

  std::unordered_map<std::string, IValue> saved_data;
  void save_for_backward(variable_list tensors);
  variable_list get_saved_variables() const;
  void mark_dirty(const variable_list& inputs);
  void mark_non_differentiable(const variable_list& outputs);
  /// Whether backward gets zeros for gradients that do not arrive, or undefined tensors.
  void set_materialize_grads(bool on) { context->set_materialize_grads(on); }
  bool needs_input_grad(size_t tensor_argument) const;
  bool needs_input_grad(std::initializer_list<IndexRange> ranges) const;

  // ---- for Function ----
  weft::autograd::Context* context = nullptr;
  std::vector<bool> is_tensor;

 private:
  std::vector<int> saved_at_;  // -1: undefined
};

namespace detail {

using Run = variable_list (*)(AutogradContext&, variable_list);
/// A call of a function, without its types.
class FunctionCall {
 public:
  FunctionCall(std::string name, variable_list inputs, std::vector<bool> is_tensor, Run run);
  AutogradContext* context() { return context_.get(); }
  variable_list finish(variable_list outputs);

 private:
  std::shared_ptr<AutogradContext> context_;
  weft::autograd::Call call_;
};

template <class T>
void collect(variable_list& inputs, std::vector<bool>& is_tensor, const T& argument) {
  if constexpr (std::is_convertible_v<const T&, Variable> && !std::is_arithmetic_v<T>) {
    inputs.push_back(argument);
    is_tensor.push_back(true);
  } else if constexpr (std::is_convertible_v<const T&, at::TensorList>) {
    for (const Variable& tensor : at::TensorList(argument)) collect(inputs, is_tensor, tensor);
  } else if constexpr (std::is_same_v<T, optional<Variable>>) {
    collect(inputs, is_tensor, argument.value_or(Variable()));
  } else {
    is_tensor.push_back(false);
  }
}

}  // namespace detail

/// A function with its own gradient: T::forward(ctx, …) and T::backward(ctx, gradients).
template <class T>
struct Function {
  template <class X = T, class... A>
  static auto apply(A&&... arguments) {
    variable_list inputs;
    std::vector<bool> is_tensor;
    (detail::collect<std::remove_cvref_t<A>>(inputs, is_tensor, arguments), ...);
    detail::FunctionCall call(
        std::string(weft::detail::short_type_name<T>()), std::move(inputs), std::move(is_tensor),
        [](AutogradContext& context, variable_list gradients) { return T::backward(&context, std::move(gradients)); });
    using Result = decltype(X::forward(call.context(), std::forward<A>(arguments)...));
    variable_list outputs;
    {
      const at::NoGradGuard unrecorded;
      if constexpr (std::is_same_v<Result, variable_list>) {
        outputs = X::forward(call.context(), std::forward<A>(arguments)...);
      } else {
        outputs.push_back(X::forward(call.context(), std::forward<A>(arguments)...));
      }
    }
    outputs = call.finish(std::move(outputs));
    if constexpr (std::is_same_v<Result, variable_list>) return outputs;
    else return Variable(std::move(outputs[0]));
  }
};

enum class CreationMeta : uint8_t {
  DEFAULT,
  IN_CUSTOM_FUNCTION,
  MULTI_OUTPUT_NODE,
  NO_GRAD_MODE,
  MULTI_OUTPUT_SAFE,
  INFERENCE_MODE
};
struct AutogradMeta {
  virtual ~AutogradMeta() = default;
};
/// Declared for programs that inspect libtorch's views; Weft keeps no such record.
struct DifferentiableViewMeta : AutogradMeta {
  bool has_bw_view() const { return false; }
  CreationMeta get_creation_meta() const { return CreationMeta::DEFAULT; }
};

/// The elements of `data` as a leaf.
inline Variable make_variable(const at::Tensor& data, bool requires_grad = false, bool = true) {
  return data.defined() ? Variable(data.detach().requires_grad_(requires_grad)) : Variable();
}

namespace impl {
uint32_t version(const Variable& variable);
}  // namespace impl

}  // namespace torch::autograd

namespace at {
/// libtorch's head of a tensor. Opaque here.
class TensorImpl {
 public:
  torch::autograd::AutogradMeta* autograd_meta() const { return nullptr; }
};
}  // namespace at
