// Calls by name, and kernels that are added to an op.
#include <algorithm>

#include "../create.hpp"
#include "../random.hpp"
#include "../../backends/backend.hpp"
#include "loading.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace detail {

std::string kind_text(ArgumentType type) {
  using Kind = ArgumentType::Kind;
  const auto text = [&]() -> std::string {
    switch (type.kind) {
      case Kind::any:
        return "any value";
      case Kind::tensor:
        return "a tensor";
      case Kind::operand:
        return "a tensor or a number";
      case Kind::tensors:
        return "a list of tensors";
      case Kind::boolean:
        return "bool";
      case Kind::integer:
        return "int";
      case Kind::number:
        return "float";
      case Kind::dims:
        return "a list of int";
      case Kind::dtype:
        return "a dtype";
      case Kind::device:
        return "the name of a device";
      case Kind::generator:
        return "a generator";
      case Kind::text:
        return "a string";
    }
    return {};
  }();
  return type.optional ? text + " or none" : text;
}

namespace {

std::string text_of_kind(const Value& value) {
  static constexpr const char* names[] = {"none",  "a tensor",      "a list of tensors", "bool",     "int",
                                          "float", "a list of int", "a dtype",           "a string", "a generator"};
  static_assert(std::size(names) == std::variant_size_v<Value>);
  return names[value.index()];
}

[[noreturn]] void raise_bad_argument(const Signature& signature, std::span<const Value> given, size_t i) {
  const Argument& argument = signature.arguments[i];
  const bool missing = i >= given.size() || std::holds_alternative<std::monostate>(given[i]);
  raise<ValueError>({.problem = missing
                                    ? fmt::format("the argument '{}' is missing", argument.name)
                                    : mismatch_text(fmt::format("argument '{}' (position {})", argument.name, i + 1),
                                                    kind_text(argument.type), text_of_kind(given[i])),
                     .details = signature.text});
}

[[noreturn]] void raise_unknown(const OpName& op) {
  raise<ValueError>({.op = "call_op",
                     .problem = fmt::format("there is no op '{}'", op.name.substr(0, 100)),
                     .remedy = "register it, or load its library"},
                    op.where);
}

OpSlot& known_slot(const OpName& op) {
  OpSlot* const slot = find_slot(op.name);
  if (slot == nullptr || (slot->own == nullptr && slot->current.load(MemoryOrder::acquire) == nullptr))
    raise_unknown(op);
  return *slot;
}

const Signature& signature_of(const OpSlot& slot) {
  const RegisteredOp* const op = slot.current.load(MemoryOrder::acquire);
  if (op != nullptr) return *op->signature;
  if (slot.own != nullptr) return slot.own->signature();
  raise_unknown({slot.name.c_str(), current_call.where});
}

}  // namespace

void raise_other_result(std::string_view op, Location where) {
  const std::string name(op);
  raise<ValueError>({.op = name.c_str(),
                     .problem = "its result is of another type than the call expects",
                     .remedy = "call_op<std::vector<Tensor>> gives several tensors, call_op<Value> anything"},
                    where);
}

Value call_slot(const OpSlot& slot, std::span<const Value> arguments, Location where) {
  const CallScope call(slot.name.c_str(), where);
  const RegisteredOp* const op = slot.current.load(MemoryOrder::acquire);
  const Signature& signature = signature_of(slot);
  if (arguments.size() > signature.arguments.size()) {
    raise<ValueError>(
        {.problem = fmt::format("it takes {} arguments, {} were given", signature.arguments.size(), arguments.size()),
         .details = signature.text});
  }
  try {
    return op != nullptr ? run_registered(arguments, op) : slot.own->call(arguments);
  } catch (const BadArgument& e) {
    raise_bad_argument(signature, arguments, static_cast<size_t>(e.argument));
  }
}

std::string_view name_of(const OpSlot& slot) { return slot.name; }

Value call_by_name(OpName op, std::span<const Value> arguments) {
  return call_slot(known_slot(op), arguments, op.where);
}

const OpSlot& slot_for(OpName op, std::span<const ArgumentType> types, size_t required) {
  const OpSlot& slot = known_slot(op);
  const Signature& signature = signature_of(slot);
  const auto refuse = [&](std::string problem) {
    raise<ValueError>({.op = slot.name.c_str(), .problem = std::move(problem), .details = signature.text}, op.where);
  };
  const std::vector<Argument>& arguments = signature.arguments;
  if (required > arguments.size())
    refuse(mismatch_text("arguments", fmt::format("at most {}", arguments.size()), required));
  for (size_t i = 0; i < arguments.size(); ++i) {
    using Kind = ArgumentType::Kind;
    const Argument& argument = arguments[i];
    if (i >= types.size()) {
      if (argument.required) refuse(fmt::format("the argument '{}' is missing", argument.name));
      continue;
    }
    const Kind wanted = argument.type.kind, given = types[i].kind;
    const bool fits =
        wanted == given || wanted == Kind::any || given == Kind::any ||
        (wanted == Kind::number && given == Kind::integer) ||
        (wanted == Kind::operand && (given == Kind::tensor || given == Kind::number || given == Kind::integer)) ||
        (wanted == Kind::dims && given == Kind::integer) || (wanted == Kind::device && given == Kind::text);
    if (!fits) {
      refuse(mismatch_text(fmt::format("argument '{}'", argument.name), kind_text(argument.type), kind_text(types[i])));
    }
  }
  return slot;
}

Tensor meta_tensor(const TensorMeta& meta) { return empty(meta.shape, {meta.dtype, Device(DeviceType::meta)}); }

KernelRegistration register_kernel(OpName op, DeviceType device, DTypes dtypes, OpBody body, OpPolicy policy) {
  OpSlot& slot = known_slot(op);
  const CallScope call(slot.name.c_str(), op.where);
  const Held<RegisteredOp> held = hold(slot.current);
  if (!held) {
    raise<ValueError>({.problem = "a kernel can be added to a registered op, and this is one of the library's own",
                       .remedy = "put an op in its place, with OpPolicy::override"});
  }
  const std::vector<Argument>& arguments = held->signature->arguments;
  if (!body.takes_values && body.types.size() != arguments.size()) {
    raise<ValueError>({.problem = fmt::format("the kernel takes {} arguments, the schema names {}", body.types.size(),
                                              arguments.size()),
                       .details = held->schema});
  }
  std::unique_ptr<RegisteredKernel> kernel(new RegisteredKernel);
  kernel->op = held.get();
  kernel->device = device;
  kernel->dtypes = dtypes;
  kernel->body = std::move(body);
  kernel->origin = op.where.text();
  RegisteredKernel* const added = add_kernel(std::move(kernel), policy);
  if (added != nullptr) note_registered(*added);
  return KernelRegistration(added);
}

}  // namespace detail

namespace {

// Whether one of the library's ops works there: whether its first sample does.
bool works(const OpRecord& record, Device device, DType dtype) {
  try {
    SampleMaker make(dtype, device);
    const std::vector<Values> samples = record.samples(make);
    if (samples.empty()) return false;
    const NoGradGuard unrecorded;
    const RngForkGuard unchanged({Device(), device});
    record.call(samples[0]);
    synchronize(device);
    return true;
  } catch (const DTypeError&) {
    return false;
  } catch (const NotImplementedError&) {
    return false;
  }
}

}  // namespace

bool has_kernel(OpName op, DeviceType device, DType dtype) {
  const detail::OpSlot& slot = detail::known_slot(op);
  if (device_count(device) == 0) return false;
  if (const auto held = detail::hold(slot.current)) {
    const bool meta = device == DeviceType::meta && held->has_infer_meta;
    return held->has_composite || meta ||
           held->kernels[static_cast<int>(device)][static_cast<int>(dtype)].load(MemoryOrder::acquire) != nullptr;
  }
  return slot.own != nullptr && works(*slot.own, Device(device), dtype);
}

}  // namespace weft
