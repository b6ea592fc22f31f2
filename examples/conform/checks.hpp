// The conformance checks by subject. Each runs on the report's device and compares with the CPU.
#pragma once

#include <string>
#include <vector>

#include <weft/ops/record.hpp>

#include "report.hpp"

namespace weft::conform {

/// How well a device supports an op and dtype.
enum class Support : uint8_t {
  none,      ///< the op does not support the dtype, or the CPU raises an error too
  absent,    ///< the device does not support the dtype
  forward,   ///< values match
  gradient,  ///< values and gradients match
  deviates
};

/// One line of the support matrix.
struct OpSupport {
  const OpRecord* record;
  std::vector<Support> by_dtype;  ///< in the order of `op_dtypes`
  /// CPU kernels that the device lacks: it runs a composite body instead.
  std::vector<std::string> missing_kernels;
};
std::span<const DType> op_dtypes();

/// "ops.NAME.DTYPE.LAYOUT": the samples of the op's record, forward and gradient, dense and with unusual layouts.
OpSupport check_op(Report& report, const OpRecord& record);
/// "copies.": in both directions, strided, between dtypes, non-blocking, pinned.
void check_copies(Report& report);
/// "memory.": statistics, limits, reuse.
void check_memory(Report& report);
/// "streams.": order, events, timing, host functions.
void check_streams(Report& report);
/// "errors.": of the caller and of kernels.
void check_errors(Report& report);
/// "random.": draws and generators.
void check_random(Report& report);
/// "training.": optimizers and a training loop.
void check_training(Report& report);
/// "meta.": requirements for a device without elements.
void check_meta(Report& report);
/// Measures launches, copies and allocations, without checks.
void measure(Report& report);

}  // namespace weft::conform
