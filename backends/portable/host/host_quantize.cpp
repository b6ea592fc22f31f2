#include <algorithm>
#include <optional>

#include "coded.hpp"
#include "host.hpp"
#include "launch.hpp"
#include "scratch_memory.hpp"

namespace weft::portable::host {

namespace {

constinit Entry block_largest_entry(named::block_largest);
constinit Entry gated_gradient_entry(named::gated_gradient);
constinit Entry quantize_blocks_entry(named::quantize_blocks);

/// Elements that one team takes of a larger block.
constexpr int64_t piece = 16384;

/// With a plan that contains x and its processing.
void quantize(portable::Quantize& plan, const View& codes, const View& scale, int64_t rows, int64_t columns,
              const void* x, const void* x_scales) {
  if (codes.layout.numel == 0) return;
  Accelerator& device = device_of(codes);
  plan.m = codes.layout.sizes[0];
  plan.n = codes.layout.sizes[1];
  plan.codes = matrix_of(codes);
  plan.scales = {matrix_of(scale), std::min(rows, plan.m), std::min(columns, plan.n)};
  plan.blocks = scale.layout.numel;
  const int64_t elements = plan.scales.rows * plan.scales.columns;
  plan.pieces = (elements + piece - 1) / piece;
  plan.piece = plan.pieces == 1 ? elements : piece;
  plan.largest_code = codes.layout.dtype == DType::f8_e4m3fn ? 448.0f : 57344.0f;
  const int64_t teams = plan.blocks * plan.pieces;
  const Grid grid = team_grid(device, teams, plan.piece);
  std::optional<ScratchMemory> largest;
  if (plan.pieces > 1) {
    largest.emplace(device, static_cast<size_t>(teams) * 4);
    launch(device, block_largest_entry.on(device), grid, largest->data(), x, x_scales, plan);
  }
  launch(device, quantize_blocks_entry.on(device), grid, codes.data, scale.data, largest ? largest->data() : nullptr, x,
         x_scales, plan);
}

}  // namespace

void quantize_blocks(const View& codes, const View& scale, const View& x, const View& x_scale, int64_t rows,
                     int64_t columns, int64_t x_rows, int64_t x_columns, double epsilon, bool power_of_two) {
  portable::Quantize plan = {};
  plan.x = matrix_of(x);
  plan.x_scales = {matrix_of(x_scale), x_rows, x_columns};
  plan.rounded = x_scale.data != nullptr ? DType::bf16 : DType::f32;
  plan.epsilon = static_cast<float>(epsilon);
  plan.power_of_two = power_of_two;
  quantize(plan, codes, scale, rows, columns, x.data, x_scale.data);
}

void weighted_swiglu_quantize(const View& codes, const View& scale, const View& x, const View& prob,
                              bool power_of_two) {
  portable::Quantize plan = {};
  plan.x = matrix_of(x);
  plan.gated = true;
  if (prob.data != nullptr) plan.x_scales = {{prob.layout.strides[0], 0, DType::f32, true}, 1, codes.layout.sizes[1]};
  plan.rounded = x.layout.dtype;
  plan.power_of_two = power_of_two;
  quantize(plan, codes, scale, 1, block_columns, x.data, prob.data);
}

void weighted_swiglu_gradient(const View& dx, const View& dprob, const View& y, const View& x, const View& g,
                              const View& prob) {
  if (dprob.layout.numel == 0) return;
  Accelerator& device = device_of(y);
  const portable::GatedGradient plan = {
      y.layout.sizes[0], y.layout.sizes[1], prob.layout.strides[0], dprob.layout.strides[0],
      matrix_of(dx),     matrix_of(y),      matrix_of(x),           matrix_of(g)};
  launch(device, gated_gradient_entry.on(device), team_grid(device, plan.m, plan.n), dx.data, dprob.data, y.data,
         x.data, g.data, prob.data, plan);
}

void dequantize_blocks(const View& out, const View& codes, const View& scale, int64_t rows, int64_t columns) {
  decode(out, coded(codes, scale, rows, columns));
}

}  // namespace weft::portable::host
