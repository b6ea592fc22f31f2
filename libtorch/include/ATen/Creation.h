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

/// Numbers in nested braces, as given to `tensor`.
class NestedList {
 public:
  template <class T>
    requires weft::Arithmetic<T> || weft::ComplexNumber<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>
    NestedList(T value) : scalar_(value), type_(weft::dtype_of<T>()), is_number_(true) {}
    NestedList(std::initializer_list<NestedList> list);
    template <class C>
      requires requires(const C& c) {
        c.begin();
        c.end();
        c.size();
        requires std::is_arithmetic_v<typename C::value_type> || weft::ComplexNumber<typename C::value_type>;
      }
    NestedList(const C& container) : type_(weft::dtype_of<typename C::value_type>()) {
      items_.reserve(static_cast<size_t>(container.size()));
      for (auto&& value : container) items_.push_back(NestedList(static_cast<typename C::value_type>(value)));
      shape_.push_back(static_cast<int64_t>(items_.size()));
    }
    Tensor tensor(const TensorOptions& options, Location where) const;

   private:
    template <class T>
    void collect(std::vector<T>& out) const;
    Scalar scalar_;
    ScalarType type_;
    bool is_number_ = false;
    Dims shape_;
    std::vector<NestedList> items_;
};

}  // namespace detail

/// `tensor({{1, 2}, {3, 4}})`. Integers give int64, floating-point numbers the default dtype.
inline Tensor tensor(const detail::NestedList& values, const TensorOptions& options = {}, Location where = {}) {
  return values.tensor(options, where);
}
inline Tensor tensor(std::initializer_list<detail::NestedList> values, const TensorOptions& options = {},
                     Location where = {}) {
  return detail::NestedList(values).tensor(options, where);
}
/// A container or array of numbers, copied at once.
template <class T>
  requires std::is_arithmetic_v<T> Tensor tensor(ArrayRef<T> values, const TensorOptions& options = {},
                                                 Location where = {}) {
    weft::TensorOptions own = options;
    if (!own.dtype) {
      own.dtype = std::is_same_v<T, bool>       ? weft::DType::boolean
                  : std::is_floating_point_v<T> ? weft::default_dtype()
                                                : weft::DType::i64;
    }
    return weft::detail::from_elements(values.data(), weft::dtype_of<T>(), Dims(values.size()), own, where);
  }
template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {}, Location where = {}) {
  return tensor(ArrayRef<T>(values), options, where);
}

}  // namespace at
