// Checks of a device without elements.
#include <weft/backends/stream.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/tensor/allocator.hpp>
#include <weft/tensor/error.hpp>

#include "checks.hpp"

namespace weft::conform {

namespace {

template <class F>
void expect_refused(Report& report, const char* what, F&& read) {
  try {
    read();
    report.deviation(std::string("an error for ") + what, "a result");
  } catch (const Error&) {
  }
}

void elements_are_not_read(Report& report) {
  const Tensor x = ones({3}, {f32, report.device()}) + 1.0;
  report.expect(x.data_ptr() == nullptr, "no memory behind a tensor", "an address");
  expect_refused(report, "a copy to the CPU", [&] { (void)x.to(Device()); });
  expect_refused(report, "item", [&] { (void)x.slice(0, 0, 1).item<float>(); });
  expect_refused(report, "to_vector", [&] { (void)x.to_vector<float>(); });
}

void nothing_is_allocated(Report& report) {
  const Tensor huge = empty({int64_t{1} << 40}, {f64, report.device()});
  report.expect(memory_stats(report.device()).allocated == 0, "0 bytes allocated", "more");
  report.expect((huge * 2.0).numel() == int64_t{1} << 40, "a result of any size", "another");
}

}  // namespace

void check_meta(Report& report) {
  report.run("meta.elements", [&] { elements_are_not_read(report); });
  report.run("meta.memory", [&] { nothing_is_allocated(report); });
}

}  // namespace weft::conform
