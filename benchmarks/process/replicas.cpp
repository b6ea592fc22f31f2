// Trains replicas of the benchmark's character GPT; prints sequences per second over all ranks.
//   OMP_NUM_THREADS=1 taskset -c 1 build/release/benchmarks/weft_replicas
//   mpirun -n 2 --bind-to core -x OMP_NUM_THREADS=1 build/release/benchmarks/weft_replicas
// "sharded": shards the optimizer's state. "apart": reduces gradients after backward instead of during it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include <weft/distributed.hpp>

#include "../models.hpp"

using namespace weft;
using namespace weft::distributed;

int main(int argc, char** argv) {
  const std::string_view how = argc > 1 ? argv[1] : "overlapped";
  const int steps = argc > 2 ? std::atoi(argv[2]) : 40;
  constexpr int64_t batch = 16;
  const Group group = world();
  manual_seed(1);
  bench::Gpt net(65, 128, 128, 4, 4);
  manual_seed(2 + static_cast<uint64_t>(group.rank()));
  const Tensor x = randint(0, 65, {batch, 128}), y = randint(0, 65, {batch, 128});
  const auto backward_of = [&] { cross_entropy(net(x).view({-1, 65}), y.view({-1})).backward(); };

  optim::AdamW optimizer(net.parameters(), {.lr = 3e-4});
  std::optional<ShardedOptimizer> sharded;
  std::optional<DataParallel> replicas;
  if (how == "sharded")
    sharded.emplace(optim::AdamW(net.parameters(), {.lr = 3e-4}), ShardedOptimizerOptions{.stage = 2});
  else replicas.emplace(net.parameters(), DataParallelOptions{.bucket_bytes = 1 << 20});

  std::vector<double> seconds;
  for (int i = 0; i < steps; ++i) {
    barrier(group);
    const auto begin = std::chrono::steady_clock::now();
    if (sharded) {
      sharded->zero_grad();
      backward_of();
      sharded->step();
    } else {
      optimizer.zero_grad();
      if (how == "apart") {
        const auto alone = replicas->no_sync();
        backward_of();
      } else {
        backward_of();
      }
      replicas->finish();
      optimizer.step();
    }
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::nth_element(seconds, seconds.begin() + steps / 2);
  const double median = seconds[static_cast<size_t>(steps / 2)];
  if (group.rank() == 0) {
    std::printf("%d ranks, %s: %.1f sequences a second (%.2f ms a step, median of %d)\n", group.size(),
                argc > 1 ? argv[1] : "overlapped", batch * group.size() / median, median * 1e3, steps);
  }
}
