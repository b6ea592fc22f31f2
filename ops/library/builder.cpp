// From a description to a registered op.
#include <algorithm>

#include "../../autograd/engine.hpp"
#include "../../tensor/warning.hpp"
#include "../detail/signature.hpp"
#include "loading.hpp"

namespace weft {

namespace detail {

struct OpDraft {
  struct Kernel {
    DeviceType device;
    DTypes dtypes;
    OpBody body;
  };
  std::string name;
  Location where;
  int headers = header_version;
  std::string schema;
  std::vector<std::string> inputs, attributes, outputs;
  std::vector<std::pair<std::string, std::string>> in_place;
  std::optional<std::vector<std::string>> saves;
  OpBody composite, infer_meta;
  std::vector<Kernel> kernels;
  OpBackward backward;
  std::string document;
  std::optional<OpRecord::Domain> domain;
  Callback<std::vector<Values>(SampleMaker&)> samples;
  PartitionRule partition = nullptr;
  bool nondeterministic = false;
  bool allow_schema_change = false, inherit_backward = false;
};

namespace {

[[noreturn]] void refuse(const OpDraft& draft, std::string problem, std::string details, Location where) {
  raise<ValueError>({.op = draft.name.c_str(), .problem = std::move(problem), .details = std::move(details)}, where);
}

// "ns::name", or a plain name of the library's own.
void check_name(const OpDraft& draft, Location where) {
  const std::string& name = draft.name;
  const auto is_word = [](std::string_view part) {
    const auto fits = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    return !part.empty() && std::isdigit(static_cast<unsigned char>(part[0])) == 0 && std::ranges::all_of(part, fits);
  };
  const size_t colons = name.find("::");
  if (colons == name.npos) {
    const OpSlot* const slot = is_word(name) ? find_slot(name) : nullptr;
    if (slot != nullptr && slot->own != nullptr) return;
  } else if (is_word(name.substr(0, colons)) && is_word(name.substr(colons + 2))) {
    return;
  }
  refuse(draft, "this is no name of an op", "an op's name is \"ns::name\", or that of one of the library's own ops",
         where);
}

// "x", "vec w" and "opt b" with their annotations.
std::string annotated_input(const std::string& input) {
  if (input.starts_with("vec ")) return input.substr(4) + ": Tensor[]";
  if (input.starts_with("opt ")) return input.substr(4) + ": Tensor = None";
  return input + ": Tensor";
}

std::string schema_text(const OpDraft& draft, const OpRecord* replaced, Location where) {
  const bool pieces = !draft.inputs.empty() || !draft.attributes.empty() || !draft.outputs.empty();
  if (!draft.schema.empty()) {
    if (pieces) refuse(draft, "its schema is given twice: in one text and in pieces", {}, where);
    const size_t open = draft.schema.find('(');
    return draft.name + (open == draft.schema.npos ? draft.schema : draft.schema.substr(open));
  }
  if (!pieces && replaced != nullptr) return replaced->schema;
  std::string list, results;
  for (const std::string& input : draft.inputs) list += (list.empty() ? "" : ", ") + annotated_input(input);
  for (const std::string& attribute : draft.attributes) list += (list.empty() ? "" : ", ") + attribute;
  for (const std::string& output : draft.outputs) results += (results.empty() ? "" : ", ") + output;
  return fmt::format("{}({}){}", draft.name, list, results.empty() ? "" : " -> (" + results + ")");
}

// Whether a parameter of type `wanted` accepts the schema's type.
bool takes(ArgumentType wanted, ArgumentType given) {
  using Kind = ArgumentType::Kind;
  if (wanted.kind == Kind::any) return true;
  if (given.optional && !wanted.optional && wanted.kind != Kind::tensor && wanted.kind != Kind::dims) return false;
  if (wanted.kind == given.kind) return true;
  if (wanted.kind == Kind::number) return given.kind == Kind::integer;
  if (wanted.kind == Kind::tensor) return given.kind == Kind::operand;
  return wanted.kind == Kind::operand && (given.kind == Kind::tensor || given.kind == Kind::number);
}

void check_body(const OpDraft& draft, const RegisteredOp& op, const OpBody& body, const char* what, Location where) {
  if (!body.run || body.takes_values) return;
  const std::vector<Argument>& arguments = op.signature->arguments;
  if (body.types.size() != arguments.size()) {
    refuse(draft,
           fmt::format("its {} takes {} arguments, its schema names {}", what, body.types.size(), arguments.size()),
           op.schema, where);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (takes(body.types[i], arguments[i].type)) continue;
    refuse(draft,
           fmt::format("its {} takes {} for argument '{}', which is {}", what, kind_text(body.types[i]),
                       arguments[i].name, kind_text(arguments[i].type)),
           op.schema, where);
  }
}

// Types of the schema, or of the first function where the schema leaves them open.
std::vector<ArgumentType> types_of(const OpDraft& draft, const std::string& schema, const OpRecord* replaced) {
  std::span<const ArgumentType> known;
  if (replaced != nullptr && replaced->schema == schema) known = replaced->function.types;
  for (const OpDraft::Kernel& kernel : draft.kernels) {
    if (known.empty()) known = kernel.body.types;
  }
  if (!draft.composite.types.empty() && known.empty()) known = draft.composite.types;
  const std::vector<std::optional<ArgumentType>> annotated = annotations_in(schema);
  std::vector<ArgumentType> types;
  for (size_t i = 0; i < annotated.size(); ++i) {
    const ArgumentType open = i < known.size() ? known[i] : ArgumentType{ArgumentType::Kind::tensor};
    types.push_back(annotated[i].value_or(open));
  }
  return types;
}

// Names are unique, and required arguments come first.
void check_arguments(const OpDraft& draft, const RegisteredOp& op, Location where) {
  const std::vector<Argument>& arguments = op.signature->arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (op.signature->find(arguments[i].name) != &arguments[i]) {
      refuse(draft, fmt::format("its schema names '{}' twice", arguments[i].name), op.schema, where);
    }
    if (i > 0 && arguments[i].required && !arguments[i].keyword_only && !arguments[i - 1].required) {
      refuse(draft, fmt::format("'{}' must be given, and follows an argument that may be left out", arguments[i].name),
             op.schema, where);
    }
  }
}

size_t place_in(const OpDraft& draft, const std::vector<std::string>& names, const std::string& name, Location where) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    refuse(draft, fmt::format("inplace() names '{}', which its schema does not", name), {}, where);
  return static_cast<size_t>(found - names.begin());
}

std::vector<std::string> result_names(const RegisteredOp& op) {
  return op.signature->results.empty() ? std::vector<std::string>{"y"} : op.signature->results;
}

void set_written(const OpDraft& draft, RegisteredOp& op, Location where) {
  std::vector<std::string> names;
  for (const Argument& argument : op.signature->arguments) names.push_back(argument.name);
  // A single result may have any name.
  std::vector<std::string> results = result_names(op);
  if (op.signature->results.empty() && !draft.in_place.empty()) results = {draft.in_place[0].second};
  for (const auto& [argument, result] : draft.in_place) {
    const size_t i = place_in(draft, names, argument, where);
    const Argument& target = op.signature->arguments[i];
    if (target.type.kind != ArgumentType::Kind::tensor || !target.required) {
      refuse(draft, fmt::format("argument '{}' is written in place, so it is a tensor that must be given", argument),
             op.schema, where);
    }
    op.written.emplace_back(i, place_in(draft, results, result, where));
  }
}

void set_saves(const OpDraft& draft, RegisteredOp& op, Location where) {
  op.saves_arguments.assign(op.signature->arguments.size(), !draft.saves);
  op.saves_results.assign(op.results, !draft.saves);
  if (!draft.saves) return;
  const std::vector<std::string> results = result_names(op);
  for (const std::string& name : *draft.saves) {
    const Argument* const argument = op.signature->find(name);
    const auto result = std::ranges::find(results, name);
    if (argument != nullptr) op.saves_arguments[static_cast<size_t>(argument - op.signature->arguments.data())] = true;
    else if (result != results.end()) op.saves_results[static_cast<size_t>(result - results.begin())] = true;
    else refuse(draft, fmt::format("saves() names '{}', which its schema does not", name), op.schema, where);
  }
}

// The gradient of the results of `compute` to the tensors of the call.
std::vector<Tensor> gradient_by_computing(const OpGradient& g, const Signature& signature,
                                          const Callback<Value(std::span<const Value>)>& compute, size_t results) {
  const bool higher = recording();
  Values values;
  std::vector<Tensor> leaves, wanted;
  const auto operand = [&](Tensor t) {
    if (!higher) t = t.detach();
    if (is_floating(t.dtype()) && !t.requires_grad()) t = t.detach().requires_grad_();
    leaves.push_back(t);
    return t;
  };
  for (const Argument& argument : signature.arguments) {
    std::vector<Tensor> given = g.inputs(argument.name);
    for (Tensor& t : given) t = operand(t);
    if (argument.type.kind == ArgumentType::Kind::tensors) values.emplace_back(given);
    else if (!given.empty()) values.emplace_back(given[0]);
    else values.push_back(g.attribute_value(argument.name));
  }
  std::vector<Tensor> outputs, seeds;
  {
    const EnableGradGuard recorded;
    const Value value = compute(values);
    if (const auto* t = std::get_if<Tensor>(&value)) outputs = {*t};
    if (const auto* list = std::get_if<std::vector<Tensor>>(&value)) outputs = *list;
  }
  for (size_t i = 0; i < outputs.size() && i < results; ++i) seeds.push_back(g.gradient(i));
  for (size_t i = outputs.size(); i-- > 0;) {
    if (outputs[i].requires_grad()) continue;
    outputs.erase(outputs.begin() + static_cast<std::ptrdiff_t>(i));
    seeds.erase(seeds.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const Tensor& t : leaves) {
    if (t.requires_grad()) wanted.push_back(t);
  }
  std::vector<Tensor> found(wanted.size());
  if (!outputs.empty() && !wanted.empty()) {
    found = grad(outputs, wanted, seeds, {.create_graph = higher, .allow_unused = true});
  }
  std::vector<Tensor> all;
  size_t next = 0;
  for (const Tensor& t : leaves) all.push_back(t.requires_grad() ? found[next++] : Tensor());
  return all;
}

void inherit(const OpDraft& draft, RegisteredOp& op, const OpSlot& slot, Location where) {
  Held<RegisteredOp> old = hold(slot.current);
  if (old && old->inherited) old = old->inherited.again();
  if (!old && slot.own != nullptr && slot.own->facts.differentiable) {
    op.backward = [own = slot.own, results = op.results](const OpGradient& g) {
      return gradient_by_computing(
          g, own->signature(), [own](std::span<const Value> v) { return own->call(v); }, results);
    };
    return;
  }
  if (!old || (!old->has_backward && !old->has_composite)) {
    refuse(draft, "the replaced op has no backward to inherit", {}, where);
  }
  RegisteredOp* const source = old.get();
  if (source->has_backward) {
    op.backward = [source](const OpGradient& g) { return source->backward(g); };
  } else {
    op.backward = [source, results = op.results](const OpGradient& g) {
      return gradient_by_computing(g, *source->signature, source->composite.run, results);
    };
  }
  op.inherited = std::move(old);
}

void fill_record(const OpDraft& draft, RegisteredOp& op, const OpRecord* replaced) {
  op.document = draft.document;
  if (op.document.empty()) op.document = replaced != nullptr ? replaced->document : "Registered at " + op.origin + ".";
  OpRecord& record = op.record;
  record.name = op.name.c_str();
  record.schema = op.schema.c_str();
  record.document = op.document.c_str();
  record.facts.differentiable = op.has_composite || op.has_backward;
  record.domain = draft.domain.value_or(replaced != nullptr ? replaced->domain : OpRecord::Domain::floating);
  record.function = {run_registered, op.types, &op};
  record.partition = draft.partition;
  record.samples = SampleFunction(registered_samples, &op);
  if (!op.samples && replaced != nullptr) op.samples = [of = replaced->samples](SampleMaker& make) { return of(make); };
}

void add_kernels(const OpDraft& draft, RegisteredOp& op) {
  for (const OpDraft::Kernel& k : draft.kernels) {
    std::unique_ptr<RegisteredKernel> kernel(new RegisteredKernel);
    kernel->op = &op;
    kernel->device = k.device;
    kernel->dtypes = k.dtypes;
    kernel->body = k.body;
    kernel->origin = op.origin;
    add_kernel(std::move(kernel), OpPolicy::error);
  }
}

}  // namespace

void check_headers(OpName op, int version) {
  if (version == header_version) return;
  const std::string name(op.name);
  raise<ValueError>({.op = name.c_str(),
                     .problem = fmt::format("it was compiled with the headers of Weft {}.{}, and this is Weft {}",
                                            version / 1000, version % 1000, weft::version()),
                     .remedy = "compile it anew"},
                    op.where);
}

namespace {

std::unique_ptr<RegisteredOp> made_of(const OpDraft& draft, Location where) {
  check_headers(OpName(draft.name, where), draft.headers);
  check_name(draft, where);
  const OpSlot* const slot = find_slot(draft.name);
  const OpRecord* const replaced = slot != nullptr ? find_record(draft.name.c_str()) : nullptr;
  std::unique_ptr<RegisteredOp> made(new RegisteredOp);
  RegisteredOp& op = *made;
  op.name = draft.name;
  op.origin = where.text();
  op.schema = schema_text(draft, replaced, where);
  op.types = types_of(draft, op.schema, replaced);
  op.signature.reset(new Signature(parse_schema(op.schema, op.types)));
  check_arguments(draft, op, where);
  op.results = std::max<size_t>(1, op.signature->results.size());
  op.composite = draft.composite;
  op.infer_meta = draft.infer_meta;
  op.backward = draft.backward;
  op.samples = draft.samples;
  op.nondeterministic = draft.nondeterministic;
  if (!op.backward && draft.inherit_backward && slot != nullptr) inherit(draft, op, *slot, where);
  op.has_composite = static_cast<bool>(op.composite.run);
  op.has_infer_meta = static_cast<bool>(op.infer_meta.run);
  op.has_backward = static_cast<bool>(op.backward);
  if (!op.has_composite && draft.kernels.empty()) {
    refuse(draft, "it has neither a composite body nor a kernel", op.schema, where);
  }
  check_body(draft, op, op.composite, "composite body", where);
  check_body(draft, op, op.infer_meta, "infer_meta", where);
  for (const OpDraft::Kernel& kernel : draft.kernels) check_body(draft, op, kernel.body, "kernel", where);
  set_written(draft, op, where);
  if (!op.written.empty() && op.has_composite && !op.has_backward && draft.kernels.empty()) {
    refuse(draft, "a composite body writes in place by itself: inplace() is for kernels", op.schema, where);
  }
  set_saves(draft, op, where);
  fill_record(draft, op, replaced);
  add_kernels(draft, op);
  return made;
}

}  // namespace
}  // namespace detail

OpBuilder::OpBuilder(std::string name, Location where, int headers) : draft_(Shared<detail::OpDraft>::make()) {
  draft_->name = std::move(name);
  draft_->where = where;
  draft_->headers = headers;
}

OpBuilder& OpBuilder::schema(std::string schema) {
  draft_->schema = std::move(schema);
  return *this;
}
OpBuilder& OpBuilder::inputs(std::initializer_list<const char*> names) {
  draft_->inputs.assign(names.begin(), names.end());
  return *this;
}
OpBuilder& OpBuilder::attrs(std::initializer_list<const char*> attributes) {
  draft_->attributes.assign(attributes.begin(), attributes.end());
  return *this;
}
OpBuilder& OpBuilder::outputs(std::initializer_list<const char*> names) {
  draft_->outputs.assign(names.begin(), names.end());
  return *this;
}
OpBuilder& OpBuilder::inplace(std::initializer_list<std::pair<const char*, const char*>> pairs) {
  draft_->in_place.assign(pairs.begin(), pairs.end());
  return *this;
}
OpBuilder& OpBuilder::inplace(const std::string& argument, const std::string& result) {
  draft_->in_place.emplace_back(argument, result);
  return *this;
}
OpBuilder& OpBuilder::saves(std::initializer_list<const char*> names) {
  draft_->saves.emplace(names.begin(), names.end());
  return *this;
}
OpBuilder& OpBuilder::document(std::string text) {
  draft_->document = std::move(text);
  return *this;
}
OpBuilder& OpBuilder::domain(OpRecord::Domain domain) {
  draft_->domain = domain;
  return *this;
}
OpBuilder& OpBuilder::samples(Callback<std::vector<Values>(SampleMaker&)> samples) {
  draft_->samples = std::move(samples);
  return *this;
}
OpBuilder& OpBuilder::nondeterministic() {
  draft_->nondeterministic = true;
  return *this;
}
OpBuilder& OpBuilder::partition(PartitionRule rule) {
  draft_->partition = rule;
  return *this;
}
OpBuilder& OpBuilder::allow_schema_change() {
  draft_->allow_schema_change = true;
  return *this;
}
OpBuilder& OpBuilder::inherit_backward() {
  draft_->inherit_backward = true;
  return *this;
}
OpBuilder& OpBuilder::set_composite(detail::OpBody body) {
  draft_->composite = std::move(body);
  return *this;
}
OpBuilder& OpBuilder::add_kernel(DeviceType device, DTypes dtypes, detail::OpBody body) {
  draft_->kernels.push_back({device, dtypes, std::move(body)});
  return *this;
}
OpBuilder& OpBuilder::set_infer_meta(detail::OpBody body) {
  draft_->infer_meta = std::move(body);
  return *this;
}
OpBuilder& OpBuilder::set_backward(OpBackward backward) {
  draft_->backward = std::move(backward);
  return *this;
}

Registration OpBuilder::register_(OpPolicy policy, Location where) const {
  using namespace detail;
  const OpDraft& draft = *draft_;
  std::unique_ptr<RegisteredOp> made = made_of(draft, where);
  RegisteredOp& op = *made;
  std::string replaced;
  if (!add_op(made, policy, draft.allow_schema_change, replaced)) return {};
  Registration registration(&op);
  note_registered(op);
  if (!replaced.empty()) {
    warn({.op = op.name.c_str(),
          .problem = "the op replaces another definition from now on",
          .details = fmt::format("{}; the new one at {}", replaced, op.origin)},
         where);
  }
  return registration;
}

void Registration::replace(const OpBuilder& op, Location where) {
  using namespace detail;
  std::unique_ptr<RegisteredOp> made = made_of(*op.draft_, where);
  if (op_ == nullptr || op_->name != made->name) {
    raise<ValueError>({.op = made->name.c_str(), .problem = "there is no registration of this name to be replaced"},
                      where);
  }
  RegisteredOp* const now = made.get();
  swap_op(*op_, made);
  op_ = now;
}

RegisterOp::RegisterOp(const OpBuilder& op, OpPolicy policy, Location where) noexcept {
  try {
    registration_ = op.register_(policy, where);
  } catch (const std::exception& e) {
    try {
      if (detail::note_failure(e)) return;
      warn({.op = "RegisterOp", .problem = "an op was not registered", .details = detail::in_one_line(e.what())},
           where);
    } catch (...) {
    }
  }
}

}  // namespace weft
