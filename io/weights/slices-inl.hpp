// Tensors assembled from slices of other tensors; no elements are read. Internal to io/.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "../tensor_store.hpp"
#include "box-inl.hpp"

namespace weft::io {

/// A box of the assembled tensor and the source of its elements.
struct Slice {
  Box box;
  /// Name in the source store, which owns the string.
  const std::string* source;
  /// Start of the slice in the source, and the source dimension of each dimension.
  Dims from, axes;
  /// dtypes to which the elements are converted, in order.
  std::vector<DType> casts = {};
};

/// An assembled tensor. Its slices cover it without overlap; empty slices are omitted.
struct SlicedTensor {
  TensorStore::Info info;
  std::vector<Slice> slices;
};

SlicedTensor whole_of(const std::string& name, const TensorStore::Info& info);

/// `permutation` has the tensor's rank.
SlicedTensor permuted(const SlicedTensor& t, const Dims& permutation);
SlicedTensor converted(const SlicedTensor& t, DType dtype);
/// Only the box, as a separate tensor.
SlicedTensor boxed(const SlicedTensor& t, const Box& box);
/// Concatenates along `axis`. dtypes and other sizes are equal; `shape` is the shape of the result.
SlicedTensor joined(std::span<const Shared<const SlicedTensor>> parts, int axis, const Dims& shape);

/// Reads the elements of a box, and only the necessary elements of the source.
Tensor elements_of(const SlicedTensor& t, const Box& box, const TensorStore& source, Location where);

}  // namespace weft::io
