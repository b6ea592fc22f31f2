// Strided arrays in host memory for tests that call kernels directly.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include <weft/tensor/dtype.hpp>
#include <weft/tensor/view.hpp>

namespace weft::test {

struct ArrayShape {
  std::vector<int64_t> sizes;
  std::vector<int> order = {};      ///< dimensions from the outermost to the innermost in memory; as listed where empty
  std::vector<int> repeated = {};   ///< dimensions of stride 0
  std::vector<int> backwards = {};  ///< dimensions of negative stride
  int64_t gap = 1;                  ///< elements from one to the next along the innermost dimension
};

class HostArray {
 public:
  HostArray() { view.data = nullptr; }
  HostArray(DType dtype, const ArrayShape& shape) {
    Layout& l = view.layout;
    l.dtype = dtype;
    l.rank = static_cast<uint8_t>(shape.sizes.size());
    std::vector<int> order = shape.order;
    if (order.empty()) {
      order.resize(shape.sizes.size());
      std::iota(order.begin(), order.end(), 0);
    }
    int64_t stride = itemsize(dtype) * shape.gap;
    for (size_t i = 0; i < shape.sizes.size(); ++i) l.sizes[i] = shape.sizes[i];
    for (auto d = order.rbegin(); d != order.rend(); ++d) {
      l.strides[*d] = stride;
      stride *= l.sizes[*d];
    }
    bytes_.resize(static_cast<size_t>(stride) + 64);
    view.data = bytes_.data();
    for (int d : shape.repeated) l.strides[d] = 0;
    for (int d : shape.backwards) {
      view.data = static_cast<char*>(view.data) + l.strides[d] * std::max<int64_t>(l.sizes[d] - 1, 0);
      l.strides[d] = -l.strides[d];
    }
    int64_t dense = itemsize(dtype);
    for (int d = l.rank - 1; d >= 0; --d) {
      if (l.sizes[d] != 1 && l.strides[d] != dense) l.contiguous = 0;
      dense *= l.sizes[d];
      l.numel *= l.sizes[d];
    }
    if (l.numel <= 1) l.contiguous = 1;
  }
  HostArray(DType dtype, const ArrayShape& shape, unsigned seed) : HostArray(dtype, shape) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> real(-1, 1);
    const double shift = is_signed(dtype) || itemsize(dtype) == 1 ? 5 : 0;  // a double does not hold 2^64 - 5
    for (int64_t i = 0; i < view.layout.numel; ++i) set(i, is_inexact(dtype) ? real(random) : random() % 11 - shift);
  }
  HostArray(HostArray&& other) = default;
  HostArray& operator=(HostArray&& other) = default;

  int64_t numel() const { return view.layout.numel; }
  /// The address of the element at a row-major position.
  char* at(int64_t position) const {
    char* p = static_cast<char*>(view.data);
    for (int d = view.layout.rank - 1; d >= 0; --d) {
      p += position % view.layout.sizes[d] * view.layout.strides[d];
      position /= view.layout.sizes[d];
    }
    return p;
  }
  /// Of complex numbers the real part; `set` makes real ones.
  double get(int64_t position) const {
    return visit_dtype(view.layout.dtype, [&]<class T>() -> double {
      const T x = *reinterpret_cast<const T*>(at(position));
      if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(x);
      else if constexpr (ComplexNumber<T>) return static_cast<double>(x.re);
      else return to_float(x);
    });
  }
  /// An integer; of u64 those of its upper half as negative ones.
  int64_t whole(int64_t position) const {
    return visit_dtype(view.layout.dtype, [&]<class T>() -> int64_t {
      if constexpr (std::is_integral_v<T>) return static_cast<int64_t>(*reinterpret_cast<const T*>(at(position)));
      else throw std::logic_error("not an integer");
    });
  }
  void set(int64_t position, double value) {
    visit_dtype(view.layout.dtype, [&]<class T>() {
      T& x = *reinterpret_cast<T*>(at(position));
      if constexpr (std::is_same_v<T, float16>) x = to_float16(static_cast<float>(value));
      else if constexpr (std::is_same_v<T, bfloat16>) x = to_bfloat16(static_cast<float>(value));
      else if constexpr (std::is_floating_point_v<T>) x = static_cast<T>(value);
      else if constexpr (std::is_arithmetic_v<T>) x = static_cast<T>(static_cast<int64_t>(value));
      else if constexpr (ComplexNumber<T>) x = T(static_cast<typename T::value_type>(value));
      else if constexpr (std::is_same_v<T, float8_e5m2>) x = to_float8_e5m2(static_cast<float>(value));
      else if constexpr (std::is_same_v<T, float8_e4m3fnuz>) x = to_float8_e4m3fnuz(static_cast<float>(value));
      else if constexpr (std::is_same_v<T, float8_e5m2fnuz>) x = to_float8_e5m2fnuz(static_cast<float>(value));
      else if constexpr (std::is_same_v<T, float8_e8m0fnu>) x = to_float8_e8m0fnu(static_cast<float>(value));
      else x = to_float8_e4m3fn(static_cast<float>(value));
    });
  }
  /// Every element, row-major.
  std::vector<double> values() const {
    std::vector<double> all(static_cast<size_t>(numel()));
    for (int64_t i = 0; i < numel(); ++i) all[static_cast<size_t>(i)] = get(i);
    return all;
  }

  View view;

 private:
  std::vector<char> bytes_;
};

}  // namespace weft::test
