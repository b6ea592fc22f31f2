#include "host.hpp"
#include "host_sort.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

constinit Entry bag_sum_entry(named::bag_sum);
constinit Entry bag_max_entry(named::bag_max);
constinit Entry resample_entry(named::resample);
constinit Entry sample_linear_entry(named::sample_linear);
constinit Entry sample_corners_entry(named::sample_corners);
constinit Entry sample_gradient_entry(named::sample_gradient);
constinit Entry sample_places_gradient_entry(named::sample_places_gradient);

portable::Bags plan_of(Accelerator& device, const View& out, const View& weight, const View& indices, int64_t padding) {
  portable::Bags plan = {};
  plan.bags = out.layout.sizes[0];
  plan.width = out.layout.sizes[1];
  plan.indices = indices.layout.numel;
  plan.rows = weight.layout.sizes[0];
  plan.padding = padding;
  plan.check = {device.note_index_call(), 0, false};
  return plan;
}

portable::Sampling plan_of(const View& x, const View& places) {
  portable::Sampling plan = {};
  plan.images = x.layout.sizes[0];
  plan.channels = x.layout.sizes[1];
  plan.rank = static_cast<int32_t>(places.layout.sizes[0]);
  plan.places = places.layout.sizes[2];
  plan.size = 1;
  for (int d = 0; d < plan.rank; ++d) plan.size *= plan.sizes[d] = x.layout.sizes[2 + d];
  return plan;
}

}  // namespace

void bag_sum(const View& out, const View& counts, const View& weight, const View& indices, const View& begins,
             const View& factors, int64_t padding, bool mean) {
  const Compute compute = wide_float("bag_sum", weight);
  Accelerator& device = device_of(weight);
  portable::Bags plan = plan_of(device, out, weight, indices, padding);
  if (plan.bags == 0) return;
  plan.mean = mean;
  plan.has_factors = factors.data != nullptr;
  launch_indexing(device, bag_sum_entry.on(device, compute), item_grid(plan.bags * std::max<int64_t>(plan.width, 1)),
                  address(out), counts.data, address(weight), address(indices), begins.data, address(factors),
                  device.bad_index(), plan);
}

void bag_max(const View& out, const View& place, const View& weight, const View& indices, const View& begins,
             int64_t padding) {
  const Compute compute = wide_float("bag_max", weight);
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(weight);
  const portable::Bags plan = plan_of(device, out, weight, indices, padding);
  launch_indexing(device, bag_max_entry.on(device, compute), item_grid(out.layout.numel), out.data, place.data,
                  address(weight), address(indices), begins.data, device.bad_index(), plan);
}

void resample(const View& out, const View& x, const View& at, const View& weights, int dim) {
  const Compute compute = wide_float("resample", x);
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(x);
  portable::Resample plan = {1, x.layout.sizes[dim], out.layout.sizes[dim], 1, at.layout.sizes[0]};
  for (int d = 0; d < dim; ++d) plan.outer *= x.layout.sizes[d];
  for (int d = dim + 1; d < x.layout.rank; ++d) plan.inner *= x.layout.sizes[d];
  launch(device, resample_entry.on(device, compute), item_grid(out.layout.numel), out.data, address(x), address(at),
         address(weights), plan);
}

void sample_linear(const View& out, const View& x, const View& places) {
  const Compute compute = wide_float("sample_linear", x);
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(x);
  launch(device, sample_linear_entry.on(device, compute), item_grid(out.layout.numel), out.data, address(x),
         places.data, plan_of(x, places));
}

void sample_linear_gradient(const View& dx, const View& dplaces, const View& g, const View& x, const View& places) {
  const Compute compute = wide_float("sample_linear_gradient", x);
  Accelerator& device = device_of(x);
  const portable::Sampling plan = plan_of(x, places);
  const int64_t corners = (plan.images * plan.places) << plan.rank;
  if (dx.data != nullptr && dx.layout.numel != 0) {
    fill(dx, Scalar(0.0));
    if (corners != 0) {  // those of one element lie together once they are sorted, in the order of their places
      SortPairs pairs(device, 1, corners);
      launch(device, sample_corners_entry.on(device, compute), item_grid(corners), pairs.keys(), pairs.order(),
             places.data, plan);
      pairs.sort();
      launch(device, sample_gradient_entry.on(device, compute), item_grid(corners * plan.channels), dx.data, g.data,
             places.data, pairs.keys(), pairs.order(), plan);
    }
  }
  if (dplaces.data == nullptr || corners == 0) return;
  launch(device, sample_places_gradient_entry.on(device, compute), item_grid(plan.images * plan.places), dplaces.data,
         address(g), address(x), places.data, plan);
}

}  // namespace weft::portable::host
