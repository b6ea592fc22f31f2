#include <torch/csrc/autograd/function.h>

#include <mutex>

#include <weft/autograd/engine.hpp>
#include <weft/autograd/hooks.hpp>
#include <weft/autograd/node.hpp>
#include <weft/hooks/anomaly.hpp>

#include <ATen/ATen.h>

namespace torch::autograd {

namespace {

std::vector<weft::Tensor> weft_tensors(const variable_list& tensors) { return {tensors.begin(), tensors.end()}; }
std::shared_ptr<Node> shared(weft::Node* node) { return node == nullptr ? nullptr : std::make_shared<Node>(node); }

// ---- names that libtorch gives to nodes ----
std::string backward_name(const weft::Node& node) {
  if (node.accumulates) return "torch::autograd::AccumulateGrad";
  std::string name;
  bool upper = true;
  for (const char* c = node.op; *c != 0; ++c) {
    if (*c == '_') {
      upper = true;
      continue;
    }
    name += upper ? static_cast<char>(std::toupper(*c)) : *c;
    upper = false;
  }
  return name + "Backward0";
}

}  // namespace

// ---- nodes ----
Node::Node(weft::Node* node) : node_(node) { node_->refs.increment(); }
Node::~Node() { weft::release(node_); }
std::string Node::name() const { return backward_name(*node_); }
std::vector<Edge> Node::next_edges() const {
  std::vector<Edge> edges;
  for (int i = 0; i < node_->edge_count; ++i) {
    edges.push_back({shared(node_->edges[i].node()), node_->edges[i].output()});
  }
  return edges;
}
uint32_t Node::num_inputs() const { return node_->output_count; }
uint32_t Node::num_outputs() const { return node_->edge_count; }
uint64_t Node::sequence_nr() const { return node_->order; }

// ---- backward ----
namespace {

std::vector<weft::Tensor> gradients_of(const variable_list& outputs, const variable_list& inputs,
                                       const variable_list& grad_outputs, optional<bool> retain_graph,
                                       bool create_graph) {
  return weft::grad(
      weft_tensors(outputs), weft_tensors(inputs), weft_tensors(grad_outputs),
      {.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph, .allow_unused = true});
}

}  // namespace

void backward(const variable_list& tensors, const variable_list& grad_tensors, optional<bool> retain_graph,
              bool create_graph, const variable_list& inputs) {
  if (inputs.empty()) {
    weft::backward(weft_tensors(tensors), weft_tensors(grad_tensors),
                   {.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph});
    return;
  }
  const std::vector<weft::Tensor> gradients = gradients_of(tensors, inputs, grad_tensors, retain_graph, create_graph);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const Variable before = inputs[i].grad();
    if (!inputs[i].is_leaf()) inputs[i].retain_grad();
    inputs[i].set_grad(before.defined() ? before + gradients[i] : Variable(gradients[i]));
  }
}

variable_list grad(const variable_list& outputs, const variable_list& inputs, const variable_list& grad_outputs,
                   optional<bool> retain_graph, bool create_graph, bool allow_unused) {
  TORCH_CHECK(!inputs.empty(), "grad requires non-empty inputs.");
  variable_list gradients = at::wrap(gradients_of(outputs, inputs, grad_outputs, retain_graph, create_graph));
  for (const Variable& gradient : gradients) {
    if (gradient.defined() || allow_unused) continue;
    throw weft::AutogradError(
        "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this "
        "is the desired behavior.");
  }
  return gradients;
}

// ---- anomalies ----
namespace {
std::unique_ptr<weft::AnomalyGuard> make_guard() {
  return std::make_unique<weft::AnomalyGuard>(weft::AnomalyOptions{.backward = true, .forward = false, .repro = ""});
}
thread_local std::unique_ptr<weft::AnomalyGuard> anomaly_mode;
}  // namespace

DetectAnomalyGuard::DetectAnomalyGuard(bool check_nan) : guard_(check_nan ? make_guard() : nullptr) {}
DetectAnomalyGuard::~DetectAnomalyGuard() = default;
bool AnomalyMode::is_enabled() { return anomaly_mode != nullptr; }
void AnomalyMode::set_enabled(bool on, bool check_nan) { anomaly_mode = on && check_nan ? make_guard() : nullptr; }

// ---- user-written functions ----
void AutogradContext::save_for_backward(variable_list tensors) {
  std::vector<weft::Tensor> defined;
  saved_at_.clear();
  for (Variable& tensor : tensors) {
    saved_at_.push_back(tensor.defined() ? static_cast<int>(defined.size()) : -1);
    if (tensor.defined()) defined.push_back(std::move(tensor));
  }
  context->save(std::move(defined));
}
variable_list AutogradContext::get_saved_variables() const {
  variable_list tensors;
  for (int at : saved_at_) tensors.push_back(at < 0 ? Variable() : Variable(context->saved(static_cast<size_t>(at))));
  return tensors;
}
void AutogradContext::mark_dirty(const variable_list& inputs) { context->mark_dirty(weft_tensors(inputs)); }
void AutogradContext::mark_non_differentiable(const variable_list& outputs) {
  context->mark_non_differentiable(weft_tensors(outputs));
}
bool AutogradContext::needs_input_grad(size_t tensor_argument) const {
  return context->needs_gradient(tensor_argument);
}
bool AutogradContext::needs_input_grad(std::initializer_list<IndexRange> ranges) const {
  for (const auto& [begin, end] : ranges) {
    for (size_t i = begin; i < end; ++i) {
      if (needs_input_grad(i)) return true;
    }
  }
  return false;
}

namespace detail {

namespace {

struct Kept {
  std::shared_ptr<AutogradContext> context;
  Run run;
};

// libtorch's backward returns a gradient for each argument, Weft's for each tensor.
std::vector<weft::Tensor> run_backward(weft::autograd::Context& context, std::span<const weft::Tensor> gradients) {
  const Kept kept = std::any_cast<Kept>(context.data);
  kept.context->context = &context;
  const variable_list returned = kept.run(*kept.context, variable_list(gradients.begin(), gradients.end()));
  const std::vector<bool>& is_tensor = kept.context->is_tensor;
  TORCH_CHECK(returned.size() >= is_tensor.size(), "function returned an incorrect number of gradients (expected ",
              is_tensor.size(), ", got ", returned.size(), ")");
  std::vector<weft::Tensor> wanted;
  for (size_t i = 0; i < returned.size(); ++i) {
    if (i < is_tensor.size() && is_tensor[i]) wanted.push_back(returned[i]);
    else
      TORCH_CHECK(!returned[i].defined(), "function returned a gradient different from None at position ", i + 1,
                  ", but the corresponding forward input was not a Variable");
  }
  return wanted;
}

}  // namespace

FunctionCall::FunctionCall(std::string name, variable_list inputs, std::vector<bool> is_tensor, Run run)
    : context_(std::make_shared<AutogradContext>()),
      call_(std::move(name), weft_tensors(inputs), weft::Location::none()) {
  context_->is_tensor = std::move(is_tensor);
  context_->context = &call_.context();
  call_.context().data = Kept{context_, run};
}
variable_list FunctionCall::finish(variable_list outputs) {
  variable_list results = at::wrap(call_.finish(weft_tensors(outputs), run_backward));
  context_->context = nullptr;
  return results;
}

}  // namespace detail

namespace impl {
uint32_t version(const Variable& variable) { return variable._version(); }
}  // namespace impl

}  // namespace torch::autograd

namespace at {

std::shared_ptr<torch::autograd::Node> Tensor::grad_fn() const {
  return is_leaf() ? nullptr : torch::autograd::shared(impl()->node);
}

// ---- hooks ----
namespace {
struct NumberedHook {
  const void* owner;
  weft::HookHandle handle;
};
struct Handles {
  std::mutex mutex;
  std::vector<NumberedHook> all;
};
Handles& handles() {
  static Handles kept;
  return kept;
}
}  // namespace

unsigned Tensor::add_hook(std::function<Tensor(Tensor)> hook) const {
  weft::HookHandle handle =
      weft::register_hook(*this, [hook = std::move(hook)](const weft::Tensor& gradient) -> weft::Tensor {
        Tensor replaced = hook(gradient);
        return replaced.defined() ? weft::Tensor(std::move(replaced)) : gradient;
      });
  const std::lock_guard lock(handles().mutex);
  handles().all.push_back({impl(), std::move(handle)});
  return static_cast<unsigned>(handles().all.size() - 1);
}
void Tensor::remove_hook(unsigned position) const {
  const std::lock_guard lock(handles().mutex);
  const bool own = position < handles().all.size() && handles().all[position].owner == impl();
  TORCH_CHECK_INDEX(own, "Invalid index, the tensor has no hook with the number ", position);
  handles().all[position].handle.remove();
}

}  // namespace at

namespace c10 {

const char* IValue::tagKind() const {
  constexpr const char* names[] = {"None",    "Tensor",     "Double",     "Int",        "Bool",  "String",
                                   "IntList", "DoubleList", "TensorList", "StringList", "Tuple", "GenericDict"};
  return names[value_.index()];
}

}  // namespace c10
