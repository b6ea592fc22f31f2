// weft._core: the extension. weft/__init__.py gives it its public shape.
//
// Hooks and assigned objects are stored in Python, where the garbage collector sees their references. C++ holds a
// weak reference to the module.
#include "../backends/backend.hpp"
#include "../backends/plugin.hpp"
#include "../ops/pointwise.hpp"
#include "../tensor/allocator.hpp"
#include "../tensor/device_kinds.hpp"
#include "../tensor/threads.hpp"
#include "../tensor/warning.hpp"

#include "caster.hpp"
#include "dtypes.hpp"
#include "error_types.hpp"
#include "tensor_type.hpp"
#include "trampoline.hpp"

namespace weft::python {

namespace {

int device_count(const std::string& type) {
  const Device device(std::string_view(type), here());
  Backend* backend = find_backend(device.type);
  return backend == nullptr ? 0 : backend->device_count();
}

std::string kind_name(DeviceType type) {
  const std::string name = Device(type).name();
  return name.substr(0, name.find(':'));
}

void bind_devices(nb::module_& m) {
  m.def(
      "load_device_plugin",
      [](const std::string& path) {
        const Location where = here();
        const WithoutGil release;
        return kind_name(load_device_plugin(path, where));
      },
      nb::arg("path"), "Loads a shared object that brings a kind of device, and gives the name of that kind.");
  m.def(
      "accelerator_kinds",
      [] {
        std::vector<std::string> names;
        for (const DeviceType type : accelerator_kinds()) names.push_back(kind_name(type));
        return names;
      },
      "Kinds of devices with memory of their own, whether there is one or not: \"cuda\", \"hpu\", those of plug-ins.");
  m.def("device_count", device_count, nb::arg("type"), "How many devices of a type there are: \"cpu\", \"hpu\", …");
  m.def(
      "memory_stats",
      [](Device device) {
        const MemoryStats s = memory_stats(device, here());
        nb::dict stats;
        stats["allocated"] = s.allocated;
        stats["reserved"] = s.reserved;
        stats["peak_allocated"] = s.peak_allocated;
        stats["peak_reserved"] = s.peak_reserved;
        stats["allocations"] = s.allocations;
        stats["limit"] = s.limit;
        return stats;
      },
      nb::arg("device") = Device(), "Bytes that tensors hold on a device.");
  m.def(
      "set_memory_limit", [](Device device, size_t bytes) { set_memory_limit(device, bytes, here()); },
      nb::arg("device"), nb::arg("bytes"), "Allocations beyond raise OutOfMemoryError; 0 lifts the limit.");
  m.def(
      "empty_cache", [](Device device) { empty_cache(device, here()); }, nb::arg("device") = Device());
  m.def("get_num_threads", &num_threads, "How many threads a kernel of the CPU uses at most.");
  m.def(
      "set_num_threads", [](int count) { set_num_threads(count); }, nb::arg("count"), "Sets get_num_threads().");
  m.def(
      "live_tensors",
      [] {
        drop_noted();
        return detail::live_tensors();
      },
      "How many tensors are alive in the process, those inside graphs included.");
}

// dtypes as numbers, for Python code.
void bind_types(nb::module_& m) {
  const auto object = [](DType t) { return nb::borrow(dtype_objects[static_cast<int>(t)]); };
  const auto dtype = [](nb::handle h, const char* function) {
    const auto t = to_dtype(h.ptr());
    if (!t) throw_type_error(std::string(function) + "(): expected a dtype, got " + type_name(h.ptr()));
    return *t;
  };
  m.def(
      "get_default_dtype", [=] { return object(default_dtype()); },
      "The dtype of new tensors, of Python floats, and of integers where an op needs floats.");
  m.def(
      "set_default_dtype",
      [=](nb::handle d) {
        if (PyType_Check(d.ptr()))
          throw_type_error("set_default_dtype(): expected a weft.dtype, got a type of Python's");
        set_default_dtype(dtype(d, "set_default_dtype"));
      },
      nb::arg("d"), "Sets get_default_dtype(): float16, bfloat16, float32 or float64.");
  m.def(
      "promote_types",
      [=](nb::handle a, nb::handle b) { return object(promote(dtype(a, "promote_types"), dtype(b, "promote_types"))); },
      nb::arg("type1"), nb::arg("type2"), "The smallest dtype that both convert to.");
  m.def("_result_type", [=](nb::handle a, nb::handle b) {
    OperandOf first, second;
    if (!first.set(a.ptr(), here()) || !second.set(b.ptr(), here())) {
      throw_type_error("result_type(): expected tensors and numbers, got " + type_name(a.ptr()) + " and " +
                       type_name(b.ptr()));
    }
    return object(result_type(first.get(), second.get()));
  });
}

// Warnings are Python's, at the line that caused them; a filter that makes them errors raises there.
void warn_in_python(const Warning& warning) {
  const WithGil gil;
  const bool known = warning.where.known();
  const char* file = known ? warning.where.file() : "<weft>";
  const int line = known ? static_cast<int>(warning.where.line()) : 1;
  if (PyErr_WarnExplicit(PyExc_UserWarning, warning.text.c_str(), file, line, nullptr, nullptr) != 0) carry_error();
}

}  // namespace

}  // namespace weft::python

NB_MODULE(_core, m) {
  using namespace weft::python;
  nanobind::set_leak_warnings(false);
  nanobind::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const nanobind::python_error&) {
      throw;
    } catch (const nanobind::builtin_exception&) {
      throw;
    } catch (...) {
      set_error_from_exception();
    }
  });
  try {
    add_errors(m.ptr());
    add_dtypes(m.ptr());
    add_size_type(m.ptr());
    add_tensor_type(m.ptr());
    add_interop(m.ptr());
    add_ops(m.ptr());
  } catch (const PythonError&) {
    throw nanobind::python_error();
  }
  m.attr("__version__") = weft::version();
  weft::set_warning_handler(warn_in_python);
  bind_devices(m);
  bind_types(m);
  m.def("_pass_over_files_in", pass_over_files_in, nb::arg("folder"));
  bind_generator(m);
  bind_autograd(m);
  bind_function(m);
  bind_library(m);
  bind_optim(m);
  bind_amp(m);
  bind_init(m);
  bind_io(m);
  bind_models(m);
  bind_training_states(m);
  bind_modules(m);
  bind_readers(m);
  bind_lora(m);
  bind_distributions(m);
  bind_func(m);
  bind_sparse(m);
  bind_quantize(m);
  bind_checkpoint(m);
  bind_recorder(m);
  bind_memory_history(m);
  bind_own_memory(m);
  bind_tools(m);
  bind_train(m);
  bind_streams(m);
  bind_capture(m);
  bind_data(m);
  bind_distributed(m);
  bind_generate(m);
}
