// Transforms of functions for Python; weft/func.py gives them torch.func's names.
#include "../func/func.hpp"

#include "caster.hpp"

namespace weft::python {

namespace {

/// A callable of tensors that returns a tuple of two lists: outputs and aux. weft/func.py takes care of structures.
func::Function function_of(nb::handle callable) {
  return [callback = Callback(callable)](std::span<const Tensor> inputs) -> func::Outputs {
    const WithGil gil;
    try {
      const Ref arguments(tuple_of(inputs));
      PyObject* const made = PyObject_CallObject(callback.get(), arguments.get());
      if (made == nullptr) carry_error();
      const nb::tuple both = nb::steal<nb::tuple>(made);
      return {tensors_from(both[0].ptr()).value_or(std::vector<Tensor>()),
              tensors_from(both[1].ptr()).value_or(std::vector<Tensor>())};
    } catch (const PythonError&) {
      carry_error();
    }
  };
}

using Tensors = std::vector<Tensor>;

func::JacobianMode mode_named(const std::string& name) {
  if (name == "forward") return func::JacobianMode::forward;
  return name == "reverse" ? func::JacobianMode::reverse : func::JacobianMode::automatic;
}

func::Randomness randomness_named(const std::string& name) {
  if (name == "error") return func::Randomness::error;
  if (name == "different") return func::Randomness::different;
  if (name == "same") return func::Randomness::same;
  throw_error(PyExc_ValueError, "randomness: expected 'error', 'different' or 'same', got '" + name + "'");
}

}  // namespace

void bind_func(nb::module_& m) {
  nb::module_ own = m.def_submodule("_func");
  nb::class_<func::Vjp>(own, "Vjp")
      .def_ro("outputs", &func::Vjp::outputs)
      .def_ro("aux", &func::Vjp::aux)
      .def("__call__", [](const func::Vjp& self, const Tensors& cotangents) {
        return without_gil([&](Location where) { return self(cotangents, where); });
      });
  own.def("vjp", [](nb::handle f, const Tensors& inputs) {
    const func::Function function = function_of(f);
    return without_gil([&](Location where) { return func::vjp(function, inputs, {}, where); });
  });
  own.def("jvp", [](nb::handle f, const Tensors& inputs, const Tensors& tangents, bool strict) {
    const func::Function function = function_of(f);
    const func::Jvp made =
        without_gil([&](Location where) { return func::jvp(function, inputs, tangents, {.strict = strict}, where); });
    return nb::make_tuple(made.outputs, made.tangents, made.aux);
  });
  own.def("jacobian", [](nb::handle f, const Tensors& inputs, const std::string& mode) {
    const func::Function function = function_of(f);
    return without_gil(
        [&](Location where) { return func::jacobian(function, inputs, {.mode = mode_named(mode)}, where); });
  });
  own.def("hessian", [](nb::handle f, const Tensors& inputs) {
    const func::Function function = function_of(f);
    return without_gil([&](Location where) { return func::hessian(function, inputs, {}, where); });
  });
  own.def("hvp", [](nb::handle f, const Tensors& inputs, const Tensors& direction) {
    const func::Function function = function_of(f);
    const func::Hvp made =
        without_gil([&](Location where) { return func::hvp(function, inputs, direction, {}, where); });
    return nb::make_tuple(made.output, made.products);
  });
  own.def("grad_and_value", [](nb::handle f, const Tensors& inputs) {
    const func::Function function = function_of(f);
    std::vector<int> all;
    for (size_t i = 0; i < inputs.size(); ++i) all.push_back(static_cast<int>(i));
    const func::Outputs made =
        without_gil([&](Location where) { return func::grad_and_value(function, all, where)(inputs); });
    return nb::make_tuple(made.tensors, made.aux);
  });
  own.def("vmap", [](nb::handle f, const Tensors& inputs, const std::vector<std::optional<int>>& in_dims,
                     const std::vector<int>& out_dims, const std::string& randomness) {
    const func::Randomness draws = randomness_named(randomness);
    const func::Function function = function_of(f);
    return without_gil([&](Location where) {
      return func::vmap(function, {in_dims, out_dims, draws}, where)(inputs).tensors;
    });
  });
}

}  // namespace weft::python
