#include "device_allocator.hpp"
#include "host.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

constinit Entry tile_entries[] = {named::convolve_forward, named::convolve_by_data, named::convolve_by_weight};
constinit Entry few_entries[] = {named::convolve_few_forward, named::convolve_few_by_data,
                                 named::convolve_few_by_weight};

/// Fewer rows or columns than this would leave most of a tile empty.
constexpr int64_t least_for_tiles = 8;
/// Groups that keep a device busy, and the shortest piece of a sum that is cut for their sake.
constexpr int64_t enough_groups = 256, shortest_piece = 512;

portable::Convolve plan_of(Convolution product, const View& data, const View& weight, const View& result,
                           const ConvolutionSteps& steps) {
  portable::Convolve plan = {};
  plan.batch = data.layout.sizes[0];
  plan.groups = steps.groups;
  plan.channels = weight.layout.sizes[1];
  plan.outputs = weight.layout.sizes[0] / steps.groups;
  plan.elements = plan.taps = plan.places = 1;
  for (int d = 0; d < 3; ++d) {
    plan.elements *= plan.in[d] = data.layout.sizes[2 + d];
    plan.taps *= plan.window[d] = weight.layout.sizes[2 + d];
    plan.places *= plan.out[d] = result.layout.sizes[2 + d];
    plan.stride[d] = steps.stride[d];
    plan.padding[d] = steps.padding[d];
    plan.dilation[d] = steps.dilation[d];
  }
  const bool by_data = product == Convolution::by_data, by_weight = product == Convolution::by_weight;
  plan.rows = by_data ? plan.channels : plan.outputs;
  plan.line = by_weight ? plan.channels * plan.taps : (by_data ? plan.elements : plan.places);
  plan.columns = by_weight ? plan.line : plan.batch * plan.line;
  plan.depth = by_weight ? plan.batch * plan.places : (by_data ? plan.outputs : plan.channels) * plan.taps;
  plan.piece = plan.depth;
  plan.pieces = 1;
  return plan;
}

int64_t tiles(const portable::Convolve& plan) {
  constexpr int64_t edge = portable::convolution_edge;
  return plan.groups * ((plan.rows + edge - 1) / edge) * ((plan.columns + edge - 1) / edge);
}

/// Sums over the places of all images are long, and their results may be few.
void cut(portable::Convolve& plan) {
  const int64_t wanted = std::min(enough_groups / std::max<int64_t>(tiles(plan), 1), plan.depth / shortest_piece);
  if (wanted < 2) return;
  constexpr int64_t step = 16;  // of tiles along a sum
  plan.piece = (plan.depth + wanted - 1) / wanted;
  plan.piece = (plan.piece + step - 1) / step * step;
  plan.pieces = (plan.depth + plan.piece - 1) / plan.piece;
}

/// `data` holds `count` numbers in each of `lines`.
View dense_view(const View& like, void* data, int64_t lines, int64_t count) {
  View view = like;
  Layout& l = view.layout;
  const int64_t item = itemsize(l.dtype);
  view.data = data;
  l.rank = 2;
  l.numel = lines * count;
  l.sizes[0] = lines, l.sizes[1] = count;
  l.strides[0] = count * item, l.strides[1] = item;
  l.contiguous = 1;
  return view;
}

}  // namespace

void convolution(Convolution product, const View& out, const View& a, const View& b, const View& bias,
                 const ConvolutionSteps& steps) {
  const Compute compute = wide_float("convolution", out);
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(out);
  const View& data = product == Convolution::by_data ? out : a;
  const View& weight = product == Convolution::by_weight ? out : b;
  const View& result = product == Convolution::forward ? out : product == Convolution::by_data ? a : b;
  portable::Convolve plan = plan_of(product, data, weight, result, steps);
  plan.has_bias = bias.data != nullptr;
  const auto which = static_cast<size_t>(product);
  if (plan.rows < least_for_tiles || plan.columns < least_for_tiles) {
    const Grid grid = team_grid(device, plan.groups * plan.rows * plan.columns, plan.depth);
    return launch(device, few_entries[which].on(device, compute), grid, out.data, address(a), address(b), address(bias),
                  plan);
  }
  if (product == Convolution::by_weight) cut(plan);
  const auto run = [&](void* to) {
    launch(device, tile_entries[which].on(device, compute), tile_grid(tiles(plan) * plan.pieces), to, address(a),
           address(b), address(bias), plan);
  };
  if (plan.pieces == 1) return run(out.data);
  const int64_t count = out.layout.numel;
  const ScratchMemory sums(device, static_cast<size_t>(plan.pieces * count * itemsize(out.layout.dtype)));
  run(sums.data());
  reduce(Reduction::sum, dense_view(out, out.data, 1, count), dense_view(out, sums.data(), plan.pieces, count));
}

}  // namespace weft::portable::host
