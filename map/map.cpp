#include "map.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "../backends/cpu/map.hpp"
#include "../backends/watch/observe.hpp"
#include "../backends/watch/recorded_kernel.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/detail/promote.hpp"
#include "../ops/pointwise.hpp"

namespace weft {

namespace {

constexpr const char* op = "map";
constexpr int max_inputs = 6;
static_assert(3 * max_inputs + 2 <= cpu::max_map_operands);

/// The number type of the loops: 0 f32, 1 f64, 2 i64.
int type_index(DType dtype) { return is_floating(dtype) ? (dtype == DType::f64 ? 1 : 0) : 2; }

/// A call as its gradients need it again; the operands have one dtype.
template <int n>
struct Call {
  const detail::MapProgram* program;
  std::shared_ptr<const void> function;
  Saved operands[n];
  Dims shapes[n];
  DType dtype;
  Dims shape;
};

/// A pass that a recorded step runs again.
class RecordedPass final : public RecordedKernel {
 public:
  RecordedPass(cpu::MapLoop loop, std::shared_ptr<const void> function, std::span<const cpu::MapOperand> operands,
               size_t written)
      : RecordedKernel(op), loop_(loop), function_(std::move(function)), operands_(operands.begin(), operands.end()) {
    detail::CallBytes bytes(attributes);
    bytes.add(reinterpret_cast<uintptr_t>(loop));
    for (size_t k = 0; k < operands_.size(); ++k) {
      View& view = operands_[k].view;
      bytes.add(view.layout), bytes.add(view.data != nullptr);
      if (view.layout.host_scalar != 0) {
        const auto size = static_cast<size_t>(itemsize(view.layout.dtype));
        std::memcpy(numbers_[k], view.data, size);
        view.data = numbers_[k];
        attributes.append(reinterpret_cast<const char*>(numbers_[k]), size);
      } else if (view.data != nullptr) {
        views.push_back(&view);
        outputs += k < written ? 1 : 0;
      }
    }
    written_ = static_cast<int>(written);
  }
  void run() override { cpu::run_map(loop_, function_.get(), operands_, written_); }

 private:
  cpu::MapLoop loop_;
  std::shared_ptr<const void> function_;
  std::vector<cpu::MapOperand> operands_;
  int written_ = 0;
  alignas(8) unsigned char numbers_[cpu::max_map_operands][8];
};

/// One loop over `shape` that reads and writes its number type; outputs are added before inputs.
class Pass {
 public:
  Pass(const Dims& shape, DType dtype)
      : shape_(shape),
        type_(type_index(dtype) == 2 ? DType::i64 : compute_type(dtype)),
        layout_(contiguous_layout(shape, dtype)) {}

  /// An undefined tensor is an output that nobody wants.
  void output(const Tensor& t) { output(t, type_); }
  void output(const Tensor& t, DType type) {
    list_[count_++] = {t.defined() ? t.raw_view() : View{nullptr, layout_}, type};
    ++outputs_;
  }
  /// An undefined tensor is 0.
  void input(const Tensor& t) {
    static constexpr double zero = 0;
    View view;
    if (!t.defined()) {
      view.data = const_cast<double*>(&zero);
      view.layout.dtype = type_;
    } else {
      view = t.impl()->wrapped_number ? scalar_view(t.impl(), type_, scalars_[count_]) : t.raw_view();
    }
    list_[count_++] = {broadcast_view(view, shape_), type_};
  }
  void run(const detail::MapProgram& program, const detail::MapLoop& loop, const void* function) {
    const auto chosen = loop.at[cpu::map_level()];
    if (WEFT_UNLIKELY(detail::capture_recorder != nullptr)) {
      const std::span<const cpu::MapOperand> operands(list_, static_cast<size_t>(count_));
      detail::kernel_recorder().record(
          std::make_unique<RecordedPass>(chosen, program.keep(function), operands, static_cast<size_t>(outputs_)));
    }
    const auto pass = [&] { cpu::run_map(chosen, function, {list_, static_cast<size_t>(count_)}, outputs_); };
    if (WEFT_LIKELY(!detail::kernels_are_observed())) return pass();
    const View* views[cpu::max_map_operands];
    for (int i = 0; i < count_; ++i) views[i] = &list_[i].view;
    const std::span<const View* const> all(views, static_cast<size_t>(count_));
    const auto outputs = static_cast<size_t>(outputs_);
    detail::run_observed("map", all.first(outputs), all.subspan(outputs), pass);
  }

 private:
  const Dims& shape_;
  DType type_;
  Layout layout_;
  int count_ = 0, outputs_ = 0;
  cpu::MapOperand list_[cpu::max_map_operands];
  alignas(8) unsigned char scalars_[cpu::max_map_operands][8];
};

/// Makes `node` (taken over), called `op`, the producer of those outputs that are there.
void own_outputs(Node* node, const char* node_op, std::span<const Tensor> outputs) {
  node->op = node_op;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    node->refs.increment();
    set_history(outputs[i].impl(), node, static_cast<uint16_t>(i));
  }
  release(node);
}
bool any_needs_gradient(std::span<const Tensor> tensors) {
  return std::ranges::any_of(tensors, [](const Tensor& t) { return t.defined() && needs_gradient(t.impl()); });
}

void refuse_third_derivative(Node&, Tensor*, Tensor*) {
  const CallScope scope(op);
  raise<NotImplementedError>({.problem = "a mapped function has two derivatives, and a third one is asked for",
                              .remedy = "write it with ordinary ops"});
}

/// The gradient of the gradient pass: its inputs are the incoming gradient and the operands.
template <int n>
struct SecondBackward {
  Call<n> call;
  Saved gradient;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const CallScope scope(op);
    Tensor inputs[2 * n + 1] = {gradient.get(self)}, out[n + 1];
    Pass pass(call.shape, call.dtype);
    for (int i = 0; i <= n; ++i) {
      if (self.wants(i)) out[i] = make(call.shape, call.dtype, Device());
      pass.output(out[i]);
    }
    for (int i = 0; i < n; ++i) {
      inputs[1 + i] = call.operands[i].get(self);
      inputs[1 + n + i] = incoming[i];
    }
    for (const Tensor& t : inputs) pass.input(t);
    pass.run(*call.program, call.program->second[type_index(call.dtype)], call.function.get());
    if (recording() && any_needs_gradient(inputs)) {
      own_outputs(make_general_node(inputs, n + 1, refuse_third_derivative), "map_second", out);
    }
    if (self.wants(0)) outgoing[0] = std::move(out[0]);
    for (int i = 0; i < n; ++i) {
      if (self.wants(1 + i)) outgoing[1 + i] = unbroadcast(std::move(out[1 + i]), call.shapes[i], call.dtype, Device());
    }
  }
};

template <int n>
struct Backward {
  Call<n> call;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    Tensor inputs[n + 1] = {std::move(incoming[0])}, out[n];
    Pass pass(call.shape, call.dtype);
    for (int i = 0; i < n; ++i) {
      if (self.wants(i)) out[i] = make(call.shape, call.dtype, Device());
      pass.output(out[i]);
      inputs[1 + i] = call.operands[i].get(self);
    }
    for (const Tensor& t : inputs) pass.input(t);
    pass.run(*call.program, call.program->gradient[type_index(call.dtype)], call.function.get());
    if (recording() && any_needs_gradient(inputs)) {
      SecondBackward<n> second{call, Saved(inputs[0])};
      own_outputs(make_general_node(inputs, n, std::move(second)), "map_gradient", out);
    }
    for (int i = 0; i < n; ++i) {
      if (self.wants(i)) outgoing[i] = unbroadcast(std::move(out[i]), call.shapes[i], call.dtype, Device());
    }
  }
};

// ---- devices --------------------------------------------------------------------------------------------------------

[[noreturn]] void refuse_on(Device device, DType dtype, const Dims& shape) {
  raise<NotImplementedError>(
      {.problem = fmt::format("on {} a function must be one of weft::map's named ops", device.name()),
       .details = fmt::format("elements: {} {}", name(dtype), shape.text()),
       .remedy = "write it with ops, register an op with a kernel (docs/own_ops.md), or move the operands to cpu"});
}

#define WEFT_ROW_FUNCTION(name, ...) weft::name,
constexpr Tensor (*unary_rows[])(const Operand&) = {WEFT_UNARY_OPS(WEFT_ROW_FUNCTION)};
constexpr Tensor (*binary_rows[])(const Operand&, const Operand&) = {WEFT_BINARY_OPS(WEFT_ROW_FUNCTION)};
constexpr Tensor (*compare_rows[])(const Operand&, const Operand&) = {WEFT_COMPARE_OPS(WEFT_ROW_FUNCTION)};
constexpr Tensor (*ternary_rows[])(const Operand&, const Operand&,
                                   const Operand&) = {WEFT_TERNARY_OPS(WEFT_ROW_FUNCTION)};
#undef WEFT_ROW_FUNCTION

/// The op of a row; integers and bool are computed in i64, as the loops do.
Tensor run_row(const math::Row& row, std::span<const Tensor> arguments) {
  Tensor x[3];
  for (int k = 0; k < 3; ++k) {
    const auto& [argument, number] = row.operands[k];
    x[k] = argument < 0 ? Operand(number).tensor() : arguments[static_cast<size_t>(argument)];
    if (argument >= 0 && !is_floating(x[k].dtype())) x[k] = x[k].to(DType::i64);
  }
  switch (row.family) {
    case math::Row::unary:
      return unary_rows[row.op](x[0]);
    case math::Row::binary:
      return binary_rows[row.op](x[0], x[1]);
    case math::Row::compare:
      return compare_rows[row.op](x[0], x[1]);
    case math::Row::ternary:
      return ternary_rows[row.op](x[0], x[1], x[2]);
    case math::Row::none:
      break;
  }
  throw math::NotARow();
}

template <int n>
Tensor run_on_device(const detail::MapProgram& program, const void* function, const Prepared<n>& p, DType result) {
  try {
    const Tensor out = run_row(program.row(function), p.operands).to(result);
    return (out.shape() == p.shape ? out : out.expand(p.shape)).contiguous();
  } catch (const math::NotARow&) {
    refuse_on(p.device, p.dtype, p.shape);
  }
}

template <int n>
Tensor run_program(const detail::MapProgram& program, const void* function, const Operand* const* list) {
  return [&]<size_t... k>(std::index_sequence<k...>) {
    const CallScope scope(op, list[0]->where);
    Prepared<n> p;
    prepare<n>(p, {list[k]...}, PointwiseKind::any);
    if (is_storage_only(p.dtype) || p.dtype == DType::u64 || is_complex(p.dtype)) {
      raise<DTypeError>({.problem = fmt::format("a function of float, double or int64_t cannot take {}", name(p.dtype)),
                         .remedy = "convert the operand with to(dtype)"});
    }
    const DType result = program.result[type_index(p.dtype)];
    const bool same_kind = result != DType::boolean && is_floating(result) == is_floating(p.dtype);
    if (!p.device.is_cpu()) return run_on_device(program, function, p, same_kind ? p.dtype : result);
    Tensor out = make(p.shape, same_kind ? p.dtype : result, p.device);
    Pass pass(p.shape, p.dtype);
    pass.output(out, result);
    for (const Tensor& t : p.operands) pass.input(t);
    pass.run(program, program.value[type_index(p.dtype)], function);
    if (same_kind && is_floating(p.dtype) && should_record(p.operands[k]...)) {
      Call<n> call{&program, program.keep(function), {Saved(p.operands[k])...}, {p.operands[k].shape()...}, p.dtype,
                   p.shape};
      record(out, Backward<n>{std::move(call)}, p.operands[k]...);
    }
    return out;
  }
  (std::make_index_sequence<n>());
}

}  // namespace

void math::refuse_formula() { throw NotARow(); }

Tensor detail::run_map(const MapProgram& program, const void* function, const Operand* const* operands) {
  using Run = Tensor (*)(const MapProgram&, const void*, const Operand* const*);
  static constexpr Run runs[max_inputs] = {run_program<1>, run_program<2>, run_program<3>,
                                           run_program<4>, run_program<5>, run_program<6>};
  return runs[program.n - 1](program, function, operands);
}

}  // namespace weft
