// Collating samples into a batch. Tensors are stacked, numbers become a tensor, strings a vector. Arrays, pairs, tuples
// and structs of up to six members are collated member by member. A struct of tensors keeps its type; other structs
// become tuples.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "fields.hpp"
#include "../tensor/index.hpp"

namespace weft::data {

struct PadOptions {
  /// The padding value.
  Scalar value = 0;
  /// The common length is the longest, rounded up to a multiple of this.
  int64_t multiple_of = 1;
  /// A fixed common length; 0 uses the longest sample. Raises ValueError for a longer sample.
  int64_t length = 0;
};

/// Sequences of unequal length, padded into one tensor.
struct Padded {
  Tensor values;   ///< [batch, length, …]
  Tensor lengths;  ///< i64 [batch]

  /// Returns bool [batch, length]: true where `values` has an element of the sample.
  WEFT_API Tensor mask(Location where = {}) const;
};

namespace detail {

/// In error messages of these functions, samples are named by their index in the loader's batch.
WEFT_API Tensor stacked(std::span<const Tensor> samples);
WEFT_API Padded padded(std::span<const Tensor> samples, const PadOptions& options);
WEFT_API Tensor numbers(const void* values, DType element, size_t count, DType dtype);

/// The dtype that weft::tensor would choose: the default dtype for double, i64 for int.
template <class T>
DType number_type() {
  if constexpr (std::same_as<T, double>) return default_dtype();
  else if constexpr (std::same_as<T, int>) return DType::i64;
  else return dtype_of<T>();
}

struct Stacking {
  Tensor operator()(std::span<const Tensor> samples) const { return stacked(samples); }
};
struct Padding {
  PadOptions options;
  Tensor operator()(std::span<const Tensor> samples) const { return padded(samples, options).values; }
};
struct PaddingWithLengths {
  PadOptions options;
  Padded operator()(std::span<const Tensor> samples) const { return padded(samples, options); }
};

template <class T, class Join>
auto collate_values(std::vector<T>&& values, const Join& join);

/// Collates member i of all samples.
template <size_t i, class T, class Join>
auto collate_field(std::vector<T>& samples, const Join& join) {
  using Field = std::remove_cvref_t<decltype(field<i>(samples[0]))>;
  std::vector<Field> values;
  values.reserve(samples.size());
  for (T& sample : samples) values.push_back(std::move(field<i>(sample)));
  return collate_values(std::move(values), join);
}

template <class T, class Join>
auto collate_fields(std::vector<T>& samples, const Join& join) {
  return [&]<size_t... i>(std::index_sequence<i...>) { return rebuilt<T>(collate_field<i>(samples, join)...); }
  (std::make_index_sequence<field_count<T>>());
}

template <class T, class Join>
auto collate_values(std::vector<T>&& values, const Join& join) {
  if constexpr (std::same_as<T, Tensor>) {
    return join(std::span<const Tensor>(values));
  } else if constexpr (Arithmetic<T>) {
    using Held = std::conditional_t<std::same_as<T, bool>, unsigned char, T>;  // std::vector<bool> stores bits
    const std::vector<Held> held(values.begin(), values.end());
    return numbers(held.data(), dtype_of<T>(), held.size(), number_type<T>());
  } else if constexpr (NumberList<T>) {
    std::vector<Tensor> rows;
    rows.reserve(values.size());
    using Number = typename T::value_type;
    for (const T& v : values) rows.push_back(numbers(v.data(), dtype_of<Number>(), v.size(), number_type<Number>()));
    return join(std::span<const Tensor>(rows));
  } else if constexpr (HasFields<T>) {
    return collate_fields(values, join);
  } else {
    return std::move(values);
  }
}

}  // namespace detail

/// The default collate function. A custom one takes a std::vector of samples. Raises ShapeError, naming two samples, if
/// their tensors differ in shape.
struct Collate {
  template <class T>
  auto operator()(std::vector<T> samples) const {
    return detail::collate_values(std::move(samples), detail::Stacking{});
  }
};

/// Same, but pads every tensor of at least one dimension at the end of dimension 0 to the longest of the batch.
/// std::vectors of numbers count as tensors.
struct Pad {
  PadOptions options;
  template <class T>
  auto operator()(std::vector<T> samples) const {
    return detail::collate_values(std::move(samples), detail::Padding{options});
  }
};
/// Same, with a Padded for every tensor.
struct PadWithLengths {
  PadOptions options;
  template <class T>
  auto operator()(std::vector<T> samples) const {
    return detail::collate_values(std::move(samples), detail::PaddingWithLengths{options});
  }
};
inline Pad pad(const PadOptions& options = {}) { return {options}; }
inline PadWithLengths pad_with_lengths(const PadOptions& options = {}) { return {options}; }

}  // namespace weft::data
