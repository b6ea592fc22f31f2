// Python objects as the values that ops take, and back.
#pragma once

#include <optional>

#include "../ops/record.hpp"

#include "object.hpp"

namespace weft::python {

/// weft.dtype objects: one for each dtype.
struct DTypeObject {
  PyObject ob_base;
  DType dtype;
};
extern PyTypeObject* dtype_type;
extern PyObject* dtype_objects[dtype_count];
/// A weft.dtype, or Python's bool, int, float.
std::optional<DType> to_dtype(PyObject* object);
/// A weft.device, or its name.
std::optional<Device> to_device(PyObject* object);
PyObject* from_device(Device device);

/// A Python, NumPy or other number; nothing where it is none. OverflowError for integers beyond 64 bits.
std::optional<Scalar> to_scalar(PyObject* object);
/// Python's complex and NumPy's scalars of complex numbers.
std::optional<complex128> to_complex(PyObject* object);
bool is_number(PyObject* object);
/// An integer that is not a bool: the result of __index__.
std::optional<int64_t> to_integer(PyObject* object);
/// A list or tuple of integers, or one integer.
std::optional<Dims> to_dims(PyObject* object);
/// Anything an op may get; false where it can be no argument at all.
bool to_value(PyObject* object, Value& out);
/// More integers than Dims hold, as 0-d tensors; false for anything else.
bool to_long_list(PyObject* object, Value& out);

PyObject* from_dims(std::span<const int64_t> dims);
/// As a weft.Size.
PyObject* from_sizes(std::span<const int64_t> sizes);
/// Adds weft.Size, a subclass of tuple that weft/_own_memory.py gives its methods.
void add_size_type(PyObject* module);
PyObject* from_scalar(Scalar value);
/// Undefined tensors are None.
Ref tuple_of(std::span<const Tensor> tensors);
/// A list of tensors becomes a tuple.
PyObject* from_value(Value&& value);

/// A tensor or number as an operand, which lives as long as this.
class OperandOf {
 public:
  /// False where `object` is neither.
  bool set(PyObject* object, Location where) {
    if (is_tensor(object)) {
      operand_.emplace(tensor_of(object), where);
      return true;
    }
    return set_number(object, where);
  }
  /// The same for a comparison, which has an answer for integers beyond 64 bits, too.
  bool set_compared(PyObject* object, Location where);
  const Operand& get() const { return *operand_; }

 private:
  bool set_number(PyObject* object, Location where);
  std::optional<Operand> operand_;
};

}  // namespace weft::python
