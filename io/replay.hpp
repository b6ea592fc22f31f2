// Running a kernel's call again that AnomalyGuard or BreakOn left in a folder: `./weft replay FOLDER` is this function.
//
// The folder holds the call of the one kernel that made the NaN or infinity, in the forward or inside a backward
// formula: its operands as bits, its parameters and the counters of a random draw; a kernel of a backward formula reads
// what the arriving gradient became, which is there, too. It is not the call of the op itself, whose other arguments
// are gone when its kernel runs. Only folders from a trusted place: what call.json says is what the kernel does.
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
  /// The op and the program's line, the kernel, each operand's range, and whether it happens.
  std::string text;
  /// What the kernel read and what it wrote, on the CPU.
  std::vector<Tensor> inputs, outputs;
  /// The gradients that arrived at the op's node, for a kernel of its backward.
  std::vector<Tensor> arrived;
};

/// Runs the call on `device`, or on the kind that it came from. Elements are those of then, in row-major order; strides
/// are not kept. IoError and FormatError for a folder that is none, ValueError for a kernel or parameters that this
/// version lacks, NotImplementedError for a kernel that the device lacks, DeviceError where it is not here.
WEFT_API Replayed replay(const Path& folder, std::optional<Device> device = {}, Location where = {});

}  // namespace weft::io
