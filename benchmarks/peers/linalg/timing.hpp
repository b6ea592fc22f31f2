// The best of a few runs, in milliseconds of CPU time, as in benchmarks/linalg.py.
#pragma once

#include <algorithm>
#include <cstdio>
#include <ctime>

inline double milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

template <class F>
void report(const char* name, F f, int runs = 5) {
  f();
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const double begin = milliseconds();
    f();
    best = std::min(best, milliseconds() - begin);
  }
  std::printf("  %-12s %8.2f ms\n", name, best);
}
