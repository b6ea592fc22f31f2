// The parametrizations of orthogonal. Internal to nn/ and its bindings.
#pragma once

#include "../parametrize.hpp"

namespace weft::nn::detail {

/// Names of OrthogonalMap's enumerators.
inline constexpr std::string_view orthogonal_maps[] = {"matrix_exp", "cayley", "householder"};

/// Maps an arbitrary matrix to an orthogonal one of the same shape; a wide one is transposed first.
class WEFT_API MappedOrthogonal : public Layer<MappedOrthogonal> {
 public:
  MappedOrthogonal(const Tensor& weight, OrthogonalMap map, bool has_base);
  Tensor forward(const Tensor& x, Location where) const;

 protected:
  Dims shape_;
  OrthogonalMap map_;
  /// Multiplied by the map's matrix; undefined if there is no base.
  Buffer base_;
};

/// As above, with an inverse: by the base, or by Householder reflections.
class WEFT_API Orthogonal : public MappedOrthogonal {
 public:
  using MappedOrthogonal::MappedOrthogonal;
  /// Raises ShapeError for another shape than the weight's.
  Tensor right_inverse(const Tensor& value) const;
};

/// Whether values can be assigned: not for matrix_exp and cayley without a base.
inline bool has_right_inverse(OrthogonalMap map, bool has_base) {
  return has_base || map == OrthogonalMap::householder;
}
/// The given map, else householder for a matrix that is not square and matrix_exp for a square one. Raises ValueError
/// for fewer than two dimensions.
WEFT_API OrthogonalMap map_for(const Tensor& weight, std::optional<OrthogonalMap> given, Location where);

}  // namespace weft::nn::detail
