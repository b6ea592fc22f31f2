#include "../statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "../../autograd/mode.hpp"
#include "../../backends/watch/host_values.hpp"

namespace weft {

namespace {

Tensor on_host(const Tensor& x, const char* op, Location where) {
  if (!x.defined()) raise<ValueError>({.op = op, .problem = "an undefined tensor has no elements"}, where);
  const NoGradGuard unrecorded;
  return x.detach().to(Device(), where).contiguous(where);
}

}  // namespace

double Statistics::rms() const {
  const int64_t finite = count - non_finite;
  return finite > 0 ? norm / std::sqrt(static_cast<double>(finite)) : 0;
}

double Statistics::zero_share() const {
  return count > 0 ? static_cast<double>(zeros) / static_cast<double>(count) : 0;
}

Statistics& Statistics::operator+=(const Statistics& more) {
  const double mine = static_cast<double>(count - non_finite);
  const double theirs = static_cast<double>(more.count - more.non_finite), all = mine + theirs;
  if (theirs > 0) {
    const double delta = more.mean - mean;
    const double spread = deviation * deviation * (mine / all) + more.deviation * more.deviation * (theirs / all);
    deviation = std::sqrt(spread + delta * delta * (mine / all) * (theirs / all));
    mean += delta * (theirs / all);
    norm = std::hypot(norm, more.norm);
    low = mine > 0 ? std::min(low, more.low) : more.low;
    high = mine > 0 ? std::max(high, more.high) : more.high;
  }
  count += more.count, zeros += more.zeros, non_finite += more.non_finite;
  return *this;
}

Statistics statistics(const Tensor& x, Location where) {
  const Tensor host = on_host(x, "statistics", where);
  const cpu::ElementStatistics e = cpu::element_statistics(host.raw_view());
  const double finite = static_cast<double>(e.finite());
  Statistics s{.count = e.count, .zeros = e.zeros, .non_finite = e.non_finite, .mean = e.mean};
  s.low = e.low, s.high = e.high;
  if (finite > 0) s.deviation = std::sqrt(e.squares / finite);
  s.norm = std::hypot(std::sqrt(e.squares), std::sqrt(finite) * e.mean);
  return s;
}

uint64_t Histogram::count() const {
  const uint64_t below = std::accumulate(negative.begin(), negative.end(), uint64_t{0});
  return std::accumulate(positive.begin(), positive.end(), below) + zeros + non_finite;
}

Histogram magnitude_histogram(const Tensor& x, int64_t samples, Location where) {
  const Tensor host = on_host(x, "magnitude_histogram", where).to(f32, where);
  const int64_t stride = std::max<int64_t>(1, (host.numel() + samples - 1) / std::max<int64_t>(1, samples));
  std::array<uint32_t, 512> counts{};
  cpu::count_exponents(host.raw_view(), stride, counts);
  Histogram h;
  for (int sign = 0; sign < 2; ++sign) {
    auto& side = sign == 0 ? h.positive : h.negative;
    const uint32_t* exponent = counts.data() + 256 * sign;
    // Exponent 0: zero, and values below 2^-126, which are negligible in a step.
    h.zeros += exponent[0];
    h.non_finite += exponent[255];
    for (int e = 1; e < 255; ++e) {
      side[static_cast<size_t>(std::clamp(e - 127 - Histogram::lowest, 0, Histogram::bins - 1))] += exponent[e];
    }
  }
  return h;
}

}  // namespace weft
