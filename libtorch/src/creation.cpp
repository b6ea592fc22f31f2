// New tensors.
#include <ATen/ATen.h>

#include <weft/ops/random.hpp>

namespace at {

namespace {

weft::TensorOptions plain(const TensorOptions& options) { return options; }

Tensor full_options(Tensor made, const TensorOptions& options) {
  if (options.pinned_memory()) return made.pin_memory();
  return made;
}

/// dtype of full() and arange(): int64 for integers, else the default dtype.
weft::TensorOptions typed(const TensorOptions& options, std::initializer_list<Scalar> values) {
  weft::TensorOptions own = options;
  if (own.dtype) return own;
  own.dtype = weft::DType::i64;
  for (const Scalar& value : values) {
    if (value.isFloatingPoint()) own.dtype = weft::default_dtype();
  }
  return own;
}

}  // namespace

Tensor empty(const Dims& size, const TensorOptions& options, optional<MemoryFormat>, Location where) {
  return full_options(weft::empty(size, plain(options), where), options);
}
Tensor empty_strided(const Dims& size, const Dims& stride, const TensorOptions& options, Location where) {
  int64_t last = 0;
  for (int i = 0; i < size.size(); ++i) last = size[i] == 0 ? last : last + (size[i] - 1) * stride[i];
  const Tensor block = empty({size.product() == 0 ? 0 : last + 1}, options.requires_grad(false), nullopt, where);
  return block.as_strided(size, stride, nullopt, where).detach().requires_grad_(options.requires_grad());
}
Tensor zeros(const Dims& size, const TensorOptions& options, Location where) {
  return full_options(weft::zeros(size, plain(options), where), options);
}
Tensor ones(const Dims& size, const TensorOptions& options, Location where) {
  return full_options(weft::ones(size, plain(options), where), options);
}
Tensor full(const Dims& size, const Scalar& value, const TensorOptions& options, Location where) {
  weft::TensorOptions own = options;
  if (!own.dtype) {
    own.dtype = value.isBoolean()         ? weft::DType::boolean
                : value.isFloatingPoint() ? weft::default_dtype()
                : value.isComplex()       ? weft::complex_type(weft::default_dtype())
                                          : weft::DType::i64;
  }
  return full_options(weft::full(size, value, own, where), options);
}
Tensor rand(const Dims& size, const TensorOptions& options, Location where) {
  return weft::rand(size, plain(options), nullptr, where);
}
Tensor randn(const Dims& size, const TensorOptions& options, Location where) {
  return weft::randn(size, plain(options), nullptr, where);
}
Tensor rand(const Dims& size, const optional<Generator>& generator, const TensorOptions& options, Location where) {
  return weft::rand(size, plain(options), generator_of(generator), where);
}
Tensor randn(const Dims& size, const optional<Generator>& generator, const TensorOptions& options, Location where) {
  return weft::randn(size, plain(options), generator_of(generator), where);
}
Tensor randint(int64_t high, const Dims& size, const TensorOptions& options, Location where) {
  return randint(0, high, size, options, where);
}
Tensor randint(int64_t low, int64_t high, const Dims& size, const TensorOptions& options, Location where) {
  weft::TensorOptions own = options.requires_grad(false);
  own.dtype = weft::DType::i64;
  const Tensor drawn = weft::randint(low, high, size, own, nullptr, where);
  return drawn.to(options.dtype_opt().value_or(kLong)).requires_grad_(options.requires_grad());
}
Tensor randperm(int64_t n, const TensorOptions& options, Location where) {
  return weft::randperm(n, plain(options), nullptr, where);
}
Tensor arange(const Scalar& end, const TensorOptions& options, Location where) {
  return weft::arange(end, typed(options, {end}), where);
}
Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& options, Location where) {
  return weft::arange(start, end, 1, typed(options, {start, end}), where);
}
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const TensorOptions& options,
              Location where) {
  return weft::arange(start, end, step, typed(options, {start, end, step}), where);
}
Tensor range(const Scalar& start, const Scalar& end, const TensorOptions& options, Location where) {
  return weft::arange(start, end.toDouble() + 1, 1, plain(options), where);
}
Tensor linspace(const Scalar& start, const Scalar& end, int64_t steps, const TensorOptions& options, Location where) {
  return weft::linspace(start, end, steps, plain(options), where);
}
Tensor logspace(const Scalar& start, const Scalar& end, int64_t steps, double base, const TensorOptions& options,
                Location where) {
  const Tensor exponents = linspace(start, end, steps, options.dtype(kDouble).requires_grad(false), where);
  return weft::pow(base, exponents).to(*c10::dtype_of(optional<ScalarType>(options.dtype())));
}
Tensor eye(int64_t n, const TensorOptions& options, Location where) {
  return weft::eye(n, nullopt, plain(options), where);
}
Tensor eye(int64_t n, int64_t m, const TensorOptions& options, Location where) {
  return weft::eye(n, m, plain(options), where);
}
Tensor scalar_tensor(const Scalar& value, const TensorOptions& options, Location where) {
  return full({}, value, options.dtype(options.dtype()), where);
}

namespace {

/// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n)
Tensor cosine_window(int64_t length, bool periodic, double a0, double a1, double a2, const TensorOptions& options) {
  if (length == 1) return ones({1}, options);
  const double step = 2 * 3.141592653589793 / static_cast<double>(periodic ? length : length - 1);
  const Tensor angle = arange(length, kDouble) * step;
  return (a0 - a1 * angle.cos() + a2 * (angle * 2).cos()).to(options.dtype());
}

}  // namespace

Tensor hann_window(int64_t length, bool periodic, const TensorOptions& options) {
  return cosine_window(length, periodic, 0.5, 0.5, 0, options);
}
Tensor hamming_window(int64_t length, bool periodic, const TensorOptions& options) {
  return cosine_window(length, periodic, 0.54, 0.46, 0, options);
}
Tensor blackman_window(int64_t length, bool periodic, const TensorOptions& options) {
  return cosine_window(length, periodic, 0.42, 0.5, 0.08, options);
}
Tensor bartlett_window(int64_t length, bool periodic, const TensorOptions& options) {
  if (length == 1) return ones({1}, options);
  const double last = static_cast<double>(periodic ? length : length - 1);
  return (1 - (arange(length, kDouble) * (2 / last) - 1).abs()).to(options.dtype());
}

#define LIKE(name)                                                                                               \
  Tensor name##_like(const Tensor& self, const TensorOptions& options, optional<MemoryFormat>, Location where) { \
    return weft::name##_like(self, weft::LikeOptions(options), where);                                           \
  }
LIKE(empty)
LIKE(zeros)
LIKE(ones)
#undef LIKE
Tensor full_like(const Tensor& self, const Scalar& value, const TensorOptions& options, optional<MemoryFormat>,
                 Location where) {
  return weft::full_like(self, value, weft::LikeOptions(options), where);
}
Tensor rand_like(const Tensor& self, const TensorOptions& options, optional<MemoryFormat>, Location where) {
  return rand(self.shape(), self.options().merge_in(options), where);
}
Tensor randn_like(const Tensor& self, const TensorOptions& options, optional<MemoryFormat>, Location where) {
  return randn(self.shape(), self.options().merge_in(options), where);
}
Tensor randint_like(const Tensor& self, int64_t high, const TensorOptions& options, Location where) {
  return randint(0, high, self.shape(), self.options().merge_in(options), where);
}
Tensor randint_like(const Tensor& self, int64_t low, int64_t high, const TensorOptions& options, Location where) {
  return randint(low, high, self.shape(), self.options().merge_in(options), where);
}

Tensor from_blob(void* data, const Dims& sizes, const Dims& strides, const Deleter& deleter,
                 const TensorOptions& options) {
  weft::Owner owner;
  if (deleter) owner = std::shared_ptr<void>(data, deleter);
  weft::TensorOptions own = options;
  if (!own.dtype) own.dtype = weft::default_dtype();
  return weft::detail::wrap_memory(data, sizes, strides, own, std::move(owner), {});
}

}  // namespace at
