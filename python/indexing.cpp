// x[…] and x[…] = v: Python's indices as weft::Index. Plain integers and slices go a short way to the views.
#include <algorithm>
#include <cstring>
#include <vector>

#include "../ops/subscript.hpp"

#include "dtypes.hpp"
#include "tensor_type.hpp"

namespace weft::python {

namespace {

std::optional<int64_t> bound(PyObject* object) {
  if (object == Py_None) return {};
  if (is_tensor(object) || !PyIndex_Check(object)) {
    const auto value = to_integer(object);
    if (!value) throw_type_error("slice bounds: expected integers or None, got " + type_name(object));
    return value;
  }
  // As lists do: beyond 64 bits is simply far away.
  const Py_ssize_t value = PyNumber_AsSsize_t(object, nullptr);
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return value;
}

Slice slice_of(PyObject* object) {
  const auto* slice = reinterpret_cast<PySliceObject*>(object);
  const auto step = bound(slice->step);
  return {bound(slice->start), bound(slice->stop), step.value_or(1)};
}

bool is_numpy_bool(PyObject* object) { return std::strncmp(Py_TYPE(object)->tp_name, "numpy.bool", 10) == 0; }

// Under weft.torch a uint8 tensor is a mask, as in PyTorch, which warns of it. Python shows it once per line.
Tensor mask_of(const Tensor& index, Location where) {
  constexpr const char* text =
      "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead";
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw PythonError();
  return index.to(DType::boolean, where);
}

Tensor whole(const Tensor& index, Location where) {
  if (pytorch_forms && index.defined() && index.dtype() == DType::u8) return mask_of(index, where);
  if (index.defined() && is_floating(index.dtype())) {
    throw_error(PyExc_IndexError,
                std::string("tensors of indices: expected integers or bools, got ") + name(index.dtype()));
  }
  return index;
}

Index index_of(PyObject* object, Location where) {
  if (PyLong_CheckExact(object)) {
    const auto value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      throw_error(PyExc_IndexError, "an index beyond 64 bits");
    }
    return static_cast<int64_t>(value);
  }
  if (object == Py_None) return None;
  if (object == Py_Ellipsis) return Ellipsis;
  if (PyBool_Check(object)) return object == Py_True;
  if (PySlice_Check(object)) return slice_of(object);
  if (is_tensor(object)) return whole(tensor_of(object), where);
  if (is_numpy_bool(object)) return PyObject_IsTrue(object) == 1;
  const bool sequence = PyList_Check(object) || PyTuple_Check(object) || PyRange_Check(object);
  if (!sequence && is_number(object) && PyIndex_Check(object))
    return index_of(Ref(PyNumber_Index(object)).get(), where);
  if (sequence || PyObject_CheckBuffer(object)) {
    const Tensor index = from_object(object, {}, where);
    return index.numel() == 0 && sequence ? index.to(DType::i64, where) : whole(index, where);
  }
  throw_error(PyExc_IndexError,
              "index: expected an integer, a slice, None, Ellipsis, a bool, a list, an array or a tensor, got " +
                  type_name(object));
}

std::vector<Index> indices_of(PyObject* object, Location where) {
  std::vector<Index> indices;
  if (!PyTuple_Check(object)) {
    indices.push_back(index_of(object, where));
    return indices;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    indices.push_back(index_of(PyTuple_GET_ITEM(object, i), where));
  }
  return indices;
}

bool is_large(const Tensor& x, std::span<const Index> indices) {
  int64_t n = 0;
  for (const Index& index : indices) {
    if (index.kind == Index::Kind::tensor) n += index.tensor.numel() + x.numel() / 8;
  }
  return n >= elements_worth_a_switch;
}

// Whether `value` is x[indices] itself, a view that was written in place: Python ends `x[i] += v` by x[i] = value. Such
// a view is in x's graph, which a detached one is not.
bool is_its_own_view(const Tensor& x, std::span<const Index> indices, const Tensor& value, Location where) {
  if (!value.shares_storage(x) || value.requires_grad() != x.requires_grad()) return false;
  const auto base_of = [](const Tensor& t) { return t.impl()->base != nullptr ? t.impl()->base : t.impl(); };
  if (x.requires_grad() && base_of(value) != base_of(x)) return false;
  for (const Index& index : indices) {
    if (index.kind == Index::Kind::tensor) return false;
  }
  const Tensor view = getitem(x, indices, where);
  return view.data_ptr() == value.data_ptr() && view.dtype() == value.dtype() && view.shape() == value.shape() &&
         std::ranges::equal(view.strides(), value.strides());
}

// The integer of an index that is a plain one.
bool plain_integer(PyObject* object, int64_t& value) {
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0;
}

}  // namespace

PyObject* get_item(PyObject* self, PyObject* object) {
  return guarded<PyObject*>(nullptr, [&] {
    const Tensor& x = tensor_of(self);
    const Location where = here();
    int64_t integer;
    if (plain_integer(object, integer) && x.dim() > 0) return wrap(x.select(0, integer, where));
    const std::vector<Index> indices = indices_of(object, where);
    Tensor result;
    {
      const WithoutGil others(is_large(x, indices));
      result = getitem(x, indices, where);
    }
    return wrap(std::move(result));
  });
}

int set_item(PyObject* self, PyObject* object, PyObject* value) {
  return guarded<int>(-1, [&] {
    if (value == nullptr) throw_type_error("elements of a tensor cannot be deleted");
    const Tensor& x = tensor_of(self);
    const Location where = here();
    const std::vector<Index> indices = indices_of(object, where);
    if (is_tensor(value) && is_its_own_view(x, indices, tensor_of(value), where)) return 0;
    OperandOf operand;
    Tensor made;
    Ref holder;
    if (!operand.set(value, where)) {
      // Lists and arrays, as NumPy takes them.
      made = from_object(value, {}, where);
      holder = Ref(wrap(made.to(x.device(), where)));
      operand.set(holder.get(), where);
    }
    const WithoutGil others(is_large(x, indices) || x.numel() >= elements_worth_a_switch);
    setitem(x, indices, operand.get(), where);
    return 0;
  });
}

}  // namespace weft::python
