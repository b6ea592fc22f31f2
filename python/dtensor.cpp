// Tensors in parts for Python; weft/distributed/tensor.py gives them torch.distributed.tensor's names.
#include "../distributed/spmd/call.hpp"

#include <algorithm>

#include "../distributed/mesh.hpp"
#include "caster.hpp"

namespace weft::python {

namespace {

using namespace distributed;

bool add_parts(PyObject* object, std::vector<DTensor>& to) {
  if (!PyList_Check(object) && !PyTuple_Check(object)) return false;
  const nb::sequence items = nb::borrow<nb::sequence>(object);
  for (const nb::handle item : items) {
    if (!nb::isinstance<DTensor>(item)) return false;
    to.push_back(nb::cast<DTensor>(item));
  }
  return !to.empty();
}

DValue argument_of(PyObject* object) {
  if (object == Py_None) return std::monostate();
  const nb::handle handle(object);
  if (nb::isinstance<DTensor>(handle)) return nb::cast<DTensor>(handle);
  if (std::vector<DTensor> parts; add_parts(object, parts)) return parts;
  Value value;
  if (!to_value(object, value)) throw_type_error("an op on tensors in parts does not take a " + type_name(object));
  return std::visit(
      [&](auto& held) -> DValue {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
          throw_type_error("a list that an op on tensors in parts takes is one of DTensor");
        } else {
          return std::move(held);
        }
      },
      value);
}

/// Arguments in their places; the rest of the positional ones as one where the op takes any number.
DValues arguments_of(const OpRecord& record, const nb::args& positional, const nb::kwargs& keywords) {
  const std::vector<Argument>& all = record.signature().arguments;
  DValues out(all.size());
  for (size_t i = 0; i < positional.size(); ++i) {
    if (i >= all.size() || all[i].keyword_only) {
      throw_type_error(std::string(record.name) + "() takes fewer positional arguments");
    }
    if (!all[i].variadic || positional.size() == i + 1) {
      out[i] = argument_of(positional[i].ptr());
      continue;
    }
    const Ref rest(
        PyTuple_GetSlice(positional.ptr(), static_cast<Py_ssize_t>(i), static_cast<Py_ssize_t>(positional.size())));
    out[i] = argument_of(rest.get());
    break;
  }
  for (const auto [key, value] : keywords) {
    const std::string name = nb::cast<std::string>(key);
    const Argument* const argument = record.signature().find(name);
    if (argument == nullptr)
      throw_type_error(std::string(record.name) + "() got an unexpected keyword argument '" + name + "'");
    out[static_cast<size_t>(argument - all.data())] = argument_of(value.ptr());
  }
  return out;
}

nb::object call_op(const std::string& op, const nb::args& positional, const nb::kwargs& keywords) {
  const OpRecord* const record = find_record(op.c_str());
  if (record == nullptr) throw_type_error("there is no op '" + op + "' on tensors in parts");
  const DValues arguments = arguments_of(*record, positional, keywords);
  std::vector<DTensor> out;
  try {
    out = without_gil([&](Location where) { return call_all(op, arguments, where); });
  } catch (const BadArgument& e) {
    throw_type_error(op + "(): argument '" + record->signature().arguments.at(static_cast<size_t>(e.argument)).name +
                     "' is missing or of a wrong kind");
  }
  return out.size() == 1 ? nb::cast(out[0]) : nb::object(nb::tuple(nb::cast(out)));
}

nb::tuple shape_of(const Dims& shape) {
  nb::list out;
  for (const int64_t size : shape) out.append(size);
  return nb::tuple(out);
}

Dims dims_of(const std::vector<int64_t>& sizes) { return Dims(std::span(sizes.data(), sizes.size())); }

}  // namespace

void bind_dtensor(nb::module_& m) {
  nb::class_<Placement>(m, "Placement", "How the ranks along one dimension of a mesh hold a tensor.")
      .def("is_replicate", &Placement::is_replicate)
      .def("is_partial", &Placement::is_partial)
      .def(
          "is_shard", [](const Placement& p, std::optional<int> dim) { return dim ? p.is_shard(*dim) : p.is_shard(); },
          nb::arg("dim") = nb::none())
      .def_prop_ro("dim", [](const Placement& p) { return p.axis; })
      .def_prop_ro("reduce_op", [](const Placement& p) { return p.op; })
      .def("__eq__",
           [](const Placement& a, nb::handle b) { return nb::isinstance<Placement>(b) && a == nb::cast<Placement>(b); })
      .def("__hash__",
           [](const Placement& p) { return static_cast<int>(p.kind) + 3 * (p.axis + 1) + 31 * static_cast<int>(p.op); })
      .def("__repr__", [](const Placement& p) {
        const std::string inside = text(Placements{p});
        return inside.substr(1, inside.size() - 2);
      });
  m.def("Replicate", &Replicate, "All the same tensor.");
  m.def("Shard", &Shard, nb::arg("dim"), "A part along dim each.");
  m.def("Partial", &Partial, nb::arg("reduce_op") = ReduceOp::sum, "Tensors that the reduction makes into it.");

  nb::class_<Mesh>(m, "DeviceMesh", "Ranks in a grid, whose lines are groups.")
      .def(
          "__init__",
          [](Mesh* self, const std::vector<int64_t>& shape, std::vector<std::string> names, const Group& within) {
            without_gil(
                [&](Location where) { return new (self) Mesh(dims_of(shape), std::move(names), within, {}, where); });
          },
          nb::arg("shape"), nb::arg("names"), nb::arg("within"))
      .def_prop_ro("shape", [](const Mesh& mesh) { return shape_of(mesh.shape()); })
      .def_prop_ro("ndim", [](const Mesh& mesh) { return mesh.shape().size(); })
      .def(
          "size",
          [](const Mesh& mesh, std::optional<int> dim) { return dim ? mesh.shape()[*dim] : int64_t{mesh.size()}; },
          nb::arg("mesh_dim") = nb::none())
      .def_prop_ro("mesh_dim_names",
                   [](const Mesh& mesh) { return std::vector<std::string>(mesh.names().begin(), mesh.names().end()); })
      .def(
          "get_coordinate",
          [](const Mesh& mesh) -> std::optional<std::vector<int64_t>> {
            if (mesh.coordinate().empty()) return {};
            return std::vector<int64_t>(mesh.coordinate().begin(), mesh.coordinate().end());
          },
          "This rank's place; None where it has none.")
      .def(
          "get_group", [](const Mesh& mesh, int dim) { return mesh.group(dim, here()); }, nb::arg("mesh_dim") = 0)
      .def(
          "get_group", [](const Mesh& mesh, const std::string& name) { return mesh.group(name, here()); },
          nb::arg("mesh_dim"));

  nb::class_<DTensor>(m, "DTensor", "A tensor of which each rank of a mesh holds a part.")
      .def(
          "to_local", [](const DTensor& x) { return x.local(); }, "This rank's part.")
      .def(
          "full_tensor",
          [](const DTensor& x) { return without_gil([&](Location where) { return x.full_tensor(where); }); },
          "The whole, on every rank.")
      .def("_redistribute",
           [](const DTensor& x, const Placements& placements) {
             return without_gil([&](Location where) { return x.reshard(placements, where); });
           })
      .def_prop_ro(
          "shape", [](const DTensor& x) { return shape_of(x.shape()); }, "Of the whole.")
      .def_prop_ro("dtype", [](const DTensor& x) { return x.dtype(); })
      .def_prop_ro("device_mesh", [](const DTensor& x) { return x.mesh(); })
      .def_prop_ro("placements", [](const DTensor& x) { return nb::tuple(nb::cast(x.placements())); });
  m.def("distribute", [](const Tensor& whole, const Mesh& mesh, const Placements& placements) {
    return without_gil([&](Location where) { return shard_tensor(whole, mesh, placements, where); });
  });
  m.def("from_local",
        [](const Tensor& local, const std::vector<int64_t>& shape, const Mesh& mesh, const Placements& placements) {
          return DTensor(local, dims_of(shape), mesh, placements, here());
        });
  m.def("call", &call_op);
}

}  // namespace weft::python
