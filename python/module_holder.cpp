// The references of modules to tensors and child modules, counted for Python's collector of cycles. It runs no Python
// code here and creates no object.
#include "module_object.hpp"

namespace weft::python {

void ModuleObject::set_face(nb::handle name, nb::handle face) {
  faces[name] = face;
  if (holder == nullptr) holder = std::make_shared<ModuleHolder>(this);
  if (is_tensor(face.ptr())) {
    add_holder(face.ptr(), holder);
    return;
  }
  ModuleObject& child = state_of(face);
  holder->add_child(face.ptr(), &child);
  std::erase_if(child.parents, [&](const auto& parent) { return parent.expired() || parent.lock() == holder; });
  child.parents.push_back(holder);
}

int64_t ModuleHolder::references(PyObject* tensor) const {
  if (!is_face(tensor) || !has_known_owners()) return 0;
  return module_->module.references_to(tensor_of(tensor));
}

int64_t ModuleHolder::references(const ModuleObject* child) const {
  const bool is_child =
      std::ranges::any_of(children_, [&](const auto& entry) { return entry.second == child && is_face(entry.first); });
  if (!is_child || !has_known_owners()) return 0;
  return module_->module.references_to(child->module);
}

void ModuleHolder::add_child(PyObject* face, const ModuleObject* child) {
  std::erase_if(children_, [&](const auto& entry) { return entry.first == face || entry.second == child; });
  children_.emplace_back(face, child);
}

bool ModuleHolder::is_face(PyObject* object) const {
  PyObject *name = nullptr, *face = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(module_->faces.ptr(), &at, &name, &face) != 0;) {
    if (face == object) return true;
  }
  return false;
}

bool ModuleHolder::has_known_owners() const {
  if (module_->parametrization) return false;
  // The layer in an AnyModule is a handle of its state, and so is the AnyModule.
  int64_t known = module_->callee ? 3 : 1;
  for (const auto& weak : module_->parents) {
    if (const auto parent = weak.lock()) known += parent->references(module_);
  }
  return module_->module.handles() == known;
}

}  // namespace weft::python
