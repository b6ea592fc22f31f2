// Convolutions as products of rows, with elements read from the data in place. Per group of channels:
//   forward    y[o, (n, p)]  = sum over (c, tap) of w[o, (c, tap)] x[(n, p), (c, tap)]
//   by data    x[c, (n, i)]  = sum over (o, tap) of w[c, (o, tap)] g[(n, i), (o, tap)]
//   by weight  w[o, (c, tap)] = sum over (n, p) of g[o, (n, p)] x[(c, tap), (n, p)]
#pragma once

#include "tile.hpp"

namespace weft::portable {

/// The offset of a position of the planes, or of a tap of the kernel: their sum is the offset of the element.
struct Spot {
  int64_t base, at[3];
  bool inside;
};

/// Of the i-th of `count` blocks of positions: its block, and the coordinates there.
WEFT_DEVICE Spot spot_of(int64_t i, int64_t count, const int64_t (&sizes)[3]) {
  Spot spot;
  spot.inside = i < count;
  spot.base = take_apart(spot.inside ? i : 0, sizes, spot.at);
  return spot;
}

/// Elements of x under places of y and taps; a row is a place or, with by_tap, a tap.
template <class C, bool by_tap>
struct Patches {
  typedef Spot Row;
  typedef Spot Depth;
  In x;  ///< of the group's first channel
  const Convolve& plan;

  WEFT_DEVICE bool runs_along() const { return by_tap; }
  WEFT_DEVICE Spot row(int64_t i) const { return by_tap ? tap(i) : place(i); }
  WEFT_DEVICE Spot at_depth(int64_t k) const { return by_tap ? place(k) : tap(k); }
  WEFT_DEVICE C at(const Spot& a, const Spot& b) const {
    if (!a.inside || !b.inside) return 0;
    int64_t element = a.base + b.base, within = 0;
    for (int d = 0; d < 3; ++d) {
      const int64_t i = a.at[d] + b.at[d];
      if (i < 0 || i >= plan.in[d]) return 0;
      within = within * plan.in[d] + i;
    }
    element += within;
    return peek<C>(x + element * (int64_t)sizeof(C));
  }

 private:
  WEFT_DEVICE Spot place(int64_t i) const {
    Spot spot = spot_of(i, plan.batch * plan.places, plan.out);
    spot.base *= plan.groups * plan.channels * plan.elements;
    for (int d = 0; d < 3; ++d) spot.at[d] = spot.at[d] * plan.stride[d] - plan.padding[d];
    return spot;
  }
  WEFT_DEVICE Spot tap(int64_t i) const {
    Spot spot = spot_of(i, plan.channels * plan.taps, plan.window);
    spot.base *= plan.elements;
    for (int d = 0; d < 3; ++d) spot.at[d] *= plan.dilation[d];
    return spot;
  }
};

/// Elements of g with taps over elements of x: rows are those elements, depth the outputs and taps.
template <class C>
struct Sources {
  typedef Spot Row;
  typedef Spot Depth;
  In g;  ///< of the group's first output
  const Convolve& plan;

  WEFT_DEVICE bool runs_along() const { return false; }
  WEFT_DEVICE Spot row(int64_t i) const {
    Spot spot = spot_of(i, plan.batch * plan.elements, plan.in);
    spot.base *= plan.groups * plan.outputs * plan.places;
    for (int d = 0; d < 3; ++d) spot.at[d] += plan.padding[d];
    return spot;
  }
  WEFT_DEVICE Spot at_depth(int64_t k) const {
    Spot spot = spot_of(k, plan.outputs * plan.taps, plan.window);
    spot.base *= plan.places;
    for (int d = 0; d < 3; ++d) spot.at[d] *= -plan.dilation[d];
    return spot;
  }
  WEFT_DEVICE C at(const Spot& a, const Spot& b) const {
    if (!a.inside || !b.inside) return 0;
    int64_t within = 0;
    for (int d = 0; d < 3; ++d) {
      const int64_t from = a.at[d] + b.at[d];
      if (from < 0) return 0;
      const int64_t i = plan.stride[d] == 1 ? from : quotient(from, plan.stride[d]);
      if (i >= plan.out[d] || i * plan.stride[d] != from) return 0;
      within = within * plan.out[d] + i;
    }
    return peek<C>(g + (a.base + b.base + within) * (int64_t)sizeof(C));
  }
};

/// Weights of the group's channels: a row is a channel, depth the outputs and taps.
template <class C>
struct ChannelWeights {
  typedef int64_t Row;
  struct Depth {
    int64_t offset;
    bool inside;
  };
  In w;  ///< of the group's first output
  const Convolve& plan;

  WEFT_DEVICE bool runs_along() const { return plan.taps > 1; }
  WEFT_DEVICE int64_t row(int64_t c) const { return c < plan.channels ? c * plan.taps : -1; }
  WEFT_DEVICE Depth at_depth(int64_t k) const {
    const int64_t o = quotient(k, plan.taps);
    Depth depth;
    depth.inside = k < plan.outputs * plan.taps;
    depth.offset = o * plan.channels * plan.taps + (k - o * plan.taps);
    return depth;
  }
  WEFT_DEVICE C at(int64_t row, const Depth& depth) const {
    return row >= 0 && depth.inside ? peek<C>(w + (row + depth.offset) * (int64_t)sizeof(C)) : (C)0;
  }
};

/// Results of one output: a row is an output, depth the places of all images.
template <class C>
struct OutputPlaces {
  typedef int64_t Row;
  struct Depth {
    int64_t offset;
    bool inside;
  };
  In g;  ///< of the group's first output
  const Convolve& plan;

  WEFT_DEVICE bool runs_along() const { return true; }
  WEFT_DEVICE int64_t row(int64_t o) const { return o < plan.outputs ? o * plan.places : -1; }
  WEFT_DEVICE Depth at_depth(int64_t k) const {
    const int64_t n = quotient(k, plan.places);
    Depth depth;
    depth.inside = n < plan.batch;
    depth.offset = n * plan.groups * plan.outputs * plan.places + (k - n * plan.places);
    return depth;
  }
  WEFT_DEVICE C at(int64_t row, const Depth& depth) const {
    return row >= 0 && depth.inside ? peek<C>(g + (row + depth.offset) * (int64_t)sizeof(C)) : (C)0;
  }
};

/// Which of the products: the sources of its rows and columns for one group, from its operands a and b.
template <class C>
struct ForwardProduct {
  static WEFT_DEVICE StridedRows<C> rows(In, In w, const Convolve& plan, int64_t group) {
    const int64_t item = sizeof(C), line = plan.channels * plan.taps * item;
    const StridedRows<C> all = {
        w + group * plan.outputs * line, plan.outputs, line,
        plan.channels * plan.taps,       item,         sizeof(C) == 8 ? DType::f64 : DType::f32};
    return all;
  }
  static WEFT_DEVICE Patches<C, false> columns(In x, In, const Convolve& plan, int64_t group) {
    const Patches<C, false> all = {x + group * plan.channels * plan.elements * (int64_t)sizeof(C), plan};
    return all;
  }
};
template <class C>
struct DataProduct {
  static WEFT_DEVICE ChannelWeights<C> rows(In, In w, const Convolve& plan, int64_t group) {
    const ChannelWeights<C> all = {w + group * plan.outputs * plan.channels * plan.taps * (int64_t)sizeof(C), plan};
    return all;
  }
  static WEFT_DEVICE Sources<C> columns(In g, In, const Convolve& plan, int64_t group) {
    const Sources<C> all = {g + group * plan.outputs * plan.places * (int64_t)sizeof(C), plan};
    return all;
  }
};
template <class C>
struct WeightProduct {
  static WEFT_DEVICE OutputPlaces<C> rows(In, In g, const Convolve& plan, int64_t group) {
    const OutputPlaces<C> all = {g + group * plan.outputs * plan.places * (int64_t)sizeof(C), plan};
    return all;
  }
  static WEFT_DEVICE Patches<C, true> columns(In x, In, const Convolve& plan, int64_t group) {
    const Patches<C, true> all = {x + group * plan.channels * plan.elements * (int64_t)sizeof(C), plan};
    return all;
  }
};

/// The part of the result that a group of work-items or a team computes.
struct ConvolutionPart {
  int64_t group, piece, row, column;
};
WEFT_DEVICE ConvolutionPart convolution_part(const Convolve& plan, int64_t number, int64_t rows, int64_t columns) {
  const int64_t line = quotient(number, columns), block = quotient(line, rows), group = quotient(block, plan.pieces);
  ConvolutionPart part;
  part.column = number - line * columns;
  part.row = line - block * rows;
  part.piece = block - group * plan.pieces;
  part.group = group;
  return part;
}

/// Columns of consecutive images; pieces of a sum are consecutive, too.
template <class C>
WEFT_DEVICE void put_convolved(Out out, In bias, const Convolve& plan, const ConvolutionPart& part, int64_t row,
                               int64_t column, C value) {
  if (row >= plan.rows || column >= plan.columns) return;
  const int64_t image = quotient(column, plan.line), line = part.group * plan.rows + row;
  if (plan.has_bias) value = value + peek<C>(bias + line * (int64_t)sizeof(C));
  const int64_t element =
      ((part.piece + image) * plan.groups * plan.rows + line) * plan.line + (column - image * plan.line);
  poke<C>(out + element * (int64_t)sizeof(C), value);
}

WEFT_DEVICE int64_t piece_end(const Convolve& plan, int64_t piece) {
  return (piece + 1) * plan.piece < plan.depth ? (piece + 1) * plan.piece : plan.depth;
}

template <class C, class Product>
WEFT_DEVICE void convolution_tile(Out out, In a, In b, In bias, const Convolve& plan, WEFT_LOCAL C* left,
                                  WEFT_LOCAL C* right) {
  enum { T = convolution_edge / int(tile_edge) };
  const int64_t rows = (plan.rows + convolution_edge - 1) / convolution_edge;
  const int64_t columns = (plan.columns + convolution_edge - 1) / convolution_edge;
  const ConvolutionPart part = convolution_part(plan, tile_number(), rows, columns);
  if (part.group >= plan.groups) return;
  const int64_t first_row = part.row * convolution_edge, first_column = part.column * convolution_edge;
  C sum[T][T];
  multiply_rows<C, T>(sum, Product::rows(a, b, plan, part.group), Product::columns(a, b, plan, part.group), first_row,
                      first_column, part.piece * plan.piece, piece_end(plan, part.piece), left, right);
  WEFT_UNROLL
  for (int i = 0; i < T; ++i) {
    WEFT_UNROLL
    for (int j = 0; j < T; ++j) {
      put_convolved(out, bias, plan, part, first_row + tile_row(i), first_column + tile_column(j), sum[i][j]);
    }
  }
}

/// A team for each number of the result: where rows or columns are few.
template <class C, class Product>
WEFT_DEVICE void convolution_team(Out out, In a, In b, In bias, const Convolve& plan, WEFT_LOCAL C* shared) {
  const Team team = team_here(false);
  const ConvolutionPart part = convolution_part(plan, team.number, plan.rows, plan.columns);
  const bool active = part.group < plan.groups;
  const int64_t group = active ? part.group : 0;
  const auto left = Product::rows(a, b, plan, group);
  const auto right = Product::columns(a, b, plan, group);
  const auto row = left.row(part.row);
  const auto column = right.row(part.column);
  C sum = 0;
  const int64_t end = piece_end(plan, part.piece);
  for (int64_t k = part.piece * plan.piece + team.lane; active && k < end; k += team.lanes) {
    sum = sum + left.at(row, left.at_depth(k)) * right.at(column, right.at_depth(k));
  }
  sum = combine_team<Plus>(team, shared, sum);
  if (active && team.lane == 0) put_convolved(out, bias, plan, part, part.row, part.column, sum);
}

}  // namespace weft::portable
