// autograd.Function written in Python: its forward and backward behind one call of the C++ graph.
#include "../autograd/function.hpp"

#include "caster.hpp"

namespace weft::python {

namespace {

// The graph's data of a Python function: the class, the context object, and which arguments were tensors.
struct Kept {
  Callback cls, context;
  std::vector<bool> is_tensor;
  size_t saved = 0;
};

Ref tuple_of(const std::vector<Ref>& items) {
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i].get()));
  }
  return tuple;
}

void set(PyObject* object, const char* name, PyObject* value) {
  if (PyObject_SetAttrString(object, name, value) < 0) throw PythonError();
}

// One gradient per tensor argument, from backward's results for all arguments.
std::vector<Tensor> gradients_of(PyObject* returned, const std::vector<bool>& is_tensor_argument) {
  const Ref items = PyTuple_Check(returned) || PyList_Check(returned) ? Ref(PySequence_Tuple(returned))
                                                                      : Ref(PyTuple_Pack(1, returned));
  const auto count = static_cast<size_t>(PyTuple_GET_SIZE(items.get()));
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < count; ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i));
    if (item != Py_None && !is_tensor(item)) {
      PyErr_Format(PyExc_TypeError, "result of backward: expected a Tensor or None for each argument, got %s",
                   Py_TYPE(item)->tp_name);
      carry_error();
    }
    if (i < is_tensor_argument.size() && !is_tensor_argument[i]) {
      if (item == Py_None) continue;
      PyErr_SetString(PyExc_TypeError, "backward returned a gradient for an argument that is no tensor");
      carry_error();
    }
    gradients.push_back(item == Py_None ? Tensor() : tensor_of(item));
  }
  return gradients;
}

std::vector<Tensor> run_backward(autograd::Context& context, std::span<const Tensor> incoming) {
  const WithGil gil;
  try {
    const auto& kept = std::any_cast<const Kept&>(context.data);
    std::vector<Ref> saved;
    for (size_t i = 0; i < kept.saved; ++i) saved.emplace_back(wrap(context.saved(i)));
    PyObject* object = kept.context.get();
    set(object, "saved_tensors", tuple_of(saved).get());
    std::vector<Ref> arguments;
    arguments.push_back(Ref::share(object));
    for (const Tensor& gradient : incoming) arguments.emplace_back(wrap(gradient));
    const Ref backward(attribute(kept.cls.get(), "backward"));
    PyObject* returned = PyObject_CallObject(backward.get(), tuple_of(arguments).get());
    // Saved tensors are in the graph, not in the context object.
    if (returned == nullptr) carry_error();
    const Ref result(returned);
    set(object, "saved_tensors", Ref(PyTuple_New(0)).get());
    return gradients_of(result.get(), kept.is_tensor);
  } catch (const PythonError&) {
    carry_error();
  }
}

// Tensors listed in an attribute of the context; None means an undefined one.
std::vector<Tensor> listed(PyObject* context, const char* name) {
  const Ref items(attribute(context, name));
  std::vector<Tensor> tensors;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    if (item != Py_None && !is_tensor(item)) {
      throw_type_error(std::string(name) + ": expected tensors or None, got " + type_name(item));
    }
    tensors.push_back(item == Py_None ? Tensor() : tensor_of(item));
  }
  return tensors;
}

nb::object apply(nb::handle cls, nb::handle context, nb::tuple arguments) {
  std::vector<Tensor> inputs;
  std::vector<bool> is_tensor_argument;
  for (const nb::handle argument : arguments) {
    is_tensor_argument.push_back(is_tensor(argument.ptr()));
    if (is_tensor_argument.back()) inputs.push_back(tensor_of(argument.ptr()));
  }
  autograd::Call call(text_of(attribute(cls.ptr(), "__name__").get()), inputs, here());
  nb::list needed;
  for (size_t i = 0, tensor = 0; i < is_tensor_argument.size(); ++i) {
    needed.append(is_tensor_argument[i] && call.context().needs_gradient(tensor));
    if (is_tensor_argument[i]) ++tensor;
  }
  set(context.ptr(), "needs_input_grad", nb::tuple(needed).ptr());

  const Ref forward(attribute(cls.ptr(), "forward"));
  Ref returned;
  {
    const NoGradGuard unrecorded;
    const nb::object all = nb::make_tuple(context) + arguments;
    returned = Ref(PyObject_CallObject(forward.get(), nb::tuple(all).ptr()));
  }
  const bool single = is_tensor(returned.get());
  const Ref items(single ? PyTuple_Pack(1, returned.get()) : PySequence_Tuple(returned.get()));
  std::vector<Tensor> outputs;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    if (!is_tensor(item))
      throw_type_error("result of forward: expected a Tensor or a tuple of them, got " + type_name(item));
    outputs.push_back(tensor_of(item));
  }
  std::vector<Tensor> saved = listed(context.ptr(), "_to_save");
  std::vector<Tensor> constants = listed(context.ptr(), "_non_differentiable");
  std::vector<Tensor> written = listed(context.ptr(), "_dirty");
  call.context().data = Kept{Callback(cls), Callback(context), std::move(is_tensor_argument), saved.size()};
  call.context().set_materialize_grads(PyObject_IsTrue(attribute(context.ptr(), "_materializes").get()) == 1);
  call.context().save(std::move(saved));
  call.context().mark_non_differentiable(std::move(constants));
  call.context().mark_dirty(std::move(written));
  for (const char* name : {"_to_save", "_non_differentiable", "_dirty"}) {
    set(context.ptr(), name, Ref(PyTuple_New(0)).get());
  }
  outputs = call.finish(std::move(outputs), run_backward);
  // Tensors written in place are returned as the same Python object.
  const auto object_of = [&](Tensor& output) -> nb::object {
    for (const nb::handle argument : arguments) {
      if (is_tensor(argument.ptr()) && tensor_of(argument.ptr()).impl() == output.impl()) return nb::borrow(argument);
    }
    return nb::steal(wrap(std::move(output)));
  };
  if (single) return object_of(outputs[0]);
  nb::list all;
  for (Tensor& output : outputs) all.append(object_of(output));
  return nb::tuple(all);
}

}  // namespace

void bind_hand_over(nb::module_& m);  // hand_over.cpp

void bind_function(nb::module_& m) {
  m.def("_apply_function", apply);
  bind_hand_over(m);
}

}  // namespace weft::python
