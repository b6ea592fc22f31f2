// From samples to a batch. Tensors are stacked, numbers become a tensor, strings a vector; arrays, pairs, tuples and
// structs of up to six members are collated member by member. A struct of tensors stays the struct that it is, another
// becomes a tuple.
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
  /// What stands behind the end of a sample.
  Scalar value = 0;
  /// The common length is the longest rounded up to a multiple of this.
  int64_t multiple_of = 1;
  /// The common length, where it is not to follow from the samples. ValueError for a longer sample.
  int64_t length = 0;
};

/// Sequences of unequal length in one tensor.
struct Padded {
  Tensor values;   ///< [batch, length, …]
  Tensor lengths;  ///< i64 [batch]

  /// bool [batch, length]: true where `values` has an element of the sample.
  WEFT_API Tensor mask(Location where = {}) const;
};

namespace detail {

/// A tensor of numbers for each sample, and the texts of errors name the samples of the loader's batch.
WEFT_API Tensor stacked(std::span<const Tensor> samples);
WEFT_API Padded padded(std::span<const Tensor> samples, const PadOptions& options);
WEFT_API Tensor numbers(const void* values, DType element, size_t count, DType dtype);

/// As weft::tensor reads numbers: double gives the default dtype, int i64.
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

/// Part i of every sample, as a batch.
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
    using Held = std::conditional_t<std::same_as<T, bool>, unsigned char, T>;  // a vector of bool would be of bits
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

/// What a loader does with samples unless told otherwise. A function of one's own takes a std::vector of samples, and
/// is handed to the loader in its place. ShapeError where tensors differ in shape; it names two samples.
struct Collate {
  template <class T>
  auto operator()(std::vector<T> samples) const {
    return detail::collate_values(std::move(samples), detail::Stacking{});
  }
};

/// The same, with every tensor of at least one dimension padded behind its end to the longest of the batch along
/// dimension 0; std::vectors of numbers count as tensors.
struct Pad {
  PadOptions options;
  template <class T>
  auto operator()(std::vector<T> samples) const {
    return detail::collate_values(std::move(samples), detail::Padding{options});
  }
};
/// The same, with a Padded for every tensor.
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
