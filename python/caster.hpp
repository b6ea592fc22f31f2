// How nanobind passes tensors, dtypes, devices and numbers. Only the files that bind classes and plain functions
// include it; ops go through the trampoline.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "convert.hpp"

namespace nanobind::detail {

template <>
struct type_caster<weft::Tensor> {
  NB_TYPE_CASTER(weft::Tensor, const_name("weft.Tensor"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    if (!weft::python::is_tensor(source.ptr())) return false;
    value = weft::python::tensor_of(source.ptr());
    return true;
  }
  static handle from_cpp(const weft::Tensor& tensor, rv_policy, cleanup_list*) noexcept {
    return weft::python::wrap(tensor);
  }
};

template <>
struct type_caster<weft::DType> {
  NB_TYPE_CASTER(weft::DType, const_name("weft.dtype"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    const auto dtype = weft::python::to_dtype(source.ptr());
    if (dtype) value = *dtype;
    return dtype.has_value();
  }
  static handle from_cpp(weft::DType dtype, rv_policy, cleanup_list*) noexcept {
    return Py_NewRef(weft::python::dtype_objects[static_cast<int>(dtype)]);
  }
};

template <>
struct type_caster<weft::Device> {
  NB_TYPE_CASTER(weft::Device, const_name("weft.device | str"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    try {
      const auto device = weft::python::to_device(source.ptr());
      if (!device) return false;
      value = *device;
      return true;
    } catch (...) {
      return false;
    }
  }
  static handle from_cpp(weft::Device device, rv_policy, cleanup_list*) noexcept {
    return weft::python::from_device(device);
  }
};

}  // namespace nanobind::detail

namespace weft::nn {
class Config;
class Module;
}  // namespace weft::nn

namespace weft::python {

namespace nb = nanobind;

void bind_autograd(nb::module_& module);
void bind_capture(nb::module_& module);
void bind_checkpoint(nb::module_& module);
void bind_checkpoints(nb::module_& module);
void bind_data(nb::module_& module);
void bind_distributed(nb::module_& module);
void bind_distributions(nb::module_& module);
void bind_dtensor(nb::module_& module);
void bind_distributed_states(nb::module_& module);
void bind_generate(nb::module_& module);
void bind_function(nb::module_& module);
void bind_func(nb::module_& module);
void bind_sparse(nb::module_& module);
void bind_optim(nb::module_& module);
void bind_parallelize(nb::module_& module);
void bind_amp(nb::module_& module);
void bind_generator(nb::module_& module);
void bind_init(nb::module_& module);
void bind_io(nb::module_& module);
void bind_library(nb::module_& module);
void bind_lora(nb::module_& module);
void bind_models(nb::module_& module);
void bind_modules(nb::module_& module);
void bind_quantize(nb::module_& module);
void bind_readers(nb::module_& module);
void bind_recorder(nb::module_& module);
void bind_memory_history(nb::module_& module);
void bind_own_memory(nb::module_& module);
void bind_tools(nb::module_& module);
void bind_train(nb::module_& module);
void bind_trainer(nb::module_& module);
void bind_streams(nb::module_& module);
void bind_training_states(nb::module_& module);

/// Options from a dict of values that a model file can store. Raises TypeError for other values, with the option's
/// name.
nn::Config config_from(const nb::dict& options);
/// The C++ module under a weft.nn.Module's `_state`.
nn::Module& module_of(nb::handle state);

/// The tensor of an object. Raises TypeError for another object.
inline const Tensor& checked_tensor(nb::handle object) {
  if (!is_tensor(object.ptr())) throw_type_error("expected a Tensor, got " + type_name(object.ptr()));
  return tensor_of(object.ptr());
}

/// The result of a hook: nothing for None, else one or several tensors, undefined for a None among them. Raises
/// TypeError.
std::optional<std::vector<Tensor>> tensors_from(PyObject* returned);

/// A Python callable that C++ may copy, call and drop on any thread.
class Callback {
 public:
  explicit Callback(nb::handle callable) : callable_(shared_reference(callable.ptr())) {}
  PyObject* get() const { return callable_.get(); }

 private:
  std::shared_ptr<PyObject> callable_;
};

}  // namespace weft::python
