#include "scratch_memory.hpp"
#include "host.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

constinit Entry mask_count_entry(named::mask_count);
constinit Entry nonzero_entry(named::nonzero);
constinit Entry masked_select_entry(named::masked_select);
constinit Entry masked_scatter_entry(named::masked_scatter);

constexpr int64_t chunk = 4096;

View list_of_counts(Accelerator& device, void* data, int64_t count) {
  View list;
  list.data = data;
  list.layout.dtype = DType::i64;
  list.layout.device_type = device.device().type;
  list.layout.device_index = device.device().index;
  list.layout.rank = 1;
  list.layout.sizes[0] = list.layout.numel = count;
  list.layout.strides[0] = 8;
  return list;
}

/// How often a mask holds before each of its chunks, and after the last.
struct Counted {
  portable::Mask plan = {};
  Accelerator& device;
  int64_t chunks;
  ScratchMemory before;

  Counted(const View& mask, const View& data)
      : device(device_of(mask)),
        chunks((mask.layout.numel + chunk - 1) / chunk),
        before(device, static_cast<size_t>(chunks + 1) * 8) {
    const DType t = mask.layout.dtype;
    const Layout* const layouts[] = {&mask.layout, &data.layout};
    plan.walk = walk_of(layouts, 0, mask.layout.rank);
    plan.chunk = chunk;
    plan.mask_item = static_cast<int32_t>(itemsize(t));
    plan.item = static_cast<int32_t>(itemsize(data.layout.dtype));
    const bool has_negative_zero = is_floating(t) && (t < DType::f8_e4m3fnuz || t > DType::f8_e8m0fnu);
    plan.truth = has_negative_zero ? (uint64_t{1} << (8 * plan.mask_item - 1)) - 1 : ~uint64_t{0};  // -0 is 0
    plan.always = t == DType::f8_e8m0fnu ? 1 : 0;
    launch(device, mask_count_entry.on(device), team_grid(device, chunks + 1, chunk), before.data(), mask.data, plan,
           chunks + 1);
    const View counts = list_of_counts(device, before.data(), chunks + 1);
    cumsum(counts, counts, 0, true, false);
  }
  Grid grid() const { return team_grid(device, chunks, chunk); }
};

}  // namespace

int64_t count_nonzero(const View& x) {
  if (x.layout.numel == 0) return 0;
  const Counted counted(x, x);
  int64_t count = 0;
  counted.device.download(&count, static_cast<char*>(counted.before.data()) + counted.chunks * 8, sizeof(count));
  return count;
}

void nonzero(const View& out, const View& x) {
  if (x.layout.rank == 0 || out.layout.numel == 0) return;
  const Counted counted(x, x);
  portable::Coordinates coordinates = {};
  coordinates.rank = x.layout.rank;
  for (int d = 0; d < x.layout.rank; ++d) coordinates.sizes[d] = x.layout.sizes[d];
  coordinates.row = out.layout.strides[0];
  coordinates.column = out.layout.strides[1];
  launch(counted.device, nonzero_entry.on(counted.device), counted.grid(), out.data, counted.before.data(), x.data,
         counted.plan, coordinates);
}

void masked_select(const View& out, const View& x, const View& mask) {
  if (out.layout.numel == 0) return;
  const Counted counted(mask, x);
  launch(counted.device, masked_select_entry.on(counted.device), counted.grid(), out.data, counted.before.data(),
         x.data, mask.data, counted.plan);
}

void masked_scatter(const View& out, const View& mask, const View& source) {
  if (out.layout.numel == 0 || source.layout.numel == 0) return;
  const Counted counted(mask, out);
  launch(counted.device, masked_scatter_entry.on(counted.device), counted.grid(), out.data, counted.before.data(),
         mask.data, source.data, counted.plan);
}

}  // namespace weft::portable::host
