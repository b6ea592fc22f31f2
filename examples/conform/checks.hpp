// The checks, by subject. Each runs on the report's device and compares with the CPU.
#pragma once

#include <string>
#include <vector>

#include <weft/ops/record.hpp>

#include "report.hpp"

namespace weft::conform {

/// How far an op's dtype works on the device.
enum class Support : uint8_t {
  none,      ///< not one of the op's dtypes, or the CPU refuses it, too
  absent,    ///< the device has no such numbers
  forward,   ///< values agree
  gradient,  ///< values and gradients agree
  deviates
};

/// One line of the support matrix.
struct OpSupport {
  const OpRecord* record;
  std::vector<Support> by_dtype;  ///< in the order of `op_dtypes`
  /// Kernels of the CPU's that the device does without: a composite body ran.
  std::vector<std::string> missing_kernels;
};
std::span<const DType> op_dtypes();

/// "ops.NAME.DTYPE.LAYOUT": the record's samples, forward and gradient, dense and with strange layouts.
OpSupport check_op(Report& report, const OpRecord& record);
/// "copies.": both ways, with strides, between dtypes, not blocking, pinned.
void check_copies(Report& report);
/// "memory.": figures, limits, reuse.
void check_memory(Report& report);
/// "streams.": order, events, times, functions of the host.
void check_streams(Report& report);
/// "errors.": of the caller, and of kernels.
void check_errors(Report& report);
/// "random.": draws and generators.
void check_random(Report& report);
/// "training.": optimizers and a loop.
void check_training(Report& report);
/// "meta.": what holds for a device without elements.
void check_meta(Report& report);
/// Launches, copies, allocations. Nothing is checked.
void measure(Report& report);

}  // namespace weft::conform
