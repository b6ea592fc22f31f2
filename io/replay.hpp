// Replays a call that AnomalyGuard or BreakOn saved in a folder: `./weft replay FOLDER` calls this function.
//
// The folder holds the call of the op that produced the NaN or infinity, with its arguments and, for a backward, the
// incoming gradient. If that call was not found, the folder holds the kernel call: operands as bits, parameters and the
// counters of a random draw. Load only trusted folders: kernels do not validate the contents of call.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "path.hpp"
#include "../tensor/device.hpp"
#include "../tensor/index.hpp"

namespace weft::io {

struct Replayed {
  /// Whether the NaN or infinity occurred again, as in the saved call.
  bool happens = false;
  /// The op and the program's line, whether the op or its kernel was called, each operand's range, and whether it
  /// happens.
  std::string text;
  /// The op's tensors and results, for a backward their gradients, for a kernel its inputs and outputs. On the CPU.
  std::vector<Tensor> inputs, outputs;
  /// For a backward: the incoming gradients of the op's node.
  std::vector<Tensor> arrived;
};

/// Runs the call on `device`, by default on the original type of device. Elements have the saved values, in row-major
/// order; strides are not kept.
///
/// Raises IoError and FormatError if the folder has no such call, and ValueError for a kernel or parameters that this
/// version lacks. Raises NotImplementedError for a kernel that the device lacks, DeviceError if the device is not
/// available, and the op's own errors.
WEFT_API Replayed replay(const Path& folder, std::optional<Device> device = {}, Location where = {});

}  // namespace weft::io
