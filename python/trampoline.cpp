// One trampoline serves every op: it parses the schema once, binds and boxes arguments, and calls the record.
// Pointwise ops also have plain function pointers for one or two positional arguments. weft.Tensor is a plain
// CPython type, because a call through a binding library takes as long as a small op.
#include "trampoline.hpp"

#include <structmember.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "../ops/library/registry.hpp"
#include "../tensor/error.hpp"

#include "methods.hpp"

namespace weft::python {

namespace {

enum class Form : uint8_t { plain, in_place };

struct OpObject {
  PyObject ob_base;
  vectorcallfunc vectorcall;
  Function* function;
  PyObject* name;
  Form form;
  /// Of the registry, when `function` was looked up.
  uint32_t version;
  /// PyTorch's keywords that change nothing in this form: a dictionary of the values that they may have beside None.
  PyObject* idle_keywords;
};
PyTypeObject* op_type = nullptr;

constexpr size_t most_arguments = 14;

[[noreturn]] void bad_type(const Function& f, size_t i, PyObject* object) {
  throw_type_error(std::string(f.record->name) + "(): argument '" + f.arguments()[i].name + "' (position " +
                   std::to_string(i + 1) + ") must not be " + type_name(object));
}

// C++ numbers dimensions by int; larger values must not wrap to an existing dimension.
void check_dimension(const Argument& argument, int64_t value) {
  if (value == static_cast<int>(value) || argument.name.find("dim") == std::string::npos) return;
  throw_error(PyExc_IndexError, "argument '" + argument.name + "': there is no dimension " + std::to_string(value));
}

// The argument that a keyword names, or the number of arguments.
size_t argument_of(const Function& f, PyObject* keyword) {
  for (size_t i = 0; i < f.interned.size(); ++i) {
    if (f.interned[i] == keyword) return i;
  }
  const Argument* const found = f.signature->find(text_of(keyword));
  return found != nullptr ? static_cast<size_t>(found - f.arguments().data()) : f.arguments().size();
}

// The Python object of each argument; `collected` holds a tuple of variadic ones.
struct Bound {
  PyObject* objects[most_arguments] = {};
  PyObject* out = nullptr;
  PyObject* unknown = nullptr;
  Ref collected;
};

void bind_positional(const Function& f, PyObject* const* arguments, size_t count, Bound& bound) {
  size_t i = 0;
  for (; i < count && i < f.positional; ++i) {
    if (f.arguments()[i].variadic && (count - i > 1 || !(PyTuple_Check(arguments[i]) || PyList_Check(arguments[i])))) {
      bound.collected = Ref(PyTuple_New(static_cast<Py_ssize_t>(count - i)));
      for (size_t j = i; j < count; ++j) {
        PyTuple_SET_ITEM(bound.collected.get(), static_cast<Py_ssize_t>(j - i), Py_NewRef(arguments[j]));
      }
      bound.objects[i] = bound.collected.get();
      return;
    }
    bound.objects[i] = arguments[i];
  }
  if (i < count) {
    throw_type_error(std::string(f.record->name) + "() takes " + std::to_string(f.positional) +
                     " positional arguments, " + std::to_string(count) + " were given");
  }
}

void bind_keywords(const Function& f, PyObject* const* values, PyObject* keywords, Bound& bound) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(keywords); ++k) {
    PyObject* keyword = PyTuple_GET_ITEM(keywords, k);
    const size_t i = argument_of(f, keyword);
    if (i == f.arguments().size()) {
      if (PyUnicode_CompareWithASCIIString(keyword, "out") == 0) bound.out = values[k];
      else bound.unknown = keyword;
    } else if (bound.objects[i] != nullptr) {
      throw_type_error(std::string(f.record->name) + "() got several values for argument '" + f.arguments()[i].name +
                       "'");
    } else {
      bound.objects[i] = values[k];
    }
  }
}

Bound bind(const Function& f, PyObject* const* arguments, size_t count, PyObject* keywords) {
  Bound bound;
  bind_positional(f, arguments, count, bound);
  if (keywords != nullptr) bind_keywords(f, arguments + count, keywords, bound);
  return bound;
}

// Sizes come from the caller; the product is saturated, because only a threshold matters.
int64_t product_up_to(int64_t limit, const Dims& sizes) {
  int64_t n = 1;
  for (const int64_t size : sizes) {
    if (size <= 0) return 0;
    n = size >= limit || n * size >= limit ? limit : n * size;
  }
  return n;
}

// Elements that a call touches, to judge whether it takes long.
int64_t elements_in(std::span<const Value> values) {
  int64_t n = 0;
  for (const Value& value : values) {
    if (auto* tensor = std::get_if<Tensor>(&value)) n += tensor->numel();
    else if (auto* dims = std::get_if<Dims>(&value)) n += product_up_to(elements_worth_a_switch, *dims);
    else if (auto* list = std::get_if<std::vector<Tensor>>(&value)) {
      for (const Tensor& t : *list) n += t.numel();
    }
  }
  return n;
}

// A list with fractions, as numbers of an op that takes any value there.
bool to_numbers(PyObject* object, Value& out) {
  if (!PyList_Check(object) && !PyTuple_Check(object)) return false;
  const Ref items(PySequence_Tuple(object));
  std::vector<Tensor> numbers;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    Value item;
    if (!to_value(PyTuple_GET_ITEM(items.get(), i), item)) return false;
    if (const auto* fraction = std::get_if<double>(&item)) numbers.push_back(Operand(*fraction, here()).tensor());
    else if (const auto* whole = std::get_if<int64_t>(&item)) numbers.push_back(Operand(*whole, here()).tensor());
    else return false;
  }
  out = std::move(numbers);
  return true;
}

// A form that writes takes its target before the arguments.
Value run(const Function& f, const BoxedFunction& function, const Bound& bound, const Tensor* target = nullptr) {
  Value all[most_arguments + 1];
  const size_t first = target != nullptr ? 1 : 0;
  if (target != nullptr) all[0] = *target;
  Value* const values = all + first;
  for (size_t i = 0; i + first < function.types.size(); ++i) {
    PyObject* object = bound.objects[i];
    if (object == nullptr || object == Py_None) {
      values[i] = f.arguments()[i].default_value;
      if (!f.arguments()[i].required) continue;
      if (object != nullptr) bad_type(f, i, object);
      throw_type_error(std::string(f.record->name) + "() misses the required argument '" + f.arguments()[i].name + "'");
    }
    const bool any = function.types[i + first].kind == ArgumentType::Kind::any;
    const bool is_converted = (any && to_long_list(object, values[i])) || to_value(object, values[i]) ||
                              (any && to_numbers(object, values[i]));
    if (!is_converted) bad_type(f, i, object);
    if (auto* number = std::get_if<int64_t>(&values[i])) check_dimension(f.arguments()[i], *number);
  }
  try {
    const std::span<const Value> given(all, function.types.size());
    const CallScope place(f.record->name, here());
    const WithoutGil others(elements_in(given) * 4 >= elements_worth_a_switch);
    return function(given);
  } catch (const BadArgument& e) {
    const size_t i = static_cast<size_t>(e.argument) - first;
    bad_type(f, i, bound.objects[i] != nullptr ? bound.objects[i] : Py_None);
  }
}

// The computed result of an in-place form.
PyObject* write_back(PyObject* target, const Tensor& result, const std::string& op, Location where) {
  const Tensor& x = tensor_of(target);
  const CallScope call(op.c_str(), where);
  check_target_dtype(result.dtype(), x);
  x.copy_(result);
  return Py_NewRef(target);
}

// A copy to compute from, because a gradient may need the old value after the write.
Ref before_write(PyObject* x, Location where) { return Ref(wrap(tensor_of(x).clone(where))); }

// The in-place form of an op with arguments that its kernel does not take.
PyObject* write_in_place(const Function& f, Bound& bound, Location where) {
  PyObject* const target = bound.objects[0];
  const Ref old = before_write(target, where);
  bound.objects[0] = old.get();
  const Value result = run(f, f.record->function, bound);
  return write_back(target, std::get<Tensor>(result), f.record->name, where);
}

// A target of another shape is resized, and one of another dtype gets the result converted, as PyTorch does.
void write_out(const Function& f, const Tensor& out, const Tensor& result, Location where) {
  if (out.requires_grad() || result.requires_grad()) {
    throw_error(PyExc_ValueError, std::string(f.record->name) + "(): argument 'out' is not for recorded calls");
  }
  const CallScope call(f.record->name, where);
  check_target_dtype(result.dtype(), out);
  if (out.shape() != result.shape()) {
    if (out.numel() != 0) {
      const std::string text = std::string(f.record->name) + "(): argument 'out' of shape " + out.shape().text() +
                               " is resized to the result's " + result.shape().text() + ": pass an empty tensor";
      if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError();
    }
    out.resize_(result.shape(), where);
  }
  out.copy_(result, where);
}

// False where `out` has another shape or dtype than the result, which is then computed apart.
bool ran_into_target(const Function& f, Bound& bound) {
  try {
    run(f, f.record->out, bound, &tensor_of(bound.out));
    return true;
  } catch (const ShapeError&) {
  } catch (const DTypeError&) {
  }
  return false;
}

// The results in the tensors that `out` names: one, or a sequence of as many.
PyObject* write_results(const Function& f, PyObject* out, const Value& value, Location where) {
  const auto* one = std::get_if<Tensor>(&value);
  const auto* several = std::get_if<std::vector<Tensor>>(&value);
  if (one == nullptr && several == nullptr) {
    throw_error(PyExc_NotImplementedError, std::string(f.record->name) + "() has no form with 'out'");
  }
  const std::span<const Tensor> results = one != nullptr ? std::span(one, 1) : std::span<const Tensor>(*several);
  const Ref targets(is_tensor(out) ? PyTuple_Pack(1, out) : PySequence_Tuple(out));
  if (PyTuple_GET_SIZE(targets.get()) != std::ssize(results)) {
    throw_error(PyExc_ValueError, std::string(f.record->name) + "(): argument 'out' has " +
                                      std::to_string(PyTuple_GET_SIZE(targets.get())) + " tensors for " +
                                      std::to_string(results.size()) + " results");
  }
  for (size_t i = 0; i < results.size(); ++i) {
    write_out(f, tensor_of(PyTuple_GET_ITEM(targets.get(), i)), results[i], where);
  }
  if (results.size() == 1) return Py_NewRef(PyTuple_GET_ITEM(targets.get(), 0));
  return f.result_type == nullptr ? Py_NewRef(targets.get()) : PyObject_CallObject(f.result_type, targets.get());
}

/// Tensors alone, one or a tuple or list of several.
bool are_tensors(PyObject* out) {
  if (!PyTuple_Check(out) && !PyList_Check(out)) return is_tensor(out);
  const auto items = std::span(PySequence_Fast_ITEMS(out), static_cast<size_t>(PySequence_Fast_GET_SIZE(out)));
  return std::ranges::all_of(items, is_tensor);
}

PyObject* result_of(const Function& f, Value&& value) {
  auto* several = std::get_if<std::vector<Tensor>>(&value);
  if (f.result_type == nullptr || several == nullptr) return from_value(std::move(value));
  if (several->size() == 1) return wrap(std::move(several->front()));
  const Ref tuple(from_value(std::move(value)));
  return PyObject_CallObject(f.result_type, tuple.get());
}

PyObject* call_general(OpObject* self, PyObject* const* arguments, size_t count, PyObject* keywords) {
  const Function& f = *self->function;
  Bound bound = bind(f, arguments, count, keywords);
  if (bound.unknown != nullptr) {
    throw_type_error(std::string(f.record->name) + "() got an unexpected keyword argument '" + text_of(bound.unknown) +
                     "'");
  }
  const bool writes = bound.out != nullptr && bound.out != Py_None;
  if (writes && !are_tensors(bound.out)) {
    throw_type_error(std::string(f.record->name) + "(): argument 'out': expected a Tensor, got " +
                     type_name(bound.out));
  }
  if (writes && is_tensor(bound.out) && f.record->out.run != nullptr && ran_into_target(f, bound)) {
    return Py_NewRef(bound.out);
  }
  Value result = run(f, f.record->function, bound);
  if (writes) return write_results(f, bound.out, result, here());
  // In-place ops give the object that they were called on.
  if (auto* tensor = std::get_if<Tensor>(&result); tensor != nullptr && bound.objects[0] != nullptr &&
                                                   is_tensor(bound.objects[0]) &&
                                                   tensor_of(bound.objects[0]).impl() == tensor->impl()) {
    return Py_NewRef(bound.objects[0]);
  }
  return result_of(f, std::move(result));
}

bool is_large(const Operand& x) { return x.tensor().numel() >= elements_worth_a_switch; }

PyObject* call_unary(const Function& f, PyObject* x) {
  OperandOf operand;
  if (!operand.set(x, here())) bad_type(f, 0, x);
  Tensor result;
  {
    const WithoutGil others(is_large(operand.get()));
    result = f.record->pointwise.unary(operand.get());
  }
  return wrap(std::move(result));
}

PyObject* call_binary(const Function& f, PyObject* a, PyObject* b) {
  const Location where = here();
  OperandOf first, second;
  const auto set = f.record->pointwise.binary_in_place != nullptr ? &OperandOf::set : &OperandOf::set_compared;
  if (!(first.*set)(a, where)) bad_type(f, 0, a);
  if (!(second.*set)(b, where)) bad_type(f, 1, b);
  Tensor result;
  {
    const WithoutGil others(is_large(first.get()) || is_large(second.get()));
    result = f.record->pointwise.binary(first.get(), second.get());
  }
  return wrap(std::move(result));
}

// The in-place form of an op that has one for all or the first of its arguments.
PyObject* call_boxed_in_place(const Function& f, PyObject* const* arguments, size_t count, PyObject* keywords) {
  Bound bound = bind(f, arguments, count, keywords);
  const size_t given = f.record->in_place.types.size();
  for (size_t i = given; i < f.arguments().size(); ++i) {
    if (bound.objects[i] != nullptr) bound.unknown = f.interned[i];
  }
  if (bound.unknown != nullptr || bound.out != nullptr) {
    throw_type_error(std::string(f.record->name) + "_() got an unexpected keyword argument '" +
                     (bound.unknown != nullptr ? text_of(bound.unknown) : "out") + "'");
  }
  if (bound.objects[0] != nullptr && !is_tensor(bound.objects[0])) bad_type(f, 0, bound.objects[0]);
  run(f, f.record->in_place, bound);
  return Py_NewRef(bound.objects[0]);
}

PyObject* call_in_place(OpObject* self, PyObject* const* arguments, size_t count, PyObject* keywords) {
  const Function& f = *self->function;
  if (f.record->in_place.run != nullptr) return call_boxed_in_place(f, arguments, count, keywords);
  const size_t wanted = f.record->pointwise.unary_in_place != nullptr ? 1 : 2;
  Bound bound = bind(f, arguments, count, keywords);
  if (bound.unknown != nullptr || bound.out != nullptr) {
    throw_type_error(std::string(f.record->name) + "_() got an unexpected keyword argument");
  }
  PyObject* const* objects = bound.objects;
  for (size_t i = 0; i < wanted; ++i) {
    if (objects[i] != nullptr) continue;
    throw_type_error(std::string(f.record->name) + "_() misses the required argument '" + f.arguments()[i].name + "'");
  }
  if (!is_tensor(objects[0])) bad_type(f, 0, objects[0]);
  const Tensor& x = tensor_of(objects[0]);
  const Location where = here();
  for (size_t i = wanted; i < f.arguments().size(); ++i) {
    if (objects[i] != nullptr) return write_in_place(f, bound, where);
  }
  const auto large = x.numel() >= elements_worth_a_switch;
  if (wanted == 1) {
    const WithoutGil others(large);
    f.record->pointwise.unary_in_place(x, where);
  } else {
    OperandOf other;
    if (!other.set(objects[1], where)) bad_type(f, 1, objects[1]);
    const WithoutGil others(large);
    f.record->pointwise.binary_in_place(x, other.get());
  }
  return Py_NewRef(objects[0]);
}

// Whether a keyword of the call changes nothing. NotImplementedError where it has another value than its default.
bool is_idle(const OpObject& op, PyObject* keyword, PyObject* value) {
  PyObject* idle = PyDict_GetItemWithError(op.idle_keywords, keyword);
  if (idle == nullptr) {
    if (PyErr_Occurred()) throw PythonError();
    return false;
  }
  if (value == Py_None) return true;
  const int same = is_tensor(value) ? 0 : PySequence_Contains(idle, value);
  if (same < 0) throw PythonError();
  if (same == 0) {
    throw_error(PyExc_NotImplementedError,
                text_of(op.name) + "(): argument '" + text_of(keyword) + "' is there with its default alone");
  }
  return true;
}

PyObject* call(OpObject* self, PyObject* const* arguments, size_t count, PyObject* keywords) {
  const Function& f = *self->function;
  if (keywords != nullptr && PyTuple_GET_SIZE(keywords) == 0) keywords = nullptr;
  if (self->form == Form::in_place) return call_in_place(self, arguments, count, keywords);
  if (keywords == nullptr && count == 2 && f.record->pointwise.binary != nullptr) {
    return call_binary(f, arguments[0], arguments[1]);
  }
  if (keywords == nullptr && count == 1 && f.record->pointwise.unary != nullptr) return call_unary(f, arguments[0]);
  return call_general(self, arguments, count, keywords);
}

// A call without those of its keywords that change nothing.
PyObject* call_without_idle(OpObject* self, PyObject* const* arguments, size_t count, PyObject* keywords) {
  std::vector<PyObject*> left(arguments, arguments + count), names;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(keywords); ++k) {
    PyObject* const name = PyTuple_GET_ITEM(keywords, k);
    PyObject* const value = arguments[count + static_cast<size_t>(k)];
    if (is_idle(*self, name, value)) continue;
    left.push_back(value);
    names.push_back(name);
  }
  const Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(names.size())));
  for (size_t i = 0; i < names.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(names[i]));
  }
  return call(self, left.data(), count, tuple.get());
}

std::unique_ptr<Function> make_function(const OpRecord& record);

// Uses the present definition of the name. Earlier ones stay alive, because calls may be running. In-place forms are
// built in.
[[gnu::noinline, gnu::cold]] void follow_registry(OpObject* self, uint32_t version) {
  static std::map<const OpRecord*, Function*>& known = *new std::map<const OpRecord*, Function*>;
  Function* const old = self->function;
  known.emplace(old->record, old);
  const OpRecord* const record = self->form == Form::plain ? find_record(old->record->name) : nullptr;
  if (record != nullptr && record != old->record) {
    Function*& now = known[record];
    if (now == nullptr) {
      now = make_function(*record).release();
      if (now->signature->results == old->signature->results) now->result_type = old->result_type;
    }
    self->function = now;
  }
  self->version = version;
}

PyObject* op_call_tensors(PyObject* callable, PyObject* const* arguments, size_t flags, PyObject* keywords) {
  return guarded<PyObject*>(nullptr, [&] {
    auto* self = reinterpret_cast<OpObject*>(callable);
    const uint32_t version = detail::op_registry_version.load(MemoryOrder::acquire);
    if (WEFT_UNLIKELY(version != self->version)) follow_registry(self, version);
    const auto count = static_cast<size_t>(PyVectorcall_NARGS(flags));
    const bool idle = keywords != nullptr && self->idle_keywords != nullptr;
    return idle ? call_without_idle(self, arguments, count, keywords) : call(self, arguments, count, keywords);
  });
}

PyObject* op_call(PyObject* callable, PyObject* const* arguments, size_t flags, PyObject* keywords) {
  if (WEFT_UNLIKELY(subclasses_compute.load(MemoryOrder::relaxed))) {
    const auto count = static_cast<size_t>(PyVectorcall_NARGS(flags));
    PyObject* const result = hand_over(callable, arguments, count, keywords);
    if (result != nullptr || PyErr_Occurred() != nullptr) return result;
  }
  PyObject* const result = op_call_tensors(callable, arguments, flags, keywords);
  if (WEFT_LIKELY(result != nullptr) || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
  return hand_over(callable, arguments, static_cast<size_t>(PyVectorcall_NARGS(flags)), keywords);
}

PyObject* op_bind(PyObject* self, PyObject* object, PyObject*) {
  return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

OpObject* op_of(PyObject* self) { return reinterpret_cast<OpObject*>(self); }

PyObject* op_text_signature(PyObject* self, void*) {
  const std::string& s = op_of(self)->function->signature->text;
  return PyUnicode_FromString(s.substr(s.find('(')).c_str());
}
PyObject* op_document(PyObject* self, void*) {
  const Function& f = *op_of(self)->function;
  const std::string suffix = op_of(self)->form == Form::in_place ? "_" : "";
  const std::string& text = f.signature->text;
  return PyUnicode_FromString((f.record->name + suffix + text.substr(text.find('(')) + "\n\n" +
                               (suffix.empty() ? "" : "In place: ") + f.record->document)
                                  .c_str());
}
PyObject* op_name(PyObject* self, void*) { return Py_NewRef(op_of(self)->name); }
PyObject* op_module(PyObject*, void*) { return PyUnicode_FromString("weft"); }
PyObject* op_repr(PyObject* self) { return PyUnicode_FromFormat("<op weft.%U>", op_of(self)->name); }
PyObject* op_reduce(PyObject* self, PyObject*) { return Py_NewRef(op_of(self)->name); }
PyObject* op_accept_idle(PyObject* self, PyObject* keywords) {
  if (!PyDict_Check(keywords)) {
    PyErr_Format(PyExc_TypeError, "accept_idle(): argument 'keywords': expected a dict, got %s",
                 Py_TYPE(keywords)->tp_name);
    return nullptr;
  }
  Py_XSETREF(op_of(self)->idle_keywords, Py_NewRef(keywords));
  return Py_NewRef(Py_None);
}
PyObject* op_results(PyObject* self, void*) {
  const std::vector<std::string>& results = op_of(self)->function->signature->results;
  const Ref names(PyTuple_New(static_cast<Py_ssize_t>(results.size())));
  for (size_t i = 0; i < results.size(); ++i) {
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), PyUnicode_FromString(results[i].c_str()));
  }
  return Py_NewRef(names.get());
}
PyObject* op_name_results(PyObject* self, PyObject* type) {
  Py_XSETREF(op_of(self)->function->result_type, Py_NewRef(type));
  return Py_NewRef(Py_None);
}

PyMemberDef op_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(OpObject, vectorcall), READONLY, nullptr},
                            {}};
PyGetSetDef op_getters[] = {
    {"__name__", op_name, nullptr, nullptr, nullptr},
    {"__qualname__", op_name, nullptr, nullptr, nullptr},
    {"__module__", op_module, nullptr, nullptr, nullptr},
    {"__doc__", op_document, nullptr, nullptr, nullptr},
    {"_results", op_results, nullptr, "Names of the results, where there are several.", nullptr},
    {"__text_signature__", op_text_signature, nullptr, nullptr, nullptr},
    {}};
PyMethodDef op_methods[] = {{"__reduce__", op_reduce, METH_NOARGS, nullptr},
                            {"_accept_idle", op_accept_idle, METH_O,
                             "Keywords that change nothing, and the values that they may have beside None."},
                            {"_name_results", op_name_results, METH_O, "Names the type of several results."},
                            {}};
PyType_Slot op_slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                          {Py_tp_descr_get, reinterpret_cast<void*>(op_bind)},
                          {Py_tp_repr, reinterpret_cast<void*>(op_repr)},
                          {Py_tp_members, op_members},
                          {Py_tp_getset, op_getters},
                          {Py_tp_methods, op_methods},
                          {}};
PyType_Spec op_spec = {"weft.op", sizeof(OpObject), 0,
                       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                           Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                       op_slots};

std::unique_ptr<Function> make_function(const OpRecord& record) {
  std::unique_ptr<Function> f(new Function{.record = &record, .signature = &record.signature()});
  for (const Argument& argument : f->arguments()) {
    f->interned.push_back(Ref(PyUnicode_InternFromString(argument.name.c_str())).release());
    if (!argument.keyword_only) ++f->positional;
  }
  if (f->arguments().size() > most_arguments) {
    throw_error(PyExc_NotImplementedError, std::string("too many arguments: ") + record.name);
  }
  return f;
}

Ref make_op(Function* function, Form form) {
  Ref object(op_type->tp_alloc(op_type, 0));
  auto* op = op_of(object.get());
  const std::string name = std::string(function->record->name) + (form == Form::in_place ? "_" : "");
  op->vectorcall = op_call;
  op->function = function;
  op->form = form;
  op->name = Ref(PyUnicode_InternFromString(name.c_str())).release();
  return object;
}

void add_op(PyObject* ops, Function* function, Form form) {
  const Ref object = make_op(function, form);
  if (PyDict_SetItem(ops, op_of(object.get())->name, object.get()) < 0) throw PythonError();
}

}  // namespace

PyObject* find_op_object(const char* name) {
  static std::map<std::string, PyObject*>& objects = *new std::map<std::string, PyObject*>;
  const OpRecord* const record = find_record(name);
  if (record == nullptr) return Py_NewRef(Py_None);
  PyObject*& object = objects[name];
  if (object == nullptr) object = make_op(make_function(*record).release(), Form::plain).release();
  auto* op = op_of(object);
  const uint32_t version = detail::op_registry_version.load(MemoryOrder::acquire);
  if (op->version != version) follow_registry(op, version);
  return Py_NewRef(object);
}

void add_ops(PyObject* module) {
  op_type = reinterpret_cast<PyTypeObject*>(Ref(PyType_FromSpec(&op_spec)).release());
  const Ref ops(PyDict_New());
  for (const std::span<const OpRecord> table : {method_table(), op_records()}) {
    for (const OpRecord& record : table) {
      Function* function = make_function(record).release();  // the ops live as long as the process
      add_op(ops.get(), function, Form::plain);
      const PointwiseFunctions& p = record.pointwise;
      const bool in_place = record.in_place.run != nullptr;
      if (in_place || p.unary_in_place != nullptr || p.binary_in_place != nullptr)
        add_op(ops.get(), function, Form::in_place);
    }
  }
  if (PyModule_AddObjectRef(module, "_ops", ops.get()) < 0 ||
      PyModule_AddObjectRef(module, "op", reinterpret_cast<PyObject*>(op_type)) < 0) {
    throw PythonError();
  }
}

}  // namespace weft::python
