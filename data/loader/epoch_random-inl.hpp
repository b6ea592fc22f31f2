// Random keys of epochs. Internal to data/.
//
// While a sample is loaded, the CPU generator of the thread is one of (seed, epoch, index, position). So transforms
// use `rand` as usual, results do not depend on the number of workers, and a sample drawn twice gets different
// augmentations.
#pragma once

#include <cstdint>

#include "../../tensor/philox.hpp"

namespace weft::data::detail {

/// Returns the key of an epoch: two words of the seed's stream, far from the start of a generator with this seed.
inline uint64_t epoch_seed(uint64_t seed, int64_t epoch) {
  constexpr uint64_t apart = 0x6c6f61646572;
  const PhiloxWords words = philox4x32_10(seed, apart, static_cast<uint64_t>(epoch));
  return words.word[0] | uint64_t{words.word[1]} << 32;
}

}  // namespace weft::data::detail
