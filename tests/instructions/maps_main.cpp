// Runs every case over f32 under `valgrind --tool=callgrind --collect-atstart=no`; each leaves a dump of its own. The
// first line printed says how many elements a dump holds, the others name the cases and their limits.
// With --same-bits it compares what the SIMD levels compute instead, with --time it prints nanoseconds an element.
#include <valgrind/callgrind.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include <weft/backends/cpu/map.hpp>

#include "maps.hpp"

namespace weft::testing {

std::vector<MapCase>& map_cases() {
  static std::vector<MapCase> cases;
  return cases;
}

namespace {

constexpr int64_t elements = 4099;
constexpr int count = cpu::max_map_operands;

/// Room for any operand of a loop; all hold numbers between 1/4 and 3/4.
struct Operands {
  std::vector<float> memory = std::vector<float>(count * elements);
  void* at[count];

  Operands() {
    fill();
    for (int k = 0; k < count; ++k) at[k] = memory.data() + k * elements;
  }
  void fill() {
    for (int64_t i = 0; i < count * elements; ++i) {
      memory[static_cast<size_t>(i)] = 0.25f + static_cast<float>(i * 7919 % 100003) / 200006;
    }
  }
};

void count_instructions(const MapCase& c) {
  Operands operands;
  const detail::MapLoop::Function loop = c.loop->at[cpu::map_level()];
  CALLGRIND_ZERO_STATS;
  CALLGRIND_TOGGLE_COLLECT;
  loop(nullptr, operands.at, elements);
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_DUMP_STATS_AT(c.name.c_str());
  std::printf("%s %d\n", c.name.c_str(), c.limit);
}

void time(const MapCase& c) {
  Operands operands;
  std::vector<double> nanoseconds;
  for (int i = 0; i < 101; ++i) {
    const auto start = std::chrono::steady_clock::now();
    c.loop->at[cpu::map_level()](nullptr, operands.at, elements);
    nanoseconds.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
    operands.fill();
  }
  std::nth_element(nanoseconds.begin(), nanoseconds.begin() + 50, nanoseconds.end());
  std::printf("%-24s %7.3f ns\n", c.name.c_str(), nanoseconds[50] / elements);
}

bool levels_agree(const MapCase& c) {
  Operands first;
  c.loop->at[0](nullptr, first.at, elements);
  for (int level = 1; level <= cpu::map_level(); ++level) {
    Operands other;
    c.loop->at[level](nullptr, other.at, elements);
    if (std::memcmp(first.memory.data(), other.memory.data(), first.memory.size() * sizeof(float)) == 0) continue;
    std::printf("%s: level %d gives other bits than level 0\n", c.name.c_str(), level);
    return false;
  }
  return true;
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  const char* mode = argc > 1 ? argv[1] : "";
  std::printf("%d elements, SIMD level %d\n", static_cast<int>(elements), weft::cpu::map_level());
  bool good = !map_cases().empty();
  for (const MapCase& c : map_cases()) {
    if (std::strcmp(mode, "--same-bits") == 0) good &= levels_agree(c);
    else if (std::strcmp(mode, "--time") == 0) time(c);
    else count_instructions(c);
  }
  return good ? 0 : 1;
}
