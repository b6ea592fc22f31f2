// Registers benchmark cases, one line each: a name as in peers/, a function, and the bytes or flops of one run.
#pragma once

#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include <weft/weft.hpp>

namespace weft::bench {

enum class Mode { recording, no_grad, inference };
enum class Rate { none, bytes, flops };

/// Registers `body` as `name`. `per_run` is the number of operations per call; `work` is the work of one operation.
template <class F>
void add_case(const std::string& name, F body, Mode mode = Mode::recording, double work = 0, Rate rate = Rate::none,
              int64_t per_run = 1) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) mutable {
    const GradModeGuard guard({.enabled = mode == Mode::recording, .inference = mode == Mode::inference});
    body();
    while (state.KeepRunningBatch(per_run)) body();
    if (rate != Rate::none) {
      state.counters[rate == Rate::bytes ? "GB/s" : "GFLOP/s"] =
          benchmark::Counter(work / 1e9, benchmark::Counter::kIsIterationInvariantRate);
    }
  });
}

void add_overhead_cases();
void add_throughput_cases();
void add_gradient_cases();
void add_training_cases();
void add_device_cases();
void add_record_cases();
void add_hook_cases();
void add_observing_cases();
void add_map_cases();
void add_growth_cases();
void add_roof_cases();
void add_saving_cases();
void add_loading_cases();
void add_distributed_cases();
void add_fused_cases();
void add_complex_cases();
void add_func_cases();
void add_sparse_cases();
void add_generation_cases();

}  // namespace weft::bench
