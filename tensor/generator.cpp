#include "generator.hpp"

#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "device_kinds.hpp"
#include "error.hpp"
#include "capture_recorder.hpp"
#include "word_lock.hpp"
#include "expect-inl.hpp"

namespace weft {

namespace {

constexpr uint32_t algorithm = 1;  // Philox4x32-10
constexpr uint32_t state_version = 1;
constexpr size_t state_size = 2 * sizeof(uint32_t) + 3 * sizeof(uint64_t);

template <class T>
void append(std::vector<uint8_t>& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
}
template <class T>
T read(std::span<const uint8_t> bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(bytes[at + i]) << (8 * i);
  return value;
}

[[noreturn]] void raise_format(std::string problem, Location where) {
  raise<FormatError>({.op = "set_rng_state",
                      .problem = std::move(problem),
                      .remedy = "pass the result of get_rng_state; the generator is unchanged"},
                     where);
}

// The first device of each type needs no lock; generators of others are created on request.
constinit Generator first_generators[device_type_count];
constinit thread_local Generator* thread_generator = nullptr;

struct OtherGenerators {
  std::mutex mutex;
  std::map<int, Generator> by_device;
  uint64_t seed = Generator::default_seed;
};
OtherGenerators& others() {
  static OtherGenerators o;
  return o;
}

}  // namespace

void Generator::manual_seed(uint64_t seed) { set_state({seed, 0, 0}); }

uint64_t Generator::seed() const { return state().seed; }

GeneratorState Generator::state() const {
  const detail::WordLock lock(locked_);
  return state_;
}

void Generator::set_state(GeneratorState state) {
  GeneratorState before = state;
  {
    const detail::WordLock lock(locked_);
    std::swap(before, state_);
  }
  if (WEFT_UNLIKELY(detail::capture_recorder != nullptr)) detail::capture_recorder->moved(*this, before, state);
}

GeneratorState Generator::reserve(uint64_t blocks) {
  GeneratorState first;
  {
    const detail::WordLock lock(locked_);
    first = state_;
    state_.offset += blocks;
  }
  if (WEFT_UNLIKELY(detail::capture_recorder != nullptr)) detail::capture_recorder->drew(*this, first);
  return first;
}

std::vector<uint8_t> Generator::state_bytes() const {
  const GeneratorState s = state();
  std::vector<uint8_t> bytes;
  bytes.reserve(state_size);
  append(bytes, algorithm);
  append(bytes, state_version);
  append(bytes, s.seed);
  append(bytes, s.subsequence);
  append(bytes, s.offset);
  return bytes;
}

void Generator::set_state_bytes(std::span<const uint8_t> bytes, Location where) {
  if (bytes.size() != state_size) {
    raise_format(mismatch_text("state", fmt::format("{} bytes", state_size), bytes.size()), where);
  }
  if (const auto found = read<uint32_t>(bytes, 0); found != algorithm) {
    raise_format(fmt::format("random state of an unknown algorithm {}", found), where);
  }
  if (const auto found = read<uint32_t>(bytes, 4); found != state_version) {
    raise_format(mismatch_text("version of the state", state_version, found), where);
  }
  set_state({read<uint64_t>(bytes, 8), read<uint64_t>(bytes, 16), read<uint64_t>(bytes, 24)});
}

Generator& default_generator(Device device) {
  if (WEFT_UNLIKELY(thread_generator != nullptr) && device.is_cpu()) return *thread_generator;
  if (device.index == 0) return first_generators[static_cast<int>(device.type)];
  OtherGenerators& o = others();
  std::lock_guard lock(o.mutex);
  return o.by_device.try_emplace(static_cast<int>(device.type) * 256 + device.index, o.seed).first->second;
}

GeneratorGuard::GeneratorGuard(Generator& generator) : outer_(std::exchange(thread_generator, &generator)) {}
GeneratorGuard::~GeneratorGuard() { thread_generator = outer_; }

std::vector<Device> devices_with_generators() {
  std::vector<Device> out = {Device(DeviceType::cpu)};
  for (const DeviceType type : detail::named_kinds()) {
    if (is_numbered(type)) out.emplace_back(type);
  }
  OtherGenerators& o = others();
  std::lock_guard lock(o.mutex);
  for (const auto& [device, generator] : o.by_device) {
    out.emplace_back(static_cast<DeviceType>(device / 256), device % 256);
  }
  return out;
}

void manual_seed(uint64_t seed) {
  for (int type = 0; type < device_type_count; ++type) {
    default_generator(Device(static_cast<DeviceType>(type), 0)).manual_seed(seed);
  }
  OtherGenerators& o = others();
  std::lock_guard lock(o.mutex);
  o.seed = seed;
  for (auto& [device, generator] : o.by_device) generator.manual_seed(seed);
}

}  // namespace weft
