// Checks of copies in both directions: all dtypes, strides, conversions, concurrent copies, pinned memory.
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include <weft/backends/backend.hpp>
#include <weft/backends/stream.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>

#include "checks.hpp"
#include "compare.hpp"

namespace weft::conform {

namespace {

constexpr int64_t many = (1 << 20) + 3;

void expect_same_bits(Report& report, const Tensor& came, const Tensor& right, const std::string& what) {
  if (!same_bits(came, right)) report.deviation(what + " unchanged", "other bytes");
}

void every_dtype_goes_and_comes(Report& report) {
  for (int t = 0; t < dtype_count; ++t) {
    const auto dtype = static_cast<DType>(t);
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{100}, many}) {
      const Tensor x = (arange(0, count) % 101).to(dtype);
      expect_same_bits(report, x.to(report.device()), x, fmt::format("{} of {}", count, name(dtype)));
    }
  }
}

/// Strided views of a tensor, used on the CPU and on the device.
std::vector<Tensor> strange_views(const Tensor& x) {
  return {x.permute({2, 0, 1}), x.slice(2, {}, {}, -2), x.slice(0, 1, 3).select(1, 2), x.slice(1, 3, {}, -1),
          x.select(0, 0).slice(0, 0, 1).expand({4, 5})};
}

void strides_go_and_come(Report& report) {
  for (const DType dtype : {DType::u8, DType::f16, DType::f32, DType::i64}) {
    const Tensor x = arange(0, 60).view({3, 4, 5}).to(dtype), there = x.to(report.device());
    const std::vector<Tensor> host = strange_views(x), device = strange_views(there);
    for (size_t i = 0; i < host.size(); ++i) {
      const std::string what = fmt::format("view {} of {}", i, name(dtype));
      expect_same_bits(report, host[i].to(report.device()), host[i], what + " to the device");
      expect_same_bits(report, device[i], host[i], what + " from the device");
      expect_same_bits(report, device[i].clone(), host[i], what + " on the device");
    }
    const Tensor target = zeros({5, 3, 4}, {dtype, report.device()}), right = zeros({5, 3, 4}, dtype);
    target.slice(0, {}, {}, -2).copy_(there.permute({2, 0, 1}).slice(0, {}, {}, 2));
    right.slice(0, {}, {}, -2).copy_(x.permute({2, 0, 1}).slice(0, {}, {}, 2));
    expect_same_bits(report, target, right, std::string("a strided write of ") + name(dtype));
  }
}

/// Devices store these 8-bit floats, and raise DTypeError for conversions.
bool is_converted_on_the_cpu_alone(DType t) { return is_storage_only(t) && t > DType::f8_e5m2; }

void dtypes_convert_alike(Report& report) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor(std::vector<double>{0, 0.5, -0.5, 1, -1, 1.0625, 127, 255, 300, 65520, 1e10, -1e10, 1e20,
                                              infinity, -infinity, nan});
  for (int from = 0; from < dtype_count; ++from) {
    for (int to = 0; to < dtype_count; ++to) {
      const auto source = static_cast<DType>(from), target = static_cast<DType>(to);
      if (source != target && (is_converted_on_the_cpu_alone(source) || is_converted_on_the_cpu_alone(target)))
        continue;
      Tensor right;
      try {
        right = x.to(source).to(target).to(f64);
      } catch (const DTypeError&) {
        continue;
      }
      const Tensor came = x.to(source).to(report.device()).to(target).to(Device()).to(f64);
      const Difference wrong = difference(came, right, Device(), {});
      if (!wrong) continue;
      report.deviation(fmt::format("{} to {}: {}", name(source), name(target), wrong.expected), wrong.came);
    }
  }
}

int64_t growing_size(int64_t i) { return 1 + i * i * 401; }  // from one byte to several staging slots

/// 64 copies with distinct patterns and growing sizes, without waiting; each source is overwritten at once.
void copies_do_not_touch_each_other(Report& report) {
  std::vector<Tensor> there;
  for (int64_t i = 0; i < 64; ++i) {
    const Tensor source = full({growing_size(i)}, i + 1, u8);
    there.push_back(source.to(report.device(), {.non_blocking = true}));
    source.fill_(0xEE);
  }
  for (int64_t i = 0; i < 64; ++i) {
    const Tensor right = full({growing_size(i)}, i + 1, u8);
    expect_same_bits(report, there[static_cast<size_t>(i)], right, fmt::format("copy {} of 64", i));
  }
}

void pinned_memory_travels(Report& report) {
  const Device device = report.device();
  std::vector<Tensor> back;
  for (int64_t i = 0; i < 64; ++i) {
    const Tensor source = full({growing_size(i)}, i + 1, u8).pin_memory(report.device());
    report.expect(source.is_pinned(report.device()), "a pinned tensor", "one that is not");
    back.push_back(source.to(device, {.non_blocking = true}).to(Device(), {.non_blocking = true}));
  }
  current_stream(device).synchronize();
  for (int64_t i = 0; i < 64; ++i) {
    const Tensor& came = back[static_cast<size_t>(i)];
    report.expect(came.is_pinned(report.device()), "a pinned result", "one that is not");
    expect_same_bits(report, came, full({growing_size(i)}, i + 1, u8), fmt::format("pinned copy {} of 64", i));
  }
  const Tensor strides = arange(0, 600).view({20, 30}).to(device).t().slice(0, {}, {}, -3);
  const Tensor came = strides.to(Device(), {.non_blocking = true});
  current_stream(device).synchronize();
  expect_same_bits(report, came, arange(0, 600).view({20, 30}).t().slice(0, {}, {}, -3), "pinned copy of strides");
}

void devices_copy_to_each_other(Report& report) {
  const int count = device_count(report.device().type);
  if (count < 2) throw NotHere{"there is one device of this kind"};
  const Device other(report.device().type, report.device().index == 0 ? 1 : 0);
  const Tensor x = arange(0, 10'000).to(report.device());
  expect_same_bits(report, x.to(other), arange(0, 10'000), "a copy between two devices");
  expect_same_bits(report, (x + 1).to(other).to(report.device()), arange(1, 10'001), "a copy there and back");
}

}  // namespace

void check_copies(Report& report) {
  report.run("copies.dtypes", [&] { every_dtype_goes_and_comes(report); });
  report.run("copies.strides", [&] { strides_go_and_come(report); });
  report.run("copies.conversions", [&] { dtypes_convert_alike(report); });
  report.run("copies.many", [&] { copies_do_not_touch_each_other(report); });
  report.run("copies.pinned", [&] { pinned_memory_travels(report); });
  report.run("copies.peers", [&] { devices_copy_to_each_other(report); });
}

}  // namespace weft::conform
