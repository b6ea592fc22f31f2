// Pairs of cases: alternates between the same work without and with a feature, so that other load affects both alike.
#pragma once

#include <algorithm>
#include <chrono>

#include "case.hpp"

namespace weft::bench {

using Clock = std::chrono::steady_clock;

inline double median(std::vector<double>& v) {
  std::nth_element(v.begin(), v.begin() + static_cast<int64_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// Prints both medians and the difference in percent. Each call of either function makes `runs` runs.
template <class Without, class With>
void add_pair_of_batches(const std::string& name, int runs, Without without, With with) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) mutable {
    std::vector<double> base, changed;
    const auto time = [runs](auto& f, std::vector<double>& out) {
      const auto start = Clock::now();
      f();
      out.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() / runs);
    };
    without(), with();
    while (state.KeepRunningBatch(runs)) {
      time(without, base);
      time(with, changed);
      state.SetIterationTime(changed.back() * runs * 1e-9);
    }
    const double before = median(base), after = median(changed);
    state.counters["without_ns"] = before;
    state.counters["with_ns"] = after;
    state.counters["percent"] = (after / before - 1) * 100;
  })->UseManualTime();
}

template <class F>
auto repeated(int runs, F f) {
  return [=]() mutable {
    for (int i = 0; i < runs; ++i) f();
  };
}

/// As above for functions of a single run, called `runs` times per measurement; use more for runs of nanoseconds.
template <class Without, class With>
void add_pair(const std::string& name, int runs, Without without, With with) {
  add_pair_of_batches(name, runs, repeated(runs, std::move(without)), repeated(runs, std::move(with)));
}

}  // namespace weft::bench
