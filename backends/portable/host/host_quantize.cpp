#include <algorithm>
#include <optional>

#include "host.hpp"
#include "launch.hpp"
#include "scratch_memory.hpp"

namespace weft::portable::host {

namespace {

constinit Entry block_largest_entry(named::block_largest);
constinit Entry quantize_blocks_entry(named::quantize_blocks);
constinit Entry dequantize_blocks_entry(named::dequantize_blocks);

/// Elements that one team takes of a larger block.
constexpr int64_t piece = 16384;

}  // namespace

void quantize_blocks(const View& codes, const View& scale, const View& x, const View& x_scale, int64_t rows,
                     int64_t columns, int64_t x_rows, int64_t x_columns, double epsilon, bool power_of_two) {
  if (x.layout.numel == 0) return;
  Accelerator& device = device_of(codes);
  portable::Quantize plan = {};
  plan.m = x.layout.sizes[0];
  plan.n = x.layout.sizes[1];
  plan.x = matrix_of(x);
  plan.codes = matrix_of(codes);
  plan.scales = {matrix_of(scale), std::min(rows, plan.m), std::min(columns, plan.n)};
  plan.x_scales = {matrix_of(x_scale), x_rows, x_columns};
  plan.blocks = scale.layout.numel;
  const int64_t elements = plan.scales.rows * plan.scales.columns;
  plan.pieces = (elements + piece - 1) / piece;
  plan.piece = plan.pieces == 1 ? elements : piece;
  plan.largest_code = codes.layout.dtype == DType::f8_e4m3fn ? 448.0f : 57344.0f;
  plan.epsilon = static_cast<float>(epsilon);
  plan.power_of_two = power_of_two;
  const int64_t teams = plan.blocks * plan.pieces;
  const Grid grid = team_grid(device, teams, plan.piece);
  std::optional<ScratchMemory> largest;
  if (plan.pieces > 1) {
    largest.emplace(device, static_cast<size_t>(teams) * 4);
    launch(device, block_largest_entry.on(device), grid, largest->data(), x.data, x_scale.data, plan);
  }
  launch(device, quantize_blocks_entry.on(device), grid, codes.data, scale.data, largest ? largest->data() : nullptr,
         x.data, x_scale.data, plan);
}

void dequantize_blocks(const View& out, const View& codes, const View& scale, int64_t rows, int64_t columns) {
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(out);
  portable::Dequantize plan = {};
  plan.m = out.layout.sizes[0];
  plan.n = out.layout.sizes[1];
  plan.out = matrix_of(out);
  plan.codes = matrix_of(codes);
  plan.scales = {matrix_of(scale), rows, columns};
  launch(device, dequantize_blocks_entry.on(device), item_grid(out.layout.numel), out.data, codes.data, scale.data,
         plan);
}

}  // namespace weft::portable::host
