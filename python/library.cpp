// Ops that Python registers, and libraries of ops that it loads: weft/library.py.
#include <algorithm>

#include "../ops/check_op.hpp"
#include "../ops/detail/signature.hpp"
#include "../ops/library.hpp"

#include "caster.hpp"
#include "trampoline.hpp"

namespace weft::python {

namespace {

using SharedSignature = std::shared_ptr<const Signature>;

Ref arguments_of(std::span<const Value> values) {
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Ref(from_value(Value(values[i]))).release());
  }
  return tuple;
}

// Calls a body with keyword-only arguments as keywords.
PyObject* call_body(PyObject* function, std::span<const Value> values, const Signature& signature) {
  const auto first = std::ranges::find(signature.arguments, true, &Argument::keyword_only);
  const auto positional = static_cast<size_t>(first - signature.arguments.begin());
  const Ref arguments = arguments_of(values.first(positional));
  if (positional == values.size()) return PyObject_CallObject(function, arguments.get());
  const Ref keywords(PyDict_New());
  for (size_t i = positional; i < values.size(); ++i) {
    const Ref value(from_value(Value(values[i])));
    if (PyDict_SetItemString(keywords.get(), signature.arguments[i].name.c_str(), value.get()) < 0) throw PythonError();
  }
  return PyObject_Call(function, arguments.get(), keywords.get());
}

// The result of a body: nothing, one or several tensors, or another boxed value.
Value returned_value(PyObject* object) {
  Value value;
  if (object == Py_None) return value;
  if (!to_value(object, value)) throw_type_error("an op cannot return a " + type_name(object));
  return value;
}

detail::OpBody body_of(nb::handle function, const SharedSignature& signature) {
  const auto run = [callback = Callback(function), signature](std::span<const Value> values) -> Value {
    const WithGil gil;
    try {
      PyObject* returned = call_body(callback.get(), values, *signature);
      if (returned == nullptr) carry_error();
      return returned_value(Ref(returned).get());
    } catch (const PythonError&) {
      carry_error();
    }
  };
  return {run, {}, true};
}

// The context of a Python backward; valid while the call runs.
struct GradientContext {
  const OpGradient* gradient = nullptr;
  const Signature* signature = nullptr;

  const OpGradient& get() const {
    if (gradient == nullptr) throw_error(PyExc_RuntimeError, "the context of a backward is gone once it has returned");
    return *gradient;
  }
  nb::object argument(const std::string& name) const {
    const Argument* const found = signature->find(name);
    if (found == nullptr) throw_error(PyExc_KeyError, "the op has no argument '" + name + "'");
    using Kind = ArgumentType::Kind;
    if (found->type.kind == Kind::tensors) return nb::steal(tuple_of(get().inputs(name)).release());
    const Value& value = get().attribute_value(name);
    if (!std::holds_alternative<std::monostate>(value)) return nb::steal(from_value(Value(value)));
    if (found->type.kind == Kind::tensor || found->type.kind == Kind::operand)
      return nb::steal(wrap(get().input(name)));
    return nb::none();
  }
};

// The schema of the present op of this name if `schema` is empty.
SharedSignature signature_of(const std::string& name, const std::string& schema) {
  if (schema.empty()) {
    const OpRecord* const record = find_record(name.c_str());
    if (record == nullptr) throw_error(PyExc_ValueError, "there is no op " + name);
    return std::make_shared<const Signature>(record->signature());
  }
  std::vector<ArgumentType> types;
  for (const auto& type : annotations_in(schema)) {
    types.push_back(type.value_or(ArgumentType{ArgumentType::Kind::tensor}));
  }
  return std::make_shared<const Signature>(parse_schema(schema, types));
}

OpBackward backward_of(nb::handle function, const SharedSignature& signature) {
  return [callback = Callback(function), signature](const OpGradient& g) -> std::vector<Tensor> {
    const WithGil gil;
    try {
      const nb::object context = nb::cast(GradientContext{&g, signature.get()});
      std::vector<Ref> items;
      items.push_back(Ref::share(context.ptr()));
      const size_t results = std::max<size_t>(1, signature->results.size());
      for (size_t i = 0; i < results; ++i) items.emplace_back(wrap(g.gradient(i)));
      const Ref arguments(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
      for (size_t i = 0; i < items.size(); ++i) {
        PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), items[i].release());
      }
      PyObject* returned = PyObject_CallObject(callback.get(), arguments.get());
      nb::cast<GradientContext&>(context).gradient = nullptr;
      if (returned == nullptr) carry_error();
      const Ref result(returned);
      if (result.get() == Py_None) return {Tensor()};
      return *tensors_from(result.get());
    } catch (const PythonError&) {
      carry_error();
    }
  };
}

DTypes dtypes_of(nb::handle list) {
  if (list.is_none()) return all_dtypes;
  DTypes dtypes = {};
  for (const nb::handle item : list) {
    const auto dtype = to_dtype(item.ptr());
    if (!dtype) throw_type_error("dtypes: expected dtypes, got " + type_name(item.ptr()));
    dtypes = dtypes | *dtype;
  }
  return dtypes;
}

OpPolicy policy_named(const std::string& name) {
  if (name == "error") return OpPolicy::error;
  if (name == "override") return OpPolicy::override;
  if (name == "keep") return OpPolicy::keep;
  throw_error(PyExc_ValueError, "policy: expected 'error', 'override' or 'keep', got '" + name + "'");
}

DeviceType kind_named(nb::handle device) {
  const auto found = to_device(device.ptr());
  if (!found) throw_type_error("device: expected the name of a device, got " + type_name(device.ptr()));
  return found->type;
}

std::vector<Values> samples_from(nb::handle function, SampleMaker& make) {
  std::vector<Values> all;
  const nb::object lists = function(nb::cast(&make, nb::rv_policy::reference));
  for (const nb::handle list : lists) {
    Values values;
    for (const nb::handle item : list) {
      values.emplace_back();
      if (!item.is_none() && !to_value(item.ptr(), values.back())) {
        throw_type_error("a sample must not have a " + type_name(item.ptr()));
      }
    }
    all.push_back(std::move(values));
  }
  return all;
}

/// The keywords of weft/library.py for an op.
OpBuilder builder_of(const std::string& name, const nb::dict& parts) {
  OpBuilder op(name, here());
  const auto given = [&](const char* key) { return parts.contains(key) && !parts[key].is_none(); };
  const auto text = [&](const char* key) { return nb::cast<std::string>(parts[key]); };
  const std::string schema = text("schema");
  op.schema(schema);
  const SharedSignature signature = signature_of(name, schema);
  if (given("composite")) op.set_composite(body_of(parts["composite"], signature));
  for (const nb::handle kernel : nb::list(parts["kernels"])) {
    op.add_kernel(kind_named(kernel[0]), dtypes_of(kernel[1]), body_of(kernel[2], signature));
  }
  if (given("fake")) op.set_infer_meta(body_of(parts["fake"], signature));
  if (given("backward")) op.set_backward(backward_of(parts["backward"], signature));
  for (const nb::handle pair : nb::list(parts["inplace"])) {
    op.inplace(nb::cast<std::string>(pair[0]), nb::cast<std::string>(pair[1]));
  }
  if (!nb::cast<bool>(parts["deterministic"])) op.nondeterministic();
  if (given("document")) op.document(text("document"));
  if (given("samples")) {
    op.samples([callback = Callback(parts["samples"])](SampleMaker& make) {
      const WithGil gil;
      try {
        return samples_from(callback.get(), make);
      } catch (const PythonError&) {
        carry_error();
      } catch (nb::python_error& e) {
        e.restore();
        carry_error();
      }
    });
  }
  if (nb::cast<bool>(parts["allow_schema_change"])) op.allow_schema_change();
  if (nb::cast<bool>(parts["inherit_backward"])) op.inherit_backward();
  return op;
}

/// Registration for Python: the object that owns it may be dropped anywhere.
struct PythonRegistration {
  Registration registration;
};

void bind_registrations(nb::module_& m) {
  nb::class_<PythonRegistration>(m, "OpRegistration")
      .def("replace", [](PythonRegistration& self, const std::string& name,
                         const nb::dict& parts) { self.registration.replace(builder_of(name, parts), here()); })
      .def("unregister", [](PythonRegistration& self) { self.registration.unregister(); })
      .def("keep", [](PythonRegistration& self) { self.registration.keep(); })
      .def_prop_ro("active", [](const PythonRegistration& self) { return self.registration.active(); });
  nb::class_<KernelRegistration>(m, "KernelRegistration", "One kernel that was registered.")
      .def("unregister", &KernelRegistration::unregister, "Removes it; the previous registration is valid again.")
      .def("keep", &KernelRegistration::keep);
  nb::class_<GradientContext>(m, "OpGradient", "The values that the backward of a registered op reads.")
      .def("__getitem__", &GradientContext::argument, "The argument of this name.")
      .def(
          "output", [](const GradientContext& self, size_t i) { return self.get().output(i); }, nb::arg("i") = 0)
      .def("wants", [](const GradientContext& self, const std::string& name) { return self.get().wants(name); });
  nb::class_<SampleMaker>(m, "SampleMaker", "Makes the inputs of sample calls.")
      .def(
          "tensor",
          [](SampleMaker& self, const std::vector<int64_t>& shape, double low, double high) {
            return self.tensor(Dims(shape), low, high);
          },
          nb::arg("shape"), nb::arg("low") = -2.0, nb::arg("high") = 2.0)
      .def("indices", [](SampleMaker& self, const std::vector<int64_t>& shape, int64_t bound) {
        return self.indices(Dims(shape), bound);
      });
}

}  // namespace

void bind_library(nb::module_& m) {
  bind_registrations(m);
  m.def("_register_op", [](const std::string& name, const nb::dict& parts, const std::string& policy) {
    return PythonRegistration{builder_of(name, parts).register_(policy_named(policy), here())};
  });
  m.def(
      "_register_kernel",
      [](const std::string& op, nb::handle device, nb::handle dtypes, nb::handle function, const std::string& policy) {
        return detail::register_kernel(OpName(op, here()), kind_named(device), dtypes_of(dtypes),
                                       body_of(function, signature_of(op, "")), policy_named(policy));
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
  m.def("_has_kernel", [](const std::string& op, nb::handle device, nb::handle dtype) {
    const auto type = to_dtype(dtype.ptr());
    if (!type) throw_type_error("has_kernel(): argument 'dtype': expected a dtype, got " + type_name(dtype.ptr()));
    return has_kernel(OpName(op, here()), kind_named(device), *type);
  });
  m.def("_find_op", [](const std::string& name) { return nb::steal(find_op_object(name.c_str())); });
  m.def("_all_ops", [] {
    std::vector<std::string> names;
    for (const OpRecord* record : all_ops()) names.emplace_back(record->name);
    return names;
  });
  m.def("_load_library", [](const std::string& path) {
    const Location where = here();
    const WithoutGil others;
    return load_library(path, where);
  });
  m.def("_unload_library", [](const std::string& path) {
    const Location where = here();
    const WithoutGil others;
    unload_library(path, where);
  });
  m.def("_check_op", [](const std::string& name) {
    const Location where = here();
    testing::CheckOpReport report;
    {
      const WithoutGil others;
      report = testing::check_op(name.c_str(), {}, where);
    }
    drop_noted();
    return std::pair(report.passed(), report.text());
  });
}

}  // namespace weft::python
