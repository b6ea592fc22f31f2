#include "host.hpp"
#include "launch.hpp"
#include "../../../tensor/philox.hpp"

namespace weft::portable::host {

namespace {

constinit Entry draw_entry(named::draw);

template <class C>
portable::DrawNumbers<C> numbers_of(DType dtype, Distribution distribution, double a, double b) {
  portable::DrawNumbers<C> numbers = {static_cast<C>(a), static_cast<C>(b), C(0)};
  if constexpr (std::is_floating_point_v<C>) {
    if (distribution != Distribution::uniform) return numbers;
    UniformRange<C> range;
    if constexpr (std::is_same_v<C, double>) range = uniform_range_f64(a, b);
    else range = uniform_range(dtype, a, b);
    numbers = {range.low, range.span, range.last};
  }
  return numbers;
}

}  // namespace

void random(const View& out, Distribution distribution, PhiloxSeed seed, Scalar first, Scalar second) {
  const double a = first.to<double>(), b = second.to<double>();
  const bool floats_only = distribution == Distribution::uniform || distribution == Distribution::normal;
  const DType t = out.layout.dtype;
  if (floats_only ? !is_computable_float(t) : !is_computable(t)) unsupported("random", out);
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(out);
  const Compute compute = ring_of(t);
  require(device, compute, "random", out);
  portable::Draw plan = {};
  const Layout* const layouts[] = {&out.layout};
  plan.walk = walk_of(layouts, 0, out.layout.rank);
  plan.key = seed.key;
  plan.subsequence = seed.subsequence;
  plan.offset = seed.offset;
  plan.dtype = t;
  plan.distribution = static_cast<uint8_t>(distribution);
  plan.words = philox_words_per_element(t, distribution == Distribution::bernoulli);
  plan.threshold = bernoulli_threshold(a);
  if (distribution == Distribution::integers) {
    plan.low = first.to<int64_t>();
    plan.range = second.to<uint64_t>() - static_cast<uint64_t>(plan.low);
  }
  Kernel& kernel = draw_entry.on(device, compute);
  const Grid grid = item_grid(philox_blocks(out.layout.numel, t, distribution));
  if (compute == Compute::f32) launch(device, kernel, grid, out.data, plan, numbers_of<float>(t, distribution, a, b));
  else if (compute == Compute::f64)
    launch(device, kernel, grid, out.data, plan, numbers_of<double>(t, distribution, a, b));
  else launch(device, kernel, grid, out.data, plan, portable::DrawNumbers<int64_t>{});
}

}  // namespace weft::portable::host
