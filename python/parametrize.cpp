// Parametrized tensors for Python; weft/nn/utils/parametrize.py gives them PyTorch's shape.
#include "../nn/module_state-inl.hpp"
#include "../nn/parametrize/norms-inl.hpp"
#include "../nn/parametrize/orthogonal-inl.hpp"

#include "module_object.hpp"
#include "window.hpp"

namespace weft::python {

namespace {

Tensor checked_tensor(PyObject* object, const char* function) {
  if (!is_tensor(object)) throw_type_error(std::string(function) + "() of a parametrization gave " + type_name(object));
  return tensor_of(object);
}

/// The object that a weak reference leads to.
Ref object_of(const Callback& weak) {
  Ref object(PyObject_CallNoArgs(weak.get()));
  if (object.get() == Py_None) throw_error(PyExc_RuntimeError, "the Python module of a parametrization is gone");
  return object;
}

Ref called(const Ref& function, PyObject* arguments) {
  PyObject* result = PyObject_CallObject(function.get(), arguments);
  if (result == nullptr) carry_error();
  return Ref(result);
}

nn::Originals originals_from(PyObject* given) {
  if (is_tensor(given)) return tensor_of(given);
  if (!PyTuple_Check(given) && !PyList_Check(given)) checked_tensor(given, "right_inverse");
  std::vector<Tensor> several;
  for (const nb::handle item : nb::borrow<nb::sequence>(given)) {
    several.push_back(checked_tensor(item.ptr(), "right_inverse"));
  }
  return several;
}

/// A weft.nn.Module as a parametrization. Python holds the module, where the collector of cycles sees it.
nn::Parametrization parametrization_of(nb::handle module) {
  const ModuleObject& state = state_of(module);
  if (state.parametrization) return *state.parametrization;
  const Callback weak = weak_reference(module);
  const auto forward = [weak](std::span<const Tensor> originals, Location) {
    const WithGil gil;
    return checked_tensor(called(object_of(weak), tuple_of(originals).get()).get(), "forward");
  };
  if (!has_attribute(module.ptr(), "right_inverse")) return {state.module, forward};
  const auto inverse = [weak](const Tensor& value) {
    const WithGil gil;
    const Ref function = attribute(object_of(weak).get(), "right_inverse");
    return originals_from(called(function, tuple_of({&value, 1}).get()).get());
  };
  return {state.module, forward, inverse};
}

void forget(ModuleObject& self, const std::string& name) {
  const nb::str text(name.c_str());
  if (PyDict_Contains(self.faces.ptr(), text.ptr()) == 1) nb::del(self.faces[text]);
}

void register_on(ModuleObject& self, const std::string& name, nb::handle parametrization, bool unsafe) {
  nn::register_parametrization(self.module, name, parametrization_of(parametrization), unsafe, here());
  forget(self, name);
}

void remove_from(ModuleObject& self, const std::string& name, bool leave_parametrized) {
  nn::remove_parametrizations(self.module, name, leave_parametrized, here());
  if (!nn::is_parametrized(self.module)) forget(self, nn::detail::parametrizations);
}

/// (name, is a parameter, is saved, unsafe) of each parametrized tensor, for `adopt`.
nb::list described(const ModuleObject& self) {
  nb::list out;
  for (const auto& p : nn::detail::parametrized_of(self.module)) {
    out.append(nb::make_tuple(p.name, p.is_parameter, p.saved, p.unsafe));
  }
  return out;
}

void adopt(ModuleObject& self, const std::string& name, bool is_parameter, bool saved, bool unsafe, nb::handle list,
           nb::list steps) {
  nn::detail::ParametrizedTensor p{.name = name,
                                   .member = {},
                                   .list = state_of(list).module,
                                   .steps = {},
                                   .is_parameter = is_parameter,
                                   .saved = saved,
                                   .unsafe = unsafe};
  for (const nb::handle step : steps) p.steps.push_back(parametrization_of(step));
  const Tensor first = p.originals().at(0);
  if (p.numbered()) p.member = nn::Buffer(first.detach().clone());
  else static_cast<Tensor&>(p.member) = first;
  nn::detail::adopt_parametrized(self.module, std::move(p));
}

struct CacheScope {
  std::unique_ptr<nn::CachedParametrizationsGuard> guard;
};

template <class M>
Layer as_layer(const M& module) {
  return {module, {}, nn::Parametrization(module)};
}

}  // namespace

void bind_parametrizations(nb::module_& m) {
  m.def(
      "_weight_norm", [](std::optional<int> dim) { return as_layer(nn::detail::WeightNorm(dim)); },
      nb::arg("dim").none());
  m.def("_spectral_norm", [](const Tensor& weight, int64_t n_power_iterations, double eps, int dim) {
    return as_layer(nn::detail::SpectralNorm(weight, {n_power_iterations, eps, dim}, here()));
  });
  m.def(
      "_orthogonal",
      [](const Tensor& weight, std::optional<int> map, bool has_base) {
        std::optional<nn::OrthogonalMap> given;
        if (map) given = static_cast<nn::OrthogonalMap>(*map);
        const nn::OrthogonalMap chosen = nn::detail::map_for(weight, given, here());
        return nn::detail::has_right_inverse(chosen, has_base)
                   ? as_layer(nn::detail::Orthogonal(weight, chosen, has_base))
                   : as_layer(nn::detail::MappedOrthogonal(weight, chosen, has_base));
      },
      nb::arg("weight"), nb::arg("map").none(), nb::arg("has_base"));
  m.def("_register_parametrization", [](nb::handle module, const std::string& name, nb::handle step, bool unsafe) {
    register_on(state_of(module), name, step, unsafe);
  });
  m.def("_remove_parametrizations", [](nb::handle module, const std::string& name, bool leave_parametrized) {
    remove_from(state_of(module), name, leave_parametrized);
  });
  m.def("_is_parametrized",
        [](nb::handle module, const std::string& name) { return nn::is_parametrized(state_of(module).module, name); });
  m.def("_set_parametrized", [](nb::handle module, const std::string& name, const Tensor& value) {
    nn::set_parametrized_tensor(state_of(module).module, name, value, here());
  });
  m.def("_parametrized", [](nb::handle module) { return described(state_of(module)); });
  m.def("_adopt_parametrized",
        [](nb::handle module, const std::string& name, bool is_parameter, bool saved, bool unsafe, nb::handle list,
           nb::list steps) { adopt(state_of(module), name, is_parameter, saved, unsafe, list, steps); });
  m.def("_child_layer", [](nb::handle module, const std::string& name) {
    const auto child = state_of(module).module.child(name);
    if (!child) throw_error(PyExc_KeyError, name);
    return Layer{*child, {}};
  });
  m.def("_forget_face", [](nb::handle module, const std::string& name) { forget(state_of(module), name); });
  m.def("_run_parametrization", [](nb::handle module, const std::vector<Tensor>& originals) {
    const ModuleObject& state = state_of(module);
    if (!state.parametrization) throw_type_error("the module is no parametrization of C++'s");
    const Location where = here();
    const WithoutGil others;
    return (*state.parametrization)(originals, where);
  });
  m.def("_clone_parametrization", [](nb::handle module) {
    const ModuleObject& state = state_of(module);
    if (!state.parametrization) throw_type_error("the module is no parametrization of C++'s");
    const nn::Parametrization copy = nn::clone(*state.parametrization);
    return Layer{copy, {}, copy};
  });
  nb::class_<CacheScope>(m, "_ParametrizationsCache")
      .def(nb::init<>())
      .def("enter", [](CacheScope& self) { self.guard = std::make_unique<nn::CachedParametrizationsGuard>(); })
      .def("leave", [](CacheScope& self) { self.guard.reset(); });
}

}  // namespace weft::python
