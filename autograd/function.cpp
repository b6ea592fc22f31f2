#include "function.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "from_ops.hpp"
#include "../backends/watch/observe.hpp"

namespace weft::autograd {

namespace {

struct Meta {
  Dims shape;
  DType dtype;
  Device device;

  static Meta of(const Tensor& t) { return {t.shape(), t.dtype(), t.device()}; }
  bool fits(const Tensor& t) const { return t.shape() == shape && t.dtype() == dtype && t.device() == device; }
  std::string text() const { return fmt::format("{} {} on {}", name(dtype), shape.text(), device.name()); }
};

// A saved tensor that is an output is tied to the node only while it is looked at.
struct Kept {
  Saved saved;
  SavedOutput output;
  int number = -1;
};

}  // namespace

struct Context::State {
  std::string name;
  Location where = Location::none();
  std::vector<Tensor> inputs, to_save, not_differentiable, dirty;
  std::vector<bool> wanted;
  bool materializes = true;
  std::vector<std::optional<Meta>> input_meta;  // none of an undefined argument
  std::vector<Meta> output_meta;
  std::vector<Kept> kept;
  Node* node = nullptr;
};

void Context::save(std::vector<Tensor> tensors) { state_->to_save = std::move(tensors); }
void Context::mark_non_differentiable(std::vector<Tensor> outputs) { state_->not_differentiable = std::move(outputs); }
void Context::mark_dirty(std::vector<Tensor> inputs) { state_->dirty = std::move(inputs); }
void Context::set_materialize_grads(bool on) { state_->materializes = on; }
bool Context::needs_gradient(size_t i) const { return i < state_->wanted.size() && state_->wanted[i]; }

Tensor Context::saved(size_t i) const {
  if (state_->node == nullptr) {
    if (i < state_->to_save.size()) return state_->to_save[i];
  } else if (i < state_->kept.size()) {
    const Kept& kept = state_->kept[i];
    if (kept.number >= 0) return kept.output.get(*state_->node, kept.number);
    return kept.saved.defined() ? kept.saved.get(*state_->node) : Tensor();
  }
  raise<IndexError>({.op = state_->name.c_str(), .problem = fmt::format("there is no saved tensor {}", i)},
                    state_->where);
}

Call::Call(std::string name, std::vector<Tensor> inputs, Location where) {
  context_.state_ = Shared<Context::State>::make();
  Context::State& state = *context_.state_;
  state.name = std::move(name);
  state.where = where;
  state.inputs = std::move(inputs);
  for (const Tensor& input : state.inputs) {
    state.wanted.push_back(recording() && input.defined() && weft::needs_gradient(input.impl()));
    state.input_meta.push_back(input.defined() ? std::optional(Meta::of(input)) : std::nullopt);
  }
  scope_ = weft::detail::Pimpl(new KernelScope(state.name.c_str(), where, std::ranges::count(state.wanted, true) > 0));
}

Call::~Call() = default;

namespace {

void check_gradients(const std::vector<std::optional<Meta>>& wanted, const std::vector<Tensor>& gradients,
                     const std::string& name, Location where) {
  if (gradients.size() != wanted.size()) {
    raise<AutogradError>({.op = name.c_str(),
                          .problem = fmt::format("backward returned {} gradients for {} tensor arguments",
                                                 gradients.size(), wanted.size())},
                         where);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!gradients[i].defined() || !wanted[i] || wanted[i]->fits(gradients[i])) continue;
    raise<ShapeError>(
        {.op = name.c_str(),
         .problem = fmt::format("backward returned a gradient that does not fit argument {}", i),
         .details = fmt::format("argument {}, gradient {}", wanted[i]->text(), Meta::of(gradients[i]).text())},
        where);
  }
}

bool holds(const std::vector<Tensor>& tensors, const Tensor& tensor) {
  return std::ranges::any_of(tensors, [&](const Tensor& t) { return t.impl() == tensor.impl(); });
}

// The written tensor is produced by a separate op after the function, which handles one output and views.
Node* node_of_written(Node* function, uint16_t output) {
  Node* node = make_node<1>([](Tensor&& g) { return std::move(g); });
  node->edges[0].set(function, output);
  node->order = function->order + 1;
  return node;
}

}  // namespace

std::vector<Tensor> Call::finish(std::vector<Tensor> outputs, Backward backward) {
  const Shared<Context::State> state = context_.state_;
  scope_ = {};
  const CallScope call(state->name.c_str(), state->where);
  for (Tensor& output : outputs) {
    if (!output.defined()) {
      raise<ValueError>({.problem = "forward returned an undefined tensor"});
    }
    if (holds(state->inputs, output) && !holds(state->dirty, output)) output = output.detach();
    state->output_meta.push_back(Meta::of(output));
  }
  for (const Tensor& written : state->dirty) {
    if (!holds(state->inputs, written) || !holds(outputs, written)) {
      raise<ValueError>({.problem = "a tensor marked dirty must be an input and an output"});
    }
    check_inplace(written);
  }
  const auto note_writes = [&] {
    for (const Tensor& t : state->dirty) t.impl()->storage->note_write("autograd::Function", state->where);
  };
  if (outputs.empty() || std::ranges::none_of(state->wanted, [](bool b) { return b; })) {
    note_writes();
    return outputs;
  }

  // The node owns the context, the context names the node: no count, no cycle.
  auto* node = make_general_node(
      state->inputs, static_cast<int>(outputs.size()),
      [context = context_, backward](Node& self, Tensor* incoming, Tensor* outgoing) mutable {
        Context::State& s = *context.state_;
        std::vector<Tensor> gradients;
        for (size_t i = 0; i < s.output_meta.size(); ++i) {
          const Meta& m = s.output_meta[i];
          const bool filled = !incoming[i].defined() && s.materializes;
          gradients.push_back(filled ? detail::zeros_unrecorded(m.shape, m.dtype, m.device) : std::move(incoming[i]));
        }
        std::vector<Tensor> result = [&] {
          const OutsideCalls users_code;
          return backward(context, gradients);
        }();
        check_gradients(s.input_meta, result, s.name, self.where);
        std::ranges::move(result, outgoing);
      });
  NodeHandle handle(node);
  node->name = state->name;
  node->op = node->name.c_str();
  state->node = node;
  note_writes();
  for (const Tensor& tensor : state->to_save) {
    Kept kept;
    const auto at = std::ranges::find_if(outputs, [&](const Tensor& o) { return o.impl() == tensor.impl(); });
    if (at != outputs.end()) {
      kept.number = static_cast<int>(at - outputs.begin());
      kept.output = SavedOutput(tensor);
    } else if (tensor.defined()) {
      kept.saved = Saved(tensor);
    }
    state->kept.push_back(std::move(kept));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_inexact(outputs[i].dtype()) || holds(state->not_differentiable, outputs[i])) continue;
    const auto number = static_cast<uint16_t>(i);
    if (holds(state->dirty, outputs[i])) {
      Rebase(outputs[i], node_of_written(node, number)).commit();
    } else {
      node->refs.increment();
      set_history(outputs[i].impl(), node, number);
    }
  }
  state->to_save.clear();
  state->inputs.clear();
  state->dirty.clear();
  return outputs;
}

}  // namespace weft::autograd
