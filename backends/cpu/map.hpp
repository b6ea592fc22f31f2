// One pass of a compiled loop over any number of tensors, for weft::map.
#pragma once

#include <span>

#include "../../tensor/view.hpp"

namespace weft::cpu {

inline constexpr int max_map_operands = 20;

struct MapOperand {
  /// Broadcast to the common shape; an output without data is computed and dropped.
  View view;
  /// The type that the loop reads or writes; elements of another dtype are converted around it.
  DType type;
};

/// count elements, contiguous in every operand; outputs come first.
using MapLoop = void (*)(const void* function, void* const* operands, int64_t count);

/// Runs `loop` over the elements of all operands, which have equal sizes. No output may overlap an input.
void run_map(MapLoop loop, const void* function, std::span<const MapOperand> operands, int outputs);

/// Which of a map's loops this processor runs: 0 the baseline's, 1 AVX2's, 2 AVX-512's. WEFT_CPU_TARGET limits it, as
/// it does the kernels.
int map_level();

}  // namespace weft::cpu
