// Sparse tensors for Python; weft/sparse.py gives them PyTorch's and SciPy's words.
#include "../sparse/sparse.hpp"

#include "caster.hpp"

namespace weft::python {

namespace {

using Sizes = std::vector<int64_t>;

Dims shape_of(nb::handle object) {
  const auto shape = to_dims(object.ptr());
  if (!shape) throw_type_error("shape: expected several integers, got " + type_name(object.ptr()));
  return *shape;
}
nb::tuple tuple_from(const Dims& shape) { return nb::tuple(nb::cast(Sizes(shape.begin(), shape.end()))); }

template <class Matrix>
std::string shown(const char* name, const Matrix& a) {
  std::string text = std::string(name) + "(shape=" + nb::repr(tuple_from(a.shape)).c_str();
  text += ", nnz=" + std::to_string(a.nnz()) + ", dtype=";
  return text + nb::repr(nb::cast(a.values.dtype())).c_str() + ")";
}

/// Common to both classes.
template <class Matrix>
void bind_common(nb::class_<Matrix>& type) {
  using namespace sparse;
  type.def_ro("values", &Matrix::values)
      .def_prop_ro("shape", [](const Matrix& a) { return tuple_from(a.shape); })
      .def_prop_ro("nnz", &Matrix::nnz)
      .def_prop_ro("dtype", [](const Matrix& a) { return a.values.dtype(); })
      .def_prop_ro("device", [](const Matrix& a) { return a.values.device(); })
      .def("to_dense", [](const Matrix& a) { return without_gil([&](Location where) { return to_dense(a, where); }); })
      .def("transpose",
           [](const Matrix& a) { return without_gil([&](Location where) { return transpose(a, where); }); })
      .def_prop_ro("T",
                   [](const Matrix& a) { return without_gil([&](Location where) { return transpose(a, where); }); })
      .def("__matmul__", [](const Matrix& a, const Tensor& dense) {
        return without_gil([&](Location where) { return matmul(a, dense, where); });
      });
}

}  // namespace

void bind_sparse(nb::module_& m) {
  using namespace sparse;
  nb::module_ own = m.def_submodule("_sparse");
  nb::class_<Coo> coo_type(own, "Coo", "Elements, or blocks of them, at indices; others are zero.");
  nb::class_<Csr> csr_type(own, "Csr", "A matrix in compressed rows.");
  bind_common(coo_type);
  bind_common(csr_type);
  coo_type
      .def(
          "__init__",
          [](Coo* self, const Tensor& indices, const Tensor& values, nb::handle shape) {
            new (self) Coo(coo(indices, values, shape_of(shape), here()));
          },
          nb::arg("indices"), nb::arg("values"), nb::arg("shape"))
      .def_ro("indices", &Coo::indices)
      .def_ro("is_coalesced", &Coo::is_coalesced)
      .def_prop_ro("sparse_dims", &Coo::sparse_dims)
      .def_prop_ro("dense_dims", &Coo::dense_dims)
      .def("coalesce", [](const Coo& a) { return without_gil([&](Location where) { return coalesce(a, where); }); })
      .def("to_csr", [](const Coo& a) { return without_gil([&](Location where) { return to_csr(a, where); }); })
      .def("__repr__", [](const Coo& a) { return shown("Coo", a); });
  csr_type
      .def(
          "__init__",
          [](Csr* self, const Tensor& row_starts, const Tensor& columns, const Tensor& values, nb::handle shape) {
            new (self) Csr(csr(row_starts, columns, values, shape_of(shape), here()));
          },
          nb::arg("row_starts"), nb::arg("columns"), nb::arg("values"), nb::arg("shape"))
      .def_ro("row_starts", &Csr::row_starts)
      .def_ro("columns", &Csr::columns)
      .def("to_coo", [](const Csr& a) { return without_gil([&](Location where) { return to_coo(a, where); }); })
      .def("__repr__", [](const Csr& a) { return shown("Csr", a); });
  own.def("to_coo", [](const Tensor& dense, int sparse_dims) {
    return without_gil([&](Location where) { return to_coo(dense, sparse_dims, where); });
  });
  own.def("to_csr",
          [](const Tensor& dense) { return without_gil([&](Location where) { return to_csr(dense, where); }); });
  own.def("sparse_grad",
          [](const Tensor& leaf) { return without_gil([&](Location where) { return sparse_grad(leaf, where); }); });
}

}  // namespace weft::python
