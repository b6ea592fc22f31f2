// Nodes of the graph as Python objects, and Python functions as saved-tensor hooks.
#include "../autograd/accumulation.hpp"
#include "../autograd/saved_hooks.hpp"

#include "caster.hpp"

namespace weft::python {

Ref call(const Callback& callback, PyObject* argument);  // autograd.cpp

namespace {

/// A counted reference to a node.
class NodeReference {
 public:
  explicit NodeReference(Node* node) : node_(node) { node_->refs.increment(); }
  NodeReference(const NodeReference& other) : NodeReference(other.node_) {}
  NodeReference& operator=(const NodeReference&) = delete;
  ~NodeReference() { release(node_); }
  Node& node() const { return *node_; }

 private:
  Node* node_;
};

using Next = std::pair<std::optional<NodeReference>, int>;

std::optional<NodeReference> node_of(const Tensor& tensor) {
  if (!tensor.requires_grad()) return {};
  Node* node = tensor.is_leaf() ? accumulation_node(tensor.impl()) : tensor.impl()->node;
  if (node == nullptr) return {};
  return std::optional<NodeReference>(std::in_place, node);
}

std::vector<Next> next_of(const NodeReference& self) {
  std::vector<Next> next;
  for (const Edge& edge : std::span(self.node().edges, self.node().edge_count)) {
    if (edge) next.emplace_back(std::optional<NodeReference>(std::in_place, edge.node()), edge.output());
    else next.emplace_back(std::nullopt, 0);
  }
  return next;
}

/// Tensors that the node keeps for its backward.
std::vector<Tensor> saved_of(const NodeReference& self) {
  std::vector<Tensor> saved;
  detail::visit_saved(self.node(), [&saved](const Tensor& tensor) { saved.push_back(tensor); });
  return saved;
}

/// A scope of saved-tensor hooks that Python enters and leaves.
class PythonSavedHooks {
 public:
  PythonSavedHooks(nb::handle pack, nb::handle unpack) : pack_(pack), unpack_(unpack) {}

  void enter() {
    scope_ = std::make_unique<SavedTensorHooks>(
        [pack = pack_](const Tensor& tensor) -> std::any {
          const WithGil gil;
          const Ref argument(wrap(tensor));
          const Ref packed = call(pack, argument.get());
          return Callback(nb::handle(packed.get()));
        },
        [unpack = unpack_](const std::any& packed) -> Tensor {
          const WithGil gil;
          const Ref returned = call(unpack, std::any_cast<const Callback&>(packed).get());
          if (is_tensor(returned.get())) return tensor_of(returned.get());
          throw_type_error("result of unpack_hook: expected a Tensor, got " + type_name(returned.get()));
        });
  }
  void leave() { scope_.reset(); }

 private:
  Callback pack_, unpack_;
  std::unique_ptr<SavedTensorHooks> scope_;
};

}  // namespace

void bind_graph_nodes(nb::module_& m) {
  nb::class_<NodeReference>(m, "_Node")
      .def_prop_ro("op", [](const NodeReference& self) { return std::string(self.node().op); })
      .def_prop_ro("place",
                   [](const NodeReference& self) {
                     const Location where = self.node().where;
                     return std::pair(std::string(where.known() ? where.file() : ""), where.line());
                   })
      .def_prop_ro("accumulates", [](const NodeReference& self) { return self.node().accumulates; })
      .def_prop_ro("leaf",
                   [](const NodeReference& self) -> std::optional<Tensor> {
                     if (!self.node().accumulates) return {};
                     return living_leaf(self.node());
                   })
      .def_prop_ro("next", next_of)
      .def_prop_ro("saved", saved_of)
      .def(
          "__eq__", [](const NodeReference& a, const NodeReference& b) { return &a.node() == &b.node(); },
          nb::is_operator())
      .def("__hash__", [](const NodeReference& self) { return std::hash<const Node*>()(&self.node()); });
  m.def("_node_of", node_of);
  nb::class_<PythonSavedHooks>(m, "_SavedTensorHooks")
      .def(nb::init<nb::handle, nb::handle>())
      .def("enter", &PythonSavedHooks::enter)
      .def("leave", &PythonSavedHooks::leave);
}

}  // namespace weft::python
