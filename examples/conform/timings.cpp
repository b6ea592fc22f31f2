// Measures how long a device takes for frequent operations.
#include <algorithm>
#include <chrono>

#include <weft/backends/backend.hpp>
#include <weft/backends/stream.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/tensor/allocator.hpp>

#include "checks.hpp"

namespace weft::conform {

namespace {

/// The minimum of five synchronized runs, in microseconds.
template <class F>
double microseconds(Device device, F&& run) {
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

void measure_launches(Report& report) {
  const Device device = report.device();
  constexpr int count = 500;
  const Tensor x = ones({4}, {f32, device});
  const auto queue = [&] {
    for (int i = 0; i < count; ++i) x + 1.0;
  };
  report.time("small_op_queued", microseconds(device, queue) / count, "us");
  report.time("small_op_done", microseconds(device, [&] { queue(), synchronize(device); }) / count, "us");
  report.time("wait", microseconds(device, [&] { x + 1.0, synchronize(device); }), "us");
}

void measure_copies(Report& report) {
  const Device device = report.device();
  constexpr int64_t bytes = 16 << 20;
  const Tensor plain = ones({bytes}, u8), pinned = plain.pin_memory(device), there = plain.to(device),
               other = empty({bytes}, {u8, device});
  const auto rate = [&](const char* name, auto&& copy) {
    report.time(name, bytes / microseconds(device, [&] { copy(), synchronize(device); }) * 1e-3, "GB/s");
  };
  rate("upload", [&] { other.copy_(plain); });
  rate("upload_pinned", [&] { other.copy_(pinned, {.non_blocking = true}); });
  rate("download", [&] { plain.copy_(there); });
  rate("download_pinned", [&] { pinned.copy_(there, {.non_blocking = true}); });
  rate("copy", [&] { other.copy_(there); });
}

void measure_allocations(Report& report) {
  const Device device = report.device();
  constexpr int count = 100;
  const auto allocate = [&] {
    for (int i = 0; i < count; ++i) empty({1 << 20}, {u8, device});
  };
  allocate();
  report.time("allocation_cached", microseconds(device, allocate) / count, "us");
  report.time("allocation_new",
              microseconds(device,
                           [&] {
                             empty_cache(device), empty({64 << 20}, {u8, device});
                           }),
              "us");
}

}  // namespace

void measure(Report& report) {
  report.run("timings", [&] {
    measure_launches(report);
    measure_copies(report);
    measure_allocations(report);
  });
}

}  // namespace weft::conform
