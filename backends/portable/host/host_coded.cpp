#include <algorithm>

#include "coded.hpp"
#include "host.hpp"

namespace weft::portable::host {

namespace {

constinit Entry dequantize_entry(named::dequantize);
constinit Entry large_entry(named::coded_large);
constinit Entry small_entry(named::coded_small);
constinit Entry few_entry(named::coded_few);

/// Up to so many rows a team sums each number; beyond, tiles do.
constexpr int64_t few = 8;

/// Unscaled elements; `scale` is for callers that scale their sums.
CodedMatrix plain(const View& x, const View& scale = {}) {
  CodedMatrix m = {x, scale, {}, {}};
  m.form.codes = matrix_of(x);
  m.form.bits = 8 * static_cast<int32_t>(itemsize(x.layout.dtype));
  return m;
}

/// The number of codes of b in one word with one scale, for any lane; else one.
int32_t run_of(const CodedMatrix& b, const portable::CodedProduct& plan) {
  const portable::Codes& form = b.form;
  const int32_t run = 32 / form.bits;
  const bool aligned = reinterpret_cast<uintptr_t>(b.codes.data) % 4 == 0 && form.codes.row % 4 == 0;
  const bool together = form.codes.column == 1 && plan.k % run == 0;
  const bool one_scale = form.scales.columns % run == 0 && plan.b_sums.columns % run == 0;
  return aligned && together && one_scale ? run : 1;
}

/// With a plan that has the scales of sums.
void multiply(portable::CodedProduct& plan, const View& out, const View& start, const CodedMatrix& a,
              const CodedMatrix& b, int64_t k) {
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(out);
  plan.m = out.layout.sizes[0];
  plan.n = out.layout.sizes[1];
  plan.k = k;
  plan.segment = plan.b_sums.scale.present ? plan.b_sums.columns : std::max<int64_t>(k, 1);
  plan.a = a.form;
  plan.b = b.form;
  plan.out = matrix_of(out);
  plan.start = matrix_of(start);
  plan.run = run_of(b, plan);
  const auto run = [&](Entry& entry, const Grid& grid) {
    launch(device, entry.on(device), grid, out.data, start.data, a.codes.data, a.scale.data, b.codes.data, b.scale.data,
           b.zero.data, plan);
  };
  const auto tiles = [&](int64_t edge) {
    return tile_grid(((plan.m + edge - 1) / edge) * ((plan.n + edge - 1) / edge));
  };
  if (plan.m <= few) {
    const int64_t blocks = (plan.m + portable::coded_rows_together - 1) / portable::coded_rows_together;
    run(few_entry, team_grid(device, blocks * plan.n, k / plan.run));
  } else if (plan.m >= 32 && plan.n >= 32) {
    run(large_entry, tiles(64));
  } else {
    run(small_entry, tiles(16));
  }
}

}  // namespace

CodedMatrix coded(const View& codes, const View& scale, int64_t rows, int64_t columns) {
  CodedMatrix m = plain(codes, scale);
  m.form.scales = {matrix_of(scale), rows, columns};
  return m;
}

CodedMatrix grouped(const View& codes, const View& scale, const View& zero, int64_t bits, int64_t group) {
  CodedMatrix m = coded(codes, scale, 1, group);
  m.zero = zero;
  m.form.zero = matrix_of(zero);
  m.form.bits = static_cast<int32_t>(bits);
  m.form.offset = bits == 4 && zero.data == nullptr ? 8 : 0;
  return m;
}

void decode(const View& out, const CodedMatrix& codes) {
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(out);
  const portable::Dequantize plan = {out.layout.sizes[0], out.layout.sizes[1], matrix_of(out), codes.form};
  launch(device, dequantize_entry.on(device), item_grid(out.layout.numel), out.data, codes.codes.data, codes.scale.data,
         codes.zero.data, plan);
}

void blockwise_matmul(const View& out, const View& start, const View& a, const View& a_scale, const View& b,
                      const View& b_scale, int64_t a_rows, int64_t b_rows) {
  portable::CodedProduct plan = {};
  plan.a_sums = {matrix_of(a_scale), a_rows, block_columns};
  plan.b_sums = {matrix_of(b_scale), b_rows, block_columns};
  multiply(plan, out, start, plain(a, a_scale), plain(b, b_scale), a.layout.sizes[1]);
}

void quantized_matmul(const View& out, const View& x, const View& codes, const View& scale, const View& zero,
                      const View& bias, int64_t bits, int64_t group) {
  portable::CodedProduct plan = {};
  const View start = bias.data != nullptr ? broadcast_view(bias, sizes_of(out.layout)) : View();
  multiply(plan, out, start, plain(x), grouped(codes, scale, zero, bits, group), x.layout.sizes[1]);
}

}  // namespace weft::portable::host
