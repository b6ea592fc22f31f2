// Indices of Tensor::index and Tensor::index_put_.
#include <ATen/ATen.h>

#include <weft/ops/subscript.hpp>

namespace at {

namespace indexing {

Slice::Slice(optional<int64_t> start, optional<int64_t> stop, optional<int64_t> step) : step_(step.value_or(1)) {
  TORCH_CHECK_VALUE(step_ != 0, "slice step cannot be zero");
  start_ = start.value_or(step_ < 0 ? INDEX_MAX : 0);
  stop_ = stop.value_or(step_ < 0 ? INDEX_MIN : INDEX_MAX);
}

std::ostream& operator<<(std::ostream& out, const Slice& slice) {
  return out << slice.start() << ':' << slice.stop() << ':' << slice.step();
}

TensorIndex::TensorIndex(const char* text) : kind_(Kind::ellipsis) {
  TORCH_CHECK_VALUE(std::string_view(text) == "...", "Expected \"...\" to represent an ellipsis index, but got \"",
                    text, "\"");
}

namespace {

Tensor mask_of_bytes(const Tensor& bytes) {
  TORCH_WARN("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.");
  return bytes.ne(0);
}

}  // namespace

weft::Index TensorIndex::weft() const {
  switch (kind_) {
    case Kind::none:
      return weft::None;
    case Kind::ellipsis:
      return weft::Ellipsis;
    case Kind::integer:
      return integer_;
    case Kind::boolean:
      return boolean();
    case Kind::tensor:
      return tensor_.scalar_type() == kByte ? weft::Index(mask_of_bytes(tensor_)) : weft::Index(tensor_);
    default:
      const bool open = slice_.stop() == (slice_.step() < 0 ? INDEX_MIN : INDEX_MAX);
      const bool whole = slice_.start() == (slice_.step() < 0 ? INDEX_MAX : 0);
      return weft::Slice(whole ? nullopt : optional(slice_.start()), open ? nullopt : optional(slice_.stop()),
                         slice_.step());
  }
}

std::ostream& operator<<(std::ostream& out, const TensorIndex& index) {
  if (index.is_none()) return out << "None";
  if (index.is_ellipsis()) return out << "...";
  if (index.is_integer()) return out << index.integer();
  if (index.is_boolean()) return out << (index.boolean() ? "true" : "false");
  if (index.is_slice()) return out << index.slice();
  return out << index.tensor();
}
std::ostream& operator<<(std::ostream& out, const std::vector<TensorIndex>& indices) {
  return out << '(' << c10::Join(", ", indices) << ')';
}

}  // namespace indexing

namespace {

std::vector<weft::Index> weft_indices(ArrayRef<indexing::TensorIndex> indices, const char* name) {
  TORCH_CHECK_INDEX(!indices.empty(), "Passing an empty index list to Tensor::", name, "() is not valid syntax");
  std::vector<weft::Index> list;
  list.reserve(indices.size());
  for (const indexing::TensorIndex& index : indices) list.push_back(index.weft());
  return list;
}
std::vector<indexing::TensorIndex> tensor_indices(std::initializer_list<optional<Tensor>> indices) {
  std::vector<indexing::TensorIndex> list;
  for (const optional<Tensor>& index : indices) {
    if (index && index->defined()) list.emplace_back(*index);
    else list.emplace_back(indexing::Slice());
  }
  return list;
}

}  // namespace

Tensor Tensor::operator[](const Tensor& index) const {
  TORCH_CHECK_INDEX(index.defined(), "Can only index with tensors that are defined");
  TORCH_CHECK_INDEX(index.dim() == 0, "Can only index with tensors that are scalars (zero-dim)");
  return select_first(index.item().toLong());
}
Tensor Tensor::select_first(int64_t index) const {
  TORCH_CHECK_INDEX(dim() > 0, "invalid index of a 0-dim tensor. Use `tensor.item<T>()` to convert it to a number");
  return Base::select(0, index);
}

namespace {

void assign(const Tensor& self, ArrayRef<indexing::TensorIndex> indices, const Operand& value, bool accumulate,
            Location where) {
  const std::vector<weft::Index> list = weft_indices(indices, "index_put_");
  if (accumulate) weft::index_put_(self, weft::IndexList(list), value, true);
  else weft::setitem(self, list, value, where);
}

}  // namespace

Tensor Tensor::index(ArrayRef<indexing::TensorIndex> indices, Location where) const {
  return weft::getitem(*this, weft_indices(indices, "index"), where);
}
Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> indices, Location where) const {
  return index(ArrayRef<indexing::TensorIndex>(indices), where);
}
Tensor& Tensor::index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor& value, bool accumulate,
                           Location where) const {
  assign(*this, indices, Operand(value, where), accumulate, where);
  return self();
}
Tensor& Tensor::index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar& value, bool accumulate,
                           Location where) const {
  assign(*this, indices, Operand(value, where), accumulate, where);
  return self();
}
Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& value, bool accumulate,
                           Location where) const {
  return index_put_(ArrayRef<indexing::TensorIndex>(indices), value, accumulate, where);
}
Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value, bool accumulate,
                           Location where) const {
  return index_put_(ArrayRef<indexing::TensorIndex>(indices), value, accumulate, where);
}

Tensor index(const Tensor& self, std::initializer_list<optional<Tensor>> indices) {
  return self.index(tensor_indices(indices));
}
Tensor& index_put_(const Tensor& self, std::initializer_list<optional<Tensor>> indices, const Tensor& values,
                   bool accumulate) {
  return self.index_put_(tensor_indices(indices), values, accumulate);
}

}  // namespace at
