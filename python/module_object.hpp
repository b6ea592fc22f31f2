// The C++ state of a weft.nn.Module; nn.cpp binds it.
#pragma once

#include "../nn/open_module.hpp"
#include "../nn/parametrize.hpp"

#include "caster.hpp"

namespace weft::python {

/// A C++ module that is passed to Python: its state, its forward if it is not Python's, and its function as a
/// parametrization.
struct Layer {
  nn::Module module;
  std::optional<nn::AnyModule> callee;
  std::optional<nn::Parametrization> parametrization = {};
};

/// A weft.nn.Module's `_state`. The module is C++'s; `faces` has the Python objects that were assigned or seen under a
/// name, so that the same ones are found again.
struct ModuleObject {
  nn::OpenModule module;
  std::optional<nn::AnyModule> callee;
  std::optional<nn::Parametrization> parametrization;
  nb::dict faces;
};

inline ModuleObject& state_of(nb::handle module) { return nb::cast<ModuleObject&>(module.attr("_state")); }

void bind_parametrizations(nb::module_& module);
void bind_moe(nb::module_& module);
void bind_attention(nb::module_& module);
void bind_multi_transformer(nb::module_& module);
void bind_causal_lm(nb::module_& module);

/// A weak reference, which the collector of cycles looks through.
inline Callback weak_reference(nb::handle object) {
  return Callback(nb::steal(Ref(PyWeakref_NewRef(object.ptr(), nullptr)).release()));
}

}  // namespace weft::python
