// Random state: counter-based Philox4x32-10, one generator per device, the same bits on every device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "atomic.hpp"
#include "device.hpp"
#include "location.hpp"

namespace weft {

/// Where a stream of random numbers stands. `offset` counts Philox blocks of four 32-bit words.
struct GeneratorState {
  uint64_t seed = 0;
  uint64_t subsequence = 0;
  uint64_t offset = 0;
  bool operator==(const GeneratorState&) const = default;
};

/// A source of random counters. No drawn numbers are buffered, so three words are its whole state. Thread-safe: threads
/// that draw from one generator never get the same counter.
class WEFT_API Generator {
 public:
  static constexpr uint64_t default_seed = 67280421310721;

  constexpr explicit Generator(uint64_t seed = default_seed) : state_{seed, 0, 0} {}
  Generator(const Generator&) = delete;

  /// Starts over from the first number of this seed.
  void manual_seed(uint64_t seed);
  uint64_t seed() const;
  GeneratorState state() const;
  void set_state(GeneratorState state);
  /// Takes the next `blocks` counters, which start at the returned state.
  GeneratorState reserve(uint64_t blocks);

  /// Exact bytes: algorithm and version (u32), seed, subsequence and offset (u64), little-endian.
  std::vector<uint8_t> state_bytes() const;
  /// FormatError for another size, algorithm or version; the state then stays as it was.
  void set_state_bytes(std::span<const uint8_t> bytes, Location where = {});

 private:
  mutable Atomic<uint32_t> locked_{0};
  GeneratorState state_;
};

/// The generator that random ops on `device` use unless given another.
WEFT_API Generator& default_generator(Device device = {});

/// While it lives, `generator` is the calling thread's default generator of the CPU. Guards are destroyed on their own
/// thread, newest first.
class WEFT_API GeneratorGuard {
 public:
  explicit GeneratorGuard(Generator& generator);
  ~GeneratorGuard();
  GeneratorGuard(const GeneratorGuard&) = delete;

 private:
  Generator* outer_;
};
/// The devices that have a default generator: the first of each kind, whether it exists or not, and every other one
/// whose generator was asked for.
WEFT_API std::vector<Device> devices_with_generators();
/// Seeds the default generator of every device; of the CPU, that of the calling thread.
WEFT_API void manual_seed(uint64_t seed);

}  // namespace weft
