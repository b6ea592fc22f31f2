// The argument of torch::tensor: a number, numbers in nested braces, or a container of numbers.
#pragma once

#include <initializer_list>
#include <ostream>
#include <vector>

#include <ATen/Creation.h>

namespace torch::detail {

enum class TensorDataContainerType : uint8_t { Scalar, InitList, Tensor };

class TensorDataContainer {
 public:
  /// Empty braces: a list without elements.
  TensorDataContainer() : sizes_{0}, scalar_type_(at::get_default_dtype()) {}
  template <at::detail::ElementType T>
  TensorDataContainer(T value) : scalar_type_(weft::dtype_of<T>()), kind_(Kind::Scalar), scalar_(value) {}
  /// Raises Error unless all elements have the same sizes and element types.
  TensorDataContainer(std::initializer_list<TensorDataContainer> list);
  template <at::detail::ElementType T>
  TensorDataContainer(at::ArrayRef<T> values)
      : sizes_{static_cast<int64_t>(values.size())},
        scalar_type_(weft::dtype_of<T>()),
        kind_(Kind::Tensor),
        tensor_(at::tensor(values)) {}
  template <at::detail::ElementType T>
    requires(!std::is_same_v<T, bool>)
  TensorDataContainer(const std::vector<T>& values) : TensorDataContainer(at::ArrayRef<T>(values)) {}

  bool is_scalar() const { return kind_ == Kind::Scalar; }
  bool is_init_list() const { return kind_ == Kind::InitList; }
  bool is_tensor() const { return kind_ == Kind::Tensor; }
  // These raise Error for data of another type.
  const at::Scalar& scalar() const;
  const std::vector<TensorDataContainer>& init_list() const;
  const at::Tensor& tensor() const;
  const std::vector<int64_t>& sizes() const { return sizes_; }
  at::ScalarType scalar_type() const { return scalar_type_; }

  /// Integers give int64 and floating-point numbers the default dtype, unless the options have a dtype.
  at::Tensor convert_to_tensor(const at::TensorOptions& options, at::Location where = {}) const;

 private:
  using Kind = TensorDataContainerType;
  friend std::ostream& operator<<(std::ostream& out, const TensorDataContainer& data);
  template <class T>
  void collect(std::vector<T>& out) const;

  std::vector<int64_t> sizes_;
  at::ScalarType scalar_type_;
  Kind kind_ = Kind::InitList;
  at::Scalar scalar_;
  std::vector<TensorDataContainer> init_list_;
  at::Tensor tensor_;
};

}  // namespace torch::detail
