// Measures this machine.
#include <algorithm>
#include <chrono>

#include <unistd.h>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../ops/matmul.hpp"
#include "../../ops/pointwise.hpp"
#include "../collectives.hpp"
#include "../cost_model.hpp"

namespace weft::distributed {

namespace {

/// Seconds per call: the mean over a quarter of a second, so that other load is averaged out. All ranks make the same
/// number of calls.
template <class F>
double seconds_of(const Group& group, F call) {
  using Clock = std::chrono::steady_clock;
  const auto timed = [&](int64_t times) {
    if (group.size() > 1) barrier(group);
    const auto begin = Clock::now();
    for (int64_t i = 0; i < times; ++i) call();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  (void)timed(1);
  double once = timed(3) / 3;
  if (group.size() > 1) once = all_reduce(tensor(once, f64), group, ReduceOp::max).item<double>();
  const auto times = std::max<int64_t>(3, static_cast<int64_t>(0.25 / once));
  return timed(times) / static_cast<double>(times);
}

/// Bandwidth and latency, from a large and a small all_reduce.
MachineLink measure_link(const Group& group) {
  const int64_t ranks = group.size();
  const Tensor large = zeros({int64_t{4} << 20}), small = zeros({64});
  const double bytes = static_cast<double>(large.nbytes());
  const Sending sent = sent_by_all_reduce(bytes, ranks),
                one_round = sent_by_all_reduce(static_cast<double>(small.nbytes()), ranks);
  const double latency = seconds_of(group, [&] { all_reduce_(small, group); }) / one_round.messages;
  const double seconds = seconds_of(group, [&] { all_reduce_(large, group); });
  return {0, sent.bytes / std::max(seconds - sent.messages * latency, 0.1 * seconds), latency};
}

double physical_memory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Machine measure_machine(const Group& group, Location where) {
  const CallScope call("measure_machine", where);
  const NoGradGuard unrecorded;
  constexpr int64_t n = 512;
  const Tensor a = ones({n, n}), b = ones({n, n}), from = ones({int64_t{8} << 20}), to = empty_like(from);
  const double flops = 2.0 * n * n * n / seconds_of(group, [&] { (void)matmul(a, b); });
  const double bandwidth = 2.0 * static_cast<double>(from.nbytes()) / seconds_of(group, [&] { to.copy_(from); });
  MachineLink link{0, bandwidth / 2, 1e-6};
  Tensor speeds = tensor({flops, bandwidth}, f64);
  if (group.size() > 1) {
    link = measure_link(group);
    speeds = tensor({flops, bandwidth, link.bytes_per_second, link.latency}, f64);
    speeds = all_reduce(speeds, group, ReduceOp::avg);
  }
  const std::vector<double> mean = speeds.to_vector<double>();
  if (mean.size() > 2) link = {0, mean[2], mean[3]};
  return {.name = fmt::format("this machine, {} ranks by {}", group.size(), group.wire()),
          .flops = mean[0],
          .narrow_flops = mean[0],
          .memory = physical_memory() / group.size(),
          .memory_bandwidth = mean[1],
          .links = {link},
          .overlap = 0};
}

}  // namespace weft::distributed
