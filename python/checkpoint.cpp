// Checkpoints of Python functions; weft/utils/checkpoint.py gives them PyTorch's names.
#include "../autograd/mode.hpp"
#include "../hooks/checkpoint.hpp"

#include "caster.hpp"

namespace weft::python {

namespace {

PyObject* call_with(const Callback& function, std::span<const Tensor> inputs) {
  const Ref arguments(PyTuple_New(static_cast<Py_ssize_t>(inputs.size())));
  for (size_t i = 0; i < inputs.size(); ++i) {
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), Ref(wrap(inputs[i])).release());
  }
  return PyObject_Call(function.get(), arguments.get(), nullptr);
}

nb::object checkpoint(nb::handle callable, const std::vector<Tensor>& inputs) {
  const Callback function(callable);
  const auto first = [&] { return nb::steal(Ref(call_with(function, inputs)).release()); };
  if (!grad_mode().enabled) return first();
  const auto again = [function](std::span<const Tensor> kept) {
    const WithGil gil;
    PyObject* result = call_with(function, kept);
    if (result == nullptr) carry_error();
    Py_DECREF(result);
  };
  weft::detail::CheckpointCall call(inputs, again, here());
  const auto scope = call.hooks();
  return first();
}

}  // namespace

void bind_checkpoint(nb::module_& m) {
  m.def("_checkpoint", checkpoint, nb::arg("function"), nb::arg("inputs"));
  m.def("_recomputing", recomputing);
}

}  // namespace weft::python
