// Common to the fuzzers: arguments, loop and output.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace weft {

/// The flaw in an error's text, or empty: at most three lines and a limited size.
inline std::string problem_of(const std::string& words, size_t most_bytes = 1000) {
  if (words.size() <= most_bytes && std::ranges::count(words, '\n') <= 2) return {};
  return "a long error: " + words.substr(0, most_bytes);
}

inline int failed(uint64_t seed, const std::string& name, const std::string& problem) {
  std::printf("FAILED --seed %llu --count 1 (%s): %s\n", static_cast<unsigned long long>(seed), name.c_str(),
              problem.c_str());
  return 1;
}

/// Calls `once(seed)`, which returns 0 or ends the run, for `count` seeds from `first` on.
template <class Once>
int for_seeds(uint64_t count, uint64_t first, Once&& once) {
  for (uint64_t seed = first; seed < first + count; ++seed) {
    if (const int code = once(seed); code != 0) return code;
  }
  return 0;
}

/// Says how many of the inputs were taken; a run of any length must have taken some, at least one of `one_in`, and
/// refused some.
inline int summary(uint64_t count, uint64_t taken, const char* what, uint64_t one_in = 0) {
  std::printf("%llu %s, %llu of them loaded\n", static_cast<unsigned long long>(count), what,
              static_cast<unsigned long long>(taken));
  const bool too_few = one_in == 0 ? taken == 0 : taken * one_in < count;
  return count >= 1000 && (too_few || taken * 2 > count) ? 1 : 0;
}

/// usage: PROGRAM [--count N] [--seed N]; `run` is called with both.
template <class Run>
int fuzz_main(int argc, char** argv, uint64_t count, Run&& run) {
  uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--count") count = std::strtoull(argv[i + 1], nullptr, 10);
    else if (option == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
    else return std::fprintf(stderr, "unknown option %s\n", argv[i]), 2;
  }
  return run(count, seed);
}

}  // namespace weft
