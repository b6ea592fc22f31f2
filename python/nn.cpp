// The C++ modules for Python. weft/nn/module.py gives them attributes and PyTorch's names, weft/nn/layers.py the
// layers.
#include "../nn/attention/sharded_heads-inl.hpp"
#include "../nn/checkpointing.hpp"
#include "../nn/freeze.hpp"
#include "../nn/layers.hpp"
#include "../nn/lora/low_rank-inl.hpp"
#include "../nn/module_state-inl.hpp"
#include "../nn/summary.hpp"
#include "../nn/transformer.hpp"
#include "../ops/detail/write.hpp"

#include "module_object.hpp"

namespace weft::python {

namespace {

using nn::OpenModule;

// Of weft.nn; they live as long as the interpreter.
struct Classes {
  PyTypeObject *parameter, *buffer;
  PyObject* module;
};
Classes classes = {};

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<ModuleObject>(self)->faces.ptr());
  return 0;
}

int clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<ModuleObject>(self)->faces.clear();
  return 0;
}

PyType_Slot slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

/// Adopts a new reference; null means that an error is set.
nb::object owned(PyObject* object) { return nb::steal(Ref(object).release()); }

// ---- members ----

nb::object face_of(const Tensor& tensor, PyTypeObject* type) { return owned(wrap_as(type, tensor)); }

/// The current value of a parametrized tensor, or its shard.
nb::object computed(const ModuleObject& self, std::string_view name) {
  const Location where = here();
  Tensor value;
  {
    const WithoutGil others;
    value = nn::detail::current_tensor(self.module, name, where);
  }
  return owned(wrap(value));
}

/// The member of that name; None where there is none.
nb::object find(ModuleObject& self, nb::str name) {
  if (PyObject* face = PyDict_GetItemWithError(self.faces.ptr(), name.ptr())) return nb::borrow(face);
  if (classes.module == nullptr) throw_error(PyExc_RuntimeError, "weft.nn is not imported");
  const std::string_view text = name.c_str();
  nb::object face;
  if (const Tensor p = self.module.parameter(text); p.defined()) face = face_of(p, classes.parameter);
  else if (const Tensor b = self.module.buffer(text); b.defined()) face = face_of(b, classes.buffer);
  else if (nn::is_parametrized(self.module, text)) return computed(self, text);
  else if (const auto child = self.module.child(text)) face = nb::handle(classes.module)(Layer{*child, {}});
  else return nb::none();
  self.set_face(name, face);
  return face;
}

void set_parameter(ModuleObject& self, nb::str name, nb::handle parameter) {
  self.module.set_parameter(name.c_str(), checked_tensor(parameter), here());
  self.set_face(name, parameter);
}

void set_buffer(ModuleObject& self, nb::str name, nb::handle buffer, bool saved) {
  self.module.set_buffer(name.c_str(), checked_tensor(buffer), saved, here());
  self.set_face(name, buffer);
}

void set_module(ModuleObject& self, nb::str name, nb::handle module) {
  self.module.set_module(name.c_str(), state_of(module).module, here());
  self.set_face(name, module);
}

bool remove_member(ModuleObject& self, nb::str name) {
  const bool found = self.module.remove(name.c_str());
  if (PyDict_Contains(self.faces.ptr(), name.ptr()) == 1) nb::del(self.faces[name]);
  return found;
}

/// "parameter", "buffer", "parametrized" or "module"; null for another name.
const char* kind_of(const ModuleObject& self, const std::string& name) {
  if (self.module.parameter(name).defined()) return "parameter";
  if (self.module.buffer(name).defined()) return "buffer";
  if (nn::is_parametrized(self.module, name)) return "parametrized";
  return self.module.child(name) ? "module" : nullptr;
}

nb::dict faces_of(ModuleObject& self, const std::vector<std::string>& names) {
  nb::dict faces;
  for (const std::string& name : names) {
    const nb::str text(name.c_str());
    faces[text] = find(self, text);
  }
  return faces;
}

nb::dict modules_of(ModuleObject& self) {
  std::vector<std::string> names;
  for (const auto& [name, child] : self.module.named_children()) names.push_back(name);
  return faces_of(self, names);
}

void move_to(ModuleObject& self, nb::handle device, nb::handle dtype) {
  const Location where = here();
  const std::optional<Device> place = device.is_none() ? std::nullopt : to_device(device.ptr());
  if (!place && !device.is_none()) throw_type_error("to(): expected a device, got " + type_name(device.ptr()));
  const std::optional<DType> type = dtype.is_none() ? std::nullopt : to_dtype(dtype.ptr());
  if (!type && !dtype.is_none()) throw_type_error("to(): expected a dtype, got " + type_name(dtype.ptr()));
  const WithoutGil others;
  if (place) self.module.to(*place, where);
  if (type) self.module.to(*type, where);
}

/// Forgets the Python objects of parameters and buffers that were replaced.
void forget_replaced(ModuleObject& self) {
  const auto forget = [&](const std::vector<std::string>& names, auto&& now) {
    for (const std::string& name : names) {
      const nb::str text(name.c_str());
      PyObject* face = PyDict_GetItemWithError(self.faces.ptr(), text.ptr());
      if (face != nullptr && tensor_of(face).impl() != now(name).impl()) nb::del(self.faces[text]);
    }
  };
  forget(self.module.parameter_names(), [&](const std::string& name) { return self.module.parameter(name); });
  forget(self.module.buffer_names(), [&](const std::string& name) { return self.module.buffer(name); });
  std::vector<nb::object> gone;
  for (const auto& [name, face] : self.faces) {
    if (kind_of(self, nb::cast<std::string>(name)) == nullptr) gone.push_back(nb::borrow(name));
  }
  for (const nb::object& name : gone) nb::del(self.faces[name]);
}

// ---- calls and hooks ----

/// Python runs the forward hooks of a call that it makes itself, with the arguments that it has.
thread_local bool called_from_python = false;
struct FromPython {
  FromPython() : before(std::exchange(called_from_python, true)) {}
  ~FromPython() { called_from_python = before; }
  FromPython(const FromPython&) = delete;
  bool before;
};

/// Calls a method of a hook's module; does nothing if the module is gone. The hooks are stored in Python, where the
/// cycle collector can traverse them.
template <class... Arguments>
std::optional<std::vector<Tensor>> call_method(const Callback& module, const char* name,
                                               const Arguments&... arguments) {
  const Ref object(PyObject_CallNoArgs(module.get()));
  if (object.get() == Py_None) return {};
  const Ref method(attribute(object.get(), name));
  PyObject* result = PyObject_CallFunctionObjArgs(method.get(), arguments..., nullptr);
  if (result == nullptr) carry_error();
  return tensors_from(Ref(result).get());
}

HookHandle connect_forward(ModuleObject& self, nb::handle module, bool before) {
  const auto hook = [object = weak_reference(module),
                     before](const nn::ForwardEvent& event) -> std::optional<std::vector<Tensor>> {
    if (called_from_python) return {};
    const WithGil gil;
    const Ref inputs = tuple_of(event.inputs);
    if (before) return call_method(object, "_run_forward_pre_hooks", inputs.get());
    const Ref outputs = event.outputs.size() == 1 ? Ref(wrap(event.outputs[0])) : tuple_of(event.outputs);
    return call_method(object, "_run_forward_hooks", inputs.get(), outputs.get());
  };
  return before ? self.module.register_forward_pre_hook(hook, here()) : self.module.register_forward_hook(hook, here());
}

HookHandle connect_backward(ModuleObject& self, nb::handle module, bool before) {
  if (!before) {
    return self.module.register_backward_hook(
        [object = weak_reference(module)](const GradEvent& event) {
          const WithGil gil;
          const Ref grad_input = tuple_of(event.outgoing), grad_output = tuple_of(event.incoming);
          return call_method(object, "_run_backward_hooks", grad_input.get(), grad_output.get());
        },
        here());
  }
  return self.module.register_backward_pre_hook(
      [object = weak_reference(module)](const GradEvent& event) {
        const WithGil gil;
        const auto output = std::ranges::find(event.incoming, event.grad.impl(), &Tensor::impl);
        const Ref number(PyLong_FromSsize_t(output - event.incoming.begin())), all = tuple_of(event.incoming);
        return call_method(object, "_run_backward_pre_hooks", all.get(), number.get());
      },
      here());
}

/// One call of a module with backward hooks: `arguments` go to forward in the place of those given.
struct WatchedCall {
  nn::Module module;
  std::unique_ptr<nn::detail::HookedCall> call;
  nb::tuple arguments;
};

WatchedCall watch_call(ModuleObject& self, nb::tuple arguments) {
  std::vector<Tensor> inputs;
  for (nb::handle argument : arguments) {
    inputs.push_back(is_tensor(argument.ptr()) ? tensor_of(argument.ptr()) : Tensor());
  }
  if (self.module.hooks() == nullptr) throw_error(PyExc_RuntimeError, "the module has no hooks");
  const FromPython from_python;
  // A hook of C++'s may wait for other ranks, which are threads.
  auto call = without_gil([&](Location where) {
    return std::make_unique<nn::detail::HookedCall>(self.module, *self.module.hooks(), inputs, where);
  });
  nb::list passed;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (call->input(i).impl() == inputs[i].impl()) passed.append(arguments[i]);
    else passed.append(owned(wrap(call->input(i))));
  }
  return {self.module, std::move(call), nb::tuple(passed)};
}

/// Tells C++'s hooks that forward threw, or a hook of Python's.
void fail_call(WatchedCall& self) {
  const FromPython from_python;
  without_gil([&](Location) { self.call.reset(); });
}

bool is_list(nb::handle x) { return PyTuple_Check(x.ptr()) || PyList_Check(x.ptr()); }

/// The tensors in the result of forward, at any depth of tuples, lists and dictionaries; undefined for other values.
void add_outputs(nb::handle output, std::vector<Tensor>& to) {
  if (is_list(output)) {
    for (nb::handle item : nb::borrow<nb::sequence>(output)) add_outputs(item, to);
  } else if (PyDict_Check(output.ptr())) {
    for (const auto& [key, item] : nb::borrow<nb::dict>(output)) add_outputs(item, to);
  } else {
    to.push_back(is_tensor(output.ptr()) ? tensor_of(output.ptr()) : Tensor());
  }
}

/// A tuple or list of the same type. A named tuple takes its items one by one.
nb::object list_like(nb::handle output, const nb::list& items) {
  const nb::handle type = output.type();
  if (nb::hasattr(type, "_make")) return type.attr("_make")(items);
  return type(items);
}

/// `output` with the tensors of `now` in the places of those of `before`; itself where they are the same.
nb::object with_outputs(nb::handle output, std::span<const Tensor> before, std::span<const Tensor> now, size_t& next) {
  bool changed = false;
  const auto replaced = [&](nb::handle item) {
    nb::object out = with_outputs(item, before, now, next);
    changed |= !out.is(item);
    return out;
  };
  if (is_list(output)) {
    nb::list items;
    for (nb::handle item : nb::borrow<nb::sequence>(output)) items.append(replaced(item));
    return changed ? list_like(output, items) : nb::borrow(output);
  }
  if (PyDict_Check(output.ptr())) {
    nb::object copy = output.attr("copy")();
    for (const auto& [key, item] : nb::borrow<nb::dict>(output)) copy[key] = replaced(item);
    return changed ? copy : nb::borrow(output);
  }
  const size_t i = next++;
  return now[i].impl() == before[i].impl() ? nb::borrow(output) : owned(wrap(now[i]));
}

/// The result of forward, with the tensors that C++ hooks returned.
nb::object finish_call(WatchedCall& self, nb::handle output) {
  std::vector<Tensor> outputs;
  add_outputs(output, outputs);
  std::vector<Tensor*> places;
  for (Tensor& t : outputs) places.push_back(&t);
  const std::vector<Tensor> before = outputs;
  const FromPython from_python;
  without_gil([&](Location) { self.call->finish(places); });
  size_t next = 0;
  return with_outputs(output, before, outputs, next);
}

/// module.forward(*arguments, **keywords), with the hooks of a module that has any.
nb::object call_module(ModuleObject& self, nb::handle module, nb::tuple arguments, nb::dict keywords) {
  const nn::detail::ForwardScope scope(self.module, here());
  const bool plain = self.module.hooks() == nullptr || self.callee;
  const Ref method = attribute(module.ptr(), plain ? "forward" : "_call_with_hooks");
  PyObject* result = plain ? PyObject_Call(method.get(), arguments.ptr(), keywords.ptr())
                           : PyObject_CallFunctionObjArgs(method.get(), arguments.ptr(), keywords.ptr(), nullptr);
  return owned(result);
}

Tensor call_layer(ModuleObject& self, const Tensor& x) {
  if (!self.callee) {
    throw_type_error("'" + self.module.class_name() +
                     "' is part of a module that computes in C++; it is called by that alone");
  }
  const Location where = here();
  const WithoutGil others;
  return (*self.callee)({x, where});
}

/// Whether the layer computes through its weight forms, not only with a parametrized weight.
bool has_weight_forms(const ModuleObject& self) {
  const nn::detail::WeightForms* const forms = nn::detail::forms_of(self.module);
  return forms != nullptr && (forms->format != nullptr || forms->adapter.held != nullptr || forms->sharding != nullptr);
}

/// Calls compute(where) of a layer with weight forms, without the GIL.
template <class Compute>
Tensor compute_with_forms(const ModuleObject& self, Compute&& compute) {
  if (!has_weight_forms(self)) throw_error(PyExc_RuntimeError, "the layer has no adapter any more");
  const Location where = here();
  const WithoutGil others;
  return compute(where);
}

// ---- layers ----

using MaybeTensor = std::optional<Tensor>;

std::pair<Tensor, MaybeTensor> attend(const Tensor& query, const Tensor& key, const Tensor& value, int64_t heads,
                                      MaybeTensor in_proj_weight, MaybeTensor in_proj_bias, MaybeTensor bias_k,
                                      MaybeTensor bias_v, bool add_zero_attn, double dropout_p,
                                      const Tensor& out_proj_weight, MaybeTensor out_proj_bias,
                                      MaybeTensor key_padding_mask, bool need_weights, MaybeTensor attn_mask,
                                      MaybeTensor q_proj_weight, MaybeTensor k_proj_weight, MaybeTensor v_proj_weight,
                                      bool average_attn_weights, bool is_causal, const ModuleObject* layer,
                                      const ModuleObject* out_proj) {
  const auto given = [](const MaybeTensor& t) { return t.value_or(Tensor()); };
  const HeadsParameters parameters{.in_proj_weight = given(in_proj_weight),
                                   .q_proj_weight = given(q_proj_weight),
                                   .k_proj_weight = given(k_proj_weight),
                                   .v_proj_weight = given(v_proj_weight),
                                   .in_proj_bias = given(in_proj_bias),
                                   .bias_k = given(bias_k),
                                   .bias_v = given(bias_v),
                                   .out_proj_weight = out_proj_weight,
                                   .out_proj_bias = given(out_proj_bias),
                                   .add_zero_attn = add_zero_attn};
  const HeadsCall call{given(key_padding_mask), need_weights, given(attn_mask), average_attn_weights, is_causal};
  const Location where = here();
  const WithoutGil others;
  const nn::detail::ShardedLayer* const parts = layer != nullptr ? nn::detail::sharding_of(layer->module) : nullptr;
  HeadsResult out;
  if (parts == nullptr) {
    out = multi_head_attention_forward(query, key, value, heads, parameters, call, dropout_p, where);
  } else {
    const CallScope scope("MultiheadAttention", where);
    out = nn::detail::sharded_heads(*parts, *nn::detail::sharding_of(out_proj->module), query, key, value, heads,
                                    parameters, call, dropout_p);
  }
  return {out.output, out.weights.defined() ? MaybeTensor(out.weights) : std::nullopt};
}

/// The C++ type of a layer, for adapters and tensor parallelism; also set on Python copies.
const std::pair<const char*, TypeId> layer_types[] = {{"Linear", TypeId::of<nn::Linear>()},
                                                      {"Embedding", TypeId::of<nn::Embedding>()},
                                                      {"MultiheadAttention", TypeId::of<nn::MultiheadAttention>()}};
const char* layer_type(const ModuleObject& self) {
  for (const auto& [name, type] : layer_types) {
    if (nn::detail::is_of(self.module, type)) return name;
  }
  return "";
}
void set_layer_type(ModuleObject& self, const std::string& name) {
  for (const auto& [known, type] : layer_types) {
    if (name == known) nn::detail::StateAccess::state(self.module).type = type;
  }
}

void bind_sequence_layers(nb::module_& m) {
  m.def("_multi_head_attention", attend, nb::arg("query"), nb::arg("key"), nb::arg("value"), nb::arg("num_heads"),
        nb::arg("in_proj_weight").none(), nb::arg("in_proj_bias").none(), nb::arg("bias_k").none(),
        nb::arg("bias_v").none(), nb::arg("add_zero_attn"), nb::arg("dropout_p"), nb::arg("out_proj_weight"),
        nb::arg("out_proj_bias").none(), nb::arg("key_padding_mask").none(), nb::arg("need_weights"),
        nb::arg("attn_mask").none(), nb::arg("q_proj_weight").none(), nb::arg("k_proj_weight").none(),
        nb::arg("v_proj_weight").none(), nb::arg("average_attn_weights"), nb::arg("is_causal"),
        nb::arg("layer") = nb::none(), nb::arg("out_proj") = nb::none());
}

void bind_layers(nb::module_& m) {
  nb::class_<Layer>(m, "_Layer");
  bind_described(m);
  bind_moe(m);
  bind_attention(m);
  bind_multi_transformer(m);
  bind_causal_lm(m);
}

/// Kernels that its thread calls are counted until `finish`.
struct SummaryRun {
  std::unique_ptr<nn::SummaryRecorder> recorder;
  nn::Summary summary;

  void leave(size_t layer, nb::handle outputs) {
    std::vector<Tensor> tensors;
    for (nb::handle t : outputs) tensors.push_back(checked_tensor(t));
    if (recorder) recorder->leave(layer, tensors);
  }
  void finish() {
    if (!recorder) return;
    summary = recorder->summary();
    recorder.reset();
  }
};

void bind_summary(nb::module_& m) {
  nb::class_<SummaryRun>(m, "_SummaryRun")
      .def("__init__",
           [](SummaryRun* self, const ModuleObject& module) {
             new (self) SummaryRun{std::make_unique<nn::SummaryRecorder>(module.module), {}};
           })
      .def("enter",
           [](SummaryRun& self, size_t layer) {
             if (self.recorder) self.recorder->enter(layer);
           })
      .def("leave", &SummaryRun::leave)
      .def("finish", &SummaryRun::finish)
      .def("text", [](const SummaryRun& self, int width) { return self.summary.text(width); })
      .def("json", [](const SummaryRun& self) { return self.summary.json(); });
}

void set_classes(nb::type_object parameter, nb::type_object buffer, nb::type_object module) {
  if (classes.module != nullptr) throw_error(PyExc_RuntimeError, "the classes of modules are set once");
  for (const nb::handle type : {parameter, buffer}) {
    if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.ptr()), tensor_type)) {
      throw_type_error("parameters and buffers are subclasses of Tensor");
    }
  }
  const auto kept = [](nb::handle object) { return reinterpret_cast<PyTypeObject*>(object.inc_ref().ptr()); };
  classes = {kept(parameter), kept(buffer), module.inc_ref().ptr()};
}

}  // namespace

nn::Module& module_of(nb::handle state) { return nb::cast<ModuleObject&>(state).module; }

void bind_modules(nb::module_& m) {
  bind_layers(m);
  bind_sequence_layers(m);
  bind_summary(m);
  bind_parametrizations(m);
  m.def("_set_module_classes", set_classes);
  m.def(
      "_check_written",
      [](const Tensor& target) {
        const CallScope call("copy_", here());
        check_target(target);
      },
      "An error where the tensor cannot be written in place.");
  m.def("_freeze", [](const ModuleObject& self, const std::string& pattern, bool on) {
    return on ? nn::freeze(self.module, pattern, here()) : nn::unfreeze(self.module, pattern, here());
  });
  m.def(
      "_own",
      [](nb::handle tensor) {
        const Tensor owned = OpenModule::own(checked_tensor(tensor), here());
        replace_tensor(tensor.ptr(), owned);
      },
      "Gives the object a tensor that modules move in place; for one that nothing else holds yet.");
  m.def("_module_text", [](std::string name, std::string extra,
                           std::vector<std::pair<std::string, std::string>> children, bool is_list) {
    return nn::ModuleText{std::move(name), std::move(extra), std::move(children), is_list}.text();
  });
  nb::class_<WatchedCall>(m, "_WatchedCall")
      .def_ro("arguments", &WatchedCall::arguments)
      .def("finish", finish_call, nb::arg("output").none())
      .def("fail", fail_call);
  nb::class_<ModuleObject>(m, "_Module", nb::type_slots(slots))
      .def("__init__",
           [](ModuleObject* self, const std::string& name) {
             new (self) ModuleObject{OpenModule(name), {}, {}, {}};
           })
      .def("__init__",
           [](ModuleObject* self, const std::string& name, const Layer& layer) {
             new (self) ModuleObject{OpenModule(layer.module, name.empty() ? layer.module.class_name() : name),
                                     layer.callee,
                                     layer.parametrization,
                                     {}};
           })
      .def("find", find)
      .def("kind_of", kind_of)
      .def("set_parameter", set_parameter)
      .def("set_buffer", set_buffer)
      .def("set_module", set_module)
      .def("remove", remove_member)
      .def("parameters", [](ModuleObject& self) { return faces_of(self, self.module.parameter_names()); })
      .def("buffers", [](ModuleObject& self) { return faces_of(self, self.module.buffer_names()); })
      .def("modules", modules_of)
      .def("is_saved", [](const ModuleObject& self, const std::string& name) { return self.module.is_saved(name); })
      .def_prop_ro("class_name", [](const ModuleObject& self) { return self.module.class_name(); })
      .def_prop_rw("layer_type", layer_type, set_layer_type)
      .def_prop_ro("computes", [](const ModuleObject& self) { return self.callee.has_value(); })
      .def_prop_rw(
          "training", [](const ModuleObject& self) { return self.module.is_training(); },
          [](ModuleObject& self, bool on) { self.module.set_training(on); })
      .def_prop_rw(
          "extra_repr", [](const ModuleObject& self) { return self.module.extra_repr(); },
          [](ModuleObject& self, std::string text) { self.module.set_extra_repr(std::move(text)); })
      .def_prop_ro("has_weight_forms", has_weight_forms)
      .def_prop_ro("is_checkpointed", [](const ModuleObject& self) { return nn::is_checkpointed(self.module); })
      .def("unmerged_weight",
           [](const ModuleObject& self) -> std::optional<Tensor> {
             const nn::detail::LowRank* adapter = nn::detail::adapter_of(self.module);
             return adapter != nullptr && adapter->replaces_weight() ? std::optional(adapter->unmerged())
                                                                     : std::nullopt;
           })
      .def("linear_with_forms",
           [](const ModuleObject& self, const Tensor& x) {
             return compute_with_forms(
                 self, [&](Location where) { return nn::detail::linear_with_forms(self.module, x, where); });
           })
      .def("embedding_with_forms",
           [](const ModuleObject& self, const Tensor& indices, int64_t padding) {
             return compute_with_forms(self, [&](Location where) {
               return nn::detail::embedding_with_forms(self.module, indices, padding, where);
             });
           })
      .def("set_dtype",
           [](ModuleObject& self, const std::string& name, nb::handle dtype) {
             const auto wanted = to_dtype(dtype.ptr());
             if (!wanted)
               throw_type_error("set_dtype(): argument 'dtype': expected a weft.dtype, got " + type_name(dtype.ptr()));
             self.module.set_dtype(name, *wanted, here());
           })
      .def("set_config",
           [](ModuleObject& self, const nb::dict& options) { self.module.set_config(config_from(options)); })
      .def("to", move_to, nb::arg("device").none(), nb::arg("dtype").none())
      .def("forget_replaced", forget_replaced)
      .def("zero_grad", [](ModuleObject& self) { self.module.zero_grad(); })
      .def("load_state_dict",
           [](ModuleObject& self, const nn::StateDict& values, bool strict) {
             nn::LoadReport report = self.module.load_state_dict(values, strict, here());
             return std::pair(std::move(report.missing), std::move(report.unexpected));
           })
      .def("connect_forward", connect_forward)
      .def("connect_backward", connect_backward)
      .def("watch_call", watch_call)
      .def("call", call_module)
      .def("call_layer", call_layer);
}

}  // namespace weft::python
