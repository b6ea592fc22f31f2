// Tensor's methods that are more than a call of Weft.
#include <iostream>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>

#include <weft/autograd/engine.hpp>
#include <weft/autograd/node.hpp>
#include <weft/ops/diagonal.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/scatter.hpp>

namespace at {

TensorVector wrap(std::vector<weft::Tensor>&& tensors) {
  return TensorVector(std::make_move_iterator(tensors.begin()), std::make_move_iterator(tensors.end()));
}
std::span<const weft::Tensor> unwrap(TensorList tensors) {
  return {static_cast<const weft::Tensor*>(tensors.data()), tensors.size()};
}
weft::Approximate approximation(std::string_view name) {
  TORCH_CHECK(name == "none" || name == "tanh", "approximate argument must be either none or tanh.");
  return name == "tanh" ? weft::Approximate::tanh : weft::Approximate::none;
}
weft::Rounding rounding(const optional<std::string_view>& mode) {
  if (!mode) return weft::Rounding::none;
  TORCH_CHECK(*mode == "floor" || *mode == "trunc",
              "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", *mode, "'");
  return *mode == "floor" ? weft::Rounding::floor : weft::Rounding::trunc;
}

// ---- properties ----
Device Tensor::device() const { return Device(Base::device()); }

bool Tensor::is_contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::ChannelsLast && dim() == 4) return permute({0, 2, 3, 1}).weft::Tensor::is_contiguous();
  if (format == MemoryFormat::ChannelsLast3d && dim() == 5) {
    return permute({0, 2, 3, 4, 1}).weft::Tensor::is_contiguous();
  }
  return Base::is_contiguous();
}

std::string Tensor::toString() const {
  if (!defined()) return "UndefinedType";
  return DeviceTypeName(device().type()) + c10::toString(scalar_type()) + "Type";
}
void Tensor::print() const { std::cerr << "[" << toString() << " " << sizes() << "]\n"; }

Tensor Tensor::_base() const {
  if (!is_view()) throw weft::AutogradError("Can't get base of non-view Variable");
  return weft::Tensor::share(impl()->base);
}

// ---- autograd ----
void Tensor::backward(const Tensor& gradient, optional<bool> retain_graph, bool create_graph,
                      optional<TensorList> inputs, Location where) const {
  const weft::BackwardOptions options{.retain_graph = retain_graph.value_or(create_graph),
                                      .create_graph = create_graph};
  if (inputs) {
    TORCH_CHECK(!inputs->empty(), "'inputs' argument to backward cannot be empty");
    torch::autograd::backward({*this}, gradient.defined() ? TensorVector{gradient} : TensorVector{}, retain_graph,
                              create_graph, inputs->vec());
    return;
  }
  if (gradient.defined()) Base::backward(gradient, options, where);
  else Base::backward(options, where);
}

bool Tensor::retains_grad() const {
  if (is_leaf() || impl()->node == nullptr) return false;
  const weft::NodeHooks* hooks = impl()->node->hooks.load(weft::MemoryOrder::acquire);
  return hooks != nullptr && hooks->retains.load(weft::MemoryOrder::relaxed);
}

void Tensor::warn_of_missing_grad() const {
  if (retains_grad()) return;
  TORCH_WARN(
      "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
      "populated during autograd.backward(). Call .retain_grad() on it before backward.");
}

// ---- conversions ----
namespace {

Tensor converted(const Tensor& x, const weft::Tensor& result, bool copy) {
  return copy && result.impl() == x.impl() ? Tensor(x.clone()) : Tensor(result);
}

}  // namespace

Tensor Tensor::contiguous(MemoryFormat format, Location where) const {
  if (format == MemoryFormat::ChannelsLast && dim() == 4) {
    return permute({0, 2, 3, 1}).contiguous(MemoryFormat::Contiguous, where).permute({0, 3, 1, 2});
  }
  return Base::contiguous(where);
}
Tensor Tensor::to(Device device, ScalarType dtype, bool non_blocking, bool copy, optional<MemoryFormat>) const {
  if (non_blocking) return converted(*this, Base::to(device, {.non_blocking = true}).to(dtype.value), copy);
  return converted(*this, Base::to(weft::Device(device), dtype.value), copy);
}
Tensor Tensor::to(const TensorOptions& options, bool non_blocking, bool copy, optional<MemoryFormat> format) const {
  TORCH_CHECK(!options.requires_grad(),
              "to: expected options without requires_grad; call requires_grad_() on the result");
  return to(options.device_opt().value_or(device()), options.dtype_opt().value_or(scalar_type()), non_blocking, copy,
            format);
}
Tensor Tensor::to(ScalarType dtype, bool, bool copy, optional<MemoryFormat>) const {
  return converted(*this, Base::to(dtype.value), copy);
}
Tensor Tensor::to(const Tensor& other, bool non_blocking, bool copy, optional<MemoryFormat> format) const {
  return to(other.device(), other.scalar_type(), non_blocking, copy, format);
}

// ---- new tensors ----
Tensor Tensor::new_empty(const Dims& size, const TensorOptions& options) const {
  return empty(size, this->options().merge_in(options));
}
Tensor Tensor::new_zeros(const Dims& size, const TensorOptions& options) const {
  return zeros(size, this->options().merge_in(options));
}
Tensor Tensor::new_ones(const Dims& size, const TensorOptions& options) const {
  return ones(size, this->options().merge_in(options));
}
Tensor Tensor::new_full(const Dims& size, const Scalar& value, const TensorOptions& options) const {
  return full(size, value, this->options().merge_in(options));
}

// ---- ops ----
Tensor Tensor::reversed_dims(Location where) const {
  Dims order;
  for (int i = Base::dim() - 1; i >= 0; --i) order.push_back(i);
  return Base::permute(order, where);
}
int Tensor::cross_dim(optional<int64_t> dim) const {
  if (dim) return i32(*dim);
  for (int i = 0; i < Base::dim(); ++i) {
    if (size(i) == 3) return i;
  }
  return -1;
}
TensorPair Tensor::pair(weft::MantissaAndExponent&& both) {
  return {std::move(both.mantissa), std::move(both.exponent)};
}
TensorPair Tensor::pair(weft::MinMax&& both) { return {std::move(both.min), std::move(both.max)}; }

std::vector<Tensor> Tensor::nonzero_numpy() const { return at::where(*this); }
std::tuple<Tensor, Tensor> Tensor::slogdet() const { return at::slogdet(*this); }
std::tuple<Tensor, Tensor, Tensor> Tensor::svd(bool some, bool compute_uv) const {
  return at::svd(*this, some, compute_uv);
}

Tensor& Tensor::random_(optional<Generator> generator) const {
  // libtorch draws every integer that the dtype represents exactly.
  const weft::DType dtype = Base::dtype();
  int64_t high = INT64_MAX;
  if (dtype == weft::DType::f32) high = int64_t{1} << 24;
  else if (dtype == weft::DType::f64) high = int64_t{1} << 53;
  else if (dtype == weft::DType::f16) high = 1 << 11;
  else if (dtype == weft::DType::bf16) high = 1 << 8;
  else if (dtype == weft::DType::boolean) high = 1;
  else if (dtype != weft::DType::i64 && dtype != weft::DType::u64) {
    high = (int64_t{1} << (8 * Base::itemsize() - (weft::is_signed(dtype) ? 1 : 0))) - 1;
  }
  return random_(0, high == INT64_MAX ? high : high + 1, generator);
}
Tensor& Tensor::random_(int64_t to, optional<Generator> generator) const { return random_(0, to, generator); }
Tensor& Tensor::random_(int64_t from, optional<int64_t> to, optional<Generator> generator) const {
  const weft::Tensor drawn =
      weft::randint(from, to.value_or(INT64_MAX), shape(), {.dtype = weft::DType::i64, .device = Base::device()},
                    generator_of(generator));
  return copy_(drawn.to(Base::dtype()));
}

Tensor& Tensor::fill_diagonal_(const Scalar& value, bool wrap) const {
  TORCH_CHECK(dim() >= 2, "dimensions must larger than 1");
  Tensor matrix = *this;
  if (dim() > 2) {
    int64_t step = 0;
    for (int i = 0; i < dim(); ++i) step += stride(i);
    matrix.as_strided({*std::min_element(sizes().begin(), sizes().end())}, {step}).fill_(value);
    return self();
  }
  matrix.diagonal().fill_(value);
  const int64_t columns = size(1);
  for (int64_t row = columns + 1; wrap && row < size(0); row += columns + 1) {
    matrix.slice(0, row, nullopt).diagonal().fill_(value);
  }
  return self();
}

namespace {

weft::ScatterReduction scatter_reduction(std::string_view name) {
  using enum weft::ScatterReduction;
  if (name == "add" || name == "sum") return sum;
  if (name == "multiply" || name == "prod") return prod;
  if (name == "mean") return mean;
  if (name == "amax") return amax;
  TORCH_CHECK(name == "amin", "reduce argument must be one of sum, prod, mean, amax, amin, got '", name, "'");
  return amin;
}

}  // namespace

Tensor Tensor::scatter(int64_t dim, const Tensor& index, const Operand& source, std::string_view reduce) const {
  return weft::scatter(*this, i32(dim), index, source, scatter_reduction(reduce));
}
Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, const Operand& source, std::string_view reduce) const {
  weft::scatter_(*this, i32(dim), index, source, scatter_reduction(reduce));
  return self();
}
Tensor Tensor::scatter_reduce(int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                              bool include_self) const {
  return weft::scatter_reduce(*this, i32(dim), index, source, scatter_reduction(reduce), include_self);
}

}  // namespace at
