// Running a call again that AnomalyGuard or BreakOn left in a folder: `./weft replay FOLDER` is this function.
//
// The folder holds the call of the op that made the NaN or infinity, with its arguments and, of a backward, the
// gradient that arrived; where that call was not found, the call of its kernel: operands as bits, parameters and the
// counters of a random draw. Only folders from a trusted place: kernels check nothing that call.json says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "path.hpp"
#include "../tensor/device.hpp"
#include "../tensor/index.hpp"

namespace weft::io {

struct Replayed {
  /// NaN or an infinity was made again, as it was then.
  bool happens = false;
  /// The op and the program's line, the call or its kernel, each operand's range, and whether it happens.
  std::string text;
  /// The op's tensors and its results, or of a backward their gradients; of a kernel what it read and wrote. On the
  /// CPU.
  std::vector<Tensor> inputs, outputs;
  /// The gradients that arrived at the op's node, in its backward.
  std::vector<Tensor> arrived;
};

/// Runs the call on `device`, or on the kind that it came from. Elements are those of then, in row-major order; strides
/// are not kept. IoError and FormatError for a folder that is none, ValueError for a kernel or parameters that this
/// version lacks, the op's own errors, NotImplementedError for a kernel that the device lacks, DeviceError where it is
/// not here.
WEFT_API Replayed replay(const Path& folder, std::optional<Device> device = {}, Location where = {});

}  // namespace weft::io
