// Neighbouring columns that one chunk of a kernel walks down together.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../../../tensor/threads.hpp"

namespace weft::cpu {

/// How many of them: up to `most`, since long rows are read as streams, but fewer where `others` such walks are too few
/// for the threads.
inline int64_t block_width(int64_t columns, int64_t others, int64_t most) {
  const int64_t walks = std::max<int64_t>(others, 1), shares = (num_threads() + walks - 1) / walks;
  const int64_t share = (columns + shares - 1) / shares;
  return std::clamp<int64_t>(std::min(columns, (share + 63) / 64 * 64), 1, most);
}

}  // namespace weft::cpu
