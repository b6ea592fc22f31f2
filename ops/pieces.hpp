// A tensor in pieces along one dimension: views, with the errors of views in <weft/tensor/methods.hpp>. ValueError for
// a 0-d tensor.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "../tensor/index.hpp"

namespace weft {

/// Pieces of these sizes. ShapeError unless they add up to size(dim), ValueError for a negative one.
[[nodiscard]] WEFT_API std::vector<Tensor> split_with_sizes(const Tensor& x, std::span<const int64_t> sizes,
                                                            int dim = 0, Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> split_with_sizes(const Tensor& x, std::initializer_list<int64_t> sizes,
                                                            int dim = 0, Location where = {});

/// `sections` pieces, the first size(dim) % sections of which have one element more than the others. ValueError unless
/// sections > 0, ShapeError for more than 2^24.
[[nodiscard]] WEFT_API std::vector<Tensor> tensor_split(const Tensor& x, int64_t sections, int dim = 0,
                                                        Location where = {});
/// The pieces between the indices: [0, indices[0]), [indices[0], indices[1]), … with bounds as in Python. Errors as
/// above.
[[nodiscard]] WEFT_API std::vector<Tensor> tensor_split(const Tensor& x, std::span<const int64_t> indices, int dim = 0,
                                                        Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> tensor_split(const Tensor& x, std::initializer_list<int64_t> indices,
                                                        int dim = 0, Location where = {});

/// tensor_split along dimension 1, or 0 of a 1-d tensor. This and the next two: ShapeError for fewer dimensions, and
/// where the size is no multiple of `sections`.
[[nodiscard]] WEFT_API std::vector<Tensor> hsplit(const Tensor& x, int64_t sections, Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> hsplit(const Tensor& x, std::span<const int64_t> indices,
                                                  Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> hsplit(const Tensor& x, std::initializer_list<int64_t> indices,
                                                  Location where = {});
/// tensor_split along dimension 0 of a tensor of rank 2 or more (else ShapeError). Raises ShapeError unless the
/// sections have equal sizes.
[[nodiscard]] WEFT_API std::vector<Tensor> vsplit(const Tensor& x, int64_t sections, Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> vsplit(const Tensor& x, std::span<const int64_t> indices,
                                                  Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> vsplit(const Tensor& x, std::initializer_list<int64_t> indices,
                                                  Location where = {});
/// tensor_split along dimension 2 of a tensor of rank 3 or more (else ShapeError). Raises ShapeError unless the
/// sections have equal sizes.
[[nodiscard]] WEFT_API std::vector<Tensor> dsplit(const Tensor& x, int64_t sections, Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> dsplit(const Tensor& x, std::span<const int64_t> indices,
                                                  Location where = {});
[[nodiscard]] WEFT_API std::vector<Tensor> dsplit(const Tensor& x, std::initializer_list<int64_t> indices,
                                                  Location where = {});

}  // namespace weft
