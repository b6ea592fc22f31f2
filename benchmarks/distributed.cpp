// Collectives between threads. process/mpi_all_reduce.cpp compares those between processes with MPI's.
#include <weft/distributed.hpp>

#include "case.hpp"

namespace weft::bench {

namespace {

using namespace distributed;

/// Measures rank 0; the other ranks make the same calls.
template <class F>
void add_collective(const std::string& name, int ranks, F call) {
  benchmark::RegisterBenchmark(("distributed." + name + ".ranks" + std::to_string(ranks)).c_str(),
                               [=](benchmark::State& state) {
                                 LocalWorld(ranks).run([&](const Group& group) {
                                   const NoGradGuard unrecorded;
                                   auto body = call(group);
                                   body();
                                   if (group.rank() == 0) {
                                     for ([[maybe_unused]] auto _ : state) body();
                                   } else {
                                     for (auto i = state.max_iterations; i > 0; --i) body();
                                   }
                                 });
                               })
      ->UseRealTime();
}

}  // namespace

void add_distributed_cases() {
  for (const int ranks : {1, 2}) {
    add_collective("barrier", ranks, [](const Group& group) { return [&group] { barrier(group); }; });
    add_collective("add_in_parts.32x32", ranks, [](const Group& group) {
      const DTensor x = shard_tensor(ones({32, 32}), Mesh({group.size()}, {}, group), {Shard(0)});
      return [x] { x + x; };
    });
    for (const int64_t bytes : {int64_t{4}, int64_t{4} << 10, int64_t{1} << 20, int64_t{64} << 20}) {
      const std::string size = bytes < 1024 ? std::to_string(bytes) + "B" : std::to_string(bytes >> 10) + "KiB";
      add_collective("all_reduce." + size, ranks, [bytes](const Group& group) {
        return [&group, x = zeros({bytes / 4})] { all_reduce_(x, group); };
      });
    }
  }
}

}  // namespace weft::bench
