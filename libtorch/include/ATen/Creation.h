// New tensors: zeros, randn, arange, tensor({…}), from_blob.
#pragma once

#include <weft/ops/create.hpp>

#include <ATen/core/Tensor.h>

namespace at {

Tensor empty(const Dims& size, const TensorOptions& options = {}, optional<MemoryFormat> format = nullopt,
             Location where = {});
Tensor empty_strided(const Dims& size, const Dims& stride, const TensorOptions& options = {}, Location where = {});
Tensor zeros(const Dims& size, const TensorOptions& options = {}, Location where = {});
Tensor ones(const Dims& size, const TensorOptions& options = {}, Location where = {});
Tensor full(const Dims& size, const Scalar& value, const TensorOptions& options = {}, Location where = {});
Tensor rand(const Dims& size, const TensorOptions& options = {}, Location where = {});
Tensor randn(const Dims& size, const TensorOptions& options = {}, Location where = {});
Tensor rand(const Dims& size, const optional<Generator>& generator, const TensorOptions& options = {},
            Location where = {});
Tensor randn(const Dims& size, const optional<Generator>& generator, const TensorOptions& options = {},
             Location where = {});
Tensor randint(int64_t high, const Dims& size, const TensorOptions& options = {}, Location where = {});
Tensor randint(int64_t low, int64_t high, const Dims& size, const TensorOptions& options = {}, Location where = {});
Tensor randperm(int64_t n, const TensorOptions& options = kLong, Location where = {});
Tensor arange(const Scalar& end, const TensorOptions& options = {}, Location where = {});
Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& options = {}, Location where = {});
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const TensorOptions& options = {},
              Location where = {});
Tensor range(const Scalar& start, const Scalar& end, const TensorOptions& options = {}, Location where = {});
Tensor linspace(const Scalar& start, const Scalar& end, int64_t steps = 100, const TensorOptions& options = {},
                Location where = {});
Tensor logspace(const Scalar& start, const Scalar& end, int64_t steps = 100, double base = 10,
                const TensorOptions& options = {}, Location where = {});
Tensor eye(int64_t n, const TensorOptions& options = {}, Location where = {});
Tensor eye(int64_t n, int64_t m, const TensorOptions& options = {}, Location where = {});
Tensor scalar_tensor(const Scalar& value, const TensorOptions& options = {}, Location where = {});
Tensor hann_window(int64_t length, bool periodic = true, const TensorOptions& options = {});
Tensor hamming_window(int64_t length, bool periodic = true, const TensorOptions& options = {});
Tensor bartlett_window(int64_t length, bool periodic = true, const TensorOptions& options = {});
Tensor blackman_window(int64_t length, bool periodic = true, const TensorOptions& options = {});

Tensor empty_like(const Tensor& self, const TensorOptions& options = {}, optional<MemoryFormat> format = nullopt,
                  Location where = {});
Tensor zeros_like(const Tensor& self, const TensorOptions& options = {}, optional<MemoryFormat> format = nullopt,
                  Location where = {});
Tensor ones_like(const Tensor& self, const TensorOptions& options = {}, optional<MemoryFormat> format = nullopt,
                 Location where = {});
Tensor full_like(const Tensor& self, const Scalar& value, const TensorOptions& options = {},
                 optional<MemoryFormat> format = nullopt, Location where = {});
Tensor rand_like(const Tensor& self, const TensorOptions& options = {}, optional<MemoryFormat> format = nullopt,
                 Location where = {});
Tensor randn_like(const Tensor& self, const TensorOptions& options = {}, optional<MemoryFormat> format = nullopt,
                  Location where = {});
Tensor randint_like(const Tensor& self, int64_t high, const TensorOptions& options = {}, Location where = {});
Tensor randint_like(const Tensor& self, int64_t low, int64_t high, const TensorOptions& options = {},
                    Location where = {});

/// A tensor over memory that the caller owns; `deleter(data)` runs when the last tensor over it is gone.
using Deleter = std::function<void(void*)>;
Tensor from_blob(void* data, const Dims& sizes, const Dims& strides, const Deleter& deleter,
                 const TensorOptions& options = {});
inline Tensor from_blob(void* data, const Dims& sizes, const Deleter& deleter, const TensorOptions& options = {}) {
  return from_blob(data, sizes, Dims(), deleter, options);
}
inline Tensor from_blob(void* data, const Dims& sizes, const Dims& strides, const TensorOptions& options = {}) {
  return from_blob(data, sizes, strides, Deleter(), options);
}
inline Tensor from_blob(void* data, const Dims& sizes, const TensorOptions& options = {}) {
  return from_blob(data, sizes, Dims(), Deleter(), options);
}

namespace detail {
template <class T>
concept ElementType =
    weft::Arithmetic<T> || weft::ComplexNumber<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
}

/// Numbers in one dimension. The dtype is that of T, unlike in torch::tensor.
template <detail::ElementType T>
Tensor tensor(ArrayRef<T> values, const TensorOptions& options = {}, Location where = {}) {
  const TensorOptions typed = options.dtype(options.dtype_opt().value_or(ScalarType::Make<T>()));
  return weft::detail::from_elements(values.data(), weft::dtype_of<T>(), Dims(values.size()), typed, where);
}
template <detail::ElementType T>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {}, Location where = {}) {
  return tensor(ArrayRef<T>(values), options, where);
}
template <detail::ElementType T>
  requires(!std::is_same_v<T, bool>)
Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {}, Location where = {}) {
  return tensor(ArrayRef<T>(values), options, where);
}
/// One number in one dimension.
template <detail::ElementType T>
Tensor tensor(T value, const TensorOptions& options = {}, Location where = {}) {
  return tensor(ArrayRef<T>(value), options, where);
}

}  // namespace at
