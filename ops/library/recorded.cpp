#include "recorded.hpp"

#include <algorithm>

#include "../../autograd/from_ops.hpp"

namespace weft {

namespace {

struct Meta {
  Dims shape;
  DType dtype;
  Device device;

  explicit Meta(const Tensor& t) : shape(t.shape()), dtype(t.dtype()), device(t.device()) {}
  bool fits(const Tensor& t) const { return t.shape() == shape && t.dtype() == dtype && t.device() == device; }
  std::string text() const { return fmt::format("{} {} on {}", name(dtype), shape.text(), device.name()); }
};

}  // namespace

namespace detail {

CallTensors::CallTensors(std::span<const Value> values) {
  const auto add = [&](const Tensor& t, size_t i) {
    tensors.push_back(t);
    arguments.push_back(i);
  };
  for (size_t i = 0; i < values.size(); ++i) {
    if (const auto* tensor = std::get_if<Tensor>(&values[i]); tensor != nullptr && tensor->defined()) add(*tensor, i);
    else if (const auto* list = std::get_if<std::vector<Tensor>>(&values[i])) {
      for (const Tensor& t : *list) add(checked(t), i);
    }
  }
}

bool CallTensors::need_gradients() const {
  return recording() && std::ranges::any_of(tensors, [](const Tensor& t) { return needs_gradient(t.impl()); });
}

struct RecordedCall::Kept {
  struct Input {
    size_t argument;
    Saved saved;
    Meta meta;
  };
  struct Output {
    SavedOutput saved;
    std::optional<Meta> meta;
  };
  Held<RegisteredOp> op;
  /// Tensors left out.
  Values attributes;
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  void run(const Kept& self, Node& node, Tensor* incoming, Tensor* outgoing) const;
};

}  // namespace detail

struct OpGradient::State {
  const detail::RecordedCall::Kept& kept;
  Node& node;
  std::vector<Tensor> gradients;

  // The number of the argument of that name.
  size_t argument(std::string_view name) const {
    const Signature& signature = *kept.op->signature;
    const Argument* const found = signature.find(name);
    if (found == nullptr) {
      raise<ValueError>({.problem = fmt::format("its backward uses an argument '{}', which it does not have", name)});
    }
    return static_cast<size_t>(found - signature.arguments.data());
  }
  void check_saved(bool saved, std::string_view name) const {
    if (saved) return;
    raise<ValueError>({.problem = fmt::format("its backward reads {}, which saves() leaves out", name)});
  }
};

const Tensor& OpGradient::gradient(size_t i) const {
  if (i < state_->gradients.size()) return state_->gradients[i];
  raise<ValueError>(
      {.problem = fmt::format("its backward uses the gradient of result {} of {}", i, state_->gradients.size())});
}

std::vector<Tensor> OpGradient::inputs(std::string_view name) const {
  const size_t argument = state_->argument(name);
  state_->check_saved(state_->kept.op->saves_arguments[argument], name);
  std::vector<Tensor> found;
  for (const auto& input : state_->kept.inputs) {
    if (input.argument == argument) found.push_back(input.saved.get(state_->node));
  }
  return found;
}

Tensor OpGradient::input(std::string_view name) const {
  const std::vector<Tensor> found = inputs(name);
  return found.empty() ? Tensor() : found.front();
}

Tensor OpGradient::output(size_t i) const {
  if (i >= state_->kept.outputs.size()) {
    raise<ValueError>({.problem = fmt::format("its backward uses result {} of {}", i, state_->kept.outputs.size())});
  }
  state_->check_saved(state_->kept.op->saves_results[i], fmt::format("result {}", i));
  return state_->kept.outputs[i].saved.get(state_->node, static_cast<int>(i));
}

const Value& OpGradient::attribute_value(std::string_view name) const {
  return state_->kept.attributes[state_->argument(name)];
}

bool OpGradient::wants(std::string_view name) const {
  const size_t argument = state_->argument(name);
  for (size_t i = 0; i < state_->kept.inputs.size(); ++i) {
    if (state_->kept.inputs[i].argument == argument && state_->node.wants(static_cast<int>(i))) return true;
  }
  return false;
}

namespace detail {

void RecordedCall::Kept::run(const Kept& self, Node& node, Tensor* incoming, Tensor* outgoing) const {
  OpGradient::State state{self, node, {}};
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (incoming[i].defined() || !outputs[i].meta) state.gradients.push_back(std::move(incoming[i]));
    else
      state.gradients.push_back(
          zeros_unrecorded(outputs[i].meta->shape, outputs[i].meta->dtype, outputs[i].meta->device));
  }
  if (!op->has_backward) {
    raise<AutogradError>({.problem = "it has no backward, so no gradient flows through it",
                          .remedy = "register it with backward(f), or call it on tensors that need no gradient"});
  }
  std::vector<Tensor> gradients = op->backward(OpGradient(state));
  if (gradients.size() != inputs.size()) {
    raise<AutogradError>({.problem = fmt::format("backward returned {} gradients for {} tensor arguments",
                                                 gradients.size(), inputs.size())});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (gradients[i].defined() && node.wants(static_cast<int>(i)) && !inputs[i].meta.fits(gradients[i])) {
      raise<ShapeError>(
          {.problem = fmt::format("backward returned a gradient that does not fit argument '{}'",
                                  op->signature->arguments[inputs[i].argument].name),
           .details = fmt::format("argument {}, gradient {}", inputs[i].meta.text(), Meta(gradients[i]).text())});
    }
    outgoing[i] = std::move(gradients[i]);
  }
}

namespace {

// A written tensor gets a separate one-output node after the op's node, because views support no other nodes.
Node* node_of_written(Node* op, size_t result) {
  Node* const node = make_node<1>([](Tensor&& g) { return std::move(g); });
  node->edges[0].set(op, static_cast<uint16_t>(result));
  node->order = op->order + 1;
  return node;
}

Values without_tensors(std::span<const Value> values) {
  Values rest(values.begin(), values.end());
  for (Value& value : rest) {
    if (std::holds_alternative<Tensor>(value) || std::holds_alternative<std::vector<Tensor>>(value)) value = {};
  }
  return rest;
}

}  // namespace

RecordedCall::RecordedCall(Held<RegisteredOp> op, std::span<const Value> values, const CallTensors& inputs)
    : kept_(Shared<Kept>::make(Kept{std::move(op), without_tensors(values), {}, {}})), node_([&] {
        Kept& kept = *kept_;
        kept.outputs.resize(kept.op->results);
        for (size_t i = 0; i < inputs.tensors.size(); ++i) {
          const Tensor& t = inputs.tensors[i];
          const bool saved = kept.op->has_backward && kept.op->saves_arguments[inputs.arguments[i]];
          kept.inputs.push_back({inputs.arguments[i], saved ? Saved(t) : Saved(), Meta(t)});
        }
        return make_general_node(
            inputs.tensors, static_cast<int>(kept.op->results),
            [kept = kept_](Node& self, Tensor* in, Tensor* out) { kept->run(*kept, self, in, out); });
      }()) {
  Kept& kept = *kept_;
  for (const auto& [argument, result] : kept.op->written) {
    const Tensor& target = std::get<Tensor>(values[argument]);
    if (kept.op->has_backward && kept.op->saves_results[result]) kept.outputs[result].saved = SavedOutput(target);
    rebases_.emplace_back(target, node_of_written(node_.get(), result));
  }
}

RecordedCall::~RecordedCall() = default;

void RecordedCall::finish(std::span<const Tensor> results) {
  Kept& kept = *kept_;
  std::vector<bool> written(results.size());
  for (const auto& [argument, result] : kept.op->written) written[result] = true;
  for (size_t i = 0; i < results.size(); ++i) {
    kept.outputs[i].meta.emplace(results[i]);
    if (written[i] && kept.outputs[i].saved.defined()) kept.outputs[i].saved.renew();
    if (written[i]) continue;
    if (kept.op->has_backward && kept.op->saves_results[i]) kept.outputs[i].saved = SavedOutput(results[i]);
    if (!is_inexact(results[i].dtype())) continue;
    node_.get()->refs.increment();
    set_history(results[i].impl(), node_.get(), static_cast<uint16_t>(i));
  }
  for (Rebase& rebase : rebases_) rebase.commit();
}

void RecordedCall::fail() noexcept {
  close_saved(*node_.get());
  for (Rebase& rebase : rebases_) rebase.commit();
}

}  // namespace detail
}  // namespace weft
