// Compares the speed of functions by alternating between them: the time of each with its confidence interval, and its
// fraction of the machine's limits.
//
//   weft::bench::compare({{"mine", [&] { my_op(x); }}, {"library", [&] { weft::exp(x); }}},
//                        {.bytes = 8.0 * x.numel()});
//
// `./weft bench --file FILE` compiles and runs a file with such a main; see docs/benchmarking.md.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tensor/config.hpp"
#include "tensor/location.hpp"

namespace weft::bench {

/// A function, and the work of one call if it differs from that in Options (0: the same).
struct Case {
  std::string name;
  std::function<void()> run;
  double bytes = 0, operations = 0;
};

struct Options {
  /// Bytes that one call of each case reads and writes, and its floating-point operations; 0 if unknown.
  double bytes = 0, operations = 0;
  /// Maximum time of measuring per case; there are at least five rounds.
  double seconds = 2;
  /// Write the table to standard output.
  bool print = true;
  /// Pin the threads to num_threads() cores while measuring, if the system allows it.
  bool pin = true;
  /// A monotonic clock in seconds; empty for the steady clock.
  std::function<double()> clock = {};
};

/// The machine's limits, measured by special loops on num_threads() threads; 0 if not measured (Williams et al. 2009).
struct Roofs {
  /// Fused multiply-adds of float32, counted as two operations each.
  double operations_per_second = 0;
  /// From memory, and from a core's own cache.
  double memory_bytes_per_second = 0, cache_bytes_per_second = 0;
};

/// The result for one case; times are in seconds per call.
struct Figures {
  std::string name;
  double median = 0, lower_quartile = 0, upper_quartile = 0;
  /// The median over the rounds of this case's time divided by the first case's, and its 95 % confidence interval. NaN
  /// if the clock measured 0 for the first case.
  double ratio = std::numeric_limits<double>::quiet_NaN(), ratio_low = ratio, ratio_high = ratio;
  /// 0 if the work or the time is unknown.
  double bytes_per_second = 0, operations_per_second = 0;
  /// The achieved fraction of the roofs' limit for this ratio of operations to bytes; 0 if unknown.
  double of_roof = 0;
  /// Calls per sample; there is one sample per round.
  int64_t calls = 0;
};

struct Comparison {
  std::vector<Figures> cases;
  Roofs roofs;
  int rounds = 0, threads = 1;
  bool pinned = false;

  /// The table that compare() prints.
  WEFT_API std::string table() const;
};

/// Warms every function up, then measures in rounds: each round times a sample of each case, in alternating order, so
/// that other load affects all cases alike. Every sample waits for work queued on devices. Ends when the medians are
/// known to 1 % or when the time is up. Raises ValueError without cases or with an empty function; exceptions of a
/// function are passed on.
WEFT_API Comparison compare(const std::vector<Case>& cases, const Options& options = {}, Location where = {});

/// Measures the roofs at the first call for a number of threads, which takes about a tenth of a second.
WEFT_API Roofs roofs();

}  // namespace weft::bench
