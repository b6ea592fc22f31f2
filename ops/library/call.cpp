// A call of a registered op: the choice of its body, and the checks before and after.
#include <algorithm>
#include <string_view>

#include "../create.hpp"
#include "../detail/write.hpp"
#include "../../backends/backend.hpp"
#include "../../tensor/determinism.hpp"
#include "../../tensor/settings.hpp"
#include "../../tensor/capture_recorder.hpp"
#include "../../tensor/warning.hpp"
#include "recorded.hpp"

namespace weft::detail {

namespace {

using Kind = ArgumentType::Kind;

// Throws bad_variant_access where `value` is no such argument.
void check_kind(const Value& value, ArgumentType type) {
  switch (type.kind) {
    case Kind::any:
      return;
    case Kind::tensor:
      return void(std::get<Tensor>(value));
    case Kind::operand:
      if (!std::holds_alternative<Tensor>(value)) number_in(value);
      return;
    case Kind::tensors:
      return void(std::get<std::vector<Tensor>>(value));
    case Kind::boolean:
      return void(std::get<bool>(value));
    case Kind::integer:
      return void(integer_in(value));
    case Kind::number:
      return void(number_in(value));
    case Kind::dims:
      return void(dims_in(value));
    case Kind::dtype:
      return void(std::get<DType>(value));
    case Kind::device:
    case Kind::text:
      return void(std::get<std::string>(value));
    case Kind::generator:
      return void(std::get<Generator*>(value));
  }
}

// The arguments with defaults for those that are left out, each of the kind that its schema says.
Values completed(const RegisteredOp& op, std::span<const Value> given) {
  const std::vector<Argument>& arguments = op.signature->arguments;
  Values values(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(std::min(given.size(), arguments.size())));
  values.resize(arguments.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::holds_alternative<std::monostate>(values[i])) {
      if (arguments[i].required) throw BadArgument(static_cast<int>(i));
      values[i] = arguments[i].default_value;
      continue;
    }
    try {
      check_kind(values[i], arguments[i].type);
      // A number is a tensor to bodies that take tensors there.
      if (arguments[i].type.kind == Kind::operand && !std::holds_alternative<Tensor>(values[i])) {
        values[i] = Operand(number_in(values[i]), current_call.where).tensor();
      }
    } catch (const std::bad_variant_access&) {
      throw BadArgument(static_cast<int>(i));
    }
  }
  return values;
}

// The tensor that determines device and dtype: the first that is not a number, or null.
const Tensor* leading(const CallTensors& inputs) {
  const auto found = std::ranges::find_if(inputs.tensors, [](const Tensor& t) { return !t.impl()->wrapped_number; });
  if (found != inputs.tensors.end()) return &*found;
  return inputs.tensors.empty() ? nullptr : inputs.tensors.data();
}

Device device_of(std::span<const Value> values, const RegisteredOp& op, const CallTensors& inputs) {
  if (const Tensor* const first = leading(inputs)) {
    for (const Tensor& t : inputs.tensors) {
      if (!t.impl()->wrapped_number) check_same_device({first, &t});
    }
    return first->device();
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (op.types[i].kind == Kind::device && std::holds_alternative<std::string>(values[i])) {
      return Device(std::string_view(std::get<std::string>(values[i])));
    }
  }
  return {};
}

DType dtype_of(std::span<const Value> values, const CallTensors& inputs) {
  if (const Tensor* const first = leading(inputs)) return first->dtype();
  for (const Value& value : values) {
    if (const auto* dtype = std::get_if<DType>(&value)) return *dtype;
  }
  return default_dtype();
}

template <class F>
Values mapped(std::span<const Value> values, F&& f) {
  Values out(values.begin(), values.end());
  for (Value& value : out) {
    if (auto* t = std::get_if<Tensor>(&value)) {
      if (t->defined()) *t = f(*t);
    } else if (auto* list = std::get_if<std::vector<Tensor>>(&value)) {
      for (Tensor& t : *list) t = f(t);
    }
  }
  return out;
}

std::vector<Tensor> tensors_in(const Value& value) {
  if (const auto* t = std::get_if<Tensor>(&value)) return {*t};
  if (const auto* list = std::get_if<std::vector<Tensor>>(&value)) return *list;
  return {};
}

// The results of a kernel or infer_meta, including written arguments. Raises ValueError for a wrong number of results.
std::vector<Tensor> results_in(const RegisteredOp& op, const Value& returned, std::span<const Value> values,
                               const char* who) {
  std::vector<Tensor> results = tensors_in(returned);
  if (results.empty() && std::holds_alternative<std::monostate>(returned)) results.resize(op.written.size());
  if (results.size() != op.results) {
    raise<ValueError>({.problem = fmt::format("{} returned {} tensors for {} results", who, results.size(), op.results),
                       .details = op.schema});
  }
  for (const auto& [argument, result] : op.written) {
    const Tensor& target = std::get<Tensor>(values[argument]);
    const Tensor& given = results[result];
    const bool same = !given.defined() || is_meta(target) ||
                      (given.data_ptr() == target.data_ptr() && given.shape() == target.shape() &&
                       given.strides() == target.strides() && given.dtype() == target.dtype());
    if (!same) {
      raise<ValueError>({.problem = fmt::format("{} wrote argument '{}' in place and returned another tensor for it",
                                                who, op.signature->arguments[argument].name),
                         .details = fmt::format("argument {}, result {}", describe(target), describe(given))});
    }
    results[result] = target;
  }
  for (const Tensor& result : results) {
    if (!result.defined()) raise<ValueError>({.problem = fmt::format("{} returned an undefined tensor", who)});
  }
  return results;
}

// Shapes and dtypes by infer_meta.
std::vector<Tensor> inferred(const RegisteredOp& op, std::span<const Value> values) {
  const NoGradGuard unrecorded;
  const Values nothing = mapped(values, on_meta);
  return results_in(op, op.infer_meta.run(nothing), nothing, "infer_meta");
}

void check_results(const RegisteredOp& op, std::span<const Tensor> results, std::span<const Value> values,
                   const CallTensors& inputs, Device device) {
  const std::vector<Tensor> expected = op.has_infer_meta ? inferred(op, values) : std::vector<Tensor>();
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& result = results[i];
    const auto details = [&] {
      return fmt::format("result {}: infer_meta {} {}, the kernel {}", i, name(expected[i].dtype()),
                         expected[i].shape().text(), describe(result));
    };
    if (!expected.empty() && result.shape() != expected[i].shape()) {
      raise<ShapeError>({.problem = "its kernel gave another shape than its infer_meta", .details = details()});
    }
    if (!expected.empty() && result.dtype() != expected[i].dtype()) {
      raise<DTypeError>({.problem = "its kernel gave another dtype than its infer_meta", .details = details()});
    }
    if (result.device() != device) {
      raise<DeviceError>(
          {.problem = "its kernel gave a result on another device",
           .details = fmt::format("result {}: {}, and the op ran on {}", i, describe(result), device.name())});
    }
    const auto in_place = [&](const auto& pair) { return pair.second == i; };
    if (std::ranges::any_of(op.written, in_place)) continue;
    const auto same = [&](const Tensor& other) { return other.impl() == result.impl(); };
    if (result.requires_grad() || std::ranges::any_of(results.first(i), same)) {
      raise<ValueError>(
          {.problem = fmt::format("result {} of its kernel is a tensor that has another place already", i),
           .remedy = "return a new one"});
    }
    for (size_t k = 0; k < inputs.tensors.size(); ++k) {
      if (!result.shares_storage(inputs.tensors[k])) continue;
      raise<ValueError>({.problem = fmt::format("result {} of its kernel shares memory with argument '{}'", i,
                                                op.signature->arguments[inputs.arguments[k]].name),
                         .remedy = "return a copy, or declare it by inplace()"});
    }
  }
}

// The op's kernel as observers see it: one, whatever it calls.
Value observed(const RegisteredOp& op, const OpBody& body, std::span<const Value> values, const CallTensors& inputs,
               Device device) {
  if (WEFT_LIKELY(!kernels_are_observed()) || device.type == DeviceType::meta) return body.run(values);
  const auto views_of = [](std::span<const Tensor> tensors, std::vector<const View*>& views) {
    for (const Tensor& t : tensors) {
      if (t.defined()) views.push_back(&t.raw_view());
    }
    return std::span<const View* const>(views);
  };
  Value returned;
  std::vector<Tensor> results;
  std::vector<const View*> read, made;
  run_observed(op.name.c_str(), device, views_of(inputs.tensors, read), [&]() -> std::span<const View* const> {
    returned = body.run(values);
    results = tensors_in(returned);
    for (const auto& [argument, result] : op.written) {
      if (results.empty()) results.push_back(std::get<Tensor>(values[argument]));
    }
    return views_of(results, made);
  });
  return returned;
}

// The kernel's operands: operands that overlap a written tensor, without being that tensor, are copied.
Values beside_targets(const RegisteredOp& op, std::span<const Value> values) {
  Values out(values.begin(), values.end());
  for (const auto& [argument, result] : op.written) {
    const Tensor& target = std::get<Tensor>(values[argument]);
    const auto apart = [&](const Tensor& t) {
      const bool same =
          t.data_ptr() == target.data_ptr() && t.strides() == target.strides() && t.shape() == target.shape();
      return same ? t : unaliased(t, target);
    };
    const Values copied = mapped(out, apart);
    for (size_t i = 0; i < out.size(); ++i) {
      const auto written = [&](const auto& pair) { return pair.first == i; };
      if (std::ranges::none_of(op.written, written)) out[i] = copied[i];
    }
  }
  return out;
}

// Runs `write` as the write into each of the targets.
void write_all(std::span<const Tensor> targets, const Callback<void()>& write) {
  if (targets.empty()) return write();
  write_unrecorded(targets[0], [&] { write_all(targets.subspan(1), write); });
}

Value as_value(std::vector<Tensor>&& results) {
  if (results.size() == 1) return std::move(results[0]);
  return std::move(results);
}

Value run_kernel(Held<RegisteredOp> op, const OpBody& body, std::span<const Value> values, const CallTensors& inputs,
                 Device device) {
  std::vector<Tensor> targets;
  for (const auto& [argument, result] : op->written) {
    targets.push_back(check_target(std::get<Tensor>(values[argument])));
    for (size_t i = 0; i + 1 < targets.size(); ++i) {
      if (!targets[i].shares_storage(targets.back())) continue;
      raise<ValueError>({.problem = "two of the tensors that it writes share their memory"});
    }
  }
  const bool records = inputs.need_gradients();
  std::optional<RecordedCall> recorded;
  if (records) recorded.emplace(op.again(), values, inputs);
  const Values operands = targets.empty() ? Values(values.begin(), values.end()) : beside_targets(*op, values);
  std::vector<Tensor> results;
  std::vector<uint32_t> versions;
  for (const Tensor& t : targets) versions.push_back(t.version());
  const bool on_device = device.type != DeviceType::meta;
  try {
    Value returned;
    write_all(targets, [&] {
      const NoGradGuard unrecorded;
      const KernelScope scope(op->name.c_str(), Location::none(), records);
      returned = observed(*op, body, operands, inputs, device);
    });
    results = results_in(*op, returned, values, "its kernel");
    if (on_device) check_results(*op, results, values, inputs, device);
    if (recorded) recorded->finish(results);
  } catch (...) {
    for (size_t i = 0; recorded && i < targets.size(); ++i) {
      if (targets[i].version() == versions[i]) continue;
      recorded->fail();
      break;
    }
    throw;
  }
  return as_value(std::move(results));
}

[[noreturn]] void raise_no_kernel(const RegisteredOp& op, Device device, DType dtype) {
  raise<NotImplementedError>({.problem = fmt::format("there is no kernel for {} on {}", name(dtype), device.name()),
                              .details = fmt::format("its kernels: {}", kernels_of(op)),
                              .remedy = "register one with register_kernel, convert or move the tensors, or set "
                                        "WEFT_FALLBACK=cpu"});
}

// The CPU's kernel for tensors of a device, where the user allowed that.
OpBody fallback(RegisteredOp& op, const OpBody& kernel, Device device) {
  if (!op.told_of_fallback.exchange(true)) {
    warn({.problem = fmt::format("there is no kernel for {}: the CPU computes it, with copies there and back",
                                 device.name())});
  }
  return {[&op, &kernel, device](std::span<const Value> values) -> Value {
    const Values on_cpu = mapped(values, [](const Tensor& t) { return t.to(Device()); });
    std::vector<Tensor> results = results_in(op, kernel.run(on_cpu), on_cpu, "its kernel");
    for (Tensor& t : results) t = t.to(device);
    for (const auto& [argument, result] : op.written) {
      const Tensor& target = std::get<Tensor>(values[argument]);
      target.copy_(results[result]);
      results[result] = target;
    }
    return as_value(std::move(results));
  }};
}

bool may_fall_back() {
  const char* const text = setting("WEFT_FALLBACK");
  return text != nullptr && std::string_view(text) == "cpu";
}

Value run_composite(const RegisteredOp& op, std::span<const Value> values) {
  const KernelScope scope(op.name.c_str(), Location::none());
  Value returned = op.composite.run(values);
  const size_t count = std::holds_alternative<std::vector<Tensor>>(returned) ? tensors_in(returned).size() : 1;
  if (op.results > 1 && count != op.results) {
    raise<ValueError>({.problem = fmt::format("its body returned {} tensors for {} results", count, op.results),
                       .details = op.schema});
  }
  return returned;
}

Value run_op(Held<RegisteredOp> op, std::span<const Value> given) {
  const Values values = completed(*op, given);
  const CallScope call(op->name.c_str(), Location::none());
  if (op->nondeterministic) refuse_nondeterministic();
  const CallTensors inputs(values);
  const Device device = device_of(values, *op, inputs);
  const DType dtype = dtype_of(values, inputs);
  const bool records = inputs.need_gradients();
  if (device.type == DeviceType::meta && op->has_infer_meta && !op->has_composite) {
    const OpBody shapes{[&op](std::span<const Value> v) -> Value { return as_value(inferred(*op, v)); }};
    return run_kernel(op.again(), shapes, values, inputs, device);
  }
  Held<RegisteredKernel> kernel = hold(op->kernels[static_cast<int>(device.type)][static_cast<int>(dtype)]);
  const auto not_replayed = [] { detail::refuse_recording("its kernel is a function of the program's own"); };
  if (kernel && (!op->has_composite || op->has_backward || !records)) {
    not_replayed();
    return run_kernel(op.again(), kernel->body, values, inputs, device);
  }
  if (op->has_composite && !(op->has_backward && records)) return run_composite(*op, values);
  if (op->has_composite) return run_kernel(op.again(), op->composite, values, inputs, device);
  if (device.type == DeviceType::meta) {
    raise<NotImplementedError>({.problem = "its shapes are unknown without elements: it has no infer_meta",
                                .remedy = "register it with infer_meta(f)"});
  }
  if (!device.is_cpu() && may_fall_back()) {
    kernel = hold(op->kernels[static_cast<int>(DeviceType::cpu)][static_cast<int>(dtype)]);
    if (kernel) not_replayed();
    if (kernel) return run_kernel(op.again(), fallback(*op, kernel->body, device), values, inputs, device);
  }
  raise_no_kernel(*op, device, dtype);
}

// The op of a record or, once it is unregistered, the current op of its name. Empty if there is none.
Held<RegisteredOp> hold_present(RegisteredOp* op) {
  for (;;) {
    if (op->hold()) return Held(op);
    RegisteredOp* const now = op->slot->current.load(MemoryOrder::acquire);
    if (now == nullptr) return {};
    if (now == op) std::this_thread::yield();
    op = now;
  }
}

RegisteredOp* op_of(const void* state) { return const_cast<RegisteredOp*>(static_cast<const RegisteredOp*>(state)); }

}  // namespace

Value run_registered(std::span<const Value> arguments, const void* state) {
  RegisteredOp* const op = op_of(state);
  if (Held<RegisteredOp> held = hold_present(op)) return run_op(std::move(held), arguments);
  if (op->slot->own != nullptr) return op->slot->own->call(arguments);
  raise<ValueError>({.op = op->name.c_str(), .problem = "the op was unregistered"});
}

std::vector<Values> registered_samples(SampleMaker& make, const void* state) {
  const Held<RegisteredOp> held = hold_present(op_of(state));
  return held && held->samples ? held->samples(make) : std::vector<Values>();
}

}  // namespace weft::detail
