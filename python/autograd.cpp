// Gradients, hooks and modes for Python.
#include "../autograd/autocast.hpp"
#include "../autograd/engine.hpp"
#include "../autograd/hooks.hpp"
#include "../autograd/mode.hpp"
#include "../autograd/node.hpp"
#include "../ops/gradcheck.hpp"
#include "../hooks/config.hpp"
#include "../tensor/determinism.hpp"
#include "../tensor/index_checks.hpp"
#include "../tensor/tf32.hpp"

#include "caster.hpp"

namespace weft::python {

void bind_graph_nodes(nb::module_& m);  // graph_node.cpp

namespace {

using Tensors = std::vector<Tensor>;
using Seeds = std::optional<std::vector<std::optional<Tensor>>>;

Tensors seeds_of(const Seeds& given) {
  Tensors seeds;
  if (!given) return seeds;
  for (const auto& seed : *given) seeds.push_back(seed.value_or(Tensor()));
  return seeds;
}

Tensors python_grad(const Tensors& outputs, const Tensors& inputs, const Seeds& grad_outputs,
                    std::optional<bool> retain_graph, bool create_graph, bool allow_unused) {
  const Location where = here();
  const Tensors seeds = seeds_of(grad_outputs);
  Tensors result;
  {
    const WithoutGil others;
    result = grad(outputs, inputs, seeds,
                  {.retain_graph = retain_graph.value_or(create_graph),
                   .create_graph = create_graph,
                   .allow_unused = allow_unused},
                  where);
  }
  drop_noted();
  return result;
}

void python_backward(const Tensors& outputs, const Seeds& grad_outputs, std::optional<bool> retain_graph,
                     bool create_graph) {
  const Location where = here();
  const Tensors seeds = seeds_of(grad_outputs);
  {
    const WithoutGil others;
    backward(outputs, seeds, {.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph},
             where);
  }
  drop_noted();
}

// ---- hooks ----

// The result of a hook: a gradient, or undefined for None.
Tensor gradient_from(PyObject* returned) {
  if (returned == Py_None) return {};
  if (is_tensor(returned)) return tensor_of(returned);
  PyErr_Format(PyExc_TypeError, "result of a hook: expected a Tensor or None, got %s", Py_TYPE(returned)->tp_name);
  carry_error();
}

}  // namespace

std::optional<std::vector<Tensor>> tensors_from(PyObject* returned) {
  if (returned == Py_None) return {};
  std::vector<Tensor> gradients;
  if (is_tensor(returned)) return std::vector<Tensor>{tensor_of(returned)};
  const Ref items(PySequence_Tuple(returned));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    gradients.push_back(gradient_from(PyTuple_GET_ITEM(items.get(), i)));
  }
  return gradients;
}

/// The result of a callable in a hook, whose errors go through backward.
Ref call(const Callback& callback, PyObject* argument) {
  PyObject* returned = PyObject_CallOneArg(callback.get(), argument);
  if (returned == nullptr) carry_error();
  return Ref(returned);
}

namespace {

/// The argument of Python hooks on nodes; a separate object, because it may outlive the event.
struct Event {
  Tensor grad, tensor;
  std::string op, file;
  unsigned line;
  std::string phase;
  std::vector<Tensor> incoming, outgoing;
};

Event event_of(const GradEvent& e) {
  static constexpr const char* phases[] = {"gradient",   "accumulated",   "node_before",
                                           "node_after", "module_before", "module_after"};
  return {e.grad,
          e.tensor,
          e.op,
          e.location.known() ? e.location.file() : "",
          e.location.line(),
          phases[static_cast<int>(e.phase)],
          {e.incoming.begin(), e.incoming.end()},
          {e.outgoing.begin(), e.outgoing.end()}};
}

void check_callable(nb::handle hook, const char* function) {
  if (PyCallable_Check(hook.ptr())) return;
  throw_type_error(std::string(function) + "(): argument 'hook': expected a callable, got " + type_name(hook.ptr()));
}

const Tensor& hooked_tensor(nb::handle object, const char* function) {
  if (is_tensor(object.ptr())) return tensor_of(object.ptr());
  throw_type_error(std::string(function) + "(): argument 'tensor': expected a Tensor, got " + type_name(object.ptr()));
}

HookHandle hook_on(nb::handle object, nb::handle hook) {
  const Tensor& tensor = hooked_tensor(object, "register_hook");
  check_callable(hook, "register_hook");
  const auto function = [callback = Callback(hook)](const Tensor& gradient) -> Tensor {
    const WithGil gil;
    const Ref argument(wrap(gradient));
    return gradient_from(call(callback, argument.get()).get());
  };
  HookHandle handle =
      detail::add_tensor_hook(tensor, detail::hook_function(function, detail::gradient_of), false, here(), hook.ptr());
  track_hooks(object.ptr());
  return handle;
}

HookHandle accumulated_hook_on(nb::handle object, nb::handle hook) {
  const Tensor& tensor = hooked_tensor(object, "register_post_accumulate_grad_hook");
  check_callable(hook, "register_post_accumulate_grad_hook");
  const auto function = [callback = Callback(hook)](const Tensor& leaf) {
    const WithGil gil;
    const Ref argument(wrap(leaf));
    call(callback, argument.get());
  };
  HookHandle handle = detail::add_accumulated_hook(tensor, detail::hook_function(function, detail::tensor_of), false,
                                                   here(), hook.ptr());
  track_hooks(object.ptr());
  return handle;
}

template <auto register_it>
HookHandle node_hook_on(const Tensor& tensor, nb::handle hook) {
  check_callable(hook, "register_node_hook");
  return register_it(
      tensor,
      [callback = Callback(hook)](const GradEvent& event) -> std::optional<std::vector<Tensor>> {
        const WithGil gil;
        const nb::object argument = nb::cast(event_of(event));
        return tensors_from(call(callback, argument.ptr()).get());
      },
      here());
}
// Templates cannot be template arguments here: a function object each.
constexpr auto before = [](const Tensor& t, auto f, Location w) { return register_node_pre_hook(t, std::move(f), w); };
constexpr auto after = [](const Tensor& t, auto f, Location w) { return register_node_post_hook(t, std::move(f), w); };

bool remove(HookHandle& handle) {
  bool removed = false;
  {
    const WithoutGil others;
    removed = handle.remove();
  }
  drop_noted();
  return removed;
}

// ---- gradcheck ----

GradcheckFunction checked_function(nb::handle function) {
  return [callback = Callback(function)](std::span<const Tensor> inputs) {
    const WithGil gil;
    const Ref arguments = tuple_of(inputs);
    PyObject* returned = PyObject_CallObject(callback.get(), arguments.get());
    if (returned == nullptr) carry_error();
    const Ref result(returned);
    const auto outputs = tensors_from(result.get());
    if (!outputs) throw_type_error("gradcheck(): result of the function: expected a Tensor or several, got None");
    return *outputs;
  };
}

template <auto check>
bool python_check(nb::handle function, const Tensors& inputs, double eps, double atol, double rtol,
                  bool raise_exception) {
  if (!PyCallable_Check(function.ptr())) {
    throw_type_error("gradcheck(): argument 'func': expected a callable, got " + type_name(function.ptr()));
  }
  return check(checked_function(function), inputs,
               GradcheckOptions{.step = eps, .relative = rtol, .absolute = atol, .raise_exception = raise_exception},
               here())
      .passed;
}
constexpr auto first_order = [](const GradcheckFunction& f, const Tensors& x, GradcheckOptions o, Location w) {
  return gradcheck(f, x, o, w);
};
constexpr auto second_order = [](const GradcheckFunction& f, const Tensors& x, GradcheckOptions o, Location w) {
  return gradgradcheck(f, x, o, w);
};

void bind_hooks(nb::module_& m) {
  nb::class_<HookHandle>(m, "HookHandle", "Names one registered hook.")
      .def("remove", remove, "True the first time, false when the hook is gone already. Safe inside the hook.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](HookHandle& self, nb::args) { remove(self); });
  nb::class_<Event>(m, "GradEvent", "The argument of a hook on a node.")
      .def_ro("grad", &Event::grad)
      .def_ro("tensor", &Event::tensor)
      .def_ro("op", &Event::op)
      .def_ro("file", &Event::file)
      .def_ro("line", &Event::line)
      .def_ro("phase", &Event::phase)
      .def_ro("incoming", &Event::incoming)
      .def_ro("outgoing", &Event::outgoing);
  m.def("_register_hook", hook_on, nb::arg("tensor"), nb::arg("hook").none());
  m.def("_register_post_accumulate_grad_hook", accumulated_hook_on, nb::arg("tensor"), nb::arg("hook").none());
  m.def("_register_node_pre_hook", node_hook_on<before>, nb::arg("tensor"), nb::arg("hook").none());
  m.def("_register_node_post_hook", node_hook_on<after>, nb::arg("tensor"), nb::arg("hook").none());
}

}  // namespace

void bind_autograd(nb::module_& m) {
  bind_hooks(m);
  bind_graph_nodes(m);
  m.def("_grad", python_grad, nb::arg("outputs"), nb::arg("inputs"), nb::arg("grad_outputs").none(),
        nb::arg("retain_graph").none(), nb::arg("create_graph"), nb::arg("allow_unused"));
  m.def("_backward", python_backward, nb::arg("tensors"), nb::arg("grad_tensors").none(),
        nb::arg("retain_graph").none(), nb::arg("create_graph"));
  m.def("_gradcheck", python_check<first_order>, nb::arg("func").none(), nb::arg("inputs"), nb::arg("eps"),
        nb::arg("atol"), nb::arg("rtol"), nb::arg("raise_exception"));
  m.def("_gradgradcheck", python_check<second_order>, nb::arg("func").none(), nb::arg("inputs"), nb::arg("eps"),
        nb::arg("atol"), nb::arg("rtol"), nb::arg("raise_exception"));
  nb::class_<detail::AutocastMode>(m, "_AutocastMode");
  m.def("_enter_autocast", [](DType dtype, bool enabled, Device device, bool cache) {
    return detail::enter_autocast({dtype, enabled, device.type, cache}, here());
  });
  m.def("_leave_autocast", &detail::leave_autocast);
  m.def("_autocast_dtype", [](Device device) { return autocast_dtype(device.type); });
  m.def("_grad_mode", [] { return std::pair(grad_mode().enabled, grad_mode().inference); });
  m.def("_set_grad_mode",
        [](bool enabled, bool inference) { set_grad_mode({.enabled = enabled, .inference = inference}); });
  m.def("_deterministic", [] { return static_cast<int>(deterministic()); });
  m.def("_set_deterministic", [](int mode) { set_deterministic(static_cast<Determinism>(mode)); });
  m.def("_tf32", [] { return tf32_state().matmul; });
  m.def("_set_tf32", [](bool matmul) { set_tf32({.matmul = matmul}); });
  // Sets the thread's mode; returns the previous one, for the end of a scope.
  m.def(
      "_set_thread_tf32",
      [](std::optional<bool> matmul) {
        const std::optional<Tf32> before = detail::thread_tf32;
        detail::thread_tf32 = matmul ? std::optional(Tf32{*matmul}) : std::nullopt;
        return before ? std::optional(before->matmul) : std::nullopt;
      },
      nb::arg().none());
  m.def(
      "_set_thread_index_checks",
      [](std::optional<bool> on) { return std::exchange(detail::thread_checks_indices, on); }, nb::arg().none());
  m.def("config", &config, "The build and its settings, in lines for bug reports.");
}

}  // namespace weft::python
