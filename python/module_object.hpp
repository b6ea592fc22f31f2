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

class ModuleHolder;

/// A weft.nn.Module's `_state`. The module is C++'s; `faces` has the Python objects that were assigned or seen under a
/// name, so that the same ones are found again.
struct ModuleObject {
  nn::OpenModule module;
  std::optional<nn::AnyModule> callee;
  std::optional<nn::Parametrization> parametrization;
  nb::dict faces;
  /// Counts references for the collector of cycles; made with the first face.
  std::shared_ptr<ModuleHolder> holder = {};
  /// The modules that contain this one.
  std::vector<std::weak_ptr<const ModuleHolder>> parents = {};

  void set_face(nb::handle name, nb::handle face);
};

/// The references of a module to the tensors and children whose Python objects it holds as faces. The collector may
/// count them if it sees everything that owns the module's state: Python objects of this module and of its parents.
class ModuleHolder final : public TensorHolder {
 public:
  explicit ModuleHolder(const ModuleObject* module) : module_(module) {}
  int64_t references(PyObject* tensor) const override;
  int64_t references(const ModuleObject* child) const;
  void add_child(PyObject* face, const ModuleObject* child);

 private:
  bool is_face(PyObject* object) const;
  bool has_known_owners() const;

  const ModuleObject* module_;
  /// Some may not be faces any more.
  std::vector<std::pair<PyObject*, const ModuleObject*>> children_;
};

inline ModuleObject& state_of(nb::handle module) { return nb::cast<ModuleObject&>(module.attr("_state")); }

void bind_parametrizations(nb::module_& module);
void bind_described(nb::module_& module);
void bind_moe(nb::module_& module);
void bind_attention(nb::module_& module);
void bind_multi_transformer(nb::module_& module);
void bind_causal_lm(nb::module_& module);

/// A weak reference, which the collector of cycles looks through.
inline Callback weak_reference(nb::handle object) {
  return Callback(nb::steal(Ref(PyWeakref_NewRef(object.ptr(), nullptr)).release()));
}

}  // namespace weft::python
