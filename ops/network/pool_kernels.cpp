// Pooling by a device's own kernel.
#include <array>
#include <memory>

#include "../detail/reducing.hpp"
#include "../detail/windows.hpp"

namespace weft {

namespace {

// The kernel works on planes of three dimensions.
Dims as_planes(std::span<const int64_t> sizes, size_t rank) {
  Dims planes = Dims(Dims(sizes.first(sizes.size() - rank)).product());
  for (size_t i = rank; i < 3; ++i) planes.push_back(1);
  return joined(planes, sizes.last(rank));
}

View planes_of(const Tensor& contiguous, size_t rank) {
  return reshaped_view(contiguous.raw_view(), as_planes(contiguous.sizes(), rank));
}

PoolPlan plan_of(const std::vector<Sliding>& sliding, std::span<const int64_t> counts) {
  PoolPlan plan;
  const size_t rank = sliding.size();
  for (size_t i = 0; i < rank; ++i) {
    const Sliding& s = sliding[i];
    const bool one = counts[counts.size() - rank + i] == 1;  // a stride that leads nowhere may be of any size
    plan.lines[3 - rank + i] = {s.size, one ? 1 : s.stride, s.padding, s.dilation, {}};
  }
  return plan;
}

// A mean's windows, shared by the nodes of its derivatives.
struct Means {
  std::vector<Sliding> sliding;
  Dims from, to;
  std::array<std::vector<double>, 3> extents;

  PoolPlan plan() const {
    PoolPlan plan = plan_of(sliding, to);
    for (size_t i = 0; i < 3; ++i) plan.lines[i].extents = extents[i];
    return plan;
  }
};
using SharedMeans = std::shared_ptr<const Means>;

Tensor spread(const Tensor& g, const SharedMeans& means);

struct MeansBackward {
  SharedMeans means;
  Tensor operator()(Tensor&& g) { return spread(g, means); }
};

Tensor means_of(const Tensor& x, const SharedMeans& means) {
  const size_t rank = means->sliding.size();
  Tensor out;
  {
    const NoGradGuard unrecorded;
    const Tensor wide = to_compute_type(x).contiguous(), result = make(means->to, wide.dtype(), x.device());
    WEFT_KERNEL(pool, x)(Pool::mean, planes_of(result, rank), {}, planes_of(wide, rank), means->plan());
    out = result.to(x.dtype());
  }
  if (should_record(x)) record(out, MeansBackward{means}, x);
  return out;
}

struct SpreadBackward {
  SharedMeans means;
  Tensor operator()(Tensor&& g) { return means_of(g, means); }
};

// The gradient of the means' input.
Tensor spread(const Tensor& g, const SharedMeans& means) {
  const size_t rank = means->sliding.size();
  Tensor out;
  {
    const NoGradGuard unrecorded;
    const Tensor wide = to_compute_type(g).contiguous(), result = make(means->from, wide.dtype(), g.device());
    WEFT_KERNEL(pool_gradient, g)(planes_of(result, rank), planes_of(wide, rank), means->plan());
    out = result.to(g.dtype());
  }
  if (should_record(g)) record(out, SpreadBackward{means}, g);
  return out;
}

}  // namespace

bool pools_by_kernel(const Tensor& x, const Grid& grid) {
  if (grid.sliding.empty() || !is_floating(x.dtype()) || kernels(x.raw_view()).pool == nullptr) return false;
  const auto rank = static_cast<int>(grid.sliding.size());
  double plane = 1, window = 1;
  for (int i = 0; i < rank; ++i) {
    const Sliding& s = grid.sliding[static_cast<size_t>(i)];
    const int64_t n = x.size(i - rank);
    if (x.device().is_cpu() && s.padding > 2 * n + 64) return false;  // rows are kept with their padding
    plane *= static_cast<double>(n + 2 * s.padding);
    window *= static_cast<double>(s.size);
  }
  if (!x.device().is_cpu()) return window < 1024;  // each of which one work-item goes through
  // Places are numbers of 32 bits, and large windows of few columns leave registers empty.
  return plane < 0x1p30 && window < 1024 && (window <= 32 || grid.shape[grid.shape.size() - 1] >= 8);
}

std::pair<Tensor, Tensor> max_by_kernel(const Tensor& x, const Grid& grid, bool indices) {
  const size_t rank = grid.sliding.size();
  const Tensor wide = to_compute_type(x).contiguous(), values = make(grid.shape, wide.dtype(), x.device());
  const Tensor index = indices ? make(grid.shape, DType::i64, x.device()) : Tensor();
  WEFT_KERNEL(pool, x)
  (Pool::max, planes_of(values, rank), indices ? planes_of(index, rank) : View{}, planes_of(wide, rank),
   plan_of(grid.sliding, grid.shape));
  return {values.to(x.dtype()), index};
}

Tensor mean_by_kernel(const Tensor& x, const Grid& grid, std::optional<int64_t> divisor) {
  const auto means = std::make_shared<Means>(Means{grid.sliding, x.shape(), grid.shape, {}});
  const size_t rank = grid.sliding.size();
  for (size_t i = 0; i < 3; ++i) {
    std::vector<double>& extents = means->extents[i];
    if (i + rank < 3) extents.push_back(1);
    for (size_t w = 0; i + rank >= 3 && w < grid.dims[i + rank - 3].size(); ++w) {
      extents.push_back(divisor ? 1 : static_cast<double>(grid.dims[i + rank - 3][w].extent));
    }
  }
  if (divisor) {
    for (double& extent : means->extents[0]) extent = static_cast<double>(*divisor);
  }
  return means_of(x, means);
}

}  // namespace weft
