// The windows of pooling, worked out on the host for each spatial dimension. Not public.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common.hpp"

namespace weft {

/// The elements begin, begin + step, … before end, along one dimension.
struct Window {
  int64_t begin, end;
  int64_t step = 1;
  /// Its share of an average's divisor.
  int64_t extent = 1;

  int64_t count() const { return (end - begin + step - 1) / step; }
};
using Windows = std::vector<Window>;

/// `given` as one value for each of `rank` dimensions, each at least `least`. ValueError otherwise.
Dims for_each_dim(const Dims& given, int rank, std::string_view what, int64_t least);
/// ShapeError unless x has one or two dimensions before `rank` spatial ones, none of which has size 0.
void check_pooled(const Tensor& x, int rank);

/// Sizes of all but the last `rank` dimensions; sizes with others behind them.
Dims leading(const Tensor& x, int rank);
/// The last `rank` dimensions as one.
Tensor flat(const Tensor& x, int rank);
Dims joined(Dims first, std::span<const int64_t> last);

/// The sliding windows of one dimension before they are cut to it.
struct Sliding {
  int64_t size, stride, padding, dilation;
  bool ceil_mode;
};
/// How many there are over `size` elements. ShapeError where there is none.
int64_t count_windows(int64_t size, const Sliding& sliding);

/// The result's shape and, except on the device meta, the windows.
struct Grid {
  Dims shape;
  std::vector<Windows> dims;
  /// The windows once more, where all dimensions have sliding ones.
  std::vector<Sliding> sliding = {};
};

// The device's kernel for sliding windows up to a size limit.
bool pools_by_kernel(const Tensor& x, const Grid& grid);
/// indices are undefined unless asked for; not recorded.
std::pair<Tensor, Tensor> max_by_kernel(const Tensor& x, const Grid& grid, bool indices);
/// Recorded.
Tensor mean_by_kernel(const Tensor& x, const Grid& grid, std::optional<int64_t> divisor);

}  // namespace weft
