// Compares functions by turns: how long each takes, how sure that is, and how near it comes to what the machine can do.
//
//   weft::bench::compare({{"mine", [&] { my_op(x); }}, {"library", [&] { weft::exp(x); }}}, {.bytes = 8.0 *
//   x.numel()});
//
// `./weft bench --file FILE` compiles a file with such a main and runs it; docs/benchmarking.md has more.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tensor/config.hpp"
#include "tensor/location.hpp"

namespace weft::bench {

/// One function, and the work of one call where it differs from that of the others.
struct Case {
  std::string name;
  std::function<void()> run;
  double bytes = 0, operations = 0;
};

struct Options {
  /// What one call of each case reads and writes, and how many floating-point operations it takes; 0 where unknown.
  double bytes = 0, operations = 0;
  /// Measuring ends here at the latest, for each case; five rounds are made in any case.
  double seconds = 2;
  /// Writes the table to standard output.
  bool print = true;
  /// Holds the threads to as many cores as num_threads() says while measuring, where the system allows it.
  bool pin = true;
  /// Seconds from any beginning, never running back; empty: the steady clock.
  std::function<double()> clock = {};
};

/// What the machine reaches in loops made for it, by num_threads() threads; 0 where it was not measured.
struct Roofs {
  /// Fused multiply-adds of float32, two operations each.
  double operations_per_second = 0;
  /// From memory, and where all operands lie in a core's own cache.
  double memory_bytes_per_second = 0, cache_bytes_per_second = 0;
};

/// Times are seconds a call.
struct Figures {
  std::string name;
  double median = 0, lower_quartile = 0, upper_quartile = 0;
  /// The median over the rounds of this case's time by the first case's, and its interval of 95 % confidence. NaN where
  /// the clock saw nothing of the first case.
  double ratio = std::numeric_limits<double>::quiet_NaN(), ratio_low = ratio, ratio_high = ratio;
  /// 0 where the work or the time is unknown.
  double bytes_per_second = 0, operations_per_second = 0;
  /// The part of what the roofs allow at this ratio of operations to bytes; 0 where it is unknown.
  double of_roof = 0;
  /// Calls of one sample; there is one sample in each round.
  int64_t calls = 0;
};

struct Comparison {
  std::vector<Figures> cases;
  Roofs roofs;
  int rounds = 0, threads = 1;
  bool pinned = false;

  /// What compare() prints.
  WEFT_API std::string table() const;
};

/// Calls every function until it is warm, then all by turns: each round times a sample of each, the next round in the
/// reverse order, so that a busy machine disturbs all alike. Work queued on devices is waited for in every sample. Ends
/// when the medians are known to 1 % or when the time is up. ValueError without cases or with an empty function; what
/// a function throws passes through.
WEFT_API Comparison compare(const std::vector<Case>& cases, const Options& options = {}, Location where = {});

/// Measured at the first call for a number of threads, which takes about a tenth of a second.
WEFT_API Roofs roofs();

}  // namespace weft::bench
