// A product tile by tile, for kernels that process a tile further while it is in the cache.
#pragma once

#include <cstdint>
#include <span>

#include "../../../tensor/view.hpp"

namespace weft::cpu {

/// Numbers of a product from (row, column) on: `rows` lines of `columns`, `stride` apart.
template <class A>
struct ProductTile {
  int64_t row, column, rows, columns, stride;
  /// Of the first product, and of the second one where there is one.
  A* values;
  A* others;
};

/// The products a [m, k] · b [k, n] and, if `other` has data, a · other. Tiles hold whole groups of `unit` columns; n
/// is a multiple of `unit`. If `into` [m, n] has data of type A with adjacent columns, the tiles of the first product
/// are written there.
struct ProductOperands {
  View a, b, other, into;
  int64_t unit = 1;
  /// n numbers of type A that are added to each row of the first product, or null.
  const void* bias = nullptr;
};

/// Calls use(tile) for all tiles. A is float for floats up to 32 bits, double for f64. Tiles follow from sizes and
/// dtype alone; threads share them.
void for_product_tiles(const ProductOperands& operands, void (*use)(const void* context, const ProductTile<float>&),
                       const void* context);
void for_product_tiles(const ProductOperands& operands, void (*use)(const void* context, const ProductTile<double>&),
                       const void* context);
template <class A, class F>
void for_product_tiles(const ProductOperands& operands, const F& use) {
  void (*const call)(const void*, const ProductTile<A>&) = [](const void* context, const ProductTile<A>& tile) {
    (*static_cast<const F*>(context))(tile);
  };
  for_product_tiles(operands, call, &use);
}

}  // namespace weft::cpu
