// weft-bench: runs the cases of this folder with Google Benchmark. Start it with `./weft bench`.
#include "case.hpp"

int main(int argc, char** argv) {
  weft::bench::add_overhead_cases();
  weft::bench::add_throughput_cases();
  weft::bench::add_gradient_cases();
  weft::bench::add_training_cases();
  weft::bench::add_device_cases();
  weft::bench::add_record_cases();
  weft::bench::add_hook_cases();
  weft::bench::add_observing_cases();
  weft::bench::add_saving_cases();
  weft::bench::add_loading_cases();
  weft::bench::add_distributed_cases();
  weft::bench::add_fused_cases();
  weft::bench::add_complex_cases();
  weft::bench::add_func_cases();
  weft::bench::add_sparse_cases();
  weft::bench::add_generation_cases();
  weft::bench::add_map_cases();
  weft::bench::add_growth_cases();
  weft::bench::add_roof_cases();
  benchmark::AddCustomContext("threads", std::to_string(weft::num_threads()));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
