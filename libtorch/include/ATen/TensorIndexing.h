// Indices of Tensor::index: integers, Slice, None, "...", Ellipsis, bool, tensors.
#pragma once

#include <climits>
#include <ostream>
#include <vector>

#include <weft/tensor/index.hpp>

#include <ATen/core/Tensor.h>

namespace at::indexing {

inline constexpr int64_t INDEX_MAX = INT64_MAX, INDEX_MIN = INT64_MIN;

using EllipsisIndexType = weft::EllipsisType;
inline constexpr weft::EllipsisType Ellipsis;
inline constexpr std::nullopt_t None = std::nullopt;

/// Elements start, start + step, … before stop.
class Slice {
 public:
  Slice(optional<int64_t> start = {}, optional<int64_t> stop = {}, optional<int64_t> step = {});
  int64_t start() const { return start_; }
  int64_t stop() const { return stop_; }
  int64_t step() const { return step_; }

 private:
  int64_t start_, stop_, step_;
};
std::ostream& operator<<(std::ostream& out, const Slice& slice);

class TensorIndex {
 public:
  TensorIndex(std::nullopt_t) : kind_(Kind::none) {}
  TensorIndex(weft::NoneType) : kind_(Kind::none) {}
  TensorIndex(weft::EllipsisType) : kind_(Kind::ellipsis) {}
  /// Raises ValueError unless the text is "...".
  TensorIndex(const char* text);
  template <std::integral T>
  TensorIndex(T value)
      : kind_(std::is_same_v<T, bool> ? Kind::boolean : Kind::integer), integer_(static_cast<int64_t>(value)) {}
  TensorIndex(Slice slice) : kind_(Kind::slice), slice_(slice) {}
  TensorIndex(Tensor tensor) : kind_(Kind::tensor), tensor_(std::move(tensor)) {}
  TensorIndex(const Scalar& value) : TensorIndex(value.toLong()) {}

  bool is_none() const { return kind_ == Kind::none; }
  bool is_ellipsis() const { return kind_ == Kind::ellipsis; }
  bool is_integer() const { return kind_ == Kind::integer; }
  bool is_boolean() const { return kind_ == Kind::boolean; }
  bool is_slice() const { return kind_ == Kind::slice; }
  bool is_tensor() const { return kind_ == Kind::tensor; }
  int64_t integer() const { return integer_; }
  bool boolean() const { return integer_ != 0; }
  const Slice& slice() const { return slice_; }
  const Tensor& tensor() const { return tensor_; }

  /// The index of Weft.
  weft::Index weft() const;

 private:
  enum class Kind : uint8_t { none, ellipsis, integer, boolean, slice, tensor };
  Kind kind_;
  int64_t integer_ = 0;
  Slice slice_;
  Tensor tensor_;
};
std::ostream& operator<<(std::ostream& out, const TensorIndex& index);
std::ostream& operator<<(std::ostream& out, const std::vector<TensorIndex>& indices);

}  // namespace at::indexing
