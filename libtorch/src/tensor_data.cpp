// torch::tensor of numbers in nested braces.
#include <torch/detail/TensorDataContainer.h>

namespace torch::detail {

namespace {

/// The dtype of torch::tensor for numbers of a C++ type.
at::ScalarType literal_type(at::ScalarType type) {
  if (weft::is_complex(type)) return weft::complex_type(weft::default_dtype());
  if (type == at::kDouble || type == at::kFloat) return at::get_default_dtype();
  return type == at::kInt ? at::kLong : type;
}

std::string joined(const std::vector<int64_t>& sizes) { return c10::Join(" ", sizes); }

}  // namespace

TensorDataContainer::TensorDataContainer(std::initializer_list<TensorDataContainer> list)
    : sizes_{static_cast<int64_t>(list.size())}, scalar_type_(at::get_default_dtype()), init_list_(list) {
  if (init_list_.empty()) return;
  const TensorDataContainer& first = init_list_[0];
  scalar_type_ = first.scalar_type_;
  for (const TensorDataContainer& item : init_list_) {
    TORCH_CHECK(item.sizes_ == first.sizes_, "Expected all sub-lists to have sizes: ", joined(first.sizes_), " (e.g. ",
                first, "), but got sub-list ", item, " with sizes: ", joined(item.sizes_));
    TORCH_CHECK(item.scalar_type_ == scalar_type_,
                "Expected all elements of the tensor to have the same scalar type: ", scalar_type_,
                ", but got element of scalar type: ", item.scalar_type_);
  }
  sizes_.insert(sizes_.end(), first.sizes_.begin(), first.sizes_.end());
}

const at::Scalar& TensorDataContainer::scalar() const {
  TORCH_CHECK(is_scalar(), "Can only call `scalar()` on a TensorDataContainer that has `is_scalar() == true`");
  return scalar_;
}
const std::vector<TensorDataContainer>& TensorDataContainer::init_list() const {
  TORCH_CHECK(is_init_list(), "Can only call `init_list()` on a TensorDataContainer that has `is_init_list() == true`");
  return init_list_;
}
const at::Tensor& TensorDataContainer::tensor() const {
  TORCH_CHECK(is_tensor(), "Can only call `tensor()` on a TensorDataContainer that has `is_tensor() == true`");
  return tensor_;
}

template <class T>
void TensorDataContainer::collect(std::vector<T>& out) const {
  if (is_scalar()) out.push_back(scalar_.to<T>());
  for (const TensorDataContainer& item : init_list_) item.collect(out);
}

at::Tensor TensorDataContainer::convert_to_tensor(const at::TensorOptions& options, at::Location where) const {
  const at::ScalarType dtype = options.dtype_opt().value_or(literal_type(scalar_type_));
  const bool complex = weft::is_complex(scalar_type_);
  if (complex && !weft::is_complex(dtype)) {
    TORCH_CHECK(!is_tensor(),
                "can not do torch::tensor(complex, dtype=non-complex) because complex can not be casted "
                "to real number without loss of information");
    TORCH_CHECK(false, "value cannot be converted to type ", dtype.name(), " without overflow");
  }
  const weft::TensorOptions target = at::TensorOptions(options).dtype(dtype);
  if (is_tensor()) {
    return at::Tensor(tensor_.weft::Tensor::to(target.device).to(dtype)).requires_grad_(target.requires_grad, where);
  }
  const auto build = [&]<class T>() -> at::Tensor {
    std::vector<T> values;
    collect(values);
    return weft::detail::from_elements(values.data(), weft::dtype_of<T>(), at::Dims(sizes_), target, where);
  };
  if (complex) return build.operator()<c10::complex<double>>();
  return weft::is_floating(scalar_type_) ? build.operator()<double>() : build.operator()<int64_t>();
}

std::ostream& operator<<(std::ostream& out, const TensorDataContainer& data) {
  if (data.is_scalar()) return out << data.scalar_;
  out << '{';
  const char* comma = "";
  for (const TensorDataContainer& item : data.init_list_) {
    out << comma << item;
    comma = ", ";
  }
  for (int64_t i = 0; data.is_tensor() && i < data.tensor_.size(0); ++i) {
    out << comma << data.tensor_[i].item();
    comma = ", ";
  }
  return out << '}';
}

}  // namespace torch::detail
