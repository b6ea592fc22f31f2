// The machine's limits, measured in the same run as the compared cases: peak rate of fused multiply-adds, and
// bandwidth. Uses all threads of the pool.
#include <cstring>

#include <weft/bench/roof.hpp>

#include "case.hpp"

namespace weft::bench {

/// Adds only cases with instructions that the processor supports.
void add_roof_cases() {
  const auto add_peak = [](const char* name, PeakLoop peak) {
    if (peak.run == nullptr) return;
    const auto run = [peak] { cpu::parallel_for(num_threads(), 1, [&](int64_t, int64_t) { peak.run(); }); };
    add_case(name, run, Mode::no_grad, peak.operations * num_threads(), Rate::flops);
  };
  add_peak("roof.fma_f32", peak_f32());
  add_peak("roof.dot_bf16", peak_bf16());
  for (const auto& [size, n] : {std::pair{"1e5", int64_t{100000}}, {"1e7", 10000000}, {"1e8", 100000000}}) {
    const double w = static_cast<double>(n);
    add_case(
        std::string("roof.memcpy.") + size,
        [a = randn({n}), o = empty({n})] {
          on_all_threads(a.numel(), [to = o.data<float>(), from = a.data<float>()](int64_t begin, int64_t end) {
            std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin) * sizeof(float));
          });
          benchmark::ClobberMemory();
        },
        Mode::no_grad, 8 * w, Rate::bytes);
    if (stream_copy() == nullptr || read_all() == nullptr) continue;
    add_case(
        std::string("roof.stream.") + size,
        [a = randn({n}), o = empty({n})] {
          on_all_threads(a.numel(), [to = o.data<float>(), from = a.data<float>()](int64_t begin, int64_t end) {
            stream_copy()(to + begin, from + begin, end - begin);
          });
        },
        Mode::no_grad, 8 * w, Rate::bytes);
    add_case(
        std::string("roof.read.") + size,
        [a = randn({n})] {
          on_all_threads(a.numel(), [from = a.data<float>()](int64_t begin, int64_t end) {
            read_all()(from + begin, end - begin);
          });
        },
        Mode::no_grad, 4 * w, Rate::bytes);
  }
}

}  // namespace weft::bench
