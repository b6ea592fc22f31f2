// Checks of errors, of the caller and of kernels, and of use from several threads.
#include <algorithm>
#include <thread>

#include <weft/backends/backend.hpp>
#include <weft/backends/stream.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/loss.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/scatter.hpp>
#include <weft/tensor/error.hpp>

#include "checks.hpp"
#include "compare.hpp"

namespace weft::conform {

namespace {

/// Queues an op with an index out of range. The next wait must report this op and its location.
template <class F>
void expect_index_error(Report& report, const std::string& op, const Location& place, F&& queue_op) {
  const std::string wanted = "IndexError of " + op + " at " + place.text();
  try {
    queue_op();
    synchronize(report.device());
    report.deviation(wanted + " at the next wait", "none");
  } catch (const IndexError& error) {
    const std::string text = error.what();
    const bool named = text.find(op) != std::string::npos && text.find(place.text()) != std::string::npos;
    report.expect(named, wanted,
                  text.substr(0, text.find('\n')) + text.substr(std::min(text.size(), text.rfind('\n'))));
  }
  synchronize(report.device());
}

void indices_are_checked(Report& report) {
  const Device device = report.device();
  const Tensor x = ones({3, 4}, {f32, device}), far = full({2}, 7, {i64, device});
  Location here;
  here = Location(), expect_index_error(report, "index_select", here, [&] { index_select(x, 0, far, here); });
  here = Location(), expect_index_error(report, "gather", here, [&] {
    gather(x, 1, full({3, 1}, 9, {i64, device}), here);
  });
  here = Location(), expect_index_error(report, "embedding", here, [&] { embedding(x, far, -1, here); });
  here = Location(), expect_index_error(report, "cross_entropy", here, [&] {
    cross_entropy(x, full({3}, 4, {i64, device}), {}, here);
  });
  if (!same_bits(x, ones({3, 4}, f32))) report.deviation("x as it was", "x was written");
}

void writes_out_of_range_are_skipped(Report& report) {
  const Device device = report.device();
  const Tensor x = zeros({3}, {f32, device}), index = tensor({0, 5}, i64).to(device);
  try {
    x.index_add_(0, index, ones({2}, {f32, device}));
    synchronize(device);
    report.deviation("IndexError of index_add_", "none");
  } catch (const IndexError&) {
  }
  synchronize(device);
  const Tensor next = zeros({3}, {f32, device});
  next.index_add_(0, tensor({0, 2}, i64).to(device), ones({2}, {f32, device}));
  if (!same_bits(next, tensor({1.0, 0.0, 1.0}, f32))) report.deviation("1 0 1 after the error", "others");
}

void an_index_error_is_its_streams_own(Report& report) {
  const Device device = report.device();
  const Stream wrong(device), right(device);
  const Tensor x = ones({3}, {f32, device}), index = full({2}, 7, {i64, device});
  synchronize(device);
  try {
    {
      const StreamGuard guard(wrong);
      index_select(x, 0, index);
    }
    right.synchronize();
  } catch (const IndexError&) {
    return report.deviation("the error on the stream of the op", "one elsewhere");
  }
  try {
    wrong.synchronize();
    report.deviation("IndexError on the stream of the op", "none");
  } catch (const IndexError&) {
  }
}

void operands_of_two_devices_are_refused(Report& report) {
  const Tensor here = ones({3}), there = ones({3}, {f32, report.device()});
  try {
    const Tensor sum = here + there;
    report.deviation("DeviceError for operands of two devices", "a result");
  } catch (const DeviceError&) {
  }
}

void four_threads_compute(Report& report) {
  const auto work = [](Device device, size_t t) {
    Tensor x = full({24, 24}, static_cast<double>(t), {f32, device});
    for (int i = 0; i < 50; ++i) x = x + 1.0;
    return sum(matmul(x, ones({24, 1}, {f32, device}))).item<double>();
  };
  std::vector<double> results(4);
  std::vector<std::string> failures(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      try {
        results[t] = work(report.device(), t);
      } catch (const std::exception& error) {
        failures[t] = text_of(error);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < results.size(); ++t) {
    const double right = work(Device(), t);
    if (!failures[t].empty()) report.deviation("no error in a thread", failures[t]);
    else report.expect(results[t] == right, std::to_string(right) + " in a thread", std::to_string(results[t]));
  }
}

}  // namespace

void check_errors(Report& report) {
  report.run("errors.index", [&] { indices_are_checked(report); });
  report.run("errors.index_write", [&] { writes_out_of_range_are_skipped(report); });
  report.run("errors.index_stream", [&] { an_index_error_is_its_streams_own(report); });
  report.run("errors.two_devices", [&] { operands_of_two_devices_are_refused(report); });
  report.run("errors.threads", [&] { four_threads_compute(report); });
}

}  // namespace weft::conform
