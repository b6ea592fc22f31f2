// Checks of streams and events: order within and between streams, timing, host functions.
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include <weft/backends/backend.hpp>
#include <weft/backends/stream.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/tensor/error.hpp>

#include "checks.hpp"
#include "compare.hpp"

namespace weft::conform {

namespace {

using namespace std::chrono_literals;

/// Blocks a stream until destruction, or for at most two seconds.
class Gate {
 public:
  explicit Gate(const Stream& stream) {
    stream.call([open = open_] {
      for (int i = 0; i < 20'000 && !*open; ++i) std::this_thread::sleep_for(100us);
      *open = true;
    });
  }
  ~Gate() { *open_ = true; }
  bool holds() const { return !*open_; }

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

/// Skips the check on a device without asynchronous execution, where commands cannot be reordered.
void require_queues(Device device) {
  const Stream stream(device);
  const auto start = std::chrono::steady_clock::now();
  stream.call([] { std::this_thread::sleep_for(20ms); });
  if (std::chrono::steady_clock::now() - start > 15ms) throw NotHere{"each command is waited for"};
  stream.synchronize();
}

void expect_value(Report& report, const Tensor& x, double value, const std::string& what) {
  const Difference wrong = difference(x, full(x.shape(), value, f32), report.device(), {});
  if (wrong) report.deviation(what + ": " + wrong.expected, wrong.came);
}

void one_stream_keeps_its_order(Report& report) {
  const Stream stream(report.device());
  const StreamGuard guard(stream);
  Tensor x = zeros({1000}, {f32, report.device()});
  for (int i = 0; i < 10; ++i) {
    x = x * 2.0 + 1.0;
    x += 1.0;
  }
  expect_value(report, x, 2046, "ten rounds of 2x + 2");
}

void streams_run_beside_each_other(Report& report) {
  require_queues(report.device());
  const Stream held(report.device()), free(report.device());
  const Gate gate(held);
  report.expect(!held.query(), "query() is false for a stream that is held");
  const StreamGuard guard(free);
  expect_value(report, ones({100}, {f32, report.device()}) + 1.0, 2, "a stream beside one that is held");
  report.expect(gate.holds(), "one stream to leave the other alone", "a wait for it");
}

void events_order_streams(Report& report) {
  require_queues(report.device());
  const Stream writer(report.device()), reader(report.device());
  const Tensor large = ones({500'000}, {f32, report.device()});
  for (int round = 1; round <= 10; ++round) {
    const Tensor x = zeros({1000}, {f32, report.device()});
    writer.wait_stream(current_stream(report.device()));
    Tensor y;
    Event written;
    {
      const Gate gate(writer);
      {
        const StreamGuard guard(writer);
        for (int i = 0; i < 20; ++i) large * 1.0;  // delays the writer, so that a missing wait reads too early
        x.fill_(round);
      }
      written.record(writer);
      report.expect(!written.query(), "query() is false for an event that is to come");
      reader.wait_event(written);
      const StreamGuard guard(reader);
      y = x * 2.0;
    }
    written.synchronize();
    report.expect(written.query(), "query() is true for an event that was waited for");
    reader.synchronize();
    expect_value(report, y, 2 * round, "the writes of one stream before the event that the other waits for");
  }
}

void times_grow(Report& report) {
  const Stream stream(report.device());
  const auto timed = [] { return Event({.timing = true}); };
  std::vector<Event> events;
  static constexpr int count = 10, pause = 5;
  for (int i = 0; i <= count; ++i) {
    events.push_back(timed());
    events.back().record(stream);
    stream.call([] { std::this_thread::sleep_for(std::chrono::milliseconds(pause)); });
  }
  stream.synchronize();
  for (size_t i = 0; i < count; ++i) {
    const double elapsed = events[i].elapsed_time(events[i + 1]);
    report.expect(elapsed >= 0.9 * pause && elapsed < 10'000, fmt::format("at least {} ms between two events", pause),
                  fmt::format("{} ms", elapsed));
  }
  const double all = events.front().elapsed_time(events.back());
  report.expect(all >= 0.9 * pause * count && all < 20'000, fmt::format("at least {} ms in all", pause * count),
                fmt::format("{} ms", all));
}

void functions_run_in_order(Report& report) {
  const Stream stream(report.device());
  const Tensor host = zeros({4}).pin_memory(report.device());
  const auto seen =
      std::make_shared<std::vector<float>>(50);  // shared, because a faulty device may call the functions later
  const StreamGuard guard(stream);
  for (size_t i = 0; i < seen->size(); ++i) {
    host.copy_(full({4}, static_cast<double>(i), {f32, report.device()}), {.non_blocking = true});
    stream.call([seen, host, i] { (*seen)[i] = static_cast<const float*>(host.data_ptr())[3]; });
  }
  stream.synchronize();
  const std::vector<float> came = *seen;
  for (size_t i = 0; i < came.size(); ++i) {
    report.expect(came[i] == static_cast<float>(i), fmt::format("{} in call {} of the host", i, i),
                  fmt::format("{}", came[i]));
  }
}

void functions_may_throw(Report& report) {
  const Stream stream(report.device());
  stream.call([] { throw std::runtime_error("of the host"); });
  try {
    stream.synchronize();
    report.deviation("the exception of a function of the host, at the next wait", "nothing");
  } catch (const std::runtime_error& error) {
    report.expect(std::string(error.what()) == "of the host", "the function's own error", error.what());
  }
  stream.synchronize();
}

void dropped_handles_are_finished(Report& report) {
  Tensor x;
  {
    const Stream stream(report.device());
    const StreamGuard guard(stream);
    x = zeros({1000}, {f32, report.device()});
    for (int i = 0; i < 100; ++i) {
      const Tensor step = full({1000}, i, {f32, report.device()});
      x = x + step;
    }
  }
  synchronize(report.device());
  expect_value(report, x, 4950, "tensors and a stream that were dropped before the wait");
}

/// 10 000 small ops from four threads on four streams.
void many_small_ops_of_four_threads(Report& report) {
  const Device device = report.device();
  const Tensor numbers = arange(0, 50).to(f32), shared = numbers.to(device);
  synchronize(device);
  const auto work = [&](const Tensor& step, Tensor x) {
    for (int i = 0; i < 625; ++i) {
      x = x + step;
      x = x * 1.0;
      x += 2.0;
      x = x - 2.0;
    }
    return x;
  };
  std::vector<Tensor> results(4);
  std::vector<std::string> failures(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      try {
        const Stream stream(device);
        const StreamGuard guard(stream);
        results[t] = work(shared, full({50}, static_cast<double>(t), {f32, device}));
        stream.synchronize();
      } catch (const std::exception& error) {
        failures[t] = text_of(error);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < 4; ++t) {
    if (!failures[t].empty()) report.deviation("no error in a thread", failures[t]);
    const Tensor right = work(numbers, full({50}, static_cast<double>(t), f32));
    const Difference wrong = difference(results[t], right, device, {});
    if (wrong) report.deviation("thread " + std::to_string(t) + ": " + wrong.expected, wrong.came);
  }
}

}  // namespace

void check_streams(Report& report) {
  report.run("streams.order", [&] { one_stream_keeps_its_order(report); });
  report.run("streams.beside", [&] { streams_run_beside_each_other(report); });
  report.run("streams.events", [&] { events_order_streams(report); });
  report.run("streams.timing", [&] { times_grow(report); });
  report.run("streams.functions", [&] { functions_run_in_order(report); });
  report.run("streams.errors_of_functions", [&] { functions_may_throw(report); });
  report.run("streams.dropped_handles", [&] { dropped_handles_are_finished(report); });
  report.run("streams.small_ops", [&] { many_small_ops_of_four_threads(report); });
}

}  // namespace weft::conform
