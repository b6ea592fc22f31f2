// What a weft.nn.Module stands on. nn.cpp binds it.
#pragma once

#include "../nn/open_module.hpp"
#include "../nn/parametrize.hpp"

#include "caster.hpp"

namespace weft::python {

/// A module of C++'s on its way into Python: its state, what computes its forward where Python does not, and what it
/// computes as a parametrization.
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
