// Random state: the counter-based generator Philox4x32-10, one per device, with the same bits on every device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "atomic.hpp"
#include "device.hpp"
#include "location.hpp"

namespace weft {

/// Position in a stream of random numbers. `offset` counts Philox blocks of four 32-bit words.
struct GeneratorState {
  uint64_t seed = 0;
  uint64_t subsequence = 0;
  uint64_t offset = 0;
  bool operator==(const GeneratorState&) const = default;
};

/// A source of random counters. It buffers no random numbers, so its state is three words. Thread-safe: no two threads
/// get the same counter from one generator.
class WEFT_API Generator {
 public:
  static constexpr uint64_t default_seed = 67280421310721;

  constexpr explicit Generator(uint64_t seed = default_seed) : state_{seed, 0, 0} {}
  Generator(const Generator&) = delete;

  /// Restarts the stream of this seed.
  void manual_seed(uint64_t seed);
  uint64_t seed() const;
  GeneratorState state() const;
  void set_state(GeneratorState state);
  /// Reserves the next `blocks` counters and returns the state at which they start.
  GeneratorState reserve(uint64_t blocks);

  /// The state in 32 bytes, little-endian: algorithm and version (u32), seed, subsequence and offset (u64).
  std::vector<uint8_t> state_bytes() const;
  /// Restores a state. Raises FormatError for another size, algorithm or version, and then leaves the state unchanged.
  void set_state_bytes(std::span<const uint8_t> bytes, Location where = {});

 private:
  mutable Atomic<uint32_t> locked_{0};
  GeneratorState state_;
};

/// The generator that random ops on `device` use by default.
WEFT_API Generator& default_generator(Device device = {});

/// Makes `generator` the calling thread's default generator of the CPU until destruction. Guards must be destroyed on
/// their own thread, in reverse order.
class WEFT_API GeneratorGuard {
 public:
  explicit GeneratorGuard(Generator& generator);
  ~GeneratorGuard();
  GeneratorGuard(const GeneratorGuard&) = delete;

 private:
  Generator* outer_;
};
/// The devices with a default generator: the first of each type, whether it exists or not, and every other one that was
/// requested.
WEFT_API std::vector<Device> devices_with_generators();
/// Seeds the default generators of all devices; for the CPU, only that of the calling thread.
WEFT_API void manual_seed(uint64_t seed);

}  // namespace weft
