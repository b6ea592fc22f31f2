// The modules that orthogonal registers. Internal to nn/ and its bindings.
#pragma once

#include "../parametrize.hpp"

namespace weft::nn::detail {

/// By the enumerators of OrthogonalMap.
inline constexpr std::string_view orthogonal_maps[] = {"matrix_exp", "cayley", "householder"};

/// An orthogonal matrix from any of its shape, as the map makes it; of a wide one the transpose.
class WEFT_API MappedOrthogonal : public Layer<MappedOrthogonal> {
 public:
  MappedOrthogonal(const Tensor& weight, OrthogonalMap map, bool has_base);
  Tensor forward(const Tensor& x, Location where) const;

 protected:
  Dims shape_;
  OrthogonalMap map_;
  /// Which the map's matrix is multiplied with; undefined where there is none.
  Buffer base_;
};

/// The same where the originals of a value are known: those of its base, or of Householder's reflections.
class WEFT_API Orthogonal : public MappedOrthogonal {
 public:
  using MappedOrthogonal::MappedOrthogonal;
  /// ShapeError for another shape than the weight's.
  Tensor right_inverse(const Tensor& value) const;
};

/// Whether values can be set: not for matrix_exp and cayley without a base.
inline bool has_right_inverse(OrthogonalMap map, bool has_base) {
  return has_base || map == OrthogonalMap::householder;
}
/// householder for a matrix that is not square, else matrix_exp, unless one is given. ValueError for less than two
/// dimensions.
WEFT_API OrthogonalMap map_for(const Tensor& weight, std::optional<OrthogonalMap> given, Location where);

}  // namespace weft::nn::detail
