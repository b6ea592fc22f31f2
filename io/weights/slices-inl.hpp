// Tensors that are put together from parts of others, without their elements. Internal to io/.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "../tensor_store.hpp"
#include "box-inl.hpp"

namespace weft::io {

/// A box of the tensor that is made, and where its elements come from.
struct Slice {
  Box box;
  /// Of the store that is read, which keeps it.
  const std::string* source;
  /// Where the slice begins in the source, and which of the source's dimensions each dimension is.
  Dims from, axes;
  /// The dtypes that the elements become, one after the other.
  std::vector<DType> casts = {};
};

/// A tensor to be made; its slices cover it without overlap, those without elements are left out.
struct SlicedTensor {
  TensorStore::Info info;
  std::vector<Slice> slices;
};

/// All of a store's tensor.
SlicedTensor whole_of(const std::string& name, const TensorStore::Info& info);

/// `permutation` is one of the rank.
SlicedTensor permuted(const SlicedTensor& t, const Dims& permutation);
SlicedTensor converted(const SlicedTensor& t, DType dtype);
/// The box alone, as a tensor of its own.
SlicedTensor boxed(const SlicedTensor& t, const Box& box);
/// One behind the other along `axis`; dtypes and other sizes are the same, `shape` is what they have together.
SlicedTensor joined(std::span<const Shared<const SlicedTensor>> parts, int axis, const Dims& shape);

/// The elements of a box, of which only what they need is read.
Tensor elements_of(const SlicedTensor& t, const Box& box, const TensorStore& source, Location where);

}  // namespace weft::io
