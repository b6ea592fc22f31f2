// IValue: one value of an archive or of a function's saved data.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

namespace c10 {

class IValue {
 public:
  using Tuple = std::vector<IValue>;
  using Dict = std::vector<std::pair<IValue, IValue>>;

  IValue() = default;
  IValue(std::nullopt_t) {}
  IValue(at::Tensor value) : value_(std::move(value)) {}
  IValue(double value) : value_(value) {}
  IValue(float value) : value_(double{value}) {}
  template <std::integral T>
  IValue(T value) {
    if constexpr (std::is_same_v<T, bool>) value_ = value;
    else value_ = static_cast<int64_t>(value);
  }
  IValue(std::string value) : value_(std::move(value)) {}
  IValue(const char* value) : value_(std::string(value)) {}
  IValue(std::vector<int64_t> value) : value_(std::move(value)) {}
  IValue(std::vector<double> value) : value_(std::move(value)) {}
  IValue(std::vector<at::Tensor> value) : value_(std::move(value)) {}
  IValue(std::vector<std::string> value) : value_(std::move(value)) {}
  IValue(Tuple value) : value_(std::make_shared<Tuple>(std::move(value))) {}
  IValue(Dict value) : value_(std::make_shared<Dict>(std::move(value))) {}
  template <class... T>
  IValue(std::tuple<T...> value) : IValue(std::apply([](auto&... items) { return Tuple{IValue(items)...}; }, value)) {}
  template <class T>
  IValue(optional<T> value) : IValue(value ? IValue(*value) : IValue()) {}
  IValue(at::IntArrayRef value) : value_(value.vec()) {}

  bool isNone() const { return holds<std::monostate>(); }
  bool isTensor() const { return holds<at::Tensor>(); }
  bool isDouble() const { return holds<double>(); }
  bool isInt() const { return holds<int64_t>(); }
  bool isBool() const { return holds<bool>(); }
  bool isString() const { return holds<std::string>(); }
  bool isIntList() const { return holds<std::vector<int64_t>>(); }
  bool isDoubleList() const { return holds<std::vector<double>>(); }
  bool isTensorList() const { return holds<std::vector<at::Tensor>>(); }
  bool isTuple() const { return holds<std::shared_ptr<Tuple>>(); }
  bool isGenericDict() const { return holds<std::shared_ptr<Dict>>(); }
  bool isScalar() const { return isInt() || isDouble() || isBool(); }
  bool isList() const { return isIntList() || isDoubleList() || isTensorList(); }

  // These raise ValueError for a value of another type.
  const at::Tensor& toTensor() const { return held<at::Tensor>("Tensor"); }
  double toDouble() const { return isInt() ? static_cast<double>(toInt()) : held<double>("Double"); }
  int64_t toInt() const { return held<int64_t>("Int"); }
  bool toBool() const { return held<bool>("Bool"); }
  const std::string& toStringRef() const { return held<std::string>("String"); }
  std::string toString() const { return toStringRef(); }
  std::vector<int64_t> toIntVector() const { return held<std::vector<int64_t>>("IntList"); }
  std::vector<int64_t> toIntList() const { return toIntVector(); }
  std::vector<double> toDoubleVector() const { return held<std::vector<double>>("DoubleList"); }
  std::vector<double> toDoubleList() const { return toDoubleVector(); }
  std::vector<at::Tensor> toTensorVector() const { return held<std::vector<at::Tensor>>("TensorList"); }
  std::vector<at::Tensor> toTensorList() const { return toTensorVector(); }
  std::shared_ptr<Tuple> toTuple() const { return held<std::shared_ptr<Tuple>>("Tuple"); }
  const Dict& toGenericDict() const { return *held<std::shared_ptr<Dict>>("Dict"); }
  at::Scalar toScalar() const {
    if (isInt()) return toInt();
    return isBool() ? at::Scalar(toBool()) : at::Scalar(toDouble());
  }
  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, bool>) return toBool();
    else if constexpr (std::is_integral_v<T>) return static_cast<T>(toInt());
    else if constexpr (std::is_floating_point_v<T>) return static_cast<T>(toDouble());
    else return held<T>("value of the requested type");
  }
  const char* tagKind() const;

 private:
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(value_);
  }
  template <class T>
  const T& held(const char* wanted) const {
    const T* value = std::get_if<T>(&value_);
    TORCH_CHECK_VALUE(value != nullptr, "Expected ", wanted, " but got ", tagKind());
    return *value;
  }

  std::variant<std::monostate, at::Tensor, double, int64_t, bool, std::string, std::vector<int64_t>,
               std::vector<double>, std::vector<at::Tensor>, std::vector<std::string>, std::shared_ptr<Tuple>,
               std::shared_ptr<Dict>>
      value_;
};

}  // namespace c10

namespace at {
using c10::IValue;
}
