// Checks of memory statistics, and that memory is not reused too early.
#include <thread>

#include <fmt/format.h>

#include <weft/backends/backend.hpp>
#include <weft/backends/stream.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/tensor/allocator.hpp>
#include <weft/tensor/error.hpp>

#include "checks.hpp"
#include "compare.hpp"

namespace weft::conform {

namespace {

constexpr size_t mebibyte = size_t{1} << 20;

void expect_order(Report& report, const char* smaller, size_t a, const char* larger, size_t b) {
  report.expect(a <= b, fmt::format("{} <= {}", smaller, larger), fmt::format("{} and {}", a, b));
}

void expect_sound(Report& report, const MemoryStats& s) {
  expect_order(report, "allocated", s.allocated, "reserved", s.reserved);
  expect_order(report, "allocated", s.allocated, "peak_allocated", s.peak_allocated);
  expect_order(report, "reserved", s.reserved, "peak_reserved", s.peak_reserved);
  expect_order(report, "free", s.free, "total", s.total);
  expect_order(report, "reserved", s.reserved, "total - free", s.total - s.free);
}

void figures_follow_tensors(Report& report) {
  const Device device = report.device();
  synchronize(device);
  empty_cache(device);
  const MemoryStats before = memory_stats(device);
  report.expect(before.total > 0, "a size of the memory", "0");
  expect_sound(report, before);
  Tensor x = empty({1 << 18}, {f32, device});
  const MemoryStats during = memory_stats(device);
  expect_sound(report, during);
  expect_order(report, "1 MiB", mebibyte, "growth of allocated", during.allocated - before.allocated);
  report.expect(during.allocations == before.allocations + 1, "one allocation more",
                std::to_string(during.allocations - before.allocations));
  std::thread([mine = std::move(x)]() mutable { mine = Tensor(); }).join();
  const MemoryStats after = memory_stats(device);
  report.expect(after.allocated == before.allocated,
                fmt::format("{} allocated after another thread freed", before.allocated),
                std::to_string(after.allocated));
  expect_order(report, "peak before the reset", during.allocated, "peak_allocated", after.peak_allocated);
  reset_peak(device);
  report.expect(memory_stats(device).peak_allocated == after.allocated, "peak_allocated = allocated after reset_peak",
                std::to_string(memory_stats(device).peak_allocated));
  empty_cache(device);
  expect_order(report, "reserved after empty_cache", memory_stats(device).reserved, "as before", before.reserved);
}

void limits_hold(Report& report) {
  const Device device = report.device();
  set_memory_limit(device, memory_stats(device).allocated + mebibyte);
  try {
    const Tensor large = empty({2 << 20}, {u8, device});
    report.deviation("OutOfMemoryError beyond the limit", "a tensor");
  } catch (const OutOfMemoryError& error) {
    report.expect(error.requested == 2 * mebibyte, "2097152 requested", std::to_string(error.requested));
  }
  set_memory_limit(device, 0);
  const Tensor x = ones({2 << 20}, {u8, device});
  if (!same_bits(x, ones({2 << 20}, u8))) report.deviation("ones after the limit is lifted", "others");
}

void too_much_is_an_error(Report& report) {
  const Device device = report.device();
  const auto total = static_cast<int64_t>(memory_stats(device).total);
  try {
    const Tensor large = empty({total + 1}, {u8, device});
    report.deviation("OutOfMemoryError for more than there is", "a tensor");
  } catch (const OutOfMemoryError&) {
  }
  if (!same_bits(ones({10}, {f32, device}) * 2.0, full({10}, 2, f32))) report.deviation("2 afterwards", "others");
}

void absent_devices_are_errors(Report& report) {
  const DeviceType type = report.device().type;
  const int count = device_count(type);
  if (count > 255) throw NotHere{"every index is a device's"};
  const Device absent(type, count);
  try {
    memory_stats(absent);
    report.deviation("DeviceError for " + absent.name(), "figures");
  } catch (const DeviceError&) {
  }
}

/// Frees memory that a stream still reads, and reuses and overwrites it on another stream.
void blocks_wait_for_their_users(Report& report) {
  const Device device = report.device();
  const Stream side(device);
  for (int round = 0; round < 50; ++round) {
    Tensor x = full({20'000}, round, {f32, device}), copy;
    side.wait_stream(current_stream(device));
    {
      const StreamGuard guard(side);
      side.call([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
      copy = x + 0.0;
    }
    x = Tensor();
    for (int i = 0; i < 4; ++i) full({20'000}, -1, {f32, device});
    current_stream(device).synchronize();
    side.synchronize();
    const Difference wrong = difference(copy, full({20'000}, round, f32), device, {});
    if (wrong) return report.deviation("memory that waits for the stream that reads it: " + wrong.expected, wrong.came);
  }
}

void pinned_blocks_wait_for_their_copies(Report& report) {
  const Device device = report.device();
  const Stream side(device);
  const StreamGuard guard(side);
  for (int round = 0; round < 50; ++round) {
    Tensor source = full({20'000}, round, f32).pin_memory(report.device());
    side.call([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
    const Tensor there = source.to(device, {.non_blocking = true});
    source = Tensor();
    for (int i = 0; i < 4; ++i) full({20'000}, -1, f32).pin_memory(report.device());
    const Difference wrong = difference(there, full({20'000}, round, f32), device, {});
    if (wrong) return report.deviation("pinned memory that waits for its copy: " + wrong.expected, wrong.came);
  }
}

/// On one stream freed memory is reused immediately, in the order of commands.
void one_stream_reuses_in_order(Report& report) {
  const Device device = report.device();
  Tensor total = zeros({1000}, {f32, device});
  for (int i = 1; i <= 200; ++i) total = total + full({1000}, i, {f32, device}) * 2.0;
  const Difference wrong = difference(total, full({1000}, 200 * 201, f32), device, {});
  if (wrong) report.deviation(wrong.expected, wrong.came);
}

}  // namespace

void check_memory(Report& report) {
  report.run("memory.figures", [&] { figures_follow_tensors(report); });
  report.run("memory.limit", [&] { limits_hold(report); });
  report.run("memory.too_much", [&] { too_much_is_an_error(report); });
  report.run("memory.absent_device", [&] { absent_devices_are_errors(report); });
  report.run("memory.reuse_on_one_stream", [&] { one_stream_reuses_in_order(report); });
  report.run("memory.reuse_across_streams", [&] { blocks_wait_for_their_users(report); });
  report.run("memory.reuse_of_pinned", [&] { pinned_blocks_wait_for_their_copies(report); });
}

}  // namespace weft::conform
