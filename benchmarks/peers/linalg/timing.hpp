// The best of a few runs, in milliseconds.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>

template <class F>
void report(const char* name, F f, int runs = 5) {
  using Clock = std::chrono::steady_clock;
  f();
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const auto begin = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  std::printf("  %-12s %8.2f ms\n", name, best);
}
